import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import t from '../support/tap.ts'
import { WebSocket } from 'ws'
import { deferred } from '../support/deferred.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, connectWs, openRawConnection, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const maxOpenFiles = 200

/** By all reasons together, or by one. */
const refusedCount = async (gateway: GatewayProcess, peer: string, reason?: string): Promise<number> =>
  (await gateway.metric('tollgate_sockets_refused_total', { peer, ...(reason !== undefined && { reason }) })) || 0

t.test('a process that may open few files', async t => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_getBalance: { result: '0x1' } })
  t.teardown(() => node.stop())
  const { gateway, key } = await startGateway(t, { networks: { testnet: networkFile('testnet', [node.url]) }, maxOpenFiles })
  const refused = (peer: string) => refusedCount(gateway, peer)
  const { port } = new URL(gateway.rpc)

  t.test('says at its start that the configured connections do not fit', async t => {
    t.match(await gateway.waitForEvent('open-files'), { openFiles: maxOpenFiles, maxConnections: 102, needed: 13_398 })
  })

  t.test('refuses further connections, logs and counts them, and keeps the admin listener and nodes within reach', async t => {
    const client = await connectWs(gateway.ws(key))
    const sockets: Socket[] = []
    let closedCount = 0
    for (let i = 0; i < 2 * maxOpenFiles; i++) {
      const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined)
      sockets.push(socket)
      socket.once('close', () => (closedCount += 1))
      await once(socket, 'connect')
    }
    // The address of all of them holds half of what the WebSocket leaves free.
    const refusedConnections = 2 * maxOpenFiles - 51
    await waitUntil(async () => (await refused('caller')) >= refusedConnections)
    t.equal(await refused('caller'), refusedConnections)
    t.equal((await gateway.get('/readyz')).status, 200)
    t.match(await client.call('eth_getBalance', [`0x${'11'.repeat(20)}`, '0x1']), { result: '0x1' })
    await gateway.waitForEvent('socket-refused')
    t.match(
      gateway.log.filter(({ event }) => event === 'socket-refused'),
      [{ peer: 'caller' }],
    )
    t.equal(closedCount, refusedConnections)
    for (const socket of sockets) socket.destroy()
    await client.close()
  })

  t.test('blames no node when it has no socket left to ask it', async t => {
    const { promise: released, resolve: release } = deferred()
    node.setResponse('eth_getBalance', async () => {
      await released
      return { result: '0x1' }
    })
    const clients = [await connectWs(gateway.ws(key)), await connectWs(gateway.ws(key))]
    for (const [i, client] of clients.entries()) {
      for (let j = 0; j < 150; j++) {
        const address = `0x${i}${String(j).padStart(39, '0')}`
        client.send(JSON.stringify({ jsonrpc: '2.0', id: j, method: 'eth_getBalance', params: [address, '0x1'] }))
      }
    }
    t.equal((await gateway.get('/readyz')).status, 200)
    t.match(await clients[1]?.nextMessage(), { error: { code: -32002, message: 'the gateway has no connection left; retry later' } })
    await waitUntil(async () => (await refused('upstream')) > 200)
    release()
    // All but the one that was read above.
    for (const [i, client] of clients.entries()) for (let j = i; j < 150; j++) await client.nextMessage()
    t.notOk(await gateway.metric('tollgate_upstream_reduced', { reason: 'breaker' }))
    t.notOk(gateway.log.some(({ msg }) => String(msg).startsWith('upstream')))
    t.equal(gateway.stderr(), '')
  })

  t.test('serves again when sockets are free', async t => {
    node.setResponse('eth_getBalance', { result: '0x2' })
    t.match(await call(gateway.http(key), 'eth_getBalance', [`0x${'22'.repeat(20)}`, '0x1']), { result: '0x2' })
  })
})

t.test('two workers that may open few files: each connection that is refused is counted, whichever process refuses it', async t => {
  const { gateway } = await startGateway(t, {
    gateway: { workers: 2 },
    networks: { testnet: networkFile('testnet', ['http://127.0.0.1:1']) },
    maxOpenFiles,
  })
  const { rpc, log } = gateway
  let closedCount = 0
  // All at once: the primary accepts them faster than the workers take them.
  const sockets = Array.from({ length: 2 * maxOpenFiles }, () =>
    connect(Number(new URL(rpc).port), '127.0.0.1')
      .on('error', () => undefined)
      .on('close', () => (closedCount += 1)),
  )
  t.teardown(() => sockets.forEach(socket => socket.destroy()))
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  const refused = () => refusedCount(gateway, 'caller')
  await waitUntil(async () => (await gateway.metric('tollgate_connections')) + (await refused()) === sockets.length)
  await waitUntil(() => closedCount >= sockets.length - 2 * 102)
  t.ok((await refused()) >= sockets.length - 2 * 102)
  await waitUntil(async () => closedCount === (await refused()))
  t.ok(log.some(({ event, reason }) => event === 'socket-refused' && reason === 'share'))
})

