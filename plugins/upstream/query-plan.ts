import { isFinalityTag, namedBlocksOf, resultMemoryOf } from '../../src/plugin/internal.ts'
import type { BlockNumberOrTag, FinalityTag, BlockRange, ChainSnapshot } from '../../src/plugin/internal.ts'
import { blockSelectorOf, copyReply, isFailure, refuse, withBlocks } from '../../src/plugin/plugin.ts'
import type { BlockSelector, Failure, Method, Reply, Request, Services, Target } from '../../src/plugin/plugin.ts'
import {
  checkNotReorged,
  countBlocks,
  knownRangeOf,
  rangeTooWide,
  resolveBlock,
  resolveHash,
  resolveRange,
  tooManyBlocks,
} from './block-range.ts'
import type { BlockReader, NodeBlock, NumberRange } from './block-range.ts'
import { requestChunks } from './fetch-chunks.ts'
import type { ChunkGroup } from './fetch-chunks.ts'
import { countListChunks, removeDuplicates, splitByLists } from './filter-lists.ts'
import { FinalityTags } from './finality-tags.ts'
import { openDeadline } from './node-query.ts'
import type { BlockQuery, NodeQuery, OpenQuery } from './node-query.ts'
import { timeoutBetweenRequests } from './normalize-error.ts'

/** What is sent to the node in place of a query. */
interface QueryPlan {
  readonly groups: readonly ChunkGroup[]
  /** Must be the canonical block of its number when the results are there: then no block below it was replaced meanwhile. */
  readonly lastBlock?: NodeBlock
  /** Where there are logs, a block was added meanwhile, of which they are a part. */
  readonly expectsNoLogs?: boolean
}

interface PlanServices extends Pick<Services, 'clock' | 'heads' | 'results'> {
  /** Most chunks of one query. */
  readonly maxChunks: number
  /** Nodes, by name, whose `maxParams` is not set and that were found to accept no more than the usual number. */
  readonly paramLimited: Set<string>
}

/**
 * Sends queries to their nodes as the nodes accept them: with numbers in place of tags that mean another block there, and of a method with
 * `maxBlocks` in place of all tags; and in chunks where a node accepts fewer blocks, addresses or topics at once.
 */
export const createQuerySender = (allServices: Services, maxChunks: number) => {
  const { clock, heads, results } = allServices
  const services = { clock, heads, results, maxChunks, paramLimited: new Set<string>() }
  const finalityTags = new FinalityTags(allServices)

  const sendTagged = async (query: BlockQuery, blocks: BlockRange, tag: FinalityTag): Promise<Reply> => {
    const { request, method } = query
    if (method.reports === 'block') return finalityTags.send(query, tag)
    const numbered = await finalityTags.resolve(blocks, query)
    return sendPlanned({ ...query, request: withBlocks(request, method, numbered), blocks: numbered }, services)
  }

  return (query: NodeQuery, method: Method | undefined): Promise<Reply> => {
    const blocks = blockSelectorOf(method, query.request.params)
    const tag = namedBlocksOf(blocks).find(isFinalityTag)
    // Of most calls nothing is copied.
    if (method === undefined || blocks === undefined || (tag === undefined && !isPlanned(method)))
      return query.sendRequest(query.request, query.limits)
    const blockQuery = { ...query, method, blocks }
    return tag === undefined || 'hash' in blocks ? sendPlanned(blockQuery, services) : sendTagged(blockQuery, blocks, tag)
  }
}

/** Is a query of the method limited, or may it be split? */
const isPlanned = ({ splittable = false, maxBlocks }: Method): boolean => splittable || maxBlocks !== undefined

const sendPlanned = (query: BlockQuery, services: PlanServices): Promise<Reply> => {
  if (!isPlanned(query.method)) return query.sendRequest(query.request, query.limits)
  return query.method.splittable === true ? requestLogs(query, services) : runPlan(query, services)
}

/** Most addresses, and most topics in one position, that geth and Erigon accept. The contract allows 5,000 in all. */
const usualParamLimit = { maxParams: 1000 }

/**
 * When a node without `maxParams` refuses long lists, the query is repeated within the usual limit, and so are later queries to that node.
 */
