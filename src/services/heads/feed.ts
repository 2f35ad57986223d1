import type { WebSocket } from 'ws'
import type { Secret } from '../../secret.ts'
import { maxParsed } from '../../wire/limits.ts'
import { Scanner } from '../../wire/scan.ts'
import { causeOf } from '../agents/cause.ts'
import type { Clock, Timer } from '../clock.ts'
import { blockOf, readNumber } from './block.ts'
import type { Block } from './block.ts'

export interface FeedTerms {
  readonly url: Secret
  readonly chainId: number
  /** ms without a head after which it cannot be relied on. */
  readonly patience: number
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  onBlock(block: Block): void
  /** It begins to tell of heads; `again`: it did so before, so another node may be there. */
  onOpen(again: boolean): void
  /** It tells nothing any more, or could not begin; told once until it opens again. */
  onEnd(cause: string): void
}

/** In ms: how long the first steps of a connection may take; the first wait before another, and the longest. */
const mostSteps = 5_000
const first = 500
const longest = 30_000
/** A header takes 2 KB. */
const maxPayload = 131_072
/** In ms, before a node is tried again that is on another chain or does not know eth_subscribe. */
const refused = 300_000

/**
 * New heads as a node tells them unasked: eth_subscribe on a WebSocket that is opened anew whenever it ends, for whatever
 * reason, with growing waits. Each connection is asked for its chain first. `ws` is loaded when the first one opens.
 */
export class Feed {
  readonly #terms: FeedTerms
  #socket: WebSocket | undefined
  #timer: Timer | undefined
  #isWanted = false
  #isLive = false
  #wasLive = false
  #isTold = false
  #failures = 0
  #subscription: unknown
  #heard = 0
  #last: Block | undefined
  #missed = 0

  constructor(terms: FeedTerms) {
    this.#terms = terms
  }

  /** Has it told of a head lately, or only just begun? */
  get isFresh(): boolean {
    return this.#isLive && this.#terms.clock.monotonic() - this.#heard < this.#terms.patience
  }

  /** Opens it, unless it is open or being opened. */
  open(): void {
    if (this.#isWanted) return
    this.#isWanted = true
    void this.#connect()
  }

  close(): void {
    this.#isWanted = false
    this.#failures = 0
    this.#drop()
  }

  /** A poll has shown this head. When that happens twice before the feed tells of it, the feed is dead. */
  compare(polled: Block): void {
    if (!this.#isLive || this.#last === undefined || polled.number <= this.#last.number) return
    this.#missed += 1
    if (this.#missed > 1) this.#end('it tells of no heads')
  }

  async #connect(): Promise<void> {
    const { WebSocket } = await import('ws')
    if (!this.#isWanted || this.#socket !== undefined) return
    const { url, clock } = this.#terms
    const socket = dial(WebSocket, url)
    if (socket === undefined) return this.#end('its URL is none of a WebSocket', refused)
    this.#socket = socket
    this.#timer = clock.after(mostSteps, () => this.#end('no subscription in time'))
    const mine = (act: () => void) => () => {
      if (socket === this.#socket) act()
    }
    socket.on(
      'open',
      mine(() => ask(socket, chainQuestion, 'eth_chainId', [])),
    )
    socket.on('message', data => mine(() => this.#read(socket, data as Buffer))()) // ws gives Buffers unless told otherwise
    socket.on('error', error => mine(() => this.#end(causeOf(error) ?? 'the WebSocket was refused'))())
    socket.on(
      'close',
      mine(() => this.#end('the connection was closed')),
    )
  }

  #read(socket: WebSocket, data: Buffer): void {
    const message = parse(data)
    if (message === undefined) return this.#end('what it says is not JSON')
    const { id, method, result, params } = message
    if (method === 'eth_subscription') this.#hear(members(params))
    else if (id === chainQuestion) this.#checkChain(socket, result)
    else if (id === headsQuestion) this.#begin(result)
  }

  #checkChain(socket: WebSocket, result: unknown): void {
    const chain = readNumber(result)
    if (chain === this.#terms.chainId) ask(socket, headsQuestion, 'eth_subscribe', ['newHeads'])
    else if (chain === undefined) this.#end('it does not tell its chain')
    else this.#end(`it is on chain ${chain}`, refused)
  }

  #begin(result: unknown): void {
    if (typeof result !== 'string') return this.#end('it does not take eth_subscribe', refused)
    this.#timer?.cancel()
    this.#subscription = result
    this.#heard = this.#terms.clock.monotonic()
    const again = this.#wasLive
    this.#isLive = this.#wasLive = true
    this.#isTold = false
    this.#terms.onOpen(again)
  }

  #hear({ subscription, result }: Members): void {
    const block = subscription === this.#subscription ? blockOf(result) : undefined
    if (!this.#isLive || block === undefined) return
    this.#heard = this.#terms.clock.monotonic()
    this.#last = block
    this.#missed = this.#failures = 0
    this.#terms.onBlock(block)
  }

  /** Waits grow until a head comes, and differ, so that not all gateways come back to a node at once. */
  #end(cause: string, least = 0): void {
    this.#drop()
    if (!this.#isTold) this.#terms.onEnd(cause)
    this.#isTold = true
    const { clock, random } = this.#terms
    const wait = Math.max(least, Math.min(longest, first * 2 ** this.#failures))
    this.#failures += 1
    this.#timer = clock.after(wait * (0.5 + random() / 2), () => void this.#connect())
  }

  #drop(): void {
    this.#timer?.cancel()
    this.#isLive = false
    this.#missed = 0
    this.#subscription = this.#last = undefined
    const socket = this.#socket
    this.#socket = undefined
    socket?.terminate()
  }
}

const chainQuestion = 1
const headsQuestion = 2

/** Undefined for what only looks like a URL of a WebSocket: one with a fragment, say. The error would show it. */
const dial = (Socket: typeof WebSocket, url: Secret): WebSocket | undefined => {
  try {
    return new Socket(url.reveal(), { perMessageDeflate: false, followRedirects: false, maxPayload, handshakeTimeout: mostSteps })
  } catch {
    return undefined
  }
}

const ask = (socket: WebSocket, id: number, method: string, params: readonly string[]): void =>
  socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))

type Members = Readonly<Record<string, unknown>>

/** Undefined for what is no JSON, or would take long to parse. */
const parse = (data: Buffer): Members | undefined => {
  const scanner = new Scanner({ depth: 64, elements: maxParsed, values: maxParsed })
  return scanner.push(data) && scanner.end() === undefined ? members(JSON.parse(data.toString())) : undefined
}

const members = (value: unknown): Members => Object(value)
