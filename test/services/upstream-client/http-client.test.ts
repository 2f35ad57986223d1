import { deepStrictEqual } from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { Secret } from '../../../src/plugin/secret.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { parseEndpoint } from '../../../src/services/upstream-client/endpoint.ts'
import { openHttpClient } from '../../../src/services/upstream-client/http-client.ts'
import type { InFlightRequest, ResponseHeaders } from '../../../src/services/upstream-client/upstream-transport.ts'
import { HeadParser, ResponseReader } from '../../../src/services/upstream-client/http1/response-reader.ts'
import { TestClock } from '../../support/fakes.ts'
import { malformedResponses } from '../../support/malformed-responses.ts'

/** What came of one request. */
interface Outcome {
  status?: number
  headers?: object
  body: string
  isComplete: boolean
  error?: string
}

const errorCodeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : String(error))

/** One for all, as the responses of a connection have: what it says of a head is nothing of the head before. */
const commonHeadParser = new HeadParser()

/** Reads a response that comes in these pieces; `ends`: the connection ends behind it. */
const readPieces = (
  pieces: readonly string[],
  ends = true,
  headParser = commonHeadParser,
): Outcome & { rest: string; isReusable: boolean; keepAliveMs: number | undefined } => {
  const outcome: Outcome = { body: '', isComplete: false }
  const events = {
    onHeaders: (status: number, headers: ResponseHeaders) => Object.assign(outcome, { status, headers: { ...headers } }),
    onData(bytes: Buffer) {
      outcome.body += bytes.toString('latin1')
    },
  }
  const reader = new ResponseReader(events, headParser)
  let rest = ''
  try {
    for (const piece of pieces) {
      const bytes = Buffer.from(piece, 'latin1')
      let offset = 0
      while (!reader.isComplete && offset < bytes.length) offset = reader.read(bytes, offset)
      rest += bytes.toString('latin1', offset)
      bytes.fill(0) // as the next read does
    }
    if (ends) reader.end()
  } catch (error) {
    outcome.error = errorCodeOf(error)
  }
  return { ...outcome, isComplete: reader.isComplete, rest, isReusable: reader.isReusable, keepAliveMs: reader.keepAliveMs }
}

const split = (text: string, cuts: readonly number[]): readonly string[] => {
  const offsets = [0, ...cuts.map(cut => cut % (text.length + 1)).sort((one, other) => one - other), text.length]
  return offsets.slice(1).map((end, i) => text.slice(offsets[i], end))
}

const chunked = (chunks: readonly string[], extension: string, trailers: string): string =>
  `${chunks.map(chunk => `${chunk.length.toString(16)}${extension}\r\n${chunk}\r\n`).join('')}0${extension}\r\n${trailers}\r\n`

