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
export const http = (body: string | Buffer, { status = 200, headers = {} }: { status?: number; headers?: object } = {}): Buffer => {
  const bytes = Buffer.from(body)
  const all = { 'content-type': 'application/json', 'content-length': bytes.length, ...headers }
  const head = Object.entries(all)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status} X\r\n${head}\r\n`), bytes])
}

export const isRight: Fault = (socket, asked) => void socket.write(http(answerTo(asked)))

/** Answers with this body, and nothing else is wrong. */
const says =
  (body: (asked: Asked) => string): Fault =>
  (socket, asked) =>
    void socket.write(http(body(asked)))
const status =
  (code: number, headers: object = {}): Fault =>
  socket =>
    void socket.write(http('<html>no</html>', { status: code, headers: { 'content-type': 'text/html', ...headers } }))
const packed =
  (encoding: string, bytes: (asked: Asked) => Buffer): Fault =>
  (socket, asked) =>
    void socket.write(http(bytes(asked), { headers: { 'content-encoding': encoding } }))
/** The head of an answer and its body as they are, right or not. */
const sends =
  (text: (asked: Asked) => string): Fault =>
  (socket, asked) =>
    void socket.write(text(asked))
/** `piece` every 20 ms, after the beginning. */
const drips =
  (beginning: string, piece: () => string | Buffer): Fault =>
  socket => {
    socket.write(beginning)
    const timer = setInterval(() => void socket.write(piece()), 20)
    socket.once('close', () => clearInterval(timer))
  }
/** Half of the right answer, and then what `end` does. */
const breaksOff =
  (end: (socket: Socket) => void): Fault =>
  (socket, asked) => {
    const whole = http(answerTo(asked))
    socket.write(whole.subarray(0, whole.length - 20), () => end(socket))
  }

/** Goes on for as long as somebody reads. */
const pour = (socket: Socket, piece: Buffer): void => {
  const more = () => {
    while (!socket.destroyed && socket.write(piece)) {
      /* until the buffer is full */
    }
  }
  socket.on('drain', more)
  more()
}

const chunkedHead = 'HTTP/1.1 200 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'
const bomb = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":["${'0'.repeat(16 << 20)}"]}`)
const chunk = (text: string): Buffer => Buffer.from(`${text.length.toString(16)}\r\n${text}\r\n`)
const once = <T>(make: () => T): (() => T) => {
  let made: T | undefined
  return () => (made ??= make())
}
const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } }
export const bombs = {
  gzip: once(() => gzipSync(bomb)),
  deflate: once(() => deflateSync(bomb)),
  br: once(() => brotliCompressSync(bomb, quick)),
}

