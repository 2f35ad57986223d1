import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import { logsBloomOf } from '../../../plugins/verify/logs-bloom.ts'
import { receiptsRootOf } from '../../../plugins/verify/receipts-root.ts'
import type { Json } from '../../../src/plugin/call.ts'
import type { JsonMembers } from './verify-fixture.ts'

/** A method and its parameters. */
export type Question = readonly [method: string, ...params: Json[]]

/** What the chain of the test has. Numbers of blocks are hex, the oldest first. */
export interface LiesWorld {
  /** Of two contracts that write logs. */
  readonly emitter: string
  readonly otherEmitter: string
  /** An account that has sent and received, and one that never has. */
  readonly account: string
  readonly nobody: string
  readonly first: string
  /** A block with several transactions, receipts and logs; the head is above it. */
  readonly block: JsonMembers
  readonly transactions: readonly JsonMembers[]
  readonly emittedTopic: string
}

/** What the honest node says. */
type Ask = (method: string, ...params: readonly Json[]) => Json

/** What the node says in place of the value, by method. */
export type Tale = Readonly<Record<string, (value: Json, params: readonly Json[], ask: Ask) => Json>>

export interface LieCase {
  readonly what: string
  readonly question: Question
  readonly tale: Tale
}

type Members = JsonMembers

const list = (value: Json | undefined): readonly Members[] => value as readonly Members[] // of answers of a node
const members = (value: Json): Members => value as Members // of answers of a node
export const toWord = (value: number): string => `0x${value.toString(16).padStart(64, '0')}`
const plusOne = (quantity: Json | undefined): string => `0x${(Number(quantity) + 1).toString(16)}`
const nobodyElse = `0x${'12'.repeat(20)}`

const withHash = (block: Members): Members => ({ ...block, hash: headerHashOf(block) })
const inBlocks = (change: (block: Members) => Members) => ({
  eth_getBlockByNumber: (value: Json) => change(members(value)),
  eth_getBlockByHash: (value: Json) => change(members(value)),
})
const withLogs = (receipt: Members, change: (logs: readonly Members[]) => readonly Members[]): Members => {
  const logs = change(list(receipt['logs']))
  return { ...receipt, logs, logsBloom: logsBloomOf(logs) }
}

/** The same lie in the answers of all methods that have logs, with blooms that fit. */
const inLogs = (change: (logs: readonly Members[]) => readonly Members[]): Tale => ({
  eth_getLogs: value => change(list(value)),
  eth_getBlockReceipts: value => list(value).map(each => withLogs(each, change)),
  eth_getTransactionReceipt: value => withLogs(members(value), change),
})
const inEachLog = (change: (log: Members) => Members): Tale => inLogs(logs => logs.map(change))

/** The same lie in the answers of all methods that have receipts. */
const inReceipts = (change: (receipt: Members, i: number) => Members): Tale => ({
  eth_getTransactionReceipt: (value, _, ask) => {
    const hash = members(value)['transactionHash']!
    const receipts = list(ask('eth_getBlockReceipts', members(value)['blockNumber']!))
    return receipts.map(change).find(each => each['transactionHash'] === hash) ?? change(members(value), 0)
  },
  eth_getBlockReceipts: value => list(value).map(change),
})

/** The same lie in the answers of all methods that have transactions. */
const inTransactions = (change: (transaction: Members) => Members): Tale => {
  const inBlock = (value: Json) => {
    const block = members(value)
    return { ...block, transactions: list(block['transactions']).map(each => (typeof each === 'object' ? change(each) : each)) }
  }
  const inTransaction = (value: Json) => change(members(value))
  return {
    eth_getBlockByNumber: inBlock,
    eth_getBlockByHash: inBlock,
    eth_getTransactionByHash: inTransaction,
    eth_getTransactionByBlockHashAndIndex: inTransaction,
  }
}

const inProof = (change: (proof: Members) => Members) => (value: Json) => change(members(value))

