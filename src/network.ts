import type { Call, Note, Origin } from './call.ts'
import type { NetworkConfig, Step } from './config/types.ts'
import type { Problem } from './config/problem.ts'
import { Pieces } from './pieces.ts'
import { compile } from './pipeline.ts'
import type { AnyHandler } from './pipeline.ts'
import { Misconfigured, misconfigured } from './plugin.ts'
import type { Next, Stage } from './plugin.ts'
import { isFailure } from './reply.ts'
import type { Failure, Reply } from './reply.ts'
import type { Heads, HeadsSource } from './services/heads/index.ts'
import type { Keeper } from './services/keep.ts'
import { openMethods } from './services/methods/table.ts'
import { labelled } from './services/metrics.ts'
import type { Services } from './services/index.ts'

/** What a network needs of its host; the rest of `Services` is its own. */
export interface Lent extends Omit<Services, 'network' | 'methods' | 'heads' | 'keep' | 'vary'> {
  readonly keeper: Keeper
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
export class StartFault extends Error {}

type AnyStage = Stage<never, never>

/** Creates every stage; what stages refuse to be created with comes back as problems at their places. */
export const buildNetwork = (config: NetworkConfig, lent: Lent): { network?: Network; problems: readonly Problem[] } => {
  const problems: Problem[] = []
  const stages: AnyStage[] = []
  // What plugins are lent is all that they get, also of what their types do not show.
  const { keeper, headsSource: _, version, ...shared } = lent
  const methods = openMethods(config.methods, { name: config.name, chainId: config.chainId, version })
  const heads = keepHeads(config, lent)
  config.steps.forEach((step, i) => {
    const place = `${config.name}.${i + 1}.${step.name}`
    const services: Services = {
      ...shared,
      network: { name: config.name, chainId: config.chainId, blockTime: config.blockTime },
      methods,
      heads,
      log: lent.log.child({ network: config.name, plugin: step.name }),
      metrics: labelled(lent.metrics, { network: config.name }),
      keep: (name, settings, make) => keeper.keep(`${place}.${name}`, settings, make),
      vary: varyBelow(config.steps.slice(i + 1)),
    }
    try {
      stages.push(asStage(step.plugin.create(step.options as never, services))) // the loader checked them against its schema
    } catch (error) {
      const faults = error instanceof Misconfigured ? error.faults : [{ path: [], message: `cannot be created: ${String(error)}` }]
      problems.push(...faults.map(fault => step.problem(fault.path, `${step.name}: ${fault.message}`)))
    }
  })
  return problems.length > 0 ? { problems } : { network: assemble(config, stages, heads, lent), problems }
}

const assemble = (config: NetworkConfig, stages: readonly AnyStage[], heads: Heads, lent: Lent): Network => {
  return {
    name: config.name,
    hosts: config.hosts,
    heads,
    run: tally(compile(stages.map(stage => stage.handle.bind(stage))), config, lent),
    admit: admitInTurn(stages.flatMap(stage => stage.admit?.bind(stage) ?? [])),
    async start() {
      for (const [i, stage] of [...stages.entries()].toReversed()) {
        try {
          await stage.start?.()
        } catch (error) {
          throw new StartFault(`network ${config.name}: ${config.steps[i]?.name} did not start: ${String(error)}`, { cause: error })
        }
      }
    },
    async stop() {
      for (const stage of stages) {
        try {
          await stage.stop?.()
        } catch (error) {
          lent.log.error({ network: config.name, err: error }, 'a stage did not stop')
        }
      }
    },
  }
}

/** One per network, for all its pipelines. */
const keepHeads = ({ name, chainId, blockTime }: NetworkConfig, lent: Lent): Heads => {
  const { keeper, headsSource, agents, clock, log, metrics } = lent
  return keeper.keep(`${name}.heads`, { chainId, blockTime }, () =>
    headsSource.open(name, {
      chainId,
      blockTime,
      agents,
      clock,
      log: log.child({ network: name }),
      metrics: labelled(metrics, { network: name }),
    }),
  )
}

type Admit = NonNullable<AnyStage['admit']>

const admitInTurn = (all: readonly Admit[]): Admit => {
  const ask = (origin: Origin, i: number): ReturnType<Admit> => {
    const failure = all[i]?.(origin)
    if (failure instanceof Promise) return failure.then(found => found ?? ask(origin, i + 1))
    return failure ?? (i + 1 < all.length ? ask(origin, i + 1) : undefined)
  }
  return origin => ask(origin, 0)
}

/** The types say it already, but not to a plugin written in JavaScript. */
const asStage = (made: AnyHandler | AnyStage | undefined): AnyStage => {
  if (typeof made === 'function') return { handle: made }
  if (typeof made?.handle === 'function') return made
  if (!(made instanceof Promise)) throw misconfigured([], 'create() must return a handler, or a stage with `handle`')
  made.catch(() => undefined)
  throw misconfigured([], 'create() must not be async: it returns a handler; what takes time belongs into start()')
}

const varyBelow = (steps: readonly Step[]): Services['vary'] => {
  const varying = steps.filter(step => step.plugin.vary !== undefined)
  // Each plugin sees the notes it reads; the loader has proved that they are written by now.
  const textOf = ({ plugin, options }: Step, call: Call): string =>
    plugin.vary?.(call.notes as Pick<never, Note & never>, options as never, call.origin) ?? ''
  const [only] = varying
  if (only === undefined) return () => ''
  if (varying.length === 1) return (call: Call) => textOf(only, call)
  // Texts may hold whatever callers send: only so is it certain where one ends.
  return (call: Call) => JSON.stringify(varying.map(step => textOf(step, call)))
}

/** Counts each call by method and outcome, and its time. Methods that are not in the table count as `other`. */
const tally = (run: Next, config: NetworkConfig, { metrics, clock }: Lent): Next => {
  const network = config.name
  const time = metrics.histogram('tollgate_call_seconds', 'Time from a call to its reply.', { network })
  const known = new Set(config.methods.names)
  const counters = new Map<string, Map<string, { add(): void }>>()
  const counterOf = (name: string, outcome: string): { add(): void } => {
    const method = known.has(name) ? name : 'other'
    const ofMethod = counters.get(method) ?? new Map<string, { add(): void }>()
    const found = ofMethod.get(outcome)
    if (found !== undefined) return found
    const fresh = metrics.counter('tollgate_calls_total', 'Calls by method and outcome.', { network, method, outcome })
    counters.set(method, ofMethod.set(outcome, fresh))
    return fresh
  }
  return async call => {
    const begun = clock.monotonic()
    let outcome = 'internal' // of a call that dies of a bug
    try {
      const reply = await run(call)
      if (!isReply(reply)) throw new TypeError('a plugin returned neither a result in bytes nor a failure')
      outcome = outcomeOf(reply)
      return reply
    } finally {
      counterOf(methodOf(call), outcome).add()
      time.observe((clock.monotonic() - begun) / 1000)
    }
  }
}

/** The types say so already, but not to a plugin written in JavaScript. */
const isReply = (reply: Reply | undefined): boolean =>
  reply instanceof Object && (isFailure(reply) || reply.result instanceof Uint8Array || reply.result instanceof Pieces)

const methodOf = ({ message }: Call): string =>
  typeof message === 'object' && message !== null && 'method' in message && typeof message.method === 'string' ? message.method : 'other'

const outcomeOf = (reply: Reply): string => (isFailure(reply) ? reply.kind : 'ok')
