import type { FileTexts } from '../config/config-files.ts'
import type { PartialProblem } from '../config/problem.ts'
import type { Target } from '../plugin/call.ts'
import { Secret } from '../plugin/secret.ts'
import { maxRecentBlocks, mergeChanges } from '../services/chain-heads/index.ts'
import type { ChainState, FeedKind, FeedUpdate, FinalityTag, RecentBlocksChange, TagState } from '../services/chain-heads/index.ts'
import type { AccessLogSettings } from '../services/access-log.ts'
import type { Clock } from '../services/clock.ts'
import type { LogLevel } from '../services/log-settings.ts'
import type { MetricFamily } from '../services/metrics.ts'
import type { NodeStatus } from '../services/node-status.ts'
import type { PluginProblem } from '../services/plugin-problems.ts'
import type { TokenRequest } from '../services/rate-limits.ts'
import type { TlsTexts } from '../services/tls-files.ts'
import type { TokenGrant } from '../services/remote-rate-limits.ts'
import type { ProcessTraffic } from '../services/traffic/process-traffic.ts'
import { revealHeaders } from '../services/upstream-client/endpoint.ts'
import type { ChannelCall, ChannelTopic, QueueRules, Sender } from '../util/channel.ts'

/** A worker that does not acknowledge a message in time is not waited for. */
export const ackTimeoutMs = 50

/** A call in a worker waits no longer for the primary, or for the acknowledgments of other workers. */
export const primaryTimeoutMs = 50

/** A call that would be refused for want of credits waits no longer for those that other workers hold. */
export const recallTimeoutMs = 500

/** The environment variable in which the primary gives its workers the RPC port: the configured port may be 0. */
export const rpcPortVariable = 'TOLLGATE_RPC_PORT'

/** From a worker to the primary. */
export interface ToPrimary {
  /** It accepts calls. The ID is that of its configuration. */
  readonly ready: ChannelTopic<{ readonly configId: string }>
  /** It ends before it is ready; the reason is for the operator. */
  readonly startFailed: ChannelCall<{ readonly reason: string }, void>
  /** Asked by a worker that starts: it reads no files of the configuration itself, as these may have changed, and may have problems. */
  readonly configuration: ChannelCall<undefined, StartConfiguration>
  /** `most`: as many as the worker takes for later calls too. */
  readonly takeTokens: ChannelCall<{ readonly request: TokenRequest; readonly most: number }, TokenGrant>
  /** It has too few credits of the account for a call. Replied when the other workers have returned those that they do not use. */
  readonly recallCredits: ChannelCall<OfAccount, void>
  /** It sends calls to these upstreams, and needs their heads; without upstreams no longer. */
  readonly track: ChannelTopic<InNetwork & { readonly upstreams?: UpstreamsToTrack }>
  /** The upstreams that operators have drained, as the worker knows. */
  readonly drained: ChannelTopic<InNetwork & { readonly names: readonly string[] }>
  /** Calls come in. */
  readonly activity: ChannelTopic<InNetwork>
  /** Calls wait for upstreams that are below the reported height. */
  readonly pollLagging: ChannelTopic<InNetwork>
  /** Replied behind all that had been reported before. */
  readonly sync: ChannelCall<InNetwork, void>
  /** Replied when every worker knows: with the height that callers may be given. */
  readonly report: ChannelCall<InNetwork & Report, number>
  /** Its callers need what the feed publishes behind the reply, unless that is false; in a `run` that has begun, all that it has by now comes before it. */
  readonly startFeed: ChannelCall<WorkerFeedRun, boolean>
  readonly stopFeed: ChannelTopic<InNetwork & { readonly feed: FeedKind }>
}

/** What all workers are to have. */
export interface SharedConfiguration {
  readonly configId: string
  readonly texts: FileTexts
}

export interface StartConfiguration extends Pick<SharedConfiguration, 'texts'> {
  /** The files with which the gateway was started: until a restart, some of gateway.yaml stays in force. */
  readonly startedWith: FileTexts
  /** What is served, where the listener of calls has TLS. */
  readonly tlsTexts?: TlsTexts | undefined
}

/** From the primary to a worker. */
export interface ToWorker {
  readonly metrics: ChannelCall<undefined, readonly MetricFamily[]>
  readonly nodes: ChannelCall<undefined, readonly NodeStatus[]>
  readonly problems: ChannelCall<undefined, readonly PluginProblem[]>
  readonly traffic: ChannelCall<undefined, ProcessTraffic>
  /** Another worker needs the credits of the account that this one has leased and does not use. Replied when the store has them. */
  readonly returnCredits: ChannelCall<OfAccount, void>
  readonly logLevel: ChannelTopic<{ readonly level: LogLevel }>
  /** With a problem nothing has changed. */
  readonly accessLog: ChannelCall<AccessLogSettings, WorkerProblem>
  /** Opens the access log anew under its name. */
  readonly reopenAccessLog: ChannelCall<undefined, WorkerProblem>
  /** Starts what has changed beside what runs. Without problems it can commit. */
  readonly prepareReload: ChannelCall<{ readonly id: number } & SharedConfiguration, readonly PartialProblem[]>
  /** Serves what was prepared, or abandons it. */
  readonly endReload: ChannelTopic<{ readonly id: number; readonly isCommitted: boolean }>
  /** Still serves, for `graceMs`, while callers move to other gateways. */
  readonly lameDuck: ChannelTopic<{ readonly graceMs: number }>
  /** It has all connections that it will get: finishes its calls, and exits. */
  readonly stop: ChannelTopic<undefined>
  /** The state of the chain, and the change of its recent blocks. */
  readonly snapshot: ChannelTopic<InNetwork & { readonly state: ChainState; readonly recentBlocks?: RecentBlocksChange }>
  /** The newest reports. Replied when its callers are given nothing older any more. */
  readonly reports: ChannelCall<InNetwork & { readonly reports: Reports }, void>
  /** All workers have acknowledged this version of the reports: callers may be given what it has. */
  readonly shared: ChannelTopic<InNetwork & { readonly version: number }>
  /** What has come of a run of the feed. */
  readonly feed: ChannelTopic<WorkerFeedRun & { readonly steps: readonly WorkerFeedStep[] }>
}

