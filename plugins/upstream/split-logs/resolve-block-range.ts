import { isFailure, refuse, toHexQuantity } from '../../../src/plugin/plugin.ts'
import type { Failure, Json, Reply, Request, Results } from '../../../src/plugin/plugin.ts'
import { parseBlockNumber } from './log-filter.ts'
import type { BlockRange, LogFilter } from './log-filter.ts'

/** Sends a request to the node of the query, within what is left of the query's time. */
export type SendRequest = (request: Request) => Promise<Reply>

export interface Block {
  readonly number: bigint
  /** Undefined when the block is final. */
  readonly hash?: string
}

/** The blocks of a query as numbers; `to` is the requested one, which may be above the head. */
export interface ResolvedBlockRange extends BlockRange {
  /** The last of them that exists. */
  readonly lastBlock: Block
}

/** Requests to the node of the query. */
export interface NodeQueries {
  readonly sendRequest: SendRequest
  readonly results: Results
  isFinal(block: bigint): boolean
}

/** Resolves tags to numbers, once. Undefined when the chain has no such range: the node refuses it in its own words. */
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

/** The block must still be the canonical block of its number: then all below it are too. Undefined when it is. */
export const checkNotReorged = async ({ number, hash }: Block, node: NodeQueries): Promise<Failure | undefined> => {
  if (hash === undefined) return undefined
  const current = await readBlock(toHexQuantity(number), node)
  if (current !== undefined && isFailedRead(current)) return current
  return current?.hash === hash
    ? undefined
    : refuse('unavailable', {
        retryElsewhere: true,
        retryAfter: 1,
        cause: 'chain reorganization while the chunks of a query were requested',
      })
}

/** A final block exists, and stays: most queries over many blocks end in one, and need no request for it. */
const findFinalOrReadBlock = async (block: Json, node: NodeQueries): Promise<Block | Failure | undefined> => {
  const number = parseBlockNumber(block)
  return number !== undefined && node.isFinal(number) ? { number } : readBlock(block, node)
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
