import { readFileSync } from 'node:fs'
import type { Json } from '../../../src/plugin/call.ts'
import { isJsonObject } from '../../../src/util/json.ts'
import type { JsonMembers } from './verify-fixture.ts'

/** A request to a node of the official test chain, and what it answers. */
interface RecordedAnswer {
  /** Method and name, as its file is called. */
  readonly name: string
  readonly method: string
  readonly params: readonly Json[]
  readonly result: Json
}

const readAnswers = (file: string): readonly RecordedAnswer[] =>
  [
    ...readFileSync(new URL(`../../../../test/plugins/verify/${file}`, import.meta.url), 'utf8').matchAll(
      /^\/\/ (?<name>\S+)\n>> (?<request>.+)\n<< (?<response>.+)$/gm,
    ),
  ].map(({ groups = {} }) => ({
    name: groups['name']!,
    ...(JSON.parse(groups['request']!) as Pick<RecordedAnswer, 'method' | 'params'>), // as the file has them
    ...(JSON.parse(groups['response']!) as Pick<RecordedAnswer, 'result'>),
  }))

/** The answers that are recorded of the official test chain. */
export const recordedAnswers = readAnswers('official-chain.io')

/** Blocks of test chains that came before it. */
export const earlierAnswers = readAnswers('earlier-chains.io')

export const officialChainId = 0xc72dd9d5e883e

const resultOf = (method: string, ...params: readonly Json[]): Json =>
  recordedAnswers.find(each => each.method === method && JSON.stringify(each.params) === JSON.stringify(params))!.result

const head = resultOf('eth_getBlockByNumber', 'latest', true) as JsonMembers & { readonly transactions: readonly JsonMembers[] } // a block
const { hash, number } = head
const receipts = resultOf('eth_getBlockReceipts', 'latest') as readonly JsonMembers[] // of a block

/** How many parameters a question about the state has with its block: without one it is about the newest. */
const stateParams: Readonly<Record<string, number>> = { eth_getBalance: 2, eth_getCode: 2, eth_getStorageAt: 3 }

/** The same for what a node takes for the same: names of the newest block, zeros before a slot, a list of one in a filter, a block that is omitted. */
const canonical = (method: string, params: readonly Json[]): string => {
  const block = params.length < (stateParams[method] ?? 0) ? ['latest'] : []
  const text = JSON.stringify([method, ...params, ...block], (_, value) => {
    if (value === 'latest' || value === 'finalized' || value === number || value === hash) return 'head'
    if (typeof value === 'string') return value.replace(/^0x0+$/, '0x0')
    return isJsonObject(value) ? Object.fromEntries(Object.entries(value).sort()) : value
  })
  return text.replaceAll(/\[("[^"]*")\]/g, '$1')
}

/** What a node that has the recorded answers returns for a request; undefined for all that none of them says. */
export const answerOf = (method: string, params: readonly Json[]): Json | undefined => {
  if (method === 'eth_blockNumber') return number!
  const asked = canonical(method, params)
  const recorded = recordedAnswers.find(each => asked === canonical(each.method, each.params))
  if (recorded !== undefined) return recorded.result
  // The head is recorded whole, so that it says what the block is without its transactions, and what its transactions are.
  if (/^eth_getBlockBy/.test(method) && asked === canonical(method, ['latest', params[1]!]))
    return params[1] === true ? head : { ...head, transactions: head.transactions.map(each => each['hash']!) }
  if (method === 'eth_getTransactionByHash') return head.transactions.find(each => each['hash'] === params[0])
  return method === 'eth_getTransactionReceipt' ? receipts.find(each => each['transactionHash'] === params[0]) : undefined
}

/** Calls about the newest block: of these alone all is recorded that a proof needs. */
export const headAnswers: readonly RecordedAnswer[] = [
  ...recordedAnswers.filter(
    ({ method, params }) =>
      method !== 'eth_getProof' &&
      (params.includes('latest') || params.includes('finalized') || params.length < (stateParams[method] ?? 0)),
  ),
  ...head.transactions.flatMap((transaction, i) => [
    { name: `transaction ${i}`, method: 'eth_getTransactionByHash', params: [transaction['hash']!], result: transaction },
    { name: `receipt ${i}`, method: 'eth_getTransactionReceipt', params: [transaction['hash']!], result: receipts[i]! },
  ]),
  {
    name: 'logs of the receipts',
    method: 'eth_getLogs',
    params: [{ fromBlock: number!, toBlock: number! }],
    result: receipts.flatMap(({ logs }) => logs as readonly Json[]),
  },
]
