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
