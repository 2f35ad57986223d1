import { randomFillSync } from 'node:crypto'
import type { Origin, Request, Target } from '../../plugin/call.ts'
import { refuse } from '../../plugin/reply.ts'
import type { Failure, Reply } from '../../plugin/reply.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import type { ResponseMemory } from '../memory-budget.ts'
import { ConcurrencyLimit } from './concurrency-limit.ts'
import { parseEndpoint, withHeaders } from './endpoint.ts'
import type { Endpoint } from './endpoint.ts'
import { openHttpClient } from './http-client.ts'
import type { HttpClient } from './http-client.ts'
import type { RequestId, UpstreamSockets, UpstreamTransport } from './upstream-transport.ts'
import { sendRequest } from './http-exchange.ts'
import type { ExchangeContext, PendingRequest } from './http-exchange.ts'
import { NodeWebSocket } from './node-websocket.ts'
import { ReadTurns } from './read-turns.ts'
import { RequestDeadline } from './request-deadline.ts'
import type { RequestOptions } from './request-deadline.ts'
import { SecretRedactor } from './secret-redactor.ts'

export type { RequestOptions } from './request-deadline.ts'

/** Sends JSON-RPC requests to nodes, over kept-alive HTTP connections and WebSockets that all pipelines of a process share. */
export interface UpstreamClient {
  /**
   * Sends the request, and scans the response without parsing a result. Whatever is not a well-formed JSON-RPC response to
   * this very request comes back as a failure with `fault: 'upstream'`: with `kind: 'timeout'` when the node is alive but
   * slow, with `category: 'rateLimited'` and its Retry-After when the node limits the gateway, and with `unresponsive` when
   * it does not even answer the liveness probe. A failure with the source `gateway` is no sign of the node's health: too
   * many requests at once for the target, or too many bytes of responses in all.
   */
  request(target: Target, request: Request, options: RequestOptions): Promise<Reply>
  /** How many connections the node has closed so far. When there are more, another node may be there. */
  disconnects(target: Target): number
}

interface TargetState {
  readonly endpoint: Endpoint
  readonly transport: UpstreamTransport
  /** Undefined where the target has no limit. */
  readonly concurrency: ConcurrencyLimit | undefined
  /** The same for requests with `waits`. */
  readonly waitConcurrency: ConcurrencyLimit | undefined
}

/** So many may wait for an upstream however few it takes at once: a batch begins 64 calls together (`batchLimits`). */
const minQueuedRequests = 64

/** A decompressor of zlib takes 0.1 MiB. */
const maxConcurrentZlib = 32
/** A decompressor of brotli takes up to 16 MiB, however short the response is. */
const maxConcurrentBrotli = 2

type OwnerOf = (origin: Origin) => string

/** A client whose connections several networks share. */
interface SharedUpstreamClient extends UpstreamClient {
  /** The same client, whose responses reserve their bytes elsewhere; `ownerOf` names the account that a request is for. */
  withMemory(memory: ResponseMemory, ownerOf?: OwnerOf): UpstreamClient
  close(): Promise<void>
}

interface UpstreamClientOptions {
  readonly sockets?: UpstreamSockets
  /** Takes the place of sockets, in tests. */
  readonly httpClient?: HttpClient
}

/**
 * Responses reserve their bytes in `memory` while they come in; a response that does not fit is given up. What the
 * limits of the process do not allow is recorded in `sockets`.
 */
export const openUpstreamClient = (
  clock: Clock,
  memory: ResponseMemory,
  {
    sockets = { maxUpstreamSockets: Infinity, recordRefused: () => undefined },
    httpClient = withWebSockets(openHttpClient(clock, sockets.maxUpstreamSockets), clock),
  }: UpstreamClientOptions = {},
): SharedUpstreamClient => {
  const states = new WeakMap<Target, TargetState>()
  const redactor = new SecretRedactor()
  const newState = (target: Target): TargetState => newTargetState(target, { httpClient, redactor, clock })
  const shared = {
    clock,
    readTurns: new ReadTurns(),
    decompressionLimits: newDecompressionLimits(clock),
    redactor,
    sockets,
    newRequestId: createRequestIds(),
  }
  const withMemory = (memory: ResponseMemory, ownerOf: OwnerOf = () => ''): UpstreamClient => {
    const context = { ...shared, memory }
    return {
      request(target, request, options) {
        const deadline = new RequestDeadline(clock, options)
        const state = getOrCreate(states, target, newState)
        const { transport } = state
        const concurrency =
          options.bypassConcurrencyLimit === true ? undefined : options.waits === true ? state.waitConcurrency : state.concurrency
        const owner = concurrency === undefined || options.origin === undefined ? '' : ownerOf(options.origin)
        const endpoint = withTraceparent(state.endpoint, options.traceparent, target)
        const pending = { target, request, options, transport, endpoint, deadline, concurrency, owner }
        const admission = concurrency?.acquire(deadline, owner) ?? true
        if (admission instanceof Promise) return sendWhenAdmitted(context, pending, admission)
        return admission ? sendRequest(context, pending) : Promise.resolve(refuseRequest(pending))
      },
      disconnects: target => getOrCreate(states, target, newState).transport.disconnects,
    }
  }
  return { ...withMemory(memory), withMemory, close: () => httpClient.close() }
}

