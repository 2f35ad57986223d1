import type { Target } from '../../plugin/call.ts'

/** A block that is told apart from any other of its number. */
export interface BlockId {
  readonly number: number
  readonly hash: string
}

/** What is known of the chain at one moment. Never changes: take it before a node is asked, to judge its answer by. */
export interface ChainSnapshot {
  /** Goes up whenever another head becomes known: answers that may change are about the epoch they were asked in. */
  readonly headVersion: number
  /** Goes up when final blocks were undone, as on a development chain that was reset. */
  readonly finalityVersion: number
  /** The number of the newest block that is believed; undefined while none is known. */
  readonly head: number | undefined
  /** Had the node told of the newest head? True for all while no head is known. */
  isCurrent(upstream: string | undefined): boolean
  /** Did the node count the block as final? By its hash only when the block is among the newest few hundred. */
  isFinal(upstream: string | undefined, block: number | string): boolean
  /** The newest block that the node counted as final; without a node, that any of them did. */
  finalizedBlockOf(upstream?: string): BlockId | undefined
}

/** The newest and the finalized block of a network, learned from its own nodes. One per network. */
export interface Heads {
  readonly snapshot: ChainSnapshot
  /** ms between polls: half a block time, at least 250 and at most 5,000. */
  readonly pollIntervalMs: number
  /** Polls these nodes instead of others, while calls come in, until the function that it gives is called. */
  track(targets: readonly Target[], options?: TrackOptions): () => void
  /** A call is on its way to a node: polls go on for another 30 s. Costs nothing. */
  recordActivity(): void
  /**
   * The nodes in order, those too far behind last, those of another chain left out, even if none is left. Before those
   * come the ones that are known not to have reached `block`: they would answer as if it were empty, or not there.
   */
  orderUpstreams<N extends { readonly name: string }>(upstreams: readonly N[], block?: number): readonly N[]
  /**
   * The node told this height; gives the height that callers may be told, which never goes back. Known at once, except
   * where another process must hear of it before a caller does.
   */
  reportHeight(upstream: string, height: number): number | Promise<number>
  /** Is the block final on this chain? False too while nobody can tell. A node may be asked. */
  verifyFinalized(block: BlockId): Promise<boolean>
  /** For operators. */
  readonly status: HeadsStatus
}

export interface TrackOptions {
  /** Blocks that a node may be behind. */
  readonly maxLag?: number | undefined
}

export interface HeadsStatus {
  readonly head?: number
  readonly finalized?: number
  readonly upstreams: readonly {
    readonly name: string
    readonly head?: number
    /** It tells of heads unasked. */
    readonly subscribed?: true
    readonly usable: boolean
    /** Why calls should not go there. */
    readonly because?: string
  }[]
}
