import { chunksOf, toBuffer } from '../../json/chunked-bytes.ts'
import type { RawJson } from '../../json/chunked-bytes.ts'
import { ResponseParser } from '../../json-rpc/parse-response.ts'
import { verifications } from '../../plugin/reply.ts'
import type { Verification } from '../../plugin/reply.ts'
import type { RedisClient } from '../../store/redis/redis-client.ts'
import { CircuitBreaker } from '../circuit-breaker.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Counter, Gauge, Metrics } from '../metrics.ts'

/** A look-up that takes longer, acceptance included, is a miss. */
const lookupTimeoutMs = 5
/** Beyond so many look-ups in flight, or bytes being written, calls go on as if there were no cache. */
const maxConcurrentLookups = 256
const maxPendingWriteBytes = 8 << 20

/** More than a fifth of at least 50 look-ups without an answer in time. */
const breakerLimits = { errorPercent: 20, minCalls: 50 }
const probeBackoff = { minMs: 250, maxMs: 16_000 }

type LookupOutcome = 'hit' | 'miss' | 'late' | 'failed' | 'skipped'

/** Decides whether a well-formed entry may be returned. */
export type AcceptEntry = (entry: SharedCacheEntry) => boolean | Promise<boolean>

/** The commands that the cache sends over its connection. */
type RedisCommands = Pick<RedisClient, 'sendCommand' | 'sendBinaryCommand'>

interface RedisCacheOptions {
  readonly redis: RedisCommands
  /** Host and port, for the log. */
  readonly address: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** A cache in Redis. A Redis that is slow, failing or unreachable costs callers the cache hit, and nothing else. */
export class RedisCache {
  readonly #options: RedisCacheOptions
  readonly #breaker: CircuitBreaker
  readonly #upGauge: Gauge
  readonly #lookupCounters: Readonly<Record<LookupOutcome, Counter>>
  #activeLookups = 0
  #pendingWriteBytes = 0
  #hasWriteFailed = false
  /** Why Redis could not be reached; undefined while it is connected. */
  #connectionError: string | undefined
  #lastError = ''
  #isEvictionPolicyKnown = false
  #reportedState: 'open' | 'closed' | undefined

