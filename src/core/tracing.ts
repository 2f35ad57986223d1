import type * as OpenTelemetry from '@opentelemetry/api'
import type { Context, Span, Tracer, TracerProvider, Attributes, SpanStatusCode } from '@opentelemetry/api'
import type { Origin } from '../plugin/call.ts'
import type { DirectNext } from '../plugin/direct-stage.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Reply } from '../plugin/reply.ts'
import type { Clock } from '../services/clock.ts'
import type { SpanReference, UpstreamClient } from '../services/index.ts'
import type { Log } from '../services/log.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { methodNameOf } from '../util/json.ts'
import type { AnyHandler } from './pipeline.ts'
import { version } from './version.ts'

/**
 * The spans of a process whose operator has registered an SDK of OpenTelemetry before the start; undefined without one: then nothing
 * here runs for a call. The API takes 22 ms to load, so it is loaded only for an SDK.
 */
export const openTracing = async (log: Log): Promise<Tracing | undefined> => {
  const registered = (globalThis as GlobalApi)[apiKey]
  if (registered?.trace === undefined) return undefined
  const api = await import('@opentelemetry/api')
  if (api.trace.getTracerProvider() === registered.trace) {
    log.info({ event: 'tracing' }, 'spans are recorded by the OpenTelemetry SDK that is registered')
    return new Tracing(api)
  }
  log.warn(
    { event: 'tracing-unavailable', version: registered.version },
    'no spans are recorded: the OpenTelemetry SDK was registered with an @opentelemetry/api before 1.9',
  )
  return undefined
}

/** Under this key @opentelemetry/api 1 stores what is registered, for all its copies in a process. */
const apiKey: unique symbol = Symbol.for('opentelemetry.js.api.1')

interface GlobalApi {
  readonly [apiKey]?: { readonly version?: string; readonly trace?: unknown }
}

/**
 * Records a span for each call, in it one for each plugin, and in these one for each request to a node. The SDK decides which calls
 * are sampled; of a call that is not, the plugins have no spans.
 */
export class Tracing {
  readonly #api: typeof OpenTelemetry
  readonly #tracer: Tracer

  constructor(api: typeof OpenTelemetry) {
    this.#api = api
    this.#tracer = api.trace.getTracer('tollgate', version)
  }

  /** Methods that the network's table does not have count as one, as their names come from callers. */
  traceCalls(run: DirectNext, network: string, methods: ReadonlyMap<string, unknown>): DirectNext {
    return call => {
      const name = methodNameOf(call.message) ?? ''
      const method = methods.has(name) ? name : otherMethod
      const { transport, requestId } = call.origin
      const attributes = {
        ...rpcAttributes(method),
        'network.protocol.name': transport,
        'tollgate.network': network,
        'tollgate.request_id': requestId,
      }
      const parent = this.#parentOf(call.origin)
      const kind = this.#api.SpanKind.SERVER
      const span = this.#tracer.startSpan(method === otherMethod ? 'jsonrpc' : method, { kind, attributes }, parent)
      return this.#run(span, parent, () => run(call), recordReply)
    }
  }

  traceStage(plugin: string, handle: AnyHandler): AnyHandler {
    const attributes = { 'tollgate.plugin': plugin }
    return (call, next) => {
      const parent = this.#recordedContext()
      if (parent === undefined) return handle(call, next)
      return this.#run(this.#tracer.startSpan(plugin, { attributes }, parent), parent, () => handle(call, next))
    }
  }

  /** Requests that belong to no call, as probes, have no trace context, and get no span. */
  traceRequests(client: UpstreamClient): UpstreamClient {
    return {
      request: (target, request, options) => {
        const parent = options.traceparent === undefined ? undefined : this.#recordedContext()
        if (parent === undefined) return client.request(target, request, options)
        const attributes = { ...rpcAttributes(request.method), 'tollgate.upstream': target.name }
        const span = this.#tracer.startSpan(request.method, { kind: this.#api.SpanKind.CLIENT, attributes }, parent)
        const send = () => client.request(target, request, { ...options, traceparent: formatTraceparent(span) })
        return this.#run(span, parent, send, recordReply)
      },
      disconnects: target => client.disconnects(target),
    }
  }

