import { parseDuration } from '../config/formats.ts'
import type { Json } from '../plugin/plugin.ts'
import type { Path } from '../util/json.ts'
import type { RpcError } from '../plugin/reply.ts'
import type { Clock } from '../services/clock.ts'
import type { Endpoint } from '../services/upstream-client/endpoint.ts'
import type { HttpClient } from '../services/upstream-client/http-client.ts'
import type { HttpRequest, InFlightRequest, ResponseHandler, UpstreamTransport } from '../services/upstream-client/upstream-transport.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isJsonObject } from '../util/json.ts'
import type { FakeChain } from './fake-chain.ts'

/** When a response comes: a duration such as `3s`, or ms; at once unless given. */
interface Delay {
  readonly after?: string | number
}

/** The response of an upstream to one request. `down` refuses the connection, and `hang` never responds. */
export type FakeResponse =
  | (Delay & { readonly result: Json })
  | (Delay & { readonly error: RpcError })
  /** An HTTP response that is no JSON-RPC response. */
  | (Delay & { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string })
  | 'down'
  | 'hang'

/** A request as it reached an upstream. */
export interface UpstreamRequest {
  /** Name of the upstream. */
  readonly upstream: string
  readonly method: string
  readonly params: Json
}

/** One response, or responses for one request after the other, the last of them for all others; or a function that returns one. */
export type ResponseScript = FakeResponse | readonly FakeResponse[] | ((request: UpstreamRequest) => FakeResponse | Promise<FakeResponse>)

/** What an upstream responds, by method; `*` is for all other methods. One that is down, or hangs, has returned its chain ID before. */
export type FakeUpstream = 'down' | 'hang' | Readonly<Record<string, ResponseScript>>

/** In ms. */
export const toMs = (duration: string | number): number => {
  const ms = typeof duration === 'number' ? duration : parseDuration(duration)
  if (ms === undefined) throw new TypeError(`${JSON.stringify(duration)} must be a number of ms, or a duration such as 250ms, 10s or 5m`)
  return ms
}

interface FakeUpstreamsOptions {
  /** By name of the upstream; `*` is for all others. */
  readonly upstreams: Readonly<Record<string, FakeUpstream>>
  readonly clock: Clock
  readonly chain: FakeChain
  /** The name of the upstream with this URL. */
  nameOf(endpoint: Endpoint): string
}

/** Upstreams without sockets: they take the place of HTTP, below everything that reads responses. */
export class FakeUpstreams implements HttpClient, UpstreamTransport {
  readonly disconnects = 0
  readonly #options: FakeUpstreamsOptions
  readonly #scriptPositions = new Map<ResponseScript, number>()

  constructor(options: FakeUpstreamsOptions) {
    this.#options = options
  }

  transportTo(): this {
    return this
  }

  send({ id, endpoint, body }: HttpRequest, handler: ResponseHandler): InFlightRequest {
    const { method, params } = JSON.parse(body) as UpstreamRequest // serializeRequest() wrote it
    const inFlight = new FakeExchange(handler)
    const request = { upstream: this.#options.nameOf(endpoint), method, params }
    // The handler's own calls come first: nothing arrives before the request has been sent.
    queueMicrotask(() => void this.#respond(request, id, inFlight).catch((bug: unknown) => inFlight.fail(bug)))
    return inFlight
  }

  close = async (): Promise<void> => undefined

  async #respond(request: UpstreamRequest, id: number, exchange: FakeExchange): Promise<void> {
    const response = await this.#responseTo(request)
    if (response === 'hang') return exchange.begin()
    if (response === 'down') return exchange.fail(Object.assign(new Error('connection refused'), { code: 'ECONNREFUSED' }))
    const send = () => exchange.complete(response, id)
    exchange.begin()
    if (response.after === undefined) send()
    else this.#options.clock.after(toMs(response.after), send)
  }

  async #responseTo(request: UpstreamRequest): Promise<FakeResponse> {
    const { upstreams, chain } = this.#options
    const upstream = upstreams[request.upstream] ?? upstreams['*'] ?? {}
    const ofChain = chain.resultOf(request.method, request.params)
    if (typeof upstream === 'string') return request.method === 'eth_chainId' && ofChain !== undefined ? { result: ofChain } : upstream
    const script = upstream[request.method]
    if (script !== undefined) return this.#play(script, request)
    if (ofChain !== undefined) return { result: ofChain }
    return upstream['*'] === undefined ? unscripted(request.method) : this.#play(upstream['*'], request)
  }

