import { formatProblems } from '../config/problem.ts'
import { gatewaySchema } from '../config/gateway-options.ts'
import { parseSize } from '../config/formats.ts'
import type { GatewayConfig, NetworkConfig } from '../config/types.ts'
import { buildNetwork } from '../core/network.ts'
import type { StageExplanation } from '../core/explain-stages.ts'
import type { Network } from '../core/network.ts'
import { failureResponse, handleMessage, settleReplies } from '../json-rpc/handle-message.ts'
import type { MessageHandler, RpcResponse } from '../json-rpc/handle-message.ts'
import { createMessageParser, maxMessageDepth } from '../json-rpc/parse-message.ts'
import { batchLimits } from '../json-rpc/run-batch.ts'
import { bodyToBuffer } from '../json-rpc/serialize-response.ts'
import { Cancellation, Secret, isFailure } from '../plugin/plugin.ts'
import type { CallContext, Failure, Json, Origin, Reply } from '../plugin/plugin.ts'
import type { Push } from '../plugin/call.ts'
import type { RpcError, Verification } from '../plugin/reply.ts'
import type { Lookup } from '../services/index.ts'
import { noAccessLog } from '../services/access-log.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import type { MetricsRegistry, Series } from '../services/metrics.ts'
import { CallerMemory, MemoryBudget } from '../services/memory-budget.ts'
import { ClockDriver, TestClock } from './test-clock.ts'
import { toMs } from './fake-upstreams.ts'
import type { UpstreamRequest } from './fake-upstreams.ts'
import { openFakeServices } from './fake-services.ts'
import type { WorldOptions } from './fake-services.ts'
import type { InMemoryKeys } from './in-memory-store.ts'
import type { SuppliedContext } from './supplement-pipeline.ts'
import { TestLog } from './test-log.ts'
import { didYouMean } from '../util/did-you-mean.ts'

/** Who calls. */
export interface CallerOptions {
  /** Name of the key; the first key unless given. A name that no key has is sent as the text of a key; `null` sends no key. */
  readonly key?: string | null
  /** Request headers, in lower case. */
  readonly headers?: Readonly<Record<string, string>>
  /** The Origin header. */
  readonly origin?: string
  readonly ip?: string
}

/** The response to one message. */
export interface MessageResponse {
  /** HTTP status. */
  readonly status: number
  /** Undefined for notifications, which get no response. */
  readonly body: Json | undefined
  /** Seconds. */
  readonly retryAfter: number | undefined
  /** What the pipeline returned for each call, in their order. */
  readonly replies: readonly Reply[]
}

/** What a caller gets for one call, and what the gateway knows about it. */
export interface CallResponse {
  /** HTTP status. */
  readonly status: number
  readonly result?: Json
  readonly error?: RpcError
  /** `ok`, or the kind of the failure: a row of the table of errors, or `node`. */
  readonly outcome: string
  readonly source: Reply['source']
  readonly upstream?: string
  readonly cache?: 'hit' | 'miss'
  /** What the result was verified by; absent where no plugin verifies results. */
  readonly verified?: Verification
  readonly credits?: number
  /** Seconds. */
  readonly retryAfter?: number
}

/** An open WebSocket of a caller. */
export interface HarnessWebSocket {
  call(method: string, params?: Json): Promise<CallResponse>
  send(message: Json): Promise<MessageResponse>
  /** What `origin.push` has sent, parsed, the oldest first. */
  readonly messages: readonly Json[]
  /** How `origin.push` has closed it; undefined while it has not. */
  readonly closed: { readonly code: number; readonly reason: string } | undefined
  /** The caller disconnects. */
  disconnect(): void
}

