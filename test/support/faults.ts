import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import type { Socket } from 'node:net'

/** One request, as a fault sees it. */
export interface Asked {
  readonly id: number
  readonly method: string
  /** The right result, as JSON text. */
  readonly right: string
  /** How many requests came over this connection, this one counted. */
  readonly turn: number
}

/** Misbehaves on one request. */
export type Fault = (socket: Socket, asked: Asked) => void

const envelope = (id: unknown, rest: string): string => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${rest}}`
const answerTo = ({ id, right }: Asked): string => envelope(id, `"result":${right}`)

/** A whole HTTP answer. */
export const http = (body: string | Buffer, { status = 200, headers = {} }: { status?: number, headers?: object } = {}): Buffer => {
  const bytes = Buffer.from(body)
  const all = { 'content-type': 'application/json', 'content-length': bytes.length, ...headers }
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status} X\r\n${head}\r\n`), bytes])
}

/** Answers with this body, and nothing else is wrong. */
const says = (body: (asked: Asked) => string): Fault => (socket, asked) => void socket.write(http(body(asked)))
const status = (code: number, headers: object = {}): Fault => socket =>
  void socket.write(http('<html>no</html>', { status: code, headers: { 'content-type': 'text/html', ...headers } }))
const packed = (encoding: string, bytes: (asked: Asked) => Buffer): Fault => (socket, asked) =>
  void socket.write(http(bytes(asked), { headers: { 'content-encoding': encoding } }))
/** Half of the right answer, and then what `end` does. */
const breaksOff = (end: (socket: Socket) => void): Fault => (socket, asked) => {
  const whole = http(answerTo(asked))
  socket.write(whole.subarray(0, whole.length - 20), () => end(socket))
}

/** Goes on for as long as somebody reads. */
const pour = (socket: Socket, piece: Buffer): void => {
  const more = () => {
    while (!socket.destroyed && socket.write(piece)) { /* until the buffer is full */ }
  }
  socket.on('drain', more)
  more()
}

const bomb = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":["${'0'.repeat(16 << 20)}"]}`)
const chunk = (text: string): Buffer => Buffer.from(`${text.length.toString(16)}\r\n${text}\r\n`)
const once = <T>(make: () => T): (() => T) => {
  let made: T | undefined
  return () => made ??= make()
}
const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } }
export const bombs = { gzip: once(() => gzipSync(bomb)), deflate: once(() => deflateSync(bomb)), br: once(() => brotliCompressSync(bomb, quick)) }