  async #play(script: ResponseScript, request: UpstreamRequest): Promise<FakeResponse> {
    if (typeof script === 'function') return script(request)
    if (!isSequence(script)) return script
    const position = this.#scriptPositions.get(script) ?? 0
    this.#scriptPositions.set(script, position + 1)
    return script[Math.min(position, script.length - 1)] ?? unscripted(request.method)
  }
}

const isSequence = (script: ResponseScript): script is readonly FakeResponse[] => Array.isArray(script)

const unscripted = (method: string): FakeResponse => ({
  error: { code: -32601, message: `the fake upstream has no response to ${method}: give one under \`upstream\`` },
})

/** One request in flight: its events come until it is aborted. */
class FakeExchange implements InFlightRequest {
  readonly #handler: ResponseHandler
  #isAborted = false

  constructor(handler: ResponseHandler) {
    this.#handler = handler
  }

  begin(): void {
    if (!this.#isAborted) this.#handler.onStart()
  }

  complete(response: Exclude<FakeResponse, string>, id: number): void {
    if (this.#isAborted) return
    const { status, headers, body } = toHttp(response, id)
    this.#handler.onHeaders(status, headers)
    if (!this.#isAborted) this.#handler.onData(Buffer.from(body))
    if (!this.#isAborted) this.#handler.onEnd()
  }

  fail(error: unknown): void {
    if (!this.#isAborted) this.#handler.onError(error)
  }

  abort(): void {
    this.#isAborted = true
  }

  // A response is one chunk: there is none that could come later.
  pause = (): void => undefined
  resume = (): void => undefined
}

const toHttp = (response: Exclude<FakeResponse, string>, id: number) => {
  const headers = { 'content-type': 'application/json' }
  if ('status' in response) return { status: response.status, headers: { ...headers, ...response.headers }, body: response.body ?? '' }
  const outcome = 'error' in response ? { error: { ...response.error } } : { result: response.result }
  return { status: 200, headers, body: JSON.stringify({ jsonrpc: '2.0', id: id ?? null, ...outcome }) }
}

/** What is wrong with the script of an upstream, and where. */
interface ScriptIssue {
  readonly path: Path
  readonly message: string
}

const acceptedResponses = '{ result }, { error: { code, message } }, { status }, down, hang, or a list of these'

/** The issues of a FakeUpstream that the compiler has not checked. */
export const scriptIssues = (upstream: unknown, path: Path = []): readonly ScriptIssue[] => {
  if (upstream === 'down' || upstream === 'hang') return []
  if (!isJsonObject(upstream)) return [{ path, message: 'an upstream must be a map of methods, down or hang' }]
  return Object.entries(upstream).flatMap(([method, script]) => issuesOfScript(script, [...path, method]))
}

const issuesOfScript = (script: unknown, path: Path): readonly ScriptIssue[] => {
  if (typeof script === 'function') return []
  if (Array.isArray(script) && script.length > 0) return script.flatMap((response, i) => issuesOfResponse(response, [...path, i]))
  return issuesOfResponse(script, path)
}

const responseKeys = ['result', 'error', 'status', 'headers', 'body', 'after']

const issuesOfResponse = (response: unknown, path: Path): readonly ScriptIssue[] => {
  if (response === 'down' || response === 'hang') return []
  const kinds = isJsonObject(response) ? ['result', 'error', 'status'].filter(kind => Object.hasOwn(response, kind)) : []
  if (!isJsonObject(response) || kinds.length !== 1) return [{ path, message: `a response must be ${acceptedResponses}` }]
  const unknown = Object.keys(response).filter(key => !responseKeys.includes(key))
  const { error, after } = response as Readonly<Record<string, unknown>>
  return [
    ...unknown.map(key => ({
      path: [...path, key],
      message: `unknown key of a response; ${didYouMean(key, responseKeys) ?? `a response is ${acceptedResponses}`}`,
    })),
    ...(error === undefined || (isJsonObject(error) && Number.isInteger(error['code']) && typeof error['message'] === 'string')
      ? []
      : [{ path: [...path, 'error'], message: 'an error must have a code, which is an integer, and a message' }]),
    ...(after === undefined || typeof after === 'number' || parseDuration(String(after)) !== undefined
      ? []
      : [{ path: [...path, 'after'], message: 'after must be a duration such as 250ms, 10s or 5m' }]),
  ]
}
