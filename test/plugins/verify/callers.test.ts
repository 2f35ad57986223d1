import { definition } from '../../../plugins/verify/definition.ts'
import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { harness } from '../../../src/testing/index.ts'
import type { HarnessOptions } from '../../../src/testing/index.ts'
import type { FakeUpstream } from '../../../src/testing/fake-upstreams.ts'
import { account, answerAt, branchOf, contracts, createBlock } from './model-blocks.ts'
import type { ModelBlock } from './model-blocks.ts'
import type { JsonMembers } from './verify-fixture.ts'

let numbers = 1
const random = () => (numbers = (numbers * 48_271) % 2_147_483_647) / 2_147_483_647
const extend = (tip: ModelBlock | undefined, count: number): ModelBlock =>
  count === 0 ? tip! : extend(createBlock(tip, random), count - 1)

const methods = [
  ...['eth_blockNumber', 'eth_getBlockByNumber', 'eth_getBlockByHash', 'eth_getBlockReceipts', 'eth_getProof', 'eth_getBalance'],
  ...['eth_getLogs', 'eth_getTransactionReceipt'],
]

/** A node with this newest block, which changes some of its answers. */
const nodeAt = (tip: () => ModelBlock, lies: Readonly<Record<string, (value: Json) => Json>> = {}, isDown = () => false): FakeUpstream => ({
  ...Object.fromEntries(
    methods.map(method => [
      method,
      ({ params }: { readonly params: Json }) => {
        if (isDown()) return 'down' as const
        const value = answerAt(tip(), { method, params: params as readonly Json[] })
        return { result: value === undefined ? null : (lies[method]?.(value) ?? value) }
      },
    ]),
  ),
  eth_gasPrice: { result: '0x1' },
  eth_call: { result: '0x01' },
})

interface CallersOptions extends Partial<HarnessOptions> {
  readonly nodes: Readonly<Record<string, FakeUpstream>>
  readonly partner?: FakeUpstream
  /** Options of the plugin rate-limit. */
  readonly limits?: string
}

