import type { MaybePromise } from '../util/async.ts'
import type { RequestLogSetting } from '../plugin/call.ts'

/** By the setting of the operator or of the account; of a method that the table does not have; of one that sends transactions. */
export type ParamsOmission = 'setting' | 'unknownMethod' | 'transaction'

/** A call that has ended, as its account may see it: no key, and nothing of a result. It is stored as JSON. */
export interface LoggedRequest {
  /** When it ended, in ms since 1970. */
  readonly time: number
  /** As X-Request-Id has it: the calls of a batch, and those of a WebSocket, share it. */
  readonly requestId: string
  readonly transport: string
  /** Id of the API key. */
  readonly key: string
  readonly network: string
  /** As the caller wrote it. */
  readonly method: string
  /** JSON text in ASCII. */
  readonly params?: string
  /** Why the parameters of the call are not stored. */
  readonly paramsOmitted?: ParamsOmission
  /** The end of `params` is missing: they are longer than 1 KiB. */
  readonly isCut?: true
  /** `ok`, or the kind of the failure. */
  readonly outcome: string
  /** Of a failure. */
  readonly code?: number
  readonly message?: string
  /** What the error of a node means. */
  readonly category?: string
  /** Of a method that the network does not have: the one that was probably meant. */
  readonly meant?: string
  readonly credits: number
  readonly durationMs: number
  readonly isSlow?: true
  readonly cache?: 'hit' | 'miss'
  /** Requests to nodes. */
  readonly attempts?: number
  /** Name of the node or partner, as X-Tollgate-Upstream has it. */
  readonly upstream?: string
}

/** A request as it is read. */
export interface StoredRequest extends LoggedRequest {
  /** Unique. */
  readonly id: string
}

/** A request that was looked for, and whose it is. */
export interface FoundRequest extends StoredRequest {
  readonly account: string
}

/** The newest requests of all accounts. */
export interface LatestRequests {
  /** The newest first. */
  readonly requests: readonly FoundRequest[]
  /** All requests from then on were looked at, in ms since 1970. */
  readonly readFrom: number
}

interface LatestRequestsOptions {
  /** Milliseconds since 1970: requests from then on. */
  readonly since: number
  /** Requests before then; undefined: up to now. What was written more than ten minutes later is not looked at. */
  readonly until?: number | undefined
  readonly limit: number
  isWanted(request: StoredRequest): boolean
}

/** Requests of several accounts that are written together. */
export interface RequestBatch {
  /** Unique. A batch that has been written is not written again. */
  readonly id: string
  readonly accounts: readonly { readonly account: string; readonly requests: readonly LoggedRequest[] }[]
}

/** What a caller has got in place of the response of a request that is written. */
export interface Amendment extends Pick<LoggedRequest, 'outcome' | 'code' | 'message' | 'credits'> {
  readonly account: string
  /** The id of its batch, and its position among the requests of the account. */
  readonly batch: string
  readonly position: number
}

interface RequestLogLimits {
  readonly retentionMs: number
  /** Of all accounts together. */
  readonly maxBytes: number
}

/** The last requests of each account. They are written and dropped by spans of ten minutes. */
export interface RequestLogStore {
  /** Where the log is full, the oldest requests of all accounts make room. */
  addRequests(batch: RequestBatch, limits: RequestLogLimits): Promise<void>
  amendRequests(amendments: readonly Amendment[]): Promise<void>
  /** Drops what is older than the retention; of these accounts also the oldest above `maxRequestsPerAccount`. */
  sweepRequests(limits: RequestLogLimits, accounts: Iterable<string>): Promise<void>
  /** The newest first. */
  requests(account: string): MaybePromise<readonly StoredRequest[]>
  /** Those of all accounts with this request id, at most `maxFoundRequests`; the newest first. Reads their ids, and the batches that have this one, in parts. */
  findRequests(requestId: string): Promise<readonly FoundRequest[]>
  /** Of all accounts, at most `limit`. Reads no more than it needs, and `maxReadRequests` or few more, in parts. */
  latestRequests(options: LatestRequestsOptions): Promise<LatestRequests>
  dropRequests(account: string): Promise<void>
  /**
   * What is stored of the account's requests from now on, whatever their processes knew when they logged them; all where undefined. Where that is less, what
   * was stored before is dropped.
   */
  limitRequests(account: string, setting: RequestLogSetting | undefined): Promise<void>
}

export const maxRequestsPerAccount = 10_000

/** A WebSocket has one request id for all its calls. */
export const maxFoundRequests = 100

export const maxReadRequests = 20_000

export const requestSpanMs = 600_000
