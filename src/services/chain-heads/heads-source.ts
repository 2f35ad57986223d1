import type { HeightBroadcast } from './height-broadcast-types.ts'
import { openHeads } from './head-tracker.ts'
import type { HeadsOptions, TrackedHeads } from './head-tracker.ts'
import type { Heads } from './chain-snapshot.ts'

/** Makes the heads of networks: of nodes that this process asks itself, or that another one asks for it. */
export interface HeadsSource {
  open(network: string, settings: HeadsOptions): Heads
  /** Resolves, and soon, once it is known which of the nodes that are followed are on another chain. */
  ready(): Promise<void>
}

/** Who else tells callers heights of this network. */
export type HeightBroadcastsOf = (network: string, chainId: number) => readonly HeightBroadcast[]

/** This process asks. */
export const openHeadsSource = (heightBroadcastsOf: HeightBroadcastsOf = () => []): HeadsSource => {
  const opened: TrackedHeads[] = []
  return {
    open(network, options) {
      const heads = openHeads({ ...options, heightBroadcasts: heightBroadcastsOf(network, options.chainId) })
      opened.push(heads)
      return heads
    },
    ready: async () => void (await Promise.all(opened.map(heads => heads.chainIdsChecked))),
  }
}
