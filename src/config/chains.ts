/** A well-known chain, as `tollgate networks add` writes it. */
export interface Chain {
  readonly chainId: number
  /** The name of the network and of its file. */
  readonly name: string
  /** The symbol of the native currency; undefined for a chain that is not in the list. */
  readonly currency: string | undefined
  /** The usual time between two blocks. */
  readonly blockTime: string
}

const chain = (chainId: number, name: string, currency: string, blockTime: string): Chain => ({ chainId, name, currency, blockTime })

/** The chain ids of development nodes that are told no other: anvil, Hardhat, Ganache and geth --dev. */
export const developmentChainIds: ReadonlySet<number> = new Set([1337, 31337])

/** Public facts of well-known chains. A block time may change by an upgrade of the chain: the file that is written has it to edit. */
export const wellKnownChains: readonly Chain[] = [
  chain(1, 'ethereum-mainnet', 'ETH', '12s'),
  chain(10, 'optimism-mainnet', 'ETH', '2s'),
  chain(30, 'rootstock-mainnet', 'RBTC', '30s'),
  chain(56, 'bnb-mainnet', 'BNB', '750ms'),
  chain(100, 'gnosis-mainnet', 'XDAI', '5s'),
  chain(130, 'unichain-mainnet', 'ETH', '1s'),
  chain(137, 'polygon-mainnet', 'POL', '2s'),
  chain(143, 'monad-mainnet', 'MON', '400ms'),
  chain(146, 'sonic-mainnet', 'S', '630ms'),
  chain(252, 'fraxtal-mainnet', 'FRAX', '2s'),
  chain(300, 'zksync-sepolia', 'ETH', '200ms'),
  chain(324, 'zksync-mainnet', 'ETH', '200ms'),
  chain(480, 'worldchain-mainnet', 'ETH', '2s'),
  chain(1135, 'lisk-mainnet', 'ETH', '2s'),
  chain(1284, 'moonbeam-mainnet', 'GLMR', '6s'),
  chain(1329, 'sei-mainnet', 'SEI', '400ms'),
  chain(1868, 'soneium-mainnet', 'ETH', '2s'),
  chain(2020, 'ronin-mainnet', 'RON', '3s'),
  chain(2741, 'abstract-mainnet', 'ETH', '200ms'),
  chain(5000, 'mantle-mainnet', 'MNT', '2s'),
  chain(8217, 'kaia-mainnet', 'KLAY', '1s'),
  chain(8453, 'base-mainnet', 'ETH', '2s'),
  chain(9745, 'plasma-mainnet', 'XPL', '1s'),
  chain(10143, 'monad-testnet', 'MON', '400ms'),
  chain(10200, 'gnosis-chiado', 'xDAI', '5s'),
  chain(34443, 'mode-mainnet', 'ETH', '2s'),
  chain(42161, 'arbitrum-mainnet', 'ETH', '250ms'),
  chain(42170, 'arbitrum-nova', 'ETH', '250ms'),
  chain(42220, 'celo-mainnet', 'CELO', '1s'),
  chain(43113, 'avalanche-fuji', 'AVAX', '2s'),
  chain(43114, 'avalanche-mainnet', 'AVAX', '2s'),
  chain(57073, 'ink-mainnet', 'ETH', '2s'),
  chain(59141, 'linea-sepolia', 'ETH', '2s'),
  chain(59144, 'linea-mainnet', 'ETH', '2s'),
  chain(80002, 'polygon-amoy', 'POL', '2s'),
  chain(80094, 'berachain-mainnet', 'BERA', '2s'),
  chain(81457, 'blast-mainnet', 'ETH', '2s'),
  chain(84532, 'base-sepolia', 'ETH', '2s'),
  chain(421614, 'arbitrum-sepolia', 'ETH', '250ms'),
  chain(534351, 'scroll-sepolia', 'ETH', '3s'),
  chain(534352, 'scroll-mainnet', 'ETH', '3s'),
  chain(560048, 'ethereum-hoodi', 'ETH', '12s'),
  chain(7777777, 'zora-mainnet', 'ETH', '2s'),
  chain(11142220, 'celo-sepolia', 'S-CELO', '1s'),
  chain(11155111, 'ethereum-sepolia', 'ETH', '12s'),
  chain(11155420, 'optimism-sepolia', 'ETH', '2s'),
]
