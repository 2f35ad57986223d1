import type { NetworkConfig, Step } from '../config/types.ts'
import type { Problem } from '../config/problem.ts'
import type { CallContext, Origin } from '../plugin/call.ts'
import type { DirectNext } from '../plugin/direct-stage.ts'
import { misconfigured } from '../plugin/plugin.ts'
import { Misconfigured } from '../plugin/define-plugin.ts'
import type { Handler } from '../plugin/plugin.ts'
import { PluginFault, defaultPluginTimeoutMs, describeBug } from '../plugin/plugin-fault.ts'
import type { Failure } from '../plugin/reply.ts'
import type { Heads } from '../services/chain-heads/index.ts'
import { composeEventRules, currentEventRules } from '../services/event-rules.ts'
import type { EventRules, Services } from '../services/index.ts'
import type { Log } from '../services/log.ts'
import { openMethodTable } from '../services/method-table/compile-table.ts'
import { withLabels } from '../services/metrics.ts'
import { InFlight, thenMaybe } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { TimeLimitError, callWithTimeLimit } from '../util/time-limit.ts'
import { DeclaredContext } from './declared-context.ts'
import { explainStages } from './explain-stages.ts'
import type { CallToExplain, StageExplanation } from './explain-stages.ts'
import { StageBugs, guardStage } from './guard-stage.ts'
import { withCallMetrics } from './call-metrics.ts'
import { composeAdmission, composeDescriptions, composeHandlers, composePrices, offersMethod } from './pipeline.ts'
import type { AnyStage, PipelineStage } from './pipeline.ts'
import { PluginCalls } from './plugin-calls.ts'
import { sharerIndexOf } from './shared-calls.ts'
import type { SingletonReferences } from './singletons.ts'
import { chainSettingsOf, stageServices } from './stage-services.ts'
import type { HostServices } from './stage-services.ts'

/** A network that answers. */
export interface Network {
  readonly name: string
  readonly hosts: readonly string[]
  /** Asks each stage in order; the first failure is the whole answer. Mostly known at once, without a promise. */
  readonly admit: (origin: Origin) => MaybePromise<Failure | undefined>
  readonly run: DirectNext
  readonly heads: Heads
  readonly describeMethods: Services['describeMethods']
  /** With the context of a call, whether its caller is offered the method. */
  offers(method: string, context?: Partial<CallContext>): boolean
  readonly events: EventRules
  /** Resolves when no call and no admission is under way: another pipeline has taken over. */
  whenIdle(): Promise<void>
  /** What becomes of a call at each stage, as far as it passes. */
  explain(call: CallToExplain): readonly StageExplanation[]
  /** Starts the stages from the last to the first: a stage is ready before another calls it. */
  start(): Promise<void>
  /**
   * Stops the stages from the first to the last, so that each can finish, then releases their singletons. Safe without
   * start(), and twice. A failure is logged, and the rest is stopped all the same.
   */
  stop(): Promise<void>
}

/** A stage that cannot serve; the message is for the operator. */
export class StageStartError extends Error {}

/**
 * Creates every stage. What stages refuse to be created with comes back as problems at their places; then the stages that
 * were created have been stopped, and the singletons that they used released.
 */
