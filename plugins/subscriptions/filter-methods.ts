import type { DirectNext, Verification } from '../../src/plugin/internal.ts'
import { isFailure, refuse, toBuffer, withContext } from '../../src/plugin/plugin.ts'
import type { Call, Json, Reply, Result, Services } from '../../src/plugin/plugin.ts'
import { weakestOf } from './filters.ts'
import type { Filters, FilterTopic } from './filters.ts'
import { parseLogFilter } from './log-filter.ts'
import type { Fetch } from './missed-changes.ts'

/** Of a call, what its answer depends on. */
export type SubscriberContext = 'request' | 'key' | 'account'

/** Answers one of the methods about filters. */
export type FilterMethod = (call: Call<SubscriberContext>, next: DirectNext<SubscriberContext>) => Promise<Reply>

/** The methods about filters, which callers over HTTP use as well. */
export const filterMethods = (
  filters: Filters,
  { maxPerAccount, events }: { readonly maxPerAccount: number; readonly events: Pick<Services['events'], 'logsVerifiedBy'> },
): Readonly<Record<string, FilterMethod>> => {
  const create = async (call: Call<SubscriberContext>, next: DirectNext<SubscriberContext>, topic: FilterTopic): Promise<Reply> => {
    const account = call.context.account.id
    const id = await filters.create(topic, account, maxPerAccount, fetchBelow(call, next))
    if (typeof id !== 'string') return id
    // Nobody else knows the id.
    return { ...localReply(`"${id}"`), onSettled: isDelivered => void (isDelivered || filters.discard({ id, account })) }
  }
  return {
    eth_newBlockFilter: (call, next) => create(call, next, { kind: 'newHeads' }),
    eth_newPendingTransactionFilter: (call, next) =>
      create(call, next, { kind: call.context.request.params[0] === true ? 'fullPendingTransactions' : 'newPendingTransactions' }),
    eth_newFilter: async (call, next) => {
      const request = call.context.request.params[0] ?? {}
      const filter = parseLogFilter(request, 'eth_newFilter')
      return 'error' in filter ? filter : create(call, next, { kind: 'logs', filter, request })
    },
    eth_getFilterChanges: async (call, next) => {
      const fetched: (Verification | undefined)[] = []
      const answer = await filters.changes(requestOf(call), fetchBelow(call, next, fetched))
      if (answer === undefined) return notFound
      if ('error' in answer) return answer
      const { text, count, onSettled } = answer
      const verified = (fetched.length > 0 ? weakestOf(fetched) : answer.verified) ?? (events.logsVerifiedBy() && 'none')
      return { ...localReply(text), count, onSettled, ...(verified !== undefined && { verified }) }
    },
    eth_getFilterLogs: async (call, next) => {
      const answer = await filters.criteria(requestOf(call))
      if (answer === undefined) return notFound
      return 'error' in answer ? answer : next(withContext(call, { request: { method: 'eth_getLogs', params: [answer.criteria] } }))
    },
    eth_uninstallFilter: async call => {
      const isRemoved = await filters.uninstall(requestOf(call))
      return typeof isRemoved === 'boolean' ? localReply(String(isRemoved)) : isRemoved
    },
  }
}

const requestOf = ({ context: { request, account } }: Call<SubscriberContext>) => ({ id: String(request.params[0]), account: account.id })

/** What the plugins below return for the caller: part of the call, and charged with it. `verified` gets what logs have been verified by. */
const fetchBelow =
  (call: Call<SubscriberContext>, next: DirectNext<SubscriberContext>, verified: (Verification | undefined)[] = []): Fetch =>
  async (method, params) => {
    const reply = await next(withContext(call, { request: { method, params } }))
    if (isFailure(reply)) return reply.fault === 'caller' ? null : undefined
    if (method === 'eth_getLogs') verified.push(reply.verified)
    return JSON.parse(toBuffer(reply.result).toString()) as Json // JSON gives Json
  }

const localReply = (text: string): Result => ({ source: 'local', result: Buffer.from(text, 'latin1') })

/** The message of geth. */
const notFound = refuse('unknownSubscription', { message: 'filter not found' })
