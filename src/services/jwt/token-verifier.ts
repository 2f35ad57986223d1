import { hash } from 'node:crypto'
import type { JWTPayload } from 'jose'
import type { MaybePromise } from '../../util/async.ts'
import { boundedCache } from '../../util/bounded-cache.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { LogInterval } from '../log-interval.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Counter, Metrics } from '../metrics.ts'
import { KeySetUnavailable } from './key-set.ts'
import type { KeySet, KeySetServices } from './key-set.ts'

/** Which tokens are accepted: `jwt` of gateway.yaml. Durations are in ms. */
export interface JwtOptions {
  readonly issuer: string
  readonly audience: readonly string[]
  /** One of the two: the URL of a key set, or the absolute path of a file of public keys. */
  readonly jwks?: string
  readonly keyFile?: string
  /** The claim that has the id of the API key. */
  readonly claim: string
}

/** What became of a token. */
export type VerifiedToken = { readonly kind: 'verified'; readonly keyId: string } | { readonly kind: 'tokenInvalid' | 'tokenUnverifiable' }

/** Verifies tokens, and remembers which were valid. */
export interface JwtVerifier {
  /** The id of the API key that a valid token names. Known at once for a token that was verified before, until it expires. */
  verify(token: string): MaybePromise<VerifiedToken>
  /** The token was valid, but there is no API key with this id. */
  recordUnknownKey(keyId: string): void
  /** Could the keys be read the last time? */
  readonly areKeysCurrent: boolean
  close(): void
}

/** Of keys of which only the issuer has the private part. */
const algorithms = [...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'], ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']]

/** How far the clock of the issuer may be off: a token is accepted for so long after it has expired, and before it is valid. */
const clockToleranceMs = 30_000
const maxTokenChars = 8_192
/** Longer than ids of keys are; a store must be able to look it up. */
const maxKeyIdChars = 128
const maxCachedTokens = 20_000

/** A valid token: it is valid until `expiresAt`, in ms since 1970. */
interface AcceptedToken {
  readonly token: VerifiedToken
  readonly expiresAt: number
}

interface RefusedToken {
  readonly fault: TokenFault
  /** In ms since 1970. */
  readonly refusedAt: number
}

/** What was found of a token, and the version of the keys by which it was. */
type CachedToken = { readonly version: number } & (AcceptedToken | RefusedToken)

export interface TokenVerifierServices extends KeySetServices {
  readonly metrics: Metrics
}

export class TokenVerifier implements JwtVerifier {
  readonly #options: JwtOptions
  readonly #keySet: KeySet
  readonly #services: TokenVerifierServices
  readonly #counters: Readonly<Record<TokenFault | 'accepted' | 'keysUnavailable', Counter>>
  // Apart, so that a flood of invented tokens cannot evict those that are valid.
  readonly #valid = boundedCache<CachedToken>(maxCachedTokens)
  readonly #invalid = boundedCache<CachedToken>(maxCachedTokens)
  readonly #pending = new Map<string, Promise<VerifiedToken>>()
  readonly #logInterval: LogInterval

  constructor(options: JwtOptions, keySet: KeySet, services: TokenVerifierServices) {
    this.#options = options
    this.#keySet = keySet
    this.#services = services
    this.#logInterval = new LogInterval(services.clock)
    const results = ['accepted', 'keysUnavailable', ...Object.keys(tokenFaults)]
    const counters = results.map(result => [result, services.metrics.counter(metricDefinitions.tokens, { result })])
    this.#counters = Object.fromEntries(counters) as Record<TokenFault | 'accepted' | 'keysUnavailable', Counter> // by all results
  }

