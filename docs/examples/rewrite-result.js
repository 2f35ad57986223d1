// configs/rewrite-result.js
import { copyReply, definePlugin, isFailure, parseHexQuantity, toBuffer, toHexQuantity } from 'tollgate/plugin'

export default definePlugin({
  name: 'rewrite-result',
  apiVersion: 1,
  summary: 'Raises the gas prices that nodes suggest, so that transactions are mined in time.',
  options: {
    type: 'object',
    properties: {
      percent: { type: 'integer', minimum: 1, default: 110, description: 'The new price, in percent of the suggested one.' },
      methods: {
        type: 'array',
        items: { type: 'string' },
        default: ['eth_gasPrice', 'eth_maxPriorityFeePerGas'],
        description: 'The methods whose result is a price.',
      },
    },
  },
  reads: ['request'],
  create({ percent, methods }) {
    const rewritten = new Set(methods)
    return async (call, next) => {
      const reply = await next(call)
      if (isFailure(reply) || !rewritten.has(call.context.request.method)) return reply
      // A result is the node's JSON text in bytes: parse it only where it is needed.
      const price = parseHexQuantity(JSON.parse(toBuffer(reply.result).toString()))
      if (price === undefined) return reply
      const raised = (BigInt(price) * BigInt(percent) + 99n) / 100n
      return copyReply(reply, { result: Buffer.from(JSON.stringify(toHexQuantity(raised))) })
    }
  },
})
