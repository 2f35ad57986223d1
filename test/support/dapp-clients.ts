import { Contract, Interface, JsonRpcProvider, Wallet, WebSocketProvider } from 'ethers'
import type { Log } from 'ethers'
import { createPublicClient, createWalletClient, defineChain, http, webSocket } from 'viem'
import type { Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { Web3 } from 'web3'
import { emittedTopic, emitterAbi } from './anvil-chain.ts'

/** What a dApp does, with any library. */
export interface DappClient {
  chainId(): Promise<number>
  blockNumber(): Promise<number>
  balance(address: string): Promise<bigint>
  storageAt(address: string, slot: number): Promise<string>
  logs(address: string): Promise<readonly ClientLog[]>
  receipt(transactionHash: string): Promise<ClientReceipt>
  /** Signs a call of `emitLogs(count)`, sends it raw, waits until it is mined, and reads the events of its block. */
  emitLogs(contract: string, count: number): Promise<EmittedLogs>
  /** Calls `count()`. */
  count(contract: string): Promise<number>
  /** Subscribes to pending transactions: their hashes; only over WebSocket. */
  watchPending(onHash: (hash: string) => void): Promise<void>
  /** Subscribes to blocks, and to the events of the contract; only over WebSocket. */
  watch(contract: string, watcher: Watcher): Promise<void>
  /** A raw JSON-RPC call. */
  request(method: string, params: readonly unknown[]): Promise<unknown>
  /** The JSON-RPC error in a rejection of `request`; each library puts it elsewhere. */
  rpcErrorOf(rejection: unknown): ClientError
  close(): Promise<void>
}

export interface Watcher {
  onBlock(number: number): void
  onEvent(index: number, isRemoved: boolean): void
}

export interface EmittedLogs {
  readonly transactionHash: string
  /** The arguments of the events, in their order. */
  readonly indexes: readonly number[]
}

export interface ClientLog {
  readonly transactionHash: string
  readonly logIndex: number
  readonly topics: readonly string[]
}

export interface ClientReceipt {
  readonly transactionHash: string
  readonly blockHash: string
  readonly logs: number
}

export interface ClientError {
  readonly code: number
  readonly message: string
}

/** The private keys of anvil's second, third and fourth account: one for each library, so that nonces do not collide. */
const privateKeys = {
  viem: '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
  ethers: '0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a',
  web3: '0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6',
} as const

/** How often a library requests a receipt; their defaults suit blocks of 12 s. */
const pollingIntervalMs = 50

/** `batch` sends the calls of one tick as a batch. */
export const openViem = (url: string, { batch = false } = {}): DappClient => {
  const chain = defineChain({
    id: 31337,
    name: 'devnet',
    rpcUrls: { default: { http: [url] } },
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
  })
  const socket = url.startsWith('ws') ? webSocket(url, { reconnect: false, keepAlive: false }) : undefined
  const transport = socket ?? http(url, { batch })
  const client = createPublicClient({ chain, transport, pollingInterval: pollingIntervalMs })
  const wallet = createWalletClient({ chain, transport, account: privateKeyToAccount(privateKeys.viem) })
  return {
    chainId: () => client.getChainId(),
    // The library caches a block number unless `cacheTime` is 0.
    blockNumber: async () => Number(await client.getBlockNumber({ cacheTime: 0 })),
    balance: address => client.getBalance({ address: address as Hex }),
    storageAt: async (address, slot) => (await client.getStorageAt({ address: address as Hex, slot: `0x${slot.toString(16)}` })) ?? '',
    logs: address => client.getLogs({ address: address as Hex, fromBlock: 'earliest', toBlock: 'latest' }),
    async receipt(hash) {
      const receipt = await client.getTransactionReceipt({ hash: hash as Hex })
      return { ...receipt, logs: receipt.logs.length }
    },
    async emitLogs(contract, count) {
      const call = { address: contract as Hex, abi: emitterAbi }
      const hash = await wallet.writeContract({ ...call, functionName: 'emitLogs', args: [BigInt(count)] })
      const { blockHash } = await client.waitForTransactionReceipt({ hash })
      const events = await client.getContractEvents({ ...call, eventName: 'Emitted', blockHash })
      return { transactionHash: hash, indexes: events.map(({ args }) => Number(args.index)) }
    },
    count: async contract => Number(await client.readContract({ address: contract as Hex, abi: emitterAbi, functionName: 'count' })),
    async watch(contract, { onBlock, onEvent }) {
      client.watchBlocks({ onBlock: ({ number }) => onBlock(Number(number)) })
      const onLogs = (logs: readonly { args: { index?: bigint | undefined }; removed: boolean }[]) =>
        logs.forEach(({ args, removed }) => onEvent(Number(args.index), removed))
      client.watchContractEvent({ address: contract as Hex, abi: emitterAbi, eventName: 'Emitted', onLogs })
    },
    async watchPending(onHash) {
      client.watchPendingTransactions({ onTransactions: hashes => hashes.forEach(onHash) })
    },
    // The types of the library allow only the methods that it knows.
    request: (method, params) => client.request({ method, params } as never),
    rpcErrorOf: innermostCause,
    close: async () => (await socket?.({ chain }).value?.getRpcClient())?.close(),
  }
}

/**
 * Sends the calls of one tick as a batch. Without `staticNetwork` it adds eth_chainId to each batch, and sends nothing else
 * before the first response to eth_chainId.
 */
export const openEthers = (url: string, { staticNetwork = false } = {}): DappClient => {
  const network = staticNetwork ? 31337 : undefined
  const provider = url.startsWith('ws')
    ? new WebSocketProvider(url, network, { staticNetwork })
    : new JsonRpcProvider(url, network, { staticNetwork })
  if (provider instanceof JsonRpcProvider) provider.pollingInterval = pollingIntervalMs
  const wallet = new Wallet(privateKeys.ethers, provider)
  const contractAt = (address: string) => new Contract(address, new Interface(emitterAbi), wallet)
  return {
    chainId: async () => Number((await provider.getNetwork()).chainId),
    blockNumber: () => provider.getBlockNumber(),
    balance: address => provider.getBalance(address),
    storageAt: (address, slot) => provider.getStorage(address, slot),
    logs: async address =>
      (await provider.getLogs({ address, fromBlock: 'earliest', toBlock: 'latest' })).map(({ transactionHash, index, topics }) => ({
        transactionHash,
        logIndex: index,
        topics,
      })),
    async receipt(hash) {
      const receipt = await provider.getTransactionReceipt(hash)
      if (receipt === null) throw new Error('no receipt')
      return { transactionHash: receipt.hash, blockHash: receipt.blockHash, logs: receipt.logs.length }
    },
    async emitLogs(address, count) {
      const contract = contractAt(address)
      const transaction = await contract.getFunction('emitLogs')(count)
      const receipt = await transaction.wait()
      const events = await contract.queryFilter('Emitted', receipt.blockNumber, receipt.blockNumber)
      const indexes = events.filter(event => 'args' in event).map(event => Number(event.args[0]))
      return { transactionHash: transaction.hash, indexes }
    },
    count: async address => Number(await contractAt(address).getFunction('count').staticCall()),
    async watch(contract, { onBlock, onEvent }) {
      await provider.on('block', onBlock)
      const filter = { address: contract, topics: [emittedTopic] }
      await provider.on(filter, ({ topics, removed }: Log) => onEvent(Number(topics[1]), removed))
    },
    watchPending: async onHash => void (await provider.on('pending', onHash)),
    request: (method, params) => provider.send(method, [...params]),
    rpcErrorOf(rejection) {
      const { error, info } = rejection as { error?: ClientError; info?: { responseBody: string } }
      return error ?? JSON.parse(info?.responseBody ?? '{}').error
    },
    close: async () => {
      await provider.destroy()
    },
  }
}

/** The ids of its calls are UUIDs. */
export const openWeb3 = (url: string): DappClient => {
  const web3 = new Web3(url)
  web3.setConfig({ transactionPollingInterval: pollingIntervalMs, transactionReceiptPollingInterval: pollingIntervalMs })
  const { address: from } = web3.eth.accounts.wallet.add(privateKeys.web3)[0] ?? { address: '' }
  const contractAt = (address: string) => new web3.eth.Contract(emitterAbi, address)
  return {
    chainId: async () => Number(await web3.eth.getChainId()),
    blockNumber: async () => Number(await web3.eth.getBlockNumber()),
    balance: address => web3.eth.getBalance(address),
    storageAt: (address, slot) => web3.eth.getStorageAt(address, slot),
    async logs(address) {
      const logs = await web3.eth.getPastLogs({ address, fromBlock: 'earliest', toBlock: 'latest' })
      return logs
        .filter(log => typeof log !== 'string')
        .map(({ transactionHash, logIndex, topics = [] }) => ({
          transactionHash: String(transactionHash),
          logIndex: Number(logIndex),
          topics: topics.map(String),
        }))
    },
    async receipt(hash) {
      const { transactionHash, blockHash, logs } = await web3.eth.getTransactionReceipt(hash)
      return { transactionHash: String(transactionHash), blockHash: String(blockHash), logs: logs.length }
    },
    async emitLogs(address, count) {
      const contract = contractAt(address)
      const { transactionHash, blockNumber } = await contract.methods.emitLogs(count).send({ from })
      const events = await contract.getPastEvents('Emitted', { fromBlock: blockNumber, toBlock: blockNumber })
      const indexes = events.filter(event => typeof event !== 'string').map(event => Number(event.returnValues.index))
      return { transactionHash, indexes }
    },
    count: async address => Number(await contractAt(address).methods.count().call()),
    async watch(contract, { onBlock, onEvent }) {
      const blocks = await web3.eth.subscribe('newBlockHeaders')
      blocks.on('data', ({ number }) => onBlock(Number(number)))
      const logs = await web3.eth.subscribe('logs', { address: contract, topics: [emittedTopic] })
      logs.on('data', ({ topics, removed }) => onEvent(Number(topics[1]), removed))
    },
    async watchPending(onHash) {
      const pending = await web3.eth.subscribe('newPendingTransactions')
      pending.on('data', hash => onHash(String(hash)))
    },
    request: (method, params) => web3.requestManager.send({ method, params: [...params] }),
    rpcErrorOf: innermostCause,
    close: async () => {
      if (url.startsWith('ws')) web3.provider?.disconnect()
    },
  }
}

const innermostCause = (rejection: unknown): ClientError => {
  const { cause } = rejection as { cause?: unknown }
  return cause === undefined ? (rejection as ClientError) : innermostCause(cause)
}
