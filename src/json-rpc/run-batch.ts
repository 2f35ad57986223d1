import type { Signal, Origin } from '../plugin/call.ts'
import { isFailure, refuse } from '../plugin/reply.ts'
import type { Refusal, Reply } from '../plugin/reply.ts'
import type { Clock } from '../services/clock.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import type { MaybePromise } from '../util/async.ts'

export interface BatchLimits {
  /** Most calls of one batch that run at the same time. */
  readonly batchConcurrency: number
  /** Calls of a batch that have not begun after so many ms are refused. */
  readonly batchTimeout: number
  /** Most bytes of the response to a batch. */
  readonly batchReply: number
}

/** 1,000 calls at once would overflow the queue of an upstream. */
export const batchLimits = { batchConcurrency: 64, batchTimeout: 30_000 } as const satisfies Partial<BatchLimits>

/** One call of a batch that has been handled. */
interface HandledCall {
  readonly reply: Reply
  /** The response; a notification has none. */
  readonly body: { readonly byteLength: number } | undefined
}

export type BatchMemory = Pick<CallerMemory, 'owner' | 'reserve' | 'release' | 'reserveCall' | 'releaseCalls'>

/** Shares out the time of the event loop by account; a unit is what a call to a node takes. */
export interface BatchScheduler {
  /** Undefined when work of so many units may begin at once; else it may begin when the promise resolves. */
  enter(owner: string, units: number): Promise<void> | undefined
}

interface BatchOptions<Call, Handled extends HandledCall> {
  readonly limits: BatchLimits
  readonly clock: Pick<Clock, 'monotonic'>
  /** Aborts when the caller has disconnected. */
  readonly signal: Signal
  /** Where the responses are reserved until the last of them is there. */
  readonly memory: BatchMemory
  readonly scheduler: BatchScheduler
  /** Runs one call; never rejects. */
  handle(call: Call): MaybePromise<Handled>
  /** The call gets the refusal, in place of what has been handled if it has run. Never throws. */
  replace(call: Call, refusal: Refusal, handled?: Handled): Handled
}

/**
 * Runs the calls of a batch, begun in their order, as many at a time as the limit and the memory budget allow. What has been handled
 * is set in `handled`, in the same order. Once a response does not fit the response to the batch or the memory budget, the calls that have not
 * begun are refused: their responses would take memory for nothing. Rejects with a bug when the calls that had begun have ended; `handled` then
 * has those.
 */
export const runBatch = async <Call, Handled extends HandledCall>(
  calls: readonly Call[],
  handled: (Handled | undefined)[],
  options: BatchOptions<Call, Handled>,
): Promise<void> => {
  const { limits, memory } = options
  const batch = new RunningBatch(calls, handled, options)
  const concurrency = Math.min(limits.batchConcurrency, calls.length)
  const runs = [batch.runCalls()]
  while (!batch.hasBegunAll && runs.length < concurrency && memory.reserveCall()) runs.push(batch.runCalls())
  await Promise.all(runs)
  // Who sends the response reserves it again in this very turn of the event loop.
  memory.releaseCalls(runs.length - 1)
  memory.release(batch.reservedBytes)
  if (batch.bug !== undefined) throw batch.bug.error
}

class RunningBatch<Call, Handled extends HandledCall> {
  /** Of the responses, in `memory`. */
  reservedBytes = 0
  /** The first that was thrown. No further call begins. */
  bug: { readonly error: unknown } | undefined
  readonly #calls: readonly Call[]
  readonly #handled: (Handled | undefined)[]
  readonly #options: BatchOptions<Call, Handled>
  readonly #deadlineAt: number
  #nextPosition = 0
  #remainingBytes: number
  /** Something did not fit: what the calls get that have not begun. */
  #exhausted: Refusal | undefined
  /** Of calls that have begun, since the last turn. */
  #usedUnits = 0
  /** What all calls that have not begun wait for. */
  #turn: Promise<void> | undefined

  constructor(calls: readonly Call[], handled: (Handled | undefined)[], options: BatchOptions<Call, Handled>) {
    const { clock, limits } = options
    this.#calls = calls
    this.#handled = handled
    this.#options = options
    this.#deadlineAt = clock.monotonic() + limits.batchTimeout
    this.#remainingBytes = limits.batchReply - '['.length
  }

  /** Also when no further call is to begin. */
  get hasBegunAll(): boolean {
    return this.bug !== undefined || this.#nextPosition >= this.#calls.length
  }

