import { directStage, refuseUnknownMethod } from '../../src/plugin/internal.ts'
import type { DirectHandler } from '../../src/plugin/internal.ts'
import { definePlugin, isJsonObject, refuse } from '../../src/plugin/plugin.ts'
import type { Call, CallContext, ExplainedCall, Explanation, Failure, Json, Origin, Reply } from '../../src/plugin/plugin.ts'
import { parseReceiptFilter } from './block-receipts.ts'
import { filterMethods } from './filter-methods.ts'
import type { SubscriberContext, FilterMethod } from './filter-methods.ts'
import { parseLogFilter } from './log-filter.ts'
import { subscriptionKinds } from './subscription.ts'
import type { PushOrigin, Topic } from './subscription.ts'
import { Subscriptions } from './subscriptions.ts'

/** eth_subscribe for callers over WebSocket, and filters. */
export default definePlugin({
  name: 'subscriptions',
  summary: 'Answers eth_subscribe over WebSocket, and the methods about filters, from one feed of blocks that all callers share.',
  withoutHeads: 'eth_subscribe and filters are refused',
  options: {
    type: 'object',
    properties: {
      maxPerAccount: {
        type: 'integer',
        minimum: 1,
        default: 20_000,
        description: 'Maximum number of subscriptions of one account, in each worker.',
      },
      offer: {
        type: 'array',
        items: { type: 'string', enum: ['newPendingTransactions', 'syncing', 'transactionReceipts'] },
        default: [],
        description:
          'Further kinds of subscriptions that this network offers. With `newPendingTransactions` also eth_newPendingTransactionFilter: ' +
          'callers see transactions that come to the pool of one upstream. `transactionReceipts` requests eth_getBlockReceipts of each block.',
        examples: [['newPendingTransactions']],
      },
      maxFilters: {
        type: 'integer',
        minimum: 1,
        default: 1000,
        description: 'Maximum number of filters of one account that were created or polled through one worker in the last 5 minutes.',
      },
    },
  },
  reads: ['request', 'key', 'account'],
  writes: ['request'],
  create({ maxPerAccount, maxFilters, offer }, services) {
    const subscriptions = services.singleton('subscriptions', {}, () => new Subscriptions(services))
    const eventCosts = services.methods.get('eth_subscribe')?.eventCosts ?? {}
    const kinds = ['newHeads', 'logs', ...offer]
    const costOf = (kind: string) => {
      const credits = eventCosts[kind] ?? 0
      return kind === 'logs' ? services.events.priceOfLogs(credits) : credits
    }
    const answers: Readonly<Record<string, FilterMethod>> = {
      eth_subscribe: call => subscribe(call, { subscriptions, kinds, maxPerAccount }),
      eth_unsubscribe: async call => unsubscribe(call, subscriptions),
      ...filterMethods(subscriptions.filters, { maxPerAccount: maxFilters, events: services.events }),
    }
    const answerOf = new Map(Object.entries(answers))
    const offers = (method: string) => {
      if (!answerOf.has(method)) return true
      return method === 'eth_newPendingTransactionFilter' && !offer.includes('newPendingTransactions') ? false : 'answered'
    }
    const handle: DirectHandler<SubscriberContext, 'request'> = (call, next) => {
      const { method } = call.context.request
      if (!offers(method)) return refuseUnknownMethod(method)
      return answerOf.get(method)?.(call, next) ?? next(call)
    }
    const explain = ({ method }: ExplainedCall): Explanation => {
      if (!offers(method)) return { text: ['the method is not offered'], ends: 'refused' }
      if (method === 'eth_subscribe') return explainSubscribe(kinds, costOf)
      if (answerOf.has(method)) return { text: ['answers the method, for which nodes are sent other methods at most'], ends: 'answered' }
      return { text: ['passes the call on: it answers eth_subscribe, eth_unsubscribe and the methods about filters'] }
    }
    const passes = ({ request }: Pick<CallContext, 'request'>): boolean => !answerOf.has(request.method)
    return directStage({ offers, handle, passes, explain, events: { costOf } })
  },
})

