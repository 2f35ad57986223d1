/** Proven by eth_getProof. */
export const provableStates: readonly string[] = ['eth_getBalance', 'eth_getTransactionCount', 'eth_getCode', 'eth_getStorageAt']

/** Proven by the roots of transactions and receipts. */
export const provableHistory: readonly string[] = [
  'eth_getBlockByNumber',
  'eth_getBlockByHash',
  'eth_getBlockReceipts',
  'eth_getTransactionByBlockNumberAndIndex',
  'eth_getTransactionByBlockHashAndIndex',
  'eth_getTransactionByHash',
  'eth_getTransactionReceipt',
]

/** The methods of which something is proven. */
export const provableMethods: readonly string[] = [...provableStates, ...provableHistory, 'eth_getLogs']

/** Why nothing is proven on chains whose headers do not hash as those of Ethereum, by chain ID. */
export const unprovableChains: Readonly<Record<number, string>> = {
  30: 'Rootstock hashes other headers, and has another trie',
  300: 'zkSync hashes no headers',
  324: 'zkSync hashes no headers',
  2741: 'Abstract hashes no headers, as zkSync',
  8217: 'Kaia has headers with other fields',
  43113: 'Avalanche has headers with fields of its own',
  43114: 'Avalanche has headers with fields of its own',
}
