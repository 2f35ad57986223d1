import type { AccessLogControl, CallObserver } from '../services/access-log.ts'
import type { HeadsSource } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import type { RootLog } from '../services/log.ts'
import type { MetricsRegistry } from '../services/metrics.ts'
import { TokenBuckets } from '../services/rate-limits.ts'
import type { PluginProblems } from '../services/plugin-problems.ts'
import type { NodeStatuses } from '../services/node-status.ts'
import type { RateLimits } from '../services/rate-limits.ts'
import { CurrentConfig } from './current-config.ts'
import { openListeners } from './listeners.ts'
import type { Listeners } from './listeners.ts'
import { closeAll, openBase, openOwnHeadsSource, openRateLimits, openServices } from './open-services.ts'
import type { Closers } from './open-services.ts'
import { Reloader } from './reloader.ts'
import type { ReadConfig, Reloadable, ValidConfig } from './reloader.ts'
import { RunningNetworks } from './running-networks.ts'
import type { TlsTexts } from '../services/tls-files.ts'
import { openTracing } from './tracing.ts'

export type { ValidConfig } from './reloader.ts'

/** A running gateway. */
export interface Gateway extends Pick<Listeners, 'urls' | 'enterLameDuck'>, Reloadable {
  readonly metrics: MetricsRegistry
  readonly nodeStatuses: NodeStatuses
  readonly pluginProblems: PluginProblems
  readonly accessLog: AccessLogControl
  /** See LedgerService.returnUnused(). */
  returnCredits(account: string): Promise<void>
  /** Present when the gateway knows how to read its configuration anew. */
  readonly reloader?: Reloader
  /**
   * `/readyz` answers 503 at once; for `graceMs` (`drain.grace` unless given) calls are still served, and connections are closed
   * gradually. Then no new calls are accepted; calls in flight finish, networks stop, services close: what was opened last is
   * closed first.
   */
  stop(graceMs?: number): Promise<void>
}

interface GatewayOptions {
  /** The gateway polls the heads of its upstreams itself unless a source of heads is given. */
  readonly headsSource?: HeadsSource
  /** Those of this process unless given; with Redis as the store, those of all gateways that share it. */
  readonly rateLimits?: RateLimits
  /** See LedgerClientOptions.recall(). */
  recallCredits?(account: string): Promise<void>
  /** What other processes of the gateway serve TLS with. */
  readonly tlsTexts?: TlsTexts | undefined
  /** For reloads that this process decides on. */
  readonly readConfig?: ReadConfig
  /** Gets each call. */
  readonly observer?: CallObserver | undefined
  /** As in HostServices. */
  readonly checksContext?: true
}

/** Opens the services, starts the networks, then listens. When it rejects, everything is closed again. */
export const openGateway = async (
  config: ValidConfig,
  clock: Clock,
  log: RootLog,
  {
    headsSource: givenHeads,
    rateLimits: givenRateLimits,
    recallCredits,
    readConfig,
    observer,
    checksContext,
    tlsTexts,
  }: GatewayOptions = {},
): Promise<Gateway> => {
  const closers: Closers = []
  let isStopping = false
  const close = () => closeAll(closers, log)
  try {
    const tracing = await openTracing(log)
    if (tracing !== undefined) closers.push(() => tracing.flush(clock))
    const headsSource = givenHeads ?? (await openOwnHeadsSource(config.gateway, clock, closers))
    const base = await openBase(config.gateway, clock, log, closers, observer)
    const services = {
      ...base,
      ...(await openServices(config.gateway, base, closers, recallCredits)),
      rateLimits: (await openRateLimits(config.gateway, base, closers)) ?? givenRateLimits ?? new TokenBuckets(clock),
      tracing,
      headsSource,
      ...(checksContext && { checksContext }),
    }
    const running = new RunningNetworks()
    closers.push(() => running.stop())
    const current = new CurrentConfig(config.gateway, services, running)
    running.commit(await current.prepareNetworks(config), services, 0)
    const prepareReload = (read: ValidConfig) => current.prepareReload(read)
    const reloader = readConfig && new Reloader({ config, readConfig, prepareReload, logLevel: log, ...services })
    const context = { ...services, running, isReady: () => !isStopping, reloader, texts: tlsTexts }
    const listeners = await openListeners(config.gateway, config.networks, context, closers)
    current.listeners = listeners
    const stop = async (graceMs = current.gateway.drain.grace) => {
      isStopping = true
      reloader?.stop()
      await listeners.enterLameDuck(graceMs)
      await reloader?.whenIdle()
      await close()
    }
    const { metrics, nodeStatuses, pluginProblems, accessLog, ledger } = services
    return {
      ...{ metrics, nodeStatuses, pluginProblems, accessLog, returnCredits: ledger.returnUnused, prepareReload, stop },
      ...{ urls: listeners.urls, enterLameDuck: listeners.enterLameDuck, ...(reloader && { reloader }) },
    }
  } catch (error) {
    await close()
    throw error
  }
}
