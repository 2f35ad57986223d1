import type { MaybePromise } from '../../util/async.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'

/** A request that waits longer in the queue is better sent to another node. */
const maxQueueWaitMs = 1000

/** A request in the queue, which may be canceled before it is admitted. */
export interface Waiter {
  readonly isCanceled: boolean
  /** What to do on cancellation; one thing at a time. */
  onCancel: (() => void) | undefined
}

type Settle = (isAcquired: boolean) => void

/**
 * Admits so many requests at once; as many again (or `maxQueued`) may wait. Owners with waiting requests are served in turn, and the
 * requests of one in order. While the queue is full, a request takes the place of the latest of the owner that has most in the queue.
 */
export class ConcurrencyLimit {
  readonly #clock: Clock
  readonly #maxConcurrent: number
  readonly #maxQueued: number
  /** By owner, in the order in which owners are served; the requests of each in order of arrival. */
  readonly #queues = new Map<string, Set<Settle>>()
  #queuedCount = 0
  #active = 0

  constructor(clock: Clock, maxConcurrent: number, maxQueued = maxConcurrent) {
    this.#clock = clock
    this.#maxConcurrent = maxConcurrent
    this.#maxQueued = maxQueued
  }

  /** False when the queue is full, the wait is too long or the request is canceled. After true, release() must follow. */
  acquire(waiter: Waiter, owner = ''): MaybePromise<boolean> {
    if (waiter.isCanceled) return false
    if (this.#active < this.#maxConcurrent) {
      this.#active += 1
      return true
    }
    return (this.#queuedCount < this.#maxQueued || this.#makeRoom(owner)) && this.#enqueue(waiter, owner)
  }

  release(): void {
    const [first] = this.#queues
    if (first === undefined) {
      this.#active -= 1
      return
    }
    const [owner, queue] = first
    // The owner is the last to be served again.
    this.#queues.delete(owner)
    this.#queues.set(owner, queue)
    const [next] = queue
    next?.(true)
  }

  /** False when no owner has two more requests in the queue than this one. */
  #makeRoom(owner: string): boolean {
    let longest: Set<Settle> | undefined
    for (const queue of this.#queues.values()) if (queue.size > (longest?.size ?? 0)) longest = queue
    if (longest === undefined || longest.size < (this.#queues.get(owner)?.size ?? 0) + 2) return false
    const latest = [...longest].at(-1)
    latest?.(false)
    return true
  }

  #enqueue(waiter: Waiter, owner: string): Promise<boolean> {
    return new Promise(resolve => {
      const queue = getOrCreate(this.#queues, owner, newQueue)
      const giveUp = () => settle(false)
      const settle = (isAcquired: boolean) => {
        queue.delete(settle)
        this.#queuedCount -= 1
        if (queue.size === 0) this.#queues.delete(owner)
        timer.cancel()
        waiter.onCancel = undefined
        resolve(isAcquired)
      }
      const timer = this.#clock.after(maxQueueWaitMs, giveUp)
      waiter.onCancel = giveUp
      queue.add(settle)
      this.#queuedCount += 1
    })
  }
}

const newQueue = (): Set<Settle> => new Set()