/** Every lie, as one node tells it in the answers of all methods that would give it away. */
export const liesIn = (world: LiesWorld): readonly LieCase[] => {
  const { emitter, otherEmitter, account, nobody, first, block, transactions, emittedTopic } = world
  const number = block['number']!
  const logs: Question = ['eth_getLogs', { fromBlock: first, toBlock: number, address: emitter }]
  const logsOfBlock: Question = ['eth_getLogs', { blockHash: block['hash']!, address: emitter }]
  const hash = transactions.find(({ to }) => to === emitter)!['hash']!
  const [creation] = transactions.filter(({ to }) => to === null)
  const receipt: Question = ['eth_getTransactionReceipt', hash]
  const receipts: Question = ['eth_getBlockReceipts', number]
  const whole: Question = ['eth_getBlockByNumber', number, true]
  const byHash: Question = ['eth_getBlockByHash', block['hash']!, false]
  const transaction: Question = ['eth_getTransactionByHash', hash]
  const balance: Question = ['eth_getBalance', account, number]
  const slot: Question = ['eth_getStorageAt', emitter, '0x0', number]
  const code: Question = ['eth_getCode', emitter, number]
  /** What is asked about the state at that block is answered about another address, slot or block. */
  const aboutOther = (change: (params: readonly Json[]) => readonly Json[], proofChange = change): Tale => ({
    eth_getBalance: (_, params, ask) => ask('eth_getBalance', ...change(params)),
    eth_getStorageAt: (_, params, ask) => ask('eth_getStorageAt', ...change(params)),
    eth_getTransactionCount: (_, params, ask) => ask('eth_getTransactionCount', ...change(params)),
    eth_getCode: (_, params, ask) => ask('eth_getCode', ...change(params)),
    eth_getProof: (_, params, ask) => ask('eth_getProof', ...proofChange(params)),
  })
  const atFirst = aboutOther(params => params.with(-1, first))
  const ofNobody = aboutOther(params => params.with(0, nobody))

  return [
    { what: 'a log is missing', question: logs, tale: inLogs(each => each.slice(1)) },
    { what: 'the last log is missing', question: logs, tale: inLogs(each => each.slice(0, -1)) },
    { what: 'all logs are missing, as of a pruned node', question: logs, tale: inLogs(() => []) },
    { what: 'the logs of one block are missing', question: logs, tale: inLogs(each => each.filter(log => log['blockNumber'] !== number)) },
    {
      what: 'the only log of a topic is missing',
      question: ['eth_getLogs', { fromBlock: number, toBlock: number, topics: [null, toWord(1)] }],
      tale: inLogs(each => each.filter(log => (log['topics'] as readonly Json[])[1] !== toWord(1))),
    },
    {
      what: 'a log is added, with the next index',
      question: logs,
      tale: inLogs(each => each.flatMap((log, i) => (i === each.length - 1 ? [log, { ...log, logIndex: '0xff' }] : [log]))),
    },
    { what: 'a log is told twice', question: logs, tale: inLogs(each => each.flatMap((log, i) => (i === 0 ? [log, log] : [log]))) },
    { what: 'logs are in another order', question: logs, tale: inLogs(each => each.toReversed()) },
    { what: 'a log has other data', question: logs, tale: inEachLog(log => ({ ...log, data: toWord(9) })) },
    { what: 'a log has another topic', question: logs, tale: inEachLog(log => ({ ...log, topics: [emittedTopic, toWord(7)] })) },
    { what: 'a log is of another contract', question: logs, tale: inEachLog(log => ({ ...log, address: otherEmitter })) },
    { what: 'a log is of another block', question: logs, tale: inEachLog(log => ({ ...log, blockHash: toWord(5) })) },
    { what: 'a log has the number of another block', question: logs, tale: inEachLog(log => ({ ...log, blockNumber: first })) },
    { what: 'a log is of another transaction', question: logs, tale: inEachLog(log => ({ ...log, transactionHash: toWord(5) })) },
    {
      what: 'a log has another index',
      question: logs,
      tale: inEachLog(log => ({ ...log, logIndex: `0x${(Number(log['logIndex']) + 1).toString(16)}` })),
    },
    { what: 'a log is removed', question: logs, tale: inEachLog(log => ({ ...log, removed: true })) },
    { what: 'a log has no topics', question: logsOfBlock, tale: inEachLog(log => ({ ...log, topics: [] })) },
    { what: 'a log is of another position in its block', question: logs, tale: inEachLog(log => ({ ...log, transactionIndex: '0x2' })) },
    { what: 'a log has another time', question: logs, tale: inEachLog(log => ({ ...log, blockTimestamp: '0x1' })) },
    {
      what: 'logs by the hash of a block are those of an earlier one',
      question: logsOfBlock,
      tale: {
        eth_getLogs: (value, _, ask) =>
          list(ask('eth_getLogs', { fromBlock: first, toBlock: first, address: emitter })).map(log => ({
            ...log,
            blockHash: list(value)[0]!['blockHash']!,
          })),
        eth_getBlockReceipts: (_, __, ask) => ask('eth_getBlockReceipts', first),
      },
    },
    {
      what: 'logs are missing, and the blooms of headers are zeros',
      question: logs,
      tale: { ...inLogs(() => []), ...inBlocks(each => withHash({ ...each, logsBloom: `0x${'0'.repeat(512)}` })) },
    },
    {
      what: 'logs are missing, and headers have the roots of the other receipts',
      question: logs,
      tale: {
        ...inLogs(() => []),
        ...inBlocks(each =>
          each['number'] === number ? withHash({ ...each, logsBloom: logsBloomOf([]), receiptsRoot: receiptsRootOf([]) }) : each,
        ),
      },
    },
    {
      what: 'the receipt of another transaction',
      question: receipt,
      tale: inReceipts((each, i) => ({ ...each, transactionHash: transactions[(i + 1) % transactions.length]!['hash']! })),
    },
    {
      what: 'a receipt of a call that failed says that it succeeded',
      question: receipt,
      tale: inReceipts(each => ({ ...each, status: each['status'] === '0x1' ? '0x0' : '0x1' })),
    },
    { what: 'a receipt lacks its logs', question: receipt, tale: inReceipts(each => withLogs(each, () => [])) },
    { what: 'a receipt has other gas', question: receipt, tale: inReceipts(each => ({ ...each, gasUsed: '0x1' })) },
    { what: 'a receipt is at another price', question: receipt, tale: inReceipts(each => ({ ...each, effectiveGasPrice: '0x1' })) },
    {
      what: 'a receipt has other gas, and so has all before it',
      question: receipt,
      tale: inReceipts(each => ({ ...each, gasUsed: plusOne(each['gasUsed']), cumulativeGasUsed: plusOne(each['cumulativeGasUsed']) })),
    },
    { what: 'the gas up to a receipt is other', question: receipts, tale: inReceipts(each => ({ ...each, cumulativeGasUsed: '0x1' })) },
    { what: 'a receipt is of another type', question: receipt, tale: inReceipts(each => ({ ...each, type: '0x1' })) },
    { what: 'a receipt is of another recipient', question: receipt, tale: inReceipts(each => ({ ...each, to: nobodyElse })) },
    { what: 'a receipt is at another position', question: receipt, tale: inReceipts(each => ({ ...each, transactionIndex: '0x7' })) },
    {
      what: 'the logs of a receipt have other indexes',
      question: receipt,
      tale: inReceipts(each => ({ ...each, logs: list(each['logs']).map(log => ({ ...log, logIndex: plusOne(log['logIndex']) })) })),
    },
    {
      what: 'a receipt has a log twice',
      question: receipt,
      tale: inReceipts(each => withLogs(each, logs => logs.flatMap(log => [log, { ...log, logIndex: plusOne(log['logIndex']) }]))),
    },
    { what: 'a receipt has blob gas', question: receipt, tale: inReceipts(each => ({ ...each, blobGasUsed: '0x20000' })) },
    { what: 'a receipt is of another sender', question: receipt, tale: inReceipts(each => ({ ...each, from: nobodyElse })) },
    {
      what: 'a receipt has another contract',
      question: ['eth_getTransactionReceipt', creation!['hash']!],
      tale: inReceipts(each => (each['contractAddress'] === null ? each : { ...each, contractAddress: nobodyElse })),
    },
    {
      what: 'a receipt is of another block',
      question: receipt,
      tale: inReceipts(each => ({
        ...each,
        blockHash: toWord(5),
        logs: list(each['logs']).map(log => ({ ...log, blockHash: toWord(5) })),
      })),
    },
    {
      what: 'the bloom of a receipt is zeros',
      question: receipt,
      tale: inReceipts(each => ({ ...each, logsBloom: `0x${'0'.repeat(512)}` })),
    },
    { what: 'a mined transaction has no receipt', question: receipt, tale: { eth_getTransactionReceipt: () => null } },
    {
      what: 'the last receipt of a block is missing',
      question: receipts,
      tale: { eth_getBlockReceipts: value => list(value).slice(0, -1) },
    },
    {
      what: 'a receipt is told twice',
      question: receipts,
      tale: { eth_getBlockReceipts: value => [list(value)[0]!, ...list(value)] },
    },
    { what: 'receipts are in another order', question: receipts, tale: { eth_getBlockReceipts: value => list(value).toReversed() } },
    { what: 'a block has no receipts', question: receipts, tale: { eth_getBlockReceipts: () => [] } },
    {
      what: 'receipts are of an earlier block',
      question: receipts,
      tale: {
        eth_getBlockReceipts: (_, __, ask) =>
          list(ask('eth_getBlockReceipts', first)).map(each => ({ ...each, blockNumber: number, blockHash: block['hash']! })),
      },
    },
    { what: 'a block has another hash', question: whole, tale: inBlocks(each => ({ ...each, hash: toWord(5) })) },
    { what: 'a block has another time', question: byHash, tale: inBlocks(each => ({ ...each, timestamp: plusOne(each['timestamp']) })) },
    { what: 'a block has other blob gas', question: byHash, tale: inBlocks(each => ({ ...each, excessBlobGas: '0x20000' })) },
    { what: 'a block has an uncle', question: byHash, tale: inBlocks(each => ({ ...each, uncles: [toWord(5)] })) },
    {
      what: 'a block has a withdrawal',
      question: byHash,
      tale: inBlocks(each => ({ ...each, withdrawals: [{ index: '0x1', validatorIndex: '0x1', address: nobodyElse, amount: '0x1' }] })),
    },
    { what: 'a block is unknown', question: byHash, tale: { eth_getBlockByHash: () => null } },
    { what: 'the block of a number is unknown', question: whole, tale: { eth_getBlockByNumber: () => null } },
    { what: 'a block has another state root', question: byHash, tale: inBlocks(each => ({ ...each, stateRoot: toWord(5) })) },
    {
      what: 'a forked header has the right looks',
      question: whole,
      tale: inBlocks(each => (each['number'] === number ? withHash({ ...each, stateRoot: toWord(5) }) : each)),
    },
    {
      what: 'an older block is the newest',
      question: ['eth_getBlockByNumber', 'latest', true],
      tale: {
        eth_getBlockByNumber: (value, [named, isWhole], ask) =>
          named === 'latest' && isWhole === true ? ask('eth_getBlockByNumber', first, true) : value,
      },
    },
    {
      what: 'a block lacks its last transaction',
      question: whole,
      tale: inBlocks(each => ({ ...each, transactions: (each['transactions'] as readonly Json[]).slice(0, -1) })),
    },
    {
      what: 'a block has a transaction twice',
      question: byHash,
      tale: inBlocks(each => {
        const all = each['transactions'] as readonly Json[]
        return { ...each, transactions: all.with(1, all[0]!) }
      }),
    },
    {
      what: 'a block has fewer transactions than it has',
      question: ['eth_getBlockTransactionCountByNumber', number],
      tale: { eth_getBlockTransactionCountByNumber: () => '0x1' },
    },
    { what: 'a block lacks its transactions', question: whole, tale: inBlocks(each => ({ ...each, transactions: [] })) },
    {
      what: 'the hashes of a block are of other transactions',
      question: byHash,
      tale: inBlocks(each => ({
        ...each,
        transactions: (each['transactions'] as readonly Json[]).map((one, i) => (typeof one === 'string' ? toWord(5 + i) : one)),
      })),
    },
    {
      what: 'the transactions of a block are in another order',
      question: whole,
      tale: inBlocks(each => ({ ...each, transactions: (each['transactions'] as readonly Json[]).toReversed() })),
    },
    { what: 'a transaction has another value', question: transaction, tale: inTransactions(each => ({ ...each, value: '0x99' })) },
    { what: 'a transaction has another nonce', question: transaction, tale: inTransactions(each => ({ ...each, nonce: '0x99' })) },
    { what: 'a transaction has another price', question: transaction, tale: inTransactions(each => ({ ...each, gasPrice: '0x99' })) },
    { what: 'a transaction is of another chain', question: transaction, tale: inTransactions(each => ({ ...each, chainId: '0x99' })) },
    {
      what: 'a transaction is at another position',
      question: transaction,
      tale: inTransactions(each => ({ ...each, transactionIndex: '0x7' })),
    },
    {
      what: 'a transaction has an access list',
      question: transaction,
      tale: inTransactions(each => ({ ...each, accessList: [{ address: nobodyElse, storageKeys: [] }] })),
    },
    {
      what: 'a transaction has an authorization',
      question: transaction,
      tale: inTransactions(each => ({
        ...each,
        authorizationList: [{ chainId: '0x1', address: nobodyElse, nonce: '0x0', yParity: '0x0', r: '0x1', s: '0x1' }],
      })),
    },
    {
      what: 'a transaction has a blob',
      question: transaction,
      tale: inTransactions(each => ({ ...each, blobVersionedHashes: [toWord(1)], maxFeePerBlobGas: '0x1' })),
    },
    {
      what: 'a position of a block is empty',
      question: ['eth_getTransactionByBlockHashAndIndex', block['hash']!, '0x0'],
      tale: { eth_getTransactionByBlockHashAndIndex: () => null },
    },
    { what: 'a transaction is of another sender', question: transaction, tale: inTransactions(each => ({ ...each, from: nobodyElse })) },
    {
      what: 'a transaction is another one of its block',
      question: ['eth_getTransactionByBlockHashAndIndex', block['hash']!, '0x0'],
      tale: {
        eth_getTransactionByBlockHashAndIndex: (_, __, ask) => ({
          ...members(ask('eth_getTransactionByBlockHashAndIndex', block['hash']!, '0x1')),
          transactionIndex: '0x0',
        }),
      },
    },
    {
      what: 'a mined transaction is pending',
      question: transaction,
      tale: { eth_getTransactionByHash: value => ({ ...members(value), blockHash: null, blockNumber: null, transactionIndex: null }) },
    },
    { what: 'a mined transaction is unknown', question: transaction, tale: { eth_getTransactionByHash: () => null } },
    { what: 'old state is told as new', question: balance, tale: atFirst },
    { what: 'an old nonce is told as new', question: ['eth_getTransactionCount', account, number], tale: atFirst },
    {
      what: 'zero in place of a value',
      question: slot,
      tale: aboutOther(
        params => params.with(1, toWord(99)),
        params => params.with(1, [toWord(99)]),
      ),
    },
    {
      what: 'a value in place of zero',
      question: ['eth_getStorageAt', emitter, toWord(99), number],
      tale: aboutOther(
        params => params.with(1, '0x0'),
        params => params.with(1, [toWord(0)]),
      ),
    },
    { what: 'the balance and the proof of another account', question: balance, tale: ofNobody },
    {
      what: 'a truncated proof',
      question: balance,
      tale: {
        ...ofNobody,
        eth_getProof: inProof(proof => ({
          ...proof,
          balance: '0x0',
          accountProof: (proof['accountProof'] as readonly Json[]).slice(0, -1),
        })),
      },
    },
    {
      what: 'a value of another contract',
      question: slot,
      tale: aboutOther(params => params.with(0, otherEmitter)),
    },
    {
      what: 'a value is other than in its proof',
      question: slot,
      tale: {
        eth_getStorageAt: () => toWord(7),
        eth_getProof: inProof(proof => ({ ...proof, storageProof: list(proof['storageProof']).map(each => ({ ...each, value: '0x7' })) })),
      },
    },
    { what: 'code is cut', question: code, tale: { eth_getCode: value => String(value).slice(0, 20) } },
    { what: 'a contract has no code', question: code, tale: ofNobody },
    {
      what: 'blocks had other fees',
      question: ['eth_feeHistory', '0x2', number, []],
      tale: { eth_feeHistory: value => ({ ...members(value), baseFeePerGas: ['0x1', '0x1', '0x1'] }) },
    },
    { what: 'a call returns another value', question: ['eth_call', { to: emitter }, number], tale: { eth_call: () => toWord(7) } },
    {
      what: 'a call that fails succeeds',
      question: ['eth_call', { to: account, value: '0xffffffffffffffffffffffffffffff', from: nobody }, number],
      tale: { eth_call: () => '0x' },
    },
    {
      what: 'a transaction needs less gas',
      question: ['eth_estimateGas', { to: emitter, data: `0x4ce4ddea${toWord(3).slice(2)}` }, number],
      tale: { eth_estimateGas: () => '0x5208' },
    },
    { what: 'a contract has the code of another', question: code, tale: { eth_getCode: () => '0x6001' } },
  ]
}
