import { memoryOf, withoutMemory } from '../json/chunked-bytes.ts'
import type { Call } from '../plugin/call.ts'
import { directStage } from '../plugin/direct-stage.ts'
import type { DirectNext } from '../plugin/direct-stage.ts'
import type { RefusalKind } from '../plugin/error-table.ts'
import { PluginFault } from '../plugin/plugin-fault.ts'
import type { Next } from '../plugin/plugin.ts'
import { copyReply, isCharged, isFailure, withSameText } from '../plugin/reply.ts'
import type { Charge, Failure, Reply } from '../plugin/reply.ts'
import type { EventRules } from '../services/index.ts'
import { isReply } from './call-metrics.ts'
import { EndOfPipelineError } from './pipeline.ts'
import type { AnyStage } from './pipeline.ts'
import type { DeclaredContext } from './declared-context.ts'
import type { PluginCall, PluginCalls, WatchedPlugin } from './plugin-calls.ts'

/**
 * The stage of an external plugin. Its bugs are thrown as PluginFault, which names it; what the stages below throw is not its bug. The
 * replies from below are settled and refunded where the caller gets another one. All else that the contract asks of a plugin is for its tests
 * (contractTests of `tollgate/testing`). Takes 1 us per call, which calls through built-in plugins alone do not spend:
 * 0.3 of it is the clock.
 */
export const guardStage = (stage: AnyStage, bugs: StageBugs, declared?: DeclaredContext): AnyStage =>
  directStage<never, never>({
    async handle(call, next) {
      const below = new RepliesFromBelow()
      const watched = bugs.newCall()
      try {
        const given = declared === undefined ? call : declared.hide(call)
        const restore = declared && ((passed: Call) => declared.restore(passed, given, call))
        const answer = bugs.run(() => stage.handle(given, bugs.guardNext(next, below, watched, restore)))
        return below.replaceBy(assertReply(await (answer instanceof Promise ? watched.wait(answer, dropReply) : answer)))
      } catch (bug) {
        below.fail()
        throw bugs.toFault(bug)
      }
    },
    ...(stage.passes && {
      passes: (context, variant) => bugs.guard(() => stage.passes?.(declared?.hideContext(context) ?? context, variant) === true),
    }),
    ...(stage.admit && { admit: origin => bugs.guard(() => stage.admit?.(origin)) }),
    ...(stage.offers && { offers: (method, context) => bugs.guard(() => stage.offers?.(method, context) ?? true) }),
    ...(stage.describeMethods && { describeMethods: methods => bugs.guard(() => stage.describeMethods?.(methods) ?? methods) }),
    ...(stage.priceOf && {
      priceOf: (credits, context, origin, result) => bugs.guard(() => stage.priceOf?.(credits, context, origin, result) ?? credits),
    }),
    ...(stage.events && { events: guardEvents(bugs, stage.events) }),
    ...(stage.explain && { explain: call => bugs.guard(() => stage.explain?.(call) ?? { text: [] }) }),
    ...(stage.start && { start: () => bugs.guard(async () => stage.start?.()) }),
    ...(stage.stop && { stop: () => bugs.guard(async () => stage.stop?.()) }),
  })

const guardEvents = (bugs: StageBugs, events: Partial<EventRules>): Partial<EventRules> => {
  const { refuse, charge, costOf, verifyLogs, logsVerifiedBy, priceOfLogs } = events
  return {
    ...(refuse && { refuse: (key, origin) => bugs.guard(() => refuse(key, origin)) }),
    ...(charge && { charge: (payer, credits) => bugs.guard(() => charge(payer, credits)) }),
    ...(costOf && { costOf: kind => bugs.guard(() => costOf(kind)) }),
    ...(verifyLogs && { verifyLogs: block => bugs.guard(() => verifyLogs(block)) }),
    ...(logsVerifiedBy && { logsVerifiedBy: () => bugs.guard(logsVerifiedBy) }),
    ...(priceOfLogs && { priceOfLogs: credits => bugs.guard(() => priceOfLogs(credits)) }),
  }
}

const dropReply = (reply: Reply | undefined): void => reply?.onSettled?.(false)

/** Tells the bugs of one stage from those of the stages below. */
export class StageBugs {
  readonly #plugin: WatchedPlugin
  readonly #calls: PluginCalls
  readonly #fromBelow = new WeakSet<Error>()

  constructor(plugin: WatchedPlugin, calls: PluginCalls) {
    this.#plugin = plugin
    this.#calls = calls
  }