  verify(token: string): MaybePromise<VerifiedToken> {
    if (token.length > maxTokenChars) return this.#refuse('tooLong')
    // The hash in place of the token: it is shorter, and no secret. It takes 3 us of a cached call.
    const digest = hash('sha256', token, 'base64url')
    const cached = this.#valid.get(digest) ?? this.#invalid.get(digest)
    if (cached?.version === this.#keySet.version) {
      const now = this.#services.clock.now()
      if ('token' in cached) return now < cached.expiresAt ? cached.token : this.#refuse('expired')
      // A clock that was ahead and has been set right: the token may be valid.
      if (cached.fault !== 'expired' || now >= cached.refusedAt) return this.#refuse(cached.fault)
    }
    return getOrCreate(this.#pending, digest, () => this.#verify(token, digest).finally(() => this.#pending.delete(digest)))
  }

  recordUnknownKey(keyId: string): void {
    this.#refuse('unknownKey', keyId)
  }

  get areKeysCurrent(): boolean {
    return this.#keySet.isCurrent
  }

  close(): void {
    this.#keySet.close()
  }

  async #verify(token: string, digest: string): Promise<VerifiedToken> {
    await this.#keySet.loaded
    const { version } = this.#keySet
    try {
      const accepted = this.#accept(await this.#readClaims(token))
      this.#counters.accepted.add()
      this.#invalid.delete(digest)
      this.#valid.set(digest, { version, ...accepted })
      return accepted.token
    } catch (error) {
      const fault = error instanceof UnsuitableClaim ? 'claims' : tokenFaultOf(error)
      if (fault === undefined) {
        this.#counters.keysUnavailable.add()
        return unverifiable
      }
      this.#valid.delete(digest)
      if (!temporaryFaults.includes(fault)) this.#invalid.set(digest, { version, fault, refusedAt: this.#services.clock.now() })
      return this.#refuse(fault)
    }
  }

  async #readClaims(token: string): Promise<JWTPayload> {
    const { issuer, audience, claim } = this.#options
    const { jose, clock } = this.#services
    const options = {
      issuer,
      audience: [...audience],
      algorithms,
      clockTolerance: clockToleranceMs / 1_000,
      currentDate: new Date(clock.now()),
      requiredClaims: ['exp', claim],
    }
    try {
      return (await jose.jwtVerify(token, this.#keySet.getKey, options)).payload
    } catch (error) {
      if (!(error instanceof jose.errors.JWKSMultipleMatchingKeys)) throw error
      // A token that names no key, or keys without ids.
      for await (const key of error) {
        try {
          return (await jose.jwtVerify(token, key, options)).payload
        } catch (other) {
          if (!(other instanceof jose.errors.JWSSignatureVerificationFailed)) throw other
        }
      }
      throw new jose.errors.JWSSignatureVerificationFailed()
    }
  }

  #accept(payload: JWTPayload): AcceptedToken {
    const { claim } = this.#options
    const keyId = payload[claim]
    if (typeof keyId !== 'string' || keyId === '' || keyId.length > maxKeyIdChars) throw new UnsuitableClaim()
    const { exp = 0 } = payload // jose has checked it
    return { token: { kind: 'verified', keyId }, expiresAt: exp * 1_000 + clockToleranceMs }
  }

  #refuse(fault: TokenFault, keyId?: string): VerifiedToken {
    this.#counters[fault].add()
    if (this.#logInterval.begin(fault)) {
      const fields = { event: 'token-refused', reason: fault, ...(keyId !== undefined && keyIdPattern.test(keyId) && { key: keyId }) }
      this.#services.log.info(fields, `token refused: ${tokenFaults[fault]}`)
    }
    return invalid
  }
}

class UnsuitableClaim extends Error {}

/** The token may be valid later: after its beginning, or when the keys of the issuer are fetched again. */
const temporaryFaults: readonly TokenFault[] = ['notYetValid', 'signingKey']

/** Any other text may be the name of a person, or an API key in the wrong place: it is not logged. */
const keyIdPattern = /^key_\w+$/

const invalid: VerifiedToken = { kind: 'tokenInvalid' }
const unverifiable: VerifiedToken = { kind: 'tokenUnverifiable' }

/** Why a token is not accepted: for the log and a metric, never for the caller. */
const tokenFaults = {
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

type TokenFault = keyof typeof tokenFaults

const faultByCode: Readonly<Record<string, TokenFault>> = {
  ERR_JWT_EXPIRED: 'expired',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'signature',
  ERR_JWKS_NO_MATCHING_KEY: 'signingKey',
  ERR_JOSE_ALG_NOT_ALLOWED: 'algorithm',
}

/** The fault of a token by the error that jose rejects with; undefined when the token could not be verified at all. */
const tokenFaultOf = (error: unknown): TokenFault | undefined => {
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

const faultByClaim: Readonly<Record<string, TokenFault>> = { iss: 'issuer', aud: 'audience', nbf: 'notYetValid', iat: 'notYetValid' }

/** A claim that is missing, or has the wrong type, has another reason. */
const faultOfClaim = (claim: string, reason: string): TokenFault =>
  reason === 'check_failed' ? (faultByClaim[claim] ?? 'claims') : 'claims'
