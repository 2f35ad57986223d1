import type { Connection } from '../../store/redis/connection.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import { margin, readEntry, version, writeEntry } from './entry.ts'
import type { Entry } from './entry.ts'
import { openHealth } from './health.ts'
import type { Health } from './health.ts'

/** How long a look-up may take, acceptance included, before it counts as a miss; in ms. */
const budget = 5
/** Look-ups under way, and bytes on their way to be kept: beyond them it is as if there were no cache. */
const mostLookUps = 256
const mostBytes = 8 << 20

type Outcome = 'hit' | 'miss' | 'late' | 'failed' | 'skipped'

/** Is the entry, which is well-formed, what is looked for? */
export type Accept = (entry: Entry) => boolean | Promise<boolean>

/** What it needs of its connection. */
export type Redis = Pick<Connection, 'send' | 'exchange'>

export interface RedisCacheTerms {
  readonly redis: Redis
  /** Host and port, for the log. */
  readonly place: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** A cache in Redis. What is slow, broken or away there costs callers the hit, and nothing else. */
export class RedisCache {
  readonly #terms: RedisCacheTerms
  readonly #health: Health
  readonly #counts: Readonly<Record<Outcome, { add(): void }>>
  #lookUps = 0
  #bytes = 0
  #isRefused = false
  /** What its connection suffers from. */
  #trouble: string | undefined

  constructor(terms: RedisCacheTerms) {
    const { clock, log, metrics, place: redis } = terms
    this.#terms = terms
    const used = metrics.gauge('tollgate_shared_cache_used', '1 while each worker uses the shared cache.', { redis }, 'least')
    const counter = (outcome: Outcome) =>
      metrics.counter('tollgate_shared_cache_lookups_total', 'Look-ups in the shared cache.', { redis, outcome })
    this.#counts = {
      hit: counter('hit'),
      miss: counter('miss'),
      late: counter('late'),
      failed: counter('failed'),
      skipped: counter('skipped'),
    }
    used.set(0)
    this.#health = openHealth({
      clock,
      test: () => this.#test(),
      onChange(isGood, cause) {
        used.set(isGood ? 1 : 0)
        if (isGood) log.info({ redis }, 'the shared cache is used')
        else log.warn({ redis, cause }, 'the shared cache is left alone until it answers in time')
      },
    })
  }

  /** The connection breaks, or does not come about. */
  hear(trouble: string): void {
    this.#trouble = trouble
  }

  /** A connection has come about. */
  async greet(): Promise<void> {
    this.#trouble = undefined
    await this.#health.probe()
    if (this.#health.isGood) await advise(this.#terms).catch(() => undefined) // a Redis that says less is fine too
  }

  /** What is kept under the name, if it is found and accepted within the budget. */
  async find(name: string, maxBytes: number, accept: Accept): Promise<Entry | undefined> {
    if (!this.#health.isGood || this.#lookUps >= mostLookUps) return void this.#counts.skipped.add()
    const wait = waitFor(this.#terms.clock)
    try {
      const bytes = await Promise.race([this.#read(name, maxBytes), wait.over])
      if (!Buffer.isBuffer(bytes)) {
        this.#health.blame(bytes.message)
        return void this.#counts[bytes === late ? 'late' : 'failed'].add()
      }
      this.#health.praise()
      const found = await Promise.race([judge(name, bytes, accept), wait.over])
      this.#counts[found === late ? 'late' : found === undefined ? 'miss' : 'hit'].add()
      return found instanceof Error ? undefined : found
    } finally {
      wait.end()
    }
  }

  /** Returns at once; whether it was kept nobody hears. `ttl` in ms. */
  keep(name: string, entry: Entry, ttl: number): void {
    const size = entry.result.byteLength + margin
    if (!this.#health.isGood || this.#bytes + size > mostBytes) return
    this.#bytes += size
    void this.#write(name, entry, ttl).finally(() => {
      this.#bytes -= size
    })
  }

  stop(): void {
    this.#health.stop()
  }

  /** A part of what may lie there is enough to see that it is too long. */
  async #read(name: string, maxBytes: number): Promise<Buffer | Error> {
    this.#lookUps += 1
    try {
      return await this.#terms.redis.exchange('GETRANGE', keyOf(name), '0', String(maxBytes + margin))
    } catch (fault) {
      return fault as Error // the connection throws nothing else
    } finally {
      this.#lookUps -= 1
    }
  }

  async #write(name: string, entry: Entry, ttl: number): Promise<void> {
    const { redis, log, place } = this.#terms
    try {
      await redis.exchange('SET', keyOf(name), writeEntry(name, entry), 'PX', String(ttl))
      this.#isRefused = false
    } catch (fault) {
      if (!this.#isRefused) log.warn({ redis: place, cause: (fault as Error).message }, 'the shared cache does not take answers')
      this.#isRefused = true
    }
  }

  async #test(): Promise<string | undefined> {
    const { redis, clock } = this.#terms
    const wait = waitFor(clock)
    const answer = redis.send('PING').then(
      () => undefined,
      (fault: Error) => fault,
    )
    const fault = await Promise.race([answer, wait.over])
    wait.end()
    return fault && (this.#trouble ?? fault.message)
  }
}

const keyOf = (name: string): string => `tollgate:cache:${version}:${name}`

const judge = async (name: string, bytes: Buffer, accept: Accept): Promise<Entry | undefined> => {
  const entry = bytes.length === 0 ? undefined : readEntry(name, bytes)
  return entry !== undefined && (await accept(entry)) ? entry : undefined
}

const late = new Error(`no answer within ${budget} ms`)

/** An answer that has come while this process was busy is in time: it is looked at before the time is over. */
const waitFor = (clock: Clock): { readonly over: Promise<Error>; end(): void } => {
  let end = (): void => undefined
  const over = new Promise<Error>(resolve => {
    const timer = clock.after(budget, () => void setImmediate(() => resolve(late)))
    end = () => timer.cancel()
  })
  return { over, end: () => end() }
}

/** What an operator should change. */
const advise = async ({ redis, place, log }: RedisCacheTerms): Promise<void> => {
  const info = String(await redis.send('INFO', 'memory'))
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1]
  if (policy !== 'noeviction') return
  log.warn(
    { redis: place },
    'the redis of the shared cache makes no room for new answers: ' +
      'give the cache a redis of its own, with maxmemory and maxmemory-policy allkeys-lru',
  )
}
