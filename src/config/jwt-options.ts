import { dirname, resolve } from 'node:path'
import type { Infer, ObjectSchema } from '../plugin/options-schema.ts'
import type { JwtOptions } from '../services/jwt/index.ts'
import { readKeyFile } from '../services/jwt/key-file.ts'
import { isJsonObject } from '../util/json.ts'
import { isSecureUrl } from './addresses.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

/** Of keys of which only the issuer has the private part. */
const asymmetricAlgorithms = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
] as const

/** Of a secret that both sides share. */
const secretAlgorithms = ['HS256', 'HS384', 'HS512'] as const

/** `jwt` of gateway.yaml. */
export const jwtSchema = {
  type: 'object',
  description:
    'Tokens (JWT) in place of API keys: a claim of the token names the key. Exactly one of `jwks`, `keyFile` and `secret` verifies them. ' +
    'Without it, tokens are not accepted.',
  properties: {
    issuer: {
      type: 'string',
      minLength: 1,
      description: 'The claim `iss` that tokens must have.',
      examples: ['https://login.example.org'],
    },
    audience: {
      type: 'array',
      items: { type: 'string', minLength: 1 },
      minItems: 1,
      description: 'The claim `aud` of a token must name one of these: tokens that the issuer has made for other services are refused.',
      examples: [['tollgate']],
    },
    jwks: {
      type: 'string',
      pattern: '^https?://[^#]+$',
      label: 'a URL such as https://login.example.org/.well-known/jwks.json',
      description: 'The URL of the JSON Web Key Set of the issuer, without user and password.',
      examples: ['https://login.example.org/.well-known/jwks.json'],
    },
    keyFile: {
      type: 'string',
      format: 'path',
      description: 'A file of public keys, relative to this file: a JSON Web Key Set. It is read again when it changes.',
      examples: ['jwt-keys.json'],
    },
    secret: {
      type: 'string',
      format: 'secret',
      description:
        'A secret of at least 32 bytes that the issuer signs with (HS256). Whoever knows it can make tokens: prefer the other two.',
      examples: ['${JWT_SECRET}'],
    },
    algorithms: {
      type: 'array',
      items: { type: 'string', enum: [...asymmetricAlgorithms, ...secretAlgorithms] },
      minItems: 1,
      description:
        'The algorithms that signatures may have; all that fit public keys, or `secret`, if absent. A token without a signature is never accepted.',
      examples: [['ES256']],
    },
    claim: {
      type: 'string',
      minLength: 1,
      default: 'sub',
      description:
        'The claim that has the id of the API key, such as key_3fKx81bQ2mZa. The limits, lists and revocation of that key apply.',
      examples: ['https://example.org/tollgate-key'],
    },
    clockTolerance: {
      type: 'string',
      format: 'duration',
      usual: { min: '1s', max: '5m' },
      default: '30s',
      description:
        'How far the clock of the issuer may be off: a token is accepted for so long after it has expired, and before it is valid.',
    },
    maxAge: {
      type: 'string',
      format: 'duration',
      usual: { min: '10s', max: '90d' },
      description:
        'The greatest age of a token by its claim `iat`, which it then must have. Without it, `exp` alone ends a token; every token must have that.',
      examples: ['1h'],
    },
  },
  required: ['issuer', 'audience'],
} as const satisfies ObjectSchema

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
