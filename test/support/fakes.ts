import type { Account, Call, Json, Key, ContextKey, CallContext, Origin, Target } from '../../src/plugin/call.ts'
import { Cancellation } from '../../src/plugin/cancellation.ts'
import { toBuffer } from '../../src/json/chunked-bytes.ts'
import { Secret } from '../../src/plugin/secret.ts'
import type { AnyPlugin, Next, Stage } from '../../src/plugin/plugin.ts'
import { isFailure } from '../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../src/plugin/reply.ts'
import type { Clock, Timer } from '../../src/services/clock.ts'
import { HeadTracker } from '../../src/services/chain-heads/index.ts'
import type { Services } from '../../src/services/index.ts'
import type { Log, LogLevel, RootLog } from '../../src/services/log.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { results } from '../../src/services/results.ts'

/** A clock that stands still until it is turned. */
export class TestClock implements Clock {
  #now: number
  #monotonic = 1000
  readonly #timers = new Set<{ at: number; run: () => void; every?: number }>()

  constructor(now = Date.UTC(2026, 0, 15, 12)) {
    this.#now = now
  }

  now = (): number => this.#now
  monotonic = (): number => this.#monotonic

  after = (ms: number, run: () => void): Timer => this.#addTimer({ at: this.#monotonic + ms, run })
  every = (ms: number, run: () => void): Timer => this.#addTimer({ at: this.#monotonic + ms, run, every: ms })

  /** Somebody sets the machine's clock; monotonic time does not notice. */
  shiftWallClock(ms: number): void {
    this.#now += ms
  }

  /** Time passes; timers that fall due run in order. */
  advance(ms: number): void {
    const end = this.#monotonic + ms
    for (;;) {
      const due = [...this.#timers].filter(timer => timer.at <= end).sort((a, b) => a.at - b.at)[0]
      if (due === undefined) break
      this.#advanceTo(due.at)
      if (due.every === undefined) this.#timers.delete(due)
      else due.at += due.every
      due.run()
    }
    this.#advanceTo(end)
  }

  /** Time passes while the process stands still: whatever fell due meanwhile runs afterwards, once. */
  stall(ms: number): void {
    this.#advanceTo(this.#monotonic + ms)
    const due = [...this.#timers].filter(timer => timer.at <= this.#monotonic).sort((a, b) => a.at - b.at)
    for (const timer of due) {
      if (timer.every === undefined) this.#timers.delete(timer)
      else timer.at = this.#monotonic + timer.every
      timer.run()
    }
  }

  #advanceTo(to: number): void {
    this.#now += to - this.#monotonic
    this.#monotonic = to
  }

  #addTimer(timer: { at: number; run: () => void; every?: number }): Timer {
    this.#timers.add(timer)
    return { cancel: () => void this.#timers.delete(timer) }
  }
}

/** A log that remembers its lines. */
export class TestLog implements RootLog {
  level: LogLevel = 'info'
  readonly lines: { level: string; fields: object; message: string }[] = []
  debug = (fields: object, message: string) => this.#add('debug', fields, message)
  info = (fields: object, message: string) => this.#add('info', fields, message)
  warn = (fields: object, message: string) => this.#add('warn', fields, message)
  error = (fields: object, message: string) => this.#add('error', fields, message)
  child = (): Log => this

  #add(level: string, fields: object, message: string): void {
    this.lines.push({ level, fields, message })
  }
}

export const account: Account = { id: 'acc_1', name: 'alice', plan: { name: 'core', dailyCredits: 1_000_000, forwarding: false } }
export const key: Key = { id: 'key_1' }
export const target: Target = { name: 'own', url: new Secret('http://node.test'), source: 'node' }

export const fakeOrigin = (over: Partial<Origin> = {}): Origin => ({
  transport: 'http',
  network: 'devnet',
  key: undefined,
  originHeader: undefined,
  ip: '127.0.0.1',
  requestId: 'r-1',
  headers: {},
  signal: new Cancellation(),
  state: {},
  ...over,
})

/** A call that carries every note, so that it fits any plugin. */
export const fakeCall = (method: string, params: readonly Json[] = [], over: Partial<CallContext> = {}): Call<ContextKey> => ({
  message: { jsonrpc: '2.0', id: 1, method, params },
  origin: fakeOrigin(),
  context: { request: { method, params }, key, account, target, ...over },
})

export const fakeResult = (value: Json, over: Partial<Reply> = {}): Reply =>
  ({ result: Buffer.from(JSON.stringify(value)), source: 'node', ...over }) as Reply // a spread of a union of shapes

export const failureOf = (reply: Reply): Failure => {
  if (!isFailure(reply)) throw new Error('expected a failure')
  return reply
}

/** A `next` that fails the test when it is reached. */
export const unreachableNext: Next = () => {
  throw new Error('the call went further than it should')
}

/** The value or the error code of a reply, to compare in one line. */
export const valueOrErrorCode = (reply: Reply): Json =>
  isFailure(reply) ? reply.error.code : (JSON.parse(toBuffer(reply.result).toString()) as Json) // JSON gives Json

/** Creates a stage of the plugin on the given services; whatever is not given fails when it is touched. */
export const createStage = (plugin: AnyPlugin, options: object, given: Partial<Services> = {}): Stage<ContextKey, ContextKey> => {
  const own = {
    network: { name: 'devnet', chainId: 31337, blockTime: 1000 },
    clock: new TestClock(),
    log: new TestLog(),
    metrics: createMetricsRegistry(),
    cacheBytes: 1 << 20,
    results,
    usage: { count: () => {} },
    singleton: <T>(_name: string, _settings: Json, make: () => T): T => make(),
    vary: () => '',
    ...given,
  } as Services
  // Knows nothing until a plugin has it follow nodes.
  const services: Services = { ...own, heads: own.heads ?? new HeadTracker({ ...own, ...own.network }) }
  const made = plugin.create(options as never, services) // the test gives what the loader would
  // Notes are all there in call(), so one type fits every plugin.
  return (typeof made === 'function' ? { handle: made } : made) as unknown as Stage<ContextKey, ContextKey>
}
