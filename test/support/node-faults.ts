import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import type { Socket } from 'node:net'

/** One request, as a fault sees it. */
export interface FaultRequest {
  readonly id: number
  readonly method: string
  /** The right result, as JSON text. */
  readonly expectedResult: string
  /** How many requests came over this connection, this one counted. */
  readonly connectionRequestCount: number
}

/** Misbehaves on one request. */
export type NodeFault = (socket: Socket, asked: FaultRequest) => void

const envelope = (id: unknown, rest: string): string => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${rest}}`
const correctResponse = ({ id, expectedResult: right }: FaultRequest): string => envelope(id, `"result":${right}`)

/** A whole HTTP answer. */
export const httpResponse = (body: string | Buffer, { status = 200, headers = {} }: { status?: number; headers?: object } = {}): Buffer => {
  const bytes = Buffer.from(body)
  const all = { 'content-type': 'application/json', 'content-length': bytes.length, ...headers }
  const head = Object.entries(all)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status} X\r\n${head}\r\n`), bytes])
}

export const respondCorrectly: NodeFault = (socket, asked) => void socket.write(httpResponse(correctResponse(asked)))

/** Answers with this body, and nothing else is wrong. */
const respondWithBody =
  (body: (asked: FaultRequest) => string): NodeFault =>
  (socket, asked) =>
    void socket.write(httpResponse(body(asked)))
const respondWithStatus =
  (code: number, headers: object = {}): NodeFault =>
  socket =>
    void socket.write(httpResponse('<html>no</html>', { status: code, headers: { 'content-type': 'text/html', ...headers } }))
const respondEncoded =
  (encoding: string, bytes: (asked: FaultRequest) => Buffer): NodeFault =>
  (socket, asked) =>
    void socket.write(httpResponse(bytes(asked), { headers: { 'content-encoding': encoding } }))
/** The head of an answer and its body as they are, right or not. */
const sendText =
  (text: (asked: FaultRequest) => string): NodeFault =>
  (socket, asked) =>
    void socket.write(text(asked))
/** `piece` every 20 ms, after the beginning. */
const drip =
  (beginning: string, piece: () => string | Buffer): NodeFault =>
  socket => {
    socket.write(beginning)
    const timer = setInterval(() => void socket.write(piece()), 20)
    socket.once('close', () => clearInterval(timer))
  }
/** Half of the right answer, and then what `end` does. */
const truncateBody =
  (end: (socket: Socket) => void): NodeFault =>
  (socket, asked) => {
    const whole = httpResponse(correctResponse(asked))
    socket.write(whole.subarray(0, whole.length - 20), () => end(socket))
  }

/** Goes on for as long as somebody reads. */
const writeEndlessly = (socket: Socket, piece: Buffer): void => {
  const more = () => {
    while (!socket.destroyed && socket.write(piece)) {
      /* until the buffer is full */
    }
  }
  socket.on('drain', more)
  more()
}

const chunkedHead = 'HTTP/1.1 200 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'
const bombBody = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":["${'0'.repeat(16 << 20)}"]}`)
const chunk = (text: string): Buffer => Buffer.from(`${text.length.toString(16)}\r\n${text}\r\n`)
const lazy = <T>(make: () => T): (() => T) => {
  let made: T | undefined
  return () => (made ??= make())
}
const fastBrotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } }
export const compressionBombs = {
  gzip: lazy(() => gzipSync(bombBody)),
  deflate: lazy(() => deflateSync(bombBody)),
  br: lazy(() => brotliCompressSync(bombBody, fastBrotli)),
}

