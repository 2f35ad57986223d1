import type { Config } from '../config/types.ts'
import type { Problem } from '../config/problem.ts'
import { buildNetwork } from './network.ts'
import type { CallToExplain, StageExplanation } from './explain-stages.ts'
import type { HostServices } from './stage-services.ts'
import { systemClock } from '../services/clock.ts'
import { openHeadsSource } from '../services/chain-heads/index.ts'
import type { MethodDescription } from '../services/index.ts'
import { openSingletons } from './singletons.ts'
import { openLog } from '../services/log.ts'
import { createMetricsRegistry } from '../services/metrics.ts'
import { NodeTrust } from '../services/node-trust.ts'
import { results } from '../services/results.ts'
import { version } from './version.ts'

/** Creates every stage of every network, for the problems that only create() finds. Opens no store, file or connection. */
export const dryRunNetworks = async (config: Config): Promise<readonly Problem[]> => {
  const problems: Problem[] = []
  for await (const { problems: found } of buildForDryRun(config)) problems.push(...found)
  return problems
}

/** The methods of each network by its name, for a process that does not run the networks itself. */
export const describeNetworks = async (
  config: Pick<Config, 'networks' | 'gateway'>,
): Promise<ReadonlyMap<string, readonly MethodDescription[]>> => {
  const descriptions = new Map<string, readonly MethodDescription[]>()
  for await (const { network } of buildForDryRun(config)) {
    if (network !== undefined) descriptions.set(network.name, network.describeMethods())
  }
  return descriptions
}

/** What becomes of a call to a network at each of its stages; undefined when the network is not served. */
export const explainCall = async (
  config: Config,
  network: string,
  call: CallToExplain,
): Promise<readonly StageExplanation[] | undefined> => {
  const networks = config.networks.filter(({ name }) => name === network)
  let explanation: readonly StageExplanation[] | undefined
  for await (const built of buildForDryRun({ ...config, networks })) explanation = built.network?.explain(call)
  return explanation
}

/** Builds each network with services that do nothing; it is stopped once the consumer goes on. */
const buildForDryRun = async function* ({
  networks,
  gateway,
}: Pick<Config, 'networks' | 'gateway'>): AsyncGenerator<Awaited<ReturnType<typeof buildNetwork>>> {
  const refuseUse = (): never => {
    throw new Error('create() used a service that asks a store or a node: use it in start() or in the handler')
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
    usage: { count: refuseUse, record: refuseUse, recordUndelivered: refuseUse },
    upstreamClientOf: () => ({ request: refuseUse, disconnects: refuseUse }),
    sharedCaches: { open: refuseUse },
    filterRecords: { put: refuseUse, replace: refuseUse, find: refuseUse, take: refuseUse },
    nodeStatuses: {
      of: () => ({
        add: () => () => undefined,
        addTurns: () => () => undefined,
        trust: new NodeTrust(),
        drained: new Set(),
        isDrainedKnown: true,
        onDrained: () => () => undefined,
        statusOf: () => undefined,
      }),
    },
    pluginProblems: { open: () => ({ begin: refuseUse, end: () => undefined, close: () => undefined }) },
    evidenceWriter: { of: () => ({ add: refuseUse, proven: refuseUse }) },
    pluginRecords: { of: () => ({ find: refuseUse, put: refuseUse }) },
    rateLimits: { take: refuseUse, stateOf: refuseUse },
    results,
    version,
  }
  for (const config of networks) {
    const built = await buildNetwork(config, dryRunServices)
    yield built
    await built.network?.stop()
  }
}
