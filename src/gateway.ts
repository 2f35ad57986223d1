import type { Config, GatewayConfig, NetworkConfig } from './config/types.ts'
import { buildNetwork } from './network.ts'
import type { Lent, Network } from './network.ts'
import { openAdmin, openRpc } from './server/index.ts'
import { openAccounts } from './services/accounts.ts'
import { openAgents } from './services/agents/index.ts'
import { openRoom } from './services/agents/room.ts'
import type { Room } from './services/agents/room.ts'
import { openCaches } from './services/cache/index.ts'
import type { Clock } from './services/clock.ts'
import { openSource } from './services/heads/index.ts'
import type { HeadsSource } from './services/heads/index.ts'
import { openKeeper } from './services/keep.ts'
import { openLedger } from './services/ledger.ts'
import type { Log } from './services/log.ts'
import { openMetrics } from './services/metrics.ts'
import type { OpenMetrics } from './services/metrics.ts'
import { results } from './services/results.ts'
import { openUsage } from './services/usage.ts'
import { openHeights, openStore } from './store/open.ts'
import { version } from './version.ts'

/** A gateway that serves. */
export interface Gateway {
  readonly urls: { readonly rpc: string; readonly admin?: string }
  readonly metrics: OpenMetrics
  /** Calls in flight finish, then networks stop, then services close: what was opened last goes first. */
  stop(): Promise<void>
}

/** A configuration without problems. */
export type GoodConfig = Config & { readonly gateway: GatewayConfig }

/**
 * Opens services, starts the networks, then listens. When it rejects, nothing is left open. It asks nodes for their heads
 * itself, unless a source of them is given.
 */
export const openGateway = async ({ gateway, networks }: GoodConfig, clock: Clock, log: Log, source?: HeadsSource): Promise<Gateway> => {
  const opened: (() => Promise<void>)[] = []
  const stop = async () => {
    for (const close of opened.splice(0).reverse()) {
      await close().catch((error: unknown) => log.error({ err: error }, 'something did not close'))
    }
  }
  try {
    const room = openRoom(Math.floor(gateway.limits.inFlight / gateway.workers))
    const headsSource = source ?? (await openOwnSource(gateway, clock, opened))
    const lent = { ...(await openServices(gateway, networks.length, { room, clock, log }, opened)), headsSource }
    const running = await startNetworks(networks, lent, opened)
    await headsSource.ready()
    const rpc = await openRpc({ config: gateway, networks: running, room, clock, log, metrics: lent.metrics })
    opened.push(() => rpc.stop())
    const health = {
      isReady: () => !rpc.isDraining,
      networks: () => running.map(({ name, heads }) => ({ name, ...heads.status })),
      metrics: lent.metrics.families,
    }
    const admin = gateway.listen.admin && (await openAdmin(gateway.listen.admin, health, log))
    // Closed after the calls in flight have finished, so that it can be asked until then.
    if (admin !== undefined) opened.splice(-1, 0, () => admin.stop())
    return { urls: { rpc: rpc.url, ...(admin && { admin: admin.url }) }, metrics: lent.metrics, stop }
  } catch (fault) {
    await stop()
    throw fault
  }
}

type Opened = (() => Promise<void>)[]

const openOwnSource = async ({ store }: GatewayConfig, clock: Clock, opened: Opened): Promise<HeadsSource> => {
  const heights = await openHeights(store, clock)
  opened.push(() => heights.close())
  return openSource(heights.newsOf)
}

const openServices = async (
  config: GatewayConfig,
  networks: number,
  { room, clock, log }: { room: Room; clock: Clock; log: Log },
  opened: Opened,
): Promise<Omit<Lent, 'headsSource'> & { metrics: OpenMetrics }> => {
  const store = await openStore(config.store, clock)
  opened.push(() => store.close())
  const ledger = openLedger(store, clock, { log })
  await ledger.start()
  opened.push(() => ledger.stop())
  const usage = openUsage(store, clock, { log, keep: config.usage.keep })
  await usage.start()
  opened.push(() => usage.stop())
  const agents = openAgents(clock, room)
  opened.push(() => agents.close())
  const metrics = openMetrics()
  const cache = openCaches({ clock, log, metrics })
  opened.push(() => cache.close())
  return {
    clock,
    log,
    agents,
    cache,
    ledger,
    usage,
    metrics,
    results,
    version,
    accounts: openAccounts(store, config.plans, clock),
    memory: Math.floor(config.memory / networks / config.workers),
    keeper: openKeeper(),
  }
}

const startNetworks = async (configs: readonly NetworkConfig[], lent: Lent, opened: Opened): Promise<readonly Network[]> => {
  const running: Network[] = []
  for (const config of configs) {
    const { network, problems } = buildNetwork(config, lent)
    if (network === undefined) throw new Error(`network ${config.name} was not checked: ${problems[0]?.message}`)
    opened.push(() => network.stop())
    await network.start()
    running.push(network)
  }
  return running
}