/** What nodes, and what stands before them, do to those who ask. */
export const faults = {
  hangs: () => undefined,
  'drips an answer': (socket, asked) => {
    const bytes = http(answerTo(asked))
    let at = bytes.indexOf('\r\n\r\n') + 5
    socket.write(bytes.subarray(0, at))
    const timer = setInterval(() => void socket.write(bytes.subarray(at, (at += 1))), 20)
    socket.once('close', () => clearInterval(timer))
  },
  'drips white space': drips(chunkedHead, () => chunk(' ')),
  'drips a head': drips('HTTP/1.1 200 X\r\nx-slow: ', () => 'x'),
  'says again and again that it is working': drips('', () => 'HTTP/1.1 102 Processing\r\n\r\n'),
  'resets at once': socket => void socket.resetAndDestroy(),
  'closes at once': socket => void socket.destroy(),
  'resets mid body': breaksOff(socket => void socket.resetAndDestroy()),
  'closes mid body': breaksOff(socket => void socket.end()),
  'hangs mid body': breaksOff(() => undefined),
  'is not HTTP': socket => void socket.write('220 mail.test ESMTP\r\n'),
  'has a head without end': socket => {
    socket.write('HTTP/1.1 200 X\r\n')
    pour(socket, Buffer.from(`x-long: ${'x'.repeat(4096)}\r\n`))
  },
  'says two lengths': sends(
    asked => `HTTP/1.1 200 X\r\ncontent-length: 2\r\ncontent-length: ${answerTo(asked).length}\r\n\r\n${answerTo(asked)}`,
  ),
  'says its length though it sends chunks': sends(
    asked => chunkedHead.replace('\r\n\r\n', '\r\ncontent-length: 5\r\n\r\n') + chunk(answerTo(asked)) + chunk(''),
  ),
  'breaks its chunks': sends(asked => `${chunkedHead}zz\r\n${answerTo(asked)}\r\n`),
  'switches protocols': sends(() => 'HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
  'says garbage': says(() => '\u0000\u0001{]'),
  'says what is no text': (socket, asked) => void socket.write(http(Buffer.from(envelope(asked.id, '"result":"\xff\xfe"'), 'latin1'))),
  'begins with a byte order mark': says(asked => `\ufeff${answerTo(asked)}`),
  'says truncated JSON': says(asked => answerTo(asked).slice(0, -3)),
  'says HTML': says(() => '<html><body>502 Bad Gateway</body></html>'),
  'says nothing': says(() => ''),
  'says null': says(() => 'null'),
  'says two answers': says(asked => answerTo(asked) + answerTo(asked)),
  'answers a batch': says(asked => `[${answerTo(asked)}]`),
  'answers with another id': says(asked => envelope(asked.id + 1, '"result":"0xbad"')),
  'answers with two ids': says(asked => `{"jsonrpc":"2.0","id":${asked.id + 1},"id":${asked.id},"result":"0xbad"}`),
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
    socket.write(chunkedHead)
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
  'limits us in JSON': says(asked =>
    envelope(asked.id, '"error":{"code":-32005,"message":"daily request count exceeded, request rate limited"}'),
  ),
  'refuses our key in JSON': says(asked => envelope(asked.id, '"error":{"code":-32600,"message":"Must be authenticated!"}')),
  'takes our request for none': says(asked => envelope(asked.id, '"error":{"code":-32700,"message":"parse error"}')),
  'lacks the method': says(asked =>
    envelope(asked.id, '"error":{"code":-32601,"message":"the method eth_call does not exist/is not available"}'),
  ),
  'times out in JSON': says(asked => envelope(asked.id, '"error":{"code":-32002,"message":"request timed out"}')),
  'limits us': status(429),
  'limits us until a date': socket =>
    void socket.write(http('', { status: 429, headers: { 'retry-after': new Date(Date.now() + 60_000).toUTCString() } })),
  'limits us for a second': status(429, { 'retry-after': '1' }),
  'says 500': status(500),
  'says 502': status(502),
  'says 503': status(503, { 'retry-after': '1' }),
  'says 524': status(524),
  'says 204': status(204),
  'says 401': status(401),
  'says 402': status(402),
  'says 403': status(403),
  'says 404': status(404),
  'says 413': status(413),
  redirects: status(307, { location: 'http://169.254.169.254/latest/meta-data' }),
  'redirects to a file': status(302, { location: 'file:///etc/passwd' }),
  'promises more than it sends': (socket, asked) =>
    void socket.write(http(answerTo(asked), { headers: { 'content-length': answerTo(asked).length + 10 } })),
  'sends more than it promised': (socket, asked) =>
    void socket.write(http(answerTo(asked), { headers: { 'content-length': answerTo(asked).length - 5 } })),
  'sends another answer behind': (socket, asked) =>
    void socket.write(Buffer.concat([http(answerTo(asked)), http(envelope(asked.id + 1, '"result":"0xbad"'))])),
} as const satisfies Readonly<Record<string, Fault>>

/** What a node says that has not all of the chain. */
export const lacking = {
  'lacks the block': says(asked => envelope(asked.id, '"error":{"code":-32000,"message":"header not found"}')),
  'lacks the state': says(asked => envelope(asked.id, `"error":{"code":-32000,"message":"missing trie node ${'ab'.repeat(32)} (path )"}`)),
} as const satisfies Readonly<Record<string, Fault>>

/** Well-formed answers, of another chain. */
export const isElsewhere: Fault = (socket, asked) =>
  isRight(socket, { ...asked, right: asked.method === 'eth_chainId' ? '"0x2"' : asked.right.replace(/"[^"]*"/, '"0xbad"') })

/** Of two questions each gets the answer to the other. */
export const swaps = (): Fault => {
  let first: { readonly socket: Socket; readonly asked: Asked } | undefined
  return (socket, asked) => {
    if (first === undefined || first.socket.destroyed) return void (first = { socket, asked })
    isRight(first.socket, asked)
    isRight(socket, first.asked)
    first = undefined
  }
}

/** It closes a kept connection just when the next request comes over it. */
export const closesKept: Fault = (socket, asked) => {
  if (asked.turn > 10) return void socket.resetAndDestroy()
  socket.write(http(answerTo(asked)))
}

/** A node may compress what it says. */
export const packs = (encoding: 'gzip' | 'deflate' | 'br'): Fault =>
  packed(encoding, asked => ({ gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync })[encoding](answerTo(asked)))

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
  'closes after each answer': (socket, asked) => void socket.end(http(answerTo(asked), { headers: { connection: 'close' } })),
  'answers in chunks': (socket, asked) => {
    const text = answerTo(asked)
    socket.write(
      Buffer.concat([Buffer.from(chunkedHead), chunk(text.slice(0, 9)), chunk(text.slice(9)), Buffer.from('0\r\nx-trailer: 1\r\n\r\n')]),
    )
  },
  'answers in HTTP/1.0, until it closes': (socket, asked) =>
    void socket.end(`HTTP/1.0 200 X\r\ncontent-type: text/plain\r\n\r\n${answerTo(asked)}`),
  'says first that it is working': (socket, asked) =>
    void socket.write(Buffer.concat([Buffer.from('HTTP/1.1 103 X\r\nlink: </>\r\n\r\n'), http(answerTo(asked))])),
  'writes in its own way': says(({ id, right }) => ` {\n "error" : null,\t"i\\u0064":${id} , "usage":{"id":[1]},"result" : ${right} } `),
  'puts HTTP 400 on a right answer': (socket, asked) => void socket.write(http(answerTo(asked), { status: 400 })),
} as const satisfies Readonly<Record<string, Fault>>
