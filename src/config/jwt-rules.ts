import { dirname, resolve } from 'node:path'
import type { Infer } from '../plugin/options-schema.ts'
import type { JwtOptions } from '../services/jwt/index.ts'
import { readKeyFile } from '../services/jwt/key-file.ts'
import { isJsonObject } from '../util/json.ts'
import { asymmetricAlgorithms, secretAlgorithms } from './jwt-schema.ts'
import type { jwtSchema } from './jwt-schema.ts'
import { isSecureUrl } from './portal-rules.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

/** Rules of `jwt` that its schema cannot express. */
export const jwtProblems = (source: YamlFile): readonly Problem[] =>
  isJsonObject(source.valueAt(['jwt']))
    ? [
        ...keySourceProblems(source),
        ...urlProblems(source),
        ...fileProblems(source),
        ...secretProblems(source),
        ...algorithmProblems(source),
      ]
    : []

/** The algorithms follow from the keys unless they are given. */
export const withAlgorithms = ({ algorithms, ...options }: Infer<typeof jwtSchema>): JwtOptions => ({
  ...options,
  algorithms: algorithms ?? (options.secret === undefined ? asymmetricAlgorithms : secretAlgorithms),
})

const keySources = ['jwks', 'keyFile', 'secret'] as const

const keySourceProblems = (source: YamlFile): readonly Problem[] => {
  const [first, ...others] = keySources.filter(name => source.valueAt(['jwt', name]) !== undefined)
  if (first === undefined) {
    return [
      source.problemAtKey(
        ['jwt'],
        'jwt must have jwks, keyFile or secret',
        'for example jwks: https://login.example.org/.well-known/jwks.json',
      ),
    ]
  }
  return others.map(other =>
    source.problemAtKey(['jwt', other], `jwt must have one of jwks, keyFile and secret: ${first} and ${other} are given`),
  )
}

const urlProblems = (source: YamlFile): readonly Problem[] => {
  const path = ['jwt', 'jwks']
  const text = source.textAt(path)
  if (text === undefined || !/^https?:/.test(text)) return []
  if (hasCredentials(text)) return [source.problemAt(path, 'jwt.jwks must have no user and password', 'the keys of an issuer are public')]
  if (isSecureUrl(text)) return []
  return [
    source.problemAt(
      path,
      'jwt.jwks must be an https:// URL',
      'http:// is for an issuer on this machine: elsewhere the keys could be replaced on their way',
    ),
  ]
}

const fileProblems = (source: YamlFile): readonly Problem[] => {
  const path = ['jwt', 'keyFile']
  const text = source.textAt(path)
  const read = text ? readKeyFile(resolve(dirname(source.path), text)) : undefined
  return read === undefined || 'keys' in read ? [] : [source.problemAt(path, `jwt.keyFile: ${read.message}`, read.hint)]
}

/** fetch() refuses such a URL, with a message that quotes it. */
const hasCredentials = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { username, password } = new URL(text)
  return username !== '' || password !== ''
}

/** RFC 7518, 3.2: as long as the hash. */
const minSecretBytes = 32

const secretProblems = (source: YamlFile): readonly Problem[] => {
  const path = ['jwt', 'secret']
  const text = source.textAt(path)
  if (text === undefined || Buffer.byteLength(text) >= minSecretBytes) return []
  return [
    source.problemAt(path, `jwt.secret must have at least ${minSecretBytes} bytes`, 'for example the output of openssl rand -base64 32'),
  ]
}

const algorithmProblems = (source: YamlFile): readonly Problem[] => {
  const list = source.valueAt(['jwt', 'algorithms'])
  const isSecret = source.valueAt(['jwt', 'secret']) !== undefined
  const [unfit, fitting] = isSecret ? [asymmetricAlgorithms, secretAlgorithms] : [secretAlgorithms, asymmetricAlgorithms]
  return (Array.isArray(list) ? [...list.keys()] : []).flatMap(index => {
    const path = ['jwt', 'algorithms', index]
    const text = source.textAt(path)
    if (!unfit.some(algorithm => algorithm === text)) return []
    const message = isSecret ? `the algorithm ${text} needs a public key, not jwt.secret` : `the algorithm ${text} needs jwt.secret`
    return [source.problemAt(path, message, `use ${fitting.join(', ')}`)]
  })
}
