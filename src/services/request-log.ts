import { randomBytes } from 'node:crypto'
import { refusals } from '../plugin/error-table.ts'
import type { RefusalKind } from '../plugin/error-table.ts'
import type { Call, Json } from '../plugin/call.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import { requestSpanMs } from '../store/request-log-store.ts'
import type { Amendment, LoggedRequest, ParamsOmission, RequestBatch, RequestLogStore } from '../store/request-log-store.ts'
import { storeTimeoutMs } from '../store/store.ts'
import { singleFlight, withTimeout } from '../util/async.ts'
import { cutJson } from '../util/cut-json.ts'
import { cutAndMaskKeys, maskKeys } from '../util/key-mask.ts'
import { isJsonObject } from '../util/json.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { Clock, Timer } from './clock.ts'
import type { Method } from './method-table/index.ts'
import { TokenBuckets } from './rate-limits.ts'
import type { Rate } from './rate-limits.ts'

/** `requestLog` of gateway.yaml. */
export interface RequestLogConfig {
  readonly enabled: boolean
  /** Are parameters stored? */
  readonly params: boolean
  /** From this duration on a call is slow, in ms. */
  readonly slow: number
  readonly retention: number
  readonly maxBytes: number
}

/** A call that has ended. */
export interface EndedCall {
  readonly call: Call<'request' | 'account' | 'key'>
  readonly reply: Reply
  /** Of the method table; undefined for a method that the table does not have. */
  readonly method: Method | undefined
  readonly network: string
  readonly credits: number
  /** By the monotonic clock. */
  readonly endedAtMs: number
}

/** It may still change. */
type UnwrittenRequest = { -readonly [Name in keyof LoggedRequest]: LoggedRequest[Name] }

/** A request that was logged. */
export interface OfferedRequest {
  readonly account: string
  readonly request: UnwrittenRequest
  /** Undefined while it waits in memory. */
  written?: Pick<Amendment, 'batch' | 'position'>
}

/**
 * What is logged of the calls of one account with one outcome, in each process: of failed and of slow calls, and of those that ask for it, those
 * that fit the bucket, of others a sample. A flood of one error hides no other one.
 */
const failureRate: Rate = { perSecond: 1 / 20, burst: 200 }
const sampleRate: Rate = { perSecond: 1 / 60, burst: 10 }

/** With the value `always`, a call that succeeds is logged as a failed one is. */
const logHeader = 'tollgate-log'

const maxParamsBytes = 1_024
const maxMessageChars = 256
const maxMethodChars = 100
/** Of a request, besides its parameters and its message. */
const requestBytes = 512
/** While the store is unreachable, the oldest requests make room. */
const maxPendingBytes = 2_097_152
/** A store takes a batch in one atomic step. */
const maxBatchBytes = 65_536
/** While more waits, no sample is taken: of thousands of accounts most samples would be dropped again, and failures with them. */
const maxBytesBeforeSamples = 4 * maxBatchBytes
const flushIntervalMs = 1_000
/** The oldest make room. */
const maxAmendments = 1_000

/** The requests of accounts for their page Requests, which wait in memory until the store has them. A process that is killed loses what waits. */
export class RequestLog {
  readonly #store: RequestLogStore
  readonly #clock: Clock
  /** By what is logged of an account's calls: the buckets have the ids of accounts as names, which are there anyway. */
  readonly #bucketsByKind = new Map<string, TokenBuckets>()
  readonly #process = randomBytes(8).toString('hex')
  #config: RequestLogConfig
  #pending: OfferedRequest[] = []
  #pendingBytes = 0
  #batches = 0
  /** Sent again unchanged until the store has it. */
  #unacknowledged: UnacknowledgedBatch | undefined
  /** Of requests in batches that the store has, or in that which it is sent. */
  #amendments: readonly Amendment[] = []
  /** Accounts of batches since the last sweep. */
  #written = new Set<string>()
  #timers: readonly Timer[] = []

  constructor(store: RequestLogStore, clock: Clock, config: RequestLogConfig) {
    this.#store = store
    this.#clock = clock
    this.#config = config
  }

