import type { Target } from '../plugin/call.ts'
import { Cancellation } from '../plugin/cancellation.ts'
import type { Timer } from '../services/clock.ts'
import {
  CurrentChainState,
  RecentBlocks,
  fetchBlock,
  verifyFinalizedBlock,
  pollIntervalMsFor,
  openUpstreamRequester,
  maxRecentBlocks,
} from '../services/chain-heads/index.ts'
import type { TrackOptions, Heads, HeadsOptions, HeadsStatus, BlockId, ChainSnapshot } from '../services/chain-heads/index.ts'
import type { PrimaryMessage, WorkerMessage, RevealedTarget } from './messages.ts'

/** In ms: how often the primary hears that calls come in, and how long it is waited for where a caller waits. */
const activityIntervalMs = 1_000
const primaryTimeoutMs = 50

/** What the primary tells about one network, or in answer to one question. */
export type HeadsMessage = Exclude<PrimaryMessage, { readonly kind: 'metrics' | 'stop' }>

export interface WorkerHeadsOptions extends Pick<HeadsOptions, 'chainId' | 'blockTime' | 'upstreamClient' | 'clock'> {
  readonly network: string
  send(message: WorkerMessage): void
}

/** Heads in a worker: what the primary knows, who asks the nodes for all workers. */
export class WorkerHeads implements Heads {
  readonly pollIntervalMs: number
  readonly #options: WorkerHeadsOptions
  readonly #recentBlocks = new RecentBlocks(maxRecentBlocks)
  readonly #snapshot = new CurrentChainState(this.#recentBlocks)
  /** What goes on when the height is shared, and when a question is answered. */
  readonly #sharedHeightListeners = new Set<() => void>()
  readonly #heightRequests = new Map<string, Promise<number>>()
  readonly #pendingReplies = new Map<number, (height: number) => void>()
  #targets: readonly Target[] = []
  #sharedHeight = 0
  #hasSnapshot = false
  #lastActivityAt = -Infinity
  #lastRequestId = 0

  constructor(terms: WorkerHeadsOptions) {
    this.#options = terms
    this.pollIntervalMs = pollIntervalMsFor(terms.blockTime)
  }

  get snapshot(): ChainSnapshot {
    return this.#snapshot.snapshot
  }

  get status(): HeadsStatus {
    return this.#snapshot.status
  }

  /** Does it follow nodes and has not heard of them yet? */
  get isAwaitingSnapshot(): boolean {
    return this.#targets.length > 0 && !this.#hasSnapshot
  }

  track(targets: readonly Target[], { maxLag }: TrackOptions = {}): () => void {
    const { network, chainId, blockTime, send } = this.#options
    this.#targets = targets
    const nodes = { chainId, blockTime, ...(maxLag !== undefined && { maxLag }), targets: targets.map(toRevealedTarget) }
    send({ kind: 'follow', network, nodes })
    return () => {
      if (this.#targets !== targets) return
      this.#targets = []
      send({ kind: 'leave', network })
    }
  }

  recordActivity(): void {
    const now = this.#options.clock.monotonic()
    if (now - this.#lastActivityAt < activityIntervalMs) return
    this.#lastActivityAt = now
    this.#options.send({ kind: 'touch', network: this.#options.network })
  }

  orderUpstreams<N extends { readonly name: string }>(nodes: readonly N[], block?: number): readonly N[] {
    return this.#snapshot.orderUpstreams(nodes, block)
  }

  /** A height is told when no worker tells less any more: a caller may meet any of them next. */
  reportHeight(upstream: string, height: number): number | Promise<number> {
    const { reportedHeight } = this.#snapshot.state
    if (this.#targets.length === 0 || this.#snapshot.exclusionReasonOf(upstream) === 'chain') return height
    if (height > reportedHeight) return this.#requestHeight(upstream, height)
    return reportedHeight <= this.#sharedHeight ? reportedHeight : this.#whenShared(reportedHeight)
  }

  verifyFinalized(block: BlockId): Promise<boolean> {
    const target = this.#targets.find(({ name }) => this.snapshot.isCurrent(name))
    const signal = new Cancellation()
    return verifyFinalizedBlock(
      block,
      this.#snapshot,
      async at => target && fetchBlock(openUpstreamRequester(this.#options.upstreamClient, target, signal), at),
    )
  }

  /** The primary says something. */
  handleMessage(message: HeadsMessage): void {
    switch (message.kind) {
      case 'known':
        if (message.line !== undefined) this.#recentBlocks.apply(message.line)
        this.#hasSnapshot = true
        return this.#snapshot.update(message.state)
      case 'height':
        this.#snapshot.setReportedHeight(message.height)
        return this.#options.send({ kind: 'seen', network: message.network, height: message.height })
      case 'shared':
        this.#sharedHeight = message.height
        return this.#sharedHeightListeners.forEach(go => go())
      case 'told':
        return this.#pendingReplies.get(message.id)?.(message.height)
    }
  }

  /** Whoever has the same to ask meanwhile gets the same answer. */
  #requestHeight(upstream: string, height: number): Promise<number> {
    const requestKey = `${height} ${upstream}`
    const request =
      this.#heightRequests.get(requestKey) ??
      this.#requestFromPrimary(upstream, height).finally(() => this.#heightRequests.delete(requestKey))
    this.#heightRequests.set(requestKey, request)
    return request
  }

  #requestFromPrimary(upstream: string, height: number): Promise<number> {
    const { network, send } = this.#options
    const id = (this.#lastRequestId += 1)
    return this.#withPrimaryTimeout(
      go => {
        this.#pendingReplies.set(id, told => go(told))
        send({ kind: 'tell', id, network, upstream, height })
      },
      () => this.#snapshot.state.reportedHeight || height,
    ).finally(() => this.#pendingReplies.delete(id))
  }

  #whenShared(reportedHeight: number): Promise<number> {
    let go = () => {}
    return this.#withPrimaryTimeout(
      settle => {
        go = () => {
          if (this.#sharedHeight >= reportedHeight) settle(reportedHeight)
        }
        this.#sharedHeightListeners.add(go)
      },
      () => reportedHeight,
    ).finally(() => this.#sharedHeightListeners.delete(go))
  }

  /** Callers do not wait for a primary, or another worker, that is busy with something else. */
  #withPrimaryTimeout(begin: (settle: (height: number) => void) => void, fallback: () => number): Promise<number> {
    let timer: Timer | undefined
    return new Promise<number>(resolve => {
      timer = this.#options.clock.after(primaryTimeoutMs, () => resolve(fallback()))
      begin(resolve)
    }).finally(() => timer?.cancel())
  }
}

const toRevealedTarget = ({ url, ws, ...rest }: Target): RevealedTarget => ({
  ...rest,
  url: url.reveal(),
  ...(ws !== undefined && { ws: ws.reveal() }),
})
