import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import t from '../support/tap.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const maxOpenFiles = 200

t.test('a process that may open few files', async t => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_getBalance: { result: '0x1' } })
  const deployment = createDeployment({ networks: { testnet: networkFile('testnet', [node.url]) }, maxOpenFiles })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  await deployment.addAccount('alice')
  const { key } = await deployment.addKey('alice')
  const gateway = await deployment.start()
  const metrics = async () => (await post(`${gateway.admin}/metrics`, '', { method: 'GET' })).text
  const refused = async (peer: string) =>
    Number(new RegExp(`^tollgate_sockets_refused_total\\{peer="${peer}"\\} (\\d+)`, 'm').exec(await metrics())?.[1])
  const { port } = new URL(gateway.rpc)

  t.test('says at its start that the configured connections do not fit', async t => {
    t.match(
      gateway.log.find(({ event }) => event === 'open-files'),
      { openFiles: maxOpenFiles, maxConnections: 102, needed: 13_398 },
    )
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
    while ((await refused('caller')) < 2 * maxOpenFiles - 101) await new Promise(setImmediate)
    t.equal(await refused('caller'), 2 * maxOpenFiles - 101)
    t.equal((await post(`${gateway.admin}/readyz`, '', { method: 'GET' })).status, 200)
    t.match(await client.call('eth_getBalance', [`0x${'11'.repeat(20)}`, '0x1']), { result: '0x1' })
    t.match(
      gateway.log.filter(({ event }) => event === 'socket-refused'),
      [{ peer: 'caller' }],
    )
    t.equal(closedCount, 2 * maxOpenFiles - 101)
    for (const socket of sockets) socket.destroy()
    await client.close()
  })

  t.test('blames no node when it has no socket left to ask it', async t => {
    let release = (): void => undefined
    const released = new Promise<void>(resolve => {
      release = resolve
    })
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
    t.equal((await post(`${gateway.admin}/readyz`, '', { method: 'GET' })).status, 200)
    t.match(await clients[1]?.nextMessage(), { error: { code: -32002, message: 'the gateway has no connection left; retry later' } })
    await waitUntil(async () => (await refused('upstream')) > 200)
    release()
    t.match(await metrics(), /^tollgate_upstream_breaker_open\{.*\} 0$/m)
    t.notMatch(await metrics(), /^tollgate_upstream_breaker_open\{.*\} 1$/m)
    t.notOk(gateway.log.some(({ msg }) => String(msg).startsWith('upstream')))
    t.equal(gateway.stderr(), '')
  })

  t.test('serves again when sockets are free', async t => {
    node.setResponse('eth_getBalance', { result: '0x2' })
    t.match(await call(gateway.http(key), 'eth_getBalance', [`0x${'22'.repeat(20)}`, '0x1']), { result: '0x2' })
  })
})

t.test('two workers that may open few files: each connection that is refused is counted, whichever process refuses it', async t => {
  const gateway = { workers: 2 }
  const deployment = createDeployment({ gateway, networks: { testnet: networkFile('testnet', ['http://127.0.0.1:1']) }, maxOpenFiles })
  t.teardown(() => deployment.remove())
  const { rpc, admin, log } = await deployment.start()
  const metric = async (name: string) =>
    Number(new RegExp(`^tollgate_${name} (\\d+)`, 'm').exec((await post(`${admin}/metrics`, '', { method: 'GET' })).text)?.[1])
  let closedCount = 0
  // All at once: the primary accepts them faster than the workers take them.
  const sockets = Array.from({ length: 2 * maxOpenFiles }, () =>
    connect(Number(new URL(rpc).port), '127.0.0.1')
      .on('error', () => undefined)
      .on('close', () => (closedCount += 1)),
  )
  t.teardown(() => sockets.forEach(socket => socket.destroy()))
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  const refused = () => metric('sockets_refused_total\\{peer="caller"\\}')
  await waitUntil(async () => (await metric('connections')) + (await refused()) === sockets.length)
  await waitUntil(() => closedCount >= sockets.length - 2 * 102)
  t.ok((await refused()) >= sockets.length - 2 * 102)
  await waitUntil(async () => closedCount === (await refused()))
  t.ok(log.some(({ event, reason }) => event === 'socket-refused' && reason === 'limits.connections'))
})
