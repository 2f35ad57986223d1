import type { HeadsOptions, HeadsSource } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { NetworkMessage, WorkerMessage } from './worker-messages.ts'
import { WorkerHeads } from './worker-heads.ts'
import type { WorkerHeadsOptions } from './worker-heads.ts'
import { WorkerPeers } from './peer-relay.ts'

/** Longer than the primary asks nodes that do not answer. Without news of them from the primary a worker still starts: until it comes, no node gets calls. */
const chainCheckTimeoutMs = 5000

/** The heads of every network of this worker. */
export class WorkerNetworks implements HeadsSource {
  readonly #clock: Clock
  readonly #send: (message: WorkerMessage) => void
  /**
   * A reload to another chain ID or block time opens the heads of a network anew. The primary knows the newest; when these close
   * first, because the reload was abandoned, those before count again.
   */
  readonly #heads = new Map<string, readonly WorkerHeads[]>()
  readonly #peers = new Map<string, WorkerPeers>()

  constructor(clock: Clock, send: (message: WorkerMessage) => void) {
    this.#clock = clock
    this.#send = send
  }

  open(network: string, { chainId, blockTime, upstreamClient }: HeadsOptions): OpenedHeads {
    const send = (message: WorkerMessage) => {
      if (this.#newest(network) === heads) this.#send(message)
    }
    const options = { network, chainId, blockTime, upstreamClient, clock: this.#clock, send }
    const heads: OpenedHeads = new OpenedHeads(options, () => this.#remove(network, heads))
    this.#heads.set(network, [...(this.#heads.get(network) ?? []), heads])
    return heads
  }

  /** At the latest after `chainCheckTimeoutMs`. */
  async ready(): Promise<void> {
    const checked = Promise.all(Array.from(this.#heads.keys(), network => this.#newest(network)?.whenChainChecked()))
    await withTimeoutOr(this.#clock, chainCheckTimeoutMs, checked, () => undefined)
  }

  readonly peersOf = (network: string): WorkerPeers =>
    getOrCreate(this.#peers, network, () => new WorkerPeers({ network, clock: this.#clock, send: this.#send }))

  /** The primary polls. */
  async refresh(): Promise<void> {}

  handleMessage(message: NetworkMessage): void {
    const heads = this.#newest(message.network)
    heads?.handleMessage(message)
    heads?.feeds.handleMessage(message)
    this.#peers.get(message.network)?.handleMessage(message)
  }

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

class OpenedHeads extends WorkerHeads {
  /** Called when no pipeline has these heads any more. */
  readonly close: () => void

  constructor(options: WorkerHeadsOptions, close: () => void) {
    super(options)
    this.close = close
  }
}
