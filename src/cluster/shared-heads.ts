import type { Target } from '../plugin/call.ts'
import { Secret } from '../plugin/secret.ts'
import type { UpstreamClient } from '../services/upstream-client/index.ts'
import type { Clock } from '../services/clock.ts'
import { RecentBlocks, openHeads, maxRecentBlocks } from '../services/chain-heads/index.ts'
import type { HeadsStatus, HeightBroadcastsOf, TrackedHeads, ChainState } from '../services/chain-heads/index.ts'
import type { Log } from '../services/log.ts'
import { withLabels } from '../services/metrics.ts'
import type { Metrics } from '../services/metrics.ts'
import { WorkerHeightBroadcast } from './height-broadcast.ts'
import type { WorkerChannel } from './height-broadcast.ts'
import type { WorkerMessage, TrackedUpstreams, RevealedTarget } from './messages.ts'

export interface SharedHeadsOptions {
  readonly upstreamClient: UpstreamClient
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Who else tells callers heights, on other machines. */
  readonly heightBroadcastsOf: HeightBroadcastsOf
}

/** Where the primary follows the nodes of each network for all its workers, so that they cost what one would. */
export class SharedHeads {
  readonly #options: SharedHeadsOptions
  readonly #networks = new Map<string, SharedNetworkHeads>()

  constructor(terms: SharedHeadsOptions) {
    this.#options = terms
  }

  /** What `/readyz?verbose` says of the network. */
  statusOf(network: string): HeadsStatus | undefined {
    return this.#networks.get(network)?.heads.status
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (!('network' in message)) return
    const { network } = message
    if (message.kind === 'follow') return this.#track(network, message.nodes).addWorker(worker)
    this.#networks.get(network)?.handleMessage(worker, message)
  }

  /** The worker is gone. */
  removeWorker(worker: WorkerChannel): void {
    for (const lending of this.#networks.values()) lending.removeWorker(worker)
  }

  stop(): void {
    for (const lending of this.#networks.values()) lending.stop()
  }

  /** A worker that was replaced may have read other nodes than those before it: then these hold for all. */
  #track(network: string, nodes: TrackedUpstreams): SharedNetworkHeads {
    const known = this.#networks.get(network)
    if (known?.tracks(nodes) === true) return known
    const members = known?.members ?? []
    known?.stop()
    const fresh = new SharedNetworkHeads(network, nodes, this.#options, members)
    this.#networks.set(network, fresh)
    return fresh
  }
}

/** The heads of one network, and the workers that they are lent to. */
class SharedNetworkHeads {
  readonly heads: TrackedHeads
  readonly #network: string
  readonly #upstreamsKey: string
  readonly #heightBroadcast: WorkerHeightBroadcast
  /** The newest blocks as the workers know them, and what they were told last. */
  readonly #recentBlocks = new RecentBlocks(maxRecentBlocks)
  readonly #stop: () => void
  /** What is to be said once the nodes have told their chains: a worker waits for that. */
  #publishLatest: (() => void) | undefined
  #isIdentified = false
  #state: ChainState | undefined
  #lastPublished = ''

  constructor(
    network: string,
    nodes: TrackedUpstreams,
    { heightBroadcastsOf, ...terms }: SharedHeadsOptions,
    workers: readonly WorkerChannel[],
  ) {
    const { chainId, blockTime, maxLag, targets } = nodes
    this.#network = network
    this.#upstreamsKey = JSON.stringify(nodes)
    this.#heightBroadcast = new WorkerHeightBroadcast(network, terms.clock)
    this.heads = openHeads({
      ...terms,
      chainId,
      blockTime,
      log: terms.log.child({ network }),
      metrics: withLabels(terms.metrics, { network }),
      heightBroadcasts: [this.#heightBroadcast, ...heightBroadcastsOf(network, chainId)],
      onChange: (state, line) => {
        this.#publishLatest = () => this.#publish(state, line)
        if (this.#isIdentified) this.#publishLatest()
      },
    })
    for (const member of workers) this.addWorker(member)
    this.#stop = this.heads.track(targets.map(toTarget), { maxLag })
    void this.heads.chainIdsChecked.then(() => {
      this.#isIdentified = true
      this.#publishLatest?.()
    })
  }

  get members(): readonly WorkerChannel[] {
    return this.#heightBroadcast.workers
  }

  tracks(nodes: TrackedUpstreams): boolean {
    return JSON.stringify(nodes) === this.#upstreamsKey
  }

  addWorker(worker: WorkerChannel): void {
    if (this.#state !== undefined) {
      const line = this.#recentBlocks.changeFrom(new RecentBlocks(maxRecentBlocks))
      worker.send({ kind: 'known', network: this.#network, state: this.#state, ...(line && { line }) })
    }
    this.#heightBroadcast.addWorker(worker)
  }

  removeWorker(worker: WorkerChannel): void {
    this.#heightBroadcast.removeWorker(worker)
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    switch (message.kind) {
      case 'touch':
        return this.heads.recordActivity()
      case 'leave':
        return this.removeWorker(worker)
      default:
        this.#heightBroadcast.handleMessage(worker, message)
    }
  }

  /** Says nothing to anybody any more, whatever its nodes still answer. */
  stop(): void {
    this.#stop()
    for (const member of this.members) this.removeWorker(member)
  }

  #publish(state: ChainState, line: RecentBlocks): void {
    const change = line.changeFrom(this.#recentBlocks)
    const serialized = JSON.stringify(state)
    if (serialized === this.#lastPublished && change === undefined) return
    if (change !== undefined) this.#recentBlocks.apply(change)
    this.#lastPublished = serialized
    this.#state = state
    for (const member of this.members) {
      member.send({ kind: 'known', network: this.#network, state, ...(change && { line: change }) })
    }
  }
}

const toTarget = ({ url, ws, ...rest }: RevealedTarget): Target => ({
  ...rest,
  url: new Secret(url),
  ...(ws !== undefined && { ws: new Secret(ws) }),
})