  /** The W3C trace context of the span that runs now, recorded or not. */
  currentTraceparent(): string | undefined {
    const span = this.#currentSpan()
    return span && formatTraceparent(span)
  }

  /** The span that runs now, if it is recorded. */
  currentSpan(): SpanReference | undefined {
    const span = this.#currentSpan()
    if (span?.isRecording() !== true) return undefined
    return { linkFromCurrent: () => void this.#currentSpan()?.addLink({ context: span.spanContext() }) }
  }

  /** Resolves when the spans that have ended are exported, at the latest after `maxFlushMs`: an SDK exports many at a time. */
  async flush(clock: Clock): Promise<void> {
    const registered = this.#api.trace.getTracerProvider() as DelegatingProvider
    const provider = registered.getDelegate?.() ?? registered
    if (provider.forceFlush !== undefined) await withTimeoutOr(clock, maxFlushMs, provider.forceFlush(), () => undefined)
  }

  #currentSpan(): Span | undefined {
    return this.#api.trace.getActiveSpan()
  }

  #recordedContext(): Context | undefined {
    const context = this.#api.context.active()
    return this.#api.trace.getSpan(context)?.isRecording() === true ? context : undefined
  }

  /** An instrumentation of the operator's may have made a span for the HTTP request already. */
  #parentOf({ headers }: Pick<Origin, 'headers'>): Context {
    const { context, propagation, trace } = this.#api
    const active = context.active()
    return trace.getSpan(active) === undefined ? propagation.extract(active, headers) : active
  }

  async #run(span: Span, parent: Context, run: () => MaybePromise<Reply>, record?: (span: Span, reply: Reply) => void): Promise<Reply> {
    try {
      const reply = await this.#api.context.with(this.#api.trace.setSpan(parent, span), run)
      record?.(span, reply)
      return reply
    } catch (bug) {
      recordBug(span)
      throw bug
    } finally {
      span.end()
    }
  }
}

const maxFlushMs = 2_000

/** The type of the API has neither: getDelegate() is of its own provider, forceFlush() of those of SDKs. */
interface DelegatingProvider extends TracerProvider {
  getDelegate?(): DelegatingProvider
  forceFlush?(): Promise<void>
}

const formatTraceparent = (span: Span): string => {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}

/** What spans call a method that the network does not offer, by the semantic conventions for RPC. */
const otherMethod = '_OTHER'

/** By the semantic conventions for JSON-RPC; until version 1.37 of them, `rpc.system.name` was `rpc.system`, which some backends expect. */
const rpcAttributes = (method: string): Attributes => ({
  'rpc.system.name': 'jsonrpc',
  'rpc.system': 'jsonrpc',
  'rpc.method': method,
  'jsonrpc.protocol.version': '2.0',
})

/** Messages and data of errors are not recorded: nodes and callers write them. */
const recordReply = (span: Span, reply: Reply): void => {
  const { source, upstream, cache, credits } = reply
  span.setAttribute('tollgate.source', source)
  if (upstream !== undefined) span.setAttribute('tollgate.upstream', upstream)
  if (cache !== undefined) span.setAttribute('tollgate.cache', cache)
  if (credits !== undefined) span.setAttribute('tollgate.credits', credits)
  if (!isFailure(reply)) return
  const { error, kind, fault, cause } = reply
  span.setAttributes({ 'rpc.response.status_code': String(error.code), 'error.type': kind, 'tollgate.fault': fault })
  span.setStatus({ code: errorStatus, ...(cause !== undefined && { message: cause }) })
}

const recordBug = (span: Span): void => {
  span.setAttribute('error.type', 'internal')
  span.setStatus({ code: errorStatus })
}

/** SpanStatusCode.ERROR: the API is not loaded for one number. */
const errorStatus: SpanStatusCode.ERROR = 2
