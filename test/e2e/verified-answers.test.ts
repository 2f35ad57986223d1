import t from '../support/tap.ts'
import type { Test } from 'tap'
import type { Json } from '../../src/plugin/call.ts'
import { account, answerAt, contracts, createBlock } from '../plugins/verify/model-blocks.ts'
import type { ModelBlock } from '../plugins/verify/model-blocks.ts'
import type { JsonMembers } from '../plugins/verify/verify-fixture.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import type { RpcMessage } from '../support/rpc-client.ts'
import { untilDayLasts, waitUntil } from '../support/wait-until.ts'

const methods = [
  ...['eth_blockNumber', 'eth_getBlockByNumber', 'eth_getBlockByHash', 'eth_getBlockReceipts', 'eth_getProof', 'eth_getBalance'],
  ...['eth_getLogs', 'eth_getTransactionReceipt'],
]

/** Each block of the chain has logs. */
const openChain = () => {
  let numbers = 1
  const random = () => (numbers = (numbers * 48_271) % 2_147_483_647) / 2_147_483_647
  const size = { maxTransactions: 3, maxLogs: 3, contracts }
  const next = (parent: ModelBlock | undefined): ModelBlock => {
    const block = createBlock(parent, random, size)
    return block.logs.length > 1 ? block : next(parent)
  }
  let tip = next(undefined)
  const mine = (count = 1): ModelBlock => {
    for (let i = 0; i < count; i++) tip = next(tip)
    return tip
  }
  mine(8)
  return { mine, tip: () => tip }
}

const withoutLog = (receipts: Json): Json => {
  const list = receipts as readonly JsonMembers[] // of the model
  return list.map(receipt => ({ ...receipt, logs: (receipt['logs'] as readonly Json[]).slice(1) }))
}

/** Three nodes with one chain, of which the first leaves logs out of all its answers while it lies. */
const open = async (t: Test, verify: object) => {
  const chain = openChain()
  const liar = { isLying: false }
  const startNode = (i: number) =>
    startFakeNode(
      Object.fromEntries(
        methods.map(method => [
          method,
          ({ params }: { readonly params: readonly unknown[] }) => {
            const value = answerAt(chain.tip(), { method, params: params as readonly Json[] }) ?? null // as requests have them
            if (i > 0 || !liar.isLying) return { result: value }
            if (method === 'eth_getLogs') return { result: (value as readonly Json[]).slice(1) }
            return { result: method === 'eth_getBlockReceipts' ? withoutLog(value) : value }
          },
        ]),
      ),
    )
  const nodes = await Promise.all([0, 1, 2].map(startNode))
  t.teardown(() => Promise.all(nodes.map(node => node.stop())))
  const file = (options: object) =>
    networkFile(
      'devnet',
      nodes.map(({ url }) => url),
      { verify: options, 'network-access': false },
    )
  const started = await startGateway(t, { networks: { devnet: file(verify) } })
  await started.deployment.run('keys', 'set', started.id, '--verify', 'none,proof')
  const ask = async (gateway: GatewayProcess, method: string, params: readonly unknown[], headers = {}) => {
    const url = gateway.http(started.key)
    const response = await post(url, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), { headers })
    const { 'x-tollgate-verified': verified, 'x-tollgate-upstream': upstream, 'x-tollgate-credits': credits } = response.headers
    return { ...response.json(), verified, upstream, credits }
  }
  return { ...started, ...chain, liar, nodes, file, ask }
}

const byNumber = (number: number) => `0x${number.toString(16)}`
const logsOf = ({ logs }: ModelBlock) => logs.filter(log => log['address'] === contracts[0])

t.test('callers ask for proof over HTTP, and over a WebSocket for all its calls', async t => {
  const { gateway, key, deployment, tip, nodes, ask } = await open(t, { costs: { proof: '2x' } })
  const balance = [account, byNumber(tip().number)]
  const wish = { 'tollgate-verify': 'proof' }
  await waitUntil(async () => (await ask(gateway, 'eth_getBalance', balance, wish)).verified === 'proof')
  t.match(await ask(gateway, 'eth_getBalance', balance), { result: tip().balance, verified: 'none', credits: '80' })
  t.match(await ask(gateway, 'eth_getBalance', balance, wish), { result: tip().balance, verified: 'proof', credits: '160' })
  const proofs = () => nodes.flatMap(({ received }) => received.filter(({ method }) => method === 'eth_getProof')).length
  const before = proofs()
  const socket = await connectWs(gateway.ws(key), { headers: wish })
  t.teardown(() => socket.close())
  t.match(await socket.call('eth_getBalance', [account, byNumber(tip().number - 1)]), { result: tip().parent?.balance })
  t.ok(proofs() > before)
  const { key: plain } = await deployment.addKey('alice')
  await waitUntil(async () => (await call(gateway.http(plain), 'eth_getBalance', balance)).error === undefined)
  t.match(await call(gateway.http(plain), 'eth_getBalance', balance, { headers: wish }), { error: { code: -32091 } })
  const refused = await connectWs(gateway.ws(plain), { headers: wish })
  t.teardown(() => refused.close())
  t.match(await refused.call('eth_getBalance', balance), { error: { code: -32091 } })
})

