// configs/slow-log.js
import { definePlugin, isFailure } from 'tollgate/plugin'

const slowCalls = {
  name: 'tollgate_slow_calls_total',
  help: 'Calls that took longer than the threshold of slow-log.',
  labels: [],
}

export default definePlugin({
  name: 'slow-log',
  apiVersion: 1,
  summary: 'Logs and counts calls that take longer than a threshold.',
  options: {
    type: 'object',
    properties: {
      threshold: {
        type: 'string',
        format: 'duration',
        usual: { min: '1ms', max: '1m' },
        default: '1s',
        description: 'Time after which a call is slow.',
      },
    },
  },
  reads: ['request'],
  create({ threshold }, { clock, log, metrics }) {
    const counter = metrics.counter(slowCalls, {})
    return async (call, next) => {
      const startedAt = clock.monotonic()
      const reply = await next(call)
      const ms = clock.monotonic() - startedAt
      if (ms < threshold) return reply
      counter.add()
      const { method } = call.context.request
      const outcome = isFailure(reply) ? reply.kind : 'ok'
      const { source, upstream } = reply
      log.warn({ requestId: call.origin.requestId, method, ms: Math.round(ms), outcome, source, upstream }, 'slow call')
      return reply
    }
  },
})