/** A response and what it says. */
const responses = fc
  .record({
    informational: fc.constantFrom('', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Hints\r\nlink: a\r\n\r\n'.repeat(2)),
    status: fc.constantFrom('200 OK', '200', '429 ', '503 \xe9'),
    name: fc.constantFrom('Retry-After', 'retry-after'),
    value: fc.constantFrom('', ' b ', '\tb\xff'),
    chunks: fc.array(fc.string({ unit: fc.constantFrom('{', '\r', '\n', '0', '\xff', 'HTTP/1.1 '), minLength: 1, maxLength: 40 }), {
      maxLength: 6,
    }),
    framing: fc.constantFrom('length', 'chunks', 'connection'),
    extension: fc.constantFrom('', ';a=b', ' ; a="b"'),
    trailers: fc.constantFrom('', 'x-b: c\r\n', 'a: b\r\nb: c\r\n'),
  })
  .map(({ informational, status, name, value, chunks, framing, extension, trailers }) => {
    const body = chunks.join('')
    const framingHeader = { length: `content-length: ${body.length}\r\n`, chunks: 'Transfer-Encoding: chunked\r\n', connection: '' }[
      framing
    ]
    const head = `HTTP/1.1 ${status}\r\n${name}:${value}\r\n${framingHeader}\r\n`
    return {
      text: informational + head + (framing === 'chunks' ? chunked(chunks, extension, trailers) : body),
      expected: { status: Number(status.slice(0, 3)), body, isComplete: true, value: value.trim() },
      framing,
    }
  })

t.test('a response means the same, however its bytes are split', async t => {
  const property = fc.property(responses, fc.array(fc.nat(), { maxLength: 12 }), ({ text, expected, framing }, cuts) => {
    const surplus = framing === 'connection' ? '' : 'surplus'
    for (const pieces of [[text + surplus], split(text + surplus, cuts), [...(text + surplus)]]) {
      const { status, headers = {}, body, isComplete, rest, isReusable } = readPieces(pieces)
      deepStrictEqual({ status, body, isComplete, value: Reflect.get(headers, 'retry-after') }, expected)
      deepStrictEqual([rest, isReusable], [surplus, framing !== 'connection'])
    }
  })
  fc.assert(property, { numRuns: 300 })
  t.pass()
})

/** Responses whose heads are often the same, or differ in a byte; some are invalid. */
const similarResponses = fc.array(
  fc
    .record({
      informational: fc.constantFrom('', '', 'HTTP/1.1 100 Continue\r\n\r\n'),
      status: fc.constantFrom('HTTP/1.1 200 OK', 'HTTP/1.0 200 OK', 'HTTP/1.1 204 OK', 'HTTP/1.1 20 OK'),
      header: fc.constantFrom('keep-alive: timeout=5', 'keep-alive: timeout=6', 'connection: close', 'retry-after: 1', 'retry-after : 1'),
      framing: fc.constantFrom('content-length: 1', 'content-length: 2', 'content-length: x', 'transfer-encoding: chunked', 'x: y'),
      body: fc.constantFrom('1\r\na\r\n0\r\n\r\n', 'ab'),
    })
    .map(({ informational, status, header, framing, body }) => `${informational}${status}\r\n${header}\r\n${framing}\r\n\r\n${body}`),
  { minLength: 1, maxLength: 30 },
)

t.test('a response means the same, whatever came before it on the connection', async t => {
  const property = fc.property(similarResponses, fc.array(fc.nat(), { maxLength: 4 }), (texts, cuts) => {
    const headParser = new HeadParser()
    for (const text of texts) {
      const pieces = split(text, cuts)
      const read = readPieces(pieces, true, headParser)
      deepStrictEqual(read, readPieces(pieces, true, new HeadParser()))
      deepStrictEqual(readPieces([text], true, headParser), read)
    }
  })
  fc.assert(property, { numRuns: 300 })
  t.pass()
})

t.test('a response that ends early is incomplete', async t => {
  const property = fc.property(responses, fc.nat(), ({ text, expected, framing }, cut) => {
    const length = cut % text.length
    if (framing === 'connection' && length >= text.length - expected.body.length) return
    deepStrictEqual(readPieces([text.slice(0, length)]).isComplete, false)
  })
  fc.assert(property, { numRuns: 300 })
  t.pass()
})

t.test('what could be read in two ways is invalid, with a code that says why', async t => {
  const ok = 'HTTP/1.1 200 OK\r\n'
  const chunks = `${ok}transfer-encoding: chunked\r\n\r\n`
  for (const [text, code] of [
    ['220 smtp ready\r\n', 'HTTP_STATUS_LINE'],
    ['HTTP/1.1 099 X\r\n\r\n', 'HTTP_STATUS_LINE'],
    ['HTTP/1.1 200 OK\n\n\r\n\r\n', 'HTTP_STATUS_LINE'],
    [`${ok}a : b\r\n\r\n`, 'HTTP_HEADER'],
    [`${ok}a: b\nc: d\r\n\r\n`, 'HTTP_HEADER'],
    [`${ok}content-length: 1\r\ncontent-length: 1\r\n\r\n`, 'HTTP_CONTENT_LENGTH'],
    [`${ok}content-length: +1\r\n\r\n`, 'HTTP_CONTENT_LENGTH'],
    [`${ok}content-length: \xa01\r\n\r\n`, 'HTTP_CONTENT_LENGTH'],
    [`${ok}transfer-encoding: gzip, chunked\r\n\r\n`, 'HTTP_TRANSFER_ENCODING'],
    [`${ok}transfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n`, 'HTTP_TRANSFER_ENCODING'],
    [`${chunks}\r\n`, 'HTTP_CHUNK_SIZE'],
    [`${chunks}0x1\r\n`, 'HTTP_CHUNK_SIZE'],
    [`${chunks}10000000000000\r\n`, 'HTTP_CHUNK_SIZE'],
    [`${chunks}1\n`, 'HTTP_CHUNK_SIZE'],
    [`${chunks}1\r\naa`, 'HTTP_CHUNK'],
    [`${chunks}1;\n`, 'HTTP_CHUNK'],
    [`${chunks}1;\0`, 'HTTP_CHUNK'],
    [`${chunks}0\r\na: \x7f`, 'HTTP_CHUNK'],
    [`${chunks}1;${'a'.repeat(20_000)}`, 'HTTP_CHUNK'],
    [`${chunks}0\r\n${'a: b\r\n'.repeat(5_000)}`, 'HTTP_CHUNK'],
    ['HTTP/1.1 101 X\r\n\r\n', 'HTTP_INFORMATIONAL'],
    ['HTTP/1.1 102 X\r\n\r\n'.repeat(9), 'HTTP_INFORMATIONAL'],
    [`${ok}${'a: b\r\n'.repeat(3_000)}`, 'HTTP_HEAD_TOO_LONG'],
    [`${ok}${'a: b\r\n'.repeat(3_000)}\r\n`, 'HTTP_HEAD_TOO_LONG'],
  ] as const) {
    t.equal(readPieces([text]).error, code, JSON.stringify(text.slice(0, 70)))
    t.equal(readPieces([...text]).error, code)
  }
})

t.test('the spaces within a header take time in proportion to their number', async t => {
  const head = `HTTP/1.1 200 OK\r\nretry-after: a${' '.repeat(16_000)}b \r\ncontent-length: 0\r\n\r\n`
  const before = process.cpuUsage()
  for (let i = 0; i < 40; i++) t.match(readPieces([head]), { isComplete: true, headers: { 'retry-after': /^a +b$/ } })
  t.ok(process.cpuUsage(before).user < 1_000_000, '40 heads take 10 ms; with a pattern that tried each space, 5 s')
})

t.test('a connection is used again only where HTTP allows it', async t => {
  const isReusable = (headers: string, version = '1.1') =>
    readPieces([`HTTP/${version} 200 OK\r\ncontent-length: 0\r\n${headers}\r\n`]).isReusable
  t.equal(isReusable(''), true)
  t.equal(isReusable('connection: Close\r\n'), false)
  t.equal(isReusable('connection: x, close\r\n'), false)
  t.equal(isReusable('', '1.0'), false)
  t.equal(isReusable('connection: keep-alive\r\n', '1.0'), true)
  t.match(readPieces(['HTTP/1.1 204 X\r\n\r\n'], false), { isComplete: true, isReusable: true })
})

type Serve = (socket: Socket, requestCount: number, request: string) => void

/** A node that answers each request with what `serve` writes. Connections are counted. */
const startNode = async (t: Test, serve: Serve, isTls = false) => {
  const sockets: Socket[] = []
  let requestCount = 0
  const accept = (socket: Socket): void => {
    sockets.push(socket.on('error', () => undefined))
    let request = ''
    socket.on('data', data => {
      request += data.toString('latin1')
      const [, length] = /content-length: (\d+)/.exec(request) ?? []
      if (length === undefined || request.length < request.indexOf('\r\n\r\n') + 4 + Number(length)) return
      serve(socket, ++requestCount, request)
      request = ''
    })
  }
  const pem = isTls ? readFileSync(new URL('../../../../test/support/certificates/self-signed.pem', import.meta.url)) : ''
  const server = isTls ? createTlsServer({ key: pem, cert: pem }, accept) : createServer(accept)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, sockets }
}

