import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

type ParserFunction = (this: unknown, ...args: unknown[]) => unknown

/** Keeps its functions under numbers. */
interface Parser {
  [key: string]: unknown
  resume?(): void
}

/** Where Node's HTTP server keeps the parser of a connection. */
interface ParsedSocket extends Socket {
  readonly parser?: Parser | null
  /** Node has paused the connection because its responses are not read, and lets nothing be parsed meanwhile. */
  readonly _paused?: boolean
}

/** An error of Node's HTTP parser, or of a socket: the event `clientError` of a server. */
export interface ParserError extends NodeJS.ErrnoException {
  /** What has been read last, and how much of it the parser has taken. */
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

/** What a function for the head of a request returns to pause the parser behind that head: HPE_PAUSED of llhttp. */
const pausedCode = 21
/** Node's functions for the head of a request, and for the parts of a body. */
const headFunction = 'parserOnHeadersComplete'
const inputFunctions = [headFunction, 'parserOnBody']

/** Of the arguments of the former. */
const isUpgrade = (args: readonly unknown[]): boolean => args[7] === true

const isInputFunction = (value: unknown): value is ParserFunction => typeof value === 'function' && inputFunctions.includes(value.name)

/**
 * What becomes of what Node has read from a connection. Its HTTP parser takes 64 KiB at once, up to 2,500 requests or 11,000 chunks of a body, and
 * nothing public ends that, neither to pause nor to destroy the socket. Does nothing where Node keeps the functions of its parser elsewhere than
 * Node 20, 22 and 24 do. Node gives the parser to another connection when this one closes, and at an upgrade: then, restore() must be called at
 * once, or the other connection has no requests.
 */
export class ParserInput {
  readonly #socket: ParsedSocket
  readonly #parser: Parser
  readonly #functions: readonly (readonly [key: string, run: ParserFunction])[]
  #isPaused = (): boolean => false
  /** The request behind whose head the parser has been paused; it begins when the socket is resumed. */
  #beginRequest: (() => void) | undefined
  /** What has been read and not parsed. */
  #rest: Buffer | undefined

  constructor(socket: ParsedSocket) {
    this.#socket = socket
    this.#parser = socket.parser ?? {}
    this.#functions = Object.entries(this.#parser).flatMap(([key, value]) => (isInputFunction(value) ? [[key, value] as const] : []))
    if (this.#functions.length > 0) socket.once('close', () => this.restore())
  }

  /**
   * From now on no request begins while `isPaused` is true; the next one does when the socket is resumed and it is false. Each `clientError` of the
   * connection is to be passed to holdRest().
   */
  pauseWhile(isPaused: () => boolean): void {
    this.#isPaused = isPaused
    for (const [key, run] of this.#functions) {
      if (run.name !== headFunction) continue
      this.#parser[key] = (...args: unknown[]) => {
        const begin = (): unknown => Reflect.apply(run, this.#parser, args)
        if (isUpgrade(args) || !this.#isPaused()) return begin()
        this.#beginRequest = begin
        return pausedCode
      }
    }
  }

  /** False where the error is another one. */
  holdRest({ code, rawPacket, bytesParsed = 0 }: ParserError): boolean {
    if (code !== 'HPE_PAUSED' || rawPacket === undefined) return false
    // TLS passes on all that it has decrypted, also to a parser that has been paused before, here or by Node: that takes none of it.
    if (this.#rest !== undefined) this.#rest = Buffer.concat([this.#rest, rawPacket])
    else {
      this.#rest = this.#beginRequest === undefined ? rawPacket : rawPacket.subarray(bytesParsed)
      this.#socket.pause().on('resume', this.#parseRest)
    }
    return true
  }

  /** The rest of what has been read, and what is still read, becomes parts of bodies and requests that nobody gets. */
  drop(): void {
    for (const [key] of this.#functions) this.#parser[key] = undefined
    this.#beginRequest = this.#rest = undefined
  }

  restore(): void {
    for (const [key, run] of this.#functions) this.#parser[key] = run
    this.#socket.off('resume', this.#parseRest)
  }

  readonly #parseRest = (): void => {
    // Node resumes the socket with each request that has been read.
    if (this.#isPaused()) this.#socket.pause()
    if (this.#socket.isPaused()) return
    const [begin, rest] = [this.#beginRequest, this.#rest]
    this.#beginRequest = undefined
    // Where it drops the input, the rest is parsed all the same, so that the request ends.
    begin?.()
    if (this.#socket._paused === true || rest === undefined) return
    this.#rest = undefined
    this.#socket.off('resume', this.#parseRest)
    this.#parser.resume?.()
    // Node's HTTP server listens to this event, though it gets what is read in another way.
    this.#socket.emit('data', rest)
  }
}

/** Tries it on a connection to no network: does a request wait with all behind it, and is nothing lost? */
export const canPauseParser = (): boolean => {
  const stream = new Duplex({ read: () => undefined })
  try {
    const requests: IncomingMessage[] = []
    const server = createServer(req => void requests.push(req))
    server.emit('connection', stream)
    const socket = stream as Duplex & ParsedSocket // all of it that is used here
    const input = new ParserInput(socket)
    let isPaused = true
    input.pauseWhile(() => isPaused)
    let heldCount = 0
    server.on('clientError', (error: ParserError) => (heldCount += input.holdRest(error) ? 1 : NaN))
    socket.emit('data', Buffer.from(['/1', '/2'].map(path => `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nb`).join('')))
    const beganCount = requests.length
    isPaused = false
    socket.resume().emit('resume')
    return heldCount === 1 && beganCount === 0 && requests.map(({ url, complete }) => `${url} ${complete}`).join() === '/1 true,/2 true'
  } catch {
    return false
  } finally {
    stream.destroy()
  }
}
