// configs/block-range.js
import { blockSelectorOf, definePlugin, refuse, toHexQuantity } from 'tollgate/plugin'

export default definePlugin({
  name: 'block-range',
  apiVersion: 1,
  summary: 'Refuses calls over a range of more blocks than allowed.',
  options: {
    type: 'object',
    properties: {
      maxBlocks: { type: 'integer', minimum: 1, description: 'Maximum number of blocks of one call.', examples: [10_000] },
      methods: {
        type: 'array',
        items: { type: 'string' },
        default: ['eth_getLogs'],
        description: 'The methods that the limit is for.',
      },
    },
    required: ['maxBlocks'],
  },
  reads: ['request'],
  create({ maxBlocks, methods: limited }, { heads, methods }) {
    const names = new Set(limited)
    /** A tag is near the head, except for `earliest`. Before the first head is known, a range with one tag is passed on. */
    const heightOf = block => (typeof block === 'number' ? block : block === 'earliest' ? 0 : heads.snapshot.head)
    return async (call, next) => {
      const { method, params } = call.context.request
      const blocks = names.has(method) ? blockSelectorOf(methods.get(method), params) : undefined
      if (blocks === undefined || 'hash' in blocks) return next(call)
      const [from, to] = [heightOf(blocks.from), heightOf(blocks.to)]
      if (from === undefined || to === undefined || to - from < maxBlocks) return next(call)
      return refuse('params', {
        message: `${method} asks for ${to - from + 1} blocks, and at most ${maxBlocks} are allowed`,
        data: { from: toHexQuantity(from), to: toHexQuantity(from + maxBlocks - 1), limit: maxBlocks },
      })
    }
  },
})