/** A network on a clock that the test advances, with upstreams that the test scripts. Nothing of it uses sockets, files or real time. */
export interface Harness {
  /** Makes a call. While its response waits for time to pass, the clock jumps from timer to timer. */
  call(method: string, params?: Json, caller?: CallerOptions): Promise<CallResponse>
  /** Sends a message as it is: a request, a batch, or a text that is no JSON. */
  send(message: Json, caller?: CallerOptions): Promise<MessageResponse>
  /** Opens a WebSocket; rejects with the message of the refusal where admit() of a plugin refuses it. It is not asked again while the WebSocket is open. */
  openWebSocket(caller?: CallerOptions): Promise<HarnessWebSocket>
  /** What each stage says of a call, from the first to the one that ends it, as `tollgate explain` prints it; `key: null` for no caller in particular. */
  explain(method: string, caller?: Pick<CallerOptions, 'key'>): Promise<readonly StageExplanation[]>
  /** Whether the stages offer the method to the caller; `rpc.discover` lists those that they offer. */
  offers(method: string, caller?: Pick<CallerOptions, 'key'>): Promise<boolean>
  /** Lets time pass: a duration such as `10s`, or ms. */
  advance(duration: string | number): Promise<void>
  /** What went upstream because of calls, oldest first; what the gateway asks about the chain itself is not among it. */
  readonly requests: readonly UpstreamRequest[]
  readonly clock: TestClock
  /** Its lines are in `log.lines`. */
  readonly log: TestLog
  /** The sum of a counter, a gauge, or the count of a histogram over all series that have these labels; throws for a name that no metric has. */
  metric(name: string, labels?: Readonly<Record<string, string>>): number
  /** Stops the plugins. */
  stop(): Promise<void>
}

/** Builds and starts the network. Throws with all problems of the plugins; when it rejects, everything is closed again. */
export const openNetworkHarness = async (
  config: NetworkConfig,
  { clock = new TestClock(), context = {}, ...world }: WorldOptions & { readonly context?: SuppliedContext },
  limits: MessageLimits = defaultLimits,
): Promise<Harness> => {
  const log = new TestLog()
  const metrics = createMetricsRegistry()
  const requests: UpstreamRequest[] = []
  const driver = new ClockDriver(clock)
  const closers: Closer[] = []
  try {
    const { services, keys, creditsLeft, stop } = await openFakeServices(config, { ...world, clock, log, metrics, requests })
    closers.push({ close: stop, failure: 'a service did not stop' })
    const { network, problems } = await buildNetwork(config, services)
    if (network === undefined) throw new Error(formatProblems(problems))
    closers.push({ close: network.stop, failure: 'a plugin did not stop' })
    await driver.settle(network.start(), () => 'a plugin did not start')
    // The first call finds the heads known, as the calls of a running gateway do.
    network.heads.recordActivity()
    await driver.advance(0)
    const parse = createMessageParser({ ...limits, depth: maxMessageDepth })
    const handler = { parse, run: network.run, limits: { ...limits, ...batchLimits }, clock, log, accessLog: noAccessLog }
    const lookUp = async ({ key = keys.firstName }: Pick<CallerOptions, 'key'>): Promise<Lookup | undefined> => {
      const lookup = key === null ? undefined : await services.accounts.find(new Secret(keys.textOf(key)))
      return lookup?.kind === 'granted' ? { ...lookup, ...pickCaller(context) } : lookup
    }
    const runs = new MessageRunner(network, handler, { keys, driver, log })
    return {
      call: async (method, params = [], caller = {}) => toCallResponse(await runs.send({ jsonrpc: '2.0', id: 1, method, params }, caller)),
      send: (message, caller = {}) => runs.send(message, caller),
      openWebSocket: (caller = {}) => runs.openWebSocket(caller),
      async explain(method, caller = {}) {
        const lookup = await lookUp(caller)
        return network.explain({ method, lookup, creditsLeft: lookup?.kind === 'granted' ? creditsLeft(lookup.account) : undefined })
      },
      async offers(method, caller = {}) {
        const lookup = await lookUp(caller)
        return network.offers(method, lookup?.kind === 'granted' ? { ...context, key: lookup.key, account: lookup.account } : context)
      },
      advance: duration => driver.advance(toMs(duration)),
      requests,
      clock,
      log,
      metric: (name, labels = {}) => sumOfSeries(metrics, name, labels),
      stop: () => closeAll(closers, driver),
    }
  } catch (error) {
    await closeAll(closers, driver).catch(() => undefined) // the first error says more
    throw error
  }
}

