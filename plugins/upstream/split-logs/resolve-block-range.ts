import { isFailure, refuse } from '../../../src/plugin/plugin.ts'
import type { Failure, Json, Reply, Request, Results } from '../../../src/plugin/plugin.ts'
import { hex, parseBlockNumber } from './log-filter.ts'
import type { LogFilter } from './log-filter.ts'

/** Asks the node of a query within what is left of its time. */
export type SendRequest = (request: Request) => Promise<Reply>

export interface Block {
  readonly number: bigint
  /** Missing when the block is final. */
  readonly hash?: string
}

/** The blocks of a query as numbers. */
export interface ResolvedBlockRange {
  readonly from: bigint
  /** What was asked for; not below the last block. */
  readonly to: bigint
  /** The last of them that exists. */
  readonly lastBlock: Block
}

/** The node and what is needed to ask it. */
export interface NodeQueries {
  readonly sendRequest: SendRequest
  readonly results: Results
  isFinal(block: bigint): boolean
}

/** Turns tags into numbers, once. Undefined when the chain has no such range: the node knows how to refuse it. */
export const resolveBlockRange = async (
  { fromBlock = 'latest', toBlock = 'latest' }: LogFilter,
  node: NodeQueries,
): Promise<ResolvedBlockRange | Failure | undefined> => {
  const end = (await findFinalOrReadBlock(toBlock, node)) ?? (await readBlock('latest', node))
  if (end === undefined || isFailedRead(end)) return end
  const start = fromBlock === toBlock ? end : (parseBlockNumber(fromBlock) ?? (await readBlock(fromBlock, node)))
  if (start === undefined || isFailedRead(start)) return start
  const from = typeof start === 'bigint' ? start : start.number
  const to = parseBlockNumber(toBlock) ?? end.number
  return from > end.number ? undefined : { from, to, lastBlock: end }
}

/** The block must still be the one of its number: then so are all below it. Undefined when it is. */
export const checkNotReorged = async ({ number, hash }: Block, node: NodeQueries): Promise<Failure | undefined> => {
  if (hash === undefined) return undefined
  const now = await readBlock(hex(number), node)
  if (now !== undefined && isFailedRead(now)) return now
  return now?.hash === hash
    ? undefined
    : refuse('unavailable', { retryElsewhere: true, retryAfter: 1, cause: 'a block was replaced while a query was asked in pieces' })
}

/** A final block is there, and stays: most queries over many blocks end in one, and need not ask for it twice. */
const findFinalOrReadBlock = async (block: Json, asking: NodeQueries): Promise<Block | Failure | undefined> => {
  const number = parseBlockNumber(block)
  return number !== undefined && asking.isFinal(number) ? { number } : readBlock(block, asking)
}

/** Undefined when the node has no such block. */
const readBlock = async (block: Json, { sendRequest, results }: NodeQueries): Promise<Block | Failure | undefined> => {
  const reply = await sendRequest({ method: 'eth_getBlockByNumber', params: [block, false] })
  if (isFailure(reply)) return reply
  const [number, hash] = results.extractObjects(reply.result, ['number', 'hash'])?.[0]?.members ?? []
  const height = parseBlockNumber(number?.replaceAll('"', ''))
  return height === undefined || hash === undefined ? undefined : { number: height, hash }
}

const isFailedRead = (value: Block | Failure | bigint): value is Failure => typeof value === 'object' && 'error' in value
