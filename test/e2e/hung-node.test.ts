import { setTimeout as wait } from 'node:timers/promises'
import { WebSocket } from 'ws'
import t from '../support/tap.ts'
import { startAnvilChain } from '../support/anvil-chain.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFaultyNode } from '../support/faulty-node.ts'
import { httpResponse, correctResponse, respondCorrectly } from '../support/node-responses.ts'
import { post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('a node that is stopped for a while is noticed by no caller, and gets calls again when it goes on', async t => {
  const [first, second] = await Promise.all([startAnvilChain(), startAnvilChain()])
  t.teardown(() => Promise.all([first.stop(), second.stop()]))
  t.teardown(() => process.kill(first.pid, 'SIGCONT'))
  const { url } = await startGateway(t, {
    gateway: { plans: { core: { dailyCredits: 1_000_000_000 } } },
    networks: { testnet: networkFile('testnet', [first.url, second.url]) },
  })
  let callCount = 0
  const send = async (method: string, params: readonly unknown[]) => {
    const [id, sentAt] = [(callCount += 1), performance.now()]
    const response = await post(url, JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    const { id: responseId, result } = response.json()
    return {
      isRight: responseId === id && result !== undefined,
      ms: performance.now() - sentAt,
      upstream: response.headers['x-tollgate-upstream'],
    }
  }
  const getBalance = () => send('eth_getBalance', [`0x${(callCount + 1).toString(16).padStart(40, '0')}`, '0x0'])
  const getLogs = () =>
    send('eth_getLogs', [{ fromBlock: '0x0', toBlock: '0x0', topics: [`0x${callCount.toString(16).padStart(64, '0')}`] }])
  /** Every tenth call is of a class that is not hedged. */
  const sendMany = async (count: number) => {
    const replies = []
    for (let i = 0; i < count; i++) {
      replies.push(i % 10 === 9 ? getLogs() : getBalance())
      await wait(5)
    }
    return Promise.all(replies)
  }
  t.ok((await sendMany(200)).every(({ isRight }) => isRight))
  process.kill(first.pid, 'SIGSTOP')
  const whileStopped = await sendMany(200)
  t.equal(whileStopped.filter(({ isRight }) => !isRight).length, 0)
  // A process does not stop in the very moment of the signal.
  t.ok(whileStopped.slice(5).every(({ upstream }) => upstream === 'node-2'))
  // Far above what is usual, as machines may be slow; with a fixed time of 2 s nearly all calls would take that long.
  const slow = whileStopped.filter(({ ms }) => ms > 1500).map(({ ms }) => Math.round(ms))
  t.ok(slow.length <= 100, `calls over 1.5 s: ${slow}`)
  process.kill(first.pid, 'SIGCONT')
  await waitUntil(async () => (await getBalance()).upstream === 'node-1')
})

t.test('who leaves a late call ends it on both nodes, unless another caller waits for it, and pays for it', async t => {
  const nodes = await Promise.all([startFaultyNode(), startFaultyNode()])
  t.teardown(() => Promise.all(nodes.map(node => node.stop())))
  const answers: (() => void)[][] = [[], []]
  nodes.forEach((node, i) =>
    node.setFault((socket, request) => {
      if (request.method !== 'eth_getBalance') return respondCorrectly(socket, request)
      answers[i]?.push(() => void socket.write(httpResponse(correctResponse(request))))
    }),
  )
  const { url, gateway, key } = await startGateway(t, {
    networks: {
      testnet: networkFile(
        'testnet',
        nodes.map(node => node.url),
      ),
    },
  })
  const body = (address: string) =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: [`0x${address.repeat(40)}`, '0x1'] })
  const send = (signal?: AbortSignal) =>
    fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: body('1'), ...(signal && { signal }) })
  const inFlight = () =>
    Promise.all(['node-1', 'node-2'].map(upstream => gateway.metric('tollgate_upstream_requests_in_flight', { upstream })))
  const whenInFlight = (...counts: readonly number[]) => waitUntil(async () => String(await inFlight()) === String(counts))
  const leaving = new AbortController()
  const left = t.rejects(send(leaving.signal))
  const stays = send()
  const socket = new WebSocket(gateway.ws(key))
  await new Promise(resolve => socket.once('open', resolve))
  socket.send(body('2'))
  await whenInFlight(2, 2)
  leaving.abort()
  await left
  const alone = new AbortController()
  const third = t.rejects(
    fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: body('3'), signal: alone.signal }),
  )
  await whenInFlight(3, 3)
  alone.abort()
  await third
  await whenInFlight(2, 2)
  for (const answer of answers[1] ?? []) answer()
  const response = await stays
  t.equal(response.headers.get('x-tollgate-upstream'), 'node-2')
  await whenInFlight(0, 0)
  socket.send(body('4'))
  await whenInFlight(1, 1)
  socket.terminate()
  await whenInFlight(0, 0)
  await waitUntil(async () => (await gateway.metric('tollgate_calls_in_flight')) === 0)
  await waitUntil(async () => (await gateway.metric('tollgate_in_flight_bytes')) === 0)
  t.equal(await gateway.metric('tollgate_credits_total'), 5 * 80)
})
