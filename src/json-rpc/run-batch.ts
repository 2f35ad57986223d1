import { setImmediate } from 'node:timers/promises'
import type { Signal } from '../plugin/call.ts'
import { isFailure, refuse } from '../plugin/reply.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import type { Clock } from '../services/clock.ts'

export interface BatchLimits {
  /** Most calls of one batch that run at the same time. */
  readonly batchConcurrency: number
  /** Calls of a batch that have not begun after so many ms are refused. */
  readonly batchTimeout: number
  /** Most bytes of the response to a batch. */
  readonly batchReply: number
}

/** One call of a batch that has been handled. */
interface HandledCall {
  readonly reply: Reply
  /** The response; a notification has none. */
  readonly body: { readonly byteLength: number } | undefined
}

export interface BatchOptions<Call, Handled extends HandledCall> {
  readonly limits: BatchLimits
  readonly clock: Pick<Clock, 'monotonic'>
  /** Aborts when the caller has disconnected. */
  readonly signal: Signal
  /** Runs one call; never rejects. */
  handle(call: Call): Promise<Handled>
  /** The call gets the refusal, in place of what has been handled if it has run. */
  replace(call: Call, refusal: Failure, handled?: Handled): Handled
}

/**
 * Runs the calls of a batch, begun in their order, a few at a time. What has been handled comes back in the same order. Once a
 * response does not fit the response to the batch, the calls that have not begun are refused: their responses would take memory
 * for nothing.
 */
export const runBatch = async <Call, Handled extends HandledCall>(
  calls: readonly Call[],
  options: BatchOptions<Call, Handled>,
): Promise<readonly Handled[]> => {
  const batch = new RunningBatch(calls, options)
  const concurrency = Math.min(options.limits.batchConcurrency, calls.length)
  await Promise.all(Array.from({ length: concurrency }, () => batch.runCalls()))
  return batch.handled
}

class RunningBatch<Call, Handled extends HandledCall> {
  readonly handled: Handled[] = []
  readonly #calls: readonly Call[]
  readonly #options: BatchOptions<Call, Handled>
  readonly #deadlineAt: number
  #nextPosition = 0
  #remainingBytes: number
  #isFull = false
  /** Calls of this turn wait for it before they begin. */
  #turn: Promise<unknown> | undefined

  constructor(calls: readonly Call[], options: BatchOptions<Call, Handled>) {
    const { clock, limits } = options
    this.#calls = calls
    this.#options = options
    this.#deadlineAt = clock.monotonic() + limits.batchTimeout
    this.#remainingBytes = limits.batchReply - '['.length
  }

  /** Runs one call after the other, until none is left. */
  async runCalls(): Promise<void> {
    while (this.#nextPosition < this.#calls.length) {
      const position = this.#nextPosition++
      if (position > 0 && position % callsPerTurn === 0) this.#turn = setImmediate()
      if (this.#turn !== undefined) await this.#turn
      this.handled[position] = await this.#run(this.#calls[position]!)
    }
  }

  async #run(call: Call): Promise<Handled> {
    const refusal = this.#refusal()
    if (refusal !== undefined) return this.#options.replace(call, refusal)
    const handled = await this.#options.handle(call)
    if (handled.body === undefined || isRefusal(handled.reply)) return handled
    const byteLength = handled.body.byteLength + ','.length
    this.#isFull ||= byteLength > this.#remainingBytes
    if (byteLength > this.#remainingBytes) return this.#options.replace(call, batchTooLarge, handled)
    this.#remainingBytes -= byteLength
    return handled
  }

  /** Why no further call begins. */
  #refusal(): Failure | undefined {
    const { signal, clock } = this.#options
    if (this.#isFull) return batchTooLarge
    if (signal.aborted) return disconnected
    return clock.monotonic() > this.#deadlineAt ? late : undefined
  }
}

/** No error in place of a refusal would be shorter. */
const isRefusal = (reply: Reply): boolean => isFailure(reply) && reply.source === 'gateway'

/** Calls that one turn of the event loop begins: 64 that the cache answers take 1.5 ms. */
const callsPerTurn = 64

const batchTooLarge = refuse('tooLarge', { source: 'gateway', fault: 'gateway' })

const late = refuse('unavailable', {
  source: 'gateway',
  fault: 'gateway',
  retryAfter: 1,
  message: 'the batch takes too long; send fewer calls in a batch',
})

const disconnected = refuse('unavailable', { source: 'gateway', fault: 'caller', cause: 'client disconnected' })
