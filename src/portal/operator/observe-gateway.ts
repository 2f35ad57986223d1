import type { Clock } from '../../services/clock.ts'
import type { MetricFamily } from '../../services/metrics.ts'
import { callFigures } from '../../services/traffic/figures.ts'
import type { OutageTraffic, TrafficHistory } from '../../services/traffic/history.ts'
import { shareFor } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { isoTime } from '../../util/dates.ts'
import { gatewayHealth, gatewayProblems } from './gateway-health.ts'
import type { GatewayProblem } from './gateway-health.ts'
import type { NodeIncidents } from './node-incidents.ts'

interface ObservedServices {
  history(): Promise<Pick<TrafficHistory, 'recent'>>
  /** Of all processes of the gateway. */
  metrics(): MaybePromise<readonly MetricFamily[]>
  incidents(): Promise<Pick<NodeIncidents, 'recordGateway'>>
  /** Whether plugins are loaded that did not come with the gateway. */
  hasOwnPlugins(): boolean
  readonly clock: Pick<Clock, 'monotonic' | 'now'>
}

/** A page asks for figures and for problems at once. */
const maxObservationAgeMs = 1_000

/** Observes the gateway for pages, and by itself, so that incidents have its problems whoever looks. */
export class GatewayObserver {
  /** It takes as much as a scrape of the metrics. */
  readonly intervalMs = 15_000
  /** One observation for all who ask within a second. */
  readonly observe: () => Promise<GatewayObservation>
  readonly #services: ObservedServices

  constructor(services: ObservedServices) {
    this.#services = services
    this.observe = shareFor(maxObservationAgeMs, () => observeGateway(services), services.clock)
  }

  async record(): Promise<void> {
    await this.problems()
  }

  async problems(): Promise<readonly GatewayProblem[]> {
    const [observed, incidents] = await Promise.all([this.observe(), this.#services.incidents()])
    const found = gatewayProblems({
      ...observed,
      refusedSockets: observed.counters.refusedSockets,
      hasOwnPlugins: this.#services.hasOwnPlugins(),
      now: this.#services.clock.now(),
    })
    incidents.recordGateway(found)
    return found
  }
}

/** What this gateway has counted in the last minute, and what it uses: of one moment. Each process sends its metrics for that. */
const observeGateway = async ({ history, metrics }: Pick<ObservedServices, 'history' | 'metrics'>) => {
  const [{ seconds, counters, outages }, families] = await Promise.all([(await history()).recent(), metrics()])
  return {
    seconds,
    counters,
    families,
    networks: Object.entries(counters.networks)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => ({
        ...{ name, figures: callFigures([each]), outcomes: each.calls },
        ...{ isDown: outages.has(name), outage: describeOutage(outages.get(name)) },
      })),
    health: gatewayHealth(families),
    cpu: seconds > 0 ? counters.cpuSeconds / seconds : 0,
  }
}

export type GatewayObservation = Awaited<ReturnType<typeof observeGateway>>

const describeOutage = (outage: OutageTraffic | undefined) => {
  if (outage === undefined) return undefined
  const { calls, failedCalls } = callFigures(outage.counters === undefined ? [] : [outage.counters])
  return { since: isoTime(outage.since), calls, failedCalls }
}