/** What nodes, and what stands before them, do to those who ask. */
export const faults = {
  hangs: () => undefined,
  'drips an answer': (socket, asked) => {
    const bytes = httpResponse(correctResponse(asked))
    let at = bytes.indexOf('\r\n\r\n') + 5
    socket.write(bytes.subarray(0, at))
    const timer = setInterval(() => void socket.write(bytes.subarray(at, (at += 1))), 20)
    socket.once('close', () => clearInterval(timer))
  },
  'drips white space': drip(chunkedHead, () => chunk(' ')),
  'drips a head': drip('HTTP/1.1 200 X\r\nx-slow: ', () => 'x'),
  'says again and again that it is working': drip('', () => 'HTTP/1.1 102 Processing\r\n\r\n'),
  'resets at once': socket => void socket.resetAndDestroy(),
  'closes at once': socket => void socket.destroy(),
  'resets mid body': truncateBody(socket => void socket.resetAndDestroy()),
  'closes mid body': truncateBody(socket => void socket.end()),
  'hangs mid body': truncateBody(() => undefined),
  'is not HTTP': socket => void socket.write('220 mail.test ESMTP\r\n'),
  'has a head without end': socket => {
    socket.write('HTTP/1.1 200 X\r\n')
    writeEndlessly(socket, Buffer.from(`x-long: ${'x'.repeat(4096)}\r\n`))
  },
  'says two lengths': sendText(
    asked => `HTTP/1.1 200 X\r\ncontent-length: 2\r\ncontent-length: ${correctResponse(asked).length}\r\n\r\n${correctResponse(asked)}`,
  ),
  'says its length though it sends chunks': sendText(
    asked => chunkedHead.replace('\r\n\r\n', '\r\ncontent-length: 5\r\n\r\n') + chunk(correctResponse(asked)) + chunk(''),
  ),
  'breaks its chunks': sendText(asked => `${chunkedHead}zz\r\n${correctResponse(asked)}\r\n`),
  'switches protocols': sendText(() => 'HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
  'says garbage': respondWithBody(() => '\u0000\u0001{]'),
  'says what is no text': (socket, asked) =>
    void socket.write(httpResponse(Buffer.from(envelope(asked.id, '"result":"\xff\xfe"'), 'latin1'))),
  'begins with a byte order mark': respondWithBody(asked => `\ufeff${correctResponse(asked)}`),
  'says truncated JSON': respondWithBody(asked => correctResponse(asked).slice(0, -3)),
  'says HTML': respondWithBody(() => '<html><body>502 Bad Gateway</body></html>'),
  'says nothing': respondWithBody(() => ''),
  'says null': respondWithBody(() => 'null'),
  'says two answers': respondWithBody(asked => correctResponse(asked) + correctResponse(asked)),
  'answers a batch': respondWithBody(asked => `[${correctResponse(asked)}]`),
  'answers with another id': respondWithBody(asked => envelope(asked.id + 1, '"result":"0xbad"')),
  'answers with two ids': respondWithBody(asked => `{"jsonrpc":"2.0","id":${asked.id + 1},"id":${asked.id},"result":"0xbad"}`),
  'answers without id': respondWithBody(() => '{"jsonrpc":"2.0","result":"0xbad"}'),
  'answers with a null id': respondWithBody(() => envelope(null, '"result":"0xbad"')),
  'answers with the id as text': respondWithBody(asked => envelope(String(asked.id), '"result":"0xbad"')),
  'answers with result and error': respondWithBody(asked => envelope(asked.id, '"result":"0xbad","error":{"code":-32000,"message":"x"}')),
  'answers with neither': respondWithBody(asked => envelope(asked.id, '"data":1')),
  'answers with two results': respondWithBody(asked => envelope(asked.id, '"result":"0xbad","result":"0xbad"')),
  'answers with an error that is none': respondWithBody(asked => envelope(asked.id, '"error":"no"')),
  'nests deeply': respondWithBody(asked => envelope(asked.id, `"result":${'['.repeat(5000)}${']'.repeat(5000)}`)),
  'says that its result ends early': respondWithBody(asked => envelope(asked.id, '"result":[],"_streamStatus":"truncated"')),
  'has an internal error': respondWithBody(asked => envelope(asked.id, '"error":{"code":-32603,"message":"internal error"}')),
  'answers endlessly': (socket, { id }) => {
    socket.write(chunkedHead)
    socket.write(chunk(`{"jsonrpc":"2.0","id":${id},"result":["0"`))
    writeEndlessly(socket, chunk(',"0"'.repeat(4096)))
  },
  'answers hugely': (socket, { id }) => {
    socket.write(httpResponse(`{"jsonrpc":"2.0","id":${id},"result":["`, { headers: { 'content-length': 300 << 20 } }))
    writeEndlessly(socket, Buffer.alloc(65_536, 0x30))
  },
  'sends a gzip bomb': respondEncoded('gzip', compressionBombs.gzip),
  'sends a deflate bomb': respondEncoded('deflate', compressionBombs.deflate),
  'sends a brotli bomb': respondEncoded('br', compressionBombs.br),
  'packs twice': respondEncoded('gzip, gzip', asked => gzipSync(gzipSync(correctResponse(asked)))),
  'packs in an unknown way': respondEncoded('lzma', asked => Buffer.from(correctResponse(asked))),
  'breaks off a gzip': respondEncoded('gzip', asked => gzipSync(correctResponse(asked)).subarray(0, -9)),
  'lies about gzip': respondEncoded('gzip', asked => Buffer.from(correctResponse(asked))),
  'limits us in JSON': respondWithBody(asked =>
    envelope(asked.id, '"error":{"code":-32005,"message":"daily request count exceeded, request rate limited"}'),
  ),
  'refuses our key in JSON': respondWithBody(asked => envelope(asked.id, '"error":{"code":-32600,"message":"Must be authenticated!"}')),
  'takes our request for none': respondWithBody(asked => envelope(asked.id, '"error":{"code":-32700,"message":"parse error"}')),
  'lacks the method': respondWithBody(asked =>
    envelope(asked.id, '"error":{"code":-32601,"message":"the method eth_call does not exist/is not available"}'),
  ),
  'times out in JSON': respondWithBody(asked => envelope(asked.id, '"error":{"code":-32002,"message":"request timed out"}')),
  'limits us': respondWithStatus(429),
  'limits us until a date': socket =>
    void socket.write(httpResponse('', { status: 429, headers: { 'retry-after': new Date(Date.now() + 60_000).toUTCString() } })),
  'limits us for a second': respondWithStatus(429, { 'retry-after': '1' }),
  'says 500': respondWithStatus(500),
  'says 502': respondWithStatus(502),
  'says 503': respondWithStatus(503, { 'retry-after': '1' }),
  'says 524': respondWithStatus(524),
  'says 204': respondWithStatus(204),
  'says 401': respondWithStatus(401),
  'says 402': respondWithStatus(402),
  'says 403': respondWithStatus(403),
  'says 404': respondWithStatus(404),
  'says 413': respondWithStatus(413),
  redirects: respondWithStatus(307, { location: 'http://169.254.169.254/latest/meta-data' }),
  'redirects to a file': respondWithStatus(302, { location: 'file:///etc/passwd' }),
  'promises more than it sends': (socket, asked) =>
    void socket.write(httpResponse(correctResponse(asked), { headers: { 'content-length': correctResponse(asked).length + 10 } })),
  'sends more than it promised': (socket, asked) =>
    void socket.write(httpResponse(correctResponse(asked), { headers: { 'content-length': correctResponse(asked).length - 5 } })),
  'sends another answer behind': (socket, asked) =>
    void socket.write(Buffer.concat([httpResponse(correctResponse(asked)), httpResponse(envelope(asked.id + 1, '"result":"0xbad"'))])),
} as const satisfies Readonly<Record<string, NodeFault>>

/** What a node says that has not all of the chain. */
export const missingHistoryFaults = {
  'lacks the block': respondWithBody(asked => envelope(asked.id, '"error":{"code":-32000,"message":"header not found"}')),
  'lacks the state': respondWithBody(asked =>
    envelope(asked.id, `"error":{"code":-32000,"message":"missing trie node ${'ab'.repeat(32)} (path )"}`),
  ),
} as const satisfies Readonly<Record<string, NodeFault>>

/** Well-formed answers, of another chain. */
export const respondFromOtherChain: NodeFault = (socket, asked) =>
  respondCorrectly(socket, {
    ...asked,
    expectedResult: asked.method === 'eth_chainId' ? '"0x2"' : asked.expectedResult.replace(/"[^"]*"/, '"0xbad"'),
  })

/** Of two questions each gets the answer to the other. */
export const swapResponses = (): NodeFault => {
  let first: { readonly socket: Socket; readonly asked: FaultRequest } | undefined
  return (socket, asked) => {
    if (first === undefined || first.socket.destroyed) return void (first = { socket, asked })
    respondCorrectly(first.socket, asked)
    respondCorrectly(socket, first.asked)
    first = undefined
  }
}

/** It closes a kept connection just when the next request comes over it. */
export const closeIdleConnection: NodeFault = (socket, asked) => {
  if (asked.connectionRequestCount > 10) return void socket.resetAndDestroy()
  socket.write(httpResponse(correctResponse(asked)))
}

/** A node may compress what it says. */
export const compressResponse = (encoding: 'gzip' | 'deflate' | 'br'): NodeFault =>
  respondEncoded(encoding, asked => ({ gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync })[encoding](correctResponse(asked)))

/** No faults, seen from the outside: who asks a node that does this must not notice. */
export const toleratedBehaviors = {
  'closes kept connections': closeIdleConnection,
  'packs without being asked': compressResponse('gzip'),
  'answers in slices': (socket, asked) => {
    const bytes = httpResponse(correctResponse(asked))
    const cut = (at: number): void => {
      if (at < bytes.length) socket.write(bytes.subarray(at, at + 50), () => setImmediate(cut, at + 50))
    }
    cut(0)
  },
  'answers late': (socket, asked) => void setTimeout(respondCorrectly, 100, socket, asked),
  'closes after each answer': (socket, asked) =>
    void socket.end(httpResponse(correctResponse(asked), { headers: { connection: 'close' } })),
  'answers in chunks': (socket, asked) => {
    const text = correctResponse(asked)
    socket.write(
      Buffer.concat([Buffer.from(chunkedHead), chunk(text.slice(0, 9)), chunk(text.slice(9)), Buffer.from('0\r\nx-trailer: 1\r\n\r\n')]),
    )
  },
  'answers in HTTP/1.0, until it closes': (socket, asked) =>
    void socket.end(`HTTP/1.0 200 X\r\ncontent-type: text/plain\r\n\r\n${correctResponse(asked)}`),
  'says first that it is working': (socket, asked) =>
    void socket.write(Buffer.concat([Buffer.from('HTTP/1.1 103 X\r\nlink: </>\r\n\r\n'), httpResponse(correctResponse(asked))])),
  'writes in its own way': respondWithBody(
    ({ id, expectedResult: right }) => ` {\n "error" : null,\t"i\\u0064":${id} , "usage":{"id":[1]},"result" : ${right} } `,
  ),
  'puts HTTP 400 on a right answer': (socket, asked) => void socket.write(httpResponse(correctResponse(asked), { status: 400 })),
} as const satisfies Readonly<Record<string, NodeFault>>
