import { memberIsOneOf, memberIsWithin } from '../../../src/plugin/internal.ts'
import type { ExpectedMember, Results } from '../../../src/plugin/internal.ts'
import { isFailure, isJsonObject, refuse, toHexQuantity } from '../../../src/plugin/plugin.ts'
import type { Failure, Json, Reply, Request, Target } from '../../../src/plugin/plugin.ts'

/** The parameter of eth_getLogs, as the method table has checked and normalized it (contract 2.4). */
export type FilterParam = { readonly [name: string]: Json }

/** A range of blocks, both ends included. */
export interface BlockRange {
  readonly from: bigint
  readonly to: bigint
}

/** Some blocks of a query, and filters over just these; a log matches one of the filters at most. */
export interface ChunkGroup {
  /** Undefined where the filters name one block by its hash. */
  readonly blocks?: { readonly from: string; readonly to: string }
  /** One for each chunk. */
  readonly filters: readonly FilterParam[]
}

export const filterOf = ({ params: [filter] }: Request): FilterParam => (isJsonObject(filter) ? filter : {})

/** A block number, which may be above 2^53; undefined for a tag. */
export const parseBlockNumber = (block: Json | undefined): bigint | undefined =>
  typeof block === 'string' && /^0x[0-9a-fA-F]{1,16}$/.test(block) ? BigInt(block) : undefined

/** The same query without duplicates in lists that are too long for the node. */
export const removeDuplicates = (filter: FilterParam, { maxParams = Infinity }: Pick<Target, 'maxParams'>): FilterParam => {
  const lists = listsOf(filter)
  if (!lists.some(list => isLongList(list, maxParams))) return filter
  return withLists(
    filter,
    lists.map(list => distinctValues(list, maxParams)),
  )
}

/** How many queries the lists of a filter become where a node accepts `maxParams` of each. */
export const countListChunks = (filter: FilterParam, { maxParams = Infinity }: Pick<Target, 'maxParams'>): number =>
  listsOf(filter).reduce<number>((count, list) => count * countSublists(list, maxParams), 1)

/**
 * The filter as several filters with fewer addresses and topics. A log matches one of them at most, since it has one
 * address, and one topic in each position, and every value is in one sublist only.
 */
export const splitByLists = (filter: FilterParam, { maxParams = Infinity }: Pick<Target, 'maxParams'>): readonly FilterParam[] =>
  listsOf(filter)
    .reduce<readonly (readonly Json[])[]>(
      (rows, list) => rows.flatMap(row => sublistsOf(list, maxParams).map(sublist => [...row, sublist])),
      [[]],
    )
    .map(lists => withLists(filter, lists))

/** As much of the range as the node accepts at once, from the lowest block. */
export const firstRangeOf = ({ from, to }: BlockRange, { maxRange }: Pick<Target, 'maxRange'>): BlockRange =>
  maxRange === undefined || to - from < BigInt(maxRange) ? { from, to } : { from, to: from + BigInt(maxRange) - 1n }

/** Ranges of at most `maxRange` blocks, lowest first. */
export const splitRange = ({ from, to }: BlockRange, target: Pick<Target, 'maxRange'>): readonly BlockRange[] => {
  const ranges: BlockRange[] = []
  for (let start = from; start <= to; start = (ranges.at(-1)?.to ?? to) + 1n) ranges.push(firstRangeOf({ from: start, to }, target))
  return ranges
}

/** How many ranges splitRange() gives. */
export const countRanges = ({ from, to }: BlockRange, { maxRange }: Pick<Target, 'maxRange'>): number =>
  maxRange === undefined ? 1 : Number((to - from) / BigInt(maxRange)) + 1

/** The address, then each position of the topics. */
const listsOf = ({ address = null, topics }: FilterParam): readonly Json[] => [
  address,
  ...(Array.isArray(topics) ? (topics as readonly Json[]) : []),
]

const withLists = (filter: FilterParam, [address = null, ...topics]: readonly Json[]): FilterParam => ({
  ...filter,
  ...('address' in filter && { address }),
  ...('topics' in filter && { topics }),
})

const isLongList = (list: Json, maxLength: number): list is readonly Json[] => Array.isArray(list) && list.length > maxLength

/** A null among topics matches any topic, so that a list with null matches anything. */
const distinctValues = (list: Json, maxLength: number): Json =>
  !isLongList(list, maxLength) ? list : list.includes(null) ? null : [...new Set(list)]

const countSublists = (list: Json, maxLength: number): number => (isLongList(list, maxLength) ? Math.ceil(list.length / maxLength) : 1)

const sublistsOf = (list: Json, maxLength: number): readonly Json[] =>
  !isLongList(list, maxLength)
    ? [list]
    : Array.from({ length: countSublists(list, maxLength) }, (_, i) => list.slice(i * maxLength, (i + 1) * maxLength))

/** Sends a request to the node of the query, within what is left of the query's time. */
export type SendRequest = (request: Request) => Promise<Reply>

