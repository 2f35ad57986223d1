import { IncomingMessage, STATUS_CODES, ServerResponse } from 'node:http'
import type { Server } from 'node:http'
import { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** The response that is being sent on a connection now; responses to pipelined requests wait behind it. */
export type CurrentResponse = (stream: Duplex) => ServerResponse | undefined

/** A connection as Node's HTTP server leaves it (Node 20, 22 and 24); Node itself reads this before it answers a parser error. */
interface HttpStream extends Duplex {
  _httpMessage?: ServerResponse | null
}

/** Node shows the current response of a connection to nobody. Where `_httpMessage` does not hold it, responses are counted here. */
export const trackResponses = (server: Server, isSupported = holdsCurrentResponse()): CurrentResponse => {
  if (isSupported) return (stream: HttpStream) => stream._httpMessage ?? undefined
  const pending = new WeakMap<Duplex, Set<ServerResponse>>()
  const track = ({ socket }: IncomingMessage, res: ServerResponse): void => {
    const responses = pending.get(socket) ?? new Set()
    pending.set(socket, responses.add(res))
    res.once('finish', () => responses.delete(res))
  }
  server.prependListener('request', track).prependListener('checkExpectation', track)
  return stream => pending.get(stream)?.values().next().value
}

/** Does `_httpMessage` hold the response that a connection is assigned to, and no other? */
export const holdsCurrentResponse = (): boolean => {
  try {
    const socket: Socket & HttpStream = new Socket()
    const res = new ServerResponse(new IncomingMessage(socket))
    res.assignSocket(socket)
    const isHeld = socket._httpMessage === res
    res.detachSocket(socket)
    return isHeld && socket._httpMessage === null
  } catch {
    return false
  }
}

/**
 * Serves a request as if it had offered no upgrade (RFC 9110, 7.8): Node has given up its connection, which gets back to the
 * server with the same request less the offer. Node's `shouldUpgradeCallback` (22.21, 24.9) loses what is pipelined behind.
 */
export const ignoreUpgrade = (
  server: Server,
  { method, url, httpVersion, rawHeaders }: IncomingMessage,
  stream: Duplex,
  head: Buffer,
): void => {
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`)
  }
  stream.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  // A server of HTTPS would begin a handshake with each `connection`.
  server.emit('encrypted' in stream ? 'secureConnection' : 'connection', stream)
}

/** What libuv holds for a socket, which Node shows nobody (Node 20, 22 and 24); Node's own socket timeout reads it. */
interface SocketInternals extends Socket {
  readonly _handle?: { readonly bytesWritten?: number; readonly writeQueueSize?: number; reading?: boolean; readStart?(): void } | null
  /** Of a TLS socket, the connection below: its own counters stand still until all that is written has been encrypted and sent. */
  readonly _parent?: SocketInternals | null
}

/** Reads on after an upgrade: what Node's HTTP server has stopped reading while it parsed the connection, nothing public starts again. */
export const readAfterUpgrade = ({ _handle: handle }: SocketInternals): void => {
  if (handle?.reading !== false) return
  handle.reading = true
  handle.readStart?.()
}

/** Of a TLS socket the connection below; any other socket itself. */
export const socketBelow = (socket: SocketInternals): SocketInternals => socket._parent ?? socket

/**
 * The bytes that the system has taken so far: it takes more as the caller reads. Where Node does not tell, whole writes
 * are counted once the system has taken all of each.
 */
export const sentBytesOf = (socket: SocketInternals): number => {
  const { bytesWritten, writableLength } = socket
  const handle = socketBelow(socket)._handle
  return handle?.bytesWritten === undefined || handle.writeQueueSize === undefined
    ? bytesWritten - writableLength
    : handle.bytesWritten - handle.writeQueueSize
}

/** A response whose head and body are short texts, one character per byte. */
interface SingleWriteResponse {
  readonly status: number
  /** `Name: value` lines. */
  readonly headerLines: string
  /** The value of the Date header. */
  readonly date: string
  readonly body: string
}

/** False, and nothing is sent, on connections where Node has to write the response, as it knows what they need. */
export type SendSingleWrite = (res: ServerResponse, response: SingleWriteResponse) => boolean

/** Keep-alive responses in one write where this Node allows it; elsewhere never sends. */
export const openSingleWrite = (keepAliveTimeoutMs: number, isSupported = writesOnce()): SendSingleWrite =>
  isSupported ? createSingleWrite(keepAliveTimeoutMs) : () => false

/** Where Node keeps the head of a response that it has written itself; what stands there counts as written (Node 20, 22 and 24). */
interface ResponseInternals extends ServerResponse {
  _header?: string | null
}

/**
 * Sends head and body as one text in one write. Of the 25 us that a call from the cache takes, Node's way to write a
 * dozen headers is 3 more, and its way to end a response with a second, empty write is 1 more.
 */
const createSingleWrite = (keepAliveTimeoutMs: number): SendSingleWrite => {
  const keepAliveLines = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveTimeoutMs / 1000}\r\n`
  return (res: ResponseInternals, { status, headerLines, date, body }) => {
    const { req, socket } = res
    if (socket === null || !res.shouldKeepAlive || req.httpVersionMinor !== 1) return false
    res._header = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headerLines}Date: ${date}\r\n${keepAliveLines}\r\n`
    socket.cork()
    res.write(body, 'latin1')
    socket.uncork()
    res.end()
    return true
  }
}

/** Tries it on a response that is sent to no network: is one text written, head and body, and nothing else? */
export const writesOnce = (): boolean => {
  try {
    const written: string[] = []
    const stream = new Duplex({
      read: () => undefined,
      write(chunk, _encoding, done) {
        written.push(String(chunk))
        done()
      },
    })
    const socket = stream as Socket // all of it that a response uses
    const request = new IncomingMessage(socket)
    request.httpVersionMajor = request.httpVersionMinor = 1
    const res = new ServerResponse(request)
    res.assignSocket(socket)
    createSingleWrite(1000)(res, { status: 200, headerLines: 'A: b\r\nContent-Length: 1\r\n', date: 'c', body: 'd' })
    const text = 'HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 1\r\nDate: c\r\nConnection: keep-alive\r\nKeep-Alive: timeout=1\r\n\r\nd'
    return written.length === 1 && written[0] === text && res.headersSent && res.writableEnded
  } catch {
    return false
  }
}
