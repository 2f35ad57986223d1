import { X509Certificate, createPrivateKey } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describeReadError } from '../util/files.ts'

/** The paths of two PEM files. */
export interface TlsFiles {
  /** The certificate, followed by its chain. */
  readonly cert: string
  /** The private key. */
  readonly key: string
}

/** Both in PEM. */
export interface TlsTexts {
  readonly cert: string
  readonly key: string
}

/** What was read, and fits. */
export interface TlsKeyPair extends TlsTexts {
  /** The first is that of the server. */
  readonly chain: readonly X509Certificate[]
}

/** Why the files cannot be used. The message never has content of the files. */
export interface TlsFileProblem {
  readonly option: keyof TlsFiles
  readonly message: string
  readonly hint?: string
}

/** Reads both files, and verifies that Node.js serves TLS with them. */
export const readTlsFiles = ({ cert: certFile, key: keyFile }: TlsFiles): TlsKeyPair | TlsFileProblem => {
  const certificate = readCertificates(certFile)
  if ('option' in certificate) return certificate
  const privateKey = readKey(keyFile)
  if ('option' in privateKey) return privateKey
  const pair = { cert: certificate.text, key: privateKey.text, chain: certificate.chain }
  return mismatchOf(pair, privateKey.key) ?? contextProblem(pair) ?? pair
}

const certificatePattern = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

const chainOf = (text: string): readonly X509Certificate[] => (text.match(certificatePattern) ?? []).map(pem => new X509Certificate(pem))

/** Of texts that were read before. */
export const toKeyPair = ({ cert, key }: TlsTexts): TlsKeyPair => ({ cert, key, chain: chainOf(cert) })

const readCertificates = (file: string): { readonly text: string; readonly chain: readonly X509Certificate[] } | TlsFileProblem => {
  const text = readPem('cert', file)
  if (typeof text !== 'string') return text
  try {
    const chain = chainOf(text)
    if (chain.length > 0) return { text, chain }
  } catch {
    // Between the lines of PEM is no certificate.
  }
  return { option: 'cert', message: 'the file has no certificate in PEM format', hint: 'it begins with -----BEGIN CERTIFICATE-----' }
}

const readKey = (file: string): { readonly text: string; readonly key: KeyObject } | TlsFileProblem => {
  const text = readPem('key', file)
  if (typeof text !== 'string') return text
  try {
    return { text, key: createPrivateKey(text) }
  } catch {
    return text.includes('ENCRYPTED')
      ? { option: 'key', message: 'the private key is encrypted', hint: 'remove its passphrase: openssl pkey -in KEY -out NEW_KEY' }
      : { option: 'key', message: 'the file has no private key in PEM format', hint: 'it begins with -----BEGIN PRIVATE KEY-----' }
  }
}

const readPem = (option: keyof TlsFiles, file: string): string | TlsFileProblem => {
  try {
    return readFileSync(file, 'latin1')
  } catch (error) {
    return { option, message: describeReadError(error) }
  }
}

const mismatchOf = ({ chain }: TlsKeyPair, key: KeyObject): TlsFileProblem | undefined => {
  if (chain[0]?.checkPrivateKey(key) === true) return undefined
  const isElsewhere = chain.some(certificate => certificate.checkPrivateKey(key))
  const hint = isElsewhere ? 'the certificate of the key must be the first of the file, before its chain' : undefined
  return { option: 'key', message: 'the private key does not match the certificate', ...(hint !== undefined && { hint }) }
}

/** What OpenSSL refuses by its security level: keys that are too short, and old digests. */
const contextProblem = ({ cert, key }: TlsKeyPair): TlsFileProblem | undefined => {
  try {
    // Loaded only where TLS is used: 2 to 6 ms of a start.
    process.getBuiltinModule('node:tls').createSecureContext({ cert, key })
    return undefined
  } catch (error) {
    const reason = error instanceof Error && 'reason' in error ? String(error.reason) : String(error)
    return { option: 'cert', message: `OpenSSL does not accept the certificate: ${reason}` }
  }
}

/** When the first certificate of the chain expires, in ms since 1970. */
export const expiryOf = (chain: readonly X509Certificate[]): number => Math.min(...chain.map(({ validTo }) => Date.parse(validTo)))

/** Why clients do not accept the chain now; undefined when they do, as far as its time is concerned. */
export const validityProblem = (chain: readonly X509Certificate[], now: number): string | undefined => {
  const expired = chain.findIndex(({ validTo }) => Date.parse(validTo) <= now)
  const early = chain.find(({ validFrom }) => Date.parse(validFrom) > now)
  if (expired >= 0)
    return `${expired === 0 ? 'the certificate' : 'a certificate of the chain'} expired on ${dateOf(chain[expired]!.validTo)}`
  return early && `the certificate is not valid before ${dateOf(early.validFrom)}`
}

const dateOf = (text: string): string => new Date(text).toISOString().slice(0, 10)
