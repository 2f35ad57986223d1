import { unescape } from 'node:querystring'
import { Agent, Client, Pool, request } from 'undici'
import type { Dispatcher } from 'undici'
import { causeOf } from './cause.ts'

/** Connections for HTTP: kept alive, and replaced before they get old. */
export interface Lines {
  /**
   * Sends a POST and resolves with the head of the answer. It follows no redirect and inflates nothing. A connection
   * that the other side closed just as it was used again costs nothing: what may be sent twice goes out on a fresh one.
   */
  post(url: string, body: string, terms: { readonly signal: AbortSignal, readonly resend: boolean }): Promise<Head>
  close(): Promise<void>
}

/** An answer whose body is still to be read. */
export type Head = Dispatcher.ResponseData<unknown>

export const openLines = (): Lines => {
  const factory = (origin: string | URL, options: object) => new Pool(origin, { ...options, factory: openLine })
  const kept = new Agent({ ...limits, clientTtl: oldest, factory })
  const single = new Agent({ ...limits, pipelining: 0 })
  return {
    async post(url, body, { signal, resend }) {
      const trip: Trip = { reused: false }
      const sending = { method: 'POST', headers: headersFor(url), body, signal } as const
      try {
        return await request(url, { ...sending, dispatcher: kept, opaque: trip })
      } catch (error) {
        // No head of an answer has come, so nothing was delivered yet; a node that is down fails the second time too.
        if (!resend || !trip.reused || signal.aborted || causeOf(error) === undefined) throw error
        return request(url, { ...sending, dispatcher: single })
      }
    },
    close: async () => void await Promise.all([kept.destroy(), single.destroy()]),
  }
}

/** Timers of undici count coarsely and count idle time only: the caller's signal ends a request. */
const limits = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 1000 } }

/** In ms. A host name is resolved anew for each connection, so that a node which moves is found within this time. */
const oldest = 30_000

/** Compression is not asked for: inflating 6 MB takes 54 ms, and sending them on a local network takes less. */
const headers = { 'content-type': 'application/json', 'accept': 'application/json', 'accept-encoding': 'identity' }

/** Name and password in a URL go out as HTTP Basic, as curl does it; undici would leave them out. */
const headersFor = (url: string): Readonly<Record<string, string>> => {
  if (!url.includes('@')) return headers
  const { username, password } = new URL(url)
  if (username === '' && password === '') return headers
  const text = `${unescape(username)}:${unescape(password)}`
  return { ...headers, authorization: `Basic ${Buffer.from(text).toString('base64')}` }
}

/** What a request tells its connection to note. */
interface Trip {
  /** The connection had been open before. */
  reused: boolean
}

type Sending = Dispatcher.DispatchOptions & { readonly opaque?: Trip }

/** One connection, which tells each request whether it was open already. */
class Line extends Client {
  #isOpen = false

  override dispatch(options: Sending, handler: Dispatcher.DispatchHandler): boolean {
    if (options.opaque !== undefined) options.opaque.reused = this.#isOpen
    return super.dispatch(options, handler)
  }

  constructor(origin: string | URL, options: Client.Options) {
    super(origin, options)
    this.on('connect', () => { this.#isOpen = true })
    this.on('disconnect', () => { this.#isOpen = false })
  }
}

const openLine = (origin: URL, options: object): Dispatcher => new Line(origin, options)
