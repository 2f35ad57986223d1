import type { HeadNews } from './news.ts'
import { openHeads } from './polled.ts'
import type { HeadsSettings } from './polled.ts'
import type { Heads } from './view.ts'

/** Makes the heads of networks: of nodes that this process asks itself, or that another one asks for it. */
export interface HeadsSource {
  open(network: string, settings: HeadsSettings): Heads
  /** Resolves, and soon, once those that follow nodes know what is known elsewhere. */
  ready(): Promise<void>
}

/** Who else tells callers heights of this network. */
export type NewsOf = (network: string, chainId: number) => readonly HeadNews[]

/** This process asks. */
export const openSource = (newsOf: NewsOf = () => []): HeadsSource => ({
  open: (network, settings) => openHeads({ ...settings, news: newsOf(network, settings.chainId) }),
  ready: async () => undefined,
})
