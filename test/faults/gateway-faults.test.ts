import { EventEmitter, once } from 'node:events'
import http from 'node:http'
import type { Socket } from 'node:net'
import t from '../support/tap.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { faults } from '../support/node-faults.ts'
import { exceptChainId, respondCorrectly } from '../support/node-responses.ts'
import { startFaultyNode } from '../support/faulty-node.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { connectWs, post } from '../support/rpc-client.ts'
import { fastestMs } from '../support/fastest-ms.ts'
import { waitUntil } from '../support/wait-until.ts'

// A whole gateway in front of nodes that fail.

const hungSockets: Socket[] = []
/** Responds to requests of the gateway itself, and never to those of callers. */
const silentNode = await startFaultyNode((socket, request) => {
  if (!['eth_getBalance', 'eth_getStorageAt'].includes(request.method)) return respondCorrectly(socket, request)
  hungSockets.push(socket)
  callEvents.emit('call')
})
const callEvents = new EventEmitter()
const brokenNode = await startFaultyNode(exceptChainId(faults['responds with HTTP 500']))
const partnerNode = await startFakeNode({ eth_getLogs: { result: [] } })
/** A node with this head, and a log in each block; blocks above its head have no logs. */
const startNodeAt = (head: number) =>
  startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_blockNumber: { result: hex(head) },
    eth_getBlockByNumber: ({ params: [block] }) => {
      const number = block === 'latest' ? head : Number(block)
      return { result: number > head ? null : { number: hex(number), hash: hex(1000 + number), parentHash: hex(999 + number) } }
    },
    eth_getLogs: ({ params: [filter] }) => {
      const { fromBlock, toBlock } = filter as { fromBlock: string; toBlock: string } // as the test requests it
      const result = []
      for (let block = Number(fromBlock); block <= Math.min(head, Number(toBlock)); block++) result.push({ blockNumber: hex(block) })
      return { result }
    },
  })
const hex = (number: number) => `0x${number.toString(16)}`
const laggingNode = await startNodeAt(98)
const syncedNode = await startNodeAt(100)
const withHost = (host: string, network: object) => ({ ...network, hosts: [host] })
const forwarding = { partner: { name: 'helper', url: partnerNode.url, when: 'header' } }
t.teardown(() => Promise.all([silentNode.stop(), brokenNode.stop(), partnerNode.stop(), laggingNode.stop(), syncedNode.stop()]))
const { deployment, gateway, key } = await startGateway(t, {
  plan: 'growth',
  networks: {
    silentnet: withHost('silent.test', networkFile('silentnet', [silentNode.url])),
    behindnet: withHost('behind.test', networkFile('behindnet', [laggingNode.url, syncedNode.url])),
    brokennet: withHost(
      'broken.test',
      networkFile('brokennet', [brokenNode.url], { failover: { upstreams: [{ name: 'own', url: brokenNode.url }], ...forwarding } }),
    ),
  },
})
const rpcMessage = (method: string, params: unknown) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })

t.test('when callers disconnect, their requests to nodes are canceled within 100 ms', async t => {
  /** Time in ms from the disconnect of all callers until the one connection to the node is closed. */
  const measureCancel = async (disconnects: readonly (() => void)[]) => {
    const open = () => hungSockets.filter(socket => !socket.destroyed)
    while (open().length === 0) await once(callEvents, 'call')
    const startMs = performance.now()
    const closed = open().map(socket => once(socket, 'close'))
    for (const disconnect of disconnects) disconnect()
    t.equal(closed.length, 1)
    await Promise.all(closed)
    return performance.now() - startMs
  }
  /** Resolves with a function that disconnects, once the whole request has been sent. */
  const sendHttp = async (body: string) => {
    const request = http.request(gateway.http(key), {
      agent: false,
      method: 'POST',
      headers: { host: 'silent.test', 'content-type': 'application/json' },
    })
    request.on('error', () => undefined)
    request.end(body)
    await once(request, 'finish')
    return () => void request.destroy()
  }
  const slot = [`0x${'11'.repeat(20)}`, '0x0', 'latest']
  const callers: Readonly<Record<string, () => Promise<readonly (() => void)[]>>> = {
    HTTP: async () => [await sendHttp(rpcMessage('eth_getBalance', [slot[0], 'latest']))],
    'two callers that share a request': async () => [
      await sendHttp(rpcMessage('eth_getStorageAt', slot)),
      await sendHttp(rpcMessage('eth_getStorageAt', slot)),
    ],
    WebSocket: async () => {
      const client = await connectWs(gateway.ws(key), { host: 'silent.test' })
      client.send(rpcMessage('eth_getBalance', [slot[0], '0x1']))
      return [() => client.socket.terminate()]
    },
  }
  for (const [name, sendCalls] of Object.entries(callers)) {
    const tookMs = await fastestMs(100, async () => measureCancel(await sendCalls()))
    t.ok(tookMs < 100, `${name}: ${tookMs} ms`)
  }
})

