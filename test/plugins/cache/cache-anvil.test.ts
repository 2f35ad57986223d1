import t from '../../support/tap.ts'
import { privateKeyToAccount } from 'viem/accounts'
import { deployEmitter, startAnvilChain } from '../../support/anvil-chain.ts'
import { networkFile, startGateway } from '../../support/deployment.ts'
import { call, post } from '../../support/rpc-client.ts'
import { fastestMs } from '../../support/fastest-ms.ts'
import { waitUntil } from '../../support/wait-until.ts'

// Reorgs of a real node under a running gateway. Its network file has a block time of 1 s, so that it polls every 500 ms.

const chain = await startAnvilChain()
const emitter = await deployEmitter(chain)
await chain.request('anvil_mine', '0x64')
const [fastHost, toolsHost] = ['fast.localhost', 'tools.localhost']
t.teardown(() => chain.stop())
const { gateway, url } = await startGateway(t, {
  plan: 'custom',
  networks: {
    devnet: { ...networkFile('devnet', [chain.url]), blockTime: '1s' },
    fast: { ...networkFile('fast', [chain.url]), hosts: [fastHost] },
    tools: {
      ...networkFile('tools', [chain.url], { params: { offer: ['anvil_*', 'evm_*'] } }),
      hosts: [toolsHost],
      blockTime: '12s',
      devNode: true,
    },
  },
})

type RpcRequest = readonly [method: string, ...params: readonly unknown[]]

