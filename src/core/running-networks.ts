import { networkId } from './config-changes.ts'
import type { PartialProblem } from '../config/problem.ts'
import type { NetworkConfig } from '../config/types.ts'
import { withTimeoutOr } from '../util/async.ts'
import { buildNetwork } from './network.ts'
import type { Network } from './network.ts'
import type { EventRules } from '../services/index.ts'
import type { HostServices } from './stage-services.ts'

/** A configuration that cannot be applied, although its files could be read. */
export class ReloadError extends Error {
  /** The places in the files, where they are known. */
  readonly problems: readonly PartialProblem[]

  constructor(message: string, problems: ReloadError['problems'] = []) {
    super(message)
    this.problems = problems
  }
}

interface RunningNetwork {
  readonly network: Network
  /** Of its configuration, and of the services that differ between configurations. */
  readonly id: string
}

/** Networks that have started, and get no calls yet. */
export interface PreparedNetworks {
  readonly networks: readonly RunningNetwork[]
  /** Those among them that do not run already. */
  readonly started: readonly Network[]
}

/** The networks that serve. A reload starts those that have changed beside the old ones, and lets the old ones finish their calls. */
export class RunningNetworks {
  #running: readonly RunningNetwork[] = []
  /** Networks that another pipeline has replaced, until they have stopped. */
  readonly #retiring = new Set<Promise<void>>()

  get current(): readonly Network[] {
    return this.#running.map(({ network }) => network)
  }

  /** Starts all networks that differ from those that run. Rejects with ReloadError, or as Network.start() does, nothing left started. */
  async prepare(configs: readonly NetworkConfig[], services: HostServices): Promise<PreparedNetworks> {
    const started: Network[] = []
    const networks: RunningNetwork[] = []
    try {
      for (const config of configs) {
        const id = `${networkId(config)} ${services.cacheBytes}`
        const running = this.#running.find(each => each.id === id)
        networks.push(running ?? { id, network: await startNetwork(config, { ...services, servingEvents: this.#eventsOf }, started) })
      }
    } catch (error) {
      await stopAll(started)
      throw error
    }
    return { networks, started }
  }

  /** From now on these networks serve. Those that they replace stop as soon as their calls have been answered, at the latest after `timeoutMs`. */
  commit({ networks }: PreparedNetworks, { clock, log }: Pick<HostServices, 'clock' | 'log'>, timeoutMs: number): void {
    const replaced = this.#running.filter(old => !networks.includes(old))
    this.#running = networks
    for (const { network } of replaced) {
      const warn = () => log.warn({ network: network.name }, 'calls of the replaced pipeline were still running at the drain deadline')
      const retiring = withTimeoutOr(clock, timeoutMs, network.whenIdle(), warn).then(() => network.stop())
      this.#retiring.add(retiring)
      void retiring.finally(() => this.#retiring.delete(retiring))
    }
  }

  readonly #eventsOf = (name: string): EventRules | undefined => this.#running.find(({ network }) => network.name === name)?.network.events

  /** The opposite of commit(). */
  abandon({ started }: PreparedNetworks): Promise<void> {
    return stopAll(started)
  }

  /** Resolves once all networks have stopped. */
  async stop(): Promise<void> {
    await stopAll(this.current)
    await Promise.all(this.#retiring)
  }
}

/** What has been built is in `started` even if it does not start: stop() is safe without start(). */
const startNetwork = async (config: NetworkConfig, services: HostServices, started: Network[]): Promise<Network> => {
  const { network, problems } = await buildNetwork(config, services)
  if (network === undefined) throw new ReloadError(`network ${config.name}: ${problems[0]?.message}`, problems)
  started.push(network)
  await network.start()
  return network
}

const stopAll = async (networks: readonly Network[]): Promise<void> => {
  for (const network of networks.toReversed()) await network.stop()
}
