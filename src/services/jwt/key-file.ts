import { createPublicKey } from 'node:crypto'
import type { JsonWebKey, KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describeReadError } from '../../util/files.ts'
import { isJsonObject } from '../../util/json.ts'

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
  return text.trimStart().startsWith('-----BEGIN ') ? pemProblem : checkKeys(text)
}

/** The keys of a PEM file have no ids, and tokens name the key that has signed them. */
const pemProblem: KeyFileProblem = {
  message: 'the file is PEM, not a JSON Web Key Set',
  hint:
    `node -p "JSON.stringify(crypto.createPublicKey(fs.readFileSync('FILE')).export({ format: 'jwk' }))" prints a key of the set ` +
    '{ "keys": [ … ] }; add the "kid" that tokens name',
}

const checkKeys = (text: string): KeyFile | KeyFileProblem => {
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
  if (key.kty === 'oct') throw new UnsuitableKey('this key is symmetric', 'whoever verifies with it could make tokens: use a key pair')
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
