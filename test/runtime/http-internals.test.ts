import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import { connect, createServer as createNetServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import t from '../support/tap.ts'
import { holdsCurrentResponse, sentBytesOf, trackResponses } from '../../src/runtime/http-internals.ts'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { openSingleWrite, writesOnce } from '../../src/runtime/http-internals.ts'

t.test('this version of Node shows how many bytes of a write the system has taken', async t => {
  const byteLength = 32 << 20
  const writeOn = (socket: Socket) => void socket.on('error', () => undefined).write(Buffer.alloc(byteLength))
  const pem = readFileSync(new URL('../../../test/support/certificates/valid.pem', import.meta.url))
  for (const [event, server, connectTo] of [
    ['connection', createNetServer(writeOn), (port: number) => connect(port, '127.0.0.1')],
    [
      'secureConnection',
      createTlsServer({ cert: pem, key: pem }, writeOn),
      (port: number) => connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }),
    ],
  ] as const) {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const reader = connectTo((server.address() as AddressInfo).port).pause()
    t.teardown(() => reader.destroy())
    const [socket] = (await once(server, event)) as [Socket]
    while (sentBytesOf(socket) < 10_000) await new Promise(setImmediate)
    const taken = sentBytesOf(socket)
    t.ok(taken < byteLength && socket.bytesWritten === byteLength, `${event}: ${taken}`)
    let receivedBytes = 0
    const onData = (chunk: Buffer) => {
      receivedBytes += chunk.length
      if (receivedBytes > byteLength / 2) reader.pause().off('data', onData)
    }
    reader.on('data', onData).resume()
    while (!reader.isPaused() || sentBytesOf(socket) <= taken) await new Promise(setImmediate)
    t.ok(sentBytesOf(socket) < byteLength, `${event}: ${sentBytesOf(socket)} of which ${receivedBytes} have been read`)
    reader.resume()
    while (sentBytesOf(socket) < byteLength) await new Promise(setImmediate)
  }
  t.equal(sentBytesOf({ bytesWritten: 9, writableLength: 4 } as Socket), 5, 'elsewhere whole writes are counted')
})

t.test('this version of Node holds the current response of a connection in `_httpMessage`', async t => {
  t.ok(holdsCurrentResponse())
})

for (const isSupported of [true, false]) {
  t.test(
    `the current response of a connection is the oldest that has not been sent${isSupported ? '' : ', by events alone too'}`,
    async t => {
      const received: { stream: Duplex; res: ServerResponse }[] = []
      const server = createServer((req, res) => void received.push({ stream: req.socket, res }))
      const currentResponse = trackResponses(server, isSupported)
      server.on('checkExpectation', (req, res) => server.emit('request', req, res)).listen(0, '127.0.0.1')
      await once(server, 'listening')
      t.teardown(() => server.close())
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      t.teardown(() => socket.destroy())
      socket.write('GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n')
      while (received.length < 2) await new Promise(setImmediate)
      const [first, second] = received
      t.equal(currentResponse(first!.stream), first!.res)
      const firstSent = once(first!.res, 'finish')
      first!.res.end()
      await firstSent
      t.equal(currentResponse(first!.stream), second!.res)
      const secondSent = once(second!.res, 'finish')
      second!.res.end()
      await secondSent
      t.equal(currentResponse(first!.stream), undefined)
    },
  )
}

const date = 'Thu, 15 Jan 2026 12:00:00 GMT'

/** A server that responds to each request with its path, after `node ` where Node writes the response itself. */
const serve = async (test: Test, seen: (res: ServerResponse) => void = () => undefined, sendSingleWrite = openSingleWrite(65_000)) => {
  const server = createServer((req, res) => {
    req.resume()
    const body = String(req.url)
    seen(res)
    if (!sendSingleWrite(res, { status: 200, headerLines: `Content-Length: ${body.length}\r\n`, date, body })) res.end(`node ${body}`)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.teardown(() => server.close())
  return connect((server.address() as AddressInfo).port, '127.0.0.1')
}

const expectedResponse = (path: string): string =>
  `HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\nDate: ${date}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=65\r\n\r\n${path}`

const requestText = (path: string, more = ''): string => `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n${more}\r\n`

t.test('a response is one text, after which the connection takes the next request', async t => {
  const ends: string[] = []
  const socket = await serve(t, res => res.on('finish', () => ends.push('finish')).on('close', () => ends.push('close')))
  for (const path of ['/one', '/two']) {
    socket.write(requestText(path))
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    t.equal(chunk.toString(), expectedResponse(path))
  }
  t.same(ends, ['finish', 'close', 'finish', 'close'])
  socket.destroy()
})

t.test('pipelined requests are answered in their order; Node writes the responses that wait for their turn', async t => {
  const socket = await serve(t)
  socket.end(requestText('/one') + requestText('/two') + requestText('/three'))
  const answers = await text(socket)
  t.ok(answers.startsWith(expectedResponse('/one')))
  t.same(answers.match(/(?<=\r\n\r\n)(node )?\/(two|three)/g), ['node /two', 'node /three'])
})

t.test('Node writes the response where the connection is to be closed, or is of HTTP/1.0', async t => {
  const closing = await serve(t)
  closing.write(requestText('/one', 'Connection: close\r\n'))
  t.match(await text(closing), /Connection: close\r\n(.*\r\n)*\r\nnode \/one$/)
  const old = await serve(t)
  old.write('POST /two HTTP/1.0\r\nContent-Length: 0\r\n\r\n')
  t.match(await text(old), /\r\n\r\nnode \/two$/)
})

t.test('this version of Node sends head and body as one text', t => {
  t.ok(writesOnce())
  t.end()
})

t.test('a Node that does not writes responses itself', async t => {
  const socket = await serve(t, undefined, openSingleWrite(65_000, false))
  socket.write(requestText('/one'))
  const [chunk] = (await once(socket, 'data')) as [Buffer]
  t.match(chunk.toString(), /^HTTP\/1.1 200 OK\r\n[^]*\r\n\r\nnode \/one$/)
  socket.destroy()
})
