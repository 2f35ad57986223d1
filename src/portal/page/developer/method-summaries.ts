import type { PortalMethod } from '../../portal-services.ts'
import { formatNumber } from '../format.ts'
import { developerTexts } from './developer-texts.ts'

const text = developerTexts.plan

/** What methods do, in a sentence. */
const summaries: Readonly<Record<string, string>> = {
  eth_accounts: 'The accounts of the node: none here.',
  eth_baseFee: 'The base fee of the next block, in wei.',
  eth_blobBaseFee: 'The price of a unit of blob gas in the next block, in wei.',
  eth_blockNumber: 'The number of the newest block.',
  eth_call: 'Runs a call of a contract without a transaction, and returns what it returns.',
  eth_callMany: 'Runs bundles of calls, each on the state after the ones before it.',
  eth_capabilities: 'What the node has: which blocks, state and logs.',
  eth_chainId: 'The chain ID, which signatures name.',
  eth_config: 'The parameters of the current fork and of the next one.',
  eth_createAccessList: 'The addresses and storage that a transaction would touch, as an access list.',
  eth_estimateGas: 'How much gas a transaction would need.',
  eth_feeHistory: 'Base fees, use of gas and tips of a range of blocks.',
  eth_fillTransaction: 'Fills in what a transaction lacks: nonce, gas and prices.',
  eth_gasPrice: 'A gas price with which a transaction is likely to be mined soon, in wei.',
  eth_getAccount: 'Balance, nonce, storage root and code hash of an account.',
  eth_getAccountInfo: 'Balance, nonce and code of an account.',
  eth_getBalance: 'The balance of an account, in wei.',
  eth_getBlockAccessList: 'The accounts and the storage that a block has touched.',
  eth_getBlockByHash: 'A block by its hash, with the hashes of its transactions or with all of them.',
  eth_getBlockByNumber: 'A block by its number or a tag, with the hashes of its transactions or with all of them.',
  eth_getBlockReceipts: 'The receipts of all transactions of a block.',
  eth_getBlockTransactionCountByHash: 'How many transactions a block has, by its hash.',
  eth_getBlockTransactionCountByNumber: 'How many transactions a block has, by its number.',
  eth_getCode: 'The code of a contract; 0x for an account without code.',
  eth_getFilterChanges: 'What is new for a filter since it was asked last.',
  eth_getFilterLogs: 'All logs of a filter.',
  eth_getHeaderByHash: 'The header of a block, by its hash.',
  eth_getHeaderByNumber: 'The header of a block, by its number or a tag.',
  eth_getLogs: 'The logs that match a filter.',
  eth_getProof: 'A Merkle proof of an account and of some of its storage.',
  eth_getRawTransactionByBlockHashAndIndex: 'A transaction as it was signed, by the hash of its block and its position.',
  eth_getRawTransactionByBlockNumberAndIndex: 'A transaction as it was signed, by the number of its block and its position.',
  eth_getRawTransactionByHash: 'A transaction as it was signed, by its hash.',
  eth_getStorageAt: 'A word of the storage of a contract.',
  eth_getStorageValues: 'Words of the storage of several contracts.',
  eth_getTransactionByBlockHashAndIndex: 'A transaction by the hash of its block and its position.',
  eth_getTransactionByBlockNumberAndIndex: 'A transaction by the number of its block and its position.',
  eth_getTransactionByHash: 'A transaction by its hash; null where it is not known.',
  eth_getTransactionCount: 'How many transactions an account has sent: its next nonce.',
  eth_getTransactionReceipt: 'The receipt of a mined transaction; null while it is pending.',
  eth_maxPriorityFeePerGas: 'A tip with which a transaction is likely to be mined soon, in wei.',
  eth_newBlockFilter: 'A filter of new blocks, for eth_getFilterChanges.',
  eth_newFilter: 'A filter of logs, for eth_getFilterChanges.',
  eth_newPendingTransactionFilter: 'A filter of pending transactions, for eth_getFilterChanges.',
  eth_sendRawTransaction: 'Sends a signed transaction; returns its hash.',
  eth_sendRawTransactionSync: 'Sends a signed transaction, and waits for its receipt.',
  eth_simulateV1: 'Simulates blocks of calls, with changes of state and of the block.',
  eth_subscribe: 'Sends events as they happen, over a WebSocket: newHeads, logs, newPendingTransactions or syncing.',
  eth_syncing: 'Whether the node is still syncing: false when it is not.',
  eth_uninstallFilter: 'Removes a filter.',
  net_listening: 'Whether the node accepts peers.',
  net_peerCount: 'How many peers the node has.',
  net_version: 'The network ID, as a text.',
  'rpc.discover': 'The methods that your key may call, as an OpenRPC document.',
  rpc_modules: 'The namespaces of the methods.',
  web3_clientVersion: 'The name and version of the gateway.',
  web3_sha3: 'The Keccak-256 hash of some bytes.',
}

/** What a call may have at most, and what becomes of one that has more. */
export const describeLimits = ({ results, blocks, ms }: NonNullable<PortalMethod['limits']>): string =>
  [
    ...(results === undefined ? [] : [`${formatNumber(results)} ${text.resultLimit}`]),
    ...(ms === undefined ? [] : [`${text.timeLimit} ${formatNumber(ms / 1_000)} s.`]),
    ...(blocks === undefined ? [] : [blocks === null ? text.anyBlocks : `${formatNumber(blocks)} ${text.blockLimit}`]),
  ].join(' ')

export const summaryOf = (method: string): string => summaries[method] ?? ''
