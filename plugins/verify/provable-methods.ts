import type { Services } from '../../src/plugin/plugin.ts'

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

/** What can be proven on a chain alone, and why. */
interface Unprovable {
  readonly what: 'nothing' | 'state alone' | 'history alone'
  readonly reason: string
}

const avalanche: Unprovable = { what: 'nothing', reason: 'Avalanche has headers with fields of its own' }
const polygon: Unprovable = {
  what: 'state alone',
  reason:
    'transactions and logs of the bridge of Polygon were under no root and in no bloom before its fork Madhugiri, and are of a type of its own since',
}
const shibarium: Unprovable = {
  what: 'state alone',
  reason: 'Shibarium has transactions and logs of its bridge under no root, as Polygon had',
}
const blast: Unprovable = { what: 'history alone', reason: 'Blast has accounts with fields of its own' }
const zkSync: Unprovable = { what: 'nothing', reason: 'zkSync hashes no headers' }

/** Chains whose headers do not hash as those of Ethereum, or whose nodes return what headers do not cover, by chain ID. */
const unprovableChains: Readonly<Record<number, Unprovable>> = {
  30: { what: 'nothing', reason: 'Rootstock hashes other headers, and has another trie' },
  137: polygon,
  109: shibarium,
  157: shibarium,
  300: zkSync,
  324: zkSync,
  2741: { what: 'nothing', reason: 'Abstract hashes no headers, as zkSync' },
  8217: { what: 'nothing', reason: 'Kaia has headers with other fields' },
  43113: avalanche,
  43114: avalanche,
  80002: polygon,
  81457: blast,
  168587773: blast,
}

/** Why the method is not proven on the chain, if so. A development node has blocks as those of Ethereum under any chain ID. */
export const whyUnprovable = (
  method: string,
  { chainId, devNode }: Pick<Services['network'], 'chainId' | 'devNode'>,
): string | undefined => {
  const unprovable = devNode ? undefined : unprovableChains[chainId]
  const what = provableStates.includes(method) ? 'state alone' : 'history alone'
  return unprovable === undefined || unprovable.what === what
    ? undefined
    : `${unprovable.what} is proven on chain ${chainId}: ${unprovable.reason}`
}