  start(): void {
    this.#timers = [this.#clock.every(flushIntervalMs, () => void this.flush()), this.#clock.every(requestSpanMs, () => void this.#sweep())]
  }

  /** Writes what waits, if the store takes it. A batch that was begun before has not all of that, and may have failed for what is over by now. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) timer.cancel()
    for (let failures = 0; failures < 2 && this.#hasUnwritten; ) if (!(await this.flush())) failures += 1
  }

  get #hasUnwritten(): boolean {
    return this.#unacknowledged !== undefined || this.#pending.length > 0 || this.#amendments.length > 0
  }

  /** What is not to be stored any more is not sent from now on. */
  configure(config: RequestLogConfig): void {
    this.#config = config
    if (!config.enabled) {
      this.#pending = []
      this.#unacknowledged = undefined
      this.#amendments = []
    } else if (!config.params) {
      const unacknowledged = this.#unacknowledged?.accounts.flatMap(({ requests }) => requests) ?? []
      for (const request of [...this.#pending.map(each => each.request), ...unacknowledged]) removeParams(request)
    }
    this.#pendingBytes = this.#pending.reduce((sum, { request }) => sum + bytesOf(request), 0)
  }

  /** Logs the call, where it is one to log. In memory, without I/O. Returns what recordUndelivered() takes. */
  offer(ended: EndedCall): OfferedRequest | undefined {
    if (!this.#config.enabled) return undefined
    const { reply, call, endedAtMs } = ended
    const { account } = call.context
    if (account.requestLog === 'off') return undefined
    const isSlow = endedAtMs - call.startedAtMs >= this.#config.slow
    const kind = isFailure(reply) ? reply.kind : isSlow ? 'slow' : call.origin.headers[logHeader] === 'always' ? 'asked' : 'ok'
    if (kind === 'ok' && this.#pendingBytes >= maxBytesBeforeSamples) return undefined
    const buckets = getOrCreate(this.#bucketsByKind, kind, this.#newBuckets)
    if (!buckets.takeOne(account.id, kind === 'ok' ? sampleRate : failureRate, endedAtMs)) return undefined
    const keepsParams = this.#config.params && account.requestLog === undefined
    const request = toRequest(ended, { time: this.#clock.now(), isSlow, keepsParams })
    return this.#add(account.id, request)
  }

  readonly #newBuckets = (): TokenBuckets => new TokenBuckets(this.#clock)

  /** The response to a call that was logged cannot be delivered; the caller gets this instead, for so many credits. */
  recordUndelivered({ account, request, written }: OfferedRequest, outcome: RefusalKind, credits: number): void {
    const { code, message } = refusals[outcome]
    const change = { outcome, code, message, credits }
    if (written === undefined) {
      delete request.category
      delete request.meant
      Object.assign(request, change)
    } else if (this.#config.enabled) this.#amendments = [...this.#amendments.slice(1 - maxAmendments), { account, ...written, ...change }]
  }

  /** False when the store has not taken the batch. */
  readonly flush = singleFlight(async (): Promise<boolean> => {
    this.#unacknowledged ??= this.#takeBatch()
    try {
      if (this.#unacknowledged !== undefined) await this.#send(this.#unacknowledged)
      await this.#sendAmendments()
      return true
    } catch {
      return false // the ledger, which asks the store as often, logs outages
    }
  })

  async #send(batch: UnacknowledgedBatch): Promise<void> {
    const { retention: retentionMs, maxBytes } = this.#config
    await withTimeout(this.#clock, storeTimeoutMs, this.#store.addRequests(batch, { retentionMs, maxBytes }))
    for (const { account } of batch.accounts) this.#written.add(account)
    this.#unacknowledged = undefined
  }

  async #sendAmendments(): Promise<void> {
    const sent = new Set(this.#amendments)
    if (sent.size === 0) return
    await withTimeout(this.#clock, storeTimeoutMs, this.#store.amendRequests([...sent]))
    this.#amendments = this.#amendments.filter(amendment => !sent.has(amendment))
  }

  async #sweep(): Promise<void> {
    const accounts = this.#written
    this.#written = new Set()
    const { retention: retentionMs, maxBytes } = this.#config
    await this.#store.sweepRequests({ retentionMs, maxBytes }, accounts).catch(() => {
      for (const account of accounts) this.#written.add(account)
    })
  }

  #add(account: string, request: UnwrittenRequest): OfferedRequest {
    const pending = { account, request }
    this.#pending.push(pending)
    this.#pendingBytes += bytesOf(request)
    while (this.#pendingBytes > maxPendingBytes) this.#pendingBytes -= bytesOf(this.#pending.shift()!.request)
    return pending
  }

  #takeBatch(): UnacknowledgedBatch | undefined {
    let count = 0
    for (let bytes = 0; count < this.#pending.length; count += 1) {
      bytes += bytesOf(this.#pending[count]!.request)
      if (bytes > maxBatchBytes) break
    }
    if (count === 0) return undefined
    const id = `${this.#process}-${(this.#batches += 1)}`
    const byAccount = new Map<string, UnwrittenRequest[]>()
    for (const pending of this.#pending.splice(0, count)) {
      const { account, request } = pending
      this.#pendingBytes -= bytesOf(request)
      const requests = getOrCreate(byAccount, account, newList)
      pending.written = { batch: id, position: requests.length }
      requests.push(request)
    }
    return {
      id,
      accounts: Array.from(byAccount, ([account, requests]) => ({ account, requests })),
    }
  }
}

interface UnacknowledgedBatch extends RequestBatch {
  readonly accounts: readonly { readonly account: string; readonly requests: readonly UnwrittenRequest[] }[]
}

const newList = (): UnwrittenRequest[] => []

/** And what may name a parameter. */
const removeParams = (request: UnwrittenRequest): void => {
  delete request.params
  delete request.isCut
  delete request.message
  request.paramsOmitted = 'setting'
}

/** An upper bound. */
const bytesOf = ({ params = '' }: LoggedRequest): number => requestBytes + maxMessageChars + params.length

interface RequestFacts {
  readonly time: number
  readonly isSlow: boolean
  readonly keepsParams: boolean
}

const toRequest = (
  { call, reply, network, credits, endedAtMs, method }: EndedCall,
  { time, isSlow, keepsParams }: RequestFacts,
): UnwrittenRequest => {
  const { origin, context, message } = call
  const { cache, upstream, upstreamRequest } = reply
  const request: UnwrittenRequest = {
    time,
    requestId: origin.requestId,
    transport: origin.transport,
    key: context.key.id,
    network,
    method: cutAndMaskKeys(context.request.method, maxMethodChars),
    outcome: 'ok',
    credits,
    durationMs: Math.round((endedAtMs - call.startedAtMs) * 1_000) / 1_000,
  }
  if (isSlow) request.isSlow = true
  if (cache !== undefined) request.cache = cache
  if (upstream !== undefined) request.upstream = upstream
  if (upstreamRequest !== undefined) request.attempts = upstreamRequest.attempts
  setParams(request, message, keepsParams ? whyOmitted(method) : 'setting')
  if (isFailure(reply)) setFailure(request, reply, keepsParams)
  return request
}

/**
 * Not of a method that the table does not have, such as one that takes a password, and not of one that sends transactions: whoever reads a signed
 * transaction that failed could send it later.
 */
const whyOmitted = (method: Method | undefined): ParamsOmission | undefined => {
  if (method === undefined) return 'unknownMethod'
  return method.idempotent ? undefined : 'transaction'
}

const setParams = (request: UnwrittenRequest, message: Json, omission: ParamsOmission | undefined): void => {
  const params = isJsonObject(message) ? message['params'] : undefined
  if (params === undefined) return
  if (omission !== undefined) {
    request.paramsOmitted = omission
    return
  }
  const { text, isCut } = cutJson(params, maxParamsBytes)
  request.params = maskKeys(text, isCut)
  if (isCut) request.isCut = true
}

/** A message may name a parameter's value. */
const setFailure = (request: UnwrittenRequest, { kind, error, category, meant }: Failure, keepsMessage: boolean): void => {
  request.outcome = kind
  request.code = error.code
  if (category !== undefined) request.category = category
  if (meant !== undefined) request.meant = meant
  if (keepsMessage) request.message = cutAndMaskKeys(error.message, maxMessageChars)
}
