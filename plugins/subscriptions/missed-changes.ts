import type { BlockId, Verification } from '../../src/plugin/internal.ts'
import { isJsonObject, parseHexQuantity, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Json } from '../../src/plugin/plugin.ts'

/** The result of a call; undefined when the upstreams fail, null when the call cannot succeed. */
export type Fetch = (method: string, params: readonly Json[]) => Promise<Json | undefined>

/** What one poll of a filter delivers. */
export interface FilterChanges {
  /** JSON texts with one character per byte (latin1). */
  readonly changes: readonly string[]
  /** The changes are those up to this block. */
  readonly position: BlockId
  /** Blocks up to this one were before the filter. A reorg may have gone below it. */
  readonly firstBlock: number
  /** What all of the logs have been verified by, at least; undefined where nothing has verified them, and for blocks. */
  readonly verified?: Verification | undefined
}

/** A filter of blocks, or with `request`, its filter object, of logs. */
interface MissedFilter extends Pick<FilterChanges, 'position' | 'firstBlock'> {
  readonly request: Json | undefined
}

/** `unknown`: no node has the changes any more. `unavailable`: no node answers now. */
type MissedChanges = FilterChanges | 'unknown' | 'unavailable'

/** Blocks that were removed, or came, and that this process has not published: with more the filter ends. */
const maxRemovedBlocks = 64
const maxNewBlocks = 512
/** The logs of older blocks are fetched with one query. */
const maxNewBlocksWithLogs = 10_000
/** Upstreams may be on different branches, which differ in the newest blocks: the logs of these are fetched by the hash of each. */
const maxBlocksByHash = 32
/** A reorg while the changes are fetched makes them wrong. */
const maxAttempts = 3

/** What a filter has missed since its position: what was removed, the newest block first; then what has come, up to the head. */
export const fetchMissedChanges = async (filter: MissedFilter, fetch: Fetch): Promise<MissedChanges> => {
  try {
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const head = await fetchBlock(fetch, 'latest')
      const changes = await fetchChangesUpTo(head, filter, fetch)
      const confirmed = await fetchBlock(fetch, toHexQuantity(head.number))
      if (confirmed.hash === head.hash) return changes
    }
    return 'unavailable'
  } catch (error) {
    if (error instanceof NoAnswer) return error.reason
    throw error
  }
}

const fetchChangesUpTo = async (head: BranchBlock, filter: MissedFilter, fetch: Fetch): Promise<MissedChanges> => {
  const { removed, base } = await findFork(filter.position, head, fetch)
  const { request } = filter
  // The upstream that has the head is behind.
  if (head.number < base.number && removed.length === 0) return { ...filter, changes: [] }
  if (head.number - base.number > (request === undefined ? maxNewBlocks : maxNewBlocksWithLogs)) return 'unknown'
  const branch = await fetchBranch({ head, base, maxBlocks: request === undefined ? maxNewBlocks : maxBlocksByHash }, fetch)
  const missed = { removed: removed.filter(({ number }) => number > filter.firstBlock), from: base.number + 1, branch }
  // Removed blocks are no changes of a block filter: those of the new branch follow.
  const changes = request === undefined ? branch.map(({ hash }) => toText(hash)) : await fetchLogChanges(request, missed, fetch)
  const position = { number: head.number, hash: head.hash }
  return { changes, position, firstBlock: Math.min(filter.firstBlock, base.number) }
}

interface Branch {
  readonly head: BranchBlock
  readonly base: BlockId
  readonly maxBlocks: number
}

/** The newest blocks above the base, the oldest first. */
const fetchBranch = async ({ head, base, maxBlocks }: Branch, fetch: Fetch): Promise<readonly BlockId[]> => {
  const branch: BranchBlock[] = []
  let block = head
  for (; block.number > base.number && branch.length < maxBlocks; block = await fetchBlock(fetch, block.parentHash)) branch.push(block)
  // The upstream that has the base may be on another branch than the one that has the head, or ahead of it.
  if (block.number <= base.number && block.hash !== base.hash) throw new NoAnswer('unavailable')
  return branch.reverse()
}

/** The newest block; undefined when the upstreams do not return it. */
export const fetchHead = async (fetch: Fetch): Promise<BlockId | undefined> => {
  try {
    const { number, hash } = await fetchBlock(fetch, 'latest')
    return { number, hash }
  } catch (error) {
    if (error instanceof NoAnswer) return undefined
    throw error
  }
}

