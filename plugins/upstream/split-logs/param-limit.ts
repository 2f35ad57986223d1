import { isFailure } from '../../../src/plugin/plugin.ts'
import type { Reply } from '../../../src/plugin/plugin.ts'
import { countListChunks, filterOf } from './log-filter.ts'
import { requestInChunks } from './index.ts'
import type { LogsQuery, SplitServices } from './index.ts'

/** Most addresses, and most topics in one position, that geth and Erigon take. The contract allows 5,000 in all. */
const usualParamLimit = { maxParams: 1000 }

/** Nodes that were found to take no more, by name. */
export type ParamLimitedNodes = Set<string>

/**
 * Asks piece by piece what a node is known not to take at once, and also what it turns out not to take: a node whose
 * `maxParams` nobody has set, and which refuses long lists, is asked again as most nodes want it, and from then on so.
 */
export const requestLogs = async (query: LogsQuery, services: SplitServices, paramLimited: ParamLimitedNodes): Promise<Reply> => {
  const { target, limits, request } = query
  const isLong = target.maxParams === undefined && countListChunks(filterOf(request), usualParamLimit) > 1
  if (!isLong) return requestInChunks(query, services)
  const limitedQuery = { ...query, target: { ...target, ...usualParamLimit } }
  if (paramLimited.has(target.name)) return requestInChunks(limitedQuery, services)
  const startedAt = services.clock.monotonic()
  const reply = await requestInChunks(query, services)
  if (!isRangeTooWide(reply) || reply.source === 'gateway') return reply
  const timeoutMs = limits.timeoutMs - (services.clock.monotonic() - startedAt)
  const retried = await requestInChunks({ ...limitedQuery, limits: { ...limits, timeoutMs } }, services)
  if (!isRangeTooWide(retried)) paramLimited.add(target.name)
  return retried
}

const isRangeTooWide = (reply: Reply): boolean => isFailure(reply) && reply.category === 'rangeTooWide'
