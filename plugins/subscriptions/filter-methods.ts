import { refuse, withContext } from '../../src/plugin/plugin.ts'
import type { Call, Next, Reply } from '../../src/plugin/plugin.ts'
import type { FilterTopic } from './filter.ts'
import type { FilterAnswer, FilterRequest, Filters } from './filters.ts'
import { parseLogFilter } from './log-filter.ts'

type ContextKeys = 'request' | 'key' | 'account'

/** Answers one of the methods about filters. */
export type FilterMethod = (call: Call<ContextKeys>, next: Next<ContextKeys>) => Promise<Reply>

/** The methods about filters, which callers over HTTP use as well. */
export const filterMethods = (filters: Filters, maxPerAccount: number): Readonly<Record<string, FilterMethod>> => {
  const create = async ({ context }: Call<ContextKeys>, topic: FilterTopic): Promise<Reply> => {
    const id = await filters.create(topic, context.account.id, maxPerAccount)
    return typeof id === 'string' ? localReply(`"${id}"`) : id
  }
  const request = ({ context }: Call<ContextKeys>, action: FilterRequest['action']): Promise<FilterAnswer | undefined> =>
    filters.request({ action, id: String(context.request.params[0]), account: context.account.id })
  return {
    eth_newBlockFilter: call => create(call, { kind: 'newHeads' }),
    eth_newPendingTransactionFilter: call =>
      create(call, { kind: call.context.request.params[0] === true ? 'fullPendingTransactions' : 'newPendingTransactions' }),
    eth_newFilter: async call => {
      const request = call.context.request.params[0] ?? {}
      const filter = parseLogFilter(request, 'eth_newFilter')
      return 'error' in filter ? filter : create(call, { kind: 'logs', filter, request })
    },
    eth_getFilterChanges: async call => {
      const answer = await request(call, 'changes')
      return answer !== undefined && 'text' in answer ? localReply(answer.text, answer.count) : notFound
    },
    eth_getFilterLogs: async (call, next) => {
      const answer = await request(call, 'criteria')
      if (answer === undefined || !('criteria' in answer)) return notFound
      return next(withContext(call, { request: { method: 'eth_getLogs', params: [answer.criteria] } }))
    },
    eth_uninstallFilter: async call => localReply(String((await request(call, 'uninstall')) !== undefined)),
  }
}

const localReply = (text: string, count?: number): Reply => ({
  source: 'local',
  result: Buffer.from(text, 'latin1'),
  ...(count !== undefined && { count }),
})

/** The message of geth. */
const notFound = refuse('unknownSubscription', { message: 'filter not found' })