const explainSubscribe = (kinds: readonly string[], costOf: (kind: string) => number): Explanation => ({
  text: [
    'answers over WebSocket; the call is refused over HTTP, and in a batch',
    `credits for each KiB of messages: ${kinds.map(kind => `${kind} ${costOf(kind)}`).join(', ')}`,
  ],
  ends: 'answered',
})

interface SubscribeOptions {
  readonly subscriptions: Subscriptions
  /** Those that callers may name. */
  readonly kinds: readonly string[]
  readonly maxPerAccount: number
}

const subscribe = async (call: Call<SubscriberContext>, { subscriptions, kinds, maxPerAccount }: SubscribeOptions): Promise<Reply> => {
  const { origin, message, context } = call
  if (origin.transport !== 'websocket') return notSupported
  if (!isPushOrigin(origin)) return notInBatch
  if (!isJsonObject(message) || message['id'] === undefined) return withoutId
  const topic = topicOf(context.request.params, kinds)
  if ('error' in topic) return topic
  const subscriber = { origin, account: context.account, key: context.key }
  const subscription = await subscriptions.subscribe(topic, subscriber, maxPerAccount)
  if ('error' in subscription) return subscription
  return {
    source: 'local',
    result: Buffer.from(`"${subscription.id}"`),
    onSettled: isDelivered => subscriptions.begin(subscription, isDelivered),
  }
}

const unsubscribe = ({ origin, context }: Call<SubscriberContext>, subscriptions: Subscriptions): Reply => {
  const [id] = context.request.params
  return subscriptions.unsubscribe(origin, String(id)) ? { source: 'local', result: Buffer.from('true') } : refuse('unknownSubscription')
}

const isPushOrigin = (origin: Origin): origin is PushOrigin => origin.push !== undefined

/** The message of geth. */
const notSupported = refuse('method', { message: 'notifications not supported' })
const notInBatch = refuse('method', { message: 'notifications not supported in a batch: send eth_subscribe by itself' })
const withoutId = refuse('invalid', { message: 'invalid request: eth_subscribe needs an id' })

const topicOf = ([name, param]: readonly Json[], kinds: readonly string[]): Topic | Failure => {
  const kind = subscriptionKinds.find(each => each === name)
  if (kind === undefined || !kinds.includes(kind)) return refuseUnknownKind(String(name))
  if (kind === 'logs') return logsTopicOf(param)
  if (kind === 'transactionReceipts') return receiptsTopicOf(param)
  const isFull = kind === 'newPendingTransactions' && param === true
  if (isFull) return { kind: 'fullPendingTransactions' }
  if (param === undefined || (kind === 'newPendingTransactions' && param === false)) return { kind }
  return refuse('params', {
    message: `eth_subscribe ${kind} takes ${kind === 'newPendingTransactions' ? 'true, false or no second' : 'no further'} parameter`,
  })
}

const logsTopicOf = (param: Json | undefined): Topic | Failure => {
  if (typeof param === 'boolean') return refuse('params', { message: 'eth_subscribe logs takes a filter object' })
  const filter = parseLogFilter(param, 'eth_subscribe')
  return 'error' in filter ? filter : { kind: 'logs', filter }
}

const receiptsTopicOf = (param: Json | undefined): Topic | Failure => {
  const receiptFilter = parseReceiptFilter(param)
  return 'error' in receiptFilter ? receiptFilter : { kind: 'transactionReceipts', receiptFilter }
}

/** The message of geth. The name comes from the caller: it is shortened, and made printable. */
const refuseUnknownKind = (name: string): Failure =>
  refuse('method', { message: `no "${name.slice(0, 40).replace(/[^ -~]/g, '?')}" subscription in eth namespace` })