interface TargetServices {
  readonly httpClient: HttpClient
  readonly redactor: SecretRedactor
  readonly clock: Clock
}

/** Adds the secrets of the target to those that failures do not show. */
const newTargetState = (target: Target, { httpClient, redactor, clock }: TargetServices): TargetState => {
  const { url, ws, headers = {}, concurrency } = target
  redactor.add(url)
  if (ws !== undefined) redactor.add(ws)
  for (const value of Object.values(headers)) redactor.addHeader(value)
  const endpoint = parseEndpoint(url, target)
  const newLimit = () =>
    concurrency === undefined ? undefined : new ConcurrencyLimit(clock, concurrency, Math.max(concurrency, minQueuedRequests))
  return { endpoint, transport: httpClient.transportTo(endpoint), concurrency: newLimit(), waitConcurrency: newLimit() }
}

const newDecompressionLimits = (clock: Clock) => ({
  zlib: new ConcurrencyLimit(clock, maxConcurrentZlib, Infinity),
  brotli: new ConcurrencyLimit(clock, maxConcurrentBrotli, Infinity),
})

/**
 * Random ids of 16 digits: no node can answer a request before it has received it. Random words are drawn many at a time: 6 ns each. Of two
 * parts, as V8 takes 0.2 us to write a number above 2^31, and 20 ns for each part.
 */
const createRequestIds = (): (() => RequestId) => {
  const words = new Uint32Array(1024)
  let next = words.length
  const nextWord = (): number => {
    if (next === words.length) {
      randomFillSync(words)
      next = 0
    }
    return words[next++]!
  }
  return () => {
    const high = 1e6 + (nextWord() % 7e6) // so that the id is below 2^53: a number holds 53 bits exactly
    const low = 1e8 + (nextWord() % 9e8)
    return { value: high * 1e9 + low, digits: `${high}${low}` }
  }
}

/** A partner gets nothing of the caller but the call. */
const withTraceparent = (endpoint: Endpoint, traceparent: string | undefined, { source }: Target): Endpoint =>
  traceparent === undefined || source === 'partner' ? endpoint : withHeaders(endpoint, ['traceparent', traceparent])

const sendWhenAdmitted = async (context: ExchangeContext, pending: PendingRequest, admission: Promise<boolean>): Promise<Reply> => {
  pending.deadline.startDeadline()
  return (await admission) ? sendRequest(context, pending) : refuseRequest(pending)
}

const refuseRequest = ({ target, deadline }: PendingRequest): Failure => {
  deadline.stop()
  return deadline.toFailure(target) ?? concurrencyExceeded(target)
}

/** No sign of the node's health: the source `gateway` keeps circuit breakers out of it, and the fault lets another node be tried. */
const concurrencyExceeded = ({ name }: Target): Failure =>
  refuse('unavailable', { source: 'gateway', upstream: name, cause: 'upstream concurrency limit reached' })

/** The same client, with WebSockets to endpoints with ws:// or wss://: one for each URL and its credentials. */
const withWebSockets = (httpClient: HttpClient, clock: Clock): HttpClient => {
  const webSockets = new Map<string, NodeWebSocket>()
  return {
    transportTo(endpoint) {
      const { origin, path, credentials } = endpoint
      if (!origin.startsWith('ws')) return httpClient.transportTo(endpoint)
      const options = { url: origin + path, headers: credentials, clock, random: Math.random }
      return getOrCreate(webSockets, JSON.stringify([origin, path, credentials]), () => new NodeWebSocket(options))
    },
    async close() {
      for (const webSocket of webSockets.values()) webSocket.close()
      await httpClient.close()
    },
  }
}
