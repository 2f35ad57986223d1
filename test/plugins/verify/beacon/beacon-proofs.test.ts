import { headerHashOf } from '../../../../plugins/verify/block-header.ts'
import { slotAt } from '../../../../plugins/verify/beacon/beacon-chain.ts'
import { Secret } from '../../../../src/plugin/secret.ts'
import type { Json } from '../../../../src/plugin/call.ts'
import { isFailure } from '../../../../src/plugin/reply.ts'
import { toHexQuantity } from '../../../../src/util/json.ts'
import { harness } from '../../../../src/testing/index.ts'
import { deployEmitter, startAnvilChain } from '../../../support/anvil-chain.ts'
import { TestClock } from '../../../support/fakes.ts'
import t from '../../../support/tap.ts'
import { waitUntil } from '../../../support/wait-until.ts'
import { openProofs } from '../proof-fixture.ts'
import type { Node } from '../proof-fixture.ts'
import type { JsonMembers } from '../verify-fixture.ts'
import { ModelBeacon, checkpointAt, honestAnswers, startBeaconNode } from './model-beacon.ts'
import type { ModelBlock } from './model-beacon.ts'

const model = new ModelBeacon()
const balanceOf = (address: string, block: Json) => ['eth_getBalance', address, block] as const

t.test('headers that the beacon chain proves', async t => {
  const [chain, forgedChain] = await Promise.all([startAnvilChain(), startAnvilChain()])
  t.teardown(() => Promise.all([chain.stop(), forgedChain.stop()]))
  const account = (await chain.request<string[]>('eth_accounts')).at(-1)!
  const emitter = await deployEmitter(chain)
  await emitter.emitLogs(1)
  for (const each of [chain, forgedChain]) await each.request('anvil_mine', '0x20')
  await forgedChain.request('anvil_setBalance', account, '0x1')
  const forgedEmitter = await deployEmitter(forgedChain)
  await forgedEmitter.emitLogs(2)
  await forgedChain.request('anvil_mine', '0x40')
  await forgedEmitter.emitLogs(3)
  await chain.request('anvil_setBalance', account, '0x777')
  await chain.request('anvil_mine', '0x20')
  await emitter.emitLogs(1)
  const head = Number(await chain.request<string>('eth_blockNumber'))
  const hashOf = async (number: number) =>
    String((await chain.request<JsonMembers>('eth_getBlockByNumber', toHexQuantity(number), false))['hash'])
  const finalBlock = { hash: await hashOf(head - 20), number: head - 20 }
  const [signedHash, headHash] = [await hashOf(head - 1), await hashOf(head)]

  const honest: Node = ({ method, params }) => chain.request<Json>(method, ...params)
  /** A node with another chain, right in itself. It says the same of any hash. */
  const forging: Node = ({ method, params }) => forgedChain.request<Json>(method, ...params).catch(() => undefined)
  const lacking: Node = async request => (request.method === 'eth_getBlockByHash' ? null : forging(request))

  interface World {
    /** The block that is signed in each slot. */
    signed?: ModelBlock | undefined
    readonly otherwise?: 'refuse' | 'agree'
    readonly polledHead?: number
    readonly knownHead?: number
    readonly isDown?: boolean
    readonly hasFailover?: boolean
    readonly agree?: number
    readonly policies?: Readonly<Record<string, string>>
  }

  const open = async (
    t: { teardown(run: () => unknown): void },
    nodes: Readonly<Record<string, Node>>,
    {
      signed = { hash: signedHash, number: head - 1 },
      otherwise = 'refuse',
      polledHead = head,
      knownHead = head,
      isDown = false,
      ...options
    }: World = {},
  ) => {
    const clock = new TestClock()
    let block = signed
    const answers = honestAnswers(model, { now: () => gateway.clock.now(), block: () => block, finalBlock })
    const node = await startBeaconNode((path, request) => (isDown ? undefined : answers(path, request)))
    t.teardown(() => node.stop())
    const checkpoint = checkpointAt(model, slotAt(model.chain, clock.now()) - 200)
    const gateway = openProofs(nodes, {
      ...options,
      head: () => knownHead,
      reportedHeight: knownHead,
      polledHeads: () => Object.fromEntries(Object.keys(nodes).map(name => [name, { number: polledHead, hash: headHash }])),
      beacon: { url: new Secret(node.url), headers: {}, checkpoint, maxCheckpointAge: 86_400_000, otherwise },
    })
    t.teardown(() => gateway.stop())
    await gateway.start()
    gateway.clock.advance(0)
    const updates = () => node.requests.filter(each => each === 'optimistic_update').length
    await waitUntil(() => (isDown ? gateway.log.lines.length > 0 : updates() > 0 && gateway.clock.timerCount > 0))
    return {
      ...gateway,
      /** The next slot has this signed block. */
      async sign(next: ModelBlock): Promise<void> {
        block = next
        const before = updates()
        for (let waited = 0; updates() <= before || waited < 3; waited++) {
          await gateway.call(...balanceOf(account, toHexQuantity(1)))
          await waitUntil(() => gateway.clock.timerCount > 0)
          gateway.clock.advance(4_000)
          await new Promise(resolve => setTimeout(resolve, 20))
        }
        await waitUntil(() => gateway.clock.timerCount > 0)
      },
    }
  }

  const truth = '0x777'

  t.test('are right although all nodes have the same forged chain, in each method', async t => {
    const forgedHead = Number(await forgedChain.request<string>('eth_blockNumber'))
    const forgedNumber = toHexQuantity(forgedHead)
    const { transactions } = await forgedChain.request<{ readonly transactions: readonly string[] }>(
      'eth_getBlockByNumber',
      forgedNumber,
      false,
    )
    const contract = forgedEmitter.address
    const questions: readonly (readonly [string, ...Json[]])[] = [
      balanceOf(account, 'latest'),
      balanceOf(account, forgedNumber),
      ['eth_getTransactionCount', contract, 'latest'],
      ['eth_getCode', contract, forgedNumber],
      ['eth_getStorageAt', contract, '0x0', 'latest'],
      ['eth_getBlockByNumber', 'latest', false],
      ['eth_getBlockByNumber', forgedNumber, true],
      ['eth_getBlockReceipts', forgedNumber],
      ['eth_getTransactionByBlockNumberAndIndex', forgedNumber, '0x0'],
      ['eth_getTransactionByHash', transactions[0]!],
      ['eth_getTransactionReceipt', transactions[0]!],
      ['eth_getLogs', { address: contract, fromBlock: toHexQuantity(forgedHead - 4), toBlock: 'latest' }],
      ['eth_getLogs', { address: contract, fromBlock: toHexQuantity(forgedHead - 4), toBlock: forgedNumber }],
    ]
    const nodes = { one: forging, two: forging, three: forging }
    const signed = { hash: signedHash, number: forgedHead + 1 }
    for (const question of questions) {
      const what = JSON.stringify(question)
      const agreeing = openProofs(nodes, { agree: 3, head: () => forgedHead, reportedHeight: forgedHead })
      t.match(await agreeing.reply(...question), { verified: 'proof' }, `nodes that agree deceive: ${what}`)
      for (const otherwise of ['refuse', 'agree'] as const) {
        const gateway = await open(t, nodes, { signed, knownHead: forgedHead, otherwise })
        t.match(await gateway.reply(...question), { error: { code: -32002 } }, `${otherwise}: ${what}`)
      }
    }
  })

  t.test('are right although all nodes lie together, and the lie is kept as evidence', async t => {
    const nodes = { one: forging, two: forging, three: forging }
    t.equal(await openProofs(nodes).call(...balanceOf(account, 'latest')), '0x1', 'nodes that agree deceive')
    t.equal(await openProofs(nodes, { agree: 3 }).call(...balanceOf(account, 'latest')), '0x1')
    const gateway = await open(t, nodes)
    const reply = await gateway.reply(...balanceOf(account, 'latest'))
    t.match(reply, { error: { code: -32002 }, fault: 'gateway', cause: /beacon chain does not prove/ })
    t.match(gateway.log.lines, [{ fields: { event: 'beacon-block-missing', block: signedHash }, message: /no upstream has the block/ }])
    t.same(gateway.evidence, [], 'they may be behind')
    for (let slot = 0; slot < 7; slot++) await gateway.sign({ hash: signedHash, number: head - 1 })
    await waitUntil(() => gateway.evidence.length >= 3)
    t.same(new Set(gateway.evidence.map(({ upstream }) => upstream)), new Set(['one', 'two', 'three']))
    t.match(gateway.evidence[0], {
      cause: /the block that the beacon chain has is missing/,
      request: { method: 'eth_getBlockByHash', params: [signedHash, false] },
      header: null,
    })
    t.equal(await gateway.call(...balanceOf(account, 'latest')), undefined)
  })

  t.test('are right where one node of three is', async t => {
    const nodes = { one: lacking, honest, three: lacking }
    t.equal(await openProofs(nodes).call(...balanceOf(account, 'latest')), '0x1', 'two of three deceive')
    const gateway = await open(t, nodes, { hasFailover: true })
    t.equal(await gateway.call(...balanceOf(account, 'latest')), truth)
    t.equal(await gateway.call(...balanceOf(account, toHexQuantity(head - 1))), truth)
    t.match(gateway.explain('eth_getBalance'), { text: [/that the beacon chain proves/] })
  })

  t.test('are not asked for again until there is a new one, and no node says which they are', async t => {
    const gateway = await open(t, { one: honest, two: honest })
    gateway.requests.length = 0
    for (let i = 0; i < 3; i++) t.equal(await gateway.call(...balanceOf(account, 'latest')), truth)
    t.same(gateway.requests.filter(each => !each.endsWith('eth_getProof')).toSorted(), ['one eth_getBlockByHash', 'two eth_getBlockByHash'])
  })

  t.test('of a node that is behind are no evidence', async t => {
    const gateway = await open(
      t,
      { honest, behind: async request => (request.method === 'eth_getBlockByHash' ? null : honest(request)) },
      { polledHead: head - 2 },
    )
    for (let slot = 0; slot < 7; slot++) await gateway.sign({ hash: signedHash, number: head - 1 })
    t.equal(await gateway.call(...balanceOf(account, 'latest')), truth)
    t.same(gateway.evidence, [])
  })

  t.test('of the newest block are those of the newest signed one', async t => {
    const gateway = await open(t, { one: honest, two: honest })
    const reply = await gateway.reply('eth_getBlockByNumber', 'latest', false)
    t.notOk(isFailure(reply))
    t.match(reply, { verified: 'proof' })
    t.match(await gateway.call('eth_getBlockByNumber', 'latest', false), { hash: signedHash })
    await gateway.sign({ hash: headHash, number: head })
    t.match(await gateway.call('eth_getBlockByNumber', 'latest', false), { hash: headHash })
  })

  /** The reply once the time is over that is waited for a signature. */
  const replyInTime = async (gateway: Awaited<ReturnType<typeof open>>, method: string, ...params: readonly Json[]) => {
    let isDone = false
    const reply = gateway.reply(method, ...params).finally(() => (isDone = true))
    while (!isDone) {
      await new Promise(resolve => setTimeout(resolve, 5))
      gateway.clock.advance(500)
    }
    return reply
  }

  t.test('of a block that is not signed yet are refused, unless it is enough that nodes agree', async t => {
    const ofHead = balanceOf(account, toHexQuantity(head))
    const strict = await open(t, { one: honest, two: honest })
    t.match(await replyInTime(strict, ...ofHead), { error: { code: -32002 } })
    const { transactions } = await chain.request<JsonMembers>('eth_getBlockByNumber', toHexQuantity(head), false)
    t.match(await replyInTime(strict, 'eth_getTransactionReceipt', (transactions as string[])[0]!), { error: { code: -32002 } })
    const logs = { fromBlock: toHexQuantity(head), toBlock: 'latest' }
    t.match(await strict.reply('eth_getLogs', logs), { error: { code: -32002 } }, 'that it has no logs is not said')
    const lenient = await open(t, { one: honest, two: honest }, { otherwise: 'agree' })
    const reply = await lenient.reply(...ofHead)
    t.match(reply, { verified: 'quorum' })
    t.match(await lenient.reply(...balanceOf(account, 'latest')), { verified: 'proof' })
    t.match(await lenient.reply('eth_getTransactionReceipt', (transactions as string[])[0]!), { verified: 'quorum' })
    const alone = await open(t, { one: honest, two: forging }, { otherwise: 'agree' })
    t.match(await alone.reply(...ofHead), { error: { code: -32002 } }, 'nodes must agree')
  })

  t.test('of earlier blocks are parents, or have the hash that the state has', async t => {
    const gateway = await open(t, { one: honest, two: honest })
    for (const number of [head - 2, head - 4, head - 10, 2]) {
      const block = await gateway.call('eth_getBlockByNumber', toHexQuantity(number), false)
      t.match(block, { hash: await hashOf(number) }, String(number))
    }
    t.equal(gateway.requests.filter(each => each === 'one eth_getProof').length, 2, 'one for each that is far')
    const liar = await open(t, { one: forging, two: forging, honest }, { hasFailover: true })
    t.match(await liar.call('eth_getBlockByNumber', '0x5', false), { hash: await hashOf(5) })
    const wrongSlot: Node = async request =>
      honest(
        request.method === 'eth_getProof'
          ? { ...request, params: [request.params[0]!, [`0x${'0'.repeat(63)}6`], request.params[2]!] }
          : request,
      )
    const wrong = await open(t, { one: wrongSlot, two: wrongSlot })
    t.equal(await wrong.call('eth_getBlockByNumber', '0x5', false), undefined)
  })

  t.test('and proven logs are those of all their blocks', async t => {
    const gateway = await open(t, { one: honest, two: honest })
    await gateway.sign({ hash: headHash, number: head })
    const filter = { address: emitter.address, fromBlock: toHexQuantity(head - 5), toBlock: 'latest' }
    const reply = await gateway.reply('eth_getLogs', filter)
    t.match(reply, { verified: 'proof' })
    t.same(await gateway.call('eth_getLogs', filter), await chain.request('eth_getLogs', filter))
  })

  t.test('`finalized` is the block that the beacon chain has as final, whatever nodes say', async t => {
    const saying =
      (number: number): Node =>
      request =>
        honest(request.params[0] === 'finalized' ? { ...request, params: [toHexQuantity(number), false] } : request)
    for (const number of [2, head]) {
      const gateway = await open(t, { one: saying(number), two: saying(number) })
      const reply = await gateway.reply('eth_getBlockByNumber', 'finalized', false)
      t.match(reply, { verified: 'proof' })
      t.match(await gateway.call('eth_getBlockByNumber', 'finalized', false), { hash: finalBlock.hash })
    }
    const lenient = await open(t, { one: saying(2), two: saying(2) }, { isDown: true, otherwise: 'agree' })
    t.match(await lenient.call('eth_getBlockByNumber', 'finalized', false), { number: '0x2' }, 'else as nodes say')
  })

  t.test('and logs of subscriptions are those of blocks that are signed', async t => {
    const gateway = await open(t, { one: honest, two: honest })
    const newest = await chain.request<JsonMembers>('eth_getBlockByNumber', toHexQuantity(head), false)
    let logs: Json | undefined
    let isDone = false
    void gateway.feedLogs(newest).then(found => {
      logs = found
      isDone = true
    })
    while (!isDone) {
      await new Promise(resolve => setTimeout(resolve, 5))
      gateway.clock.advance(500)
    }
    t.equal(logs, undefined)
    await gateway.sign({ hash: headHash, number: head })
    t.match(await gateway.feedLogs(newest), [{ blockHash: headHash }])
  })

  t.test('are refused while the consensus node does not answer, unless it is enough that nodes agree', async t => {
    const down = await open(t, { one: honest, two: honest }, { isDown: true })
    t.match(await down.reply(...balanceOf(account, 'latest')), { error: { code: -32002 } })
    t.match(await down.reply(...balanceOf(account, signedHash)), { verified: 'proof' }, 'a block that the caller names by its hash')
    t.match(down.log.lines[0], { fields: { event: 'beacon-unavailable' } })
    const lenient = await open(t, { one: honest, two: honest }, { isDown: true, otherwise: 'agree' })
    t.match(await lenient.reply(...balanceOf(account, 'latest')), { verified: 'quorum' })
  })

  t.test('of blocks that the state has no hash of are refused, unless it is enough that nodes agree', async t => {
    const block = await chain.request<JsonMembers>('eth_getBlockByNumber', toHexQuantity(head), false)
    const number = 10_000
    const far = { ...block, number: toHexQuantity(number) }
    const farHash = headerHashOf(far)
    const node: Node = async request => (request.params[0] === farHash ? { ...far, hash: farHash } : honest(request).catch(() => undefined))
    const signed = { hash: farHash, number }
    const strict = await open(t, { one: node, two: node }, { signed, knownHead: number })
    const proofs = () => strict.requests.filter(each => each === 'one eth_getProof').length
    t.match(await strict.reply('eth_getBlockByNumber', toHexQuantity(number - 8192), false), { error: { code: -32002 } })
    t.equal(proofs(), 0)
    t.match(await strict.reply('eth_getBlockByNumber', toHexQuantity(number - 8191), false), { error: { code: -32002 } })
    t.equal(proofs(), 1)
    const lenient = await open(t, { one: node, two: node }, { signed, knownHead: number, otherwise: 'agree' })
    t.match(await lenient.reply('eth_getBlockByNumber', '0x3', false), { verified: 'quorum' })
  })
})

