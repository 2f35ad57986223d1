import { dirname } from 'node:path'
import type { JWTVerifyGetKey, JSONWebKeySet } from 'jose'
import { Backoff } from '../../util/async.ts'
import type { Timer } from '../clock.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Gauge } from '../metrics.ts'
import { fetchKeySet, KeySetUnavailable } from './key-set.ts'
import type { Jose, KeySet, KeySetServices } from './key-set.ts'
import { ContentWatch } from '../content-watch.ts'
import { readKeyFile } from './key-file.ts'

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
    const keysById = jose.createLocalJWKSet({ keys: [...read.keys] } as JSONWebKeySet) // readKeyFile() has checked the keys
    this.#getKey = read.isPem ? ({ alg }) => keysById({ alg }) : keysById
    this.version += 1
    log.info({ event: 'jwt-keys-loaded', file: this.#path }, 'keys of tokens loaded')
  }
}