export const buildNetwork = async (
  config: NetworkConfig,
  host: HostServices,
): Promise<{ readonly network?: Network; readonly problems: readonly Problem[] }> => {
  const problems: Problem[] = []
  const stages: PipelineStage[] = []
  const sharerIndex = sharerIndexOf(config.steps)
  const sharer = config.steps[sharerIndex]
  const singletons = host.singletons.newReferences()
  holdSeries(config, host, singletons)
  const heads = openNetworkHeads(config, host, singletons)
  const offers = (method: string, context?: Partial<CallContext>) => offersMethod(stages, method, context)
  const methods = openMethodTable(config.methods, { name: config.name, chainId: config.chainId, version: host.version })
  const describeMethods = composeDescriptions(stages, methods)
  const priceOf = composePrices(stages, methods)
  const events = currentEventRules(() => host.servingEvents?.(config.name) ?? eventRulesOf(stages))
  const calls = singletons.get('plugin-calls', null, () => new PluginCalls(host.clock, host.log))
  const servicesOf = stageServices(config, host, { methods, heads, singletons, offers, describeMethods, priceOf, events })
  for (const [i, step] of config.steps.entries()) {
    try {
      const stage = createStage(step, servicesOf(step, i), calls, host.checksContext)
      stages.push({ step, stage })
      if (sharer !== undefined && i > sharerIndex) refuseAdmit(stage, sharer)
    } catch (error) {
      const issues = error instanceof Misconfigured ? error.issues : [{ path: [], message: describeCreateError(error, step) }]
      problems.push(...issues.map(issue => step.problemAt(issue.path, `${step.name}: ${issue.message}`)))
    }
  }
  const network = assembleNetwork(config, host, { stages, heads, singletons, offers, describeMethods, priceOf })
  if (problems.length === 0) return { network, problems }
  await network.stop()
  return { problems }
}

const eventRulesOf = (stages: readonly PipelineStage[]): EventRules => composeEventRules(stages.map(({ stage }) => stage.events ?? {}))

/** A plugin that is not built in may loop, and is watched. */
const createStage = (
  { plugin, options, name, file, timeoutMs = defaultPluginTimeoutMs }: Step,
  services: Services,
  calls: PluginCalls,
  checksContext: true | undefined,
): AnyStage => {
  const create = (given: Services) => toStage(plugin.create(options as never, given)) // the loader checked them against its schema
  if (file === undefined) return create(services)
  const bugs = new StageBugs({ network: services.network.name, name, file, timeoutMs }, calls)
  const stage = callWithTimeLimit(createTimeoutMs, () =>
    create({ ...services, ...guardCallbacks(services, bugs), rateLimits: bucketsOf(name, services.rateLimits) }),
  )
  return guardStage(stage, bugs, checksContext && new DeclaredContext(plugin))
}

/**
 * What a plugin does in its timers is watched, and what it throws there, or while metrics are read, becomes a rejection that nobody handles: the
 * process logs it and serves on, and a test of the plugin fails.
 */
const guardCallbacks = ({ clock, metrics }: Services, bugs: StageBugs): Pick<Services, 'clock' | 'metrics'> => {
  const guard = (run: () => void) => async (): Promise<void> => bugs.guard(run)
  return {
    clock: {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      after: (ms, run) => clock.after(ms, guard(run)),
      every: (ms, run) => clock.every(ms, guard(run)),
    },
    metrics: { ...metrics, collect: measure => metrics.collect(guard(measure)) },
  }
}

/** The buckets of the steps of this name, in all networks: another plugin may give one of its own the same name. */
const bucketsOf = (step: string, rateLimits: Services['rateLimits']): Services['rateLimits'] => {
  const nameOf = (bucket: string): string => `plugin ${step} ${bucket}`
  return {
    take: requests =>
      thenMaybe(
        rateLimits.take(requests.map(each => ({ ...each, bucket: nameOf(each.bucket) }))),
        tooFew =>
          tooFew && { ...tooFew, refused: requests.find(({ bucket }) => nameOf(bucket) === tooFew.refused.bucket) ?? tooFew.refused },
      ),
    stateOf: (bucket, rate) => rateLimits.stateOf(nameOf(bucket), rate),
  }
}

const describeCreateError = (error: unknown, { file }: Step): string =>
  error instanceof TimeLimitError
    ? `cannot be created: create() ${error.message} (${file?.shownAs})`
    : `cannot be created: ${describeBug(error, file)}`

/** It reads and sends nothing. A reload stops calls for as long. */
const createTimeoutMs = 3_000

