import type { RedisConnection } from '../../store/redis/redis-connection.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Counter, Metrics } from '../metrics.ts'
import { maxEntryHeaderBytes, parseEntry, entryVersion, serializeEntry } from './cache-entry.ts'
import type { SharedCacheEntry } from './cache-entry.ts'
import { createCacheBreaker } from './cache-breaker.ts'
import type { CacheBreaker } from './cache-breaker.ts'

/** How long a look-up may take, acceptance included, before it counts as a miss; in ms. */
const lookupTimeoutMs = 5
/** Look-ups under way, and bytes on their way to be kept: beyond them it is as if there were no cache. */
const maxConcurrentLookups = 256
const maxPendingWriteBytes = 8 << 20

type LookupOutcome = 'hit' | 'miss' | 'late' | 'failed' | 'skipped'

/** Is the entry, which is well-formed, what is looked for? */
export type AcceptEntry = (entry: SharedCacheEntry) => boolean | Promise<boolean>

/** What it needs of its connection. */
export type RedisCommands = Pick<RedisConnection, 'sendCommand' | 'sendBinaryCommand'>

export interface RedisCacheOptions {
  readonly redis: RedisCommands
  /** Host and port, for the log. */
  readonly address: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** A cache in Redis. What is slow, broken or away there costs callers the hit, and nothing else. */
export class RedisCache {
  readonly #options: RedisCacheOptions
  readonly #breaker: CacheBreaker
  readonly #lookupCounters: Readonly<Record<LookupOutcome, Counter>>
  #activeLookups = 0
  #pendingWriteBytes = 0
  #isRejectingWrites = false
  /** What its connection suffers from. */
  #connectionError: string | undefined

  constructor(options: RedisCacheOptions) {
    const { clock, log, metrics, address: redis } = options
    this.#options = options
    const upGauge = metrics.gauge(metricDefinitions.sharedCacheUp, { redis })
    const counter = (outcome: LookupOutcome) => metrics.counter(metricDefinitions.sharedCacheLookups, { redis, outcome })
    this.#lookupCounters = {
      hit: counter('hit'),
      miss: counter('miss'),
      late: counter('late'),
      failed: counter('failed'),
      skipped: counter('skipped'),
    }
    upGauge.set(0)
    this.#breaker = createCacheBreaker({
      clock,
      healthCheck: () => this.#healthCheck(),
      onStateChange(isClosed, cause) {
        upGauge.set(isClosed ? 1 : 0)
        if (isClosed) log.info({ redis }, 'the shared cache is used')
        else log.warn({ redis, cause }, 'the shared cache is left alone until it answers in time')
      },
    })
  }

  /** The connection breaks, or does not come about. */
  onConnectionError(cause: string): void {
    this.#connectionError = cause
  }

  /** A connection has come about. */
  async onConnected(): Promise<void> {
    this.#connectionError = undefined
    await this.#breaker.probe()
    if (this.#breaker.isClosed) await warnOfEvictionPolicy(this.#options).catch(() => undefined) // a Redis that says less is fine too
  }

  /** What is kept under the name, if it is found and accepted within the budget. */
  async get(name: string, maxBytes: number, accept: AcceptEntry): Promise<SharedCacheEntry | undefined> {
    if (!this.#breaker.isClosed || this.#activeLookups >= maxConcurrentLookups) return void this.#lookupCounters.skipped.add()
    const timeout = startLookupTimeout(this.#options.clock)
    try {
      const bytes = await Promise.race([this.#read(name, maxBytes), timeout.expired])
      if (!Buffer.isBuffer(bytes)) {
        this.#breaker.recordFailure(bytes.message)
        return void this.#lookupCounters[bytes === lookupTimeoutError ? 'late' : 'failed'].add()
      }
      this.#breaker.recordSuccess()
      const found = await Promise.race([parseIfAccepted(name, bytes, accept), timeout.expired])
      this.#lookupCounters[found === lookupTimeoutError ? 'late' : found === undefined ? 'miss' : 'hit'].add()
      return found instanceof Error ? undefined : found
    } finally {
      timeout.cancel()
    }
  }

  /** Returns at once; whether it was kept nobody hears. `ttl` in ms. */
  set(name: string, entry: SharedCacheEntry, ttlMs: number): void {
    const byteLength = entry.result.byteLength + maxEntryHeaderBytes
    if (!this.#breaker.isClosed || this.#pendingWriteBytes + byteLength > maxPendingWriteBytes) return
    this.#pendingWriteBytes += byteLength
    void this.#write(name, entry, ttlMs).finally(() => {
      this.#pendingWriteBytes -= byteLength
    })
  }

  stop(): void {
    this.#breaker.stop()
  }

  /** A part of what may lie there is enough to see that it is too long. */
  async #read(name: string, maxBytes: number): Promise<Buffer | Error> {
    this.#activeLookups += 1
    try {
      return await this.#options.redis.sendBinaryCommand('GETRANGE', redisKeyOf(name), '0', String(maxBytes + maxEntryHeaderBytes))
    } catch (error) {
      return error as Error // the connection throws nothing else
    } finally {
      this.#activeLookups -= 1
    }
  }

  async #write(name: string, entry: SharedCacheEntry, ttlMs: number): Promise<void> {
    const { redis, log, address } = this.#options
    try {
      await redis.sendBinaryCommand('SET', redisKeyOf(name), serializeEntry(name, entry), 'PX', String(ttlMs))
      this.#isRejectingWrites = false
    } catch (error) {
      if (!this.#isRejectingWrites) log.warn({ redis: address, cause: (error as Error).message }, 'the shared cache does not take answers')
      this.#isRejectingWrites = true
    }
  }

  async #healthCheck(): Promise<string | undefined> {
    const { redis, clock } = this.#options
    const timeout = startLookupTimeout(clock)
    const ping = redis.sendCommand('PING').then(
      () => undefined,
      (error: Error) => error,
    )
    const fault = await Promise.race([ping, timeout.expired])
    timeout.cancel()
    return fault && (this.#connectionError ?? fault.message)
  }
}

const redisKeyOf = (name: string): string => `tollgate:cache:${entryVersion}:${name}`

const parseIfAccepted = async (name: string, bytes: Buffer, accept: AcceptEntry): Promise<SharedCacheEntry | undefined> => {
  const entry = bytes.length === 0 ? undefined : parseEntry(name, bytes)
  return entry !== undefined && (await accept(entry)) ? entry : undefined
}

const lookupTimeoutError = new Error(`no answer within ${lookupTimeoutMs} ms`)

/** An answer that has come while this process was busy is in time: it is looked at before the time is over. */
const startLookupTimeout = (clock: Clock): { readonly expired: Promise<Error>; cancel(): void } => {
  let end = (): void => undefined
  const over = new Promise<Error>(resolve => {
    const timer = clock.after(lookupTimeoutMs, () => void setImmediate(() => resolve(lookupTimeoutError)))
    end = () => timer.cancel()
  })
  return { expired: over, cancel: () => end() }
}

/** What an operator should change. */
const warnOfEvictionPolicy = async ({ redis, address, log }: RedisCacheOptions): Promise<void> => {
  const info = String(await redis.sendCommand('INFO', 'memory'))
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1]
  if (policy !== 'noeviction') return
  log.warn(
    { redis: address },
    'the redis of the shared cache makes no room for new answers: ' +
      'give the cache a redis of its own, with maxmemory and maxmemory-policy allkeys-lru',
  )
}