t.test('an account with idle WebSockets, and an address with silent connections, leave room for the new connections of others', async t => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' } })
  t.teardown(() => node.stop())
  const {
    deployment,
    gateway,
    key: alice,
  } = await startGateway(t, {
    gateway: { limits: { connections: 40 } },
    networks: { testnet: networkFile('testnet', [node.url]) },
  })
  const { key: mallory } = await deployment.addCaller('mallory')
  const silent: Socket[] = []
  t.teardown(() => silent.forEach(socket => socket.destroy()))
  const openSilent = async (localAddress: string, count: number) => {
    for (let i = 0; i < count; i++) {
      const socket = connect({ port: Number(new URL(gateway.rpc).port), host: '127.0.0.1', localAddress }).on('error', () => undefined)
      silent.push(socket)
      await once(socket, 'connect')
    }
  }
  const callNewly = () => post(gateway.http(alice), chainIdCall, { headers: { connection: 'close' } })

  let refusedCountOfWs = 0
  const closed: (readonly [number, string])[] = []
  for (let i = 0; i < 60; i++) {
    const socket = new WebSocket(gateway.ws(mallory))
    socket.on('close', (code, reason) => closed.push([code, String(reason)]))
    socket.on('error', () => (refusedCountOfWs += 1))
    await new Promise(resolve => socket.once('open', resolve).once('error', resolve))
  }
  t.equal(refusedCountOfWs, 40, 'the account has half of the connections')
  const raw = await openRawConnection(gateway.rpc)
  const { host, pathname } = new URL(gateway.http(mallory))
  const request = `POST ${pathname} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: ${chainIdCall.length}\r\n\r\n${chainIdCall}`
  raw.write(request + request)
  const refusal =
    /^HTTP\/1.1 503 [^]*Connection: close\r\n[^]*-32002,"message":"the account has too many open connections; retry later"[^}]*\}\}$/
  t.match(await raw.received, refusal, 'and a call of it on a further one is refused and closes that')
  closed.length = 0
  for (let i = 0; i < 10; i++) t.match(await callNewly(), { status: 200 })

  // Where none is free, the account that holds most has the one that is closed.
  const idle = await Promise.all(Array.from({ length: 8 }, () => connectWs(gateway.ws(alice))))
  for (let i = 0; i < 12; i++) await openSilent(`127.0.5.${i}`, 1)
  await waitUntil(async () => (await gateway.metric('tollgate_connections')) === 40)
  t.match(await callNewly(), { status: 200 })
  await waitUntil(() => closed.length > 0)
  t.same(closed, [[1013, 'too many connections are open']])

  await openSilent('127.0.0.3', 60)
  for (let i = 0; i < 20; i++) t.match(await callNewly(), { status: 200 })
  for (const client of idle) t.match(await client.call('eth_chainId'), { result: '0x7a69' })
  t.ok((await refusedCount(gateway, 'caller', 'replaced')) > 0)
  t.ok((await refusedCount(gateway, 'caller', 'share')) > 40)
  t.equal(await refusedCount(gateway, 'caller', 'limit'), 0)
  const replaced = () => gateway.log.find(({ event, reason }) => event === 'socket-refused' && reason === 'replaced')
  await waitUntil(() => replaced() !== undefined)
  t.match(replaced(), { peer: 'caller', level: 40 })
})

const chainIdCall = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'

t.test('the admin listener and the portal have a limit of connections too, of which an address gets half', async t => {
  const listen = { rpc: '127.0.0.1:0', portal: '127.0.0.1:0', admin: '127.0.0.1:0' }
  const networks = { testnet: networkFile('testnet', ['http://127.0.0.1:1']) }
  const { gateway } = await startGateway(t, { gateway: { listen }, networks, maxOpenFiles: 1_024 })
  for (const [peer, url] of [
    ['admin', gateway.admin],
    ['portal', gateway.portal ?? ''],
  ] as const) {
    let closedCount = 0
    const sockets: Socket[] = []
    for (let i = 0; i < 40; i++) {
      const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress: '127.0.0.2' })
      sockets.push(socket.on('error', () => undefined).on('close', () => (closedCount += 1)))
      await once(socket, 'connect')
    }
    await waitUntil(async () => (await refusedCount(gateway, peer, 'share')) >= 40 - 15)
    await waitUntil(() => closedCount >= 40 - 15)
    t.equal((await post(url, '', { method: 'GET' })).status < 500, true)
    for (const socket of sockets) socket.destroy()
  }
})
