import type { Grace } from '../../src/services/ledger.ts'
import type { Random } from './random.ts'

/** What goes wrong in a run, and how often. Most runs leave most of it out, so that no fault hides another's doings. */
export interface Weather {
  /** Chances per message. `lost`: the question or its answer; `late`: by seconds, behind those that were sent later. */
  readonly lost: number
  readonly doubled: number
  readonly late: number
  /** Most that a message takes, ms. */
  readonly delay: number
  /** Chance per call that it is given back. */
  readonly refund: number
  /** Times per second. */
  readonly kill: number
  readonly stop: number
  readonly stall: number
  readonly outage: number
  readonly plan: number
  /** Somebody sets the clock of a process's machine. */
  readonly clock: number
  readonly restore: number
  /** Somebody sets the store's clock; then nobody can say what is served on which true day. */
  readonly storeClock: number
  /** What may be lent while the store is away. */
  readonly grace: Grace
  readonly hasMidnight: boolean
  /** Everybody rests for ten minutes. */
  readonly hasPause: boolean
}

export const weatherOf = (random: Random): Weather => {
  const grace = graceOf(random)
  const sometimes = (probability: number, most: number) => (random.chance(probability) ? random.between(0, most) : 0)
  return {
    lost: sometimes(0.5, 0.3),
    doubled: sometimes(0.4, 0.3),
    late: sometimes(0.5, 0.3),
    delay: random.pick([0.3, 1, 5, 40, 300]),
    refund: sometimes(0.6, 0.2),
    kill: sometimes(0.4, 0.8),
    stop: sometimes(0.4, 0.8),
    stall: sometimes(0.3, 1),
    outage: sometimes(grace.lasts > 0 ? 0.8 : 0.3, 0.5),
    plan: sometimes(0.3, 0.6),
    clock: sometimes(0.3, 1),
    restore: sometimes(0.2, 0.6),
    storeClock: sometimes(0.1, 1),
    grace,
    hasMidnight: random.chance(0.5),
    hasPause: random.chance(0.01),
  }
}

/** Closed, grace and open. */
const graceOf = (random: Random): Grace =>
  random.pick<() => Grace>([
    () => ({ credits: 0, lasts: 0 }),
    () => ({ credits: 0, lasts: 0 }),
    () => ({ credits: random.pick([100, 1_000, 10_000]), lasts: Infinity }),
    () => ({ credits: Infinity, lasts: random.between(500, 5_000) }),
  ])()