  constructor(options: RedisCacheOptions) {
    const { clock, metrics, address: redis } = options
    this.#options = options
    this.#upGauge = metrics.gauge(metricDefinitions.sharedCacheUp, { redis })
    const counter = (outcome: LookupOutcome) => metrics.counter(metricDefinitions.sharedCacheLookups, { redis, outcome })
    this.#lookupCounters = {
      hit: counter('hit'),
      miss: counter('miss'),
      late: counter('late'),
      failed: counter('failed'),
      skipped: counter('skipped'),
    }
    this.#upGauge.set(0)
    this.#breaker = new CircuitBreaker({
      clock,
      ...breakerLimits,
      probeBackoff,
      initialState: 'open', // so that no caller waits for the first connection
      probe: () => this.#probe(),
      onStateChange: state => this.#reportState(state),
    })
  }

  /** The connection broke, or could not be made. */
  onConnectionError(cause: string): void {
    this.#connectionError = cause
  }

  async onConnected(): Promise<void> {
    this.#connectionError = undefined
    this.#isEvictionPolicyKnown = false // it may be another Redis, or the same with another configuration
    await this.#breaker.probe()
    if (!this.#breaker.isOpen) await this.#checkEvictionPolicy()
  }

  /** The entry of the name, if it is found and accepted in time. */
  async get(name: string, maxBytes: number, accept: AcceptEntry): Promise<SharedCacheEntry | undefined> {
    if (this.#breaker.isOpen || this.#activeLookups >= maxConcurrentLookups) return void this.#lookupCounters.skipped.add()
    const timeout = startLookupTimeout(this.#options.clock)
    try {
      const bytes = await Promise.race([this.#read(name, maxBytes), timeout.expired])
      if (!Buffer.isBuffer(bytes)) {
        this.#lastError = bytes.message
        this.#breaker.record('failure')
        return void this.#lookupCounters[bytes === lookupTimeoutError ? 'late' : 'failed'].add()
      }
      this.#breaker.record('success')
      const found = await Promise.race([parseIfAccepted(name, bytes, accept), timeout.expired])
      this.#lookupCounters[found === lookupTimeoutError ? 'late' : found === undefined ? 'miss' : 'hit'].add()
      return found instanceof Error ? undefined : found
    } finally {
      timeout.cancel()
    }
  }

  /** Writes in the background. An entry that cannot be written is dropped. */
  set(name: string, entry: SharedCacheEntry, ttlMs: number): void {
    const byteLength = entry.result.byteLength + maxEntryHeaderBytes
    if (this.#breaker.isOpen || this.#pendingWriteBytes + byteLength > maxPendingWriteBytes) return
    this.#pendingWriteBytes += byteLength
    void this.#write(name, entry, ttlMs).finally(() => {
      this.#pendingWriteBytes -= byteLength
    })
  }

  stop(): void {
    this.#breaker.stop()
  }

  /** Reads at most so much that an entry above `maxBytes` is seen to be too long. */
  async #read(name: string, maxBytes: number): Promise<Buffer | Error> {
    this.#activeLookups += 1
    try {
      return await this.#options.redis.sendBinaryCommand('GETRANGE', redisKeyOf(name), '0', String(maxBytes + maxEntryHeaderBytes))
    } catch (error) {
      return error as Error // RedisClient rejects with nothing else
    } finally {
      this.#activeLookups -= 1
    }
  }

  async #write(name: string, entry: SharedCacheEntry, ttlMs: number): Promise<void> {
    const { redis, log, address } = this.#options
    try {
      await redis.sendBinaryCommand('SET', redisKeyOf(name), serializeEntry(name, entry), 'PX', String(ttlMs))
      this.#hasWriteFailed = false
    } catch (error) {
      if (!this.#hasWriteFailed) log.warn({ redis: address, cause: (error as Error).message }, 'shared cache write failed')
      this.#hasWriteFailed = true
    }
  }

  async #probe(): Promise<boolean> {
    const { redis, clock } = this.#options
    const timeout = startLookupTimeout(clock)
    const ping = redis.sendCommand('PING').then(
      () => undefined,
      (error: Error) => error,
    )
    const error = await Promise.race([ping, timeout.expired])
    timeout.cancel()
    if (error === undefined) return true
    this.#lastError = this.#connectionError ?? error.message
    this.#reportState('open') // a breaker that begins open does not change its state
    return false
  }

  /** Once per connection, as soon as Redis answers in time: the first probe may be late. */
  async #checkEvictionPolicy(): Promise<void> {
    if (this.#isEvictionPolicyKnown) return
    this.#isEvictionPolicyKnown = true
    await warnOfEvictionPolicy(this.#options).catch(() => undefined) // INFO may be forbidden
  }

  #reportState(state: 'open' | 'closed'): void {
    if (state === this.#reportedState) return
    this.#reportedState = state
    const { log, address: redis } = this.#options
    this.#upGauge.set(state === 'open' ? 0 : 1)
    if (state === 'closed') {
      log.info({ redis }, 'shared cache up')
      void this.#checkEvictionPolicy()
    } else log.warn({ redis, cause: this.#lastError }, 'shared cache down: look-ups are skipped until Redis answers in time')
  }
}

const redisKeyOf = (name: string): string => `tollgate:cache:${entryVersion}:${name}`

const parseIfAccepted = async (name: string, bytes: Buffer, accept: AcceptEntry): Promise<SharedCacheEntry | undefined> => {
  const entry = bytes.length === 0 ? undefined : parseEntry(name, bytes)
  return entry !== undefined && (await accept(entry)) ? entry : undefined
}

const lookupTimeoutError = new Error(`no answer within ${lookupTimeoutMs} ms`)

/** One timeout for both parts of a look-up. An answer that arrived while the process was busy is read before it expires. */
const startLookupTimeout = (clock: Clock): { readonly expired: Promise<Error>; cancel(): void } => {
  let cancel = (): void => undefined
  const expired = new Promise<Error>(resolve => {
    const timer = clock.after(lookupTimeoutMs, () => void setImmediate(() => resolve(lookupTimeoutError)))
    cancel = () => timer.cancel()
  })
  return { expired, cancel: () => cancel() }
}

/** A Redis that evicts nothing refuses new entries once it is full. */
const warnOfEvictionPolicy = async ({ redis, address, log }: RedisCacheOptions): Promise<void> => {
  const info = String(await redis.sendCommand('INFO', 'memory'))
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1]
  if (policy !== 'noeviction') return
  log.warn(
    { redis: address },
    'the maxmemory-policy of the shared cache is noeviction: a full Redis refuses new entries; ' +
      'use a separate Redis for the cache, with maxmemory and maxmemory-policy allkeys-lru',
  )
}

/** A result that is valid as long as its final block is on the chain. */
export interface SharedCacheEntry {
  /** The JSON text of the result, as the node wrote it. */
  readonly result: RawJson
  /** How many elements it has, when it is an array. */
  readonly count?: number | undefined
  readonly verified?: Verification | undefined
  /** The finalized block of the node before it was requested: on a chain that has this block, the result is right. */
  readonly finalizedBlock: { readonly number: number; readonly hash: string }
}

/** The version of the format, part of every key. It changes when an older Tollgate would misread an entry. */
const entryVersion = 1

/** More than the bytes before the result in any entry. */
const maxEntryHeaderBytes = 512

/** A header line, then the result as a JSON-RPC response, so that it is parsed with the same checks. */
const serializeEntry = (name: string, { result, ...described }: SharedCacheEntry): Buffer =>
  Buffer.concat([Buffer.from(`${entryHeaderOf(name, described)}\n${responsePrefix}`), ...chunksOf(result), Buffer.from('}')])

/** Undefined for bytes that are no entry of this name: truncated, or written by another version or program. */
const parseEntry = (name: string, bytes: Buffer): SharedCacheEntry | undefined => {
  const headerEnd = bytes.subarray(0, maxEntryHeaderBytes).indexOf(0x0a)
  const [, number, hash = '', text] =
    /^\S+ \S+ (\d{1,15}) (0x[0-9a-f]{1,64}) (\S+)$/.exec(bytes.toString('latin1', 0, Math.max(0, headerEnd))) ?? []
  const finalizedBlock = { number: Number(number), hash }
  const verified = verifications.find(each => each === text)
  if (number === undefined || bytes.toString('latin1', 0, headerEnd) !== entryHeaderOf(name, { finalizedBlock, verified })) return undefined
  const parser = new ResponseParser(responseId)
  if (!parser.push(bytes.subarray(headerEnd + 1))) return undefined
  const response = parser.finish()
  if (response.kind !== 'result' || response.streamStatus !== undefined) return undefined
  // A copy: the bytes may be part of a larger buffer of the connection, which a cached result would keep in memory.
  return { result: Buffer.from(toBuffer(response.result)), count: response.count, verified, finalizedBlock }
}

const entryHeaderOf = (name: string, { finalizedBlock: { number, hash }, verified }: Omit<SharedCacheEntry, 'result'>): string =>
  `${entryVersion} ${name} ${number} ${hash} ${verified ?? 'unknown'}`

const responseId = '1'
const responsePrefix = `{"jsonrpc":"2.0","id":${responseId},"result":`
