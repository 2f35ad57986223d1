import { KeySetUnavailable } from './key-set.ts'

/** Why a token is not accepted: for the log and a metric, never for the caller. */
export const tokenFaults = {
  expired: 'it has expired',
  notYetValid: 'it is not valid yet',
  signature: 'its signature is wrong',
  signingKey: 'no key of the issuer fits it',
  algorithm: 'its algorithm is not accepted',
  issuer: 'its issuer is another',
  audience: 'its audience is another',
  claims: 'a claim is missing or has the wrong type',
  malformed: 'it is malformed',
  tooLong: 'it is longer than 8 KiB',
  unknownKey: 'there is no API key with the id that it names',
} as const

export type TokenFault = keyof typeof tokenFaults

const faultByCode: Readonly<Record<string, TokenFault>> = {
  ERR_JWT_EXPIRED: 'expired',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'signature',
  ERR_JWKS_NO_MATCHING_KEY: 'signingKey',
  ERR_JOSE_ALG_NOT_ALLOWED: 'algorithm',
}

/** The fault of a token by the error that jose rejects with; undefined when the token could not be verified at all. */
export const tokenFaultOf = (error: unknown): TokenFault | undefined => {
  if (error instanceof KeySetUnavailable) return undefined
  const { code, claim, reason }: JoseError = error instanceof Error ? error : {}
  if (code === 'ERR_JWT_CLAIM_VALIDATION_FAILED') return faultOfClaim(String(claim), String(reason))
  if (typeof code !== 'string' || !code.startsWith('ERR_J')) return 'signingKey' // a key of the issuer that jose cannot use
  return faultByCode[code] ?? 'malformed'
}

interface JoseError extends Partial<Error> {
  readonly code?: unknown
  readonly claim?: unknown
  readonly reason?: unknown
}

const faultOfClaim = (claim: string, reason: string): TokenFault => {
  if (reason !== 'check_failed') return 'claims'
  return claim === 'iss' ? 'issuer' : claim === 'aud' ? 'audience' : claim === 'nbf' || claim === 'iat' ? 'notYetValid' : 'claims'
}