const requestLogs = async (query: BlockQuery, services: PlanServices): Promise<Reply> => {
  const { target, limits, request } = query
  const { clock, paramLimited } = services
  const isLong = target.maxParams === undefined && countListChunks(request, usualParamLimit) > 1
  if (!isLong) return requestInChunks(query, services)
  const limitedQuery = { ...query, target: { ...target, ...usualParamLimit } }
  if (paramLimited.has(target.name)) return requestInChunks(limitedQuery, services)
  const startedAt = clock.monotonic()
  const reply = await requestInChunks(query, services)
  if (!isRangeTooWide(reply) || reply.source === 'gateway') return reply
  const timeoutMs = limits.timeoutMs - (clock.monotonic() - startedAt)
  const retried = await requestInChunks({ ...limitedQuery, limits: { ...limits, timeoutMs } }, services)
  if (!isRangeTooWide(retried)) paramLimited.add(target.name)
  return retried
}

const isRangeTooWide = (reply: Reply): boolean => isFailure(reply) && reply.category === 'rangeTooWide'

/**
 * Requests in chunks what the node does not accept at once, and merges the logs: those of one chain, in its order, each
 * once, byte for byte, as the chain was when the query began; or it fails. For this, tags are resolved to numbers first, and
 * the last block must have the same hash afterwards. Blocks above the head are left to the node, in the last chunk, as far as
 * the node accepts them; where lists are split, they are in no chunk.
 */
const requestInChunks = (query: BlockQuery, services: PlanServices): Promise<Reply> => {
  const distinct = { ...query, request: removeDuplicates(query.request, query.target) }
  return mayNeedChunks(distinct) ? runPlan(distinct, services) : query.sendRequest(distinct.request, query.limits)
}

/** True also where it depends on what tags resolve to. Logs of the pending block, which changes, cannot be merged. */
const mayNeedChunks = ({ request, blocks, target }: BlockQuery): boolean => {
  if (namedBlocksOf(blocks).includes('pending')) return false
  if (countListChunks(request, target) > 1) return true
  if (target.maxRange === undefined || 'hash' in blocks || blocks.from === blocks.to) return false
  const { from, to } = blocks
  return typeof from !== 'number' || typeof to !== 'number' || countBlocks({ from, to }) > target.maxRange
}

const runPlan = async (query: BlockQuery, services: PlanServices): Promise<Reply> => {
  const { clock, results } = services
  const { maxBlocks } = query.method
  const openQuery = openDeadline(query, clock, () => timeoutBetweenRequests(query.target, query))
  const { sendRequest, target } = openQuery
  try {
    const plan = await (maxBlocks === undefined ? planChunks(openQuery, services) : planNumbers(openQuery, maxBlocks, services))
    if ('error' in plan) return plan
    const { groups, lastBlock, expectsNoLogs = false } = plan
    const [request, ...others] = groups.flatMap(({ requests }) => requests)
    const isWhole = request !== undefined && others.length === 0
    const reply = await (isWhole ? sendRequest(request) : requestChunks(openQuery, groups, results))
    if (isFailure(reply)) return reply
    const failure =
      lastBlock !== undefined
        ? await checkNotReorged(lastBlock, { sendRequest, results })
        : expectsNoLogs && reply.count !== 0
          ? blockAdded(target)
          : undefined
    if (failure !== undefined) resultMemoryOf(reply)?.release()
    return failure ?? reply
  } finally {
    openQuery.cancel()
  }
}

const blockAdded = ({ source, name: upstream }: Target): Failure => {
  const cause = 'a block was added while the chunks of a query were requested'
  return refuse('unavailable', { source, upstream, retryElsewhere: true, retryAfter: 1, cause })
}

/**
 * With the first and the last block as numbers. Nodes disagree about what else they accept: without `fromBlock` some begin at the first block of
 * the chain, and some know no tags or no `blockHash`.
 */
const planNumbers = async (
  { request, method, blocks, target, sendRequest }: OpenQuery,
  maxBlocks: number,
  { heads, results }: PlanServices,
): Promise<QueryPlan | Failure> => {
  const known = 'hash' in blocks ? undefined : knownRangeOf(blocks, heads.snapshot, target.name)
  if (known !== undefined && countBlocks(known) > maxBlocks) return tooManyBlocks(known, maxBlocks, target)
  const range = await resolveNumbers(blocks, target, { sendRequest, results })
  if ('error' in range) return range
  return countBlocks(range) > maxBlocks ? tooManyBlocks(range, maxBlocks, target) : wholeQuery(withBlocks(request, method, range))
}

