import { connect } from 'node:net'
import type { Socket } from 'node:net'
import type { Line, Listener } from './line.ts'

/**
 * Opens a keep-alive HTTP/1.1 connection that carries one call at a time.
 *
 * A raw socket, because the load takes its CPU from the few cores that the measured process needs, too. With a fresh id
 * in each call and each answer looked at, a call costs this process about 20 us; autocannon 8 took 36 to 43 us for the
 * same, undici 46 to 100 us, beside the same server in the same run. autocannon also rounds latencies to whole ms.
 */
export const openHttp = async (url: URL, listener: Listener): Promise<Line> => {
  const line = new HttpLine(url, listener)
  await line.connect()
  return line
}

class HttpLine implements Line {
  readonly #url: URL
  readonly #head: string
  readonly #listener: Listener
  #socket: Socket | undefined
  /** The call that waits for its answer. */
  #call: number | undefined
  #status = 0
  /** Bytes before the end of a head, while its end has not come. */
  #rest: Buffer | undefined
  #body: Buffer[] = []
  /** Bytes of the body that are still to come; infinite while an answer in chunks goes on. */
  #left = 0

  constructor(url: URL, listener: Listener) {
    this.#url = url
    this.#head = `POST ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\nContent-Type: application/json\r\n`
    this.#listener = listener
  }

  connect(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: this.#url.hostname, port: Number(this.#url.port), noDelay: true })
      socket.on('connect', () => resolve((this.#socket = socket)))
      socket.on('data', (chunk: Buffer) => this.#read(chunk))
      socket.on('error', error => {
        reject(error)
        this.#listener.failed(error.message)
      })
      // A server may close a connection that has nothing to do; the next call then opens another.
      socket.on('close', () => {
        this.#socket = undefined
        if (this.#call !== undefined) this.#listener.failed('the server closed a connection before it had answered')
      })
    })
  }

  send(n: number, message: string): void {
    this.#call = n
    const bytes = `${this.#head}Content-Length: ${message.length}\r\n\r\n${message}`
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

  #read(chunk: Buffer): void {
    if (this.#left > 0) return this.#take(chunk)
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk])
    const end = bytes.indexOf('\r\n\r\n')
    this.#rest = end < 0 ? bytes : undefined
    if (end < 0) return
    const head = bytes.toString('latin1', 0, end)
    this.#status = Number(head.slice(9, 12))
    this.#left = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? Infinity)
    this.#take(bytes.subarray(end + 4))
  }

  #take(chunk: Buffer): void {
    if (chunk.length > 0) this.#body.push(chunk)
    this.#left -= chunk.length
    if (this.#left === 0) return this.#finish(this.#body)
    if (this.#left < Infinity || !endOf(this.#body).equals(lastChunk)) return
    this.#finish([joinChunks(Buffer.concat(this.#body))])
  }

  #finish(body: readonly Buffer[]): void {
    const call = this.#call
    this.#call = undefined
    this.#body = []
    this.#left = 0
    if (call === undefined) this.#listener.failed('an answer came that nobody had asked for')
    else this.#listener.answered(this, call, this.#status, body)
  }
}

const lastChunk = Buffer.from('0\r\n\r\n')

/** The last five bytes, which may have come one by one. */
const endOf = (body: readonly Buffer[]): Buffer => Buffer.concat(body.slice(-5).map(part => part.subarray(-5))).subarray(-5)

/** The body of an answer that came with `Transfer-Encoding: chunked`. */
const joinChunks = (bytes: Buffer): Buffer => {
  const parts: Buffer[] = []
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at)
    const length = parseInt(bytes.toString('latin1', at, end), 16)
    if (!(length > 0)) return Buffer.concat(parts)
    parts.push(bytes.subarray(end + 2, end + 2 + length))
    at = end + 2 + length + 2
  }
}
