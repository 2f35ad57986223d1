import CircuitBreaker from 'opossum'
import { metricDefinitions } from '../../src/plugin/plugin.ts'
import type { Services } from '../../src/plugin/plugin.ts'

/** When a breaker opens, and for how long. */
export interface BreakerOptions {
  readonly minCalls: number
  readonly errorPercent: number
  readonly window: number
  readonly consecutiveFailures: number
  readonly openFor: number
}

/** What a call's end says about the node that was asked. */
export type AttemptResult = 'good' | 'bad'

/** An upstream, or one class of method on it, cut off while too many of its calls fail. */
export interface Breaker {
  readonly isOpen: boolean
  record(verdict: AttemptResult): void
  /** Opens it at once. */
  open(): void
  stop(): void
}

/** A breaker of an upstream whose state operators see. */
export const openObservedBreaker = (
  upstream: string,
  methodClass: string,
  options: BreakerOptions,
  probe: () => Promise<AttemptResult>,
  { log, metrics }: Services,
): Breaker => {
  const state = metrics.gauge(metricDefinitions.upstreamBreakerOpen, { upstream, class: methodClass })
  let lastState = 'closed'
  state.set(0)
  return openBreaker(options, probe, newState => {
    if (newState === lastState) return // still open after a probe
    lastState = newState
    state.set(newState === 'open' ? 1 : 0)
    log.warn({ upstream, class: methodClass, breaker: newState }, `breaker ${newState}`)
  })
}

/**
 * opossum decides when, and is told how calls ended rather than run them: the end of a call whose caller left, or for
 * which there was no place, says nothing and must not be counted either way. It neither times calls (they have
 * deadlines of their own) nor limits them (its rejections would count as failures).
 *
 * Its threshold needs many calls; a node that fails every one of few calls is caught by `consecutiveFailures`. After `openFor` it is
 * `probe` that tries the node, never a caller's call.
 */
const openBreaker = (
  options: BreakerOptions,
  probe: () => Promise<AttemptResult>,
  onState: (state: 'open' | 'closed') => void,
): Breaker => {
  const breaker = new CircuitBreaker(settleAs, {
    timeout: false,
    volumeThreshold: options.minCalls,
    errorThresholdPercentage: options.errorPercent - thresholdEpsilonPercent,
    rollingCountTimeout: options.window,
    resetTimeout: options.openFor,
    rollingPercentilesEnabled: false,
    enableSnapshots: false,
  })
  let consecutiveFailures = 0
  /** An open breaker rejects what it is told: calls that began before it opened are of no interest to it. */
  const report = (verdict: AttemptResult): void => void breaker.fire(verdict).catch(() => undefined)
  breaker.on('open', () => onState('open'))
  breaker.on('halfOpen', () => void probe().then(report, () => report('bad')))
  breaker.on('close', () => {
    consecutiveFailures = 0
    onState('closed')
  })
  return {
    get isOpen() {
      return !breaker.closed
    },
    record(verdict) {
      if (!breaker.closed) return
      consecutiveFailures = verdict === 'good' ? 0 : consecutiveFailures + 1
      // Of a good call it need only know that there was one, of which the rate of errors is taken: to fire it costs 4 us.
      if (verdict === 'good') return void breaker.emit('fire')
      report(verdict)
      if (consecutiveFailures >= options.consecutiveFailures) breaker.open()
    },
    open: () => breaker.open(),
    stop: () => breaker.shutdown(),
  }
}

/** opossum opens above its threshold, and we at it. Rates of up to 1e9 calls differ by more. */
const thresholdEpsilonPercent = 1e-9

const settleAs = async (verdict: AttemptResult): Promise<void> => {
  if (verdict === 'bad') throw new Error('the node failed')
}
