import { getContractAddress, keccak256, serializeTransaction } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import { logsBloomOf } from '../../../plugins/verify/logs-bloom.ts'
import { receiptsRootOf } from '../../../plugins/verify/receipts-root.ts'
import { trieRootOf } from '../../../plugins/verify/trie-root.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import type { Node } from './proof-fixture.ts'
import type { JsonMembers } from './verify-fixture.ts'

/** What a node has of a block. */
export interface ClientBlock {
  readonly block: JsonMembers
  readonly transactions: readonly JsonMembers[]
  readonly receipts: readonly JsonMembers[]
}

const account = privateKeyToAccount(`0x${'7'.repeat(64)}`)
const from = account.address.toLowerCase()
const to = `0x${'c0'.repeat(20)}` as const
const word = (digit: string) => `0x${digit.repeat(64)}` as const
const fees = { maxFeePerGas: 9n, maxPriorityFeePerGas: 1n }
const common = { gas: 100_000n, value: 5n, data: '0x1234', to } as const
const accessList = [
  { address: to, storageKeys: [word('1')] },
  { address: to, storageKeys: [] },
]

/** A transaction of each type, as viem takes it; of type 0 also without a chain ID, and those that create a contract, or fail to. */
const draftsOf = async () => {
  const authorization = await account.signAuthorization({ address: to, chainId: 1, nonce: 9 })
  return [
    { type: 'legacy', ...common, chainId: 1, gasPrice: 8n },
    { type: 'legacy', ...common, gasPrice: 8n },
    { type: 'legacy', ...common, to: null, chainId: 1, gasPrice: 8n },
    { type: 'eip2930', ...common, chainId: 1, gasPrice: 8n, accessList },
    { type: 'eip1559', ...common, chainId: 1, ...fees },
    { type: 'eip1559', ...common, to: null, chainId: 1, ...fees },
    { type: 'eip4844', ...common, chainId: 1, ...fees, accessList, maxFeePerBlobGas: 3n, blobVersionedHashes: [`0x01${'ab'.repeat(31)}`] },
    { type: 'eip7702', ...common, chainId: 1, ...fees, accessList: [], authorizationList: [authorization] },
  ] as const
}

export const failedCreation = 5

const typeNumbers = { legacy: '0x0', eip2930: '0x1', eip1559: '0x2', eip4844: '0x3', eip7702: '0x4' } as const

/** As nodes write numbers. */
const toJson = (value: unknown): JsonMembers =>
  JSON.parse(
    JSON.stringify(value, (_, each: unknown) => (typeof each === 'number' || typeof each === 'bigint' ? toHexQuantity(each) : each)),
  )

const logs: readonly (readonly JsonMembers[])[] = [
  [],
  [
    { address: to, topics: [word('a'), word('b')], data: '0x' },
    { address: to, topics: [], data: '0x01' },
  ],
  [],
  [{ address: from, topics: [word('a')], data: word('2') }],
]