const openClient = (t: Test, clock = systemClock, maxSockets = 100) => {
  const client = openHttpClient(clock, maxSockets)
  t.teardown(() => client.close())
  return client
}

const post = (
  client: ReturnType<typeof openHttpClient>,
  url: string,
  {
    body = '{}',
    onHeaders = () => undefined,
    idempotent = true,
  }: { body?: string; idempotent?: boolean; onHeaders?: (inFlight: InFlightRequest) => void } = {},
): Promise<Outcome> =>
  new Promise(resolve => {
    const outcome: Outcome = { body: '', isComplete: false }
    const endpoint = parseEndpoint(new Secret(url))
    const inFlight = client.transportTo(endpoint).send(
      { id: 1, endpoint, body, idempotent },
      {
        onStart: () => undefined,
        onHeaders(status) {
          outcome.status = status
          onHeaders(inFlight)
        },
        onData(bytes) {
          outcome.body += bytes.toString('latin1')
        },
        onEnd: () => resolve({ ...outcome, isComplete: true }),
        onError: error => resolve({ ...outcome, error: errorCodeOf(error) }),
      },
    )
  })

const okResponse = (body = 'ok', headers = '') => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n${headers}\r\n${body}`
const nextTurn = () => new Promise(resolve => setImmediate(resolve))
const waitUntil = async (isTrue: () => boolean): Promise<void> => {
  while (!isTrue()) await nextTurn()
}

t.test('responses of every form come through, and the connection is used again where it may be', async t => {
  const forms: readonly [response: string, body: string, isReused: boolean, ends?: true][] = [
    [okResponse(), 'ok', true],
    [`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunked(['o', 'k'], '', '')}`, 'ok', true],
    [`HTTP/1.1 103 Early Hints\r\n\r\n${okResponse()}`, 'ok', true],
    ['HTTP/1.1 204 No Content\r\n\r\n', '', true],
    [okResponse('ok', 'connection: close\r\n'), 'ok', false],
    ['HTTP/1.1 200 OK\r\n\r\nok', 'ok', false, true],
    ['HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok', 'ok', false],
  ]
  for (const [response, body, isReused, ends] of forms) {
    const { port, sockets } = await startNode(t, (socket, count) => {
      if (count === 1 && ends) socket.end(response, 'latin1')
      else socket.write(count === 1 ? response : okResponse(), 'latin1')
    })
    const client = openClient(t)
    t.match(await post(client, `http://127.0.0.1:${port}`), { body, isComplete: true }, JSON.stringify(response))
    await nextTurn()
    t.match(await post(client, `http://127.0.0.1:${port}`), { body: 'ok', isComplete: true })
    t.equal(sockets.length, isReused ? 1 : 2)
  }
})

