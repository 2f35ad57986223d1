// configs/time-budget.js
import { Cancellation, definePlugin, onAbort, refuse } from 'tollgate/plugin'

const lateCalls = {
  name: 'tollgate_late_calls_total',
  help: 'Calls that time-budget has ended.',
  labels: [],
}

export default definePlugin({
  name: 'time-budget',
  apiVersion: 1,
  summary: 'Refuses calls that have no answer after a time.',
  options: {
    type: 'object',
    properties: {
      limit: { type: 'string', format: 'duration', minimum: '1ms', description: 'Maximum time of a call.', examples: ['2s'] },
    },
    required: ['limit'],
  },
  // An attempt that is ended here says nothing about its node: failover learns from `timeout` of upstream that a node is slow.
  checkPipeline({ limit: limitMs }, others, report) {
    const { timeout: timeoutMs = 0 } = others.find(({ plugin }) => plugin === 'upstream')?.options ?? {}
    if (limitMs < 2 * timeoutMs) report(['limit'], 'must be at least twice the `timeout` of upstream: time for a second node')
  },
  create({ limit: limitMs }, { clock, metrics }) {
    const counter = metrics.counter(lateCalls, {})
    return async (call, next) => {
      const cancellation = new Cancellation()
      // The caller may leave first. The signal of a WebSocket lasts for all its calls, so that the listener is removed.
      const removeListener = onAbort(call.signal ?? call.origin.signal, () => cancellation.abort())
      let timer
      const late = new Promise(resolve => {
        timer = clock.after(limitMs, resolve)
      })
      try {
        const reply = await Promise.race([next({ ...call, signal: cancellation }), late])
        if (reply !== undefined) return reply
        // Ends what the plugins below do for the call. Their reply is awaited by nobody, and costs nothing.
        cancellation.abort()
        counter.add()
        return refuse('timeout', { source: 'gateway', message: `no answer within ${limitMs} ms` })
      } finally {
        timer.cancel()
        removeListener()
      }
    }
  },
})
