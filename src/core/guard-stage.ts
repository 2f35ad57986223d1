import type { Call, Json, Request } from '../plugin/call.ts'
import { PluginFault } from '../plugin/plugin-fault.ts'
import { directStage } from '../plugin/direct-stage.ts'
import type { DirectNext } from '../plugin/direct-stage.ts'
import type { Next } from '../plugin/plugin.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import { isReply } from './call-metrics.ts'
import { EndOfPipelineError } from './pipeline.ts'
import { PluginCalls } from './plugin-calls.ts'
import type { PluginCall } from './plugin-calls.ts'
import type { AnyStage } from './pipeline.ts'
import { freezeRequest, freezeChangedRequest, detachReply } from './plugin-boundary.ts'
import type { Step } from '../config/types.ts'
import type { EventRules, Services } from '../services/index.ts'
import type { Log } from '../services/log.ts'

/** The step of an external plugin. */
type ExternalStep = Pick<Step, 'name' | 'plugin'> & Required<Pick<Step, 'file'>>

/**
 * The stage of an external plugin, held to what its plugin promises. Its bugs are thrown as PluginFault; what the stages below
 * throw is not its bug. What belongs to other callers too it cannot change. Takes 0.7 us per call, which calls through built-in plugins
 * alone do not spend.
 */
export const guardStage = (stage: AnyStage, step: ExternalStep, { log, clock }: GuardServices): AnyStage => {
  const bugs = new StageBugs(step)
  const warn = warnOnce(log, step.name)
  const pluginCalls = new PluginCalls(step, { log, clock })
  const limitNext = (next: DirectNext): DirectNext => (step.plugin.repeats ? next : answerOnce(next, warn))
  return directStage<never, never>({
    async handle(call, next) {
      const pluginCall = pluginCalls.add(call)
      const request = freezeRequest(call)
      try {
        const reply = assertReply(await stage.handle(call, bugs.guardNext(limitNext(next), request, pluginCall)))
        return pluginCall.originalOf(reply) ?? pluginCall.replace(detachReply(reply))
      } catch (bug) {
        pluginCall.fail()
        throw bugs.toFault(bug)
      } finally {
        pluginCalls.delete(pluginCall)
      }
    },
    ...(stage.admit && { admit: origin => bugs.guard(() => stage.admit?.(origin)) }),
    ...(stage.offers && { offers: (method, context) => bugs.guard(() => stage.offers?.(method, context) ?? true) }),
    ...(stage.describeMethods && { describeMethods: methods => bugs.guard(() => stage.describeMethods?.(methods) ?? methods) }),
    ...(stage.events && { events: guardEvents(bugs, stage.events) }),
    ...(stage.explain && { explain: call => bugs.guard(() => stage.explain?.(call) ?? { text: [] }) }),
    async start() {
      pluginCalls.watch()
      await bugs.guard(() => stage.start?.())
    },
    async stop() {
      pluginCalls.unwatch()
      await bugs.guard(() => stage.stop?.())
    },
  })
}

const guardEvents = (bugs: StageBugs, { refuse, charge }: Partial<EventRules>): Partial<EventRules> => ({
  ...(refuse && { refuse: (key, origin) => bugs.guard(() => refuse(key, origin)) }),
  ...(charge && { charge: (payer, credits) => bugs.guard(() => charge(payer, credits)) }),
})

type GuardServices = Pick<Services, 'log' | 'clock'>

const ignore = (): void => undefined

/** Tells the bugs of one stage from those of the stages below. */
class StageBugs {
  readonly #step: ExternalStep
  readonly #fromBelow = new WeakSet<Error>()

  constructor(step: ExternalStep) {
    this.#step = step
  }

  toFault(bug: unknown): unknown {
    const isElsewhere = bug instanceof Error && (bug instanceof PluginFault || this.#fromBelow.has(bug))
    return isElsewhere ? bug : new PluginFault(this.#step.name, this.#step.file, bug)
  }

  /** Runs a function that may be async. */
  guard<T>(run: () => T): T {
    try {
      const returned = run()
      const guarded = returned instanceof Promise ? returned.catch((bug: unknown) => Promise.reject(this.toFault(bug))) : returned
      return guarded as T // a promise of the same
    } catch (bug) {
      throw this.toFault(bug)
    }
  }

  guardNext(next: DirectNext, given: Request | Json, pluginCall: PluginCall): Next {
    return call => {
      assertCall(call)
      freezeChangedRequest(call, given)
      const reply = this.#runBelow(next, call, pluginCall)
      // A plugin need not await what it does not want to know.
      reply.catch(ignore)
      return reply
    }
  }

  async #runBelow(next: DirectNext, call: Call, pluginCall: PluginCall): Promise<Reply> {
    pluginCall.enterNext()
    try {
      return pluginCall.protect(await next(call))
    } catch (bug) {
      this.#recordFromBelow(bug)
      throw bug
    } finally {
      pluginCall.leaveNext()
    }
  }

  #recordFromBelow(bug: unknown): void {
    if (bug instanceof Error && !(bug instanceof EndOfPipelineError)) this.#fromBelow.add(bug)
  }
}

/** For one call of a plugin that has not declared `repeats`: a second next() returns the first reply, so that the call is charged once. */
const answerOnce = (next: DirectNext, warn: () => void): DirectNext => {
  let reply: Promise<Reply> | undefined
  // A bug that is thrown at once is an answer, too.
  const run = async (call: Call): Promise<Reply> => next(call)
  return call => {
    if (reply !== undefined) warn()
    return (reply ??= run(call))
  }
}

const warnOnce = (log: Log, name: string): (() => void) => {
  let hasWarned = false
  return () => {
    if (!hasWarned) log.warn({ plugin: name }, 'plugin called next() again for a call, and got the first reply: `repeats: true` is missing')
    hasWarned = true
  }
}

const assertReply = (reply: Reply | undefined): Reply => {
  if (reply !== undefined && isReply(reply) && typeof reply.source === 'string' && (!isFailure(reply) || isWholeFailure(reply)))
    return reply
  throw new TypeError('the handler returned neither a result in bytes with its source, nor a failure as refuse() makes it')
}

const isWholeFailure = ({ error, status, kind }: Partial<Failure>): boolean =>
  Number.isInteger(error?.code) && typeof error?.message === 'string' && Number.isInteger(status) && typeof kind === 'string'

/** The types promise it, but not for a plugin written in JavaScript. */
const assertCall = (call: Partial<Call> | undefined): void => {
  if (!(call?.context instanceof Object && call.origin instanceof Object))
    throw new TypeError('next() needs the call, or a changed copy of it')
}
