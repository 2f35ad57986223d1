import type { MaybePromise } from '../../util/async.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'

/** A request that waits longer in the queue is better sent to another node. */
const maxQueueWaitMs = 1000

/**
 * An owner has at most so many admitted requests for each that is free: 7/8 of all while others have none. A request that takes as long as its
 * timeout keeps its place for longer than others may wait.
 */
const maxActivePerFree = 7

/** A request in the queue, which may be canceled before it is admitted. */
export interface Waiter {
  readonly isCanceled: boolean
  /** What to do on cancellation; one thing at a time. */
  onCancel: (() => void) | undefined
}

type Settle = (isAcquired: boolean) => void

/**
 * Admits so many requests at once; as many again (or `maxQueued`) may wait. The next to be admitted is of the owner with the fewest admitted
 * requests, in turn among equals, and the requests of one owner are served in order. While the queue is full, a request takes the place of the
 * latest of the owner that has most requests, admitted and waiting: an owner below its share is not refused because others are above theirs.
 */
export class ConcurrencyLimit {
  readonly #clock: Clock
  readonly #maxConcurrent: number
  readonly #maxQueued: number
  /** By owner, in the order in which owners are served; the requests of each in order of arrival. */
  readonly #queues = new Map<string, Set<Settle>>()
  #queuedCount = 0
  readonly #activeByOwner = new Map<string, number>()
  #active = 0
  #firstOwner: string | undefined
  /** There is more than one owner: each leaves some room to the others. */
  #isShared = false

  constructor(clock: Clock, maxConcurrent: number, maxQueued = maxConcurrent) {
    this.#clock = clock
    this.#maxConcurrent = maxConcurrent
    this.#maxQueued = maxQueued
  }

  /** False when the queue is full, the wait is too long or the request is canceled. After true, release() of the owner must follow. */
  acquire(waiter: Waiter, owner = ''): MaybePromise<boolean> {
    if (waiter.isCanceled) return false
    this.#firstOwner ??= owner
    this.#isShared ||= owner !== this.#firstOwner
    if (this.#mayBegin(owner)) {
      this.#countActive(owner, 1)
      return true
    }
    return (this.#queuedCount < this.#maxQueued || this.#makeRoom(owner)) && this.#enqueue(waiter, owner)
  }

  release(owner = ''): void {
    this.#countActive(owner, -1)
    while (this.#queuedCount > 0 && this.#admitNext());
  }

  /** Whoever has the fewest admitted requests; false when that owner has its share. */
  #admitNext(): boolean {
    const next = this.#pickNext()
    if (next === undefined || !this.#mayBegin(next[0])) return false
    const [owner, queue] = next
    // The owner is the last to be served again.
    this.#queues.delete(owner)
    this.#queues.set(owner, queue)
    this.#countActive(owner, 1)
    const [settle] = queue
    settle?.(true)
    return true
  }

  #mayBegin(owner: string): boolean {
    const free = this.#maxConcurrent - this.#active
    return free > 0 && (!this.#isShared || this.#activeOf(owner) < maxActivePerFree * free)
  }

  #countActive(owner: string, change: 1 | -1): void {
    this.#active += change
    const active = this.#activeOf(owner) + change
    if (active === 0) this.#activeByOwner.delete(owner)
    else this.#activeByOwner.set(owner, active)
  }

  #activeOf(owner: string): number {
    return this.#activeByOwner.get(owner) ?? 0
  }

  #pickNext(): readonly [owner: string, queue: Set<Settle>] | undefined {
    let next: readonly [string, Set<Settle>] | undefined
    for (const each of this.#queues) if (next === undefined || this.#activeOf(each[0]) < this.#activeOf(next[0])) next = each
    return next
  }

  /** False when no owner with waiting requests has two requests more than this one. */
  #makeRoom(owner: string): boolean {
    let [largest, most]: [Set<Settle> | undefined, number] = [undefined, 0]
    for (const [each, queue] of this.#queues) {
      const count = this.#activeOf(each) + queue.size
      if (count >= most) [largest, most] = [queue, count]
    }
    if (largest === undefined || most < this.#activeOf(owner) + (this.#queues.get(owner)?.size ?? 0) + 2) return false
    const latest = [...largest].at(-1)
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