const open = (verify: string, options: CallersOptions) => {
  const { nodes, partner, limits = '{}', ...rest } = options
  return harness({
    ...rest,
    pipeline: `
- envelope: {}
- key-auth: {}
- rate-limit: ${limits}
- credits: {}
- params: {}
- subscriptions: {}
- cache: {}
- failover: { upstreams: [${Object.keys(nodes)
      .map(name => `{ name: ${name}, url: http://${name}.test }`)
      .join(', ')}]${partner === undefined ? '' : ', partner: { name: partner, url: http://partner.test }'} }
- verify: ${verify}
- upstream: {}`,
    upstreams: { ...nodes, ...(partner !== undefined && { partner }) },
  })
}

const tip = extend(undefined, 8)
const honest = () => ({ one: nodeAt(() => tip), two: nodeAt(() => tip) })
const balance = [account, '0x8']

t.test('what headers of fewer upstreams have proven, or none of the beacon chain, before a reload is no answer', async t => {
  const request = { method: 'eth_getBalance', params: balance }
  const methods = { eth_getBalance: 'proof' }
  const beacon = { checkpoint: '0x0a', otherwise: 'agree' }
  const options = [
    ...[{}, { agree: 1 }, { agree: 2 }, { beacon }, { agree: 2, beacon }],
    ...[{ beacon: { ...beacon, otherwise: 'refuse' } }, { beacon: { ...beacon, checkpoint: '0x0b' } }],
  ]
  const variants = options.map(each =>
    definition.vary({ request, key: {} } as never, { methods, ...each } as never, { headers: {} } as never),
  )
  t.equal(new Set(variants).size, options.length)
  const gateway = await open('{ methods: { eth_getBalance: proof }, agree: 2 }', { nodes: honest() })
  t.teardown(() => gateway.stop())
  t.match(await gateway.call('eth_getBalance', balance), { result: tip.balance, verified: 'proof', cache: 'miss' })
  t.match(await gateway.call('eth_getBalance', balance), { result: tip.balance, verified: 'proof', cache: 'hit' })
})

t.test('callers whose key allows it ask for less or more verification', async t => {
  const gateway = await open('{ methods: { eth_getLogs: proof, eth_call: 2 of 2 }, costs: { proof: 2x, quorum: 1.5x } }', {
    nodes: honest(),
    keys: { plain: {}, both: { verify: ['none', 'proof'] }, less: { verify: ['none'] } },
  })
  t.teardown(() => gateway.stop())
  const logs = [{ fromBlock: '0x1', toBlock: '0x8', address: contracts[0] }]
  const withHeader = (value: string, key = 'both') => ({ key, headers: { 'tollgate-verify': value } })

  t.test('and get what is proven, or not, whatever is cached for others', async t => {
    t.match(await gateway.call('eth_getBalance', balance), { verified: 'none' })
    t.match(await gateway.call('eth_getBalance', balance), { verified: 'none', cache: 'hit' })
    t.match(await gateway.call('eth_getBalance', balance, withHeader('proof')), { result: tip.balance, verified: 'proof', cache: 'miss' })
    t.match(await gateway.call('eth_getBalance', balance, withHeader('proof')), { verified: 'proof', cache: 'hit' })
    t.match(await gateway.call('eth_getLogs', logs), { verified: 'proof' })
    t.match(await gateway.call('eth_getLogs', logs, withHeader('none')), { verified: 'none' })
    t.match(await gateway.call('eth_call', [{ to: account }, '0x8'], withHeader('proof')), { verified: 'quorum' }, 'nothing proves it')
    t.match(await gateway.call('eth_gasPrice', [], withHeader('proof')), { verified: 'none' })
  })

  t.test('and no others do', async t => {
    for (const caller of [withHeader('proof', 'plain'), withHeader('none', 'plain'), withHeader('proof', 'less')])
      t.match(await gateway.call('eth_getBalance', balance, caller), { error: { code: -32091, message: /Tollgate-Verify/ }, credits: 0 })
    t.match(await gateway.call('eth_getLogs', logs, withHeader('none', 'less')), { verified: 'none' })
    t.match(await gateway.call('eth_getBalance', balance, withHeader('all')), { error: { code: -32600, message: /must be none or proof/ } })
  })

  t.test('calls cost more by the policy that answers them', async t => {
    const creditsOf = async (method: string, params: Json, caller = {}) => (await gateway.call(method, params, caller)).credits
    t.equal(await creditsOf('eth_getBalance', balance), 80)
    t.equal(await creditsOf('eth_getBalance', balance, withHeader('proof')), 160)
    t.equal(await creditsOf('eth_getLogs', logs), 510)
    t.equal(await creditsOf('eth_getLogs', logs, withHeader('none')), 255)
    t.equal(await creditsOf('eth_call', [{ to: account }, '0x8']), 120)
    const { result: id } = await gateway.call('eth_newFilter', [{ fromBlock: '0x8', toBlock: '0x8' }], withHeader('proof'))
    const filterLogs = (caller = {}) => gateway.call('eth_getFilterLogs', [id!], { key: 'both', ...caller })
    t.match(await filterLogs(), { verified: 'proof', credits: 510 }, 'by eth_getLogs')
    t.match(await filterLogs(withHeader('none')), { verified: 'none', credits: 255 })
  })

  t.test('and no more than their results were verified by', async t => {
    let newest = tip
    const bounded = await open('{ methods: { eth_getLogs: proof }, maxBlocks: 4, costs: { proof: 2x } }', {
      nodes: { one: nodeAt(() => newest), two: nodeAt(() => newest) },
    })
    t.teardown(() => bounded.stop())
    const range = (from: number) => bounded.call('eth_getLogs', [{ fromBlock: `0x${from}`, toBlock: '0x8' }])
    t.match(await range(5), { verified: 'proof', credits: 510 })
    t.match(await range(4), { verified: 'check', credits: 255 }, 'more than maxBlocks')
    t.match(await range(4), { verified: 'check', cache: 'hit', credits: 255 })
    const idOf = async (method: string, params: Json) => String((await bounded.call(method, params)).result)
    const [logs, blocks] = [await idOf('eth_newFilter', [{}]), await idOf('eth_newBlockFilter', [])]
    const changes = (id: string) => bounded.call('eth_getFilterChanges', [id])
    t.match(await changes(logs), { result: [], verified: 'proof', credits: 160 })
    newest = createBlock(newest, random)
    await bounded.advance('2s')
    t.match(await changes(logs), { result: newest.logs, verified: 'proof', credits: 160 })
    t.match(await changes(blocks), { result: [newest.hash], verified: 'none', credits: 80 }, 'of blocks nothing is proven')
  })

  t.test('whose difference is there for the next call', async t => {
    const limited = await open('{ methods: { eth_getLogs: proof }, maxBlocks: 4, costs: { proof: 2x } }', {
      nodes: honest(),
      plans: { core: { dailyCredits: 1_300 } },
    })
    t.teardown(() => limited.stop())
    const checked = () => limited.call('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x8' }])
    for (let i = 0; i < 4; i++) t.match(await checked(), { credits: 255 })
    t.match(await checked(), { error: { code: -33000 } }, '510 are charged at first, and 280 are left')
  })

  t.test('and count for credits per second by the same price', async t => {
    const limited = await open('{ costs: { proof: 2x } }', {
      nodes: honest(),
      keys: { both: { verify: ['none', 'proof'] } },
      limits: '{ account: { creditRate: 400/s } }',
    })
    t.teardown(() => limited.stop())
    const passedOf = async (caller: object) => {
      let passed = 0
      while ((await limited.call('eth_getBalance', balance, { key: 'both', ...caller })).error === undefined) passed += 1
      await limited.advance('1s')
      return passed
    }
    t.equal(await passedOf({}), 5, 'of 80 credits')
    t.equal(await passedOf(withHeader('proof')), 2, 'of 160 credits')
  })

  t.test('rpc.discover says how results are verified, and what that costs', async t => {
    const { result } = await gateway.call('rpc.discover')
    const described = (result as { readonly methods: readonly JsonMembers[] }).methods
    const of = (name: string) => described.find(each => each['name'] === name)
    t.match(of('eth_getLogs'), { 'x-credits': 510, 'x-verification': 'proof', 'x-verify-credits': { none: 255, proof: 510 } })
    t.match(of('eth_getFilterLogs'), { 'x-credits': 510, 'x-verification': 'proof', 'x-verify-credits': { none: 255, proof: 510 } })
    t.match(of('eth_getFilterChanges'), { 'x-credits': 160, 'x-verification': 'proof' })
    t.match(of('eth_subscribe'), { 'x-event-credits': { newHeads: 10, logs: 20 } })
    t.match(of('eth_getStorageAt'), { 'x-credits': 80, 'x-verify-credits': { none: 80, proof: 160 } })
    t.match(of('eth_call'), { 'x-credits': 120, 'x-verification': '2 of 2' })
    t.match(of('eth_getBlockByNumber'), { 'x-credits': 80, 'x-verification': 'check' })
    t.notOk('x-verification' in of('eth_gasPrice')!)
  })
})

t.test('filters have all logs of each block, whatever the node says of which the feed asks them', async t => {
  for (const policy of ['check', 'proof']) {
    let newest = tip
    /** Unnoticed by check: one log of several is missing. */
    const lie = (logs: Json) => (logs as readonly Json[]).slice((logs as readonly Json[]).length > 1 ? 1 : 0)
    const nodes = { liar: nodeAt(() => newest, { eth_getLogs: lie }), second: nodeAt(() => newest), third: nodeAt(() => newest) }
    const gateway = await open(`{ methods: { eth_getLogs: ${policy} } }`, { nodes })
    const { result: id } = await gateway.call('eth_newFilter', [{ fromBlock: '0x9', address: contracts[0] }])
    const expected: Json[] = []
    for (let i = 0; i < 12; i++) {
      newest = createBlock(newest, random)
      expected.push(...newest.logs.filter(log => log['address'] === contracts[0]))
      await gateway.advance('2s')
    }
    t.ok(expected.length > 2)
    const changes = await gateway.call('eth_getFilterChanges', [id!])
    const all = await gateway.call('eth_getFilterLogs', [id!])
    for (const { result } of [changes, all]) {
      if (policy === 'proof') t.same(result, expected)
      else t.notSame(result, expected, 'the lie matters')
    }
    await gateway.stop()
  }
})

t.test('changes and logs of filters say that nothing has verified them, where logs are not proven', async t => {
  for (const policy of ["'off'", 'check']) {
    let newest = tip
    const nodes = { one: nodeAt(() => newest), two: nodeAt(() => newest) }
    const gateway = await open(`{ methods: { eth_getLogs: ${policy} } }`, { nodes })
    const { result: logs } = await gateway.call('eth_newFilter', [{ fromBlock: '0x9' }])
    const { result: blocks } = await gateway.call('eth_newBlockFilter')
    newest = createBlock(newest, random)
    await gateway.advance('2s')
    for (const id of [logs!, blocks!, logs!])
      t.match(await gateway.call('eth_getFilterChanges', [id]), { verified: 'none', source: 'local' })
    if (policy !== 'check') t.match(await gateway.call('eth_getFilterLogs', [logs!]), { verified: 'none' })
    t.equal((await gateway.call('eth_uninstallFilter', [logs!])).verified, undefined, 'no node says it')
    await gateway.stop()
  }
})

t.test('a partner is held to the headers that own nodes agreed on', async t => {
  let isDown = false
  let isLying = false
  const own = () =>
    nodeAt(
      () => tip,
      {},
      () => isDown,
    )
  const withoutLogs = (receipts: Json) => (isLying ? (receipts as readonly JsonMembers[]).map(each => ({ ...each, logs: [] })) : receipts)
  const gateway = await open('{ methods: { eth_getLogs: proof } }', {
    nodes: { one: own(), two: own() },
    network: { chainId: 1 },
    partner: nodeAt(() => tip, { eth_getBlockReceipts: withoutLogs, eth_getLogs: logs => (isLying ? [] : logs) }),
    plans: { growth: { forwarding: true } },
  })
  t.teardown(() => gateway.stop())
  const logs = (from: number, to: number) => gateway.call('eth_getLogs', [{ fromBlock: `0x${from}`, toBlock: `0x${to}` }])
  t.match(await logs(8, 8), { verified: 'proof' })
  isDown = true
  const expected = (from: number) =>
    branchOf(tip, 9 - from)
      .toReversed()
      .flatMap(block => block.logs)
  t.match(await logs(6, 8), { result: expected(6), verified: 'proof', source: 'partner', upstream: 'partner' })
  t.match(await logs(6, 7), { verified: 'proof' }, 'the header that was agreed on leads to block 7')
  t.match(await logs(4, 5), { error: { code: -32002 } }, 'nobody agrees on the header of block 5')
  isLying = true
  t.match(await logs(2, 8), { error: { code: -32002 }, credits: 0 })
  t.match(
    gateway.log.lines.filter(({ message }) => message === 'upstream returned a wrong result'),
    [{ fields: { upstream: 'partner', cause: 'receipts are not those of the header' } }],
  )
  isLying = false
  isDown = false
})

t.test('on a chain whose headers cannot be hashed, a proof is a problem with the reason', async t => {
  const network = { chainId: 43_114 }
  await t.rejects(
    open('{ methods: { eth_getBalance: proof } }', { nodes: honest(), network }),
    /pipeline\.yaml:\d+:\d+[^]*nothing is proven on chain 43114: Avalanche has headers/,
  )
  const gateway = await open('{ methods: { eth_getBalance: check } }', { nodes: honest(), network })
  await gateway.stop()
})

t.test('on Polygon state alone is proven: no root and no bloom has the logs of its bridge', async t => {
  const network = { chainId: 137 }
  for (const method of ['eth_getLogs', "'eth_get*'"])
    await t.rejects(
      open(`{ methods: { ${method}: proof } }`, { nodes: honest(), network }),
      /pipeline\.yaml:\d+:\d+[^]*state alone is proven on chain 137: transactions and logs of the bridge/,
    )
  const gateway = await open('{ methods: { eth_getBalance: proof, eth_getLogs: 2 of 2 }, costs: { proof: 3x, quorum: 2x } }', {
    nodes: honest(),
    network,
    keys: { plain: { verify: ['proof'] } },
  })
  t.teardown(() => gateway.stop())
  t.match(await gateway.call('eth_getBalance', balance), { result: tip.balance, verified: 'proof' })
  const wish = { headers: { 'tollgate-verify': 'proof' } }
  const logs = [{ fromBlock: '0x8', toBlock: '0x8' }]
  t.match(await gateway.call('eth_getLogs', logs, wish), { verified: 'quorum', credits: 510 }, 'as without the header')
})
