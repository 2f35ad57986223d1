import type { Json, Request, Target } from '../../../src/plugin/plugin.ts'

/** The parameter of eth_getLogs, as the method table has checked and normalised it (contract 2.4). */
export type LogFilter = { readonly [name: string]: Json }

/** A stretch of blocks, both ends included. */
export interface BlockRange {
  readonly from: bigint
  readonly to: bigint
}

/** Some of a query's blocks, and filters over just these, of which a log fits one at most. */
export interface ChunkGroup {
  /** Missing where the filters name one block by its hash. */
  readonly blocks?: { readonly from: string; readonly to: string }
  readonly filters: readonly LogFilter[]
}

export const filterOf = ({ params: [filter] }: Request): LogFilter => (isObject(filter) ? filter : {})

export const isObject = (value: Json | undefined): value is LogFilter =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A number as the method table writes it; undefined for a tag. */
export const parseBlockNumber = (block: Json | undefined): bigint | undefined =>
  typeof block === 'string' && /^0x[0-9a-fA-F]{1,16}$/.test(block) ? BigInt(block) : undefined

export const hex = (value: bigint): string => `0x${value.toString(16)}`

/** The same question without what stands twice in lists that are too long for the node. */
export const removeDuplicates = (filter: LogFilter, { maxParams = Infinity }: Pick<Target, 'maxParams'>): LogFilter => {
  const lists = listsOf(filter)
  if (!lists.some(list => isLongList(list, maxParams))) return filter
  return withLists(
    filter,
    lists.map(list => distinctValues(list, maxParams)),
  )
}

/** How many queries the lists of a filter come to where a node takes `maxParams` of each. */
export const countListChunks = (filter: LogFilter, { maxParams = Infinity }: Pick<Target, 'maxParams'>): number =>
  listsOf(filter).reduce<number>((count, list) => count * countSublists(list, maxParams), 1)

/**
 * The same filter with fewer addresses and topics, several times. A log fits one of them at most, since it has one
 * address, and one topic in each position, and every value stands in one chunk only.
 */
export const splitByLists = (filter: LogFilter, { maxParams = Infinity }: Pick<Target, 'maxParams'>): readonly LogFilter[] =>
  listsOf(filter)
    .reduce<readonly (readonly Json[])[]>(
      (rows, list) => rows.flatMap(row => sublistsOf(list, maxParams).map(chunk => [...row, chunk])),
      [[]],
    )
    .map(lists => withLists(filter, lists))

/** As much of it as the node takes at once, from the lowest block. */
export const firstRangeOf = ({ from, to }: BlockRange, { maxRange }: Pick<Target, 'maxRange'>): BlockRange =>
  maxRange === undefined || to - from < BigInt(maxRange) ? { from, to } : { from, to: from + BigInt(maxRange) - 1n }

/** Stretches of at most `maxRange` blocks, lowest first. */
export const splitRange = ({ from, to }: BlockRange, target: Pick<Target, 'maxRange'>): readonly BlockRange[] => {
  const spans: BlockRange[] = []
  for (let start = from; start <= to; start = (spans.at(-1)?.to ?? to) + 1n) spans.push(firstRangeOf({ from: start, to }, target))
  return spans
}

/** How many stretches splitSpan() gives. */
export const countRanges = ({ from, to }: BlockRange, { maxRange }: Pick<Target, 'maxRange'>): number =>
  maxRange === undefined ? 1 : Number((to - from) / BigInt(maxRange)) + 1

/** The address, then each position of the topics. */
const listsOf = ({ address = null, topics }: LogFilter): readonly Json[] => [
  address,
  ...(Array.isArray(topics) ? (topics as readonly Json[]) : []),
]

const withLists = (filter: LogFilter, [address = null, ...topics]: readonly Json[]): LogFilter => ({
  ...filter,
  ...('address' in filter && { address }),
  ...('topics' in filter && { topics }),
})

const isLongList = (list: Json, size: number): list is readonly Json[] => Array.isArray(list) && list.length > size

/** A null among topics stands for any topic, so that a list with one asks for anything. */
const distinctValues = (list: Json, size: number): Json =>
  !isLongList(list, size) ? list : list.includes(null) ? null : [...new Set(list)]

const countSublists = (list: Json, size: number): number => (isLongList(list, size) ? Math.ceil(list.length / size) : 1)

const sublistsOf = (list: Json, size: number): readonly Json[] =>
  !isLongList(list, size) ? [list] : Array.from({ length: countSublists(list, size) }, (_, i) => list.slice(i * size, (i + 1) * size))
