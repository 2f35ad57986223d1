import type { LatencyTracker } from '../../src/plugin/internal.ts'

const defaultLateAfterMs = 250
const minLateAfterMs = 20
/** Where nearly all calls take as long as each other, the 95th percentile alone would be too short. */
const medianFactor = 3

/** How long a call may take before it is late, and a second node is requested. */
export const lateAfterMs = ({ quantiles, isKnown }: LatencyTracker): number =>
  quantiles === undefined || !isKnown ? defaultLateAfterMs : Math.max(quantiles.p95, medianFactor * quantiles.p50, minLateAfterMs)
