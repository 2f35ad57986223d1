import type { JWTVerifyGetKey } from 'jose'
import { Backoff, singleFlight } from '../../util/async.ts'
import { fetchText } from '../../util/fetch-text.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Log } from '../log.ts'

/** jose, which is loaded only where tokens are accepted. */
type Jose = typeof import('jose')

/** The keys that tokens are verified with. */
export interface KeySet {
  /** Differs once the keys have changed: a token that was verified before may have been signed by a key that is gone. */
  readonly version: number
  /** Could they be read the last time? False before the first. */
  readonly isCurrent: boolean
  /** Resolves when the keys have been read for the first time, or could not be. */
  readonly loaded?: Promise<void>
  /** Rejects with KeySetUnavailable while no keys are known, and when the key of a token is not known and new keys cannot be fetched. */
  readonly getKey: JWTVerifyGetKey
  close(): void
}

/** No keys to verify a token with: that says nothing about the token. */
export class KeySetUnavailable extends Error {}

const unavailable = new KeySetUnavailable('the keys could not be fetched')

export interface KeySetServices {
  readonly jose: Jose
  readonly clock: Clock
  readonly log: Log
}

const refreshIntervalMs = 300_000
/** After keys were fetched, a token with an unknown key causes no other fetch for so long. */
const cooldownMs = 30_000

/**
 * The keys that an issuer publishes. They are fetched again every 5 min, and when a token names a key that is not among them. Known keys stay valid
 * while the issuer is unreachable.
 */
export class RemoteKeySet implements KeySet {
  version = 0
  isCurrent = false
  readonly loaded: Promise<void>
  readonly #url: URL
  readonly #services: KeySetServices
  readonly #backoff = new Backoff({ minMs: 1_000, maxMs: 60_000 })
  #getKey: JWTVerifyGetKey | undefined
  #timer: Timer | undefined
  /** What the keys were read from. */
  #text: string | undefined
  #fetchedAt = -Infinity
  #isFailing = false
  #isClosed = false

  /** Begins to fetch the keys. */
  constructor(url: URL, services: KeySetServices) {
    this.#url = url
    this.#services = services
    this.loaded = this.#refresh()
  }

  readonly getKey: JWTVerifyGetKey = async (header, token) => {
    const { jose, clock } = this.#services
    await this.loaded
    try {
      return await this.#knownKey(header, token)
    } catch (error) {
      if (!(error instanceof jose.errors.JWKSNoMatchingKey)) throw error
      // After a failure only the timer fetches: callers with invented keys must not flood an issuer that is in trouble.
      if (!this.#isFailing && clock.monotonic() - this.#fetchedAt < cooldownMs) throw error
      if (!this.#isFailing) await this.#refresh()
      if (this.#isFailing) throw unavailable
      return this.#knownKey(header, token)
    }
  }

  /** A fetch in flight then logs nothing: other keys may be used by now. */
  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  readonly #knownKey: JWTVerifyGetKey = async (header, token) => {
    if (this.#getKey === undefined) throw unavailable
    return this.#getKey(header, token)
  }

  readonly #refresh = singleFlight(async (): Promise<void> => {
    try {
      const text = await fetchKeySet(this.#url)
      const getKey = parseKeySet(text, this.#services.jose)
      if (!this.#isClosed) this.#use(text, getKey)
    } catch (error) {
      if (!this.#isClosed) this.#recordFailure(error instanceof Error ? error.message : String(error))
    }
  })

  #use(text: string, getKey: JWTVerifyGetKey): void {
    const { clock, log } = this.#services
    this.isCurrent = true
    this.#backoff.reset()
    this.#fetchedAt = clock.monotonic()
    this.#schedule(refreshIntervalMs)
    const isNew = text !== this.#text
    if (this.#isFailing || isNew) log.info({ event: 'jwt-keys-loaded', host: this.#url.host }, 'keys of tokens loaded')
    this.#isFailing = false
    if (!isNew) return
    this.#text = text
    this.#getKey = getKey
    this.version += 1
  }

  #recordFailure(reason: string): void {
    this.isCurrent = false
    this.#schedule(this.#backoff.next())
    if (this.#isFailing) return
    this.#isFailing = true
    const effect = this.#text === undefined ? 'tokens cannot be verified' : 'the keys from before stay valid'
    this.#services.log.warn(
      { event: 'jwt-keys-unavailable', host: this.#url.host, reason },
      `keys of tokens cannot be fetched, ${effect}: ${reason}`,
    )
  }

  #schedule(delayMs: number): void {
    this.#timer?.cancel()
    this.#timer = this.#services.clock.after(delayMs, () => void this.#refresh())
  }
}

/** A set of 100 keys takes 60 KiB. */
const maxKeySetBytes = 1_048_576

const timeoutMs = 5_000

const headers = { accept: 'application/json, application/jwk-set+json' }

/** Rejects with the reason in words. */
const fetchKeySet = (url: URL): Promise<string> => fetchText(url, { headers, timeoutMs, maxBytes: maxKeySetBytes })

const parseKeySet = (text: string, { createLocalJWKSet }: Pick<Jose, 'createLocalJWKSet'>): JWTVerifyGetKey => {
  try {
    return createLocalJWKSet(JSON.parse(text))
  } catch {
    throw new Error('the response is not a JSON Web Key Set')
  }
}

/** Why the keys cannot be fetched now; undefined when they can. */
export const findKeySetFailure = async (url: string): Promise<string | undefined> => {
  try {
    parseKeySet(await fetchKeySet(new URL(url)), await import('jose'))
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