/** The primary's way to one worker. */
export type WorkerChannel = Sender<ToWorker>

/** What a worker needs to ask the primary about one network. */
export interface NetworkChannel {
  readonly network: string
  readonly clock: Clock
  readonly primary: Sender<ToPrimary>
}

interface InNetwork {
  readonly network: string
}

/** An account, or a key with a daily limit of its own. */
interface OfAccount {
  readonly account: string
}

/** A feed that a worker needs, from one of its starts to the next. */
export interface WorkerFeedRun extends InNetwork {
  readonly feed: FeedKind
  readonly run: number
}

/** What a feed has published; or its end, as updates would be missing. */
export type WorkerFeedStep = FeedUpdate | 'ended'

export interface WorkerProblem {
  readonly problem?: string
}

/** What callers of all workers have been told of one network, and have sent to its nodes. */
export interface Reports {
  /** Increases with each change. */
  readonly version: number
  /** The reported height. */
  readonly height: number
  readonly tags: TagState
  /** The versions with which these changed. */
  readonly changed: { readonly height: number; readonly tags: number }
  /** How many transactions nodes may have accepted. */
  readonly transactions: number
}

/** An upstream has answered this block to a caller; or a node may have accepted a transaction from one. */
export interface Report {
  /** The tag that names the block. */
  readonly subject: 'latest' | FinalityTag | 'transaction'
  readonly upstream: string
  /** Of the node that has answered, see fingerprintOf(): while workers prepare a reload, another worker may have another node of that name. */
  readonly fingerprint?: string | undefined
  readonly block: number
}

const perFeed = { key: ({ network, feed }: Pick<WorkerFeedRun, 'network' | 'feed'>) => `${network} ${feed}` }
const perAccount = { key: ({ account }: OfAccount) => account }
const perId = { key: ({ id }: { readonly id: number }) => id }

export const toPrimaryRules: QueueRules<ToPrimary> = {
  // A worker asks for a bucket again when the request before has been answered, or is no longer waited for.
  takeTokens: { key: ({ request }) => request.bucket },
  recallCredits: perAccount,
  report: {
    key: ({ network, subject, upstream, fingerprint }) => `${network} ${subject} ${upstream} ${fingerprint}`,
    merge: (older, newer) => ({ ...newer, block: Math.max(older.block, newer.block) }),
  },
  startFeed: perFeed,
  stopFeed: perFeed,
}

export const toWorkerRules: QueueRules<ToWorker> = {
  returnCredits: perAccount,
  prepareReload: perId,
  endReload: perId,
  // Without a gap in the recent blocks.
  snapshot: {
    merge: (older, newer) => {
      const [before, after] = [older.recentBlocks, newer.recentBlocks]
      const recentBlocks = before && after ? mergeChanges(before, after, maxRecentBlocks) : (after ?? before)
      return { ...newer, ...(recentBlocks && { recentBlocks }) }
    },
  },
  // Another run does not hide the end of the one before: a reload opens the heads of a network beside those that are served.
  feed: {
    key: ({ network, feed, run }) => `${network} ${feed} ${run}`,
    merge: (older, newer) => ({ ...newer, steps: joinSteps(older.steps, newer.steps) }),
  },
}

/** Blocks, and events that stand for themselves, that wait for a worker, at most: with more its feed ends. */
const maxWaitingBlocks = 512
const maxWaitingEvents = 10_000

const joinSteps = (older: readonly WorkerFeedStep[], newer: readonly WorkerFeedStep[]): readonly WorkerFeedStep[] => {
  const steps = [...older, ...newer]
  const updates = steps.filter(step => step !== 'ended')
  const blockCount = sumOf(updates, step => ('added' in step ? step.removed.length + step.added.length : 0))
  const eventCount = sumOf(updates, step => ('events' in step ? step.events.length : 0))
  const isComplete = blockCount <= maxWaitingBlocks && eventCount <= maxWaitingEvents && !steps.includes('ended')
  return isComplete ? steps : ['ended']
}

const sumOf = (updates: readonly FeedUpdate[], countOf: (update: FeedUpdate) => number): number =>
  updates.reduce((sum, update) => sum + countOf(update), 0)

/** The upstreams of a network, and what is needed to track them. */
export interface UpstreamsToTrack {
  readonly chainId: number
  readonly blockTime: number
  readonly devNode?: boolean
  readonly maxLag?: number
  readonly targets: readonly RevealedTarget[]
}

/** A target with its URLs and headers in plain text: only for messages between processes of one gateway. */
type RevealedTarget = Omit<Target, 'url' | 'ws' | 'headers'> & {
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
