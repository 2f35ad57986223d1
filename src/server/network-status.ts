import type { HeadsStatus } from '../services/chain-heads/index.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Labels, MetricFamily } from '../services/metrics.ts'

/** A network, with what is known of its chain; nothing before its upstreams are tracked. */
export type NetworkHeads = { readonly name: string } & Partial<HeadsStatus>

/** One network in `/readyz?verbose`. */
export interface NetworkStatus extends Omit<NetworkHeads, 'upstreams'> {
  readonly upstreams: readonly UpstreamStatus[]
}

export type UpstreamStatus = HeadsStatus['upstreams'][number] & {
  /** The classes of methods for which calls are kept away; `all` for every class. */
  readonly openBreakers?: readonly string[]
  readonly rateLimited?: true
  /** Its `rate` was spent in the last second. */
  readonly rateSpent?: true
  /** The classes of methods of which the upstream gets fewer calls than usual. */
  readonly fewerCalls?: readonly { readonly class: string; readonly reason: string; readonly rule: string }[]
}

/**
 * The heads of a network and the breakers and rate limits of all its workers in one view. The latter are read from the metrics:
 * so they agree with them, whatever process has them.
 */
export const networkStatusOf = (network: NetworkHeads, families: readonly MetricFamily[]): NetworkStatus => {
  const active = (metric: { readonly name: string }) => activeSeries(families, metric).filter(labels => labels['network'] === network.name)
  const open = active(metricDefinitions.upstreamBreakerOpen)
  const reduced = active(metricDefinitions.upstreamReduced)
  const limited = active(metricDefinitions.upstreamRateLimited)
  const tracked = network.upstreams ?? []
  const spent = active(metricDefinitions.upstreamRateSpent)
  const excluded = active(metricDefinitions.upstreamExcluded)
  // A partner has breakers, and a chain that is checked, but its head is not tracked.
  const others = [...open, ...limited, ...spent, ...excluded].flatMap(({ upstream = '' }) =>
    tracked.some(({ name }) => name === upstream) ? [] : [upstream],
  )
  const upstreams = [...tracked, ...Array.from(new Set(others), name => partnerStatusOf(name, excluded))].map(upstream => {
    const openBreakers = open.flatMap(labels => (labels['upstream'] === upstream.name ? (labels['class'] ?? []) : []))
    const fewerCalls = reduced.flatMap(labels => (labels['upstream'] === upstream.name ? [describeReduced(labels)] : []))
    const isLimited = limited.some(labels => labels['upstream'] === upstream.name)
    return {
      ...upstream,
      usable: upstream.usable && !isLimited && !openBreakers.includes('all'),
      ...(openBreakers.length > 0 && { openBreakers: openBreakers.sort() }),
      ...(isLimited && { rateLimited: true as const }),
      ...(spent.some(labels => labels['upstream'] === upstream.name) && { rateSpent: true as const }),
      ...(fewerCalls.length > 0 && { fewerCalls }),
    }
  })
  return { ...network, upstreams }
}

/** The labels of the series of a gauge that are 1. */
const activeSeries = (families: readonly MetricFamily[], metric: { readonly name: string }): readonly Labels[] =>
  families
    .filter(({ name }) => name === metric.name)
    .flatMap(({ series }) => series)
    .flatMap(({ labels, values }) => (values[0] === 1 ? [labels] : []))

/** The store in `/readyz?verbose`, as the process has it that sees it worst. */
interface StoreStatus {
  readonly usable: boolean
  readonly reason?: string
}

export const storeStatusOf = (families: readonly MetricFamily[]): StoreStatus => {
  const reasons = activeSeries(families, metricDefinitions.storeUnavailable).map(({ reason = '' }) => reason)
  const [reason] = reasons.includes('removed') ? ['removed'] : reasons
  return reason === undefined ? { usable: true } : { usable: false, reason: storeOutageTexts[reason] ?? reason }
}

const storeOutageTexts: Readonly<Record<string, string>> = {
  removed: 'the files of the store were removed or replaced while it was in use: put them back where they were, or restart the gateway',
  unreachable: 'the store does not answer or fails: the log has its error; calls are charged to credits that are already leased',
}

const partnerStatusOf = (name: string, excluded: readonly Labels[]): HeadsStatus['upstreams'][number] => {
  const reason = excluded.find(({ upstream }) => upstream === name)?.['reason']
  return { name, usable: reason === undefined, ...(reason !== undefined && { because: exclusionTexts.get(reason) ?? reason }) }
}

const exclusionTexts: ReadonlyMap<string, string> = new Map([
  ['chain', 'it is on another chain'],
  ['unverified', 'it has not returned its chain ID'],
])

const describeReduced = ({ class: methodClass = '', reason = '' }: Labels) => ({
  class: methodClass,
  reason,
  rule: rulesByReason.get(reason) ?? reason,
})

const rulesByReason: ReadonlyMap<string, string> = new Map([
  ['suspect', 'calls take far longer than usual: other upstreams are requested first, for 1 s or more'],
  ['recovering', 'after a suspicion or an open breaker the share of calls grows from 5 % to all'],
  [
    'slow',
    'for 30 s its 95th percentile was 4 times that of the fastest upstream, and 100 ms more: its share is their ratio, at least 10 %',
  ],
])
