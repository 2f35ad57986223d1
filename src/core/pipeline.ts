import type { Step } from '../config/types.ts'
import { ChunkedBytes } from '../json/chunked-bytes.ts'
import type { Call, ContextKey, Origin } from '../plugin/call.ts'
import { misconfigured } from '../plugin/plugin.ts'
import type { Handler, Next, Stage } from '../plugin/plugin.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Reply } from '../plugin/reply.ts'
import type { Clock } from '../services/clock.ts'
import type { Services } from '../services/index.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Counter, Metrics } from '../services/metrics.ts'
import { getOrCreate } from '../util/memoize.ts'
import { methodNameOf } from '../util/json.ts'

/** A stage whose context the loader has checked; the types of contexts end here. */
export type AnyStage = Stage<never, never>

type AnyHandler = Handler<never, never>

/** What create() of a plugin returned, as a stage. The types promise it, but not for a plugin written in JavaScript. */
export const toStage = (created: AnyHandler | AnyStage | undefined): AnyStage => {
  if (typeof created === 'function') return { handle: created }
  if (typeof created?.handle === 'function') return created
  if (!(created instanceof Promise)) throw misconfigured([], 'create() must return a handler, or a stage with `handle`')
  created.catch(() => undefined)
  throw misconfigured([], 'create() must not be async: it returns a handler; what takes time belongs into start()')
}

/** Composes the handlers of the stages, outermost first, into one function; done once, at load. */
export const composeHandlers = (stages: readonly AnyStage[]): Next =>
  stages.map(stage => stage.handle.bind(stage)).reduceRight<Next>((next, handle) => call => handle(call, next), endOfPipeline)

const endOfPipeline: Next = () => {
  throw new Error('the last plugin of a pipeline called next()')
}

type AdmissionCheck = NonNullable<AnyStage['admit']>

/** Asks each stage in order; the first failure ends it. Synchronous while the stages are. */
export const admitSequentially = (stages: readonly AnyStage[]): AdmissionCheck => {
  const checks = stages.flatMap(stage => stage.admit?.bind(stage) ?? [])
  const admitFrom = (origin: Origin, i: number): ReturnType<AdmissionCheck> => {
    const failure = checks[i]?.(origin)
    if (failure instanceof Promise) return failure.then(found => found ?? admitFrom(origin, i + 1))
    return failure ?? (i + 1 < checks.length ? admitFrom(origin, i + 1) : undefined)
  }
  return origin => admitFrom(origin, 0)
}

/** What the `vary` functions of these steps say of a call, as one text. */
export const varyBelow = (steps: readonly Step[]): Services['vary'] => {
  const varying = steps.filter(step => step.plugin.vary !== undefined)
  // Each plugin sees the context that it reads; the loader has proved that it is written by now.
  const varyTextOf = ({ plugin, options }: Step, call: Call): string =>
    plugin.vary?.(call.context as Pick<never, ContextKey & never>, options as never, call.origin) ?? ''
  const [only] = varying
  if (only === undefined) return () => ''
  if (varying.length === 1) return (call: Call) => varyTextOf(only, call)
  // JSON, because the texts may hold anything that callers send: a separator would not tell where a text ends.
  return (call: Call) => JSON.stringify(varying.map(step => varyTextOf(step, call)))
}

interface CallMetricsOptions {
  readonly network: string
  /** The methods that the network offers; all others count as `other`. */
  readonly methods: readonly string[]
  readonly metrics: Metrics
  readonly clock: Clock
}

/** Counts each call by method and outcome, and measures its duration. */
export const withCallMetrics = (run: Next, { network, methods, metrics, clock }: CallMetricsOptions): Next => {
  const callDuration = metrics.histogram(metricDefinitions.callDuration, { network })
  const methodNames = new Set(methods)
  const counters = new Map<string, Map<string, Counter>>()
  const counterOf = (name: string, outcome: string): Counter => {
    const method = methodNames.has(name) ? name : 'other'
    const countersOfMethod = getOrCreate(counters, method, () => new Map<string, Counter>())
    return getOrCreate(countersOfMethod, outcome, () => metrics.counter(metricDefinitions.calls, { network, method, outcome }))
  }
  return async call => {
    const startedAtMs = clock.monotonic()
    let outcome = 'internal' // when a bug throws
    try {
      const reply = await run(call)
      if (!isReply(reply)) throw new TypeError('a plugin returned neither a result in bytes nor a failure')
      outcome = isFailure(reply) ? reply.kind : 'ok'
      return reply
    } finally {
      counterOf(methodNameOf(call.message) ?? 'other', outcome).add()
      callDuration.observe((clock.monotonic() - startedAtMs) / 1000)
    }
  }
}

/** The types promise it, but not for a plugin written in JavaScript. */
const isReply = (reply: Reply | undefined): boolean =>
  reply instanceof Object && (isFailure(reply) || reply.result instanceof Uint8Array || reply.result instanceof ChunkedBytes)