/** What create() of a plugin returned, as a stage. The types promise it, but not for a plugin written in JavaScript. */
const toStage = (created: Handler<never, never> | AnyStage | undefined): AnyStage => {
  if (typeof created === 'function') return { handle: created }
  if (typeof created?.handle === 'function') return created
  if (!(created instanceof Promise)) throw misconfigured([], 'create() must return a handler, or a stage with `handle`')
  created.catch(() => undefined)
  throw misconfigured([], 'create() must not be async: it returns a handler; what takes time belongs into start()')
}

/** admit() gets a caller, and would know more of it than may be known below a plugin that shares answers. */
const refuseAdmit = ({ admit }: AnyStage, sharer: Step): void => {
  if (admit !== undefined) throw misconfigured([], `admit() must not be below ${sharer.name}, which shares answers between callers`)
}

/** What a pipeline consists of. */
interface PipelineParts extends Pick<Services, 'describeMethods' | 'priceOf'>, Pick<Network, 'offers'> {
  readonly stages: readonly PipelineStage[]
  readonly heads: Heads
  readonly singletons: SingletonReferences
}

const assembleNetwork = (config: NetworkConfig, host: HostServices, parts: PipelineParts): Network => {
  const { stages, heads, offers, describeMethods, priceOf } = parts
  const { name, hosts, methods } = config
  const inFlight = new InFlight()
  const { tracing } = host
  const composed = composeHandlers(stages, host.log, (plugin, handle) => tracing?.traceStage(plugin, handle) ?? handle)
  const verifies = config.steps.some(({ plugin }) => plugin.verifies === true)
  const run = withCallMetrics(composed, { network: name, methods: methods.entries, inFlight, verifies, ...host })
  return {
    name,
    hosts,
    heads,
    run: tracing?.traceCalls(run, name, methods.entries) ?? run,
    admit: composeAdmission(stages, inFlight),
    whenIdle: () => inFlight.whenIdle(),
    describeMethods,
    offers,
    events: eventRulesOf(stages),
    explain: call => explainStages(stages, call, { network: name, priceOf }),
    start: () => startStages(name, stages),
    stop: () => stopParts(name, parts, host.log),
  }
}

const startStages = async (network: string, stages: readonly PipelineStage[]): Promise<void> => {
  for (const { step, stage } of stages.toReversed()) {
    try {
      await stage.start?.()
    } catch (error) {
      const reason = error instanceof PluginFault ? error.description : String(error)
      throw new StageStartError(`network ${network}: ${step.name} did not start: ${reason}`, { cause: error })
    }
  }
}

const stopParts = async (network: string, { stages, singletons }: PipelineParts, log: Log): Promise<void> => {
  const stopPart = async (part: string, stop: () => Promise<void> | undefined): Promise<void> => {
    try {
      await stop()
    } catch (error) {
      log.error({ network, err: error }, `${part} did not stop`)
    }
  }
  for (const { step, stage } of stages) await stopPart(step.name, () => stage.stop?.())
  await stopPart('a singleton', () => singletons.release())
}

/** The series of the network are removed with its last pipeline. Held first, so that they are released last. */
const holdSeries = ({ name: network }: NetworkConfig, { metrics }: HostServices, singletons: SingletonReferences): void => {
  singletons.get(`${network}.series`, null, () => ({ close: () => metrics.removeSeries({ network }) }))
}

/** Shared by all pipelines of the network. */
const openNetworkHeads = (config: NetworkConfig, host: HostServices, singletons: SingletonReferences): Heads => {
  const { name, methods } = config
  const { headsSource, nodeStatuses, clock, log, metrics } = host
  const chain = chainSettingsOf(config)
  return singletons.get(`${name}.heads`, chain, () =>
    headsSource.open(name, {
      ...chain,
      upstreamClient: host.upstreamClientOf(name),
      errorCategory: methods.errorCategory,
      nodes: nodeStatuses.of(name),
      clock,
      log: log.child({ network: name }),
      metrics: withLabels(metrics, { network: name }),
    }),
  )
}