t.test('where the node of the feed leaves logs out', async t => {
  const { gateway, key, deployment, mine, tip, liar, file, ask } = await open(t, {
    methods: { eth_getLogs: 'proof' },
    costs: { proof: '2x' },
  })
  const reload = async (options: object) => {
    const reloads = () => gateway.log.filter(({ event }) => event === 'reloaded').length
    const before = reloads()
    deployment.writeNetwork('devnet', file(options))
    process.kill(gateway.pid, 'SIGHUP')
    await waitUntil(() => reloads() > before)
  }
  const query = (number: number) => [{ fromBlock: byNumber(number), toBlock: byNumber(number), address: contracts[0] }]
  const distrusted = () => gateway.metric('tollgate_upstream_reduced', { upstream: 'node-1', reason: 'lied', network: 'devnet' })
  liar.isLying = true

  await t.test('subscribers get all of them', async t => {
    await untilDayLasts()
    const socket = await connectWs(gateway.ws(key))
    t.teardown(() => socket.close())
    await socket.call('eth_subscribe', ['logs', { address: contracts[0] }])
    const expected = [mine(), mine(), mine()].flatMap(logsOf)
    t.ok(expected.length > 2)
    const messages: RpcMessage[] = []
    for (let i = 0; i < expected.length; i++) messages.push(await socket.nextMessage())
    t.match(
      messages.map(message => message['params']),
      expected.map(result => ({ result })),
    )
    const bytes = messages.reduce((sum, message) => sum + JSON.stringify(message).length, 0)
    const credits = async () => {
      const { groups } = JSON.parse((await deployment.run('usage', 'alice', '--by', 'method', '--json')).stdout)
      return (groups as readonly JsonMembers[]).find(({ name }) => name === 'eth_subscription')?.['credits'] // as the command prints them
    }
    const perKiB = 20
    await waitUntil(async () => (await credits()) === perKiB * Math.ceil(bytes / 1024))
  })

  await t.test('after a reload the node is still not trusted, and what was proven before is still no answer of another policy', async t => {
    const { number } = tip()
    t.match(await ask(gateway, 'eth_getLogs', query(number)), { result: logsOf(tip()), verified: 'proof' })
    t.equal(await distrusted(), 1)
    await reload({ methods: { eth_getLogs: 'proof' }, maxBlocks: 4 })
    t.equal(await distrusted(), 1)
    const newer = mine()
    await waitUntil(async () => Number((await call(gateway.http(key), 'eth_blockNumber')).result) === newer.number)
    t.match(await ask(gateway, 'eth_getLogs', query(newer.number)), { result: logsOf(newer), verified: 'proof' })
    await reload({ methods: { eth_getLogs: 'off' } })
    t.match(await ask(gateway, 'eth_getLogs', query(newer.number)), { verified: 'none' })
    await waitUntil(async () => (await distrusted()) === 0)
    await reload({ methods: { eth_getLogs: 'proof' }, readmit: false })
    t.match(await ask(gateway, 'eth_getLogs', query(newer.number)), { result: logsOf(newer), verified: 'proof' })
  })

  await t.test('after a restart logs are proven again, and with readmit: false the node gets no calls from the start', async t => {
    t.equal(await gateway.stop(), 0)
    const restarted = await deployment.start()
    await waitUntil(async () => (await ask(restarted, 'eth_getLogs', query(tip().number))).verified === 'proof')
    t.match(await ask(restarted, 'eth_getLogs', query(tip().number - 1)), { result: logsOf(tip().parent!), verified: 'proof' })
    t.equal(await restarted.metric('tollgate_upstream_reduced', { upstream: 'node-1', reason: 'lied', network: 'devnet' }), 1)
    t.notOk((await restarted.metric('tollgate_upstream_lies_total', { upstream: 'node-1' })) > 0, 'it was not asked')
    t.equal(await restarted.stop(), 0)
  })
})

t.test('a caller who leaves while nodes are asked ends the call, and pays for it as for one that is not verified', async t => {
  await untilDayLasts()
  const { gateway, key, deployment, tip, nodes } = await open(t, { methods: { eth_call: '2 of 3', eth_getBalance: 'proof' } })
  const block = byNumber(tip().number)
  await waitUntil(async () => (await call(gateway.http(key), 'eth_getBalance', [account, block])).error === undefined)
  const used = async () => JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout).used as number
  let calls = 1
  for (const [method, asked, params] of [
    ['eth_call', 'eth_call', [{ to: account }, block]],
    ['eth_getBalance', 'eth_getProof', [account, byNumber(tip().number - 1)]],
  ] as const) {
    for (const node of nodes) node.setResponse(asked, 'hang')
    const requests = () => nodes.flatMap(({ received }) => received).filter(request => request.method === asked).length
    const requestsBefore = requests()
    const caller = new AbortController()
    const left = call(gateway.http(key), method, params, { signal: caller.signal })
    await waitUntil(() => requests() > requestsBefore)
    caller.abort()
    await t.rejects(left, { name: 'AbortError' })
    await waitUntil(async () => (await gateway.metric('tollgate_calls_in_flight', { network: 'devnet' })) === 0)
    calls += 1
    await waitUntil(async () => (await used()) === 80 * calls)
    t.equal(await gateway.metric('tollgate_upstream_requests_in_flight', { network: 'devnet' }), 0, method)
  }
  t.equal(await gateway.stop(), 0)
})
