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
import type { Singletons } from './singletons.ts'
import { openMethodTable } from '../services/method-table/compile-table.ts'
import { withLabels } from '../services/metrics.ts'
import type { Services } from '../services/index.ts'

/** What a network needs of its host; the rest of `Services` is its own. */
export interface HostServices extends Omit<Services, 'network' | 'methods' | 'heads' | 'singleton' | 'vary'> {
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
  /** Inside out, so that whoever is called is ready first. */
  start(): Promise<void>
  /** Outside in, so that each can finish; safe without start, and twice; one failure does not spare the rest. */
  stop(): Promise<void>
}

/** A stage that cannot serve; the message is for the operator. */
export class StageStartError extends Error {}

type AnyStage = Stage<never, never>

/** Creates every stage; what stages refuse to be created with comes back as problems at their places. */
export const buildNetwork = (config: NetworkConfig, host: HostServices): { network?: Network; problems: readonly Problem[] } => {
  const problems: Problem[] = []
  const stages: AnyStage[] = []
  // What plugins are lent is all that they get, also of what their types do not show.
  const { singletons, headsSource: _, version, ...pluginServices } = host
  const methods = openMethodTable(config.methods, { name: config.name, chainId: config.chainId, version })
  const heads = openNetworkHeads(config, host)
  config.steps.forEach((step, i) => {
    const singletonScope = `${config.name}.${i + 1}.${step.name}`
    const services: Services = {
      ...pluginServices,
      network: { name: config.name, chainId: config.chainId, blockTime: config.blockTime },
      methods,
      heads,
      log: host.log.child({ network: config.name, plugin: step.name }),
      metrics: withLabels(host.metrics, { network: config.name }),
      singleton: (name, settings, make) => singletons.get(`${singletonScope}.${name}`, settings, make),
      vary: varyBelow(config.steps.slice(i + 1)),
    }
    try {
      stages.push(toStage(step.plugin.create(step.options as never, services))) // the loader checked them against its schema
    } catch (error) {
      const issues = error instanceof Misconfigured ? error.issues : [{ path: [], message: `cannot be created: ${String(error)}` }]
      problems.push(...issues.map(fault => step.problemAt(fault.path, `${step.name}: ${fault.message}`)))
    }
  })
  return problems.length > 0 ? { problems } : { network: assembleNetwork(config, stages, heads, host), problems }
}

const assembleNetwork = (config: NetworkConfig, stages: readonly AnyStage[], heads: Heads, host: HostServices): Network => {
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
      for (const stage of stages) {
        try {
          await stage.stop?.()
        } catch (error) {
          host.log.error({ network: config.name, err: error }, 'a stage did not stop')
        }
      }
    },
  }
}

/** One per network, for all its pipelines. */
const openNetworkHeads = ({ name, chainId, blockTime }: NetworkConfig, host: HostServices): Heads => {
  const { singletons, headsSource, upstreamClient, clock, log, metrics } = host
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
  // Each plugin sees the notes it reads; the loader has proved that they are written by now.
  const varyTextOf = ({ plugin, options }: Step, call: Call): string =>
    plugin.vary?.(call.context as Pick<never, ContextKey & never>, options as never, call.origin) ?? ''
  const [only] = varying
  if (only === undefined) return () => ''
  if (varying.length === 1) return (call: Call) => varyTextOf(only, call)
  // Texts may hold whatever callers send: only so is it certain where one ends.
  return (call: Call) => JSON.stringify(varying.map(step => varyTextOf(step, call)))
}

/** Counts each call by method and outcome, and its time. Methods that are not in the table count as `other`. */
const withCallMetrics = (run: Next, config: NetworkConfig, { metrics, clock }: HostServices): Next => {
  const network = config.name
  const callDuration = metrics.histogram('tollgate_call_duration_seconds', 'Time from a call to its reply.', { network })
  const methodNames = new Set(config.methods.names)
  const counters = new Map<string, Map<string, { add(): void }>>()
  const counterOf = (name: string, outcome: string): { add(): void } => {
    const method = methodNames.has(name) ? name : 'other'
    const ofMethod = counters.get(method) ?? new Map<string, { add(): void }>()
    const found = ofMethod.get(outcome)
    if (found !== undefined) return found
    const created = metrics.counter('tollgate_calls_total', 'Calls by method and outcome.', { network, method, outcome })
    counters.set(method, ofMethod.set(outcome, created))
    return created
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
