import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { harness } from '../../../src/testing/index.ts'
import type { FakeUpstream } from '../../../src/testing/index.ts'
import { networkFile } from '../../support/deployment.ts'

// What callers get of the logs and receipts that a node returns, through the whole pipeline.

const address = `0x${'a1'.repeat(20)}`
const other = `0x${'b2'.repeat(20)}`
const hashOf = (n: number): string => `0x${n.toString(16).padStart(64, '0')}`

const open = (upstream: FakeUpstream) => harness({ pipeline: JSON.stringify(networkFile('net', ['http://a.test'])['pipeline']), upstream })

const log = {
  removed: false,
  logIndex: '0x1',
  transactionIndex: '0x0',
  transactionHash: hashOf(1),
  blockHash: hashOf(2),
  blockNumber: '0x10',
  address,
  data: `0x${'00'.repeat(64)}`,
  topics: [3, 4, 5, 6].map(hashOf),
}
const pendingLog = { ...log, logIndex: null, transactionIndex: null, transactionHash: null, blockHash: null, blockNumber: null }

const receipt = {
  blockHash: hashOf(2),
  blockNumber: '0x10',
  contractAddress: null,
  cumulativeGasUsed: '0x5208',
  effectiveGasPrice: '0x3b9aca00',
  from: other,
  gasUsed: '0x5208',
  logs: [log],
  logsBloom: `0x${'00'.repeat(256)}`,
  status: '0x1',
  to: address,
  transactionHash: hashOf(1),
  transactionIndex: '0x0',
  type: '0x2',
}
const { status: _, ...withoutStatus } = receipt

t.test('a log has each member of contract 2.5 as the node wrote it, whether it is valid, removed, anonymous or pending', async t => {
  for (const [toBlock, logs] of [
    ['0x20', [log]],
    ['0x20', [{ ...log, removed: true }]],
    ['0x20', [{ ...log, topics: [] }]],
    ['pending', [log, pendingLog]],
  ] as const) {
    const gateway = await open({ eth_getLogs: { result: logs } })
    t.strictSame((await gateway.call('eth_getLogs', [{ fromBlock: '0x10', toBlock, address }])).result, logs)
    await gateway.stop()
  }
})

t.test(
  'a receipt has each member of contract 2.6 as the node wrote it, with a status or a root, and that of a created contract',
  async t => {
    for (const result of [
      receipt,
      { ...receipt, status: '0x0', logs: [] },
      { ...withoutStatus, root: hashOf(7) },
      { ...receipt, contractAddress: address, to: null },
    ]) {
      const gateway = await open({ eth_getTransactionReceipt: { result } })
      t.strictSame((await gateway.call('eth_getTransactionReceipt', [hashOf(1)])).result, result)
      await gateway.stop()
    }
  },
)

t.test('a transaction has no receipt while it is pending, and has it once a block has the transaction', async t => {
  let result: Json = null
  const gateway = await open({ eth_getTransactionReceipt: () => ({ result }) })
  t.strictSame((await gateway.call('eth_getTransactionReceipt', [hashOf(1)])).result, null)
  result = { ...receipt, blockHash: null, blockNumber: null, transactionIndex: null }
  t.strictSame((await gateway.call('eth_getTransactionReceipt', [hashOf(1)])).result, null, 'of a node that has one all the same')
  result = receipt
  await gateway.advance('12s')
  t.strictSame((await gateway.call('eth_getTransactionReceipt', [hashOf(1)])).result, receipt)
  await gateway.stop()
})

t.test('a query with too many results is answered over the range that the error suggests, and for a single address', async t => {
  /** 1,500 logs of one address in each block, and 100 of another. */
  const logsOf = (block: number) =>
    Array.from({ length: 1_600 }, (_, i) => ({ ...log, blockNumber: `0x${block.toString(16)}`, address: i < 1_500 ? other : address }))
  const gateway = await open({
    eth_getLogs({ params }) {
      const [{ fromBlock, toBlock, address: wanted }] = params as [Record<string, string>] // as the test requests it
      const blocks = Array.from({ length: Number(toBlock) - Number(fromBlock) + 1 }, (_, i) => Number(fromBlock) + i)
      return { result: blocks.flatMap(logsOf).filter(each => wanted === undefined || each.address === wanted) }
    },
  })
  const whole = { fromBlock: '0x10', toBlock: '0x19' }
  const { error } = await gateway.call('eth_getLogs', [whole])
  t.match(error, { code: -32005, message: 'query returned more than 10000 results', data: { from: '0x10', to: '0x15', limit: 10_000 } })
  const { from: fromBlock, to: toBlock } = error!.data as Record<string, Json> // as it was compared
  const countOf = async (filter: Json) => ((await gateway.call('eth_getLogs', [filter])).result as readonly Json[]).length
  t.equal(await countOf({ fromBlock: fromBlock!, toBlock: toBlock! }), 9_600)
  t.equal(await countOf({ ...whole, address }), 1_000)
  await gateway.stop()
})

t.test('a query for logs is answered after 9 s, and gets the error of contract 7 after 10 s, though its node is alive', async t => {
  const gateway = await open({
    eth_getLogs: [
      { result: [], after: '9s' },
      { result: [], after: '11s' },
    ],
  })
  t.strictSame((await gateway.call('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x2' }])).result, [])
  const startedAtMs = gateway.clock.monotonic()
  const { error } = await gateway.call('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x3' }])
  t.match(error, { code: -32005, message: 'query timeout exceeded' })
  const tookMs = gateway.clock.monotonic() - startedAtMs
  t.ok(tookMs >= 10_000 && tookMs < 11_000, `${tookMs} ms`)
  await gateway.stop()
})
