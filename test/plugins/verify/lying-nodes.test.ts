import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { harness } from '../../../src/testing/index.ts'
import type { Harness } from '../../../src/testing/index.ts'
import type { FakeUpstream } from '../../../src/testing/fake-upstreams.ts'
import { startAnvilChain } from '../../support/anvil-chain.ts'
import { Readmission } from '../../../plugins/verify/readmission.ts'
import type { Result } from '../../../src/plugin/reply.ts'
import { NodeTrust } from '../../../src/services/node-trust.ts'
import { TestLog, fakeResult } from '../../support/fakes.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { answerAt, createBlock } from './model-blocks.ts'
import type { ModelBlock } from './model-blocks.ts'
import { openProofs } from './proof-fixture.ts'
import type { Node } from './proof-fixture.ts'
import type { JsonMembers } from './verify-fixture.ts'

t.test('a node that lied', async t => {
  const chain = await startAnvilChain()
  t.teardown(() => chain.stop())
  const [account = '', other = ''] = await chain.request<string[]>('eth_accounts')
  await chain.request('anvil_mine', '0x3')
  const blocks = await Promise.all([0, 1, 2, 3].map(number => chain.request<JsonMembers>('eth_getBlockByNumber', `0x${number}`, false)))
  const proofOf = new Map<string, Json>()
  for (const address of [account, other]) proofOf.set(address, await chain.request<Json>('eth_getProof', address, [], '0x3'))
  const balance = await chain.request<string>('eth_getBalance', account, '0x3')

  /** While it lies, it proves the balance of another account. */
  const node = (lies: () => boolean, branch: () => readonly JsonMembers[] = () => blocks): FakeUpstream => ({
    eth_blockNumber: { result: '0x3' },
    eth_getBlockByNumber: ({ params }) => {
      const [named] = params as [string]
      return { result: branch().at(/^0x/.test(named) ? Number(named) : -1) ?? null }
    },
    eth_getProof: ({ params }) => {
      const [address] = params as [string]
      return { result: proofOf.get(lies() ? other : address)! }
    },
    eth_gasPrice: { result: '0x1' },
    eth_getTransactionCount: { result: '0x0' },
  })
  const open = (upstreams: Readonly<Record<string, FakeUpstream>>, options = '') =>
    harness({
      network: { chainId: 1 },
      pipeline: `
- failover: { upstreams: [${Object.keys(upstreams)
        .map(name => `{ name: ${name}, url: http://${name}.test }`)
        .join(', ')}] }
- verify: { methods: { eth_getBalance: proof }${options} }
- upstream: {}`,
      upstreams,
    })
  const question = [account, '0x3']
  const eventsOf = ({ log }: Pick<Harness, 'log'>, event: string) =>
    log.lines.filter(({ fields }) => (fields as Readonly<Record<string, unknown>>)['event'] === event)

  t.test('gets no calls of the class until it has answered right 100 times beside another', async t => {
    let isLying = true
    const gateway = await open({ liar: node(() => isLying), honest: node(() => false) })
    const proofsOf = (name: string) =>
      gateway.requests.filter(({ upstream, method }) => upstream === name && method === 'eth_getProof').length
    t.match(await gateway.call('eth_getBalance', question), { result: balance, upstream: 'honest', verified: 'proof' })
    t.ok(gateway.metric('tollgate_upstream_lies_total', { upstream: 'liar' }) > 0)
    t.equal(gateway.metric('tollgate_upstream_reduced', { upstream: 'liar', class: 'light', reason: 'lied' }), 1)
    t.match(eventsOf(gateway, 'upstream-lied'), [
      { fields: { upstream: 'liar', class: 'light', cause: 'the proof does not lead to the state root of the block' } },
    ])
    t.match(await gateway.call('eth_gasPrice'), { upstream: 'honest' }, 'another method of the class')
    for (let i = 0; i < 10; i++) await gateway.call('eth_getBalance', question)
    t.ok(proofsOf('liar') > 10, 'it is sent what the other has proven')
    isLying = false
    const before = proofsOf('liar')
    for (let i = 0; i < 99; i++) t.match(await gateway.call('eth_getBalance', question), { upstream: 'honest' })
    await gateway.advance('1s')
    t.equal(proofsOf('liar') - before, 99)
    await gateway.call('eth_getBalance', question)
    await gateway.advance('1s')
    t.match(eventsOf(gateway, 'upstream-readmitted'), [{ fields: { upstream: 'liar', class: 'light' } }])
    t.match(await gateway.call('eth_getBalance', question), { result: balance, upstream: 'liar' })
    t.match(await gateway.call('eth_gasPrice'), { upstream: 'liar' })
    await gateway.stop()
  })

  t.test('gets none at all with readmit: false', async t => {
    let isLying = true
    const gateway = await open({ liar: node(() => isLying), honest: node(() => false) }, ', readmit: false')
    await gateway.call('eth_getBalance', question)
    isLying = false
    for (let i = 0; i < 110; i++) await gateway.call('eth_getBalance', question)
    t.match(await gateway.call('eth_getBalance', question), { upstream: 'honest' })
    await gateway.stop()
  })

  t.test(
    'is asked for what it can prove where all have lied, at first now and then, and gets all calls after 100 right answers',
    async t => {
      for (const names of [['liar'], ['liar', 'other']]) {
        let isLying = true
        const gateway = await open(Object.fromEntries(names.map(name => [name, node(() => isLying)])))
        const asked = () => gateway.requests.filter(({ method }) => method === 'eth_getProof' || method === 'eth_gasPrice').length
        const refused = { error: { code: -32002 }, status: 503 }
        for (let i = 0; i < 2; i++) t.match(await gateway.call('eth_getBalance', question), refused)
        t.equal(eventsOf(gateway, 'upstream-lied').length, names.length)
        const before = asked()
        for (let i = 0; i < 5; i++) t.match(await gateway.call('eth_getBalance', question), refused)
        t.equal(asked(), before, 'no node is asked before the back-off is over')
        isLying = false
        await gateway.advance('1s')
        t.match(await gateway.call('eth_gasPrice'), refused, 'nothing proves it')
        t.equal(gateway.requests.filter(({ method }) => method === 'eth_gasPrice').length, 0)
        for (let i = 0; i < 100; i++) t.match(await gateway.call('eth_getBalance', question), { result: balance, verified: 'proof' })
        await gateway.advance('1s')
        t.ok(eventsOf(gateway, 'upstream-readmitted').length >= 1)
        t.match(await gateway.call('eth_gasPrice'), { result: '0x1' })
        await gateway.stop()
      }
    },
  )

  t.test('is asked for nothing with readmit: false, also where it is the only one', async t => {
    let isLying = true
    const gateway = await open({ liar: node(() => isLying) }, ', readmit: false')
    t.match(await gateway.call('eth_getBalance', question), { error: { code: -32002 } })
    isLying = false
    const before = gateway.requests.filter(({ method }) => method === 'eth_getProof').length
    t.match(await gateway.call('eth_getBalance', question), { error: { code: -32002 }, status: 503 })
    t.match(await gateway.call('eth_gasPrice'), { error: { code: -32002 }, status: 503 })
    t.equal(gateway.requests.filter(({ method }) => method === 'eth_getProof').length, before)
    await gateway.stop()
  })

  t.test('is none that is on another branch, or comes to this one while it is asked', async t => {
    const fork = blocks.with(3, { ...blocks[2]!, number: '0x3' })
    const forked = await open({
      one: node(
        () => true,
        () => fork,
      ),
      two: node(() => false),
      three: node(() => false),
    })
    t.match(await forked.call('eth_getBalance', question), { result: balance })
    t.equal(eventsOf(forked, 'upstream-lied').length, 0)
    await forked.stop()
    let asked = 0
    const late = node(() => (asked += 1) === 1)
    const coming = await open({ one: late, two: node(() => false), three: node(() => false) })
    t.match(await coming.call('eth_getBalance', question), { result: balance, upstream: 'one' })
    t.equal(eventsOf(coming, 'upstream-lied').length, 0)
    await coming.stop()
  })
})

t.test('a node that lied is not trusted as long as a pipeline proves something of the class', t => {
  const trust = new NodeTrust()
  const isDistrusted = () => ['light', 'heavy'].map(methodClass => trust.isDistrusted('liar', methodClass))
  const endFirst = trust.beginProving(['light', 'heavy'])
  for (const methodClass of ['light', 'heavy']) trust.distrust('liar', methodClass, { isForGood: true })
  const endSecond = trust.beginProving(['heavy'])
  t.same(isDistrusted(), [true, true], 'the first pipeline still answers calls')
  for (let i = 0; i < 2; i++) endFirst()
  t.same(isDistrusted(), [false, true])
  endSecond()
  t.same(isDistrusted(), [false, false])
  t.end()
})

t.test('a bug while a node that lied is compared with others is logged, and ends nothing', async t => {
  const log = new TestLog()
  const trust = { isDistrusted: () => true, recordRight: () => false, reload: async () => undefined }
  const services = { log, nodes: { trust } } as unknown as ConstructorParameters<typeof Readmission>[1] // what it uses of them
  const readmission = new Readmission(
    { proveAlone: () => Promise.reject(new Error('a bug')), recordIfRight: (_upstream, _class, ask) => ask() },
    services,
  )
  const [call, method] = [{ context: { upstreams: [{ name: 'liar' }] } }, { class: 'light' }] as unknown as [
    Parameters<Readmission['begin']>[1],
    Parameters<Readmission['begin']>[2],
  ]
  readmission.begin(fakeResult('0x1', { upstream: 'honest' }) as Result, call, method, () => Promise.reject(new Error('not called')))
  await waitUntil(() => log.lines.length > 0)
  t.match(log.lines, [{ fields: { upstream: 'liar', err: { message: 'a bug' } } }])
})

t.test('on a chain that is not known to be as Ethereum', async t => {
  let numbers = 1
  const random = () => (numbers = (numbers * 48_271) % 2_147_483_647) / 2_147_483_647
  const blockWithLogs = (parent?: ModelBlock): ModelBlock => {
    const block = createBlock(parent, random)
    return block.logs.length > 1 ? block : blockWithLogs(block)
  }
  const tip = blockWithLogs()
  const [number] = [tip.header['number']!]
  const query = { fromBlock: number, toBlock: number }
  const node =
    (receiptsOf: (receipts: readonly JsonMembers[]) => Json | undefined): Node =>
    async ({ method, params }) => {
      const value = answerAt(tip, { method, params })
      return method === 'eth_getBlockReceipts' ? receiptsOf(value as readonly JsonMembers[]) : value // of the model
    }
  const open = (nodes: Readonly<Record<string, Node>>) => openProofs(nodes, { chainId: 5, head: () => tip.number, hasFailover: true })
  const honest = node(receipts => receipts)
  const withoutLast = (receipts: readonly JsonMembers[]) => receipts.slice(0, -1)
  /** As of a bridge: a receipt that is under no root. */
  const bridging = node(receipts => [...receipts, { ...receipts[0]!, transactionIndex: '0xff' }])
  const eventsOf = (log: TestLog) => log.lines.map(({ fields }) => (fields as Readonly<Record<string, unknown>>)['event'])

  t.test('a node is blamed once another has proven the same', async t => {
    const { call, log } = open({ liar: node(withoutLast), honest })
    t.same(await call('eth_getLogs', query), tip.logs)
    t.match(log.lines, [
      { message: /^result of upstream refused/, fields: { upstream: 'liar' } },
      { message: 'upstream returned a wrong result', fields: { upstream: 'liar', cause: /receipts are not those of the header/ } },
      { fields: { event: 'upstream-lied', upstream: 'liar' } },
    ])
  })

  t.test('nobody is blamed where all fail in the same way: nothing is returned, and the log says once what to do', async t => {
    const { call, log } = open({ one: bridging, two: bridging })
    for (let i = 0; i < 3; i++) t.equal(await call('eth_getLogs', query), undefined)
    t.match(log.lines, [
      { message: /^result of upstream refused/, fields: { upstream: 'one' } },
      { message: /give eth_getLogs the policy `check`$/, fields: { event: 'chain-not-provable', method: 'eth_getLogs' } },
    ])
    t.equal(log.lines.length, 2)
  })

  t.test('a liar beside a node that is down gets no lie through, nor the chain blamed, and is blamed once the other proves it', async t => {
    let isDown = true
    const { call, log } = open({ liar: node(withoutLast), second: node(receipts => (isDown ? undefined : receipts)) })
    t.equal(await call('eth_getLogs', query), undefined)
    t.same(eventsOf(log), [undefined])
    isDown = false
    t.same(await call('eth_getLogs', query), tip.logs)
    t.match(eventsOf(log).at(-1), 'upstream-lied')
  })

  t.test('a liar that fails otherwise than the others hides no cause, and blames none of them', async t => {
    const { call, log } = open({ liar: node(() => []), one: bridging })
    t.equal(await call('eth_getBlockReceipts', number), undefined)
    t.notOk(eventsOf(log).includes('upstream-lied'))
    const byOne = open({ one: bridging, liar: node(receipts => receipts.map(each => ({ ...each, blockHash: '0x' }))) })
    t.equal(await byOne.call('eth_getBlockReceipts', number), undefined)
    t.same(eventsOf(byOne.log), [undefined, undefined], 'they fail in different ways')
  })
})

t.test('what counts as right of a node that lied', async t => {
  const parent = createBlock(undefined, () => 0.6)
  const tip = createBlock(parent, () => 0.6)
  const number = tip.header['number']!
  const query = { fromBlock: number, toBlock: number }
  const final = { fromBlock: 'finalized', toBlock: 'finalized' }
  /** Once the liar no longer lies, it names `finalized` as the finalized block, and has receipts as `change` makes them. */
  const open = async (first: 'liar' | 'honest', finalized = tip, change = (receipt: JsonMembers): JsonMembers => receipt) => {
    let isLying = true
    const node =
      (finalBlock: ModelBlock, receiptsOf: (receipts: readonly JsonMembers[]) => Json): Node =>
      async ({ method, params: [named, ...others] }) => {
        const value = answerAt(tip, { method, params: [named === 'finalized' ? finalBlock.header['number']! : named!, ...others] })
        return method === 'eth_getBlockReceipts' ? receiptsOf(value as readonly JsonMembers[]) : value // of the model
      }
    const liar = node(finalized, receipts => (isLying ? [] : receipts.map(change)))
    const honest = node(tip, receipts => receipts)
    const { call, callFrom, log } = openProofs(first === 'liar' ? { liar, honest } : { honest, liar }, {
      head: () => tip.number,
      hasFailover: true,
    })
    const hasLogged = (event: string) => log.lines.some(({ fields }) => (fields as Readonly<Record<string, unknown>>)['event'] === event)
    const callOften = async (filter: JsonMembers) => {
      for (let i = 0; i < 100; i++) {
        await call('eth_getLogs', filter)
        for (let turns = 0; turns < 20; turns++) await new Promise(resolve => setImmediate(resolve)) // no call waits for the liar
      }
    }
    await callFrom('liar', 'eth_getLogs', query)
    t.ok(hasLogged('upstream-lied'))
    isLying = false
    return { callOften, isReadmitted: () => hasLogged('upstream-readmitted') }
  }

  t.test('is what it has proven, not what others have proven before, or what blooms show', async t => {
    const beside = await open('honest')
    await beside.callOften({ ...query, address: `0x${'99'.repeat(20)}` })
    t.notOk(beside.isReadmitted(), 'no node has been asked')
    await beside.callOften(query)
    t.ok(beside.isReadmitted())
    const alone = await open('liar')
    await alone.callOften(query)
    t.notOk(alone.isReadmitted(), 'the receipts are cached')
  })

  t.test('is the same as of others, but for what clients add and leave out', async t => {
    const ofOlderBlock = await open('honest', parent)
    await ofOlderBlock.callOften(final)
    t.notOk(ofOlderBlock.isReadmitted(), 'its logs are proven, and not those that others name')
    const ofOtherClient = await open('honest', tip, receipt => ({
      ...receipt,
      logs: (receipt['logs'] as readonly JsonMembers[]).map(({ removed: _, ...log }) => ({
        ...log,
        transactionLogIndex: '0x0',
        address: String(log['address']).toUpperCase().replace('X', 'x'),
      })),
    }))
    await ofOtherClient.callOften(final)
    t.ok(ofOtherClient.isReadmitted())
  })
})
