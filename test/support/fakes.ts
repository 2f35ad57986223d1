import type { Account, Call, Json, Key, ContextKey, CallContext, Origin, Target } from '../../src/plugin/call.ts'
import { Cancellation } from '../../src/plugin/call.ts'
import { toBuffer } from '../../src/json/chunked-bytes.ts'
import { Secret } from '../../src/plugin/secret.ts'
import type { AnyPlugin, Next, Stage } from '../../src/plugin/plugin.ts'
import { isFailure } from '../../src/plugin/reply.ts'
import type { RefusalKind } from '../../src/plugin/error-table.ts'
import type { Charge, Failure, Reply, Result } from '../../src/plugin/reply.ts'
import type { Clock } from '../../src/services/clock.ts'
import { AccessLog } from '../../src/services/access-log.ts'
import type { AccessLogSettings } from '../../src/services/access-log.ts'
import { HeadTracker } from '../../src/services/chain-heads/index.ts'
import type { ChainCheck, Services } from '../../src/services/index.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import type { MetricsRegistry } from '../../src/services/metrics.ts'
import { NodeStatuses } from '../../src/services/node-status.ts'
import type { RequestLogConfig } from '../../src/services/request-log.ts'
import { results } from '../../src/services/results.ts'
import type { LoggedRequest } from '../../src/store/request-log-store.ts'
import { TestClock } from '../../src/testing/test-clock.ts'
import { TestLog } from '../../src/testing/test-log.ts'

export { TestClock, TestLog }

const allCalls: AccessLogSettings = { target: 'stdout', sample: 1 }

/** An access log, and the lines that were written. */
export const openTestAccessLog = (clock: Clock, settings: Partial<AccessLogSettings> = {}, random?: () => number) => {
  const lines: Record<string, unknown>[] = []
  const writer = { write: (line: string) => void lines.push(JSON.parse(line)), reopen: () => undefined, close: async () => undefined }
  const options = { settings: { ...allCalls, ...settings }, clock, openWriter: () => writer, ...(random && { random }) }
  return { accessLog: new AccessLog(options), lines }
}

/** As gateway.yaml has it by default. */
export const testRequestLog: RequestLogConfig = { enabled: true, params: true, slow: 1_000, retention: 86_400_000, maxBytes: 67_108_864 }

export const fakeLoggedRequest: LoggedRequest = {
  ...{ time: 1_000, requestId: 'r-1', transport: 'http', key: 'key_1', network: 'devnet', method: 'eth_call' },
  ...{ params: '["0x1"]', outcome: 'node', code: 3, message: 'é reverted', credits: 80, durationMs: 1.5 },
}

/** Logs nothing. */
export const fakeAccessLog = openTestAccessLog(new TestClock(), { target: 'none' }).accessLog

export const fakeAccount: Account = { id: 'acc_1', name: 'alice', plan: { name: 'core', dailyCredits: 1_000_000, forwarding: false } }
export const fakeKey: Key = { id: 'key_1' }
export const fakeTarget: Target = { name: 'own', url: new Secret('http://node.test'), source: 'node' }

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

/** A call with the whole context, for any plugin. */
export const fakeCall = (method: string, params: readonly Json[] = [], over: Partial<CallContext> = {}): Call<ContextKey> => ({
  message: { jsonrpc: '2.0', id: 1, method, params },
  origin: fakeOrigin(),
  startedAtMs: 0,
  context: { request: { method, params }, key: fakeKey, account: fakeAccount, target: fakeTarget, upstreams: [fakeTarget], ...over },
})

export const fakeResult = (value: Json, over: Partial<Reply> = {}): Reply =>
  ({ result: Buffer.from(JSON.stringify(value)), source: 'node', ...over }) as Reply // a spread of a union of shapes

/** A charge, and what becomes of it. */
export const fakeCharge = (refund: (outcome: RefusalKind) => void, keep: (outcome: RefusalKind) => void = () => undefined): Charge => ({
  refund,
  keep,
})

