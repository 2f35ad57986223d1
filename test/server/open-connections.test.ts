import { once } from 'node:events'
import { connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { callerConnectionOf } from '../../src/server/caller-connection.ts'
import { createConnectionAddressReader } from '../../src/server/client-address.ts'
import { createHttpServer } from '../../src/server/http-server.ts'
import { OpenConnections, openConnectionOf } from '../../src/server/open-connections.ts'
import { waitUntil } from '../support/wait-until.ts'

const trustedProxy = '127.0.0.100'

/** A server of `maxConnections`, on which the path of a request names the account; a request to /wait is answered by `answer`. */
const startServer = async (t: Test, maxConnections: number) => {
  const waiting: (() => void)[] = []
  const server = createHttpServer((req, res) => {
    const [, account = '', more] = req.url?.split('/') ?? []
    const connection = callerConnectionOf(req.socket)
    connection.begin()
    res.once('close', () => connection.end(account))
    if (connection.open?.setAccount(account, { isWebSocket: more === 'ws' }) === false) res.writeHead(503)
    if (more === 'wait') waiting.push(() => res.end())
    else res.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const refused: unknown[][] = []
  const recordRefused = (...refusal: unknown[]) => void refused.push(refusal)
  const readAddress = createConnectionAddressReader([trustedProxy])
  const open = new OpenConnections(server, { peer: 'caller', maxConnections, recordRefused, readAddress })
  t.teardown(() => {
    server.close()
    open.destroyAll()
  })
  const { port } = server.address() as AddressInfo
  /** Resolves when the server has the connection, or has closed it. */
  const openFrom = async (localAddress: string): Promise<Socket> => {
    const accepted = once(server, 'connection')
    const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => undefined)
    const [[serverSide]] = await Promise.all([accepted, once(socket, 'connect')])
    if (openConnectionOf(serverSide) === undefined) await whenClosed(socket)
    return socket
  }
  const openMany = async (localAddress: string, count: number): Promise<readonly Socket[]> => {
    const sockets: Socket[] = []
    while (sockets.length < count) sockets.push(await openFrom(localAddress))
    return sockets
  }
  /** The status of the response. */
  const request = async (socket: Socket, path: string): Promise<number> => {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    return Number(/^HTTP\/1\.1 (\d+)/.exec(String((await once(socket, 'data'))[0]))?.[1])
  }
  const openFor = async (account: string, localAddress: string): Promise<Socket> => {
    const socket = await openFrom(localAddress)
    await request(socket, `/${account}`)
    return socket
  }
  return { open, refused, waiting, openFrom, openMany, openFor, request }
}

const whenClosed = async (socket: Socket): Promise<void> => {
  if (!socket.closed) await once(socket.resume(), 'close')
}

const [alice, bob, mallory] = ['127.0.0.1', '127.0.0.2', '127.0.0.3']

t.test('an address opens more connections only while it holds fewer than are free', async t => {
  const { open, refused, openMany } = await startServer(t, 16)
  for (const [address, held] of [
    [mallory, 8],
    [bob, 4],
    [alice, 2],
  ] as const) {
    const sockets = await openMany(address, 9)
    t.same(
      sockets.map(({ closed }) => closed),
      sockets.map((_, i) => i >= held),
    )
  }
  t.equal(open.count, 14)
  t.same(refused[0], ['caller', 'share', mallory])
  t.equal(refused.length, 1 + 5 + 7)
})

t.test('where no connection is free, the longest idle one of whoever holds most is closed for that of another address', async t => {
  const { open, refused, openFrom, openMany } = await startServer(t, 8)
  const held = await openMany(mallory, 4)
  await openMany(bob, 2)
  for (const address of ['127.0.0.12', '127.0.0.13']) await openFrom(address)
  t.equal(open.count, 8)
  const socket = await openFrom(alice)
  await whenClosed(held[0]!)
  t.same(
    [socket, ...held].map(({ closed }) => closed),
    [false, true, false, false, false],
  )
  t.same(refused, [['caller', 'replaced', mallory]])
  t.equal(open.count, 8)
  t.ok((await openFrom(mallory)).closed, 'it holds most itself')
  t.same(refused[1], ['caller', 'share', mallory])
})

t.test('connections of one address each: the oldest is closed for that of an address that has none', async t => {
  const { refused, openFrom } = await startServer(t, 4)
  const sockets: Socket[] = []
  for (let i = 0; i < 4; i++) sockets.push(await openFrom(`127.0.1.${i}`))
  await openFrom(alice)
  await whenClosed(sockets[0]!)
  t.same(
    sockets.map(({ closed }) => closed),
    [true, false, false, false],
  )
  t.ok((await openFrom('127.0.1.1')).closed)
  t.same(refused, [
    ['caller', 'replaced', '127.0.1.0'],
    ['caller', 'share', '127.0.1.1'],
  ])
})

t.test('once its account is known, a connection is no longer one of its address', async t => {
  const { open, refused, openMany, openFor } = await startServer(t, 16)
  for (const account of ['a', 'b', 'c', 'd']) for (let i = 0; i < 2; i++) await openFor(account, alice)
  t.equal(open.count, 8)
  t.equal(open.holderCount, 4)
  t.same(
    (await openMany(alice, 4)).map(({ closed }) => closed),
    [false, false, false, false],
    'many callers behind one address, as with NAT',
  )
  t.same(refused, [])
})

t.test('an account opens more connections only while it holds fewer than are free, from whatever addresses', async t => {
  const { open, refused, openFrom, request, openFor } = await startServer(t, 8)
  for (let i = 0; i < 4; i++) await openFor('mallory', `127.0.2.${i}`)
  const socket = await openFrom('127.0.2.4')
  t.equal(await request(socket, '/mallory'), 503)
  socket.destroy()
  await waitUntil(() => open.count === 4)
  t.same(refused, [['caller', 'share', 'mallory']])
  const other = await openFrom('127.0.2.5')
  t.equal(await request(other, '/alice'), 200)
  t.equal(await request(other, '/mallory'), 200, 'several accounts call on it, as those of a proxy')
  const proxy = await openFrom(trustedProxy)
  t.equal(await request(proxy, '/mallory'), 200)
  t.equal(await request(proxy, '/mallory/ws'), 503, 'a WebSocket is one of its account alone')
})

t.test('an account may hold one connection, and as many as another that holds more, while none is free', async t => {
  const { open, openFrom, openMany, openFor, request } = await startServer(t, 8)
  for (let i = 0; i < 4; i++) await openFor('mallory', `127.0.2.${i}`)
  await openMany(bob, 2)
  for (const address of ['127.0.0.12', '127.0.0.13']) await openFrom(address)
  t.equal(open.count, 8)
  for (let held = 1; held <= 2; held++) {
    const socket = await openFrom(alice)
    t.equal(await request(socket, '/alice'), 200, `${held}`)
  }
  t.equal(await request(await openFrom(alice), '/alice'), 503, 'nobody would hold more')
  t.equal(open.count, 8)
})

t.test('connections without an account are closed for one of another address before an account has as many', async t => {
  const { refused, openFrom, openFor } = await startServer(t, 12)
  for (let i = 0; i < 5; i++) await openFor('alice', alice)
  for (let i = 0; i < 14; i++) await openFrom(`127.0.3.${i}`)
  t.same(
    refused,
    Array.from({ length: 7 }, (_, i) => ['caller', 'replaced', `127.0.3.${i}`]),
    'many addresses of one attacker',
  )
})

t.test('a connection on which a call is answered is not closed, and one that was used lately is the last of its holder', async t => {
  const { open, refused, waiting, openFrom, openFor, request, openMany } = await startServer(t, 8)
  const held: Socket[] = []
  for (let i = 0; i < 4; i++) held.push(await openFor('mallory', mallory))
  await openMany(bob, 2)
  await openFrom('127.0.0.12')
  const answered = request(held[0]!, '/mallory/wait')
  await request(held[1]!, '/mallory')
  await waitUntil(() => waiting.length === 1)
  await openFor('bob', '127.0.0.13')
  t.equal(open.count, 8)
  await openFor('alice', alice)
  await whenClosed(held[2]!)
  waiting[0]?.()
  t.equal(await answered, 200)
  t.same(
    held.map(({ closed }) => closed),
    [false, false, true, false],
  )
  t.same(refused, [['caller', 'replaced', 'mallory']])
})

t.test('where every connection is answering, a further one is refused', async t => {
  const { refused, waiting, openFrom } = await startServer(t, 4)
  const sockets: Socket[] = []
  for (let i = 0; i < 4; i++) {
    const socket = await openFrom(`127.0.1.${i}`)
    socket.write(`GET /account${i}/wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    sockets.push(socket)
  }
  await waitUntil(() => waiting.length === 4)
  t.ok((await openFrom(alice)).closed)
  t.same(refused, [['caller', 'limit', alice]])
  for (const answer of waiting) answer()
  t.match(await Promise.all(sockets.map(socket => text(socket))), new Array(4).fill(/^HTTP\/1\.1 200/))
})

t.test('connections of a trusted proxy have no share until the account is known', async t => {
  const { open, openMany, openFrom } = await startServer(t, 8)
  const sockets = await openMany(trustedProxy, 8)
  t.notOk(sockets.some(({ closed }) => closed))
  await openFrom(trustedProxy)
  await whenClosed(sockets[0]!)
  await openFrom(alice)
  await whenClosed(sockets[1]!)
  t.equal(open.count, 8)
})

t.test('nothing is held for accounts and addresses without a connection', async t => {
  const { open, openFor, openFrom } = await startServer(t, 100)
  const sockets: Socket[] = []
  for (let i = 0; i < 20; i++) sockets.push(await openFor(`account${i}`, `127.0.4.${i}`), await openFrom(`127.0.4.${i}`))
  t.equal(open.holderCount, 40)
  for (const socket of sockets) socket.destroy()
  await waitUntil(() => open.count === 0)
  t.equal(open.holderCount, 0)
})
