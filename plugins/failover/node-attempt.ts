import type { CallOutcome } from '../../src/plugin/internal.ts'
import { Cancellation, isFailure, refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Reply, Signal, Target } from '../../src/plugin/plugin.ts'

/** A call that may have somewhere else to go. */
export interface MovableCall {
  /** The class of a call that is hedged; undefined for other calls. */
  readonly hedgedClass: string | undefined
  /** Whether the call can go to another node, or to the partner, now. */
  mayMove(): boolean
}

/** A request to one node, which can be given up before it is answered, so that the call goes to another node. */
export class NodeAttempt extends Cancellation {
  readonly #call: MovableCall
  readonly #startedAt: number
  readonly #signal: Signal
  readonly #onAbort = (): void => this.abort()
  #failure: Failure | undefined

  /** `signal` ends the attempt too. */
  constructor(signal: Signal, call: MovableCall, startedAt: number) {
    super()
    this.#call = call
    this.#startedAt = startedAt
    this.#signal = signal
    if (signal.aborted) this.abort()
    else signal.addEventListener('abort', this.#onAbort)
  }

  /** Canceled by the caller, or because another node was faster. */
  get isCanceled(): boolean {
    return this.aborted && this.#failure === undefined
  }

  isOf(call: MovableCall): boolean {
    return this.#call === call
  }

  /** A hedged call of the class, which began before that time. */
  isLate(methodClass: string, lateSince: number): boolean {
    return this.#call.hedgedClass === methodClass && this.#startedAt <= lateSince
  }

  /** Gives the attempt up with this failure, if the call can go to another node. */
  move(failure: Failure): void {
    if (this.aborted || !this.#call.mayMove()) return
    this.#failure = failure
    this.abort()
  }

  /** What the call gets for this reply to the attempt: if the attempt was given up, its failure. */
  replyFor(reply: Reply): Reply {
    return this.#failure !== undefined && isFailure(reply) ? this.#failure : reply
  }

  /** The attempt has ended. */
  end(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
  }
}

/** The node answers this call later than usual: that says nothing about the call. */
interface LateFailure extends Failure {
  readonly isLate: true
}

export const late = ({ source, name: upstream }: Target): LateFailure => ({
  ...refuse('unavailable', { source, upstream, cause: 'upstream response late', retryElsewhere: true }),
  isLate: true,
})

export const isLate = (reply: Reply): reply is LateFailure => 'isLate' in reply

/**
 * Ignored are replies that are no evidence of the health of the node: rate limits, the gateway's own limits, a query that
 * takes too long, a caller who left, errors that callers can cause. If breakers counted those, one caller could open them
 * for everybody.
 */
export const outcomeOf = (reply: Reply): CallOutcome => {
  if (!isFailure(reply)) return reply.unexpectedType === true ? 'ignored' : 'success'
  if (reply.retryElsewhere === true) return 'ignored'
  if (reply.fault === 'upstream') return reply.source === 'gateway' || isRateLimited(reply) ? 'ignored' : 'failure'
  return reply.fault === 'caller' && (reply.kind === 'node' || reply.kind === 'tooMany') ? 'success' : 'ignored'
}

/** By the node itself. */
export const isRateLimited = (reply: Reply): reply is Failure =>
  isFailure(reply) && reply.category === 'rateLimited' && reply.source !== 'gateway'
