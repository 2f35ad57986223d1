import { createPublicKey } from 'node:crypto'
import type { JsonWebKey, KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose'
import { describeReadError } from '../../util/files.ts'
import { isJsonObject } from '../../util/json.ts'
import { ContentWatch } from '../content-watch.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Gauge } from '../metrics.ts'
import { KeySetUnavailable } from './key-set.ts'
import type { KeySet, KeySetServices } from './key-set.ts'

/** The keys of a file, which is read again when it changes. */
export class FileKeySet implements KeySet {
  version = 0
  readonly #path: string
  readonly #services: KeySetServices
  readonly #isSuccessful: Gauge
  readonly #watch: ContentWatch
  #getKey: JWTVerifyGetKey | undefined

  constructor(path: string, services: KeySetServices) {
    this.#path = path
    this.#services = services
    this.#isSuccessful = services.metrics.gauge(metricDefinitions.jwtKeysReloadSuccessful, {})
    this.#watch = new ContentWatch({ folders: [dirname(path)], files: () => [path] }, services.clock)
    this.#read()
    this.#watch.start(() => this.#read())
  }

  readonly getKey: JWTVerifyGetKey = async (header, token) => {
    if (this.#getKey === undefined) throw new KeySetUnavailable('the file of keys cannot be used')
    return this.#getKey(header, token)
  }

  close(): void {
    this.#watch.stop()
  }

  /** With a file that has a problem, the keys from before are used on. */
  #read(): void {
    const { jose, log } = this.#services
    const read = readKeyFile(this.#path)
    this.#isSuccessful.set('keys' in read ? 1 : 0)
    if (!('keys' in read)) {
      const reason = read.hint === undefined ? read.message : `${read.message}; ${read.hint}`
      log.error({ event: 'jwt-keys-unavailable', file: this.#path, reason }, `keys of tokens not loaded: ${reason}`)
      return
    }
    this.#getKey = jose.createLocalJWKSet({ keys: [...read.keys] } as JSONWebKeySet) // readKeyFile() has checked the keys
    this.version += 1
    log.info({ event: 'jwt-keys-loaded', file: this.#path }, 'keys of tokens loaded')
  }
}

/** Public keys of a file. */
interface KeyFile {
  readonly keys: readonly JsonWebKey[]
}

/** Why the file cannot be used. The message never has content of the file. */
interface KeyFileProblem {
  readonly message: string
  readonly hint?: string
}

/** Reads a file of public keys: a JSON Web Key Set (RFC 7517). */
export const readKeyFile = (path: string): KeyFile | KeyFileProblem => {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    return { message: describeReadError(error) }
  }
  return text.trimStart().startsWith('-----BEGIN ') ? pemProblem : parseKeySet(text)
}

/** The keys of a PEM file have no ids, and tokens name the key that has signed them. */
const pemProblem: KeyFileProblem = {
  message: 'the file is PEM, not a JSON Web Key Set',
  hint:
    `node -p "JSON.stringify(crypto.createPublicKey(fs.readFileSync('FILE')).export({ format: 'jwk' }))" prints a key of the set ` +
    '{ "keys": [ … ] }; add the "kid" that tokens name',
}

const parseKeySet = (text: string): KeyFile | KeyFileProblem => {
  const keys = keysOf(text)
  if (keys === undefined || keys.length === 0) return { message: 'the file has no JSON Web Key Set', hint: 'it is { "keys": [ … ] }' }
  for (const [index, key] of keys.entries()) {
    const problem = keyProblem(() => publicKeyOf(key))
    if (problem !== undefined) return { ...problem, message: `key ${index + 1}: ${problem.message}` }
  }
  return { keys }
}

const keysOf = (text: string): readonly JsonWebKey[] | undefined => {
  try {
    const { keys }: { keys?: unknown } = JSON.parse(text)
    return Array.isArray(keys) && keys.every(isJsonObject) ? keys : undefined
  } catch {
    return undefined
  }
}

/** Node.js would take the public part of a private key without a word. */
const publicKeyOf = (key: JsonWebKey): KeyObject => {
  if (key.kty === 'oct') throw new UnsuitableKey('this key is symmetric', 'a secret that both sides share is jwt.secret')
  if (key.d !== undefined)
    throw new UnsuitableKey('this key is private', 'the file needs the public key alone: remove the member d and what follows from it')
  return createPublicKey({ key, format: 'jwk' })
}

class UnsuitableKey extends Error {
  readonly hint: string

  constructor(message: string, hint: string) {
    super(message)
    this.hint = hint
  }
}

const minRsaBits = 2_048
const curves = ['prime256v1', 'secp384r1', 'secp521r1']

const keyProblem = (read: () => KeyObject): KeyFileProblem | undefined => {
  try {
    const { asymmetricKeyType: type, asymmetricKeyDetails: { modulusLength = 0, namedCurve = '' } = {} } = read()
    if (type === 'rsa')
      return modulusLength < minRsaBits ? { message: `an RSA key must have at least ${minRsaBits} bits, not ${modulusLength}` } : undefined
    if (type === 'ed25519' || (type === 'ec' && curves.includes(namedCurve))) return undefined
    return { message: `keys of the type ${namedCurve || type} are not supported`, hint: 'use RSA, P-256, P-384, P-521 or Ed25519' }
  } catch (error) {
    return error instanceof UnsuitableKey ? error : { message: 'the key cannot be read' }
  }
}