const resolveNumbers = async (blocks: BlockSelector, target: Target, node: BlockReader): Promise<NumberRange | Failure> => {
  if ('hash' in blocks) {
    const number = (await resolveHash(blocks.hash, node)) ?? unknownBlock(target)
    return typeof number === 'number' ? { from: number, to: number } : number
  }
  const to = await resolveExistingBlock(blocks.to, node)
  if (typeof to !== 'number') return to
  const from = blocks.from === blocks.to ? to : await resolveExistingBlock(blocks.from, node)
  return typeof from === 'number' ? { from, to } : from
}

/** Charged, as the node has answered. */
const unknownBlock = ({ name: upstream, source }: Target): Failure =>
  refuse('params', { message: 'unknown block', source, upstream, category: 'blockNotFound', retryElsewhere: true })

/** No node has traces of the pending block. */
const resolveExistingBlock = async (block: BlockNumberOrTag, node: BlockReader): Promise<number | Failure> => {
  const named = block === 'pending' ? 'latest' : block
  return (await resolveBlock(named, node)) ?? refuse('unavailable', { cause: `upstream has no block "${named}"`, retryElsewhere: true })
}

const wholeQuery = (request: Request): QueryPlan => ({ groups: [{ requests: [request] }] })

const planChunks = async (query: OpenQuery, { heads, results, maxChunks }: PlanServices): Promise<QueryPlan | Failure> => {
  const { request, method, blocks, target, sendRequest } = query
  const { snapshot } = heads
  const listChunks = countListChunks(request, target)
  if (listChunks > maxChunks)
    return retriedElsewhere(rangeTooWide(`its addresses and topics are ${listChunks} queries, more than ${maxChunks}`, target))
  if ('hash' in blocks) return { groups: [{ requests: splitByLists(request, target) }] }
  const maxBlocks = (target.maxRange ?? Infinity) * Math.floor(maxChunks / listChunks)
  const known = knownExistingRange(blocks, snapshot, target)
  if (known !== undefined && countBlocks(known) > maxBlocks) return retriedElsewhere(tooManyBlocks(known, maxBlocks, target))
  const range = await resolveRange(blocks, block => snapshot.isFinal(target.name, block), { sendRequest, results })
  if (range === undefined) return wholeQuery(request)
  if ('error' in range) return range
  const { from, to, lastBlock } = range
  const chunksOf = (chunk: NumberRange) => splitByLists(withBlocks(request, method, chunk), target)
  const firstRange = firstRangeOf(range, target)
  if (lastBlock === undefined) {
    // No block of the range exists: the node refuses it in its own words, or returns no logs. Its first chunk is enough for that.
    const [first = request, ...others] = chunksOf(firstRange)
    return { ...wholeQuery(first), expectsNoLogs: others.length > 0 }
  }
  if (listChunks === 1 && firstRange.to === to) return wholeQuery(request)
  const existing = { from, to: lastBlock.number }
  if (countBlocks(existing) > maxBlocks) return retriedElsewhere(tooManyBlocks(existing, maxBlocks, target))
  const groups = splitRange(existing, target).map(blocksOfGroup => {
    // Blocks above the head stay in a last chunk, for the node to judge. Several last chunks could disagree about them.
    const mayExceedHead = blocksOfGroup.to === existing.to && listChunks === 1
    const chunk = mayExceedHead ? firstRangeOf({ from: blocksOfGroup.from, to }, target) : blocksOfGroup
    return { blocks: chunk, requests: chunksOf(chunk) }
  })
  return { groups, lastBlock }
}

/** Blocks above the head make no chunks. */
const knownExistingRange = (blocks: BlockRange, snapshot: ChainSnapshot, { name }: Target): NumberRange | undefined => {
  const known = knownRangeOf(blocks, snapshot, name)
  return known === undefined || snapshot.head === undefined ? undefined : { ...known, to: Math.min(known.to, snapshot.head) }
}

/** Another node may accept the query as it is. */
const retriedElsewhere = (failure: Failure): Failure => copyReply(failure, { retryElsewhere: true })

/** As much of the range as the node accepts at once, from the lowest block. */
const firstRangeOf = ({ from, to }: NumberRange, { maxRange = Infinity }: Pick<Target, 'maxRange'>): NumberRange => ({
  from,
  to: Math.min(to, from + maxRange - 1),
})

/** Ranges of at most `maxRange` blocks, lowest first. */
const splitRange = ({ from, to }: NumberRange, target: Pick<Target, 'maxRange'>): readonly NumberRange[] => {
  const ranges: NumberRange[] = []
  for (let start = from; start <= to; start = (ranges.at(-1)?.to ?? to) + 1) ranges.push(firstRangeOf({ from: start, to }, target))
  return ranges
}