  toFault(bug: unknown): unknown {
    const isElsewhere = bug instanceof Error && (bug instanceof PluginFault || this.#fromBelow.has(bug))
    return isElsewhere ? bug : new PluginFault(this.#plugin, bug)
  }

  newCall(): PluginCall {
    return this.#calls.newCall(this.#plugin)
  }

  /** Runs a function of the plugin, whose bugs are thrown as they are. */
  run<T>(run: () => T): T {
    return this.#calls.run(this.#plugin, run)
  }

  /** Runs a function that may be async. */
  guard<T>(run: () => T): T {
    try {
      const returned = this.run(run)
      const guarded = returned instanceof Promise ? returned.catch((bug: unknown) => Promise.reject(this.toFault(bug))) : returned
      return guarded as T // a promise of the same
    } catch (bug) {
      throw this.toFault(bug)
    }
  }

  guardNext(next: DirectNext, below: RepliesFromBelow, watched: PluginCall, restore?: (passed: Call) => Call): Next {
    return passed => {
      assertCall(passed)
      const call = restore === undefined ? passed : restore(passed)
      watched.beginBelow()
      const reply = this.#runBelow(next, call, below)
      const end = () => watched.endBelow()
      // Also where the plugin does not await it: a plugin need not know what it does not want to know.
      reply.then(end, end)
      return reply
    }
  }

  async #runBelow(next: DirectNext, call: Call, below: RepliesFromBelow): Promise<Reply> {
    try {
      return below.add(await this.#calls.run(undefined, () => next(call)))
    } catch (bug) {
      if (bug instanceof Error && !(bug instanceof EndOfPipelineError)) this.#fromBelow.add(bug)
      throw bug
    }
  }
}

/** The replies that a plugin gets from the plugins below for one call, which are charged and settled as its own reply is. */
export class RepliesFromBelow {
  #latest: Reply | undefined
  /** The latest as the plugin has got it. */
  #given: Reply | undefined
  /** Of all replies: a plugin that repeats may get several. */
  readonly #charges: Charge[] = []
  #refundedAs: RefusalKind | undefined
  /** A reply that comes now is delivered to nobody. */
  #hasEnded = false

  /** The reply for the plugin, which may keep it. */
  add(reply: Reply): Reply {
    if (reply !== this.#latest) this.#latest?.onSettled?.(false)
    this.#latest = reply
    if (reply.charge !== undefined) this.#charges.push(reply.charge)
    if (this.#refundedAs !== undefined) this.#refund(this.#refundedAs) // the plugin did not wait for this reply
    if (this.#hasEnded) reply.onSettled?.(false)
    this.#given = leaveToCollector(reply)
    return this.#given
  }

  /**
   * The caller gets this reply of the plugin. What those from below cost is refunded if it is a refusal that is free. A result counts as made of
   * the latest of them: its delivery is that of both.
   */
  replaceBy(reply: Reply): Reply {
    this.#hasEnded = true
    if (reply === this.#given) return reply
    if (isFailure(reply) && reply.kind !== 'node' && !isCharged(reply)) this.#refund(reply.kind)
    const onSettled = this.#latest?.onSettled
    if (onSettled === undefined || reply.onSettled === onSettled) return reply
    if (reply.onSettled === undefined && !isFailure(reply)) return copyReply<Reply>(reply, { onSettled })
    onSettled(false)
    return reply
  }

  /** The plugin has thrown: the caller gets an internal error. */
  fail(): void {
    this.#hasEnded = true
    this.#refund('internal')
    this.#latest?.onSettled?.(false)
  }

  /** `outcome` is what the caller gets in place of the replies from below. */
  #refund(outcome: RefusalKind): void {
    this.#refundedAs = outcome
    for (const charge of this.#charges) charge.refund(outcome)
  }
}

/** The reply for a plugin, which may keep its result. */
const leaveToCollector = (reply: Reply): Reply =>
  isFailure(reply) || memoryOf(reply.result) === undefined ? reply : withSameText(reply, withoutMemory(reply.result))

/** For a plugin in JavaScript that forgets to return, or writes a failure itself: what comes of that would be an error of the gateway. */
const assertReply = (reply: Reply | undefined): Reply => {
  if (reply !== undefined && isReply(reply) && typeof reply.source === 'string' && (!isFailure(reply) || isWholeFailure(reply)))
    return reply
  throw new TypeError('the handler returned neither a result in bytes with its source, nor a failure as refuse() makes it')
}

const isWholeFailure = ({ error, status, kind }: Partial<Failure>): boolean =>
  Number.isInteger(error?.code) && typeof error?.message === 'string' && Number.isInteger(status) && typeof kind === 'string'

/** For one that calls `next()` as in Koa: what comes of no call would be an error of the plugin below. */
const assertCall = (call: Call | undefined): void => {
  if (!(call instanceof Object)) throw new TypeError('next() needs the call, or a changed copy of it')
}
