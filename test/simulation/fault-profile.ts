import type { OutageGrace } from '../../src/services/ledger/index.ts'
import type { SeededRandom } from './seeded-random.ts'

/** What goes wrong in a run, and how often. Most runs leave most of it out, so that no fault hides another's doings. */
export interface FaultProfile {
  /** Chances per message. `lost`: the question or its answer; `late`: by seconds, behind those that were sent later. */
  readonly lossRate: number
  readonly duplicationRate: number
  readonly delayRate: number
  /** Most that a message takes, ms. */
  readonly maxLatencyMs: number
  /** Chance per call that it is given back. */
  readonly refundRate: number
  /** Times per second. */
  readonly killsPerSecond: number
  readonly stopsPerSecond: number
  readonly stallsPerSecond: number
  readonly outagesPerSecond: number
  readonly planChangesPerSecond: number
  /** Somebody sets the clock of a process's machine. */
  readonly clockJumpsPerSecond: number
  readonly restoresPerSecond: number
  /** Somebody sets the store's clock; then nobody can say what is served on which true day. */
  readonly storeClockJumpsPerSecond: number
  /** What may be lent while the store is away. */
  readonly grace: OutageGrace
  readonly hasMidnight: boolean
  /** Everybody rests for ten minutes. */
  readonly hasIdlePeriod: boolean
}

export const randomFaultProfile = (random: SeededRandom): FaultProfile => {
  const grace = randomGrace(random)
  const sometimes = (probability: number, most: number) => (random.chance(probability) ? random.between(0, most) : 0)
  return {
    lossRate: sometimes(0.5, 0.3),
    duplicationRate: sometimes(0.4, 0.3),
    delayRate: sometimes(0.5, 0.3),
    maxLatencyMs: random.pick([0.3, 1, 5, 40, 300]),
    refundRate: sometimes(0.6, 0.2),
    killsPerSecond: sometimes(0.4, 0.8),
    stopsPerSecond: sometimes(0.4, 0.8),
    stallsPerSecond: sometimes(0.3, 1),
    outagesPerSecond: sometimes(grace.maxDurationMs > 0 ? 0.8 : 0.3, 0.5),
    planChangesPerSecond: sometimes(0.3, 0.6),
    clockJumpsPerSecond: sometimes(0.3, 1),
    restoresPerSecond: sometimes(0.2, 0.6),
    storeClockJumpsPerSecond: sometimes(0.1, 1),
    grace,
    hasMidnight: random.chance(0.5),
    hasIdlePeriod: random.chance(0.01),
  }
}

/** Closed, grace and open. */
const randomGrace = (random: SeededRandom): OutageGrace =>
  random.pick<() => OutageGrace>([
    () => ({ maxCredits: 0, maxDurationMs: 0 }),
    () => ({ maxCredits: 0, maxDurationMs: 0 }),
    () => ({ maxCredits: random.pick([100, 1_000, 10_000]), maxDurationMs: Infinity }),
    () => ({ maxCredits: Infinity, maxDurationMs: random.between(500, 5_000) }),
  ])()
