import { HeadTracker } from './head-tracker.ts'
import { openPacing } from './pacing.ts'
import type { Heads, HeadsOptions } from './heads-types.ts'
import type { HeightBroadcast } from './reported-height.ts'

export type {
  ChainCheck,
  ChainSnapshot,
  ChainState,
  Heads,
  HeadsOptions,
  HeadsPacing,
  HeadsStatus,
  LastHead,
  TrackOptions,
  WaitLimits,
} from './heads-types.ts'
export { SharedFeed, feedKinds } from './feeds/block-feed.ts'
export type {
  ChainUpdate,
  EventsUpdate,
  Feed,
  FeedBlock,
  FeedKind,
  FeedListener,
  Feeds,
  FeedSource,
  FeedSubscription,
  FeedUpdate,
} from './feeds/block-feed.ts'
export { CurrentChainState } from './current-chain-state.ts'
export { HeadTracker } from './head-tracker.ts'
export { RecentBlocks, maxRecentBlocks, mergeChanges } from './recent-blocks.ts'
export type { BlockId, LinkedBlock, RecentBlocksChange } from './recent-blocks.ts'
export type { HeightBroadcast, HeightListener } from './reported-height.ts'
export { TrackingStack } from './tracked-upstreams.ts'
export { finalityTags } from '../method-table/block-selector.ts'
export type { FinalityTag } from '../method-table/block-selector.ts'
export { KnownTags, WorkerTags } from './reported-tags.ts'
export type { ReportedTags, TagState } from './reported-tags.ts'
export { openPacing } from './pacing.ts'
export { fetchBlock, openUpstreamRequester } from './upstream-requests.ts'

/** Opens the heads of networks: tracked by this process, or received from the primary. */
export interface HeadsSource {
  open(network: string, options: HeadsOptions): Heads
  /** Resolves, and soon, once one upstream of each network may get calls, or none of its upstreams answers as it should. */
  ready(): Promise<void>
  /** Asks upstreams that no calls keep polled, and what those run of which it is not known. Resolves, and soon, when the status of all heads is that of now. */
  refresh(): Promise<void>
}

/** The broadcasts that share the reported height of this network with other gateways. */
export type HeightBroadcastsOf = (network: string, chainId: number) => readonly HeightBroadcast[]

/** The same for what was reported of `safe` and `finalized`. */
export const tagBroadcastsOf = (heightBroadcastsOf: HeightBroadcastsOf, network: string, chainId: number) => ({
  safe: heightBroadcastsOf(`${network} safe`, chainId),
  finalized: heightBroadcastsOf(`${network} finalized`, chainId),
})

/** Heads that this process tracks itself. */
export const openHeadsSource = (heightBroadcastsOf: HeightBroadcastsOf = () => []): HeadsSource => {
  const opened = new Set<HeadTracker>()
  const pacing = openPacing()
  return {
    open(network, options) {
      const { chainId } = options
      const heightBroadcasts = heightBroadcastsOf(network, chainId)
      const tagBroadcasts = tagBroadcastsOf(heightBroadcastsOf, network, chainId)
      const heads: OpenedTracker = new OpenedTracker({ ...options, heightBroadcasts, tagBroadcasts, pacing }, () => opened.delete(heads))
      opened.add(heads)
      return heads
    },
    refresh: async () => void (await Promise.all(Array.from(opened, heads => heads.refresh()))),
    ready: async () => void (await Promise.all(Array.from(opened, heads => heads.whenChainChecked()))),
  }
}

class OpenedTracker extends HeadTracker {
  /** Called when no pipeline has these heads any more. */
  readonly close: () => void

  constructor(options: HeadsOptions, close: () => void) {
    super(options)
    this.close = close
  }
}
