import { isFailure } from '../../src/plugin.ts'
import type { Reply } from '../../src/plugin.ts'
import { countParts, filterOf } from './filter.ts'
import { askInPieces } from './split.ts'
import type { Query, Tools } from './split.ts'

/** Most addresses, and most topics in one position, that geth and Erigon take. The contract allows 5,000 in all. */
const usual = { maxParams: 1000 }

/** Nodes that were found to take no more, by name. */
export type Narrow = Set<string>

/**
 * Asks piece by piece what a node is known not to take at once, and also what it turns out not to take: a node whose
 * `maxParams` nobody has set, and which refuses long lists, is asked again as most nodes want it, and from then on so.
 */
export const askForLogs = async (query: Query, tools: Tools, narrow: Narrow): Promise<Reply> => {
  const { target, limits, request } = query
  const isLong = target.maxParams === undefined && countParts(filterOf(request), usual) > 1
  if (!isLong) return askInPieces(query, tools)
  const shorter = { ...query, target: { ...target, ...usual } }
  if (narrow.has(target.name)) return askInPieces(shorter, tools)
  const begun = tools.clock.monotonic()
  const reply = await askInPieces(query, tools)
  if (!isTooWide(reply) || reply.source === 'gateway') return reply
  const timeout = limits.timeout - (tools.clock.monotonic() - begun)
  const again = await askInPieces({ ...shorter, limits: { ...limits, timeout } }, tools)
  if (!isTooWide(again)) narrow.add(target.name)
  return again
}

const isTooWide = (reply: Reply): boolean => isFailure(reply) && reply.meaning === 'tooWide'
