// Two parts of undici: the whole of it, with fetch and WebSocket, takes three times as long to load (70 ms more).
import buildConnector from 'undici/lib/core/connect.js'
import Client from 'undici/lib/dispatcher/client.js'
import type { Clock } from '../clock.ts'
import { openNames } from './names.ts'

/** In ms. A host name is resolved anew for each connection, so that a node which moves is found within this time. */
const oldest = 30_000

/** Timers of undici count coarsely and count idle time only: whoever sent a request aborts it in time. */
const limits = { headersTimeout: 0, bodyTimeout: 0, keepAliveMaxTimeout: oldest }

/** Codes of connections that we end, or undici by itself: one that was not used for long. */
const ours: ReadonlySet<string> = new Set(['UND_ERR_DESTROYED', 'UND_ERR_INFO'])

/** One connection. It opens with its first request. */
export class Line extends Client {
  isOpen = false
  /** When it opened, in monotonic ms. */
  since = 0
}

/**
 * The connections to one origin. The one that was used last is taken first, and those that are not needed any more close
 * after a while. undici's own pool looks through all of them for each request: 2 % of what a call to a node costs.
 */
export class Bundle {
  readonly #origin: string
  readonly #clock: Clock
  /** One for all, as it keeps the TLS sessions. */
  readonly #connect = buildConnector({ timeout: 1000, lookup: openNames() })
  readonly #all = new Set<Line>()
  readonly #idle: Line[] = []
  #losses = 0

  constructor(origin: string, clock: Clock) {
    this.#origin = origin
    this.#clock = clock
  }

  /** How many connections the other side has ended. */
  get losses(): number {
    return this.#losses
  }

  /** For one request; one that is open, if any is free. */
  take(): Line {
    for (let line = this.#idle.pop(); line !== undefined; line = this.#idle.pop()) {
      if (!this.#isOld(line)) return line
      this.drop(line)
    }
    return this.open()
  }

  /** For one request; a new one. */
  open(): Line {
    const line = new Line(this.#origin, { ...limits, connect: this.#connect })
    line.on('connect', () => {
      line.isOpen = true
      line.since = this.#clock.monotonic()
    })
    line.on('disconnect', (_origin, _targets, error) => {
      line.isOpen = false
      if (!ours.has(error.code)) this.#losses += 1
      const place = this.#idle.indexOf(line)
      if (place < 0) return
      this.#idle.splice(place, 1)
      this.drop(line)
    })
    this.#all.add(line)
    return line
  }

  /** Its request has been answered, or could not be. */
  give(line: Line): void {
    if (line.isOpen && !this.#isOld(line)) this.#idle.push(line)
    else this.drop(line)
  }

  /** It closes at once, and nothing more is told of its request. */
  drop(line: Line): void {
    this.#all.delete(line)
    void line.destroy()
  }

  close(): Promise<unknown> {
    this.#idle.length = 0
    return Promise.all(Array.from(this.#all, line => line.destroy()))
  }

  #isOld({ since }: Line): boolean {
    return this.#clock.monotonic() - since > oldest
  }
}
