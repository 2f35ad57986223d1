import type { NetworkConfig, Step } from '../config/types.ts'
import type { Json } from '../plugin/call.ts'
import { revealSecrets } from '../plugin/secret.ts'
import type { Heads, HeadsSource } from '../services/chain-heads/index.ts'
import type { Log, Services, UpstreamClient } from '../services/index.ts'
import { withLabels } from '../services/metrics.ts'
import type { Metrics } from '../services/metrics.ts'
import type { EventRules } from '../services/event-rules.ts'
import type { EvidenceWriter } from '../services/evidence.ts'
import type { PluginRecords } from '../services/plugin-records.ts'
import type { PluginProblems } from '../services/plugin-problems.ts'
import type { NodeStatuses } from '../services/node-status.ts'
import { sharerIndexOf, varyBelow, withoutSpans } from './shared-calls.ts'
import type { SingletonReferences, Singletons } from './singletons.ts'
import type { Tracing } from './tracing.ts'

/** Services that all networks share as they are. */
type SharedServices = Pick<
  Services,
  'clock' | 'accounts' | 'ledger' | 'usage' | 'rateLimits' | 'results' | 'filterRecords' | 'sharedCaches' | 'cacheBytes'
>

/** What a network needs of its host; the rest of `Services` is its own. */
export interface HostServices extends SharedServices {
  readonly log: Log
  readonly metrics: Metrics
  readonly nodeStatuses: Pick<NodeStatuses, 'of'>
  readonly evidenceWriter: Pick<EvidenceWriter, 'of'>
  readonly pluginRecords: { of(network: string, step: string): PluginRecords }
  readonly pluginProblems: Pick<PluginProblems, 'open'>
  readonly singletons: Singletons
  readonly headsSource: HeadsSource
  /** The rules about events of the pipeline that serves a network; undefined before the first. */
  servingEvents?(network: string): EventRules | undefined
  /** All networks share its connections; responses reserve their bytes in the share of their network. */
  upstreamClientOf(network: string): UpstreamClient
  readonly version: string
  /** For development and tests: plugins that are not built in are held to the context that they declare. */
  readonly checksContext?: true
  /** Present where calls are recorded as spans. */
  readonly tracing?: Tracing | undefined
}

/** What the stages of one pipeline share. */
interface StageServicesOptions extends Pick<Services, 'methods' | 'describeMethods' | 'priceOf' | 'events' | 'offers'> {
  readonly heads: Heads
  readonly singletons: SingletonReferences
}

/** The services of each stage. Plugins get these and nothing else of the host: what their types would hide is not there. */
export const stageServices = (
  config: NetworkConfig,
  host: HostServices,
  { methods, heads, singletons, offers, describeMethods, priceOf, events }: StageServicesOptions,
): ((step: Step, i: number) => Services) => {
  const { clock, accounts, ledger, usage, rateLimits, results, filterRecords, sharedCaches, cacheBytes, tracing } = host
  const { name, steps } = config
  const chain = chainSettingsOf(config)
  const upstreamClient = host.upstreamClientOf(name)
  const shared = {
    clock,
    accounts: { find: accounts.find },
    ledger,
    usage,
    rateLimits,
    results,
    filterRecords,
    sharedCaches,
    cacheBytes,
    upstreamClient: tracing?.traceRequests(upstreamClient) ?? upstreamClient,
    network: Object.freeze({ name, ...chain }),
    methods,
    heads,
    offers,
    describeMethods,
    priceOf,
    events,
    isServed: () => host.servingEvents?.(name) !== undefined,
    metrics: withLabels(host.metrics, { network: name }),
    nodes: host.nodeStatuses.of(name),
    evidence: host.evidenceWriter.of(name),
    ...(tracing === undefined ? withoutSpans : withSpans(tracing)),
  }
  return (step, i) => ({
    ...shared,
    records: host.pluginRecords.of(name, step.name),
    // It lasts as long as a pipeline of the network has the step.
    problems: singletons.get(`${name}.${step.name}.problems`, null, () => host.pluginProblems.open(name, step.name)),
    log: host.log.child({ network: name, plugin: step.name }),
    // What is known of one chain must not be found by another, nor follow heads that are no longer tracked. Names of steps are unique within a pipeline.
    singleton: (singletonName, settings, make) =>
      singletons.get(`${name}.${step.name}.${singletonName}`, [chain, settings, answerersBelow(steps, i)], make),
    vary: varyBelow(steps.slice(i + 1)),
  })
}

/** With others of these, the network has other heads. */
export const chainSettingsOf = ({ chainId, blockTime, devNode }: NetworkConfig) => ({ chainId, blockTime, devNode })

const withSpans = (tracing: Tracing): typeof withoutSpans => ({
  traceparent: call => tracing.currentTraceparent() ?? withoutSpans.traceparent(call),
  currentSpan: () => tracing.currentSpan(),
})

/** For the plugin that shares answers: the external plugins below it, which may make answers of any kind. With others it shares nothing. */
const answerersBelow = (steps: readonly Step[], i: number): Json =>
  i !== sharerIndexOf(steps)
    ? null
    : steps.slice(i + 1).flatMap(({ name, file, options }) => (file === undefined ? [] : [revealSecrets([name, file.path, options])]))
