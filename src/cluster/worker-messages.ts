import type { PartialProblem } from '../config/problem.ts'
import type { Target } from '../plugin/call.ts'
import { Secret } from '../plugin/secret.ts'
import type { ChainState, FeedKind, FeedUpdate, FinalityTag, RecentBlocksChange, TagState } from '../services/chain-heads/index.ts'
import type { AccessLogSettings } from '../services/access-log.ts'
import type { Clock } from '../services/clock.ts'
import type { LogLevel } from '../services/log-settings.ts'
import type { MetricFamily } from '../services/metrics.ts'
import type { NodeStatus } from '../services/node-status.ts'
import { revealHeaders } from '../services/upstream-client/endpoint.ts'
import type { BucketState, TokenRequest } from '../services/rate-limits.ts'

/** A worker that does not acknowledge a message in time is not waited for. */
export const ackTimeoutMs = 50

/** A call in a worker waits no longer for the primary, or for the acknowledgments of other workers. */
export const primaryTimeoutMs = 50

/** The environment variable in which the primary gives its workers the RPC port: the configured port may be 0. */
export const rpcPortVariable = 'TOLLGATE_RPC_PORT'

/** From a worker to the primary. */
export type WorkerMessage =
  /** It accepts calls. `configId` is that of its configuration. */
  | { readonly kind: 'ready'; readonly configId: string }
  /** Answers `prepareReload`: without problems the worker can commit. */
  | { readonly kind: 'reloadPrepared'; readonly id: number; readonly problems: readonly PartialProblem[] }
  /** Answers `metrics`. */
  | { readonly kind: 'metrics'; readonly id: number; readonly metrics: readonly MetricFamily[] }
  /** Answers `nodes`. */
  | { readonly kind: 'nodes'; readonly id: number; readonly nodes: readonly NodeStatus[] }
  /** Answers `accessLog` and `reopenAccessLog`; with a problem nothing has changed. */
  | { readonly kind: 'accessLogSet'; readonly id: number; readonly problem?: string }
  /** It sends calls to these upstreams, and needs their heads. */
  | { readonly kind: 'track'; readonly network: string; readonly upstreams: UpstreamsToTrack }
  | { readonly kind: 'untrack'; readonly network: string }
  /** It is to stop, and holds new connections. To be answered with `listeningEnded`. */
  | { readonly kind: 'endListening' }
  /** Calls come in. */
  | { readonly kind: 'activity'; readonly network: string }
  /** To be answered with `tokens`. */
  | TakeTokens
  /** To be answered with `synced`. */
  | { readonly kind: 'sync'; readonly network: string; readonly id: number }
  /** Calls wait for upstreams that are below the reported height. */
  | { readonly kind: 'pollLagging'; readonly network: string }
  /** An upstream has answered this block to a caller; or a node may have accepted a transaction from one. To be answered with `reported`. */
  | (ReportIds & { readonly kind: 'report'; readonly block: number })
  /** Answers `reports`: its callers are given nothing older any more. */
  | { readonly kind: 'reportsAck'; readonly network: string; readonly version: number }
  /** Its callers need what the feed publishes from now on; in a `run` that has begun, all that it has by now. To be answered in `feed`. */
  | { readonly kind: 'startFeed'; readonly network: string; readonly feed: FeedKind; readonly id: number; readonly run: number }
  | { readonly kind: 'stopFeed'; readonly network: string; readonly feed: FeedKind }

/** What holds for all workers, those that are started later included. */
export type WorkerSetting =
  | { readonly kind: 'logLevel'; readonly level: LogLevel }
  /** To be answered with `accessLogSet`. */
  | { readonly kind: 'accessLog'; readonly id: number; readonly settings: AccessLogSettings }

/** `most`: as many as the worker takes for later calls too. */
export type TakeTokens = { readonly kind: 'takeTokens'; readonly id: number; readonly request: TokenRequest; readonly most: number }

