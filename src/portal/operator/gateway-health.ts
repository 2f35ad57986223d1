import { storeOutageTexts, storeStatusOf } from '../../server/store-status.ts'
import type { StoreOutage } from '../../services/ledger/store-outage.ts'
import { metricDefinitions as metrics } from '../../services/metric-definitions.ts'
import type { MetricFamily } from '../../services/metrics.ts'
import { failedOutcomes } from '../../services/traffic/figures.ts'
import type { CallFigures } from '../../services/traffic/figures.ts'
import { Gauges } from '../../services/traffic/gauges.ts'
import { dayMs } from '../../util/dates.ts'
import { minCallsForShare, severityOfFailures } from '../failure-share.ts'
import { describeOutcome } from '../outcome-advice.ts'
import { outcomeLabels } from '../state-labels.ts'

/** What the processes of the gateway use, and whether its store can be used. */
export const gatewayHealth = (families: readonly MetricFamily[]) => {
  const gauges = new Gauges(families)
  const figureOf = (...metric: Parameters<Gauges['valueOf']>): number | null => gauges.valueOf(...metric) ?? null
  const { usable, reason = null, outage = null } = storeStatusOf(families)
  const lagSeconds = figureOf(metrics.eventLoopDelayP99)
  return {
    store: { usable, outage, reason },
    workers: { ready: figureOf(metrics.workers, { state: 'ready' }), missing: figureOf(metrics.workers, { state: 'missing' }) },
    residentBytes: figureOf(metrics.processMemory),
    inFlightBytes: figureOf(metrics.inFlightBytes),
    inFlightMaxBytes: figureOf(metrics.inFlightMaxBytes),
    connections: figureOf(metrics.connections),
    maxConnections: figureOf(metrics.maxConnections),
    websockets: figureOf(metrics.websockets),
    openFiles: figureOf(metrics.processOpenFiles),
    maxFiles: figureOf(metrics.processMaxFiles),
    eventLoopLagMs: lagSeconds === null ? null : 1_000 * lagSeconds,
  }
}

type GatewayHealth = ReturnType<typeof gatewayHealth>

/** In deploy/prometheus/alerts.yaml. */
export type AlertRule = `Tollgate${string}`

/** A condition that an operator should act on. */
export interface GatewayProblem {
  readonly alert: AlertRule
  /** What its incident is called. */
  readonly incident: string
  readonly severity: 'critical' | 'warning'
  readonly text: string
  /** The network that it is about. */
  readonly network: string | null
}

interface ObservedNetwork {
  readonly name: string
  readonly figures: CallFigures
  /** Calls by outcome. */
  readonly outcomes: Readonly<Record<string, number>>
  readonly isDown: boolean
}

interface ObservedGateway {
  readonly health: GatewayHealth
  readonly families: readonly MetricFamily[]
  /** Of the last minute. */
  readonly networks: readonly ObservedNetwork[]
  readonly refusedSockets: number
  /** Seconds of CPU a second, of all processes, in the last minute. */
  readonly cpu: number
  /** Plugins that did not come with the gateway are loaded. */
  readonly hasOwnPlugins: boolean
  /** Milliseconds since 1970. */
  readonly now: number
}

/** The alert rules that one reading decides. The times for which they wait are Prometheus's. */
export const gatewayProblems = (observed: ObservedGateway): readonly GatewayProblem[] => [
  ...processProblems(observed),
  ...observed.networks.flatMap(networkProblems),
]

const networkProblems = ({ name: network, figures, outcomes, isDown }: ObservedNetwork): readonly GatewayProblem[] => {
  const { calls, failedCalls, p99Ms } = figures
  const { internal = 0 } = outcomes
  // The last minute is for the most part one from before the outage.
  const failed = isDown ? 'calls fail' : `${formatPercent(failedCalls / calls)} of the calls of the last minute failed`
  return [
    ...problemIf(
      'TollgateCallsFail',
      severityOfFailures(figures) === 'critical',
      `${failed}, most often as ${mostFrequentFailure(outcomes)}`,
    ),
    ...problemIf(
      'TollgateInternalErrors',
      internal > 0,
      `${internal} ${internal === 1 ? 'call' : 'calls'} failed because of a bug: search the log for \`internal error\`, which names the plugin`,
    ),
    ...problemIf(
      'TollgateSlowCalls',
      calls >= minCallsForShare && (p99Ms ?? 0) > 5_000,
      '1 % of the calls of the last minute took 5 s or longer',
    ),
  ].map(each => ({ ...each, severity: each.alert === 'TollgateCallsFail' ? 'critical' : 'warning', network }))
}

const problemIf = (alert: AlertRule, isWrong: boolean, text: string): readonly GatewayProblem[] =>
  isWrong ? [{ alert, incident: alert, severity: 'warning', text, network: null }] : []

