import type { Call } from '../plugin/call.ts'
import type { RefusalKind } from '../plugin/error-table.ts'
import { copyReply, isCharged, isFailure } from '../plugin/reply.ts'
import type { Charge, Reply } from '../plugin/reply.ts'
import type { Step } from '../config/types.ts'
import type { Timer } from '../services/clock.ts'
import type { Services } from '../services/index.ts'
import { protectReply } from './plugin-boundary.ts'

const sweepIntervalMs = 10_000

/** A plugin that has had a call for so many sweeps, 20 to 30 s, is reported. */
const maxSweeps = 3

/** A call that a plugin has, and whether it waits for the plugins below. A link of a list: to add it to a Set and delete it takes 0.15 us. */
export class PluginCall {
  readonly requestId: string
  previous: PluginCall = this
  following: PluginCall = this
  /** Sweeps that found the call with the plugin itself. */
  sweeps = 0
  #inNext = 0
  #protected: Reply | undefined
  #original: Reply | undefined
  /** Of all replies of the plugins below: a plugin that repeats may get several. */
  readonly #charges: Charge[] = []
  #refundedAs: RefusalKind | undefined
  /** A reply from below that comes now is delivered to nobody. */
  #hasEnded = false

  constructor(requestId: string) {
    this.requestId = requestId
  }

  get isBelow(): boolean {
    return this.#inNext > 0
  }

  /** The latest reply of the plugins below, for the plugin. */
  protect(reply: Reply): Reply {
    if (reply !== this.#original) this.#original?.onSettled?.(false)
    this.#original = reply
    this.#protected = protectReply(reply)
    if (reply.charge !== undefined) this.#charges.push(reply.charge)
    if (this.#refundedAs !== undefined) this.refund(this.#refundedAs) // the plugin did not wait for this reply
    if (this.#hasEnded) reply.onSettled?.(false)
    return this.#protected
  }

  /** The reply that was protected for the plugin, if the plugin returns just that. */
  originalOf(reply: Reply): Reply | undefined {
    return reply === this.#protected ? this.#original : undefined
  }

  /**
   * The caller gets this reply of the plugin in place of those from below. What they cost is refunded if it is a refusal that is free. A
   * result counts as made of the latest of them: its delivery is that of both.
   */
  replace(reply: Reply): Reply {
    if (isFailure(reply) && reply.kind !== 'node' && !isCharged(reply)) this.refund(reply.kind)
    const onSettled = this.#original?.onSettled
    if (onSettled === undefined || reply.onSettled === onSettled) return reply
    if (reply.onSettled === undefined && !isFailure(reply)) return copyReply<Reply>(reply, { onSettled })
    onSettled(false)
    return reply
  }

  /** The plugin has thrown: the caller gets an internal error. */
  fail(): void {
    this.refund('internal')
    this.#original?.onSettled?.(false)
  }

  /** The plugin has the call no longer. */
  end(): void {
    this.#hasEnded = true
  }

  /** `outcome` is what the caller gets in place of the replies from below. */
  refund(outcome: RefusalKind): void {
    this.#refundedAs = outcome
    for (const charge of this.#charges) charge.refund(outcome)
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
export class PluginCalls {
  readonly #step: Pick<Step, 'name' | 'file'>
  readonly #services: Pick<Services, 'log' | 'clock'>
  /** In front of the newest call, and behind the oldest. */
  readonly #end = new PluginCall('')
  #timer: Timer | undefined

  constructor(step: Pick<Step, 'name' | 'file'>, services: Pick<Services, 'log' | 'clock'>) {
    this.#step = step
    this.#services = services
  }

  add({ origin }: Call): PluginCall {
    const call = new PluginCall(origin.requestId)
    call.previous = this.#end
    call.following = this.#end.following
    this.#end.following.previous = call
    this.#end.following = call
    return call
  }

  delete(call: PluginCall): void {
    const { previous, following } = call
    call.end()
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