  /** Runs one call after the other, until none is left. While others call too, the account takes turns with them. Never rejects. */
  async runCalls(): Promise<void> {
    try {
      await this.#runCalls()
    } catch (error) {
      this.bug ??= { error }
    }
  }

  async #runCalls(): Promise<void> {
    while (!this.hasBegunAll) {
      const turn = this.#nextTurn()
      if (turn !== undefined) {
        await turn
        this.#checkDeadline()
        continue
      }
      const position = this.#nextPosition++
      const call = this.#calls[position]!
      const refusal = this.#refusal()
      if (refusal !== undefined) {
        this.#handled[position] = this.#options.replace(call, refusal)
        continue
      }
      const handling = this.#options.handle(call)
      this.#usedUnits += handling instanceof Promise ? 1 : unitsPerCachedCall + (handling.body?.byteLength ?? 0) / bytesPerUnit
      const handled = handling instanceof Promise ? await handling : handling
      if (handling instanceof Promise) this.#checkDeadline()
      this.#handled[position] = handled
      this.#handled[position] = this.#fit(call, handled)
    }
  }

  /** Undefined when the next call may begin. */
  #nextTurn(): Promise<void> | undefined {
    if (this.#turn === undefined && this.#usedUnits >= unitsPerTurn) {
      this.#usedUnits -= unitsPerTurn
      this.#turn = this.#options.scheduler.enter(this.#options.memory.owner, unitsPerTurn)?.then(() => {
        this.#turn = undefined
      })
    }
    return this.#turn
  }

  /** What has been handled, or a refusal where its response does not fit. */
  #fit(call: Call, handled: Handled): Handled {
    if (handled.body === undefined || isRefusal(handled.reply)) return handled
    const byteLength = handled.body.byteLength + ','.length
    const refusal = byteLength > this.#remainingBytes ? batchTooLarge : this.#options.memory.reserve(byteLength) ? undefined : withoutRoom
    if (refusal !== undefined) {
      this.#exhausted ??= refusal
      return this.#options.replace(call, refusal, handled)
    }
    this.#remainingBytes -= byteLength
    this.reservedBytes += byteLength
    return handled
  }

  /** Why no further call begins. */
  #refusal(): Refusal | undefined {
    return this.#exhausted ?? (this.#options.signal.aborted ? disconnected : undefined)
  }

  /** After each wait, and not before each call: time that passes without a wait is less than a turn. */
  #checkDeadline(): void {
    if (this.#options.clock.monotonic() > this.#deadlineAt) this.#exhausted ??= late
  }
}

/** No error in place of a refusal would be shorter. */
const isRefusal = (reply: Reply): boolean => isFailure(reply) && reply.source === 'gateway'

/** What an account may use in a turn while others call. The first calls of a batch begin in the turn of its message. */
const unitsPerTurn = 16
/** A call that is answered at once takes 5 us, and one that asks a node is a unit. With a turn for each 16 cached calls, they took 9 % more CPU. */
const unitsPerCachedCall = 1 / 8
/** To write so many bytes takes as long as a unit: the answer of rpc.discover has 40 KiB. */
const bytesPerUnit = 32_768

const batchTooLarge = refuse('tooLarge', { source: 'gateway', fault: 'gateway' })

const late = refuse('unavailable', {
  source: 'gateway',
  fault: 'gateway',
  retryAfter: 1,
  message: 'the batch takes too long; send fewer calls in a batch',
})

const withoutRoom = refuse('unavailable', {
  source: 'gateway',
  fault: 'gateway',
  retryAfter: 1,
  message: 'too many bytes are in flight for the answers of the batch; retry later, with fewer calls in a batch',
  cause: 'memory budget exhausted',
})

const disconnected = refuse('unavailable', { source: 'gateway', fault: 'caller', cause: 'client disconnected' })

/** The origin of the calls of a batch: that of its message, except that nothing can be pushed. */
export class BatchOrigin implements Origin {
  readonly push = undefined
  readonly #origin: Origin

  constructor(origin: Origin) {
    this.#origin = origin
  }

  get transport(): Origin['transport'] {
    return this.#origin.transport
  }

  get network(): string {
    return this.#origin.network
  }

  get key(): Origin['key'] {
    return this.#origin.key
  }

  get originHeader(): string | undefined {
    return this.#origin.originHeader
  }

  get ip(): string {
    return this.#origin.ip
  }

  get requestId(): string {
    return this.#origin.requestId
  }

  get headers(): Origin['headers'] {
    return this.#origin.headers
  }

  get signal(): Origin['signal'] {
    return this.#origin.signal
  }

  get state(): Origin['state'] {
    return this.#origin.state
  }
}