t.test('a response names the partner, and the partner learns nothing about the caller', async t => {
  const headers = {
    'enable-failover': 'true',
    cookie: 'a=b',
    authorization: 'Bearer secret',
    'user-agent': 'a-caller',
    'x-forwarded-for': '10.0.0.9',
  }
  const requestLogs = (given: object) =>
    post(gateway.http(key), rpcMessage('eth_getLogs', [{}]), { host: 'broken.test', headers: { ...given } })
  t.match((await requestLogs({})).json(), { error: { code: -32002 } })
  t.equal(partnerNode.received.length, 0)
  const response = await requestLogs(headers)
  t.same(response.json().result, [])
  t.equal(response.headers['x-tollgate-upstream'], 'helper')
  const received = partnerNode.received.find(({ method }) => method === 'eth_getLogs')
  t.same(Object.keys(received?.headers ?? {}).sort(), ['accept', 'accept-encoding', 'connection', 'content-length', 'content-type', 'host'])
  t.equal(received?.path, '/')
  t.notMatch(JSON.stringify(received), new RegExp(key))
  t.match(
    (await requestLogs({})).json(),
    { error: { code: -32002 } },
    'without the header no response of the partner, not even from the cache',
  )
  t.match((await requestLogs(headers)).headers, { 'x-tollgate-credits': '255' })
  const forwarded = async () => {
    const { groups } = JSON.parse((await deployment.run('usage', 'alice', '--by', 'method', '--json')).stdout)
    return groups.find(({ name }: { name: string }) => name === 'eth_getLogs')?.forwarded ?? 0
  }
  await waitUntil(async () => (await forwarded()) > 0)
  t.ok(
    (await forwarded()) <= partnerNode.received.filter(({ method }) => method === 'eth_getLogs').length,
    'forwarded calls are counted separately',
  )
})

t.test('while the breakers of all nodes are open, calls are rejected within 20 ms with 503, without a charge', async t => {
  const requestBalance = async () => {
    const startMs = performance.now()
    const { status, headers, json } = await post(gateway.http(key), rpcMessage('eth_getBalance', [`0x${'22'.repeat(20)}`, 'latest']), {
      host: 'broken.test',
    })
    return { tookMs: performance.now() - startMs, status, headers, code: json().error?.code }
  }
  for (let i = 0; i < 10; i++) await requestBalance()
  const before = brokenNode.requestCount('eth_getBalance')
  const responses = []
  let fastestUnroutedMs = Infinity
  for (let i = 0; i < 50; i++) {
    responses.push(await requestBalance())
    const startMs = performance.now()
    await post(gateway.http(key), rpcMessage('eth_chainId', []), { host: 'unknown.test' })
    fastestUnroutedMs = Math.min(fastestUnroutedMs, performance.now() - startMs)
  }
  for (const { status, code, headers } of responses) {
    t.match({ status, code, headers }, { status: 503, code: -32002, headers: { 'retry-after': /^[1-5]$/, 'x-tollgate-credits': '0' } })
  }
  t.equal(brokenNode.requestCount('eth_getBalance'), before)
  // The fastest, and without what a request takes that reaches no pipeline: each opens a connection, and the machine may be busy.
  const tookMs = Math.min(...responses.map(({ tookMs }) => tookMs)) - fastestUnroutedMs
  t.ok(tookMs < 20, `${tookMs} ms`)
})

t.test('blocks up to the reported height come from a node that has them', async t => {
  const request = async (method: string, params: unknown) => {
    const { headers, json } = await post(gateway.http(key), rpcMessage(method, params), { host: 'behind.test' })
    return { upstream: headers['x-tollgate-upstream'], result: json().result }
  }
  await waitUntil(async () => (await request('eth_blockNumber', [])).result === '0x64')
  await laggingNode.waitForRequests('eth_getBlockByNumber', 2) // the gateway then knows its head
  const logs = await request('eth_getLogs', [{ fromBlock: '0x62', toBlock: '0x64' }])
  t.same(logs, { upstream: 'node-2', result: [98, 99, 100].map(block => ({ blockNumber: hex(block) })) })
  t.match(await request('eth_getBlockByNumber', ['0x64', false]), { upstream: 'node-2', result: { number: '0x64' } })
  t.match(
    await request('eth_getLogs', [{ fromBlock: '0x61', toBlock: '0x62' }]),
    { upstream: 'node-1' },
    'the first node gets calls for blocks that it has',
  )
})
