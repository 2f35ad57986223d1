import { startAnvil } from '../../src/cli/anvil.ts'
import type { Anvil } from '../../src/cli/anvil.ts'
import { callResult } from './rpc-client.ts'

/** A real node with ten unlocked accounts. */
export interface AnvilChain extends Anvil {
  /** The result of a call to the node itself. */
  request<T = string>(method: string, ...params: readonly unknown[]): Promise<T>
  /** Sends from the first account and waits until it is mined. */
  sendTransaction(transaction: { readonly to?: string; readonly data?: string; readonly value?: string }): Promise<Receipt>
}

export interface Receipt {
  readonly transactionHash: string
  readonly blockHash: string
  readonly blockNumber: string
  readonly contractAddress: string | null
}

/** A contract that writes any number of logs in a call. */
export interface LogEmitter {
  readonly address: string
  /** Writes `count` logs in one block, `Emitted(0)` to `Emitted(count - 1)`. 10,000 take 11.8 M gas and 0.3 s. */
  emitLogs(count: number): Promise<Receipt>
}

/** `options` are those of anvil, such as `--block-time 1`. */
export const startAnvilChain = async (...options: readonly string[]): Promise<AnvilChain> => {
  const anvil = await startAnvil(options)
  const request = <T>(method: string, ...params: readonly unknown[]) => callResult<T>(anvil.url, method, params)
  return {
    ...anvil,
    request,
    async sendTransaction(transaction) {
      const [from] = await request<string[]>('eth_accounts')
      return request<Receipt>('eth_sendTransactionSync', { from, ...transaction })
    },
  }
}

/** keccak-256 of `Emitted(uint256)`: topic 0 of each log; topic 1 is its number. */
export const emittedTopic = '0xa29a2caaccc1085ba955c262f6c80a1d1480f34fc1712c44c357c98030b9ee57'

/** For client libraries. `emitLogs` also writes its argument to slot 0, which `count` reads. */
export const emitterAbi = [
  {
    type: 'function',
    name: 'emitLogs',
    stateMutability: 'nonpayable',
    inputs: [{ name: 'count', type: 'uint256' }],
    outputs: [],
  },
  {
    type: 'function',
    name: 'count',
    stateMutability: 'view',
    inputs: [],
    outputs: [{ name: '', type: 'uint256' }],
  },
  { type: 'event', name: 'Emitted', inputs: [{ name: 'index', type: 'uint256', indexed: true }] },
] as const

/** Deploys the contract below. */
export const deployEmitter = async (chain: AnvilChain): Promise<LogEmitter> => {
  const { contractAddress } = await chain.sendTransaction({ data: `0x${creationCode}${runtimeCode}` })
  if (contractAddress === null) throw new Error('the contract was not created')
  return {
    address: contractAddress,
    emitLogs: count => chain.sendTransaction({ to: contractAddress, data: `0x4ce4ddea${count.toString(16).padStart(64, '0')}` }),
  }
}

/** Returns the code that follows its own 11 bytes. */
const creationCode = '605280600b6000396000f3'

// Written by hand, so that no Solidity compiler is needed. It ignores selectors: a call without an argument is `count`.
const runtimeCode = [
  '36600414604657', //              00: calldata of 4 bytes: go to 46
  '600435', //                      07: N = the argument
  '80600055', //                    0a: slot 0 = N
  '6000', //                        0e: i = 0
  '5b', //                          10: loop
  '818114604457', //                11: i equals N: go to 44
  '80', //                          17: topic 1 = i
  `7f${emittedTopic.slice(2)}`, //  18: topic 0
  '60006000a2', //                  39: LOG2 without data
  '600101', //                      3e: i = i + 1
  '601056', //                      41: go to 10
  '5b00', //                        44: stop
  '5b600054', //                    46: slot 0
  '60005260206000f3', //            4a: return it
].join('')
