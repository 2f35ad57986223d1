// configs/block-methods.js
import { definePlugin, refuse } from 'tollgate/plugin'

export default definePlugin({
  name: 'block-methods',
  apiVersion: 1,
  summary: 'Refuses the listed methods.',
  options: {
    type: 'object',
    properties: { methods: { type: 'array', items: { type: 'string' }, description: 'The methods to refuse.' } },
    required: ['methods'],
  },
  reads: ['request'],
  create({ methods }) {
    const refused = new Set(methods)
    return async (call, next) => {
      const { method } = call.context.request
      if (!refused.has(method)) return next(call)
      return refuse('forbidden', { message: `the method ${method} is not allowed here` })
    }
  },
})