const request = async (rpcRequest: RpcRequest) => {
  const [method, ...params] = rpcRequest
  const response = await post(url, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
  const { result, error } = response.json() as { result?: unknown; error?: unknown }
  const text = JSON.stringify(error === undefined ? result : 'an error')
  return { text, isHit: response.headers['x-tollgate-cache'] === 'hit' }
}
const textOfNode = async ([method, ...params]: RpcRequest) =>
  chain.request<unknown>(method, ...params).then(
    result => JSON.stringify(result),
    () => JSON.stringify('an error'),
  )

/** Repeats the requests until all responses equal those of the node. How soon they do is tested in simulated time (cache-property.test.ts). */
const waitUntilEqual = (requests: readonly RpcRequest[]): Promise<void> =>
  waitUntil(async () => {
    const responses = await Promise.all(requests.map(request))
    const expected = await Promise.all(requests.map(textOfNode))
    return responses.every(({ text }, i) => text === expected[i])
  })

const requestsAbout = (block: string, transaction: string): readonly RpcRequest[] => [
  ['eth_getStorageAt', emitter.address, '0x0', 'latest'],
  ['eth_getStorageAt', emitter.address, '0x0', block],
  ['eth_getLogs', { address: emitter.address, fromBlock: block }],
  ['eth_getLogs', { address: emitter.address, fromBlock: block, toBlock: block }],
  ['eth_getTransactionReceipt', transaction],
  ['eth_getBlockByNumber', block, false],
]

for (const [how, reorg] of [
  ['evm_revert', async (snapshot: string) => void (await chain.request('evm_revert', snapshot))],
  ['anvil_reorg', async () => void (await chain.request('anvil_reorg', 1, []))],
] as const) {
  t.test(`storage, logs, receipts and blocks are right again after ${how}`, async t => {
    const snapshot = await chain.request('evm_snapshot')
    const { blockNumber, transactionHash } = await emitter.emitLogs(3)
    const requests = requestsAbout(blockNumber, transactionHash)
    await waitUntilEqual(requests)
    const before = await Promise.all(requests.map(textOfNode))
    await reorg(snapshot)
    await emitter.emitLogs(5)
    t.not(await textOfNode(requests[0] as RpcRequest), before[0], 'the chain has changed')
    await waitUntilEqual(requests)
    for (const [i, rpcRequest] of requests.entries()) {
      t.equal((await request(rpcRequest)).text, await textOfNode(rpcRequest), `response ${i} stays right`)
    }
  })
}

t.test('where blocks come faster than polls, who sends a transaction reads its effect once the node has mined it', async t => {
  const sender = privateKeyToAccount('0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6') // one of the accounts of anvil
  const resultOf = async (method: string, ...params: readonly unknown[]) => (await call(url, method, params, { host: fastHost })).result
  const readNonce = async () => Number(await resultOf('eth_getTransactionCount', sender.address, 'latest'))
  for (let i = 0; i < 5; i++) {
    const nonce = await readNonce()
    const transaction = { type: 'eip1559', chainId: 31337, nonce, to: sender.address, gas: 21_000n, maxFeePerGas: 10n ** 11n } as const
    const hash = await resultOf('eth_sendRawTransaction', await sender.signTransaction(transaction))
    await waitUntil(async () => (await chain.request('eth_getTransactionReceipt', hash)) !== null)
    t.equal(await readNonce(), nonce + 1)
  }
})

t.test('with `devNode: true`, who changes a node reads the change at once, however rarely blocks come, and heights go back', async t => {
  const account = '0x00000000000000000000000000000000000000aa'
  const resultOf = async (method: string, ...params: readonly unknown[]) => (await call(url, method, params, { host: toolsHost })).result
  const balance = async () => Number(await resultOf('eth_getBalance', account, 'latest'))
  t.equal(await balance(), 0)
  const snapshot = await resultOf('evm_snapshot')
  for (const wei of [1, 2, 3]) {
    await resultOf('anvil_setBalance', account, `0x${wei}`)
    t.equal(await balance(), wei, 'the head is the same block')
  }
  const height = Number(await resultOf('eth_blockNumber'))
  await resultOf('evm_mine')
  t.equal(Number(await resultOf('eth_blockNumber')), height + 1)
  t.equal(await resultOf('evm_revert', snapshot), true)
  t.equal(await balance(), 0)
  t.equal(Number(await resultOf('eth_blockNumber')), height)
  const block = await resultOf('eth_getBlockByNumber', 'latest', false)
  t.equal(Number((block as { number: string }).number), height, 'no call waits for a block that is gone')
})

t.test('answers about finalized blocks are cache hits, until the chain is reset', async t => {
  const rpcRequest: RpcRequest = ['eth_getBlockByNumber', '0x5', false]
  await waitUntilEqual([rpcRequest])
  const before = await textOfNode(rpcRequest)
  for (let i = 0; i < 5; i++) {
    await chain.request('anvil_mine', '0x1')
    await waitUntilEqual([['eth_blockNumber']])
    t.same(await request(rpcRequest), { text: before, isHit: true })
  }
  await chain.request('anvil_reset')
  await chain.request('anvil_mine', '0x10')
  t.not(await textOfNode(rpcRequest), before)
  await waitUntilEqual([rpcRequest])
})

t.test('with `devNode: true` eth_blockNumber goes back with a reset', async t => {
  t.equal((await call(url, 'eth_blockNumber', [], { host: toolsHost })).result, '0x10')
})

t.test('/readyz?verbose shows the heads of the network and its nodes', async t => {
  const readNetworks = async () =>
    ((await (await fetch(`${gateway.admin}/readyz?verbose`)).json()) as { networks: readonly { readonly head?: number }[] }).networks
  await waitUntil(async () => (await readNetworks())[0]?.head === 16) // the next poll sees it
  t.match((await readNetworks())[0], { name: 'devnet', head: 16, upstreams: [{ name: 'node-1', head: 16, usable: true }] })
})

t.test('heads by subscription invalidate cached answers long before the next poll', async t => {
  const upstreams = [{ name: 'node-1', url: chain.url, ws: chain.url.replace('http', 'ws') }]
  const file = { ...networkFile('devnet', [], { failover: { upstreams } }), blockTime: '1m' }
  const { gateway, url } = await startGateway(t, { networks: { devnet: file } })
  const height = async () => {
    const { result } = await call(url, 'eth_getBlockByNumber', ['latest', false])
    return Number((result as { number: string }).number)
  }
  const status = async () => {
    const { networks } = (await gateway.get('/readyz?verbose')).json() as unknown as { networks: object[] }
    return networks[0] as { head?: number; upstreams: { subscribed?: boolean }[] }
  }
  await height()
  await waitUntil(async () => (await status()).upstreams[0]?.subscribed === true)
  const tookMs = await fastestMs(10_000, async () => {
    const [first, begun] = [await height(), performance.now()]
    for (let i = 1; i <= 5; i++) {
      await chain.request('evm_mine')
      await waitUntil(async () => (await height()) === first + i)
    }
    return performance.now() - begun
  })
  t.ok(tookMs < 10_000, 'five polls take 20 s')
  t.match(await status(), { head: await height(), upstreams: [{ subscribed: true, usable: true }] })
  t.equal(await gateway.stop(), 0, 'a subscription does not delay the stop')
})
