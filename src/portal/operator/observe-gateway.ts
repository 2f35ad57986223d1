import type { Clock } from '../../services/clock.ts'
import type { MetricFamily } from '../../services/metrics.ts'
import { callFigures } from '../../services/traffic/figures.ts'
import type { OutageTraffic, TrafficHistory } from '../../services/traffic/history.ts'
import { shareFor } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { isoTime } from '../../util/dates.ts'
import { gatewayHealth } from './gateway-health.ts'

interface ObservedServices {
  history(): Promise<TrafficHistory>
  /** Of all processes of the gateway. */
  metrics(): MaybePromise<readonly MetricFamily[]>
  readonly clock: Pick<Clock, 'monotonic'>
}

/** A page asks for figures and for problems at once. */
const maxObservationAgeMs = 1_000

/** One observation for all who ask within a second. */
export const openGatewayObserver = (services: ObservedServices) =>
  shareFor(maxObservationAgeMs, () => observeGateway(services), services.clock)

/** What this gateway has counted in the last minute, and what it uses: of one moment. Each process sends its metrics for that. */
const observeGateway = async ({ history, metrics }: ObservedServices) => {
  const [{ seconds, counters, outages }, families] = await Promise.all([(await history()).recent(), metrics()])
  return {
    seconds,
    counters,
    families,
    networks: Object.entries(counters.networks)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => ({ name, figures: callFigures([each]), outcomes: each.calls, outage: describeOutage(outages.get(name)) })),
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
