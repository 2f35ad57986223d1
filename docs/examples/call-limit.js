// configs/call-limit.js
import { definePlugin, refuse } from 'tollgate/plugin'

export default definePlugin({
  name: 'call-limit',
  apiVersion: 1,
  summary: 'Refuses an account that calls faster than its allowance.',
  options: {
    type: 'object',
    properties: { calls: { type: 'integer', minimum: 1, description: 'Calls per second and account.' } },
    required: ['calls'],
  },
  reads: ['account'],
  once: true,
  create({ calls }, { rateLimits }) {
    const rate = { perSecond: calls, burst: calls }
    return async (call, next) => {
      const tooFew = await rateLimits.take([{ bucket: call.context.account.id, rate, tokens: 1 }])
      return tooFew === undefined ? next(call) : refuse('rate', { retryAfter: Math.ceil(tooFew.waitMs / 1000) })
    }
  },
})
