import type { JWTVerifyGetKey } from 'jose'
import type { Secret } from '../../plugin/secret.ts'
import { Backoff } from '../../util/async.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Gauge, Metrics } from '../metrics.ts'

/** jose, which is loaded only where tokens are accepted. */
type Jose = typeof import('jose')

/** The keys that tokens are verified with. */
export interface KeySet {
  /** Differs once the keys have changed: a token that was verified before may have been signed by a key that is gone. */
  readonly version: number
  /** Resolves when the keys have been read for the first time, or could not be. */
  readonly loaded?: Promise<void>
  /** Rejects with KeySetUnavailable while no keys are known, and when the key of a token is not known and new keys cannot be fetched. */
  readonly getKey: JWTVerifyGetKey
  close(): void
}

/** No keys to verify a token with: that says nothing about the token. */
export class KeySetUnavailable extends Error {}

export interface KeySetServices {
  readonly jose: Jose
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** After keys were fetched, a token with an unknown key causes no other fetch for so long, in ms of the system's clock; 30 s unless given. */
  readonly cooldownMs?: number
}

/** A secret that the issuer shares with the gateway. */
export const secretKeySet = (secret: Secret): KeySet => {
  const key = Buffer.from(secret.reveal())
  return { version: 0, getKey: async () => key, close() {} }
}

const refreshIntervalMs = 300_000

/** The keys that an issuer publishes. They are fetched again every 5 min, and when a token names a key that is not among them. */
export class RemoteKeySet implements KeySet {
  version = 0
  readonly loaded: Promise<void>
  readonly #url: URL
  readonly #services: KeySetServices
  readonly #remote: ReturnType<Jose['createRemoteJWKSet']>
  readonly #isSuccessful: Gauge
  readonly #backoff = new Backoff({ minMs: 1_000, maxMs: 60_000 })
  #timer: Timer | undefined
  #text: string | undefined
  #applied: Promise<void> | undefined
  #isFailing = false
  #isRefreshing = false
  #isClosed = false

  /** Begins to fetch the keys. */
  constructor(url: URL, services: KeySetServices) {
    const { jose, metrics, cooldownMs = 30_000 } = services
    this.#url = url
    this.#services = services
    this.#isSuccessful = metrics.gauge(metricDefinitions.jwtKeysReloadSuccessful, {})
    // Known keys stay valid while the issuer is unreachable: they have no maximum age, and are refreshed by a timer.
    const options = { cacheMaxAge: Infinity, cooldownDuration: cooldownMs }
    this.#remote = jose.createRemoteJWKSet(url, { ...options, [jose.customFetch]: (_url, init) => this.#fetch(init) })
    this.loaded = this.#refresh()
  }

  readonly getKey: JWTVerifyGetKey = (header, token) => this.#remote(header, token)

  /** A fetch in flight then changes no metric and logs nothing: both may be those of other keys by now. */
  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
  }

  readonly #refresh = async (): Promise<void> => {
    this.#isRefreshing = true
    await this.#remote.reload().catch(() => undefined) // #fetch() has reported it
    await this.#applied
    this.#isRefreshing = false
  }

  /** After a failure only the timer fetches: callers with invented keys must not flood an issuer that is in trouble. */
  async #fetch(init: RequestInit): Promise<Response> {
    if (this.#isFailing && !this.#isRefreshing) throw new KeySetUnavailable('the keys could not be fetched')
    try {
      const text = await fetchKeySet(this.#url, init, this.#services.jose)
      this.#recordSuccess(text)
      return new Response(text)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      this.#recordFailure(reason)
      throw new KeySetUnavailable(reason)
    }
  }

  #recordSuccess(text: string): void {
    if (this.#isClosed) return
    const { log } = this.#services
    this.#isSuccessful.set(1)
    this.#backoff.reset()
    this.#schedule(refreshIntervalMs)
    if (this.#isFailing || text !== this.#text) log.info({ event: 'jwt-keys-loaded', host: this.#url.host }, 'keys of tokens loaded')
    this.#isFailing = false
    if (text === this.#text) return
    this.#text = text
    // Resolves when this fetch, which is in flight, has replaced the keys.
    this.#applied = this.#remote.reload().then(() => {
      this.version += 1
    })
  }

  #recordFailure(reason: string): void {
    if (this.#isClosed) return
    this.#isSuccessful.set(0)
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

/** The text of the key set at the URL; rejects with the reason in words when there is none. Redirects are not followed. */
const fetchKeySet = async (url: URL, init: RequestInit, { createLocalJWKSet }: Pick<Jose, 'createLocalJWKSet'>): Promise<string> => {
  const response = await fetch(url, { ...init, redirect: 'manual' }).catch(describeFailure)
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(
      response.status >= 300 && response.status < 400 ? `redirects are not followed: HTTP ${response.status}` : `HTTP ${response.status}`,
    )
  }
  const text = await readBounded(response).catch(describeFailure)
  try {
    createLocalJWKSet(JSON.parse(text))
  } catch {
    throw new Error('the response is not a JSON Web Key Set')
  }
  return text
}

const timeoutMs = 5_000

/** Why the keys cannot be fetched now; undefined when they can. */
export const findKeySetFailure = async (url: string): Promise<string | undefined> => {
  try {
    await fetchKeySet(new URL(url), { signal: AbortSignal.timeout(timeoutMs) }, await import('jose'))
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const readBounded = async ({ body }: Response): Promise<string> => {
  const chunks: Uint8Array[] = []
  let byteLength = 0
  for await (const chunk of body ?? []) {
    chunks.push(chunk)
    byteLength += chunk.length
    if (byteLength > maxKeySetBytes) throw new Error('the response is larger than 1 MiB')
  }
  return Buffer.concat(chunks).toString()
}

/** fetch() has the reason in its cause: `fetch failed` says nothing. */
const describeFailure = (error: unknown): never => {
  const { name = '', message = '', cause }: Partial<Error> = error instanceof Error ? error : {}
  if (name === 'TimeoutError') throw new Error('no answer in time')
  const { code, message: detail }: { readonly code?: unknown; readonly message?: unknown } = cause instanceof Error ? cause : {}
  throw new Error(String(code ?? detail ?? message))
}
