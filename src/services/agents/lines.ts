import type { Dispatcher } from 'undici'
import type { Clock } from '../clock.ts'
import { Bundle } from './bundle.ts'
import type { Line } from './bundle.ts'
import { causeOf } from './cause.ts'
import type { Place } from './place.ts'

/** Connections for HTTP: kept alive, and replaced before they get old. */
export interface Lines {
  /**
   * Sends a POST. It follows no redirect and inflates nothing. A connection that the other side closed just as it was
   * used again costs nothing: what may be sent twice goes out on a fresh one.
   */
  post(place: Place, body: string, hearer: Hearer, resend: boolean): Trip
  /** How many connections the other side has ended. */
  losses(place: Place): number
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

export const openLines = (clock: Clock): Lines => {
  const bundles = new Map<string, Bundle>()
  const bundleOf = (origin: string): Bundle => {
    const known = bundles.get(origin) ?? new Bundle(origin, clock)
    bundles.set(origin, known)
    return known
  }
  return {
    post({ origin, path, headers }, body, hearer, resend) {
      const voyage = new Voyage({ method: 'POST', path, headers, body }, bundleOf(origin), hearer, resend)
      voyage.start()
      return voyage
    },
    losses: ({ origin }) => bundles.get(origin)?.losses ?? 0,
    close: async () => void (await Promise.all(Array.from(bundles.values(), bundle => bundle.close()))),
  }
}

/** What undici tells of one request; the second time that it is sent nobody hears of the first. */
class Voyage implements Trip, Dispatcher.DispatchHandler {
  readonly #request: Dispatcher.DispatchOptions
  readonly #bundle: Bundle
  readonly #hearer: Hearer
  #mayResend: boolean
  #line: Line
  /** The connection had been open before. */
  #isReused: boolean
  #controller: Dispatcher.DispatchController | undefined
  #hasHead = false
  #isOver = false

  constructor(request: Dispatcher.DispatchOptions, bundle: Bundle, hearer: Hearer, mayResend: boolean) {
    this.#request = request
    this.#bundle = bundle
    this.#hearer = hearer
    this.#mayResend = mayResend
    this.#line = bundle.take()
    this.#isReused = this.#line.isOpen
  }

  start(): void {
    this.#line.dispatch(this.#request, this)
  }

  abort(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#bundle.drop(this.#line)
  }

  pause(): void {
    this.#controller?.pause()
  }

  resume(): void {
    this.#controller?.resume()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
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
    this.#end()
    this.#hearer.end()
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#isOver) return
    // No head of an answer has come, so nothing was delivered yet; a node that is down fails the second time too.
    const isLost = this.#isReused && !this.#hasHead && causeOf(error) !== undefined
    if (isLost && this.#mayResend) return this.#resend()
    this.#end()
    this.#hearer.fault(error)
  }

  #resend(): void {
    this.#mayResend = false
    this.#bundle.drop(this.#line)
    this.#line = this.#bundle.open()
    this.start()
  }

  #end(): void {
    this.#isOver = true
    this.#bundle.give(this.#line)
  }
}
