import type { OutageGrace } from '../../src/services/ledger/index.ts'
import type { SeededRandom } from './seeded-random.ts'

/** The faults of a run and their rates. Most runs have few kinds of faults, so that no fault hides the effects of another. */
export interface FaultProfile {
  /** Probability per request that it or its response is lost. */
  readonly lossRate: number
  /** Probability per request. */
  readonly duplicationRate: number
  /** Probability per message that it is delayed by seconds, so that later messages overtake it. */
  readonly delayRate: number
  /** Of a message that is not delayed. */
  readonly maxLatencyMs: number
  /** Probability per call. */
  readonly refundRate: number
  readonly killsPerSecond: number
  readonly stopsPerSecond: number
  readonly stallsPerSecond: number
  readonly outagesPerSecond: number
  readonly planChangesPerSecond: number
  /** Of the wall clock of a process. */
  readonly clockJumpsPerSecond: number
  readonly restoresPerSecond: number
  /** With these, the true day of a served call cannot be checked. */
  readonly storeClockJumpsPerSecond: number
  readonly grace: OutageGrace
  readonly hasMidnight: boolean
  /** No calls for ten minutes. */
  readonly hasIdlePeriod: boolean
}

/** In either direction. */
export const maxClockJumpMs = 3_600_000

export const randomFaultProfile = (random: SeededRandom): FaultProfile => {
  const grace = randomGrace(random)
  const sometimes = (probability: number, max: number) => (random.chance(probability) ? random.between(0, max) : 0)
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

/** The policies `closed`, `grace` and `open` of the credits plugin. */
const randomGrace = (random: SeededRandom): OutageGrace =>
  random.pick<() => OutageGrace>([
    () => ({ maxCredits: 0, maxDurationMs: 0 }),
    () => ({ maxCredits: 0, maxDurationMs: 0 }),
    () => ({ maxCredits: random.pick([100, 1_000, 10_000]), maxDurationMs: Infinity }),
    () => ({ maxCredits: Infinity, maxDurationMs: random.between(500, 5_000) }),
  ])()