/** The caller that a test supplies is that of each call. */
const pickCaller = ({ key, account }: SuppliedContext): Partial<Pick<CallContext, 'key' | 'account'>> => ({
  ...(key && { key }),
  ...(account && { account }),
})

interface Closer {
  close(): Promise<void>
  /** What is wrong when it never ends. */
  readonly failure: string
}

/** Closes everything, what was opened last first. Rejects with the first error. */
const closeAll = async (closers: Closer[], driver: ClockDriver): Promise<void> => {
  const errors: unknown[] = []
  for (const closer of closers.splice(0).reverse()) {
    await driver.settle(closer.close(), () => closer.failure).catch((error: unknown) => errors.push(error))
  }
  if (errors.length > 0) throw errors[0]
}

/** Limits on messages, as in gateway.yaml. */
export type MessageLimits = Pick<GatewayConfig['limits'], 'batch' | 'batchReply'>

const limitSchemas = gatewaySchema.properties.limits.properties

const defaultLimits: MessageLimits = {
  batch: limitSchemas.batch.default,
  batchReply: parseSize(limitSchemas.batchReply.default) ?? 0,
}

/** What a caller's message may take, in bytes: the default of `limits.inFlight`. */
const callerMemoryBytes = parseSize(limitSchemas.inFlight.default) ?? 0

interface RunnerParts {
  readonly keys: InMemoryKeys
  readonly driver: ClockDriver
  readonly log: TestLog
}

/** Handles messages as the server does, from the bytes of a request to the bytes of its response. */
class MessageRunner {
  readonly #network: Network
  readonly #handler: MessageHandler
  readonly #parts: RunnerParts
  #requestCount = 0

  constructor(network: Network, handler: MessageHandler, parts: RunnerParts) {
    this.#network = network
    this.#handler = handler
    this.#parts = parts
  }

  send(message: Json, caller: CallerOptions): Promise<MessageResponse> {
    const origin = this.#originOf(caller)
    return this.#run(message, async bytes => {
      const refusal = await this.#network.admit(origin)
      return refusal === undefined ? this.#respond(bytes, origin) : failureResponse(refusal)
    })
  }

  async openWebSocket(caller: CallerOptions): Promise<HarnessWebSocket> {
    const { driver, log } = this.#parts
    const push = new RecordedPush()
    const signal = new Cancellation()
    const origin: Origin = { ...this.#originOf(caller), transport: 'websocket', push, signal }
    const admission = async (): Promise<Failure | undefined> => this.#network.admit(origin)
    const refusal = await driver.settle(admission(), () => describeStuck('a WebSocket', log))
    if (refusal !== undefined) throw new Error(refusal.error.message)
    const send = (message: Json) => this.#run(message, bytes => this.#respond(bytes, origin))
    return {
      call: async (method, params = []) => toCallResponse(await send({ jsonrpc: '2.0', id: 1, method, params })),
      send,
      messages: push.messages,
      get closed() {
        return push.closed
      },
      disconnect() {
        push.isOpen = false
        signal.abort()
      },
    }
  }

  /** The response, which its caller gets. */
  async #run(message: Json, respond: (bytes: Buffer) => Promise<RpcResponse>): Promise<MessageResponse> {
    const text = typeof message === 'string' ? message : JSON.stringify(message)
    const { driver, log } = this.#parts
    const { status, body, retryAfter, replies } = await driver.settle(respond(Buffer.from(text)), () => describeStuck(text, log))
    const parsed =
      body && parseJson(bodyToBuffer(body).toString(), 'the response is not JSON, so that a plugin returned a result that is not')
    settleReplies({ log }, replies, true)
    return { status, body: parsed, retryAfter, replies }
  }

  async #respond(bytes: Buffer, origin: Origin): Promise<RpcResponse> {
    const memory = new CallerMemory(new MemoryBudget(callerMemoryBytes), origin.ip)
    return handleMessage(this.#handler, bytes, origin, memory, { enter: () => undefined })
  }

  #originOf({ key = this.#parts.keys.firstName, headers = {}, origin, ip = '127.0.0.1' }: CallerOptions): Origin {
    return {
      transport: 'http',
      network: this.#network.name,
      key: key === null ? undefined : new Secret(this.#parts.keys.textOf(key)),
      originHeader: origin,
      ip,
      requestId: `test-${(this.#requestCount += 1)}`,
      headers: origin === undefined ? headers : { ...headers, origin },
      signal: new Cancellation(),
      state: {},
    }
  }
}

