import type { HeadsOptions, HeadsSource } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { sleep, withTimeoutOr } from '../util/async.ts'
import type { Handlers, Sender } from '../util/channel.ts'
import { WorkerHeads } from './worker-heads.ts'
import type { ToPrimary, ToWorker } from './worker-messages.ts'

/** What is handled while the gateway of this worker opens; the rest is from `ready` on. */
export type NetworkHandlers = Pick<Handlers<ToWorker>, 'snapshot' | 'reports' | 'shared' | 'feed'>

/** Longer than the primary asks nodes that do not answer. Without news of them from the primary a worker still starts: until it comes, no node gets calls. */
const chainCheckTimeoutMs = 5000

/** The heads of every network of this worker, and its way to the other workers. */
export class WorkerNetworks implements HeadsSource {
  readonly #clock: Clock
  readonly #primary: Sender<ToPrimary>
  readonly handlers: NetworkHandlers = {
    snapshot: snapshot => this.#newest(snapshot.network)?.accept(snapshot),
    reports: ({ network, reports }, reply) => {
      this.#newest(network)?.reports.accept(reports)
      reply()
    },
    shared: ({ network, version }) => this.#newest(network)?.reports.setSharedVersion(version),
    // Also for heads that are not the newest: their feeds end, as the primary follows the network otherwise.
    feed: ({ network, feed, run, steps }) => this.#heads.get(network)?.forEach(({ feeds }) => feeds.handle(feed, run, steps)),
  }
  /**
   * A reload to another chain ID, block time or kind of node opens the heads of a network anew. The primary knows the newest; when these close
   * first, because the reload was abandoned, those before count again.
   */
  readonly #heads = new Map<string, readonly WorkerHeads[]>()

  constructor(clock: Clock, primary: Sender<ToPrimary>) {
    this.#clock = clock
    this.#primary = primary
  }

  open(network: string, { chainId, blockTime, devNode = false, upstreamClient, nodes }: HeadsOptions): WorkerHeads {
    const clock = this.#clock
    const isNewest = () => this.#newest(network) === heads
    const primary: Sender<ToPrimary> = {
      send: (topic, value) => (isNewest() ? this.#primary.send(topic, value) : undefined),
      call: (name, args, timeoutMs, onReply) =>
        isNewest() ? this.#primary.call(name, args, timeoutMs, onReply) : sleep(clock, timeoutMs).then(() => 'late'),
    }
    const options = { network, chainId, blockTime, devNode, upstreamClient, clock, primary, ...(nodes && { nodes }) }
    const heads: WorkerHeads = new WorkerHeads({ ...options, close: () => this.#remove(network, heads) })
    this.#heads.set(network, [...(this.#heads.get(network) ?? []), heads])
    return heads
  }

  /** At the latest after `chainCheckTimeoutMs`. */
  async ready(): Promise<void> {
    const checked = Promise.all(Array.from(this.#heads.keys(), network => this.#newest(network)?.whenChainChecked()))
    await withTimeoutOr(this.#clock, chainCheckTimeoutMs, checked, () => undefined)
  }

  /** The primary polls. */
  async refresh(): Promise<void> {}

  #newest(network: string): WorkerHeads | undefined {
    return this.#heads.get(network)?.at(-1)
  }

  #remove(network: string, heads: WorkerHeads): void {
    const wasNewest = this.#newest(network) === heads
    const rest = (this.#heads.get(network) ?? []).filter(each => each !== heads)
    if (rest.length === 0) this.#heads.delete(network)
    else this.#heads.set(network, rest)
    if (wasNewest) rest.at(-1)?.resume()
  }
}
