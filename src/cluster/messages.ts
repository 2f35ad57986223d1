import type { Target } from '../plugin/call.ts'
import { mergeChanges, maxRecentBlocks } from '../services/chain-heads/index.ts'
import type { RecentBlocksChange, ChainState } from '../services/chain-heads/index.ts'
import type { MetricFamily } from '../services/metrics.ts'

/** What a worker tells the primary. */
export type WorkerMessage =
  | { readonly kind: 'ready' }
  /** Answers `metrics`. */
  | { readonly kind: 'metrics'; readonly id: number; readonly metrics: readonly MetricFamily[] }
  /** Its calls go to these nodes: it wants to know what they tell of their chain. */
  | { readonly kind: 'follow'; readonly network: string; readonly nodes: TrackedUpstreams }
  | { readonly kind: 'leave'; readonly network: string }
  /** Calls come in. */
  | { readonly kind: 'touch'; readonly network: string }
  /** A node told a caller a greater height than is known: may the caller be told it? */
  | { readonly kind: 'tell'; readonly id: number; readonly network: string; readonly upstream: string; readonly height: number }
  /** It will tell its callers no less than this height any more. */
  | { readonly kind: 'seen'; readonly network: string; readonly height: number }

/** What the primary tells a worker. */
export type PrimaryMessage =
  | { readonly kind: 'metrics'; readonly id: number }
  | { readonly kind: 'stop' }
  /** What is known of the chain, and what has changed of its newest blocks. */
  | { readonly kind: 'known'; readonly network: string; readonly state: ChainState; readonly line?: RecentBlocksChange }
  /** Callers are told this height from now on; to be answered with `seen`. */
  | { readonly kind: 'height'; readonly network: string; readonly height: number }
  /** All workers have seen this height: callers may be told it. */
  | { readonly kind: 'shared'; readonly network: string; readonly height: number }
  /** Answers `tell`. */
  | { readonly kind: 'told'; readonly network: string; readonly id: number; readonly height: number }

/** The nodes of a network, and what is needed to follow them. */
export interface TrackedUpstreams {
  readonly chainId: number
  readonly blockTime: number
  readonly maxLag?: number
  readonly targets: readonly RevealedTarget[]
}

/** A target on its way between processes of one gateway: the URLs stand open in it. */
export type RevealedTarget = Omit<Target, 'url' | 'ws'> & { readonly url: string; readonly ws?: string }

/** Of messages of one topic only the newest counts, with what `newest` keeps of those before it. */
export const topicOf = (message: PrimaryMessage | WorkerMessage): string => {
  switch (message.kind) {
    case 'tell':
      return `tell ${message.network} ${message.upstream}`
    case 'told':
      return `told ${message.network} ${message.id}`
    case 'follow':
    case 'leave':
      return `nodes ${message.network}`
    default:
      return 'network' in message ? `${message.kind} ${message.network}` : message.kind
  }
}

/** The newer of two messages of one topic; what changed in the line of blocks is what has changed since before the older. */
export const coalesceMessages = <M extends PrimaryMessage | WorkerMessage>(older: M, newer: M): M => {
  if (older.kind !== 'known' || newer.kind !== 'known' || older.line === undefined) return newer
  return { ...newer, line: newer.line === undefined ? older.line : mergeChanges(older.line, newer.line, maxRecentBlocks) }
}