/** As the page Errors has it. */
const mostFrequentFailure = (outcomes: ObservedNetwork['outcomes']): string => {
  const [outcome = ''] = [...failedOutcomes].sort((a, b) => (outcomes[b] ?? 0) - (outcomes[a] ?? 0))
  const labels: Readonly<Record<string, string>> = outcomeLabels
  return `“${labels[outcome] ?? outcome}” (${describeOutcome(outcome).code})`
}

const processProblems = ({ health, families, refusedSockets, cpu, hasOwnPlugins, now }: ObservedGateway): readonly GatewayProblem[] => {
  const gauges = new Gauges(families)
  const { store, workers, inFlightBytes, inFlightMaxBytes, openFiles, maxFiles, eventLoopLagMs } = health
  const isZero = (metric: { readonly name: string }): boolean => gauges.seriesOf(metric).some(({ values }) => values[0] === 0)
  const [fullest = { limit: '', share: 0 }] = gauges
    .seriesOf(metrics.storeUsedShare)
    .map(({ labels: { limit = '' }, values: [share = 0] }) => ({ limit, share }))
    .sort((one, other) => other.share - one.share)
  const expiry = Math.min(...gauges.seriesOf(metrics.tlsCertificateExpiry).map(({ values }) => (values[0] ?? 0) * 1_000)) - now
  return [
    ...storeProblems(store),
    ...problemIf(
      'TollgateStoreFull',
      fullest.share > maxUsedShare,
      `${formatPercent(fullest.share)} of the ${fullest.limit} of the store are in use: at 100 % calls are refused`,
    ),
    ...problemIf('TollgateWorkersMissing', (workers.missing ?? 0) > 0, `${workers.missing} workers accept no calls`),
    ...problemIf(
      'TollgateMemoryForCallers',
      shareOf(inFlightBytes, inFlightMaxBytes) > maxUsedShare,
      'more than 80 % of `limits.inFlight` is in use',
    ),
    ...problemIf('TollgateSocketsRefused', refusedSockets > 0, `${refusedSockets} sockets were refused in the last minute`),
    ...problemIf('TollgateOpenFiles', shareOf(openFiles, maxFiles) > maxUsedShare, 'more than 80 % of the file descriptors are open'),
    ...problemIf(
      'TollgateEventLoopLag',
      (eventLoopLagMs ?? 0) > 100,
      describeLag(eventLoopLagMs ?? 0, cpu / Math.max(1, workers.ready ?? 1), hasOwnPlugins),
    ),
    ...problemIf('TollgateSharedCacheDown', isZero(metrics.sharedCacheUp), 'the shared cache is not in use'),
    ...problemIf(
      'TollgateReloadFailed',
      isZero(metrics.configReloadSuccessful),
      'the last reload was refused: the configuration from before serves on',
    ),
    ...problemIf('TollgateJwtKeysUnavailable', isZero(metrics.jwtKeysReloadSuccessful), 'the keys of tokens (JWT) could not be read'),
    ...problemIf(
      'TollgateCertificateExpires',
      expiry < 14 * dayMs,
      `a TLS certificate expires in ${Math.max(0, Math.floor(expiry / dayMs))} days`,
    ),
  ]
}

/** Callers are served as long as credits are leased. */
const storeProblems = ({ outage, reason }: GatewayHealth['store']): readonly GatewayProblem[] =>
  outage === null ? [] : [storeProblem(outage, reason ?? '')]

const storeProblem = (outage: StoreOutage, text: string): GatewayProblem => ({
  alert: outage === 'emptied' ? 'TollgateStoreEmptied' : 'TollgateStoreFails',
  incident: `store ${outage}`,
  severity: 'critical',
  text,
  network: null,
})

/** Where a page has just read nothing from the store. Without calls nothing else asks the store for anything. */
export const withStoreFailure = (problems: readonly GatewayProblem[]): readonly GatewayProblem[] =>
  problems.some(({ incident }) => incident.startsWith('store '))
    ? problems
    : [storeProblem('unreachable', storeOutageTexts.unreachable), ...problems]

/** Of a limit: then there is time to raise it. */
const maxUsedShare = 0.8

/** More workers help a process that is busy, and not one that something stops for a moment. */
const describeLag = (lagMs: number, cpuOfProcess: number, hasOwnPlugins: boolean): string =>
  `the event loop was ${Math.round(lagMs)} ms late ${
    cpuOfProcess > minBusyCpuShare
      ? 'under load: add workers'
      : `without much load: by ${hasOwnPlugins ? 'a plugin that computes for long, or ' : ''}a pause of the machine`
  }`

/** Of a core. */
const minBusyCpuShare = 0.7

const shareOf = (part: number | null, whole: number | null): number => (part === null || whole === null || whole === 0 ? 0 : part / whole)

const formatPercent = (share: number): string => `${(100 * share).toFixed(1)} %`