class NoAnswer extends Error {
  readonly reason: 'unknown' | 'unavailable'

  constructor(reason: 'unknown' | 'unavailable') {
    super(reason)
    this.reason = reason
  }
}

interface BranchBlock extends BlockId {
  readonly parentHash: string
}

/** `missing`: what it means that no upstream has the block. Those that are left may be behind. */
const fetchBlock = async (fetch: Fetch, block: string, missing: NoAnswer['reason'] = 'unavailable'): Promise<BranchBlock> => {
  const result = await fetch(block.length === hashChars ? 'eth_getBlockByHash' : 'eth_getBlockByNumber', [block, false])
  if (result === undefined) throw new NoAnswer('unavailable')
  const { number, hash, parentHash } = isJsonObject(result) ? result : {}
  const height = parseHexQuantity(number)
  if (height === undefined || typeof hash !== 'string' || typeof parentHash !== 'string') throw new NoAnswer(missing)
  return { number: height, hash: hash.toLowerCase(), parentHash: parentHash.toLowerCase() }
}

/** `0x` and 32 bytes in hex. */
const hashChars = 66

interface Fork {
  readonly removed: readonly BlockId[]
  readonly base: BlockId
}

/** The newest block at or below the position that is on the chain, and those above it that are not, the newest first. */
const findFork = async (position: BlockId, head: BlockId, fetch: Fetch): Promise<Fork> => {
  const removed: BlockId[] = []
  let base = position
  while (!(await isOnChain(base, head, fetch))) {
    if (removed.length === maxRemovedBlocks || base.number === 0) throw new NoAnswer('unknown')
    // Upstreams that are behind do not know it yet.
    const { parentHash } = await fetchBlock(fetch, base.hash, base.number > head.number ? 'unavailable' : 'unknown')
    removed.push(base)
    base = { number: base.number - 1, hash: parentHash }
  }
  return { removed, base }
}

/** The chain may be shorter than it was; an upstream that has no block at a height up to the head is behind. */
const isOnChain = async ({ number, hash }: BlockId, head: BlockId, fetch: Fetch): Promise<boolean> => {
  const result = await fetch('eth_getBlockByNumber', [toHexQuantity(number), false])
  if (result === undefined || (result === null && number <= head.number)) throw new NoAnswer('unavailable')
  return isJsonObject(result) && String(result['hash']).toLowerCase() === hash
}

interface MissedBlocks {
  readonly removed: readonly BlockId[]
  /** The number of the first block that has come. */
  readonly from: number
  /** The newest blocks that have come; those before them are on every upstream's chain. */
  readonly branch: readonly BlockId[]
}

const fetchLogChanges = async (request: Json, { removed, from, branch }: MissedBlocks, fetch: Fetch): Promise<readonly string[]> => {
  const { fromBlock, toBlock, ...criteria } = isJsonObject(request) ? request : {}
  const [lowest, highest] = [parseHexQuantity(fromBlock) ?? 0, parseHexQuantity(toBlock) ?? Infinity]
  const isWanted = ({ number }: BlockId) => number >= lowest && number <= highest
  const changes: string[] = []
  for (const { hash } of removed.filter(isWanted)) {
    const logs = await fetchLogs({ ...criteria, blockHash: hash }, fetch)
    changes.push(...logs.toReversed().map(log => toText({ ...Object(log), removed: true })))
  }
  const [first, last] = [Math.max(from, lowest), Math.min((branch[0]?.number ?? from) - 1, highest)]
  const older = { ...criteria, fromBlock: toHexQuantity(first), toBlock: toHexQuantity(last) }
  if (first <= last) changes.push(...(await fetchLogs(older, fetch)).map(toText))
  for (const { hash } of branch.filter(isWanted)) {
    const logs = await fetchLogs({ ...criteria, blockHash: hash }, fetch, 'unavailable')
    changes.push(...logs.map(toText))
  }
  return changes
}

/** `missing`: what it means that no upstream has the logs. */
const fetchLogs = async (criteria: Json, fetch: Fetch, missing: NoAnswer['reason'] = 'unknown'): Promise<readonly Json[]> => {
  const logs = await fetch('eth_getLogs', [criteria])
  if (!Array.isArray(logs)) throw new NoAnswer(logs === undefined ? 'unavailable' : missing)
  return logs
}

/** One character per byte (latin1). */
const toText = (value: Json): string => Buffer.from(JSON.stringify(value)).toString('latin1')
