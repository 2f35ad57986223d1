// configs/plan-methods.js
import { assertKnownMethods, createNameMatcher, definePlugin, refuse } from 'tollgate/plugin'

export default definePlugin({
  name: 'plan-methods',
  apiVersion: 1,
  summary: 'Refuses methods that the plan of the account does not include.',
  options: {
    type: 'object',
    properties: {
      excluded: {
        type: 'object',
        additionalProperties: { type: 'array', items: { type: 'string' }, minItems: 1 },
        description: 'The methods that a plan does not include, by name of the plan; `*` stands for any text.',
        examples: [{ core: ['debug_*', 'eth_getBlockReceipts'] }],
      },
    },
    required: ['excluded'],
  },
  reads: ['request', 'account'],
  create({ excluded }, { methods }) {
    const lists = Object.entries(excluded)
    const references = lists.flatMap(([plan, list]) => list.map((method, i) => ({ path: ['excluded', plan, i], method })))
    assertKnownMethods(references, methods)
    const matchers = new Map(lists.map(([plan, list]) => [plan, createNameMatcher(list)]))
    const isExcluded = (method, { plan }) => matchers.get(plan.name)?.(method) === true
    const messageFor = (method, { plan }) => `the plan ${plan.name} does not include ${method}`
    return {
      // For most calls: the handler does not run then.
      passes: ({ request, account }) => !isExcluded(request.method, account),
      async handle(call, next) {
        const { request, account } = call.context
        if (!isExcluded(request.method, account)) return next(call)
        return refuse('forbidden', { message: messageFor(request.method, account), data: { reason: 'plan' } })
      },
      // For rpc.discover, which lists what its caller may call. Without a caller no account is known.
      offers: (method, { account } = {}) => account === undefined || !isExcluded(method, account),
      // For `tollgate explain`, with and without the key of a caller.
      explain({ method, lookup }) {
        if (lookup?.kind !== 'granted') return { text: ['the plan of the account decides whether the call passes'] }
        if (isExcluded(method, lookup.account)) return { text: [messageFor(method, lookup.account)], ends: 'refused' }
        return { text: [`the plan ${lookup.account.plan.name} includes the method`] }
      },
    }
  },
})
