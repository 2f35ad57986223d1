import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { ChunkedBytes } from '../../../src/json/chunked-bytes.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { fakeCall, fakeResult } from '../../support/fakes.ts'
import { openUpstream } from './upstream-fixture.ts'

const hash = `0x${'ab'.repeat(32)}`
const position = { blockHash: hash, blockNumber: '0x10' }
const block = { number: '0x10', hash, parentHash: hash }

/** Requests the node, which returns the reply; resolves with the reported heights. */
const reportedBy = async (method: string, params: readonly Json[], reply: Reply): Promise<readonly number[]> => {
  const reported: number[] = []
  const reportHeight = (upstream: string, height: number): number => {
    if (upstream === 'reporter') reported.push(height)
    return height
  }
  await openUpstream(async () => reply, { heads: { reporterOf: () => 'reporter', reportHeight } })(fakeCall(method, params))
  return reported
}

t.test("a node's own result about a mined block is a report", async t => {
  const cases: readonly (readonly [method: string, params: readonly Json[], result: Json])[] = [
    ['eth_blockNumber', [], '0x10'],
    [
      'eth_getTransactionReceipt',
      [hash],
      { logs: [{ ...position, blockNumber: '0x11' }], status: '0x1', transactionHash: hash, ...position },
    ],
    ['eth_getTransactionByHash', [hash], { hash, input: `0x${'00'.repeat(5000)}`, ...position }],
    ['eth_getTransactionByBlockHashAndIndex', [hash, '0x0'], position],
    ['eth_getTransactionByBlockNumberAndIndex', ['latest', '0x0'], position],
    ['eth_getBlockByNumber', ['latest', true], { transactions: [{ ...position, blockNumber: '0x11' }], ...block }],
    ['eth_getBlockByNumber', ['0x10', false], block],
    ['eth_getBlockByHash', [hash, false], block],
    [
      'eth_getBlockReceipts',
      ['0x10'],
      [
        { ...position, logs: [] },
        { ...position, logs: [position, position] },
      ],
    ],
    ['eth_getLogs', [{ fromBlock: '0x0', toBlock: 'latest' }], [{ ...position, blockNumber: '0xf' }, position]],
  ]
  for (const [method, params, result] of cases) {
    t.strictSame(await reportedBy(method, params, fakeResult(result, { count: 1 } as object)), [16], method)
  }
})

t.test('what is not about a mined block, or is what the caller wrote, is no report', async t => {
  const cases: readonly (readonly [method: string, params: readonly Json[], result: Json])[] = [
    ['eth_getTransactionReceipt', [hash], null],
    ['eth_getTransactionByHash', [hash], { hash, blockHash: null, blockNumber: null }],
    ['eth_getTransactionByHash', [hash], { hash, blockHash: null, blockNumber: '0x10' }],
    ['eth_getTransactionByHash', [hash], { hash, blockHash: hash, blockNumber: 16 }],
    ['eth_getTransactionByHash', [hash], [position]],
    ['eth_getBlockByNumber', ['pending', false], block],
    ['eth_getTransactionByBlockNumberAndIndex', ['pending', '0x0'], position],
    ['eth_getBlockByNumber', ['0x99', false], null],
    ['eth_getBlockByNumber', ['0x99', false], { number: '0x99', hash: null }],
    ['eth_getLogs', [{ fromBlock: '0x0', toBlock: 'pending' }], [position]],
    ['eth_getLogs', [{ fromBlock: '0x0', toBlock: '0x99' }], []],
    ['eth_getBalance', [hash.slice(0, 42), '0x99'], '0x99'],
    ['eth_call', [{}, 'latest', {}, { number: '0x99' }], { ...position, ...block }],
    ['eth_syncing', [], { ...position, currentBlock: '0x10', highestBlock: '0x99' }],
    ['debug_traceCall', [], { ...position, ...block }],
  ]
  for (const [method, params, result] of cases) {
    t.strictSame(await reportedBy(method, params, fakeResult(result, { count: 1 } as object)), [], `${method} ${JSON.stringify(result)}`)
  }
})

t.test('the last log of a long result is found, however its bytes arrived', async t => {
  const logs = Buffer.from(
    JSON.stringify(Array.from({ length: 5000 }, (_, i) => ({ ...position, data: hash, blockNumber: `0x${i.toString(16)}` }))),
  )
  for (const chunkBytes of [1 << 20, 65_536, 1000]) {
    const chunks = Array.from({ length: Math.ceil(logs.length / chunkBytes) }, (_, i) =>
      logs.subarray(i * chunkBytes, (i + 1) * chunkBytes),
    )
    const reply: Reply = { result: new ChunkedBytes(chunks), count: 5000, source: 'node', upstream: 'own' }
    t.strictSame(await reportedBy('eth_getLogs', [{ fromBlock: '0x0', toBlock: '0x1387' }], reply), [4999])
  }
})

t.test('the answer is given only when every process has the block', async t => {
  let acknowledge = () => {}
  const acknowledged = new Promise<number>(resolve => {
    acknowledge = () => resolve(16)
  })
  const respond = async () => fakeResult({ transactionHash: hash, ...position })
  const send = openUpstream(respond, { heads: { reporterOf: () => '', reportHeight: () => acknowledged } })
  let isAnswered = false
  const reply = send(fakeCall('eth_getTransactionReceipt', [hash])).then(() => {
    isAnswered = true
  })
  await new Promise(setImmediate)
  t.notOk(isAnswered)
  acknowledge()
  await reply
})
