import type { HeadNews } from './news.ts'
import { openHeads } from './polled.ts'
import type { HeadsSettings, OwnHeads } from './polled.ts'
import type { Heads } from './view.ts'

/** Makes the heads of networks: of nodes that this process asks itself, or that another one asks for it. */
export interface HeadsSource {
  open(network: string, settings: HeadsSettings): Heads
  /** Resolves, and soon, once it is known which of the nodes that are followed are on another chain. */
  ready(): Promise<void>
}

/** Who else tells callers heights of this network. */
export type NewsOf = (network: string, chainId: number) => readonly HeadNews[]

/** This process asks. */
export const openSource = (newsOf: NewsOf = () => []): HeadsSource => {
  const opened: OwnHeads[] = []
  return {
    open(network, settings) {
      const heads = openHeads({ ...settings, news: newsOf(network, settings.chainId) })
      opened.push(heads)
      return heads
    },
    ready: async () => void (await Promise.all(opened.map(heads => heads.identified))),
  }
}