t.test('a beacon chain that cannot be followed is a problem of the configuration', async t => {
  const checkpoint = `0x${'ab'.repeat(32)}`
  const check = (beacon: string, chainId = 1, upstreams = '{ name: own, url: http://own.test }') =>
    harness({
      network: { chainId },
      pipeline: `
- failover: { upstreams: [${upstreams}] }
- verify: { methods: { eth_getBalance: proof }, beacon: ${beacon} }
- upstream: {}`,
      upstreams: { own: {} },
    })
  await t.rejects(check('{ url: http://127.0.0.1:9 }'), /checkpoint/)
  await t.rejects(check(`{ checkpoint: '${checkpoint}' }`), /url/)
  await t.rejects(check("{ url: http://127.0.0.1:9, checkpoint: '0x12' }"), /the root of a beacon block: 0x and 64 hex digits/)
  await t.rejects(check(`{ url: ftp://127.0.0.1, checkpoint: '${checkpoint}' }`), /http:\/\/ or https:\/\//)
  await t.rejects(check(`{ url: http://127.0.0.1:9, checkpoint: '${checkpoint}', otherwise: trust }`), /refuse/)
  await t.rejects(
    check(`{ url: http://127.0.0.1:9, checkpoint: '${checkpoint}' }`, 10),
    /the beacon chain of chain 10 is not known: a light client is for the chains 1, 11155111, 560048/,
  )
  await t.rejects(
    check(
      `{ url: http://127.0.0.1:9, checkpoint: '${checkpoint}' }`,
      1,
      '{ name: own, url: http://own.test, methods: [eth_getBlock*, eth_getBalance] }',
    ),
    /needs eth_getProof/,
  )
  const gateway = await check(`{ url: http://127.0.0.1:9/secret-key, checkpoint: '${checkpoint}' }`)
  await gateway.stop()
})