export const failureOf = (reply: Reply): Failure => {
  if (!isFailure(reply)) throw new Error('expected a failure')
  return reply
}

/** A `next` that fails the test when it is reached. */
export const unreachableNext: Next = () => {
  throw new Error('next() was called')
}

/** The value or the error code of a reply, to compare in one line. */
export const valueOrErrorCode = (reply: Reply): Json =>
  isFailure(reply) ? reply.error.code : (JSON.parse(toBuffer(reply.result).toString()) as Json) // JSON gives Json

/** Heads of upstreams that are all on the chain of the network. */
export class VerifiedHeads extends HeadTracker {
  override chainCheckOf = (): ChainCheck => ({ result: 'passed' })
}

export interface TestStage extends Stage<ContextKey, ContextKey> {
  readonly handle: (call: Call<ContextKey>, next: Next<ContextKey>) => Promise<Reply>
}

/** Creates a stage of the plugin, as openStage(), whose handler returns promises. */
export const createStage = (plugin: AnyPlugin, options: object, services: Partial<Services> = {}): TestStage => {
  const stage = openStage(plugin, options, services)
  return { ...stage, handle: async (call, next) => stage.handle(call, next) }
}

/** The stage of the plugin with fake services. Each call begins when it is handled, unless it passes the stage. */
export const openStage = (plugin: AnyPlugin, options: object, services: Partial<Services> = {}): Stage<ContextKey, ContextKey> => {
  const clock = services.clock ?? new TestClock()
  const stage = createPlainStage(plugin, options, { ...services, clock })
  const handle: typeof stage.handle = (call, next) => {
    if (stage.passes?.(call.context, call.variant) === true) return next(call)
    return stage.handle({ ...call, startedAtMs: clock.monotonic() }, next)
  }
  return { ...stage, handle }
}

/** The stage as the plugin makes it with fake services; a service that is neither given nor listed here is undefined. */
export const createPlainStage = (plugin: AnyPlugin, options: object, services: Partial<Services> = {}): Stage<ContextKey, ContextKey> => {
  const base = {
    network: { name: 'devnet', chainId: 31337, blockTime: 1000, devNode: false },
    clock: new TestClock(),
    log: new TestLog(),
    metrics: createMetricsRegistry(),
    cacheBytes: 1 << 20,
    results,
    usage: { count: () => {} },
    singleton: <T>(_name: string, _settings: Json, make: () => T): T => make(),
    vary: () => '',
    traceparent: () => undefined,
    currentSpan: () => undefined,
    offers: () => true,
    describeMethods: () => [],
    isServed: () => true,
    evidence: { add: () => 'id', proven: async () => [] },
    records: { find: async () => undefined, put: async () => undefined },
    problems: { begin: () => () => undefined, end: () => undefined },
    ...services,
  } as Services
  const nodes = base.nodes ?? new NodeStatuses(base.metrics as MetricsRegistry).of(base.network.name)
  // The tracker has no heads until a plugin lets it track nodes.
  const heads =
    base.heads ?? new VerifiedHeads({ ...base, ...base.network, errorCategory: (...error) => base.methods.errorCategory(...error) })
  /** As the network does where no other stage has a price. */
  const priceOf = ({ context, origin }: Call<'request'>, result?: Result): number => {
    const credits = base.methods.get(context.request.method)?.cost ?? base.methods.defaultCost
    return stage.priceOf?.(credits, context as CallContext, origin, result) ?? credits // fakeCall() has the whole context
  }
  const created = plugin.create(options as never, { ...base, priceOf: services.priceOf ?? priceOf, nodes, heads }) // options as the loader would pass them
  // fakeCall() has the whole context, so one type fits every plugin.
  const stage = (typeof created === 'function' ? { handle: created } : created) as unknown as Stage<ContextKey, ContextKey>
  return stage
}
