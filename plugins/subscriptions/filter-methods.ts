import { isFailure, refuse, toBuffer, withContext } from '../../src/plugin/plugin.ts'
import type { BlockId, Call, DirectNext, Json, Reply, Result } from '../../src/plugin/plugin.ts'
import type { FilterTopic } from './filter.ts'
import type { Filters } from './filters.ts'
import { parseLogFilter } from './log-filter.ts'
import { fetchHead } from './missed-changes.ts'
import type { Fetch } from './missed-changes.ts'
import type { FilterRequest } from './remote-filters.ts'

/** Of a call, what its answer depends on. */
export type SubscriberContext = 'request' | 'key' | 'account'

/** Answers one of the methods about filters. */
export type FilterMethod = (call: Call<SubscriberContext>, next: DirectNext<SubscriberContext>) => Promise<Reply>

/** The methods about filters, which callers over HTTP use as well. */
export const filterMethods = (filters: Filters, maxPerAccount: number): Readonly<Record<string, FilterMethod>> => {
  const create = async ({ context }: Call<SubscriberContext>, topic: FilterTopic, base?: BlockId): Promise<Reply> => {
    const id = await filters.create(topic, context.account.id, maxPerAccount, base)
    return typeof id === 'string' ? localReply(`"${id}"`) : id
  }
  const request = (call: Call<SubscriberContext>, next: DirectNext<SubscriberContext>, action: FilterRequest['action']) => {
    const { account, request } = call.context
    return filters.request({ action, id: String(request.params[0]), account: account.id }, fetchBelow(call, next))
  }
  return {
    eth_newBlockFilter: async (call, next) => create(call, { kind: 'newHeads' }, await fetchHead(fetchBelow(call, next))),
    eth_newPendingTransactionFilter: call =>
      create(call, { kind: call.context.request.params[0] === true ? 'fullPendingTransactions' : 'newPendingTransactions' }),
    eth_newFilter: async (call, next) => {
      const request = call.context.request.params[0] ?? {}
      const filter = parseLogFilter(request, 'eth_newFilter')
      return 'error' in filter ? filter : create(call, { kind: 'logs', filter, request }, await fetchHead(fetchBelow(call, next)))
    },
    eth_getFilterChanges: async (call, next) => {
      const answer = await request(call, next, 'changes')
      if (answer !== undefined && 'error' in answer) return answer
      if (answer === undefined || !('text' in answer)) return notFound
      const { text, count, onSettled } = answer
      return { ...localReply(text), count, onSettled }
    },
    eth_getFilterLogs: async (call, next) => {
      const answer = await request(call, next, 'criteria')
      if (answer !== undefined && 'error' in answer) return answer
      if (answer === undefined || !('criteria' in answer)) return notFound
      return next(withContext(call, { request: { method: 'eth_getLogs', params: [answer.criteria] } }))
    },
    eth_uninstallFilter: async (call, next) => {
      const answer = await request(call, next, 'uninstall')
      return answer !== undefined && 'error' in answer ? answer : localReply(String(answer !== undefined))
    },
  }
}

/** What the plugins below return for the caller: part of the call, and charged with it. */
const fetchBelow =
  (call: Call<SubscriberContext>, next: DirectNext<SubscriberContext>): Fetch =>
  async (method, params) => {
    const reply = await next(withContext(call, { request: { method, params } }))
    if (isFailure(reply)) return reply.fault === 'caller' ? null : undefined
    return JSON.parse(toBuffer(reply.result).toString()) as Json // JSON gives Json
  }

const localReply = (text: string): Result => ({ source: 'local', result: Buffer.from(text, 'latin1') })

/** The message of geth. */
const notFound = refuse('unknownSubscription', { message: 'filter not found' })
