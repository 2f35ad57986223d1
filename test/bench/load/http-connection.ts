import { connect } from 'node:net'
import type { Socket } from 'node:net'
import type { LoadConnection, ConnectionListener } from './connections.ts'

/**
 * Opens a keep-alive HTTP/1.1 connection that carries one call at a time.
 *
 * A raw socket, because the load takes its CPU from the few cores that the measured process needs, too. With a fresh id
 * in each call and each answer looked at, a call costs this process about 20 us; autocannon 8 took 36 to 43 us for the
 * same, undici 46 to 100 us, beside the same server in the same run. autocannon also rounds latencies to whole ms.
 */
export const openHttpConnection = async (url: URL, listener: ConnectionListener): Promise<LoadConnection> => {
  const connection = new HttpConnection(url, listener)
  await connection.connect()
  return connection
}

class HttpConnection implements LoadConnection {
  readonly #url: URL
  readonly #requestHead: string
  readonly #listener: ConnectionListener
  #socket: Socket | undefined
  /** The call that waits for its answer. */
  #pendingCall: number | undefined
  #status = 0
  /** Bytes before the end of a head, while its end has not come. */
  #partialHead: Buffer | undefined
  #body: Buffer[] = []
  /** Bytes of the body that are still to come; infinite while an answer in chunks goes on. */
  #remainingBytes = 0

  constructor(url: URL, listener: ConnectionListener) {
    this.#url = url
    this.#requestHead = `POST ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\n`
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
      // A server may close a connection that has nothing to do; the next call then opens another.
      socket.on('close', () => {
        this.#socket = undefined
        if (this.#pendingCall !== undefined) this.#listener.onError('the server closed a connection before it had answered')
      })
    })
  }

  send(n: number, message: string): void {
    this.#pendingCall = n
    const bytes = `${this.#requestHead}Content-Length: ${message.length}\r\n\r\n${message}`
    if (this.#socket !== undefined) this.#socket.write(bytes, 'latin1')
    else
      this.connect().then(
        socket => socket.write(bytes, 'latin1'),
        () => undefined,
      ) // the listener has been told
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
    if (call === undefined) this.#listener.onError('an answer came that nobody had asked for')
    else this.#listener.onResponse(this, call, this.#status, body)
  }
}

const finalChunk = Buffer.from('0\r\n\r\n')

/** The last five bytes, which may have come one by one. */
const lastBytesOf = (body: readonly Buffer[]): Buffer => Buffer.concat(body.slice(-5).map(part => part.subarray(-5))).subarray(-5)

/** The body of an answer that came with `Transfer-Encoding: chunked`. */
const decodeChunked = (bytes: Buffer): Buffer => {
  const parts: Buffer[] = []
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at)
    const length = parseInt(bytes.toString('latin1', at, end), 16)
    if (!(length > 0)) return Buffer.concat(parts)
    parts.push(bytes.subarray(end + 2, end + 2 + length))
    at = end + 2 + length + 2
  }
}
