import { createHistogram } from 'node:perf_hooks'
import type { ResponseCheck } from './response-check.ts'
import { requestIdOf } from './connections.ts'
import type { LoadConnection, ConnectionListener } from './connections.ts'

/** How calls follow each other. */
export interface LoadOptions {
  /** New calls are sent for so long; those in flight then finish. */
  readonly durationMs: number
  /** Calls per second, answered or not; when absent, each answer is followed by the next call. */
  readonly callsPerSecond?: number
  /** Calls in flight on each line at once, when there is no rate. */
  readonly pipelining?: number
}

/** Latencies in ms. At a rate they count from the moment a call was due, not from when a line was free for it. */
export interface LoadResult {
  readonly responses: number
  /** Of all answers' bodies together. */
  readonly bodyBytes: number
  readonly durationSeconds: number
  readonly p50: number
  readonly p99: number
}

/** Calls that are in flight at once never number more than this. */
const maxInFlight = 1 << 16

/** Sends one kind of call over its lines, and checks what comes back. */
export class LoadGenerator implements ConnectionListener {
  readonly #render: (n: number) => string
  readonly #check: ResponseCheck
  readonly #startTimes = new Float64Array(maxInFlight)
  #connections: readonly LoadConnection[] = []
  #latency = createHistogram()
  #sentCount = 0
  #responseCount = 0
  #bodyBytes = 0
  #onFreeConnection: (line: LoadConnection) => void = () => undefined
  #finish: (fault?: Error) => void = () => undefined
  #failure: string | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(template: string, check: ResponseCheck) {
    this.#render = compileTemplate(template)
    this.#check = check
  }

  setConnections(connections: readonly LoadConnection[]): void {
    this.#connections = connections
  }

  /** Rejects at the first wrong answer. */
  async run(options: LoadOptions): Promise<LoadResult> {
    if (this.#failure !== undefined) throw new Error(this.#failure)
    this.#latency = createHistogram()
    const [answered, bytes] = [this.#responseCount, this.#bodyBytes]
    const begun = performance.now()
    try {
      await new Promise<void>((resolve, reject) => {
        this.#finish = fault => (fault === undefined ? resolve() : reject(fault))
        if (options.callsPerSecond === undefined) this.#runClosedModel(begun + options.durationMs, options.pipelining ?? 1)
        else this.#runOpenModel(begun, options.durationMs, options.callsPerSecond)
      })
    } finally {
      clearInterval(this.#timer)
    }
    return {
      responses: this.#responseCount - answered,
      bodyBytes: this.#bodyBytes - bytes,
      durationSeconds: (performance.now() - begun) / 1000,
      p50: this.#latency.percentile(50) / 1e6,
      p99: this.#latency.percentile(99) / 1e6,
    }
  }

  onResponse(line: LoadConnection, n: number, status: number, body: readonly Buffer[]): void {
    this.#latency.record(Math.max(1, Math.round((performance.now() - (this.#startTimes[n % maxInFlight] ?? 0)) * 1e6)))
    this.#responseCount += 1
    const length = body.reduce((sum, part) => sum + part.length, 0)
    this.#bodyBytes += length
    const wrong = this.#check(n, { status, body, bodyBytes: length })
    if (wrong !== undefined) return this.onError(wrong)
    this.#onFreeConnection(line)
  }

  onError(reason: string): void {
    this.#failure ??= reason
    this.#onFreeConnection = () => undefined
    this.#finish(new Error(reason))
  }

  /** Each answer is followed by the next call on the same line, until the deadline. */
  #runClosedModel(deadline: number, pipelining: number): void {
    this.#onFreeConnection = line => {
      const now = performance.now()
      if (now < deadline) this.#send(line, now)
      else if (this.#responseCount === this.#sentCount) this.#finish()
    }
    for (let i = 0; i < pipelining; i++) for (const line of this.#connections) this.#send(line, performance.now())
  }

  /** Calls become due at even distances, and go over the line that has been idle for longest, once there is one. */
  #runOpenModel(begun: number, durationMs: number, callsPerSecond: number): void {
    const total = Math.floor((durationMs * callsPerSecond) / 1000)
    const first = this.#sentCount
    const idleConnections = [...this.#connections]
    const send = () => {
      const due = Math.min(total, Math.floor(((performance.now() - begun) * callsPerSecond) / 1000) + 1)
      for (let i = this.#sentCount - first; i < due; i++) {
        const line = idleConnections.shift()
        if (line === undefined) return
        this.#send(line, begun + (i * 1000) / callsPerSecond)
      }
    }
    this.#timer = setInterval(send, 1)
    this.#onFreeConnection = line => {
      idleConnections.push(line)
      send()
      if (this.#responseCount === this.#sentCount && this.#sentCount - first === total) this.#finish()
    }
  }

  #send(connection: LoadConnection, begun: number): void {
    const n = this.#sentCount++
    this.#startTimes[n % maxInFlight] = begun
    connection.send(n, this.#render(n))
  }
}

/**
 * `#id#` becomes the id of call `n`, `#hex#` eight hex digits that no other call of this drive has, `#some#` the digits of
 * one of 2,000 numbers in turn.
 */
const compileTemplate = (template: string): ((n: number) => string) => {
  const [parts, placeholders] = [template.split(/#(?:id|hex|some)#/), template.match(/#(id|hex|some)#/g) ?? []]
  const fillSlot = (slot: string | undefined, n: number): string | number =>
    slot === '#id#' ? requestIdOf(n) : (slot === '#hex#' ? n + 0x10000000 : n % 2000).toString(16)
  return n => parts.reduce((text, part, i) => `${text}${fillSlot(placeholders[i - 1], n)}${part}`)
}