/** What nodes, and what stands before them, do to those who ask. */
export const faults = {
  'hangs': () => undefined,
  'drips an answer': (socket, asked) => {
    const bytes = http(answerTo(asked))
    let at = bytes.indexOf('\r\n\r\n') + 5
    socket.write(bytes.subarray(0, at))
    const timer = setInterval(() => void socket.write(bytes.subarray(at, at += 1)), 20)
    socket.once('close', () => clearInterval(timer))
  },
  'drips white space': socket => {
    socket.write('HTTP/1.1 200 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n')
    const timer = setInterval(() => void socket.write(chunk(' ')), 20)
    socket.once('close', () => clearInterval(timer))
  },
  'resets at once': socket => void socket.resetAndDestroy(),
  'closes at once': socket => void socket.destroy(),
  'resets mid body': breaksOff(socket => void socket.resetAndDestroy()),
  'closes mid body': breaksOff(socket => void socket.end()),
  'hangs mid body': breaksOff(() => undefined),
  'is not HTTP': socket => void socket.write('220 mail.test ESMTP\r\n'),
  'says garbage': says(() => '\u0000\u0001{]'),
  'says truncated JSON': says(asked => answerTo(asked).slice(0, -3)),
  'says HTML': says(() => '<html><body>502 Bad Gateway</body></html>'),
  'says nothing': says(() => ''),
  'says null': says(() => 'null'),
  'says two answers': says(asked => answerTo(asked) + answerTo(asked)),
  'answers a batch': says(asked => `[${answerTo(asked)}]`),
  'answers with another id': says(asked => envelope(asked.id + 1, '"result":"0xbad"')),
  'answers without id': says(() => '{"jsonrpc":"2.0","result":"0xbad"}'),
  'answers with a null id': says(() => envelope(null, '"result":"0xbad"')),
  'answers with the id as text': says(asked => envelope(String(asked.id), '"result":"0xbad"')),
  'answers with result and error': says(asked => envelope(asked.id, '"result":"0xbad","error":{"code":-32000,"message":"x"}')),
  'answers with neither': says(asked => envelope(asked.id, '"data":1')),
  'answers with two results': says(asked => envelope(asked.id, '"result":"0xbad","result":"0xbad"')),
  'answers with an error that is none': says(asked => envelope(asked.id, '"error":"no"')),
  'nests deeply': says(asked => envelope(asked.id, `"result":${'['.repeat(5000)}${']'.repeat(5000)}`)),
  'says that its result ends early': says(asked => envelope(asked.id, '"result":[],"_streamStatus":"truncated"')),
  'has an internal error': says(asked => envelope(asked.id, '"error":{"code":-32603,"message":"internal error"}')),
  'answers endlessly': (socket, { id }) => {
    socket.write(`HTTP/1.1 200 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`)
    socket.write(chunk(`{"jsonrpc":"2.0","id":${id},"result":["0"`))
    pour(socket, chunk(',"0"'.repeat(4096)))
  },
  'answers hugely': (socket, { id }) => {
    socket.write(http(`{"jsonrpc":"2.0","id":${id},"result":["`, { headers: { 'content-length': 300 << 20 } }))
    pour(socket, Buffer.alloc(65_536, 0x30))
  },
  'sends a gzip bomb': packed('gzip', bombs.gzip),
  'sends a deflate bomb': packed('deflate', bombs.deflate),
  'sends a brotli bomb': packed('br', bombs.br),
  'packs twice': packed('gzip, gzip', asked => gzipSync(gzipSync(answerTo(asked)))),
  'packs in an unknown way': packed('lzma', asked => Buffer.from(answerTo(asked))),
  'breaks off a gzip': packed('gzip', asked => gzipSync(answerTo(asked)).subarray(0, -9)),
  'lies about gzip': packed('gzip', asked => Buffer.from(answerTo(asked))),
  'limits us in JSON': says(asked => envelope(asked.id, '"error":{"code":-32005,"message":"daily request count exceeded, request rate limited"}')),
  'refuses our key in JSON': says(asked => envelope(asked.id, '"error":{"code":-32600,"message":"Must be authenticated!"}')),
  'takes our request for none': says(asked => envelope(asked.id, '"error":{"code":-32700,"message":"parse error"}')),
  'lacks the method': says(asked => envelope(asked.id, '"error":{"code":-32601,"message":"the method eth_call does not exist/is not available"}')),
  'times out in JSON': says(asked => envelope(asked.id, '"error":{"code":-32002,"message":"request timed out"}')),
  'limits us': status(429),
  'limits us until a date': socket =>
    void socket.write(http('', { status: 429, headers: { 'retry-after': new Date(Date.now() + 60_000).toUTCString() } })),
  'limits us for a second': status(429, { 'retry-after': '1' }),
  'says 500': status(500),
  'says 502': status(502),
  'says 503': status(503, { 'retry-after': '1' }),
  'says 401': status(401),
  'says 404': status(404),
  'says 413': status(413),
  'redirects': status(307, { location: 'http://169.254.169.254/latest/meta-data' }),
  'redirects to a file': status(302, { location: 'file:///etc/passwd' }),
  'promises more than it sends': (socket, asked) =>
    void socket.write(http(answerTo(asked), { headers: { 'content-length': answerTo(asked).length + 10 } })),
  'sends more than it promised': (socket, asked) =>
    void socket.write(http(answerTo(asked), { headers: { 'content-length': answerTo(asked).length - 5 } })),
  'sends another answer behind': (socket, asked) =>
    void socket.write(Buffer.concat([http(answerTo(asked)), http(envelope(asked.id + 1, '"result":"0xbad"'))])),
} as const satisfies Readonly<Record<string, Fault>>

export type FaultName = keyof typeof faults

/** It closes a kept connection just when the next request comes over it. */
export const closesKept: Fault = (socket, asked) => {
  if (asked.turn > 10) return void socket.resetAndDestroy()
  socket.write(http(answerTo(asked)))
}

/** A node may compress what it says. */
export const packs = (encoding: 'gzip' | 'deflate' | 'br'): Fault =>
  packed(encoding, asked => ({ gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync })[encoding](answerTo(asked)))

export const isRight: Fault = (socket, asked) => void socket.write(http(answerTo(asked)))

/** No faults, seen from the outside: who asks a node that does this must not notice. */
export const harmless = {
  'closes kept connections': closesKept,
  'packs without being asked': packs('gzip'),
  'answers in slices': (socket, asked) => {
    const bytes = http(answerTo(asked))
    const cut = (at: number): void => {
      if (at < bytes.length) socket.write(bytes.subarray(at, at + 50), () => setImmediate(cut, at + 50))
    }
    cut(0)
  },
  'answers late': (socket, asked) => void setTimeout(isRight, 100, socket, asked),
  'closes after each answer': (socket, asked) =>
    void socket.end(http(answerTo(asked), { headers: { connection: 'close' } })),
  'puts HTTP 400 on a right answer': (socket, asked) => void socket.write(http(answerTo(asked), { status: 400 })),
} as const satisfies Readonly<Record<string, Fault>>