t.test('a request reaches the node as it was written, whatever its characters and its length', async t => {
  const requests: string[] = []
  const { port } = await startNode(t, (socket, _count, request) => {
    requests.push(request)
    socket.write(okResponse())
  })
  const client = openClient(t)
  for (const body of ['{}', '{"a":"\u00e9"}', '{"a":"\u{1f600}"}', JSON.stringify('x'.repeat(300_000))]) {
    t.match(await post(client, `http://127.0.0.1:${port}/path?key=1`, { body }), { body: 'ok' })
    const [head = '', sent] = requests.at(-1)?.split('\r\n\r\n') ?? []
    t.equal(Buffer.from(sent ?? '', 'latin1').toString(), body)
    t.match(head, /^POST \/path\?key=1 HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\n/)
    t.equal(head.match(/content-length/gi)?.length, 1)
  }
})

t.test('while a handler has paused, no bytes come; then all come in order', async t => {
  const body = Array.from({ length: 30_000 }, (_, i) => `${i},`).join('')
  const { port } = await startNode(t, (socket, count) => {
    if (count === 2) socket.end(`HTTP/1.1 200 OK\r\n\r\n${body}`)
    else socket.write(okResponse(body))
  })
  const client = openClient(t)
  for (let i = 0; i < 3; i++) {
    let isPaused = false
    const resumeLater = async (inFlight: InFlightRequest) => {
      for (let turns = 0; turns < 20; turns++) await nextTurn()
      isPaused = false
      inFlight.resume()
    }
    const onHeaders = (inFlight: InFlightRequest) => {
      isPaused = true
      inFlight.pause()
      void resumeLater(inFlight)
    }
    t.strictSame(await post(client, `http://127.0.0.1:${port}`, { onHeaders }), { status: 200, body, isComplete: true })
    t.notOk(isPaused)
  }
})

