import type { Attack } from './attack.ts'
import { exhaustion } from './exhaustion.ts'
import { failover } from './failover.ts'
import { byteFuzz } from './fuzz-bytes.ts'
import { configFuzz } from './fuzz-config.ts'
import { messageFuzz } from './fuzz-messages.ts'
import { kills } from './kills.ts'
import { maliciousNodes } from './malicious-nodes.ts'
import { moves } from './moves.ts'
import { movingFilters } from './moving-filters.ts'
import { pauses } from './pauses.ts'
import { reloads } from './reloads.ts'
import { reportedBlocks } from './reported-blocks.ts'
import { restarts } from './restarts.ts'
import { rollouts } from './rollouts.ts'
import { stops } from './stops.ts'
import { subscriptionModel } from './subscription-model.ts'

/** In the order in which they run. */
export const attacks: readonly Attack[] = [
  configFuzz,
  messageFuzz,
  byteFuzz,
  maliciousNodes,
  reportedBlocks,
  subscriptionModel,
  movingFilters,
  reloads,
  restarts,
  stops,
  pauses,
  kills,
  failover,
  moves,
  rollouts,
  exhaustion,
]
