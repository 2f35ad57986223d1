// configs/external-policy.js
import { copyReply, definePlugin, refuse } from 'tollgate/plugin'

const decisions = {
  name: 'tollgate_policy_decisions_total',
  help: 'Calls that the policy service was asked about, by its answer.',
  labels: ['decision'],
}

/** So long after a failure the service is asked again. */
const failureTtlMs = 1_000
const maxRemembered = 10_000

export default definePlugin({
  name: 'external-policy',
  apiVersion: 1,
  summary: 'Asks an HTTP service whether an account may call a method.',
  options: {
    type: 'object',
    properties: {
      url: {
        type: 'string',
        format: 'url',
        description: 'URL of the service, which gets `account` and `method` in the query, and answers {"allowed": true}.',
        examples: ['http://10.0.0.7:8181/allow'],
      },
      methods: { type: 'array', items: { type: 'string' }, description: 'The methods that the service is asked about.' },
      timeout: { type: 'string', format: 'duration', default: '200ms', description: 'Maximum time to wait for the service.' },
      ttl: { type: 'string', format: 'duration', default: '1m', description: 'How long an answer is remembered.' },
      passOnFailure: { type: 'boolean', default: false, description: 'Whether calls are passed on while the service fails.' },
    },
    required: ['url', 'methods'],
  },
  reads: ['request', 'account'],
  create({ url, methods, timeout: timeoutMs, ttl: ttlMs, passOnFailure }, { clock, log, metrics }) {
    const counters = Object.fromEntries(
      ['allowed', 'denied', 'failed'].map(decision => [decision, metrics.counter(decisions, { decision })]),
    )
    const governed = new Set(methods)
    const remembered = new Map()
    const stopped = new AbortController()

    const request = async (account, method) => {
      const target = new URL(url.reveal())
      target.searchParams.set('account', account)
      target.searchParams.set('method', method)
      // The gateway's clock, which a test advances.
      const deadline = new AbortController()
      const timer = clock.after(timeoutMs, () => deadline.abort(new Error('timeout')))
      try {
        const response = await fetch(target, { signal: AbortSignal.any([deadline.signal, stopped.signal]) })
        if (!response.ok) throw new Error(`HTTP status ${response.status}`)
        return (await response.json()).allowed === true ? 'allowed' : 'denied'
      } catch (err) {
        // The message of the cause may have the URL.
        log.warn({ method, cause: err.cause?.code ?? err.message }, 'policy service failed')
        return 'failed'
      } finally {
        timer.cancel()
      }
    }

    /** Calls that come while the service is asked share its answer: no caller who leaves ends the request. */
    const decide = (account, method) => {
      const key = `${account} ${method}`
      const known = remembered.get(key)
      if (known !== undefined && clock.monotonic() < known.until) return known.decision
      if (remembered.size >= maxRemembered) remembered.clear()
      const entry = { decision: request(account, method), until: clock.monotonic() + timeoutMs + ttlMs }
      remembered.set(key, entry)
      entry.decision.then(decision => {
        entry.until = clock.monotonic() + (decision === 'failed' ? failureTtlMs : ttlMs)
      })
      return entry.decision
    }

    return {
      async handle(call, next) {
        const { account, request } = call.context
        if (!governed.has(request.method)) return next(call)
        const decision = await decide(account.id, request.method)
        counters[decision].add()
        if (decision === 'allowed' || (decision === 'failed' && passOnFailure)) return next(call)
        if (decision === 'failed') return refuse('unavailable', { message: 'permissions cannot be checked now', retryAfter: 1 })
        // A code of its own: refuse() has those of the gateway.
        return copyReply(refuse('forbidden'), { error: { code: -32050, message: `your account may not call ${request.method}` } })
      },
      async stop() {
        stopped.abort()
      },
    }
  },
})
