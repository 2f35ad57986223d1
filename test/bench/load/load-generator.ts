import { createHistogram } from 'node:perf_hooks'
import { createResponseCheck } from './response-check.ts'
import type { ExpectedResponse, ResponseCheck } from './response-check.ts'
import { requestIdOf } from './connections.ts'
import type { LoadConnection, ConnectionListener } from './connections.ts'

/** A kind of call: its message, with the placeholders `#id#`, `#hex#` and `#some#`, and the expected response. */
export interface RequestTemplate extends ExpectedResponse {
  readonly body: string
}

/** The load model: closed, or open with a rate. */
export interface LoadOptions {
  /** How long new calls are sent; the calls in flight then finish. */
  readonly durationMs: number
  /** Open model: calls are sent at this rate, whether earlier calls have been answered or not. Absent: closed model. */
  readonly callsPerSecond?: number
  /** Closed model: calls in flight on each connection. */
  readonly pipelining?: number
}

/** Latencies in ms; in the open model from the moment a call was due, not from when a connection was free for it. */
export interface LoadResult {
  readonly responses: number
  /** Of the bodies of all responses together. */
  readonly bodyBytes: number
  readonly durationSeconds: number
  readonly p50: number
  readonly p99: number
  readonly max: number
  /** Responses that took longer than `slowMs`. */
  readonly slowResponses: number
}

/** A caller notices a call that takes longer. */
export const slowMs = 500

/** Maximum number of calls in flight. */
const maxInFlight = 1 << 16

/** How often the open model looks for calls that are due. */
const sendIntervalMs = 1

/** Has eight hex digits, as all that follow. */
const firstHexNumber = 0x10000000

/** How many values `#some#` has. */
const repeatedNumbers = 2000

/** Renders the message of call `n` of one kind, and checks its response. */
interface CallKind {
  readonly render: (n: number) => string
  readonly check: ResponseCheck
}

/** Sends calls of the given kinds in turn over its connections, and checks the responses. */
export class LoadGenerator implements ConnectionListener {
  readonly #kinds: readonly CallKind[]
  readonly #startTimes = new Float64Array(maxInFlight)
  #connections: readonly LoadConnection[] = []
  #latency = createHistogram()
  #slowCount = 0
  #sentCount = 0
  #responseCount = 0
  #bodyBytes = 0
  #onFreeConnection: (connection: LoadConnection) => void = () => undefined
  #finish: (error?: Error) => void = () => undefined
  #failure: string | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(templates: readonly RequestTemplate[]) {
    this.#kinds = templates.map(template => ({ render: compileTemplate(template.body), check: createResponseCheck(template) }))
  }

  setConnections(connections: readonly LoadConnection[]): void {
    this.#connections = connections
  }

  /** Rejects at the first wrong response. */
  async run(options: LoadOptions): Promise<LoadResult> {
    if (this.#failure !== undefined) throw new Error(this.#failure)
    this.#latency = createHistogram()
    this.#slowCount = 0
    const [responsesBefore, bytesBefore] = [this.#responseCount, this.#bodyBytes]
    const startMs = performance.now()
    try {
      await new Promise<void>((resolve, reject) => {
        this.#finish = error => (error === undefined ? resolve() : reject(error))
        if (options.callsPerSecond === undefined) this.#runClosedModel(startMs + options.durationMs, options.pipelining ?? 1)
        else this.#runOpenModel(startMs, options.durationMs, options.callsPerSecond)
      })
    } finally {
      clearInterval(this.#timer)
    }
    return {
      responses: this.#responseCount - responsesBefore,
      bodyBytes: this.#bodyBytes - bytesBefore,
      durationSeconds: (performance.now() - startMs) / 1000,
      p50: this.#latency.percentile(50) / 1e6,
      p99: this.#latency.percentile(99) / 1e6,
      max: this.#latency.max / 1e6,
      slowResponses: this.#slowCount,
    }
  }

  onResponse(connection: LoadConnection, n: number, status: number, body: readonly Buffer[]): void {
    const latencyMs = performance.now() - (this.#startTimes[n % maxInFlight] ?? 0)
    this.#latency.record(Math.max(1, Math.round(latencyMs * 1e6)))
    if (latencyMs > slowMs) this.#slowCount += 1
    this.#responseCount += 1
    const length = body.reduce((sum, part) => sum + part.length, 0)
    this.#bodyBytes += length
    const fault = this.#kindOf(n).check(n, { status, body, bodyBytes: length })
    if (fault !== undefined) return this.onError(fault)
    this.#onFreeConnection(connection)
  }

  onError(reason: string): void {
    this.#failure ??= reason
    this.#onFreeConnection = () => undefined
    this.#finish(new Error(reason))
  }

  /** Each response is followed by the next call on the same connection, until the deadline. */
  #runClosedModel(deadline: number, pipelining: number): void {
    this.#onFreeConnection = connection => {
      const now = performance.now()
      if (now < deadline) this.#send(connection, now)
      else if (this.#responseCount === this.#sentCount) this.#finish()
    }
    for (let i = 0; i < pipelining; i++) for (const connection of this.#connections) this.#send(connection, performance.now())
  }

  /** Calls are due at equal intervals; each is sent on the connection that has been idle for longest, as soon as one is idle. */
  #runOpenModel(startMs: number, durationMs: number, callsPerSecond: number): void {
    const total = Math.floor((durationMs * callsPerSecond) / 1000)
    const first = this.#sentCount
    const idleConnections = [...this.#connections]
    const send = () => {
      const due = Math.min(total, Math.floor(((performance.now() - startMs) * callsPerSecond) / 1000) + 1)
      for (let i = this.#sentCount - first; i < due; i++) {
        const connection = idleConnections.shift()
        if (connection === undefined) return
        this.#send(connection, startMs + (i * 1000) / callsPerSecond)
      }
    }
    this.#timer = setInterval(send, sendIntervalMs)
    this.#onFreeConnection = connection => {
      idleConnections.push(connection)
      send()
      if (this.#responseCount === this.#sentCount && this.#sentCount - first === total) this.#finish()
    }
  }

  #send(connection: LoadConnection, startMs: number): void {
    const n = this.#sentCount++
    this.#startTimes[n % maxInFlight] = startMs
    connection.send(n, this.#kindOf(n).render(n))
  }

  #kindOf(n: number): CallKind {
    return this.#kinds[n % this.#kinds.length] as CallKind // a generator has at least one kind
  }
}

/**
 * `#id#` becomes the id of call `n`, `#hex#` eight hex digits that no other call of this generator has, `#some#` the hex
 * digits of one of 2,000 numbers in turn.
 */
const compileTemplate = (template: string): ((n: number) => string) => {
  const [parts, placeholders] = [template.split(/#(?:id|hex|some)#/), template.match(/#(id|hex|some)#/g) ?? []]
  const valueOfPlaceholder = (placeholder: string | undefined, n: number): string | number =>
    placeholder === '#id#' ? requestIdOf(n) : (placeholder === '#hex#' ? n + firstHexNumber : n % repeatedNumbers).toString(16)
  return n => parts.reduce((text, part, i) => `${text}${valueOfPlaceholder(placeholders[i - 1], n)}${part}`)
}