t.test('no more sockets are open than allowed, and each that closes makes room', async t => {
  const { port, sockets } = await startNode(t, socket => void (socket !== sockets[0] && socket.write(okResponse())))
  const client = openClient(t, systemClock, 1)
  const first = post(client, `http://127.0.0.1:${port}`, { idempotent: false })
  await waitUntil(() => sockets.length === 1)
  t.match(await post(client, `http://127.0.0.1:${port}`), { error: 'EMFILE' })
  sockets[0]?.destroy()
  t.match(await first, { isComplete: false })
  let outcome: Outcome
  do {
    await nextTurn()
    outcome = await post(client, `http://127.0.0.1:${port}`)
  } while (outcome.error === 'EMFILE')
  t.match(outcome, { body: 'ok' })
})

t.test('a request takes the place of one that was aborted just before, while its socket still closes', async t => {
  const { port, sockets } = await startNode(t, socket => void (socket !== sockets[0] && socket.write(okResponse())))
  const client = openClient(t, systemClock, 1)
  const url = `http://127.0.0.1:${port}`
  const endpoint = parseEndpoint(new Secret(url))
  const ignored = { onStart() {}, onHeaders() {}, onData() {}, onEnd() {}, onError() {} }
  const aborted = client.transportTo(endpoint).send({ id: 1, endpoint, body: '{}', idempotent: true }, ignored)
  await waitUntil(() => sockets.length === 1)
  aborted.abort()
  t.match(await post(client, url), { body: 'ok', isComplete: true })
})

t.test('the idle connection that was unused for longest is closed where no socket is left, and where too many are idle', async t => {
  for (const [maxSockets, maxIdleSockets] of [
    [2, 10],
    [10, 2],
  ] as const) {
    const isClosed = [false, false, false]
    const nodes: Awaited<ReturnType<typeof startNode>>[] = []
    for (const i of isClosed.keys()) {
      nodes.push(await startNode(t, socket => void socket.once('close', () => (isClosed[i] = true)).write(okResponse())))
    }
    const client = openHttpClient(systemClock, maxSockets, maxIdleSockets)
    t.teardown(() => client.close())
    for (const i of [0, 1, 0, 2]) t.match(await post(client, `http://127.0.0.1:${nodes[i]?.port}`), { body: 'ok' })
    await waitUntil(() => isClosed[1] === true)
    t.same(isClosed, [false, true, false])
    t.same(
      nodes.map(({ sockets }) => sockets.length),
      [1, 1, 1],
    )
    const { disconnects } = client.transportTo(parseEndpoint(new Secret(`http://127.0.0.1:${nodes[1]?.port}`)))
    t.equal(disconnects, 0, 'the node has not ended it')
  }
})

