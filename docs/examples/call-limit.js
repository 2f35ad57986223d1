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
  create({ calls }, { clock }) {
    const buckets = new Map()
    return async (call, next) => {
      const { id } = call.context.account
      const now = clock.monotonic()
      const { left, at } = buckets.get(id) ?? { left: calls, at: now }
      const tokens = Math.min(calls, left + ((now - at) / 1000) * calls)
      const isOver = tokens < 1
      buckets.set(id, { left: isOver ? tokens : tokens - 1, at: now })
      return isOver ? refuse('rate', { retryAfter: 1 }) : next(call)
    }
  },
})
