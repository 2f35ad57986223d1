import t from '../../support/tap.ts'
import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import { logsBloomOf } from '../../../plugins/verify/logs-bloom.ts'
import type { Json, Request } from '../../../src/plugin/call.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { deployEmitter, emittedTopic, startAnvilChain } from '../../support/anvil-chain.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { openProofs } from './proof-fixture.ts'
import type { Node } from './proof-fixture.ts'
import type { JsonMembers } from './verify-fixture.ts'

t.test('logs of a real node', async t => {
  const chain = await startAnvilChain()
  t.teardown(() => chain.stop())
  const [one, two] = [await deployEmitter(chain), await deployEmitter(chain)]
  const [to = ''] = await chain.request<string[]>('eth_accounts')
  // Blocks with logs of one contract, of the other, of both, with none and with no transactions.
  await one.emitLogs(3)
  await two.emitLogs(2)
  await chain.sendTransaction({ to, value: '0x1' })
  await chain.request('anvil_mine', '0x1')
  await chain.request('evm_setAutomine', false)
  const emit = (address: string, count: number) => ({ to: address, gas: '0x30d40', data: `0x4ce4ddea${toTopic(count).slice(2)}` })
  const accounts = await chain.request<string[]>('eth_accounts')
  for (const [i, transaction] of [emit(one.address, 2), emit(two.address, 1), emit(one.address, 0)].entries())
    await chain.request('eth_sendTransaction', { ...transaction, from: accounts[i] })
  await chain.request('anvil_mine', '0x1')
  const head = Number(await chain.request<string>('eth_blockNumber'))
  const [first, last] = [3, head].map(toHexQuantity) as [string, string]

  const honest: Node = ({ method, params }) => chain.request<Json>(method, ...params)
  const lying =
    (method: string, lie: (value: Json, request: Request) => Json): Node =>
    async request =>
      request.method === method ? lie((await honest(request))!, request) : honest(request)
  const known = { head: () => head }

  const filters: readonly JsonMembers[] = [
    {},
    { address: one.address },
    { address: [one.address.toUpperCase().replace('0X', '0x'), two.address] },
    { topics: [emittedTopic] },
    { topics: [null, toTopic(1)] },
    {
      topics: [
        [emittedTopic, toTopic(9)],
        [toTopic(0), toTopic(2)],
      ],
    },
    { address: two.address, topics: [[], toTopic(1)] },
    { address: to },
    { topics: [toTopic(5)] },
  ]

  t.test('are all that the node has, and no others, whatever the filter is', async t => {
    const { hash } = await chain.request<{ hash: string }>('eth_getBlockByNumber', last, false)
    const gateway = openProofs({ one: honest, two: honest }, known)
    for (const filter of filters) {
      for (const range of [
        { fromBlock: first, toBlock: last },
        { fromBlock: last, toBlock: 'latest' },
        { fromBlock: first, toBlock: first },
        { blockHash: hash },
      ]) {
        const query = { ...range, ...filter }
        t.same(await gateway.call('eth_getLogs', query), await chain.request('eth_getLogs', query), JSON.stringify(query))
      }
    }
    t.notOk(gateway.requests.includes('one eth_getLogs'))
  })

  const query = { fromBlock: first, toBlock: last, address: one.address }
  const truth = await chain.request<readonly Json[]>('eth_getLogs', query)
  t.equal(truth.length, 5)
  const receiptsLie = (lie: (receipts: readonly JsonMembers[]) => Json) =>
    lying('eth_getBlockReceipts', value => lie(value as readonly JsonMembers[]))
  /** A receipt whose logs are others, with the bloom of those. */
  const withLogs = (receipt: JsonMembers, change: (logs: readonly JsonMembers[]) => readonly JsonMembers[]): JsonMembers => {
    const logs = change(receipt['logs'] as readonly JsonMembers[])
    return { ...receipt, logs, logsBloom: logsBloomOf(logs) }
  }
  const inLogs = (change: (logs: readonly JsonMembers[]) => readonly JsonMembers[]) =>
    receiptsLie(list => list.map(each => withLogs(each, change)))
  const inHeaders = (change: (block: JsonMembers) => JsonMembers) => (request: Request) =>
    request.method.startsWith('eth_getBlockBy') ? honest(request).then(block => withHash(change(block as JsonMembers))) : honest(request)
  const withHash = (block: JsonMembers): JsonMembers => ({ ...block, hash: headerHashOf(block) })

  const lies: Readonly<Record<string, Node>> = {
    'a log is missing': inLogs(logs => logs.slice(1)),
    'the last log is missing': inLogs(logs => logs.slice(0, -1)),
    'all logs are missing': inLogs(() => []),
    'a log is there twice': inLogs(logs => logs.flatMap((log, i) => (i === 0 ? [log, log] : [log]))),
    'a log has another address': inLogs(logs => logs.map(log => ({ ...log, address: two.address }))),
    'a log has other data': inLogs(logs => logs.map(log => ({ ...log, data: '0x01' }))),
    'a log has another topic': inLogs(logs => logs.map(log => ({ ...log, topics: [emittedTopic, toTopic(7)] }))),
    'logs are in another order': inLogs(logs => logs.toReversed()),
    'a log has another index': inLogs(logs => logs.map(log => ({ ...log, logIndex: '0x5' }))),
    'a log has another transaction': inLogs(logs => logs.map(log => ({ ...log, transactionHash: toTopic(1) }))),
    'a log has another position': inLogs(logs => logs.map(log => ({ ...log, transactionIndex: '0x5' }))),
    'a log has another block': inLogs(logs => logs.map(log => ({ ...log, blockHash: toTopic(1) }))),
    'a log has another number': inLogs(logs => logs.map(log => ({ ...log, blockNumber: '0x1' }))),
    'a receipt is missing': receiptsLie(list => list.slice(1)),
    'there are no receipts': receiptsLie(() => []),
    'receipts are in another order': receiptsLie(list => [...list, ...list].slice(1)),
    'receipts are those of another block': request =>
      honest(request.method === 'eth_getBlockReceipts' ? { ...request, params: [last] } : request),
    'a header has an empty bloom': inHeaders(block => ({ ...block, logsBloom: `0x${'0'.repeat(512)}` })),
    'an older header has an empty bloom': inHeaders(block =>
      Number(block['number']) === head ? block : { ...block, logsBloom: `0x${'0'.repeat(512)}` },
    ),
    'a header has the root of no receipts': inHeaders(block => ({
      ...block,
      receiptsRoot: '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421',
    })),
    'transactions are missing': lying('eth_getBlockByHash', block => ({ ...(block as JsonMembers), transactions: [] })),
    'there is no block': lying('eth_getBlockByHash', () => null),
  }

  for (const [what, node] of Object.entries(lies)) {
    t.test(`where ${what}, the node gets no answer through`, async t => {
      // Two others outvote it about the newest header.
      const gateway = openProofs({ liar: node, second: honest, third: honest }, known)
      const ranges = [query, { ...query, toBlock: first }]
      for (const each of ranges) {
        const answer = await gateway.call('eth_getLogs', each)
        const right = await chain.request('eth_getLogs', each)
        t.ok(answer === undefined || JSON.stringify(answer) === JSON.stringify(right), JSON.stringify(answer))
      }
      t.equal(await gateway.call('eth_getLogs', query), undefined)
    })
  }

  t.test('a poll costs the headers and receipts that are new', async t => {
    const gateway = openProofs({ one: honest, two: honest }, known)
    await gateway.call('eth_getLogs', query)
    t.same(count(gateway.requests), {
      'one eth_getBlockByNumber': 1 + head - 3,
      'two eth_getBlockByNumber': 1,
      'one eth_getBlockReceipts': 2,
      'one eth_getBlockByHash': 2,
    })
    gateway.requests.length = 0
    await gateway.call('eth_getLogs', { ...query, topics: [null, toTopic(0)] })
    t.same(gateway.requests, [])
    gateway.newHead()
    await gateway.call('eth_getLogs', query)
    t.same(count(gateway.requests), { 'one eth_getBlockByNumber': 1, 'two eth_getBlockByNumber': 1 })
  })

  t.test('headers that the feed has are not requested; the feed is left once no call needs it', async t => {
    const gateway = openProofs({ one: honest, two: honest }, known)
    const newest = { fromBlock: last, toBlock: 'latest' }
    await gateway.call('eth_getLogs', newest)
    t.equal(gateway.listeners.size, 1)
    const blocks = await Promise.all(
      Array.from({ length: head - 2 }, (_, i) => chain.request<JsonMembers>('eth_getBlockByNumber', toHexQuantity(3 + i), false)),
    )
    gateway.publish([...blocks, { ...blocks[0]!, stateRoot: toTopic(1) }])
    gateway.requests.length = 0
    const truth = await chain.request('eth_getLogs', { fromBlock: first, toBlock: last })
    t.same(await gateway.call('eth_getLogs', { fromBlock: first, toBlock: 'latest' }), truth)
    t.notOk(gateway.requests.some(each => each.endsWith('eth_getBlockByNumber')))
    gateway.clock.advance(59_000)
    await gateway.call('eth_getLogs', newest)
    gateway.clock.advance(2_000)
    t.equal(gateway.listeners.size, 1)
    gateway.clock.advance(60_000)
    t.equal(gateway.listeners.size, 0)
    await gateway.call('eth_getLogs', newest)
    t.equal(gateway.listeners.size, 1)
    await gateway.stop()
    t.equal(gateway.listeners.size, 0)
  })

  t.test('nobody is asked for the newest header where polls of enough nodes have it, or lead to it, and the feed', async t => {
    const blocks = await Promise.all(
      Array.from({ length: head + 1 }, (_, i) => chain.request<JsonMembers>('eth_getBlockByNumber', toHexQuantity(i), false)),
    )
    const headAt = (number: number) => ({ number, hash: String(blocks[number]!['hash']) })
    let polled: Readonly<Record<string, ReturnType<typeof headAt>>> = {}
    const open = () => {
      const gateway = openProofs({ one: honest, two: honest, three: honest }, { ...known, polledHeads: () => polled })
      return { ...gateway, headerRequests: () => gateway.requests.filter(each => each.endsWith('eth_getBlockByNumber')).length }
    }
    const newest = { fromBlock: last, toBlock: last, address: `0x${'1'.repeat(40)}` }
    const askedFor = async (heads: typeof polled, hasFeed = true) => {
      polled = {}
      const gateway = open()
      await gateway.call('eth_getLogs', { ...newest, fromBlock: first, toBlock: first })
      gateway.newHead()
      if (hasFeed) gateway.publish(blocks)
      polled = heads
      gateway.requests.length = 0
      t.same(await gateway.call('eth_getLogs', newest), [])
      return gateway.headerRequests()
    }
    const lastAt = Number(last)
    t.equal(await askedFor({ one: headAt(lastAt), two: headAt(lastAt), three: headAt(lastAt) }), 0)
    t.equal(await askedFor({ one: headAt(lastAt), two: headAt(lastAt) }), 0, 'a majority')
    t.equal(await askedFor({ one: headAt(lastAt) }), 3, 'one is no majority')
    t.equal(await askedFor({ one: headAt(lastAt), two: { ...headAt(lastAt), hash: toTopic(9) } }), 3, 'they have different blocks')
    t.equal(await askedFor({ one: headAt(lastAt - 1), two: headAt(lastAt - 1) }), 3, 'they are behind')
    t.equal(await askedFor({ one: headAt(lastAt), two: headAt(lastAt) }, false), 3, 'the header is not known')
  })

  t.test('a query takes no longer than one that is not proven may', async t => {
    const hung: Node = request => (request.method === 'eth_getBlockReceipts' ? new Promise(() => {}) : honest(request))
    const gateway = openProofs({ one: hung, two: honest }, known)
    const reply = gateway.reply('eth_getLogs', query)
    await waitUntil(() => gateway.requests.includes('one eth_getBlockReceipts'))
    gateway.clock.advance(10_000)
    t.match(await reply, { error: { code: -32005, message: 'query timeout exceeded' }, retryElsewhere: true })
    const neverAnswered: Node = request => (request.method === 'eth_getLogs' ? new Promise(() => {}) : honest(request))
    const compared = openProofs({ one: honest, two: neverAnswered }, { ...known, policies: { eth_getLogs: '2 of 2' } })
    const refused = compared.reply('eth_getLogs', query)
    await waitUntil(() => compared.requests.includes('two eth_getLogs'))
    compared.clock.advance(10_000)
    t.match(await refused, { error: { code: -32005 }, fault: 'gateway' })
  })

  t.test('for subscribers no drained node is asked, and it has no say about the header', async t => {
    const block = await chain.request<JsonMembers>('eth_getBlockByNumber', first, false)
    const gateway = openProofs({ drained: honest, one: honest, two: honest }, { ...known, drained: ['drained'] })
    t.same(await gateway.feedLogs(block), await chain.request('eth_getLogs', { blockHash: block['hash']! }))
    t.notOk(
      gateway.requests.some(each => each.startsWith('drained')),
      String(gateway.requests),
    )
    const tooFew = openProofs({ drained: honest, one: honest }, { ...known, drained: ['drained'], agree: 2 })
    t.equal(await tooFew.feedLogs(block), undefined)
  })

  t.test(
    'for subscribers another node is asked where one is slow with receipts, and that one first about the blocks that follow',
    async t => {
      const [block, next] = await Promise.all([first, last].map(each => chain.request<JsonMembers>('eth_getBlockByNumber', each, false)))
      const slow: Node = request => (request.method === 'eth_getBlockReceipts' ? new Promise(() => {}) : honest(request))
      const gateway = openProofs({ one: slow, two: honest }, known)
      const logs = gateway.feedLogs(block!)
      await waitUntil(() => gateway.requests.includes('one eth_getBlockReceipts'))
      gateway.clock.advance(1_000)
      t.same(await logs, await chain.request('eth_getLogs', { blockHash: block!['hash']! }))
      t.same(await gateway.feedLogs(next!), await chain.request('eth_getLogs', { blockHash: next!['hash']! }))
      t.equal(gateway.requests.filter(each => each === 'one eth_getBlockReceipts').length, 1)
    },
  )

  t.test('queries that need more bytes than maxProofBytes are passed on', async t => {
    const gateway = openProofs({ one: honest, two: honest }, { ...known, maxProofBytes: 1_000 })
    t.same(await gateway.call('eth_getLogs', query), truth)
    t.ok(gateway.requests.includes('one eth_getLogs'))
    gateway.requests.length = 0
    const short = { fromBlock: first, toBlock: first, address: one.address }
    t.same(await gateway.call('eth_getLogs', short), await chain.request('eth_getLogs', short))
    t.notOk(gateway.requests.includes('one eth_getLogs'))
  })

  t.test('results of the policy check must fit headers that are known', async t => {
    const policies = { eth_getBlockReceipts: 'check', 'eth_getTransaction*': 'check' }
    const lie = receiptsLie(list => list.slice(0, -1))
    const bloomLie = lying('eth_getTransactionReceipt', receipt =>
      withLogs(receipt as JsonMembers, logs => logs.map(log => ({ ...log, address: to }))),
    )
    const receipts = await chain.request<readonly JsonMembers[]>('eth_getBlockReceipts', last)
    const receipt = receipts.find(({ logs }) => (logs as readonly Json[]).length > 0)
    for (const [node, question] of [
      [lie, ['eth_getBlockReceipts', last]],
      [bloomLie, ['eth_getTransactionReceipt', receipt!['transactionHash']!]],
    ] as const) {
      const gateway = openProofs({ liar: node, two: honest, three: honest }, { ...known, policies })
      t.ok(await gateway.call(question[0], question[1]), 'nothing is known of the block')
      await gateway.call('eth_getLogs', { fromBlock: last, toBlock: last, address: toTopic(1).slice(0, 42) })
      t.equal(await gateway.call(question[0], question[1]), undefined)
    }
  })

  t.test('queries over more blocks, over blocks to come, or of a filter that is none, are passed on', async t => {
    const gateway = openProofs({ one: honest, two: honest }, known)
    for (const range of [
      { fromBlock: '0x0', toBlock: toHexQuantity(8) },
      { fromBlock: first, toBlock: toHexQuantity(head + 1) },
      { fromBlock: last, toBlock: first },
    ]) {
      await gateway.call('eth_getLogs', range).catch(() => undefined)
      t.same(gateway.requests.splice(0), ['one eth_getLogs'], JSON.stringify(range))
    }
  })

  t.test('transactions of a type that is not known are no lie, and nothing is proven of their blocks', async t => {
    const node = receiptsLie(list => list.map(each => ({ ...each, type: '0x6a' })))
    const gateway = openProofs({ one: node, two: honest }, known)
    t.equal(await gateway.call('eth_getLogs', query), undefined)
    t.same(gateway.log.lines, [])
  })
})

const count = (texts: readonly string[]): Readonly<Record<string, number>> =>
  texts.reduce<Record<string, number>>((counts, text) => ({ ...counts, [text]: (counts[text] ?? 0) + 1 }), {})

/** A number in 32 bytes. */
function toTopic(value: number): string {
  return `0x${value.toString(16).padStart(64, '0')}`
}