/** A block with a transaction of each type, as geth has it. What viem has serialized has its hashes and the root of transactions. */
export const createClientBlock = async (changeHeader: (header: JsonMembers) => JsonMembers = header => header): Promise<ClientBlock> => {
  const drafts = await draftsOf()
  const serialized = await Promise.all(
    drafts.map((draft, nonce) =>
      account.signTransaction({ ...draft, nonce } as Parameters<typeof account.signTransaction>[0], { serializer: serializeTransaction }),
    ),
  )
  const bare = drafts.map((draft, nonce) => {
    const { type, data, to: recipient, ...members } = draft
    const isDynamic = 'maxFeePerGas' in draft
    return {
      transaction: {
        ...toJson({ gasPrice: isDynamic ? 8 : undefined, ...members, nonce }),
        ...{ type: typeNumbers[type], input: data, to: recipient, from, hash: keccak256(serialized[nonce]!) },
        ...signatureOf(serialized[nonce]!, type),
      } as JsonMembers,
      receipt: {
        ...{ type: typeNumbers[type], status: nonce === failedCreation ? '0x0' : '0x1', from, to: recipient, effectiveGasPrice: '0x8' },
        contractAddress: recipient === null ? getContractAddress({ from: account.address, nonce: BigInt(nonce) }).toLowerCase() : null,
        ...{ gasUsed: '0x5208', cumulativeGasUsed: toHexQuantity(21_000 * (nonce + 1)) },
        ...(type === 'eip4844' && { blobGasUsed: '0x20000', blobGasPrice: '0x1' }),
        ...{ logs: logs[nonce] ?? [], logsBloom: logsBloomOf(logs[nonce] ?? []) },
      } as JsonMembers,
    }
  })
  const unsealed = changeHeader({
    ...{ parentHash: word('3'), sha3Uncles: emptyUncles, miner: to, stateRoot: word('4') },
    transactionsRoot: `0x${trieRootOf(serialized.map(text => Buffer.from(text.slice(2), 'hex'))).toString('hex')}`,
    receiptsRoot: receiptsRootOf(bare.map(({ receipt }) => receipt)),
    logsBloom: logsBloomOf(logs.flat()),
    ...{ difficulty: '0x0', number: '0x10', gasLimit: '0x1c9c380', gasUsed: '0x29040', timestamp: '0x65', extraData: '0x' },
    ...{ mixHash: word('5'), nonce: '0x0000000000000000', baseFeePerGas: '0x7', withdrawalsRoot: emptyRoot, blobGasUsed: '0x20000' },
    ...{ excessBlobGas: '0x0', parentBeaconBlockRoot: word('6'), requestsHash: word('7'), size: '0x999', uncles: [], withdrawals: [] },
  })
  const block: JsonMembers = { ...unsealed, hash: headerHashOf(unsealed) }
  const place = (i: number) => ({ blockHash: block['hash']!, blockNumber: '0x10', transactionIndex: toHexQuantity(i) })
  let logIndex = 0
  const receipts = bare.map(({ transaction, receipt }, i) => {
    const placed = { ...place(i), transactionHash: transaction['hash']! }
    const ofReceipt = (receipt['logs'] as readonly JsonMembers[]).map(log => ({
      ...{ ...log, ...placed, logIndex: toHexQuantity(logIndex++), removed: false, blockTimestamp: '0x65' },
    }))
    return { ...receipt, ...placed, logs: ofReceipt }
  })
  return { block, transactions: bare.map(({ transaction }, i) => ({ ...transaction, ...place(i) })), receipts }
}

/** The last three fields of what is serialized. */
const signatureOf = (serialized: `0x${string}`, type: keyof typeof typeNumbers): JsonMembers => {
  const end = Buffer.from(serialized.slice(2), 'hex')
  // Each number of a signature with this key has 32 bytes in this block.
  const [r, s] = [end.subarray(-65, -33), end.subarray(-32)].map(bytes => `0x${bytes.toString('hex')}`)
  const v = end.at(-67)!
  const parity = v === 0x80 ? '0x0' : '0x1'
  return { r: r!, s: s!, ...(type === 'legacy' ? { v: toHexQuantity(v) } : { v: parity, yParity: parity }) }
}

const emptyUncles = '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347'
const emptyRoot = '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421'

/** A node that has this block alone. */
export const nodeOf =
  ({ block, transactions, receipts }: ClientBlock): Node =>
  async ({ method, params: [first, second] }) => {
    const at = (list: readonly JsonMembers[], name: string): Json => list.find(each => each[name] === first) ?? null
    if (/^eth_getBlockBy/.test(method))
      return { ...block, transactions: second === true ? transactions : transactions.map(each => each['hash']!) }
    if (method === 'eth_getBlockReceipts') return receipts
    if (method === 'eth_getTransactionByHash') return at(transactions, 'hash')
    return method === 'eth_getTransactionReceipt' ? at(receipts, 'transactionHash') : undefined
  }
