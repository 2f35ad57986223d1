import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { metricDefinitions } from '../metric-definitions.ts'
import type { Gauge, Metrics } from '../metrics.ts'
import type { Head } from './heads-types.ts'
import { minAgreeingPolls } from './poll-schedule.ts'
import type { UpstreamRequester } from './upstream-requests.ts'

const { upstreamUp, upstreamHead } = metricDefinitions

interface PollReportOptions {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics<'network'>
  /** From now on the upstream does not answer. */
  onFailure(): void
}

/**
 * Does an upstream answer the requests about its chain? A change is logged, and metrics have the state. The very first answer
 * counts at once, so that a wrong URL is reported at the start; later ones only when several in a row agree.
 */
export class PollReport {
  readonly #upstream: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #up: Gauge
  readonly #metrics: Metrics<'network'>
  readonly #onFailure: () => void
  /** To be called when it is tracked no longer: its series go unless another upstream of its name is tracked. */
  readonly releaseSeries: () => void
  #isKnown = false
  #failuresInRow = 0
  #failure: string | undefined
  /** When the first of the failures in a row came, in ms since 1970. */
  #firstFailureAt = 0

  constructor(upstream: string, { clock, log, metrics, onFailure }: PollReportOptions) {
    this.#upstream = upstream
    this.#clock = clock
    this.#log = log
    this.releaseSeries = metrics.holdSeries({ upstream }, [upstreamUp, upstreamHead])
    this.#up = metrics.gauge(upstreamUp, { upstream })
    this.#metrics = metrics
    this.#onFailure = onFailure
  }

  /** Why the upstream does not answer; undefined while it does, and before the first answer. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Since when the upstream does not answer, in ms since 1970; undefined while it does. */
  get failingSince(): number | undefined {
    return this.#failure === undefined ? undefined : this.#firstFailureAt
  }

  /** The same requests, with each answer recorded. */
  watch(request: UpstreamRequester): UpstreamRequester {
    return async (method, ...params) => {
      const reply = await request(method, ...params)
      this.#record(reply)
      return reply
    }
  }

  /** No series of a head that is not known. */
  recordHead(head: Head | undefined): void {
    if (head !== undefined) this.#metrics.gauge(upstreamHead, { upstream: this.#upstream }).set(head.number)
  }

  /** A rate limit, a canceled request or a limit of the gateway says nothing. */
  #record(reply: Reply): void {
    if (!isFailure(reply) || reply.fault === 'caller') return this.#setFailure(undefined)
    if (reply.fault !== 'upstream' || reply.category === 'rateLimited') return
    if (this.#failuresInRow === 0) this.#firstFailureAt = this.#clock.now()
    this.#failuresInRow += 1
    if (!this.#isKnown || this.#failuresInRow >= minAgreeingPolls) this.#setFailure(reply.cause ?? reply.error.message)
  }

  #setFailure(failure: string | undefined): void {
    const previous = this.#failure
    this.#isKnown = true
    this.#failure = failure
    this.#up.set(failure === undefined ? 1 : 0)
    if (failure === undefined) this.#failuresInRow = 0
    if ((failure === undefined) === (previous === undefined)) return
    if (failure === undefined) return this.#log.info({ upstream: this.#upstream }, 'upstream answers again')
    this.#log.warn({ upstream: this.#upstream, cause: failure }, 'upstream does not answer: check its URL')
    this.#onFailure()
  }
}
