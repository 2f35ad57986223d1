import type { Call, ContextKey, Origin } from '../plugin/call.ts'
import type { NetworkConfig, Step } from '../config/types.ts'
import type { Problem } from '../config/problem.ts'
import { ChunkedBytes } from '../json/chunked-bytes.ts'
import { composeHandlers } from './pipeline.ts'
import type { AnyHandler } from './pipeline.ts'
import { Misconfigured, misconfigured } from '../plugin/plugin.ts'
import type { Next, Stage } from '../plugin/plugin.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import type { Heads, HeadsSource } from '../services/chain-heads/index.ts'
import type { SingletonReferences, Singletons } from './singletons.ts'
import { openMethodTable } from '../services/method-table/compile-table.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import { withLabels } from '../services/metrics.ts'
import type { Counter, Metrics } from '../services/metrics.ts'
import type { Services } from '../services/index.ts'
import { getOrCreate } from '../util/get-or-create.ts'

/** What a network needs of its host; the rest of `Services` is its own. */
export interface HostServices extends Omit<Services, 'network' | 'methods' | 'heads' | 'metrics' | 'singleton' | 'vary'> {
  readonly metrics: Metrics
  readonly singletons: Singletons
  readonly headsSource: HeadsSource
  readonly version: string
}

/** A network that answers. */
export interface Network {
  readonly name: string
  readonly hosts: readonly string[]
  /** Asks each stage in order; the first failure is the whole answer. Mostly known at once, without a promise. */
  admit(origin: Origin): Failure | undefined | Promise<Failure | undefined>
  readonly run: Next
  readonly heads: Heads
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

type AnyStage = Stage<never, never>

/**
 * Creates every stage. What stages refuse to be created with comes back as problems at their places; then the stages that
 * were created have been stopped, and the singletons that they used released.
 */
export const buildNetwork = async (
  config: NetworkConfig,
  host: HostServices,
): Promise<{ readonly network?: Network; readonly problems: readonly Problem[] }> => {
  const problems: Problem[] = []
  const stages: AnyStage[] = []
  const singletons = host.singletons.newReferences()
  const heads = openNetworkHeads(config, host, singletons)
  const servicesOf = stageServices(config, host, { heads, singletons })
  for (const [i, step] of config.steps.entries()) {
    try {
      stages.push(toStage(step.plugin.create(step.options as never, servicesOf(step, i)))) // the loader checked them against its schema
    } catch (error) {
      const issues = error instanceof Misconfigured ? error.issues : [{ path: [], message: `cannot be created: ${String(error)}` }]
      problems.push(...issues.map(fault => step.problemAt(fault.path, `${step.name}: ${fault.message}`)))
    }
  }
  const network = assembleNetwork(config, host, { stages, heads, singletons })
  if (problems.length === 0) return { network, problems }
  await network.stop()
  return { problems }
}

/** What a pipeline consists of. */
interface PipelineParts {
  readonly stages: readonly AnyStage[]
  readonly heads: Heads
  readonly singletons: SingletonReferences
}

/** The services of each stage. Plugins get these and nothing else of the host, not even what their types would hide. */
const stageServices = (
  config: NetworkConfig,
  host: HostServices,
  { heads, singletons }: Omit<PipelineParts, 'stages'>,
): ((step: Step, i: number) => Services) => {
  const { singletons: _, headsSource: __, version, ...hostServices } = host
  const { name, chainId, blockTime, steps } = config
  const shared = {
    ...hostServices,
    network: { name, chainId, blockTime },
    methods: openMethodTable(config.methods, { name, chainId, version }),
    heads,
    metrics: withLabels(host.metrics, { network: name }),
  }
  return (step, i) => ({
    ...shared,
    log: host.log.child({ network: name, plugin: step.name }),
    // What is known of one chain must not be found by another. Names of steps are unique within a pipeline.
    singleton: (singletonName, settings, make) =>
      singletons.get(`${name}.${step.name}.${singletonName}`, [chainId, blockTime, settings], make),
    vary: varyBelow(steps.slice(i + 1)),
  })
}

const assembleNetwork = (config: NetworkConfig, host: HostServices, { stages, heads, singletons }: PipelineParts): Network => {
  const stopPart = async (part: string, stop: () => Promise<void> | undefined): Promise<void> => {
    try {
      await stop()
    } catch (error) {
      host.log.error({ network: config.name, err: error }, `${part} did not stop`)
    }
  }
  return {
    name: config.name,
    hosts: config.hosts,
    heads,
    run: withCallMetrics(composeHandlers(stages.map(stage => stage.handle.bind(stage))), config, host),
    admit: admitSequentially(stages.flatMap(stage => stage.admit?.bind(stage) ?? [])),
    async start() {
      for (const [i, stage] of [...stages.entries()].toReversed()) {
        try {
          await stage.start?.()
        } catch (error) {
          throw new StageStartError(`network ${config.name}: ${config.steps[i]?.name} did not start: ${String(error)}`, { cause: error })
        }
      }
    },
    async stop() {
      for (const stage of stages) await stopPart('a stage', () => stage.stop?.())
      await stopPart('a singleton', () => singletons.release())
    },
  }
}

/** Shared by all pipelines of the network. */
const openNetworkHeads = ({ name, chainId, blockTime }: NetworkConfig, host: HostServices, singletons: SingletonReferences): Heads => {
  const { headsSource, upstreamClient, clock, log, metrics } = host
  return singletons.get(`${name}.heads`, { chainId, blockTime }, () =>
    headsSource.open(name, {
      chainId,
      blockTime,
      upstreamClient,
      clock,
      log: log.child({ network: name }),
      metrics: withLabels(metrics, { network: name }),
    }),
  )
}

type AdmissionCheck = NonNullable<AnyStage['admit']>

const admitSequentially = (checks: readonly AdmissionCheck[]): AdmissionCheck => {
  const admitFrom = (origin: Origin, i: number): ReturnType<AdmissionCheck> => {
    const failure = checks[i]?.(origin)
    if (failure instanceof Promise) return failure.then(found => found ?? admitFrom(origin, i + 1))
    return failure ?? (i + 1 < checks.length ? admitFrom(origin, i + 1) : undefined)
  }
  return origin => admitFrom(origin, 0)
}

/** The types say it already, but not to a plugin written in JavaScript. */
const toStage = (created: AnyHandler | AnyStage | undefined): AnyStage => {
  if (typeof created === 'function') return { handle: created }
  if (typeof created?.handle === 'function') return created
  if (!(created instanceof Promise)) throw misconfigured([], 'create() must return a handler, or a stage with `handle`')
  created.catch(() => undefined)
  throw misconfigured([], 'create() must not be async: it returns a handler; what takes time belongs into start()')
}

const varyBelow = (steps: readonly Step[]): Services['vary'] => {
  const varying = steps.filter(step => step.plugin.vary !== undefined)
  // Each plugin sees the context that it reads; the loader has proved that it is written by now.
  const varyTextOf = ({ plugin, options }: Step, call: Call): string =>
    plugin.vary?.(call.context as Pick<never, ContextKey & never>, options as never, call.origin) ?? ''
  const [only] = varying
  if (only === undefined) return () => ''
  if (varying.length === 1) return (call: Call) => varyTextOf(only, call)
  // JSON, because the texts may hold anything that callers send: a separator would not tell where a text ends.
  return (call: Call) => JSON.stringify(varying.map(step => varyTextOf(step, call)))
}

/** Counts each call by method and outcome, and its time. Methods that are not in the table count as `other`. */
const withCallMetrics = (run: Next, config: NetworkConfig, { metrics, clock }: HostServices): Next => {
  const network = config.name
  const callDuration = metrics.histogram(metricDefinitions.callDuration, { network })
  const methodNames = new Set(config.methods.names)
  const counters = new Map<string, Map<string, Counter>>()
  const counterOf = (name: string, outcome: string): Counter => {
    const method = methodNames.has(name) ? name : 'other'
    const countersOfMethod = getOrCreate(counters, method, () => new Map<string, Counter>())
    return getOrCreate(countersOfMethod, outcome, () => metrics.counter(metricDefinitions.calls, { network, method, outcome }))
  }
  return async call => {
    const startedAt = clock.monotonic()
    let outcome = 'internal' // of a call that dies of a bug
    try {
      const reply = await run(call)
      if (!isReply(reply)) throw new TypeError('a plugin returned neither a result in bytes nor a failure')
      outcome = outcomeOf(reply)
      return reply
    } finally {
      counterOf(methodOf(call), outcome).add()
      callDuration.observe((clock.monotonic() - startedAt) / 1000)
    }
  }
}

/** The types say so already, but not to a plugin written in JavaScript. */
const isReply = (reply: Reply | undefined): boolean =>
  reply instanceof Object && (isFailure(reply) || reply.result instanceof Uint8Array || reply.result instanceof ChunkedBytes)

const methodOf = ({ message }: Call): string =>
  typeof message === 'object' && message !== null && 'method' in message && typeof message.method === 'string' ? message.method : 'other'

const outcomeOf = (reply: Reply): string => (isFailure(reply) ? reply.kind : 'ok')
