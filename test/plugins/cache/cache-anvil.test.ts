import t from 'tap'
import { deployEmitter, startAnvilChain } from '../../support/anvil-chain.ts'
import { createDeployment, networkFile } from '../../support/deployment.ts'
import { call, post } from '../../support/rpc-client.ts'

// A real node whose chain is turned back under a running gateway. By the network's file blocks take 1 s, polls 500 ms.

const chain = await startAnvilChain()
const emitter = await deployEmitter(chain)
await chain.request('anvil_mine', '0x64')
const deployment = createDeployment({ networks: { devnet: { ...networkFile('devnet', [chain.url]), blockTime: '1s' } } })
t.teardown(async () => {
  await deployment.remove()
  await chain.stop()
})
await deployment.addAccount('alice', 'custom')
const { key } = await deployment.addKey('alice')
const gateway = await deployment.start()
const url = gateway.http(key)

type Question = readonly [method: string, ...params: readonly unknown[]]

const ask = async (question: Question) => {
  const [method, ...params] = question
  const answer = await post(url, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
  const { result, error } = answer.json() as { result?: unknown; error?: unknown }
  const said = JSON.stringify(error === undefined ? result : 'an error')
  return { said, isHit: answer.headers['x-tollgate-cache'] === 'hit' }
}
const truth = async ([method, ...params]: Question) =>
  chain.request<unknown>(method, ...params).then(
    result => JSON.stringify(result),
    () => JSON.stringify('an error'),
  )

/** Asks until all answers are the node's own; resolves with the ms it took. */
const untilTrue = async (questions: readonly Question[]): Promise<number> => {
  const begun = performance.now()
  for (;;) {
    const said = await Promise.all(questions.map(ask))
    const wanted = await Promise.all(questions.map(truth))
    if (said.every((each, i) => each.said === wanted[i])) return performance.now() - begun
  }
}

/** Two polls of 500 ms, and a busy machine. */
const twoPollsMs = 1500

const about = (block: string, transaction: string): readonly Question[] => [
  ['eth_getStorageAt', emitter.address, '0x0', 'latest'],
  ['eth_getStorageAt', emitter.address, '0x0', block],
  ['eth_getLogs', { address: emitter.address, fromBlock: block }],
  ['eth_getLogs', { address: emitter.address, fromBlock: block, toBlock: block }],
  ['eth_getTransactionReceipt', transaction],
  ['eth_getBlockByNumber', block, false],
]

for (const [how, turnBack] of [
  ['evm_revert', async (snapshot: string) => void (await chain.request('evm_revert', snapshot))],
  ['anvil_reorg', async () => void (await chain.request('anvil_reorg', 1, []))],
] as const) {
  t.test(`storage, logs, receipts and blocks are right again within two polls of ${how}`, async t => {
    const snapshot = await chain.request('evm_snapshot')
    const { blockNumber, transactionHash } = await emitter.emitLogs(3)
    const questions = about(blockNumber, transactionHash)
    await untilTrue(questions)
    const before = await Promise.all(questions.map(truth))
    await turnBack(snapshot)
    await emitter.emitLogs(5)
    t.not(await truth(questions[0] as Question), before[0], 'the chain is another')
    const took = await untilTrue(questions)
    t.ok(took < twoPollsMs, `it took ${Math.round(took)} ms`)
    for (const [i, question] of questions.entries()) {
      t.equal((await ask(question)).said, await truth(question), `question ${i} stays right`)
    }
  })
}

t.test('answers about final blocks come from memory, until the chain is reset', async t => {
  const question: Question = ['eth_getBlockByNumber', '0x5', false]
  await untilTrue([question])
  const before = await truth(question)
  for (let i = 0; i < 5; i++) {
    await chain.request('anvil_mine', '0x1')
    await untilTrue([['eth_blockNumber']])
    t.same(await ask(question), { said: before, isHit: true })
  }
  await chain.request('anvil_reset')
  await chain.request('anvil_mine', '0x10')
  t.not((await ask(['eth_blockNumber'])).said, '"0x10"', 'the height does not go back at once')
  t.not(await truth(question), before)
  const took = await untilTrue([question])
  t.ok(took < twoPollsMs, `it took ${Math.round(took)} ms`)
})

t.test('eth_blockNumber goes back a few polls after a reset', async t => {
  const took = await untilTrue([['eth_blockNumber']])
  t.ok(took < 2 * twoPollsMs, `it took ${Math.round(took)} ms`)
  t.match((await call(url, 'eth_blockNumber')).result, '0x10')
})

t.test('/readyz?verbose says where the network and its nodes are', async t => {
  const [network] = ((await (await fetch(`${gateway.admin}/readyz?verbose`)).json()) as { networks: object[] }).networks
  t.match(network, { name: 'devnet', head: 16, upstreams: [{ name: 'node-1', head: 16, usable: true }] })
})

t.test('heads by subscription end what was kept long before the next poll', async t => {
  const upstreams = [{ name: 'node-1', url: chain.url, ws: chain.url.replace('http', 'ws') }]
  const file = { ...networkFile('devnet', [], { failover: { upstreams } }), blockTime: '1m' }
  const slow = createDeployment({ networks: { devnet: file } })
  t.teardown(() => slow.remove())
  await slow.addAccount('bob')
  const { key } = await slow.addKey('bob')
  const gateway = await slow.start()
  const height = async () => {
    const answer = await post(
      gateway.http(key),
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBlockByNumber', params: ['latest', false] }),
    )
    return Number((answer.json().result as { number: string }).number)
  }
  const status = async () => {
    const { networks } = (await post(`${gateway.admin}/readyz?verbose`, '', { method: 'GET' })).json() as unknown as { networks: object[] }
    return networks[0] as { head?: number; upstreams: { subscribed?: boolean }[] }
  }
  const first = await height()
  while (!(await status()).upstreams[0]?.subscribed);
  for (let i = 1; i <= 5; i++) {
    await chain.request('evm_mine')
    const begun = performance.now()
    while ((await height()) !== first + i);
    t.ok(performance.now() - begun < 1000, 'polls come each 5 s')
  }
  t.match(await status(), { head: first + 5, upstreams: [{ subscribed: true, usable: true }] })
  t.equal(await gateway.stop(), 0, 'a subscription keeps nobody from stopping')
})
