import type { Config } from './config/types.ts'
import type { Problem } from './config/problem.ts'
import { buildNetwork } from './network.ts'
import type { Lent } from './network.ts'
import { systemClock } from './services/clock.ts'
import { openSource } from './services/heads/index.ts'
import { openKeeper } from './services/keep.ts'
import { openLog } from './services/log.ts'
import { openMetrics } from './services/metrics.ts'
import { results } from './services/results.ts'
import { version } from './version.ts'

/** Creates every stage of every network without opening or asking anything, for what only create() can tell. */
export const tryNetworks = async ({ networks, gateway }: Config): Promise<readonly Problem[]> => {
  const unused = (): never => {
    throw new Error('a stage asked something of the world while it was created')
  }
  const inert: Lent = {
    clock: systemClock,
    log: openLog('silent'),
    metrics: openMetrics(),
    keeper: openKeeper(),
    headsSource: openSource(),
    // Nothing is kept. What gateway.yaml says may be what is wrong.
    memory: gateway?.memory ?? 1,
    accounts: { find: unused },
    ledger: { charge: unused },
    usage: { count: unused },
    agents: { ask: unused, losses: unused },
    cache: { open: unused },
    results,
    version,
  }
  const problems: Problem[] = []
  for (const config of networks) {
    const { network, problems: found } = buildNetwork(config, inert)
    problems.push(...found)
    await network?.stop()
  }
  return problems
}
