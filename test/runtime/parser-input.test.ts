import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { ParserInput, canPauseParser } from '../../src/runtime/parser-input.ts'
import type { ParserError } from '../../src/runtime/parser-input.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test(
  'with this version of Node the rest of a body can be dropped, and requests behind it; the next connection gets its body',
  async t => {
    const chunkCounts: number[] = []
    const server = createServer((req, res) => {
      const i = chunkCounts.push(0) - 1
      req.on('data', () => {
        chunkCounts[i]! += 1
        if (chunkCounts[i] === 100) new ParserInput(req.socket).drop()
      })
      req.on('end', () => res.writeHead(200, { connection: 'close' }).end())
      req.on('error', () => undefined)
      if (i === 0) setTimeout(() => req.socket.destroy(), 50)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const send = async (chunkCount: number, behind: string): Promise<void> => {
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined)
      socket.write(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(chunkCount)}0\r\n\r\n${behind}`)
      socket.resume()
      await once(socket, 'close')
    }
    await send(5_000, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await send(50, '')
    t.same(chunkCounts, [100, 50])
    new ParserInput(connect({ port: 1, host: '127.0.0.1' }).on('error', () => undefined)).drop() // no connection of an HTTP server
  },
)

t.test('the parser of this version of Node can be paused', async t => {
  t.ok(canPauseParser())
})

/** One connection, the input of which is made with its first request. */
const openConnection = async (
  test: Test,
  scheme: 'http' | 'https',
  serve: (input: ParserInput, req: IncomingMessage, res: ServerResponse) => void,
) => {
  const pem = readFileSync(new URL('../../../test/support/certificates/valid.pem', import.meta.url))
  const upgrades: string[] = []
  const errors: string[] = []
  let input: ParserInput | undefined
  const listener: (req: IncomingMessage, res: ServerResponse) => void = (req, res) => {
    input ??= new ParserInput(req.socket)
    serve(input, req, res)
  }
  const server: Server = scheme === 'http' ? createServer(listener) : createTlsServer({ cert: pem, key: pem }, listener)
  server.on('clientError', (error: ParserError) => void (input?.holdRest(error) === true || errors.push(error.message)))
  server.on('upgrade', ({ url }: IncomingMessage, stream: Duplex, head: Buffer) => {
    input?.restore()
    upgrades.push(`${url} ${head}`)
    stream.destroy()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const caller: Socket = scheme === 'http' ? connect(port, '127.0.0.1') : connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
  test.teardown(() => caller.destroy())
  return { caller, upgrades, errors }
}

/** Requests of a connection begin one at a time: each is answered with its body when respond() is called. `onBegin` may drop the input. */
const openPaused = async (
  test: Test,
  scheme: 'http' | 'https',
  onBegin = (_input: ParserInput, _req: IncomingMessage): void => undefined,
) => {
  const begun: string[] = []
  let isPaused = false
  let respond = (): void => undefined
  const connection = await openConnection(test, scheme, (input, req, res) => {
    if (begun.push(req.url ?? '') === 1) input.pauseWhile(() => isPaused)
    isPaused = true
    req.socket.pause()
    onBegin(input, req)
    respond = () => {
      isPaused = false
      void text(req).then(body => res.end(`${req.url} ${body};`))
      req.socket.resume()
    }
  })
  return { ...connection, begun, respond: () => respond() }
}

const requestText = (path: string, body: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`

for (const scheme of ['http', 'https'] as const) {
  t.test(`${scheme}: requests that have been read begin when it is their turn, whole and in order; nothing is lost`, async t => {
    const { caller, begun, errors, respond } = await openPaused(t, scheme)
    let received = ''
    caller.on('data', chunk => (received += String(chunk)))
    const bodies = Array.from({ length: 300 }, (_, i) => (i % 7 === 0 ? '' : 'b'.repeat(i % 5 === 0 ? 9_000 : i)))
    for (const [i, body] of bodies.entries()) caller.write(requestText(`/${i}`, body))
    for (const [i, body] of bodies.entries()) {
      await waitUntil(() => begun.length > i)
      if (begun.length > i + 1) t.fail(`${begun.length} have begun at the turn of ${i}`)
      respond()
      await waitUntil(() => received.endsWith(`/${i} ${body};`))
    }
    t.same([begun, errors], [bodies.map((_, i) => `/${i}`), []])
  })
}

t.test('an upgrade behind requests that wait is one', async t => {
  const { caller, begun, upgrades, errors, respond } = await openPaused(t, 'http')
  caller.write(
    `${requestText('/1', 'a')}${requestText('/2', 'b')}GET /3 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhead`,
  )
  await waitUntil(() => begun.length === 1)
  respond()
  await waitUntil(() => upgrades.length === 1)
  t.same([begun, upgrades, errors], [['/1', '/2'], ['/3 head'], []])
})

t.test('other errors of the parser are not taken for held requests', async t => {
  const { caller, begun, errors, respond } = await openPaused(t, 'http')
  caller.write(`${requestText('/1', 'a')}${requestText('/2', '')}malformed`)
  await waitUntil(() => begun.length === 1)
  t.same(errors, [], 'what is behind has not been parsed')
  respond()
  await waitUntil(() => errors.length > 0)
  t.match(errors, [/^Parse Error: /])
})

t.test('https: what is read while Node itself pauses the parser, as it holds many responses, waits too', async t => {
  const responses: ServerResponse[] = []
  const { caller, errors } = await openConnection(t, 'https', (_input, _req, res) => {
    if (responses.push(res) > 1) res.end(';'.padEnd(20_000))
  })
  let received = ''
  caller.on('data', chunk => (received += String(chunk)))
  const count = 60
  // TLS passes on 16 KiB at a time of what it has read.
  caller.write(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(1_000)}\r\n\r\n`.repeat(count))
  await waitUntil(() => responses.length > 1)
  t.ok(responses.length < count / 2, `${responses.length} requests have begun`)
  responses[0]?.end(';')
  await waitUntil(() => errors.length > 0 || received.split(';').length > count)
  t.same(errors, [])
})

t.test('a request that drops the input when its turn comes ends all the same', async t => {
  const { caller, begun, errors, respond } = await openPaused(t, 'http', (input, { url }) => {
    if (url === '/2') input.drop()
  })
  let received = ''
  caller.on('data', chunk => (received += String(chunk)))
  caller.write(`${requestText('/1', 'a')}${requestText('/2', 'b')}${requestText('/3', 'c')}`)
  await waitUntil(() => begun.length === 1)
  respond()
  await waitUntil(() => begun.length === 2)
  respond()
  await waitUntil(() => received.includes('/2 ;'))
  t.same([begun, errors], [['/1', '/2'], []])
})
