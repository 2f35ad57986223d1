import CircuitBreaker from 'opossum'
import type { Services } from '../../src/plugin.ts'

/** When a breaker opens, and for how long. */
export interface BreakerOptions {
  readonly calls: number
  readonly errors: number
  readonly window: number
  readonly streak: number
  readonly pause: number
}

/** What a call's end says about the node that was asked. */
export type Verdict = 'good' | 'bad'

/** An upstream, or one class of method on it, cut off while too many of its calls fail. */
export interface Breaker {
  readonly isOpen: boolean
  count(verdict: Verdict): void
  /** Opens it at once. */
  trip(): void
  stop(): void
}

/** A breaker of an upstream whose state operators see. */
export const watchedBreaker = (
  upstream: string,
  kind: string,
  options: BreakerOptions,
  probe: () => Promise<Verdict>,
  { log, metrics }: Services,
): Breaker => {
  const state = metrics.gauge('tollgate_breaker_open', '1 while the breaker is open, in any worker.', { upstream, class: kind })
  let last = 'closed'
  state.set(0)
  return openBreaker(options, probe, now => {
    if (now === last) return // still open after a probe
    last = now
    state.set(now === 'open' ? 1 : 0)
    log.warn({ upstream, class: kind, breaker: now }, `breaker ${now}`)
  })
}

/**
 * opossum decides when, and is told how calls ended rather than run them: the end of a call whose caller left, or for
 * which there was no place, says nothing and must not be counted either way. It neither times calls (they have
 * deadlines of their own) nor limits them (its rejections would count as failures).
 *
 * Its threshold needs many calls; a node that fails every one of few calls is caught by `streak`. After the pause it is
 * `probe` that tries the node, never a caller's call.
 */
const openBreaker = (options: BreakerOptions, probe: () => Promise<Verdict>, onState: (state: 'open' | 'closed') => void): Breaker => {
  const breaker = new CircuitBreaker(pass, {
    timeout: false,
    volumeThreshold: options.calls,
    errorThresholdPercentage: options.errors - little,
    rollingCountTimeout: options.window,
    resetTimeout: options.pause,
    rollingPercentilesEnabled: false,
    enableSnapshots: false,
  })
  let streak = 0
  /** An open breaker rejects what it is told: calls that began before it opened are of no interest to it. */
  const tell = (verdict: Verdict): void => void breaker.fire(verdict).catch(() => undefined)
  breaker.on('open', () => onState('open'))
  breaker.on('halfOpen', () => void probe().then(tell, () => tell('bad')))
  breaker.on('close', () => {
    streak = 0
    onState('closed')
  })
  return {
    get isOpen() {
      return !breaker.closed
    },
    count(verdict) {
      if (!breaker.closed) return
      streak = verdict === 'good' ? 0 : streak + 1
      // Of a good call it need only know that there was one, of which the rate of errors is taken: to fire it costs 4 us.
      if (verdict === 'good') return void breaker.emit('fire')
      tell(verdict)
      if (streak >= options.streak) breaker.open()
    },
    trip: () => breaker.open(),
    stop: () => breaker.shutdown(),
  }
}

/** opossum opens above its threshold, and we at it. Rates of up to 1e9 calls differ by more. */
const little = 1e-9

const pass = async (verdict: Verdict): Promise<void> => {
  if (verdict === 'bad') throw new Error('the node failed')
}
