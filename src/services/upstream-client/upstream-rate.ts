import type { Target } from '../../plugin/call.ts'
import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Timer } from '../clock.ts'
import type { Services } from '../index.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Gauge } from '../metrics.ts'
import type { TokenRequest } from '../rate-limits.ts'

/** For so long after a refused request the metric is 1: the next request may be allowed within milliseconds. */
const shownMs = 1000

type RateServices = Pick<Services, 'rateLimits' | 'clock' | 'metrics' | 'log' | 'network'>

/** The requests in a time that an upstream allows, by its options. All workers share it. */
export class UpstreamRate {
  readonly #services: RateServices
  readonly #upstream: string
  readonly #request: readonly [TokenRequest]
  readonly #spent: Gauge
  #spentUntil = -Infinity
  #shownTimer: Timer | undefined

  constructor(upstream: string, perSecond: number, services: RateServices) {
    this.#services = services
    this.#upstream = upstream
    const bucket = `upstream ${services.network.name} ${upstream}`
    this.#request = [{ bucket, rate: { perSecond, burst: Math.ceil(perSecond) }, tokens: 1 }]
    this.#spent = services.metrics.gauge(metricDefinitions.upstreamRateSpent, { upstream })
  }

  /** Milliseconds until a request may be allowed; 0 unless one was refused. */
  get remainingMs(): number {
    return Math.max(0, this.#spentUntil - this.#services.clock.monotonic())
  }

  /** Takes one request. 0 when it may be sent, else the milliseconds until one may. */
  take(): MaybePromise<number> {
    return thenMaybe(this.#services.rateLimits.take(this.#request), refused => {
      if (refused !== undefined) this.#recordSpent(refused.waitMs)
      return refused?.waitMs ?? 0
    })
  }

  #recordSpent(waitMs: number): void {
    const { clock, log } = this.#services
    this.#spentUntil = clock.monotonic() + waitMs
    if (this.#shownTimer === undefined) log.warn({ upstream: this.#upstream }, 'upstream rate spent: calls go to other upstreams')
    this.#shownTimer?.cancel()
    this.#spent.set(1)
    this.#shownTimer = clock.after(Math.max(shownMs, waitMs), () => {
      this.#shownTimer = undefined
      this.#spent.set(0)
    })
  }
}

const rates = new WeakMap<Target, UpstreamRate>()

/** The rate of the upstream, which all plugins share that send it calls; undefined when it has none. */
export const rateOf = (target: Target, services: RateServices): UpstreamRate | undefined => {
  const { name, rate } = target
  return rate === undefined ? undefined : getOrCreate(rates, target, () => new UpstreamRate(name, rate, services))
}
