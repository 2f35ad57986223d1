import { pointFromScalar, signRecoverable } from 'tiny-secp256k1'
import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import { toHex } from '../../../plugins/verify/hex.ts'
import { logsBloomOf } from '../../../plugins/verify/logs-bloom.ts'
import { receiptsRootOf } from '../../../plugins/verify/receipts-root.ts'
import { encodeRlp } from '../../../plugins/verify/rlp.ts'
import { emptyCodeHash } from '../../../plugins/verify/state-proof.ts'
import { encodeTransaction, signedPartOf } from '../../../plugins/verify/transaction-encoding.ts'
import { emptyRoot } from '../../../plugins/verify/trie-proof.ts'
import { trieRootOf } from '../../../plugins/verify/trie-root.ts'
import type { Json, Request } from '../../../src/plugin/call.ts'
import { keccak256 } from '../../../src/plugin/plugin.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import type { JsonMembers } from './verify-fixture.ts'

/** A block of a made-up chain, with all that nodes say about it. Its roots are right. */
export interface ModelBlock {
  readonly number: number
  readonly hash: string
  readonly parent: ModelBlock | undefined
  readonly header: JsonMembers
  readonly transactions: readonly JsonMembers[]
  readonly receipts: readonly JsonMembers[]
  readonly logs: readonly JsonMembers[]
  readonly balance: string
  /** The only node of the state trie, which has one account. */
  readonly stateNode: Buffer
}

/** Of the sender of all transactions. */
const privateKey = Buffer.alloc(32, 1)
const sender = toHex(keccak256(pointFromScalar(privateKey, false)!.subarray(1)).subarray(12))

/** The only account of the state. */
export const account = `0x${'a1'.repeat(20)}`
export const contracts = [`0x${'c0'.repeat(20)}`, `0x${'c1'.repeat(20)}`] as const

const word = (value: number): string => `0x${value.toString(16).padStart(64, '0')}`

/** How much a block has at most, and of which contracts. */
export interface ModelBlockSize {
  readonly maxTransactions: number
  readonly maxLogs: number
  readonly contracts: readonly string[]
}

const usualSize: ModelBlockSize = { maxTransactions: 2, maxLogs: 2, contracts }

/** The next block. `random` is from 0 to below 1; blocks differ in what they have. */
export const createBlock = (parent: ModelBlock | undefined, random: () => number, size = usualSize): ModelBlock => {
  const number = (parent?.number ?? 0) + 1
  const balance = toHexQuantity(Math.floor(random() * 2 ** 40) + 1)
  const stateNode = stateNodeOf(balance)
  const drafts = Array.from({ length: Math.floor(random() * (size.maxTransactions + 1)) }, () => createTransaction(random, size))
  const bare = drafts.map(({ transaction, logs }, i) => createReceipt(transaction, logs, i))
  const unsealed = {
    ...emptyHeader,
    parentHash: parent?.hash ?? word(0),
    number: toHexQuantity(number),
    timestamp: toHexQuantity(number * 12),
    extraData: toHex(Buffer.from(String(random()))),
    stateRoot: toHex(keccak256(stateNode)),
    transactionsRoot: toHex(trieRootOf(drafts.map(({ transaction }) => encodeTransaction(transaction)))),
    receiptsRoot: receiptsRootOf(bare),
    logsBloom: logsBloomOf(drafts.flatMap(({ logs }) => logs)),
  }
  const hash = headerHashOf(unsealed)
  const place = { blockHash: hash, blockNumber: toHexQuantity(number) }
  const transactions = drafts.map(({ transaction }, i) => ({ ...transaction, ...place, transactionIndex: toHexQuantity(i) }))
  let logIndex = 0
  const receipts = bare.map((receipt, i) => {
    const placed = { ...place, transactionIndex: toHexQuantity(i), transactionHash: transactions[i]!.hash }
    const logs = drafts[i]!.logs.map(log => ({ ...log, ...placed, logIndex: toHexQuantity(logIndex++), removed: false }))
    return { ...receipt, ...placed, logs }
  })
  const header = { ...unsealed, hash }
  return { number, hash, parent, header, transactions, receipts, logs: receipts.flatMap(({ logs }) => logs), balance, stateNode }
}

