import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import type { Socket } from 'node:net'

/** A request that the node has received. */
export interface FaultRequest {
  readonly id: number
  readonly method: string
  /** The correct result, as JSON text. */
  readonly expectedResult: string
  /** Number of requests on this connection so far, including this one. */
  readonly connectionRequestCount: number
}

/** Responds to a request, correctly or not. */
export type NodeFault = (socket: Socket, request: FaultRequest) => void

/** Time between two pieces of a slow response. */
export const dripIntervalMs = 20

/** What a truncated body lacks. */
const missingBytes = 20

export const envelope = (id: unknown, rest: string): string => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${rest}}`
export const correctResponse = ({ id, expectedResult }: FaultRequest): string => envelope(id, `"result":${expectedResult}`)

/** A whole HTTP response. */
export const httpResponse = (body: string | Buffer, { status = 200, headers = {} }: { status?: number; headers?: object } = {}): Buffer => {
  const bytes = Buffer.from(body)
  const allHeaders = { 'content-type': 'application/json', 'content-length': bytes.length, ...headers }
  const head = Object.entries(allHeaders)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status} X\r\n${head}\r\n`), bytes])
}

export const respondCorrectly: NodeFault = (socket, request) => void socket.write(httpResponse(correctResponse(request)))

/** A node that gets calls before its fault shows: it returns the right chain ID. */
export const exceptChainId =
  (fault: NodeFault): NodeFault =>
  (socket, request) =>
    request.method === 'eth_chainId' ? respondCorrectly(socket, request) : fault(socket, request)

/** Responds with this body; nothing else is wrong. */
export const respondWithBody =
  (body: (request: FaultRequest) => string): NodeFault =>
  (socket, request) =>
    void socket.write(httpResponse(body(request)))
export const respondWithStatus =
  (code: number, headers: object = {}): NodeFault =>
  socket =>
    void socket.write(httpResponse('<html>no</html>', { status: code, headers: { 'content-type': 'text/html', ...headers } }))
export const respondEncoded =
  (encoding: string, bytes: (request: FaultRequest) => Buffer): NodeFault =>
  (socket, request) =>
    void socket.write(httpResponse(bytes(request), { headers: { 'content-encoding': encoding } }))
/** Sends head and body of a response as they are. */
export const sendText =
  (text: (request: FaultRequest) => string): NodeFault =>
  (socket, request) =>
    void socket.write(text(request))
/** Sends `beginning`, then a piece every `dripIntervalMs`. */
export const drip =
  (beginning: string, piece: () => string | Buffer): NodeFault =>
  socket => {
    socket.write(beginning)
    const timer = setInterval(() => void socket.write(piece()), dripIntervalMs)
    socket.once('close', () => clearInterval(timer))
  }
/** Sends all but the last bytes of the correct response, then calls `end`. */
export const truncateBody =
  (end: (socket: Socket) => void): NodeFault =>
  (socket, request) => {
    const bytes = httpResponse(correctResponse(request))
    socket.write(bytes.subarray(0, bytes.length - missingBytes), () => end(socket))
  }

/** Writes as long as the connection is open and read. */
export const writeEndlessly = (socket: Socket, piece: Buffer): void => {
  const write = () => {
    while (!socket.destroyed && socket.write(piece)) {
      /* until the buffer of the socket is full */
    }
  }
  socket.on('drain', write)
  write()
}

export const chunkedHead = 'HTTP/1.1 200 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'
/** What a bomb decompresses to: 16 MiB. */
const bombBody = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":["${'0'.repeat(16 << 20)}"]}`)
export const chunk = (text: string): Buffer => Buffer.from(`${text.length.toString(16)}\r\n${text}\r\n`)
/** Compressing 16 MiB takes long: each bomb is made when it is first needed. */
const lazy = <T>(create: () => T): (() => T) => {
  let value: T | undefined
  return () => (value ??= create())
}
const fastBrotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } }
export const compressionBombs = {
  gzip: lazy(() => gzipSync(bombBody)),
  deflate: lazy(() => deflateSync(bombBody)),
  br: lazy(() => brotliCompressSync(bombBody, fastBrotli)),
}
