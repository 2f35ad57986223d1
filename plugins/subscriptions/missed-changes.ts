import { isJsonObject, parseHexQuantity, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { BlockId, Json } from '../../src/plugin/plugin.ts'
import type { ResumedChanges } from './filter.ts'
import type { StoredFilter } from './stored-filters.ts'

/** The result of a call; undefined when the upstreams fail, null when the call cannot succeed. */
export type Fetch = (method: string, params: readonly Json[]) => Promise<Json | undefined>

/** `unknown`: no node has the changes any more. `unavailable`: no node answers now. */
export type MissedChanges = ResumedChanges | 'unknown' | 'unavailable'

/** Blocks that were removed, or came, while nobody kept the filter: with more it ends. */
const maxRemovedBlocks = 64
const maxNewBlocks = 512
/** A reorg while the changes are fetched makes them wrong. */
const maxAttempts = 3

/** What a filter has missed since its position: what was removed, the newest block first; then what has come, up to the head. */
export const fetchMissedChanges = async (filter: StoredFilter, fetch: Fetch): Promise<MissedChanges> => {
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

const fetchChangesUpTo = async (head: Block, filter: StoredFilter, fetch: Fetch): Promise<MissedChanges> => {
  const { removed, base } = await findFork(filter.position, head, fetch)
  const ranges = { removed: removed.filter(({ number }) => number > filter.firstBlock), from: base.number + 1, to: head.number }
  if (head.number - base.number > maxNewBlocks) return 'unknown'
  const changes = filter.kind === 'logs' ? await fetchLogChanges(filter.request, ranges, fetch) : await fetchHashes(ranges, fetch)
  const position = { number: head.number, hash: head.hash }
  return { changes, position, firstBlock: Math.min(filter.firstBlock, base.number) }
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

interface Block extends BlockId {
  readonly parentHash: string
}

/** `missing`: what it means that no upstream has the block. */
const fetchBlock = async (fetch: Fetch, block: string, missing: NoAnswer['reason'] = 'unknown'): Promise<Block> => {
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
  while (!(await isOnChain(base, fetch))) {
    if (removed.length === maxRemovedBlocks || base.number === 0) throw new NoAnswer('unknown')
    // Upstreams that are behind do not know it yet.
    const { parentHash } = await fetchBlock(fetch, base.hash, base.number > head.number ? 'unavailable' : 'unknown')
    removed.push(base)
    base = { number: base.number - 1, hash: parentHash }
  }
  return { removed, base }
}

/** The chain may be shorter than it was. */
const isOnChain = async ({ number, hash }: BlockId, fetch: Fetch): Promise<boolean> => {
  const result = await fetch('eth_getBlockByNumber', [toHexQuantity(number), false])
  if (result === undefined) throw new NoAnswer('unavailable')
  return isJsonObject(result) && String(result['hash']).toLowerCase() === hash
}

interface Ranges {
  readonly removed: readonly BlockId[]
  readonly from: number
  readonly to: number
}

const fetchLogChanges = async (request: Json, { removed, from, to }: Ranges, fetch: Fetch): Promise<readonly string[]> => {
  const { fromBlock, toBlock, ...criteria } = isJsonObject(request) ? request : {}
  const [lowest, highest] = [parseHexQuantity(fromBlock) ?? 0, parseHexQuantity(toBlock) ?? Infinity]
  const isWanted = ({ number }: BlockId) => number >= lowest && number <= highest
  const changes: string[] = []
  for (const { hash } of removed.filter(isWanted)) {
    const logs = await fetchLogs({ ...criteria, blockHash: hash }, fetch)
    changes.push(...logs.toReversed().map(log => toText({ ...Object(log), removed: true })))
  }
  const [first, last] = [Math.max(from, lowest), Math.min(to, highest)]
  if (first > last) return changes
  const logs = await fetchLogs({ ...criteria, fromBlock: toHexQuantity(first), toBlock: toHexQuantity(last) }, fetch)
  return [...changes, ...logs.map(toText)]
}

const fetchLogs = async (criteria: Json, fetch: Fetch): Promise<readonly Json[]> => {
  const logs = await fetch('eth_getLogs', [criteria])
  if (!Array.isArray(logs)) throw new NoAnswer(logs === undefined ? 'unavailable' : 'unknown')
  return logs
}

/** Removed blocks are no changes of a block filter: those of the new branch follow. */
const fetchHashes = async ({ from, to }: Ranges, fetch: Fetch): Promise<readonly string[]> => {
  const hashes: string[] = []
  for (let number = from; number <= to; number++) hashes.push(toText((await fetchBlock(fetch, toHexQuantity(number))).hash))
  return hashes
}

/** One character per byte (latin1). */
const toText = (value: Json): string => Buffer.from(JSON.stringify(value)).toString('latin1')
