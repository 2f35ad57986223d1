import type { Signal, Target } from '../../plugin/call.ts'
import type { MaybePromise, Semaphore } from '../../util/async.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { MethodTable } from '../method-table/index.ts'
import type { Metrics } from '../metrics.ts'
import type { ExclusionReason } from '../node-reasons.ts'
import type { NodeStatusReports } from '../node-status.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import type { Feeds } from './feeds/block-feed.ts'
import type { BlockId, RecentBlocks } from './recent-blocks.ts'
import type { HeightBroadcast } from './reported-height.ts'
import type { ReportedTags, TagState, TagTrackerOptions } from './reported-tags.ts'

/** The newest block that an upstream has reported: polls and the subscription return a block, an answer to a caller contains a height alone. */
export type Head = BlockHead | HeightHead

interface BlockHead extends BlockId {
  /** ms since 1970. */
  readonly timestampMs?: number
}

interface HeightHead {
  readonly number: number
  readonly hash?: never
  readonly timestampMs?: never
}

/** `pending`: the chain ID has been requested. `failed`: the upstream is on another chain, or has not returned a chain ID. */
export type ChainCheckResult = 'pending' | 'passed' | 'failed'

/** Whether an upstream is on the chain of the network, as of now. */
export interface ChainCheck {
  readonly result: ChainCheckResult
}

export interface Exclusion {
  readonly reason: ExclusionReason
  /** For the log and `/readyz?verbose`: the chain ID, or the distance in blocks. */
  readonly description: string
  /** Why it returned no chain ID. */
  readonly cause?: string | undefined
}

/** The state of a network's chain at one moment. Plain data: the primary sends it to its workers. */
export interface ChainState {
  /** The newest plausible head. */
  readonly head?: Head
  /** The newest finalized block of any upstream. */
  readonly finalized?: BlockId
  /** How often finalized blocks were reverted. */
  readonly finalityVersion: number
  /** The height that callers are given; 0 on a development node. */
  readonly reportedHeight: number
  readonly upstreams: readonly UpstreamState[]
}

export interface UpstreamState {
  readonly name: string
  /** See fingerprintOf(). */
  readonly fingerprint: string
  readonly chainCheck: ChainCheckResult
  readonly head?: Head
  /** The newest finalized block of this upstream, as long as its head is plausible. */
  readonly finalized?: BlockId
  readonly isSubscribed: boolean
  readonly exclusion?: Exclusion
  /** Why it does not answer. */
  readonly failure?: string
}

/** The chain at one moment, for calls. It never changes: take it before a request is sent, and check the response against it. */
export interface ChainSnapshot {
  /** Increases with every other head, every other reported height and every change of a node's state: responses that may change belong to one version. */
  readonly headVersion: number
  /** Increases when finalized blocks are reverted, for example when a development chain is reset. */
  readonly finalityVersion: number
  /** The number of the newest plausible block; undefined before the first. */
  readonly head: number | undefined
  /** The height that callers are given. */
  readonly reportedHeight: number
  /** Has the upstream reported the newest head, and no caller a newer one? True for every upstream before the first head. */
  isCurrent(upstream: string | undefined): boolean
  /**
   * Has the upstream reported the block as finalized, and do replicas behind its URL have it, too? They are taken to be 3 s apart at most. A hash
   * is found only among the newest few hundred blocks.
   */
  isFinal(upstream: string | undefined, block: number | string): boolean
  /** The newest finalized block of the upstream; without an upstream, the newest of all upstreams. */
  finalizedBlockOf(upstream?: string): BlockId | undefined
}