export interface QueriedBlock {
  readonly number: bigint
  /** Undefined when the block is final. */
  readonly hash?: string
}

/** One end of a range. */
interface RangeEnd {
  /** A number stays that number, also above the head. */
  readonly number: bigint
  /** Undefined when the node has no block of the number. */
  readonly block: QueriedBlock | undefined
}

/** The blocks of a query as numbers; `to` is the requested one, which may be above the head. */
export interface ResolvedBlockRange extends BlockRange {
  /** The last of them that exists; undefined when the whole range is above the head. */
  readonly lastBlock: QueriedBlock | undefined
}

/** Requests to the node of the query. */
interface NodeQueries {
  readonly sendRequest: SendRequest
  readonly results: Results
  isFinal(block: bigint): boolean
}

/** Resolves tags to numbers, once. Undefined when the chain has no such range: the node refuses it in its own words. */
export const resolveBlockRange = async (
  { fromBlock = 'latest', toBlock = 'latest' }: FilterParam,
  node: NodeQueries,
): Promise<ResolvedBlockRange | Failure | undefined> => {
  const end = await resolveEnd(toBlock, node)
  if (end === undefined || 'error' in end) return end
  const from = fromBlock === toBlock ? end.number : await resolveStart(fromBlock, node)
  if (from === undefined || isFailedRead(from)) return from
  if (from > end.number) return undefined
  const lastBlock = await findLastBlock(end, node)
  if (lastBlock === undefined || isFailedRead(lastBlock)) return lastBlock
  return { from, to: end.number, lastBlock: from > lastBlock.number ? undefined : lastBlock }
}

/**
 * Undefined for a tag for which the node has no block. A final block exists, and stays: most queries over many blocks end in one, and
 * need no request for it.
 */
const resolveEnd = async (name: Json, node: NodeQueries): Promise<RangeEnd | Failure | undefined> => {
  const number = parseBlockNumber(name)
  if (number !== undefined && node.isFinal(number)) return { number, block: { number } }
  const block = await readBlock(name, node)
  if (block !== undefined && isFailedRead(block)) return block
  return number === undefined ? block && { number: block.number, block } : { number, block }
}

const resolveStart = async (name: Json, node: NodeQueries): Promise<bigint | Failure | undefined> => {
  const number = parseBlockNumber(name)
  if (number !== undefined) return number
  const block = await readBlock(name, node)
  return block === undefined || isFailedRead(block) ? block : block.number
}

/** The head, for an end above it. When the head has passed that end meanwhile, the end exists. */
const findLastBlock = async ({ number, block }: RangeEnd, node: NodeQueries): Promise<QueriedBlock | Failure | undefined> => {
  const lastBlock = block ?? (await readBlock('latest', node))
  if (lastBlock === undefined || isFailedRead(lastBlock) || lastBlock.number <= number) return lastBlock
  return readBlock(toHexQuantity(number), node)
}

/** The block must still be the canonical block of its number: then all below it are too. Undefined when it is. */
export const checkNotReorged = async ({ number, hash }: QueriedBlock, node: NodeQueries): Promise<Failure | undefined> => {
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

/** Undefined when the node has no such block. */
export const readBlock = async (
  block: Json,
  { sendRequest, results }: Pick<NodeQueries, 'sendRequest' | 'results'>,
  method: 'eth_getBlockByNumber' | 'eth_getBlockByHash' = 'eth_getBlockByNumber',
): Promise<QueriedBlock | Failure | undefined> => {
  const reply = await sendRequest({ method, params: [block, false] })
  if (isFailure(reply)) return reply
  const [number, hash] = results.extractObjects(reply.result, ['number', 'hash'])?.[0]?.members ?? []
  const height = parseBlockNumber(number?.replaceAll('"', ''))
  return height === undefined || hash === undefined ? undefined : { number: height, hash }
}

export const isFailedRead = (value: QueriedBlock | Failure | bigint): value is Failure => typeof value === 'object' && 'error' in value

/** What each log must have to be one of those that the filter names, as far as blocks and addresses go. */
export const expectedMembersOf = ({ blockHash, fromBlock, toBlock, address }: FilterParam): readonly ExpectedMember[] => {
  const expected: ExpectedMember[] = []
  const addresses = (Array.isArray(address) ? address : [address]).filter(each => typeof each === 'string')
  if (addresses.length > 0) expected.push(memberIsOneOf('address', addresses))
  if (typeof blockHash === 'string') return [...expected, memberIsOneOf('blockHash', [blockHash])]
  if (fromBlock === 'pending' || toBlock === 'pending') return expected // logs of the pending block have no number
  const [from, to] = [parseBlockNumber(fromBlock), parseBlockNumber(toBlock)]
  return from === undefined && to === undefined
    ? expected
    : [...expected, memberIsWithin('blockNumber', Number(from ?? 0), Number(to ?? Infinity))]
}
