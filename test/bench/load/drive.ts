import { createHistogram } from 'node:perf_hooks'
import type { Check } from './check.ts'
import { idOf } from './line.ts'
import type { Line, Listener } from './line.ts'

/** How calls follow each other. */
export interface Pace {
  /** New calls are sent for so long; those in flight then finish. */
  readonly ms: number
  /** Calls per second, answered or not; when absent, each answer is followed by the next call. */
  readonly rate?: number
  /** Calls in flight on each line at once, when there is no rate. */
  readonly depth?: number
}

/** Latencies in ms. At a rate they count from the moment a call was due, not from when a line was free for it. */
export interface Loaded {
  readonly messages: number
  /** Of all answers' bodies together. */
  readonly bytes: number
  readonly seconds: number
  readonly p50: number
  readonly p99: number
}

/** Calls that are in flight at once never number more than this. */
const most = 1 << 16

/** Sends one kind of call over its lines, and checks what comes back. */
export class Drive implements Listener {
  readonly #write: (n: number) => string
  readonly #check: Check
  readonly #begun = new Float64Array(most)
  #lines: readonly Line[] = []
  #latency = createHistogram()
  #sent = 0
  #answered = 0
  #bytes = 0
  #next: (line: Line) => void = () => undefined
  #end: (fault?: Error) => void = () => undefined
  #fault: string | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(template: string, check: Check) {
    this.#write = createWriter(template)
    this.#check = check
  }

  use(lines: readonly Line[]): void {
    this.#lines = lines
  }

  /** Rejects at the first wrong answer. */
  async run(pace: Pace): Promise<Loaded> {
    if (this.#fault !== undefined) throw new Error(this.#fault)
    this.#latency = createHistogram()
    const [answered, bytes] = [this.#answered, this.#bytes]
    const begun = performance.now()
    try {
      await new Promise<void>((resolve, reject) => {
        this.#end = fault => (fault === undefined ? resolve() : reject(fault))
        if (pace.rate === undefined) this.#chase(begun + pace.ms, pace.depth ?? 1)
        else this.#keepTime(begun, pace.ms, pace.rate)
      })
    } finally {
      clearInterval(this.#timer)
    }
    return {
      messages: this.#answered - answered,
      bytes: this.#bytes - bytes,
      seconds: (performance.now() - begun) / 1000,
      p50: this.#latency.percentile(50) / 1e6,
      p99: this.#latency.percentile(99) / 1e6,
    }
  }

  answered(line: Line, n: number, status: number, body: readonly Buffer[]): void {
    this.#latency.record(Math.max(1, Math.round((performance.now() - (this.#begun[n % most] ?? 0)) * 1e6)))
    this.#answered += 1
    const length = body.reduce((sum, part) => sum + part.length, 0)
    this.#bytes += length
    const wrong = this.#check(n, { status, body, length })
    if (wrong !== undefined) return this.failed(wrong)
    this.#next(line)
  }

  failed(reason: string): void {
    this.#fault ??= reason
    this.#next = () => undefined
    this.#end(new Error(reason))
  }

  /** Each answer is followed by the next call on the same line, until the deadline. */
  #chase(deadline: number, depth: number): void {
    this.#next = line => {
      const now = performance.now()
      if (now < deadline) this.#send(line, now)
      else if (this.#answered === this.#sent) this.#end()
    }
    for (let i = 0; i < depth; i++) for (const line of this.#lines) this.#send(line, performance.now())
  }

  /** Calls become due at even distances, and go over the line that has been idle for longest, once there is one. */
  #keepTime(begun: number, ms: number, rate: number): void {
    const total = Math.floor((ms * rate) / 1000)
    const first = this.#sent
    const idle = [...this.#lines]
    const send = () => {
      const due = Math.min(total, Math.floor(((performance.now() - begun) * rate) / 1000) + 1)
      for (let i = this.#sent - first; i < due; i++) {
        const line = idle.shift()
        if (line === undefined) return
        this.#send(line, begun + (i * 1000) / rate)
      }
    }
    this.#timer = setInterval(send, 1)
    this.#next = line => {
      idle.push(line)
      send()
      if (this.#answered === this.#sent && this.#sent - first === total) this.#end()
    }
  }

  #send(line: Line, begun: number): void {
    const n = this.#sent++
    this.#begun[n % most] = begun
    line.send(n, this.#write(n))
  }
}

/**
 * `#id#` becomes the id of call `n`, `#hex#` eight hex digits that no other call of this drive has, `#some#` the digits of
 * one of 2,000 numbers in turn.
 */
const createWriter = (template: string): ((n: number) => string) => {
  const [parts, slots] = [template.split(/#(?:id|hex|some)#/), template.match(/#(id|hex|some)#/g) ?? []]
  const wordOf = (slot: string | undefined, n: number): string | number =>
    slot === '#id#' ? idOf(n) : (slot === '#hex#' ? n + 0x10000000 : n % 2000).toString(16)
  return n => parts.reduce((text, part, i) => `${text}${wordOf(slots[i - 1], n)}${part}`)
}
