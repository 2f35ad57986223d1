import type { Config } from '../config/types.ts'
import type { Problem } from '../config/problem.ts'
import { buildNetwork } from './network.ts'
import type { HostServices } from './network.ts'
import { systemClock } from '../services/clock.ts'
import { openHeadsSource } from '../services/chain-heads/index.ts'
import { openSingletons } from './singletons.ts'
import { openLog } from '../services/log.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import { results } from '../services/results.ts'
import { version } from './version.ts'

/** Creates every stage of every network, for the problems that only create() finds. Opens no store, file or connection. */
export const dryRunNetworks = async ({ networks, gateway }: Config): Promise<readonly Problem[]> => {
  const refuseUse = (): never => {
    throw new Error('a plugin used a service inside create(); use it in start() or in the handler')
  }
  const dryRunServices: HostServices = {
    clock: systemClock,
    log: openLog('silent'),
    metrics: createMetricsRegistry(),
    singletons: openSingletons(),
    headsSource: openHeadsSource(),
    // No cache is filled. gateway.yaml itself may be what has problems.
    cacheBytes: gateway?.memory ?? 1,
    accounts: { find: refuseUse },
    ledger: { charge: refuseUse },
    usage: { count: refuseUse },
    upstreamClient: { request: refuseUse, disconnects: refuseUse },
    sharedCaches: { open: refuseUse },
    results,
    version,
  }
  const problems: Problem[] = []
  for (const config of networks) {
    const { network, problems: found } = await buildNetwork(config, dryRunServices)
    problems.push(...found)
    await network?.stop()
  }
  return problems
}