const createTransaction = (random: () => number, size: ModelBlockSize) => {
  const unsigned = {
    type: '0x0',
    nonce: '0x0',
    gasPrice: '0x1',
    gas: '0x5208',
    to: contracts[0],
    value: toHexQuantity(Math.floor(random() * 2 ** 40)),
    input: '0x',
    from: sender,
    v: '0x1b',
  }
  const { signature, recoveryId } = signRecoverable(keccak256(signedPartOf(unsigned).bytes), privateKey)
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)].map(toQuantity) as [string, string] // two of two
  const transaction = { ...unsigned, v: toHexQuantity(27 + recoveryId), r, s }
  const logs = Array.from({ length: Math.floor(random() * (size.maxLogs + 1)) }, () => ({
    address: size.contracts[Math.floor(random() * size.contracts.length)]!,
    topics: [word(Math.floor(random() * 3))],
    data: word(Math.floor(random() * 100)),
  }))
  return { transaction: { ...transaction, hash: toHex(keccak256(encodeTransaction(transaction))) }, logs }
}

const toQuantity = (bytes: Uint8Array): string => `0x${BigInt(toHex(bytes)).toString(16)}`

const createReceipt = ({ from, to }: { readonly from: string; readonly to: string }, logs: readonly JsonMembers[], i: number) => ({
  ...{ type: '0x0', status: '0x1', from, to, contractAddress: null, gasUsed: '0x5208', effectiveGasPrice: '0x1' },
  ...{ cumulativeGasUsed: toHexQuantity(21_000 * (i + 1)), logs, logsBloom: logsBloomOf(logs) },
})

const emptyHeader = {
  sha3Uncles: '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347',
  miner: account,
  difficulty: '0x0',
  gasLimit: '0x1c9c380',
  gasUsed: '0x0',
  mixHash: word(0),
  nonce: '0x0000000000000000',
  baseFeePerGas: '0x1',
}

const stateNodeOf = (balance: string): Buffer => {
  const digits = balance.slice(2)
  const value = encodeRlp([
    Buffer.alloc(0),
    Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex'),
    Buffer.from(emptyRoot.slice(2), 'hex'),
    Buffer.from(emptyCodeHash.slice(2), 'hex'),
  ])
  return encodeRlp([Buffer.concat([Buffer.from([0x20]), keccak256(Buffer.from(account.slice(2), 'hex'))]), value])
}

/** So many newest blocks, the newest first. */
export const branchOf = (tip: ModelBlock, count: number): readonly ModelBlock[] => {
  const blocks: ModelBlock[] = []
  for (let block: ModelBlock | undefined = tip; block !== undefined && blocks.length < count; block = block.parent) blocks.push(block)
  return blocks
}

/** Nodes are asked about no older blocks. */
const maxAge = 40

/** What a node says whose newest block is this one; it knows no other branch. */
export const answerAt = (tip: ModelBlock, { method, params }: Request): Json | undefined => {
  const [first, second, third] = params
  const branch = branchOf(tip, maxAge)
  const find = (matches: (block: ModelBlock) => boolean) => branch.find(matches)
  const named = (block: Json | undefined) =>
    block === 'latest' ? tip : find(each => (String(block).length === 66 ? each.hash === block : each.number === Number(block)))
  const place = () => {
    const block = find(({ transactions }) => transactions.some(({ hash }) => hash === first))
    return block && { block, i: block.transactions.findIndex(({ hash }) => hash === first) }
  }
  switch (method) {
    case 'eth_getBlockByNumber':
    case 'eth_getBlockByHash': {
      const block = named(first)
      if (block === undefined) return null
      const transactions = second === true ? block.transactions : block.transactions.map(({ hash }) => hash!)
      return { ...block.header, transactions, uncles: [] }
    }
    case 'eth_getBlockReceipts':
      return named(first)?.receipts ?? null
    case 'eth_getProof': {
      const block = named(third)
      return block && { address: first!, accountProof: [toHex(block.stateNode)], storageProof: [] }
    }
    case 'eth_blockNumber':
      return toHexQuantity(tip.number)
    case 'eth_getBalance':
      return named(second)?.balance
    case 'eth_getLogs': {
      const { fromBlock, toBlock, blockHash, address } = first as JsonMembers
      const isSelected = ({ number, hash }: ModelBlock) =>
        blockHash === undefined ? number >= Number(fromBlock) && number <= Number(toBlock) : hash === blockHash
      const logs = branch
        .filter(isSelected)
        .toReversed()
        .flatMap(each => each.logs)
      return address === undefined ? logs : logs.filter(log => log['address'] === address)
    }
    case 'eth_getTransactionByHash': {
      const found = place()
      return found?.block.transactions[found.i] ?? null
    }
    case 'eth_getTransactionReceipt': {
      const found = place()
      return found?.block.receipts[found.i] ?? null
    }
    default:
      return undefined
  }
}
