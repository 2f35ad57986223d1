import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { WebSocket } from 'ws'

/** A connection that carries calls. */
export interface LoadConnection {
  /** Sends call `n`, whose JSON text is `message`. */
  send(n: number, message: string): void
  close(): void
}

/** Receives each response of a connection, and the error that ends the connection. */
export interface ConnectionListener {
  onResponse(connection: LoadConnection, n: number, status: number, body: readonly Buffer[]): void
  onError(reason: string): void
}

/** All ids have the same number of digits, so that all responses to one kind of call have the same length. */
export const requestIdOf = (n: number): number => 10_000_000 + n

/**
 * Opens a keep-alive HTTP/1.1 connection that carries one call at a time.
 *
 * A raw socket, because the load generator shares a few cores with the measured process. With a new id in each call and
 * each response checked, a call costs this process about 20 us; autocannon 8 took 36 to 43 us for the same, undici 46 to
 * 100 us, with the same server in the same run. autocannon also rounds latencies to whole ms.
 */
export const openHttpConnection = async (url: URL, listener: ConnectionListener, keys?: readonly string[]): Promise<LoadConnection> => {
  const connection = new HttpConnection(url, listener, keys)
  await connection.connect()
  return connection
}

class HttpConnection implements LoadConnection {
  readonly #url: URL
  readonly #requestHeads: readonly string[]
  readonly #listener: ConnectionListener
  #socket: Socket | undefined
  /** The call in flight. */
  #pendingCall: number | undefined
  #status = 0
  /** The first bytes of a response head whose end is still missing. */
  #partialHead: Buffer | undefined
  #body: Buffer[] = []
  /** Bytes of the body that are still missing; infinite for a chunked response that has not ended. */
  #remainingBytes = 0

  /** With API keys, which follow the path: call `n` is of key `n`, in turn. */
  constructor(url: URL, listener: ConnectionListener, keys: readonly string[] = ['']) {
    this.#url = url
    const { pathname, search, host } = url
    this.#requestHeads = keys.map(key => `POST ${pathname}${key}${search} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n`)
    this.#listener = listener
  }

  connect(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: this.#url.hostname, port: Number(this.#url.port), noDelay: true })
      socket.on('connect', () => resolve((this.#socket = socket)))
      socket.on('data', (chunk: Buffer) => this.#onData(chunk))
      socket.on('error', error => {
        reject(error)
        this.#listener.onError(error.message)
      })
      // A server may close an idle connection; the next call then opens another.
      socket.on('close', () => {
        this.#socket = undefined
        if (this.#pendingCall !== undefined) this.#listener.onError('the server closed a connection before its response')
      })
    })
  }

  send(n: number, message: string): void {
    this.#pendingCall = n
    const head = this.#requestHeads[n % this.#requestHeads.length]
    const bytes = `${head}Content-Length: ${message.length}\r\n\r\n${message}`
    if (this.#socket !== undefined) this.#socket.write(bytes, 'latin1')
    else
      this.connect().then(
        socket => socket.write(bytes, 'latin1'),
        () => undefined,
      ) // the listener was notified by the handler of `error`
  }

  close(): void {
    this.#socket?.destroy()
  }

  #onData(chunk: Buffer): void {
    if (this.#remainingBytes > 0) return this.#onBody(chunk)
    const bytes = this.#partialHead === undefined ? chunk : Buffer.concat([this.#partialHead, chunk])
    const end = bytes.indexOf('\r\n\r\n')
    this.#partialHead = end < 0 ? bytes : undefined
    if (end < 0) return
    const head = bytes.toString('latin1', 0, end)
    this.#status = Number(head.slice(9, 12))
    this.#remainingBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? Infinity)
    this.#onBody(bytes.subarray(end + 4))
  }

  #onBody(chunk: Buffer): void {
    if (chunk.length > 0) this.#body.push(chunk)
    this.#remainingBytes -= chunk.length
    if (this.#remainingBytes === 0) return this.#onEnd(this.#body)
    if (this.#remainingBytes < Infinity || !lastBytesOf(this.#body).equals(finalChunk)) return
    this.#onEnd([decodeChunked(Buffer.concat(this.#body))])
  }

  #onEnd(body: readonly Buffer[]): void {
    const call = this.#pendingCall
    this.#pendingCall = undefined
    this.#body = []
    this.#remainingBytes = 0
    if (call === undefined) this.#listener.onError('a response without a request')
    else this.#listener.onResponse(this, call, this.#status, body)
  }
}

/** The end of a chunked body. */
const finalChunk = Buffer.from('0\r\n\r\n')

/** The last five bytes, which may have arrived one by one. */
const lastBytesOf = (body: readonly Buffer[]): Buffer => Buffer.concat(body.slice(-5).map(part => part.subarray(-5))).subarray(-5)

/** The body of a response with `Transfer-Encoding: chunked`. */
const decodeChunked = (bytes: Buffer): Buffer => {
  const parts: Buffer[] = []
  for (let start = 0; ; ) {
    const end = bytes.indexOf('\r\n', start)
    const length = parseInt(bytes.toString('latin1', start, end), 16)
    if (!(length > 0)) return Buffer.concat(parts)
    parts.push(bytes.subarray(end + 2, end + 2 + length))
    start = end + 2 + length + 2
  }
}

/** Opens a WebSocket that carries any number of concurrent calls; the id of a response names its call. */
export const openWebSocketConnection = (url: URL, listener: ConnectionListener): Promise<LoadConnection> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { perMessageDeflate: false, skipUTF8Validation: true })
    const connection: LoadConnection = {
      send: (_n, message) => socket.send(message),
      close() {
        socket.removeAllListeners('close').terminate()
      },
    }
    socket.once('open', () => resolve(connection))
    socket.on('message', (data: Buffer) => listener.onResponse(connection, callNumberOf(data), 200, [data]))
    socket.on('error', error => {
      reject(error)
      listener.onError(error.message)
    })
    socket.on('close', code => listener.onError(`the server closed a WebSocket with ${code}`))
  })

const idSearchBytes = 100

const idPattern = /"id": ?(\d+)/

/** Most servers write the id near the beginning: a search of the first bytes finds it without converting all of them. */
const callNumberOf = (data: Buffer): number =>
  Number((idPattern.exec(data.toString('latin1', 0, idSearchBytes)) ?? idPattern.exec(data.toString('latin1')))?.[1]) - requestIdOf(0)
