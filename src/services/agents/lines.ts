// Three parts of undici: the whole of it, with fetch and WebSocket, takes three times as long to load (70 ms more).
import type { Dispatcher } from 'undici'
import Agent from 'undici/lib/dispatcher/agent.js'
import Client from 'undici/lib/dispatcher/client.js'
import Pool from 'undici/lib/dispatcher/pool.js'
import { causeOf } from './cause.ts'
import type { Place } from './place.ts'

/** Connections for HTTP: kept alive, and replaced before they get old. */
export interface Lines {
  /**
   * Sends a POST. It follows no redirect and inflates nothing. A connection that the other side closed just as it was
   * used again costs nothing: what may be sent twice goes out on a fresh one.
   */
  post(place: Place, body: string, hearer: Hearer, resend: boolean): Trip
  close(): Promise<void>
}

/** Is told what comes of a request: a head and any number of chunks, then an end; or a fault at any time. */
export interface Hearer {
  head(status: number, headers: Headers): void
  chunk(bytes: Buffer): void
  end(): void
  fault(error: unknown): void
}

export type Headers = Readonly<Record<string, string | string[] | undefined>>

/** A request under way. */
export interface Trip {
  /** Nothing more is told, and the connection closes. */
  abort(): void
  /** No chunks for a while. */
  pause(): void
  resume(): void
}

export const openLines = (): Lines => {
  const factory = (origin: string | URL, options: object) => new Pool(origin, { ...options, factory: openLine })
  // Agents rather than pools: they let go of a pool whose last connection was closed, which would connect once more.
  const kept = new Agent({ ...limits, clientTtl: oldest, factory })
  const single = new Agent({ ...limits, pipelining: 0 })
  return {
    post({ origin, path, headers }, body, hearer, resend) {
      const voyage = new Voyage(hearer, resend ? single : undefined)
      voyage.sending = { method: 'POST', origin, path, headers, body, voyage }
      kept.dispatch(voyage.sending, voyage)
      return voyage
    },
    close: async () => void await Promise.all([kept.destroy(), single.destroy()]),
  }
}

/** Timers of undici count coarsely and count idle time only: whoever sent a request aborts it in time. */
const limits = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 1000 } }

/** In ms. A host name is resolved anew for each connection, so that a node which moves is found within this time. */
const oldest = 30_000

/** What undici tells of one request; the second time that it is sent nobody hears of the first. */
class Voyage implements Trip, Dispatcher.DispatchHandler {
  /** The connection had been open before. */
  isReused = false
  /** What is sent; set before it is. */
  sending: Sending | undefined
  readonly #hearer: Hearer
  /** Where it is sent once more. */
  #spare: Dispatcher | undefined
  #controller: Dispatcher.DispatchController | undefined
  #hasHead = false
  #isOver = false

  constructor(hearer: Hearer, spare: Dispatcher | undefined) {
    this.#hearer = hearer
    this.#spare = spare
  }

  abort(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#controller?.abort(aborted)
  }

  pause(): void {
    this.#controller?.pause()
  }

  resume(): void {
    this.#controller?.resume()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isOver) controller.abort(aborted)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (this.#isOver || status < 200) return
    this.#hasHead = true
    this.#hearer.head(status, headers)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#isOver) this.#hearer.chunk(chunk)
  }

  onResponseEnd(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#hearer.end()
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#isOver) return
    const spare = this.#spare
    this.#spare = undefined
    // No head of an answer has come, so nothing was delivered yet; a node that is down fails the second time too.
    const isLost = this.isReused && !this.#hasHead && causeOf(error) !== undefined
    if (spare !== undefined && isLost && this.sending !== undefined) return void spare.dispatch(this.sending, this)
    this.#isOver = true
    this.#hearer.fault(error)
  }
}

const aborted = new Error('the request was aborted')

type Sending = Dispatcher.DispatchOptions & { readonly voyage?: Voyage }

/** One connection, which tells each request whether it was open already. */
class Line extends Client {
  #isOpen = false

  constructor(origin: string | URL, options: Client.Options) {
    super(origin, options)
    this.on('connect', () => { this.#isOpen = true })
    this.on('disconnect', () => { this.#isOpen = false })
  }

  override dispatch(options: Sending, handler: Dispatcher.DispatchHandler): boolean {
    if (options.voyage !== undefined) options.voyage.isReused = this.#isOpen
    return super.dispatch(options, handler)
  }
}

const openLine = (origin: URL, options: object): Dispatcher => new Line(origin, options)
