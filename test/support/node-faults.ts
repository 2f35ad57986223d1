import type { Socket } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import {
  chunk,
  chunkedHead,
  compressionBombs,
  correctResponse,
  drip,
  dripIntervalMs,
  envelope,
  httpResponse,
  respondCorrectly,
  respondEncoded,
  respondWithBody,
  respondWithStatus,
  sendText,
  truncateBody,
  writeEndlessly,
} from './node-responses.ts'
import type { FaultRequest, NodeFault } from './node-responses.ts'

/** Faults of nodes and of the proxies in front of them. */
export const faults = {
  'never responds': () => undefined,
  'sends the response byte by byte': (socket, request) => {
    const bytes = httpResponse(correctResponse(request))
    let sentBytes = bytes.indexOf('\r\n\r\n') + 5
    socket.write(bytes.subarray(0, sentBytes))
    const timer = setInterval(() => void socket.write(bytes.subarray(sentBytes, (sentBytes += 1))), dripIntervalMs)
    socket.once('close', () => clearInterval(timer))
  },
  'sends white space without end': drip(chunkedHead, () => chunk(' ')),
  'sends a header byte by byte': drip('HTTP/1.1 200 X\r\nx-slow: ', () => 'x'),
  'repeats HTTP 102': drip('', () => 'HTTP/1.1 102 Processing\r\n\r\n'),
  'resets the connection': socket => void socket.resetAndDestroy(),
  'closes the connection': socket => void socket.destroy(),
  'resets the connection mid body': truncateBody(socket => void socket.resetAndDestroy()),
  'closes the connection mid body': truncateBody(socket => void socket.end()),
  'stalls mid body': truncateBody(() => undefined),
  'speaks SMTP': socket => void socket.write('220 mail.test ESMTP\r\n'),
  'sends endless headers': socket => {
    socket.write('HTTP/1.1 200 X\r\n')
    writeEndlessly(socket, Buffer.from(`x-long: ${'x'.repeat(4096)}\r\n`))
  },
  'sends two content-lengths': sendText(
    request =>
      `HTTP/1.1 200 X\r\ncontent-length: 2\r\ncontent-length: ${correctResponse(request).length}\r\n\r\n${correctResponse(request)}`,
  ),
  'sends a content-length with chunks': sendText(
    request => chunkedHead.replace('\r\n\r\n', '\r\ncontent-length: 5\r\n\r\n') + chunk(correctResponse(request)) + chunk(''),
  ),
  'sends a malformed chunk size': sendText(request => `${chunkedHead}zz\r\n${correctResponse(request)}\r\n`),
  'responds with HTTP 101': sendText(() => 'HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
  'responds with HTTP 101 without an upgrade': sendText(() => 'HTTP/1.1 101 X\r\ncontent-length: 2\r\n\r\n{}'),
  'responds with HTTP 000': sendText(
    request => `HTTP/1.1 000 X\r\ncontent-length: ${correctResponse(request).length}\r\n\r\n${correctResponse(request)}`,
  ),
  'responds with HTTP 099': sendText(() => 'HTTP/1.1 099 X\r\n\r\n'),
  'sends garbage': respondWithBody(() => '\u0000\u0001{]'),
  'sends invalid UTF-8': (socket, request) =>
    void socket.write(httpResponse(Buffer.from(envelope(request.id, '"result":"\xff\xfe"'), 'latin1'))),
  'sends a byte order mark': respondWithBody(request => `\ufeff${correctResponse(request)}`),
  'sends truncated JSON': respondWithBody(request => correctResponse(request).slice(0, -3)),
  'sends HTML': respondWithBody(() => '<html><body>502 Bad Gateway</body></html>'),
  'sends an empty body': respondWithBody(() => ''),
  'sends null': respondWithBody(() => 'null'),
  'sends two responses in one body': respondWithBody(request => correctResponse(request) + correctResponse(request)),
  'responds with a batch': respondWithBody(request => `[${correctResponse(request)}]`),
  'responds with another id': respondWithBody(request => envelope(request.id + 1, '"result":"0xbad"')),
  'responds with two ids': respondWithBody(request => `{"jsonrpc":"2.0","id":${request.id + 1},"id":${request.id},"result":"0xbad"}`),
  'responds without id': respondWithBody(() => '{"jsonrpc":"2.0","result":"0xbad"}'),
  'responds with a null id': respondWithBody(() => envelope(null, '"result":"0xbad"')),
  'responds with the id as a string': respondWithBody(request => envelope(String(request.id), '"result":"0xbad"')),
  'responds with result and error': respondWithBody(request =>
    envelope(request.id, '"result":"0xbad","error":{"code":-32000,"message":"x"}'),
  ),
  'responds with neither result nor error': respondWithBody(request => envelope(request.id, '"data":1')),
  'responds with two results': respondWithBody(request => envelope(request.id, '"result":"0xbad","result":"0xbad"')),
  'responds with a string as error': respondWithBody(request => envelope(request.id, '"error":"no"')),
  'responds with deep nesting': respondWithBody(request => envelope(request.id, `"result":${'['.repeat(5000)}${']'.repeat(5000)}`)),
  'responds with a truncated stream': respondWithBody(request => envelope(request.id, '"result":[],"_streamStatus":"truncated"')),
  'responds with an internal error': respondWithBody(request => envelope(request.id, '"error":{"code":-32603,"message":"internal error"}')),
  // A result of any length may be what was requested: these have none.
  'responds with endless chunks': (socket, { id }) => {
    socket.write(chunkedHead)
    socket.write(chunk(`{"jsonrpc":"2.0","id":${id},"padding":["0"`))
    writeEndlessly(socket, chunk(',"0"'.repeat(4096)))
  },
  'responds with 300 MiB': (socket, { id }) => {
    socket.write(httpResponse(`{"jsonrpc":"2.0","id":${id},"padding":["`, { headers: { 'content-length': 300 << 20 } }))
    writeEndlessly(socket, Buffer.alloc(65_536, 0x30))
  },
  'sends a gzip bomb': respondEncoded('gzip', compressionBombs.gzip),
  'sends a deflate bomb': respondEncoded('deflate', compressionBombs.deflate),
  'sends a brotli bomb': respondEncoded('br', compressionBombs.br),
  'compresses twice': respondEncoded('gzip, gzip', request => gzipSync(gzipSync(correctResponse(request)))),
  'uses an unknown content-encoding': respondEncoded('lzma', request => Buffer.from(correctResponse(request))),
  'sends truncated gzip': respondEncoded('gzip', request => gzipSync(correctResponse(request)).subarray(0, -9)),
  'declares gzip without compressing': respondEncoded('gzip', request => Buffer.from(correctResponse(request))),
  'responds with a rate limit in JSON': respondWithBody(request =>
    envelope(request.id, '"error":{"code":-32005,"message":"daily request count exceeded, request rate limited"}'),
  ),
  'rejects the credentials in JSON': respondWithBody(request =>
    envelope(request.id, '"error":{"code":-32600,"message":"Must be authenticated!"}'),
  ),
  'responds with a parse error': respondWithBody(request => envelope(request.id, '"error":{"code":-32700,"message":"parse error"}')),
  'responds with method not found': respondWithBody(request =>
    envelope(request.id, '"error":{"code":-32601,"message":"the method eth_call does not exist/is not available"}'),
  ),
  'responds with a timeout': respondWithBody(request => envelope(request.id, '"error":{"code":-32002,"message":"request timed out"}')),
  'responds with HTTP 429': respondWithStatus(429),
  'responds with HTTP 429 until a date': socket =>
    void socket.write(httpResponse('', { status: 429, headers: { 'retry-after': new Date(Date.now() + 60_000).toUTCString() } })),
  'responds with HTTP 429 for a second': respondWithStatus(429, { 'retry-after': '1' }),
  'responds with HTTP 500': respondWithStatus(500),
  'responds with HTTP 502': respondWithStatus(502),
  'responds with HTTP 503': respondWithStatus(503, { 'retry-after': '1' }),
  'responds with HTTP 524': respondWithStatus(524),
  'responds with HTTP 204': respondWithStatus(204),
  'responds with HTTP 401': respondWithStatus(401),
  'responds with HTTP 402': respondWithStatus(402),
  'responds with HTTP 403': respondWithStatus(403),
  'responds with HTTP 404': respondWithStatus(404),
  'responds with HTTP 413': respondWithStatus(413),
  'redirects to a metadata service': respondWithStatus(307, { location: 'http://169.254.169.254/latest/meta-data' }),
  'redirects to a file': respondWithStatus(302, { location: 'file:///etc/passwd' }),
  'sends less than its content-length': (socket, request) =>
    void socket.write(httpResponse(correctResponse(request), { headers: { 'content-length': correctResponse(request).length + 10 } })),
  'sends more than its content-length': (socket, request) =>
    void socket.write(httpResponse(correctResponse(request), { headers: { 'content-length': correctResponse(request).length - 5 } })),
  'sends a second response': (socket, request) =>
    void socket.write(Buffer.concat([httpResponse(correctResponse(request)), httpResponse(envelope(request.id + 1, '"result":"0xbad"'))])),
} as const satisfies Readonly<Record<string, NodeFault>>

/** Errors of a node that lacks a part of the chain. */
export const missingHistoryFaults = {
  'responds with header not found': respondWithBody(request =>
    envelope(request.id, '"error":{"code":-32000,"message":"header not found"}'),
  ),
  'responds with missing trie node': respondWithBody(request =>
    envelope(request.id, `"error":{"code":-32000,"message":"missing trie node ${'ab'.repeat(32)} (path )"}`),
  ),
} as const satisfies Readonly<Record<string, NodeFault>>

/** Well-formed responses of another chain. */
export const respondFromOtherChain: NodeFault = (socket, request) =>
  respondCorrectly(socket, {
    ...request,
    expectedResult: request.method === 'eth_chainId' ? '"0x2"' : request.expectedResult.replace(/"[^"]*"/, '"0xbad"'),
  })

/** Each of two requests gets the response to the other. */
export const swapResponses = (): NodeFault => {
  let first: { readonly socket: Socket; readonly request: FaultRequest } | undefined
  return (socket, request) => {
    if (first === undefined || first.socket.destroyed) return void (first = { socket, request })
    respondCorrectly(first.socket, request)
    respondCorrectly(socket, first.request)
    first = undefined
  }
}

const maxRequestsPerConnection = 10

/** Closes a keep-alive connection just when the next request arrives on it. */
export const closeIdleConnection: NodeFault = (socket, request) => {
  if (request.connectionRequestCount > maxRequestsPerConnection) return void socket.resetAndDestroy()
  socket.write(httpResponse(correctResponse(request)))
}

/** A node may compress its responses. */
export const compressResponse = (encoding: 'gzip' | 'deflate' | 'br'): NodeFault =>
  respondEncoded(encoding, request =>
    ({ gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync })[encoding](correctResponse(request)),
  )

const packetBytes = 50
const lateResponseMs = 100

/** Unusual but correct behavior: callers must not notice it. */
export const toleratedBehaviors = {
  'closes idle connections': closeIdleConnection,
  'compresses unrequested': compressResponse('gzip'),
  'responds in small packets': (socket, request) => {
    const bytes = httpResponse(correctResponse(request))
    const sendFrom = (offset: number): void => {
      const end = offset + packetBytes
      if (offset < bytes.length) socket.write(bytes.subarray(offset, end), () => setImmediate(sendFrom, end))
    }
    sendFrom(0)
  },
  'responds late': (socket, request) => void setTimeout(respondCorrectly, lateResponseMs, socket, request),
  'closes the connection after each response': (socket, request) =>
    void socket.end(httpResponse(correctResponse(request), { headers: { connection: 'close' } })),
  'responds in chunks': (socket, request) => {
    const text = correctResponse(request)
    socket.write(
      Buffer.concat([Buffer.from(chunkedHead), chunk(text.slice(0, 9)), chunk(text.slice(9)), Buffer.from('0\r\nx-trailer: 1\r\n\r\n')]),
    )
  },
  'responds in HTTP/1.0': (socket, request) =>
    void socket.end(`HTTP/1.0 200 X\r\ncontent-type: text/plain\r\n\r\n${correctResponse(request)}`),
  'sends HTTP 103 first': (socket, request) =>
    void socket.write(Buffer.concat([Buffer.from('HTTP/1.1 103 X\r\nlink: </>\r\n\r\n'), httpResponse(correctResponse(request))])),
  'formats the response unusually': respondWithBody(
    ({ id, expectedResult }) => ` {\n "error" : null,\t"i\\u0064":${id} , "usage":{"id":[1]},"result" : ${expectedResult} } `,
  ),
  'responds correctly with HTTP 400': (socket, request) => void socket.write(httpResponse(correctResponse(request), { status: 400 })),
} as const satisfies Readonly<Record<string, NodeFault>>
