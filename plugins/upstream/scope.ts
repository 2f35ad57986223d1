import { isFailure, refuse } from '../../src/plugin.ts'
import type { Failure, Json, Reply, Request, Results } from '../../src/plugin.ts'
import { hex, numberOf } from './filter.ts'
import type { Filter } from './filter.ts'

/** Asks the node of a query within what is left of its time. */
export type Ask = (request: Request) => Promise<Reply>

export interface Block {
  readonly number: bigint
  /** Missing when the block is final. */
  readonly hash?: string
}

/** The blocks of a query as numbers. */
export interface Scope {
  readonly from: bigint
  /** What was asked for; not below the last block. */
  readonly to: bigint
  /** The last of them that exists. */
  readonly last: Block
}

/** The node and what is needed to ask it. */
export interface Asking {
  readonly ask: Ask
  readonly results: Results
  isFinal(block: bigint): boolean
}

/** Turns tags into numbers, once. Undefined when the chain has no such range: the node knows how to refuse it. */
export const resolveScope = async (
  { fromBlock = 'latest', toBlock = 'latest' }: Filter,
  asking: Asking,
): Promise<Scope | Failure | undefined> => {
  const end = (await findBlock(toBlock, asking)) ?? (await readBlock('latest', asking))
  if (end === undefined || isFailed(end)) return end
  const start = fromBlock === toBlock ? end : (numberOf(fromBlock) ?? (await readBlock(fromBlock, asking)))
  if (start === undefined || isFailed(start)) return start
  const from = typeof start === 'bigint' ? start : start.number
  const to = numberOf(toBlock) ?? end.number
  return from > end.number ? undefined : { from, to, last: end }
}

/** The block must still be the one of its number: then so are all below it. Undefined when it is. */
export const stillStands = async ({ number, hash }: Block, asking: Asking): Promise<Failure | undefined> => {
  if (hash === undefined) return undefined
  const now = await readBlock(hex(number), asking)
  if (now !== undefined && isFailed(now)) return now
  return now?.hash === hash
    ? undefined
    : refuse('unavailable', { elsewhere: true, retryAfter: 1, cause: 'a block was replaced while a query was asked in pieces' })
}

/** A final block is there, and stays: most queries over many blocks end in one, and need not ask for it twice. */
const findBlock = async (block: Json, asking: Asking): Promise<Block | Failure | undefined> => {
  const number = numberOf(block)
  return number !== undefined && asking.isFinal(number) ? { number } : readBlock(block, asking)
}

/** Undefined when the node has no such block. */
const readBlock = async (block: Json, { ask, results }: Asking): Promise<Block | Failure | undefined> => {
  const reply = await ask({ method: 'eth_getBlockByNumber', params: [block, false] })
  if (isFailure(reply)) return reply
  const [number, hash] = results.parts(reply.result, ['number', 'hash'])?.[0]?.members ?? []
  const height = numberOf(number?.replaceAll('"', ''))
  return height === undefined || hash === undefined ? undefined : { number: height, hash }
}

const isFailed = (value: Block | Failure | bigint): value is Failure => typeof value === 'object' && 'error' in value
