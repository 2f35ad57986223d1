import type { Call } from '../plugin/call.ts'
import { PluginFault } from '../plugin/plugin-fault.ts'
import type { Next } from '../plugin/plugin.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import { EndOfPipelineError, isReply } from './pipeline.ts'
import type { AnyStage } from './pipeline.ts'
import type { Step } from '../config/types.ts'
import type { Log } from '../services/log.ts'

/** The step of an external plugin. */
export type ExternalStep = Pick<Step, 'name' | 'plugin'> & Required<Pick<Step, 'file'>>

/**
 * The stage of an external plugin, held to what its plugin promises. Its bugs are thrown as PluginFault; what the stages below
 * throw is not its bug. Takes 0.1 us per call, which calls through built-in plugins alone do not spend.
 */
export const guardStage = (stage: AnyStage, { name, plugin, file }: ExternalStep, log: Log): AnyStage => {
  const bugsFromBelow = new WeakSet<object>()
  const toFault = (bug: unknown): unknown =>
    bug instanceof Error && (bug instanceof PluginFault || bugsFromBelow.has(bug)) ? bug : new PluginFault(name, file, bug)
  const recordBugFromBelow = (bug: unknown): void => {
    if (bug instanceof Error && !(bug instanceof EndOfPipelineError)) bugsFromBelow.add(bug)
  }
  const warn = warnOnce(log, name)
  const limitNext = (next: Next): Next => (plugin.repeats ? next : answerOnce(next, warn))
  const guardNext =
    (next: Next): Next =>
    call => {
      assertCall(call)
      try {
        const reply = next(call)
        reply.catch(recordBugFromBelow)
        return reply
      } catch (bug) {
        recordBugFromBelow(bug)
        throw bug
      }
    }
  /** Of a function that may be async. */
  const guard = <T>(run: () => T): T => {
    try {
      const returned = run()
      const guarded = returned instanceof Promise ? returned.catch((bug: unknown) => Promise.reject(toFault(bug))) : returned
      return guarded as T // a promise of the same
    } catch (bug) {
      throw toFault(bug)
    }
  }
  return {
    async handle(call, next) {
      try {
        return assertReply(await stage.handle(call, guardNext(limitNext(next))))
      } catch (bug) {
        throw toFault(bug)
      }
    },
    ...(stage.admit && { admit: origin => guard(() => stage.admit?.(origin)) }),
    ...(stage.offers && { offers: method => guard(() => stage.offers?.(method) ?? true) }),
    async start() {
      await guard(() => stage.start?.())
    },
    async stop() {
      await guard(() => stage.stop?.())
    },
  }
}

/** For one call of a plugin that has not declared `repeats`: a second next() returns the first reply, so that the call is charged once. */
const answerOnce = (next: Next, warn: () => void): Next => {
  let reply: Promise<Reply> | undefined
  return call => {
    if (reply !== undefined) warn()
    return (reply ??= next(call))
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
