import { encodeFunctionResult, multicall3Abi } from 'viem'
import type { Hex } from 'viem'
import type { AnvilChain } from '../support/anvil-chain.ts'

/** What the client libraries know of the token. */
export const tokenAbi = [
  'function balanceOf(address owner) view returns (uint256)',
  'function decimals() view returns (uint8)',
  'function symbol() view returns (string)',
  'function transfer(address to, uint256 amount) returns (bool)',
  'event Transfer(address indexed from, address indexed to, uint256 amount)',
] as const

/** The address that Multicall3 has on most networks. */
export const multicallAddress = '0xcA11bde05977b3631167028862bE2a173976CA11'

/** Deploys a token with its Multicall3; resolves with the address of the token. */
export const deployToken = async (chain: AnvilChain): Promise<Hex> => {
  const { contractAddress } = await chain.sendTransaction({ data: codeThatReturns(tokenCode) })
  if (contractAddress === null) throw new Error('the contract was not created')
  await chain.request('anvil_setCode', multicallAddress, codeThatReturns(multicallResult.slice(2)))
  return contractAddress as Hex
}

/** Returns the bytes that follow its own 13, whatever it is called with. */
const codeThatReturns = (bytes: string): Hex => `0x61${(bytes.length / 2).toString(16).padStart(4, '0')}80600d6000396000f300${bytes}`

// Written by hand, so that no Solidity compiler is needed. Each call but `symbol` and `transfer` returns 18.
const tokenCode = [
  '60003560e01c', //            00: the selector
  '806395d89b4114602357', //    06: it is `symbol`: go to 23
  '63a9059cbb14603e57', //      10: it is `transfer`: go to 3e
  '601260005260206000f3', //    19: return 18
  '5b', //                      23: symbol
  '6020600052', //              24: the text begins after this word
  '6004602052', //              29: it has 4 bytes
  '635445535460e01b604052', //  2e: "TEST"
  '60606000f3', //              39: return the three words
  '5b', //                      3e: transfer
  '602435600052', //            3f: the amount is the data of the event
  '60043533', //                45: topics 2 and 1: recipient and caller
  '7fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef', // 49: topic 0: the event
  '60206000a3', //              6a: LOG3
  '600160005260206000f3', //    6f: return true
].join('')

const wordOf = (digits: string): Hex => `0x${digits.padStart(64, '0')}`

/** What `aggregate3` returns for `balanceOf`, `decimals` and `symbol` of the token. */
const multicallResult = encodeFunctionResult({
  abi: multicall3Abi,
  functionName: 'aggregate3',
  result: [
    { success: true, returnData: wordOf('12') },
    { success: true, returnData: wordOf('12') },
    { success: true, returnData: `${wordOf('20')}${wordOf('4').slice(2)}${'54455354'.padEnd(64, '0')}` },
  ],
})