/** Stores what is sent. */
class RecordedPush implements Push {
  readonly messages: Json[] = []
  closed: HarnessWebSocket['closed']
  isOpen = true

  send(pieces: readonly (string | Uint8Array)[]): boolean {
    if (!this.isOpen) return false
    const bytes = pieces.map(piece => (typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece))
    this.messages.push(parseJson(Buffer.concat(bytes).toString(), 'a message that is pushed is not JSON'))
    return true
  }

  turn(): undefined {
    return undefined
  }

  close(code: number, reason: string): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.closed = { code, reason }
  }
}

const maxShownChars = 200

const parseJson = (text: string, fault: string): Json => {
  try {
    return JSON.parse(text) as Json // JSON gives Json
  } catch {
    throw new Error(`${fault}: ${text.slice(0, maxShownChars)}`)
  }
}

const describeStuck = (text: string, log: TestLog): string => {
  const warnings = log.lines.filter(({ level }) => level === 'warn' || level === 'error')
  const said = warnings.map(({ message, fields }) => `\n  log: ${message} ${JSON.stringify(fields)}`).join('')
  return `a call was never answered: ${text.slice(0, maxShownChars)}${said}`
}

/** What the response to one call says. */
export const toCallResponse = ({ status, body, retryAfter, replies }: MessageResponse): CallResponse => {
  const [reply] = replies
  if (reply === undefined) throw new Error('a call has one reply')
  const { result, error } = body as { readonly result?: Json; readonly error?: RpcError } // a response to one call
  return {
    status,
    ...(error === undefined ? { result: result ?? null } : { error }),
    outcome: isFailure(reply) ? reply.kind : 'ok',
    source: reply.source,
    ...(reply.upstream !== undefined && { upstream: reply.upstream }),
    ...(reply.cache !== undefined && { cache: reply.cache }),
    ...(!isFailure(reply) && reply.verified !== undefined && { verified: reply.verified }),
    ...(reply.credits !== undefined && { credits: reply.credits }),
    ...(retryAfter !== undefined && { retryAfter }),
  }
}

const sumOfSeries = (metrics: MetricsRegistry, name: string, labels: Readonly<Record<string, string>>): number => {
  const families = metrics.families()
  const family = families.find(each => each.name === name)
  // Some of the gateway have no series before the first call that they count.
  const names = [...families, ...Object.values(metricDefinitions)].map(each => each.name)
  if (!names.includes(name)) throw new TypeError(`no metric is named ${name}: ${didYouMean(name, names) ?? 'did create() open it?'}`)
  const series = family?.series.filter(each => Object.entries(labels).every(([label, value]) => each.labels[label] === value)) ?? []
  // The last value of a histogram is the sum of what was observed; the others are counts.
  const valuesOf = ({ values }: Series) => (family?.type === 'histogram' ? values.slice(0, -1) : values)
  return series.flatMap(valuesOf).reduce((sum, value) => sum + value, 0)
}