/** The newest and the finalized block of a network, as its upstreams report them. One per network. */
export interface Heads {
  /** The chain as it is now. */
  readonly snapshot: ChainSnapshot
  /** ms between polls: half a block time, at least 250 and at most 5,000. */
  readonly pollIntervalMs: number
  /**
   * Polls these upstreams, and no others, while calls come in. Returns how to stop that. While a pipeline takes over from another,
   * both track: the later one counts, and when it stops the earlier one counts again. What is known of an upstream that both track stays.
   */
  track(targets: readonly Target[], options?: TrackOptions): () => void
  /** The upstreams that are tracked. */
  readonly targets: readonly Target[]
  /**
   * May a block have been reported to callers that this process does not know of? Then it answers nothing about the newest block from
   * memory, before sync(). Never true in the process that tracks the upstreams.
   */
  readonly mayLag: boolean
  /** Resolves with true when all is known that had been reported when this was called; with false when the primary does not answer. */
  sync(): Promise<boolean>
  /** A call has come in: the upstreams are polled for another 30 s. Costs nothing. */
  recordActivity(): void
  /**
   * When the upstream is tried, by its head: 0 while it is in step, 1 when it is known to be below `block`, 2 when it lags, and last, 3, when
   * it is implausibly high.
   */
  rankOf(upstream: string, block?: number): number
  /** Why the upstream is excluded, if it is. */
  exclusionOf(upstream: string): ExclusionReason | undefined
  /**
   * The check of the node at this target. Only a node that has passed it gets calls. A pipeline that is being replaced goes on
   * with what its nodes had passed.
   */
  chainCheckOf(target: Target): ChainCheck
  /**
   * Under which upstream it is reported what this node has answered: its name; '', that of none, where a reload has given the name to another node,
   * which may not have got so far.
   */
  reporterOf(target: Target): string
  /**
   * Records a height that the upstream, as reporterOf() names it, answered to a caller. Returns the height that callers may be given, which does not go
   * back. It is known at once, unless another process must acknowledge it first. On a development node it is what the upstream answered.
   * `hash`: of the block that the caller is told of.
   */
  reportHeight(upstream: string, height: number, hash?: string): MaybePromise<number>
  /**
   * Increases with every transaction that a node may have accepted from a caller: an answer that was requested before may
   * miss what the caller has just sent.
   */
  readonly transactionVersion: number
  /** A node may have accepted a transaction. Resolves, and soon, once every worker knows. */
  recordTransaction(): MaybePromise<void>
  /**
   * Does the upstream have the block? Without a number, and for a block above the reported height: does it have that height, so that no
   * block is left out that callers know? True for every upstream as long as nothing is known of any.
   */
  hasBlock(upstream: string, block?: number): boolean
  /** The newest block that a poll or the subscription of the upstream has returned; undefined where nothing but its height is known. */
  headOf(upstream: string): BlockId | undefined
  /** Does a block with this hash exist: one of the newest few hundred blocks of the chain, or one of the newest that callers were told of? */
  isKnownBlock(hash: string): boolean
  /** Resolves when one of the upstreams has the block, for which they are polled meanwhile; at the limit; or at once if none soon has. */
  waitForBlock(upstreams: readonly string[], block: number | undefined, limits: WaitLimits): Promise<void>
  /** What was reported of the blocks `safe` and `finalized`. */
  readonly tags: ReportedTags
  /** Is the block finalized on this chain? False, too, when no upstream can tell. May send a request. */
  verifyFinalized(block: BlockId): Promise<boolean>
  /** The blocks of the canonical chain, and their logs, as they come. */
  readonly feeds: Feeds
  /** For operators. */
  readonly status: HeadsStatus
}

export interface WaitLimits {
  readonly timeoutMs: number
  /** Whether the wait is over, as another upstream can be requested. Asked with each poll. */
  readonly isOver?: () => boolean
  readonly signal: Signal
}

export interface HeadsOptions {
  readonly chainId: number
  /** Usual ms between blocks. */
  readonly blockTime: number
  /** Callers take the chain back as they like: what its nodes say is the answer, and nothing is held against it that was reported before. */
  readonly devNode?: boolean
  readonly upstreamClient: UpstreamClient
  /** The nodes that operators have drained: they are sent eth_chainId and the polls of the newest block, and nothing else. None unless given. */
  readonly nodes?: Pick<NodeStatusReports, 'drained' | 'isDrainedKnown' | 'onDrained'>
  /** Of an error of a node to one of the requests that are sent here. */
  readonly errorCategory: MethodTable['errorCategory']
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics<'network'>
  /** Share the reported height with other processes. */
  readonly heightBroadcasts?: readonly HeightBroadcast[]
  /** Share what was reported of `safe` and `finalized` with gateways on other machines. */
  readonly tagBroadcasts?: TagTrackerOptions['broadcasts']
  /** Shared with the other networks of the process. */
  readonly pacing?: HeadsPacing
  /** Called when what was reported of these has changed. */
  readonly onTags?: (state: TagState) => void
  /** Called whenever the state or the recent blocks may have changed. */
  readonly onChange?: (state: ChainState, recentBlocks: RecentBlocks) => void
}

/** What keeps many networks from asking all of their upstreams in the same moment. */
export interface HeadsPacing {
  /** Checks of chains for which no call waits take turns. */
  readonly checkInTurn: Semaphore
  /** When the second poll of a network follows its first: a share of the interval, another one for each network. */
  nextPollPhase(): number
}

export interface TrackOptions {
  /** Blocks that the head of an upstream may lag before the upstream is excluded. */
  readonly maxLag?: number | undefined
}

/** The newest block that was seen, also while no upstream answers. Times are ISO 8601. */
export interface LastHead {
  readonly number: number
  /** When it was seen first. */
  readonly since: string
  /** When upstreams were last asked for the newest block, and answered. */
  readonly checkedAt: string
}

/** What `/readyz?verbose` reports. Times are those of the process that asks the upstreams. */
export interface HeadsStatus {
  readonly head?: number
  readonly finalized?: number
  readonly lastHead?: LastHead
  /** Upstreams answer, but there has been no new block for far longer than usual. */
  readonly stalled?: true
  /** The head was not looked at lately, as no calls come in. */
  readonly idle?: true
  readonly upstreams: readonly {
    readonly name: string
    readonly head?: number
    /** Its heads come over a newHeads subscription. */
    readonly subscribed?: true
    /** False: it gets no calls, or only those that no other upstream can answer. */
    readonly usable: boolean
    /** Why it is not usable. */
    readonly because?: string
    /** ISO 8601. */
    readonly unusableSince?: string
    /** It does not answer the requests about its chain: its head is that of the last answer. */
    readonly unreachable?: true
    readonly lastHead?: LastHead
    /** The software that it runs, and its version, as far as it says, and an operator has looked. */
    readonly client?: string
  }[]
}
