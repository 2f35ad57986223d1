import type { Call, Json, Request } from '../plugin/call.ts'
import { PluginFault } from '../plugin/plugin-fault.ts'
import { directStage } from '../plugin/plugin.ts'
import type { DirectNext, Next } from '../plugin/plugin.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import { isReply } from './call-metrics.ts'
import { EndOfPipelineError } from './pipeline.ts'
import { freezeRequest, freezeChangedRequest, protectReply, detachReply } from './plugin-boundary.ts'
import type { AnyStage } from './pipeline.ts'
import type { Step } from '../config/types.ts'
import type { EventRules, Services } from '../services/index.ts'
import type { Log } from '../services/log.ts'
import type { Timer } from '../services/clock.ts'

/** The step of an external plugin. */
export type ExternalStep = Pick<Step, 'name' | 'plugin'> & Required<Pick<Step, 'file'>>

/**
 * The stage of an external plugin, held to what its plugin promises. Its bugs are thrown as PluginFault; what the stages below
 * throw is not its bug. What belongs to other callers too it cannot change. Takes 0.7 us per call, which calls through built-in plugins
 * alone do not spend.
 */
export const guardStage = (stage: AnyStage, step: ExternalStep, { log, clock }: GuardServices): AnyStage => {
  const bugs = new StageBugs(step)
  const warn = warnOnce(log, step.name)
  const pending = new PendingCalls(step, { log, clock })
  const limitNext = (next: DirectNext): DirectNext => (step.plugin.repeats ? next : answerOnce(next, warn))
  return directStage<never, never>({
    async handle(call, next) {
      const pendingCall = pending.add(call)
      const request = freezeRequest(call)
      try {
        const reply = assertReply(await stage.handle(call, bugs.guardNext(limitNext(next), request, pendingCall)))
        return pendingCall.originalOf(reply) ?? detachReply(reply)
      } catch (bug) {
        throw bugs.toFault(bug)
      } finally {
        pending.delete(pendingCall)
      }
    },
    ...(stage.admit && { admit: origin => bugs.guard(() => stage.admit?.(origin)) }),
    ...(stage.offers && { offers: (method, context) => bugs.guard(() => stage.offers?.(method, context) ?? true) }),
    ...(stage.describeMethods && { describeMethods: methods => bugs.guard(() => stage.describeMethods?.(methods) ?? methods) }),
    ...(stage.events && { events: guardEvents(bugs, stage.events) }),
    ...(stage.explain && { explain: call => bugs.guard(() => stage.explain?.(call) ?? { text: [] }) }),
    async start() {
      pending.watch()
      await bugs.guard(() => stage.start?.())
    },
    async stop() {
      pending.unwatch()
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

  guardNext(next: DirectNext, given: Request | Json, pendingCall: PendingCall): Next {
    return call => {
      assertCall(call)
      freezeChangedRequest(call, given)
      const reply = this.#runBelow(next, call, pendingCall)
      // A plugin need not await what it does not want to know.
      reply.catch(ignore)
      return reply
    }
  }

  async #runBelow(next: DirectNext, call: Call, pendingCall: PendingCall): Promise<Reply> {
    pendingCall.enterNext()
    try {
      return pendingCall.protect(await next(call))
    } catch (bug) {
      this.#recordFromBelow(bug)
      throw bug
    } finally {
      pendingCall.leaveNext()
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

const sweepIntervalMs = 10_000

/** A plugin that has had a call for so many sweeps, 20 to 30 s, is reported. */
const maxSweeps = 3

/** A call that a plugin has, and whether it waits for the plugins below. A link of a list: to add it to a Set and delete it takes 0.15 us. */
class PendingCall {
  readonly requestId: string
  previous: PendingCall = this
  following: PendingCall = this
  /** Sweeps that found the call with the plugin itself. */
  sweeps = 0
  #inNext = 0
  #protected: Reply | undefined
  #original: Reply | undefined

  constructor(requestId: string) {
    this.requestId = requestId
  }

  get isBelow(): boolean {
    return this.#inNext > 0
  }

  /** The latest reply of the plugins below, for the plugin. */
  protect(reply: Reply): Reply {
    this.#original = reply
    this.#protected = protectReply(reply)
    return this.#protected
  }

  /** The reply that was protected for the plugin, if the plugin returns just that. */
  originalOf(reply: Reply): Reply | undefined {
    return reply === this.#protected ? this.#original : undefined
  }

  enterNext(): void {
    this.#inNext += 1
  }

  leaveNext(): void {
    this.#inNext -= 1
    this.sweeps = 0
  }
}

/** The calls that an external plugin has. Names the plugin in the log when it never answers a call: nothing else would tell who has it. */
class PendingCalls {
  readonly #step: Pick<Step, 'name' | 'file'>
  readonly #services: Pick<Services, 'log' | 'clock'>
  /** In front of the newest call, and behind the oldest. */
  readonly #end = new PendingCall('')
  #timer: Timer | undefined

  constructor(step: Pick<Step, 'name' | 'file'>, services: Pick<Services, 'log' | 'clock'>) {
    this.#step = step
    this.#services = services
  }

  add({ origin }: Call): PendingCall {
    const call = new PendingCall(origin.requestId)
    call.previous = this.#end
    call.following = this.#end.following
    this.#end.following.previous = call
    this.#end.following = call
    return call
  }

  delete({ previous, following }: PendingCall): void {
    previous.following = following
    following.previous = previous
  }

  watch(): void {
    this.#timer ??= this.#services.clock.every(sweepIntervalMs, () => this.#sweep())
  }

  unwatch(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Each call is reported once, and in one line with the others of its sweep. */
  #sweep(): void {
    let [overdueCount, oldestRequestId] = [0, '']
    for (let call = this.#end.previous; call !== this.#end; call = call.previous) {
      if (call.isBelow || (call.sweeps += 1) !== maxSweeps) continue
      overdueCount += 1
      oldestRequestId ||= call.requestId
    }
    if (overdueCount === 0) return
    const { name, file } = this.#step
    const fields = { plugin: name, location: file?.shownAs, calls: overdueCount, requestId: oldestRequestId }
    this.#services.log.error(fields, 'plugin has not answered calls for more than 20 s')
  }
}