/** From the primary to a worker. A kind without a network concerns the whole process. */
export type PrimaryMessage =
  /** To be answered with `metrics`. */
  | { readonly kind: 'metrics'; readonly id: number }
  /** To be answered with `nodes`. */
  | { readonly kind: 'nodes'; readonly id: number }
  /** Read the files, whose configuration must have this id, and start what has changed beside what runs. */
  | { readonly kind: 'prepareReload'; readonly id: number; readonly configId: string }
  /** Serve what was prepared, or abandon it. */
  | { readonly kind: 'endReload'; readonly id: number; readonly isCommitted: boolean }
  /** Answers `takeTokens`: with none, there are enough after `waitMs`. */
  | { readonly kind: 'tokens'; readonly id: number; readonly granted: number; readonly waitMs: number; readonly state: BucketState }
  /** Still serves for `graceMs`, as Gateway.stop() does. */
  | { readonly kind: 'stop'; readonly graceMs: number }
  /** Answers `endListening`: the worker has all connections that it will get. */
  | { readonly kind: 'listeningEnded' }
  | WorkerSetting
  /** The access log is to be opened anew under its name; to be answered with `accessLogSet`. */
  | { readonly kind: 'reopenAccessLog'; readonly id: number }
  /** The state of the chain, and the change of its recent blocks. */
  | { readonly kind: 'snapshot'; readonly network: string; readonly state: ChainState; readonly recentBlocks?: RecentBlocksChange }
  /** The newest reports; to be answered with `reportsAck`. */
  | { readonly kind: 'reports'; readonly network: string; readonly reports: Reports }
  /** All workers have acknowledged this version: callers may be given what it has. */
  | { readonly kind: 'shared'; readonly network: string; readonly version: number }
  /** Answers `sync`: what had been reported when it came, even if an older message with it has been superseded. */
  | { readonly kind: 'synced'; readonly network: string; readonly id: number; readonly reports: Reports }
  /** Answers `report` when every worker knows: with the height that callers may be given. */
  | (ReportIds & { readonly kind: 'reported'; readonly height: number })
  /** What has come of a run of the feed. */
  | {
      readonly kind: 'feed'
      readonly network: string
      readonly feed: FeedKind
      readonly run: number
      readonly steps: readonly WorkerFeedStep[]
    }

/** What a feed has published; its end, as updates would be missing; or the answer to `startFeed`: each later update follows, unless no upstream answers. */
export type WorkerFeedStep = FeedUpdate | 'ended' | FeedStarted

export interface FeedStarted {
  readonly id: number
  readonly isStarted: boolean
}

/** What callers of all workers have been told of one network, and have sent to its nodes. */
export interface Reports {
  /** Increases with each change. */
  readonly version: number
  /** The reported height. */
  readonly height: number
  readonly tags: TagState
  /** How many transactions nodes may have accepted. */
  readonly transactions: number
}

/** What a report is about: the block that a tag names, or a transaction. */
export type ReportSubject = 'latest' | FinalityTag | 'transaction'

/** One report, or several of a subject and an upstream that have become one. */
interface ReportIds {
  readonly network: string
  readonly subject: ReportSubject
  readonly upstream: string
  readonly firstId: number
  readonly id: number
}

/** The part of PrimaryMessage that concerns one network. */
export type NetworkMessage = Extract<PrimaryMessage, { readonly network: string }>

/** The upstreams of a network, and what is needed to track them. */
export interface UpstreamsToTrack {
  readonly chainId: number
  readonly blockTime: number
  readonly devNode?: boolean
  readonly maxLag?: number
  readonly targets: readonly RevealedTarget[]
}

/** A target with its URLs and headers in plain text: only for messages between processes of one gateway. */
export type RevealedTarget = Omit<Target, 'url' | 'ws' | 'headers'> & {
  readonly url: string
  readonly ws?: string
  readonly headers?: Readonly<Record<string, string>>
}

export const toRevealedTarget = ({ url, ws, headers, ...rest }: Target): RevealedTarget => ({
  ...rest,
  url: url.reveal(),
  ...(headers && { headers: revealHeaders(headers) }),
  ...(ws !== undefined && { ws: ws.reveal() }),
})

export const toTarget = ({ url, ws, headers, ...rest }: RevealedTarget): Target => ({
  ...rest,
  url: new Secret(url),
  ...(headers && { headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, new Secret(value)])) }),
  ...(ws !== undefined && { ws: new Secret(ws) }),
})

/** What a worker needs to ask the primary about one network. */
export interface NetworkChannel {
  readonly network: string
  readonly clock: Clock
  send(message: WorkerMessage): void
}

/** The primary's way to one worker. */
export interface WorkerChannel {
  send(message: PrimaryMessage): void
}