t.test('a certificate that is not trusted is an error, and nothing is sent', async t => {
  const { port, sockets } = await startNode(t, socket => void socket.write(okResponse()), true)
  t.match(await post(openClient(t), `https://127.0.0.1:${port}`), { error: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  t.equal(sockets.filter(socket => socket.bytesRead > 0).length, 0)
})

t.test('a request waits for no acknowledgment of what was sent before it, with TLS either', async t => {
  for (const scheme of ['http', 'https']) {
    const { port } = await startNode(t, socket => void socket.write(okResponse()), scheme === 'https')
    const noDelay = t.capture(Socket.prototype, 'setNoDelay', Socket.prototype.setNoDelay)
    const keepAlive = t.capture(Socket.prototype, 'setKeepAlive', Socket.prototype.setKeepAlive)
    await post(openClient(t), `${scheme}://127.0.0.1:${port}`)
    t.match([noDelay(), keepAlive()], [[{ args: [true] }], [{ args: [true, 60_000] }]], scheme)
    noDelay.restore()
    keepAlive.restore()
  }
})

t.test('a response that comes before the request has been sent is read, and the connection is not used again', async t => {
  const sockets: Socket[] = []
  const server = createServer(socket => {
    sockets.push(socket.on('error', () => undefined))
    socket.once('data', () => socket.pause().write(okResponse('no')))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const client = openClient(t)
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  t.match(await post(client, url, { body: 'x'.repeat(20_000_000) }), { body: 'no' })
  t.match(await post(client, url), { body: 'no' })
  t.equal(sockets.length, 2)
})

t.test('no malformed response passes for one', async t => {
  let response = ''
  const { port } = await startNode(t, socket => void socket.end(response, 'latin1'))
  const client = openClient(t)
  for (response of Object.values(malformedResponses)) {
    const { status, error } = await post(client, `http://127.0.0.1:${port}`)
    t.ok(error !== undefined || status !== 200 || /keep-alive|content-encoding/.test(response), JSON.stringify(response.slice(0, 80)))
  }
})

t.test('an idle connection is closed 2 s before the node would, and after 4 s where the node does not say', async t => {
  for (const [headers, lifetimeMs] of [
    ['', 4_000],
    ['keep-alive: timeout=10\r\n', 8_000],
    ['keep-alive: timeout=2\r\n', 0],
  ] as const) {
    const clock = new TestClock()
    const { port, sockets } = await startNode(t, socket => void socket.write(okResponse('ok', headers)))
    const client = openClient(t, clock)
    await post(client, `http://127.0.0.1:${port}`)
    if (lifetimeMs > 0) {
      await clock.advance(lifetimeMs - 1)
      await post(client, `http://127.0.0.1:${port}`)
      t.equal(sockets.length, 1, 'used again')
      await clock.advance(lifetimeMs + 1_000)
    }
    await waitUntil(() => sockets[0]?.closed === true)
    t.equal(client.transportTo(parseEndpoint(new Secret(`http://127.0.0.1:${port}`))).disconnects, 0, 'not counted as closed by the node')
  }
})

t.test('bytes that nobody has asked for close the connection', async t => {
  const { port, sockets } = await startNode(t, socket => void socket.write(okResponse()))
  const client = openClient(t)
  await post(client, `http://127.0.0.1:${port}`)
  sockets[0]?.write(okResponse('bad'))
  await waitUntil(() => sockets[0]?.closed === true)
  t.match(await post(client, `http://127.0.0.1:${port}`), { body: 'ok' })
})

t.test('a connection with bytes behind a response is not used again: they must not become the next response', async t => {
  const surplus = okResponse('bad')
  for (const byteLength of [1, surplus.length - 1, surplus.length]) {
    const { port, sockets } = await startNode(t, socket => void socket.write(okResponse() + surplus.slice(0, byteLength)))
    const client = openClient(t)
    for (const requestCount of [1, 2, 3]) {
      t.match(await post(client, `http://127.0.0.1:${port}`), { body: 'ok', isComplete: true })
      t.equal(sockets.length, requestCount, 'each request has a connection of its own')
    }
    await waitUntil(() => sockets.every(socket => socket.closed))
  }
})
