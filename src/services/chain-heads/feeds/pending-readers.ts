import type { Json, Target } from '../../../plugin/call.ts'
import { isFailure } from '../../../plugin/reply.ts'
import type { Secret } from '../../../plugin/secret.ts'
import { withTimeoutOr } from '../../../util/async.ts'
import type { Clock, Timer } from '../../clock.ts'
import { NodeSubscription } from '../node-subscription.ts'
import { membersOf, parseResult } from '../upstream-requests.ts'
import type { UpstreamRequester } from '../upstream-requests.ts'

/** An upstream with a pool of transactions. */
export interface PoolUpstream {
  readonly name: string
  readonly ws: Secret | undefined
  /** Of the upgrade to a WebSocket. */
  readonly headers: Target['headers']
  readonly request: UpstreamRequester
}

export interface PendingReaderOptions {
  readonly clock: Clock
  readonly chainId: number
  /** From 0 to below 1. */
  readonly random: () => number
  readonly pollIntervalMs: number
  /** Transactions are wanted as objects, where the upstream has them. */
  readonly isFull: boolean
  /** Hashes, or transactions, that have come to the upstream's pool since the reader was opened. One that comes back to the pool is reported again. */
  onTransactions(transactions: readonly unknown[]): void
  /** An open reader gets no more transactions. */
  onLost(): void
}

/** Reads the transactions that come to the pool of one upstream. */
export interface PendingReader {
  readonly upstream: PoolUpstream
  /** Resolves, and soon, with false when the upstream does not return them. */
  open(): Promise<boolean>
  /** Asks the upstream at once, where it must be asked. */
  poll(): Promise<void>
  close(): void
}

const openTimeoutMs = 1_000
const pingIntervalMs = 15_000
/** A transaction has 128 KB of data at most in the pools of geth, twice as much in hex. */
const maxPayloadBytes = 1_048_576

/** Over the WebSocket of the upstream. */
export class SubscribedPendingReader implements PendingReader {
  readonly upstream: PoolUpstream
  readonly #clock: Clock
  readonly #subscription: NodeSubscription
  readonly #onLost: () => void
  #resolveOpen: ((isOpen: boolean) => void) | undefined

  constructor(upstream: PoolUpstream, url: Secret, { isFull, onTransactions, onLost, ...options }: PendingReaderOptions) {
    this.upstream = upstream
    this.#clock = options.clock
    this.#onLost = onLost
    this.#subscription = new NodeSubscription({
      ...options,
      url,
      headers: upstream.headers,
      params: isFull ? ['newPendingTransactions', true] : ['newPendingTransactions'],
      maxPayloadBytes,
      pingIntervalMs,
      onSubscribed: () => this.#resolveOpen?.(true),
      onEvent: result => onTransactions([result]),
      onFailure: () => this.#handleFailure(),
    })
  }

  async open(): Promise<boolean> {
    const opened = new Promise<boolean>(resolve => {
      this.#resolveOpen = resolve
    })
    this.#subscription.open()
    const isOpen = await withTimeoutOr(this.#clock, openTimeoutMs, opened, () => false)
    this.#resolveOpen = undefined
    return isOpen
  }

  /** Transactions come by themselves. */
  async poll(): Promise<void> {}

  close(): void {
    this.#subscription.close()
  }

  #handleFailure(): void {
    this.#subscription.close()
    if (this.#resolveOpen === undefined) this.#onLost()
    else this.#resolveOpen(false)
  }
}

/** Failures in a row after which another upstream is asked. */
const maxFailedPolls = 3

/** Until an upstream that has made no filter is asked for one again; doubled each time. */
const minFilterRetryMs = 10_000
const maxFilterRetryMs = 300_000

/** Polls a filter of the upstream, or its whole pool while the upstream makes no such filter. */
export class PolledPendingReader implements PendingReader {
  readonly upstream: PoolUpstream
  readonly #options: PendingReaderOptions
  /** Undefined where the pool is polled. */
  #filter: string | undefined
  /** The hashes of the transactions in the pool; undefined until it has been read. */
  #pool: ReadonlySet<unknown> | undefined
  #timer: Timer | undefined
  #isPolling = false
  #failedPolls = 0
  #filterRetryMs = minFilterRetryMs
  /** On the monotonic clock. */
  #filterRetryAt = 0

  constructor(upstream: PoolUpstream, options: PendingReaderOptions) {
    this.upstream = upstream
    this.#options = options
  }

  async open(): Promise<boolean> {
    if (!(await this.#createFilter()) && (await this.#fetchPool()) === undefined) return false
    this.#timer = this.#options.clock.every(this.#options.pollIntervalMs, () => void this.poll())
    return true
  }

  async poll(): Promise<void> {
    const timer = this.#timer
    if (timer === undefined || this.#isPolling) return
    this.#isPolling = true
    const transactions = await (this.#filter === undefined ? this.#pollPool() : this.#fetchChanges(this.#filter))
    this.#isPolling = false
    if (timer !== this.#timer) return
    this.#failedPolls = transactions === undefined ? this.#failedPolls + 1 : 0
    if (transactions !== undefined) this.#options.onTransactions(transactions)
    else if (this.#failedPolls >= maxFailedPolls) this.#options.onLost()
  }

  close(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    if (this.#filter !== undefined) void this.upstream.request('eth_uninstallFilter', this.#filter)
    this.#filter = undefined
  }

  /** Some nodes have filters of hashes alone. */
  async #createFilter(): Promise<boolean> {
    const create = async (...params: readonly Json[]) =>
      parseResult(await this.upstream.request('eth_newPendingTransactionFilter', ...params))
    const filter = (this.#options.isFull ? await create(true) : undefined) ?? (await create())
    this.#filter = typeof filter === 'string' ? filter : undefined
    if (this.#filter !== undefined) {
      this.#filterRetryMs = minFilterRetryMs
      return true
    }
    this.#filterRetryAt = this.#options.clock.monotonic() + this.#filterRetryMs
    this.#filterRetryMs = Math.min(maxFilterRetryMs, 2 * this.#filterRetryMs)
    return false
  }

  /** With a new filter the pool is read a last time: the filter does not have what came before it. */
  async #pollPool(): Promise<readonly unknown[] | undefined> {
    const hasFilter = this.#options.clock.monotonic() >= this.#filterRetryAt && (await this.#createFilter())
    const transactions = await this.#fetchPool()
    if (hasFilter) this.#pool = undefined
    return transactions
  }

  /** A node that has been started again does not know the filter. Where it makes no new one, its pool is polled until it does. */
  async #fetchChanges(filter: string): Promise<readonly unknown[] | undefined> {
    const reply = await this.upstream.request('eth_getFilterChanges', filter)
    if (isFailure(reply) && reply.kind === 'node') return (await this.#createFilter()) ? [] : this.#fetchPool()
    const changes = parseResult(reply)
    return Array.isArray(changes) ? changes : undefined
  }

  /** The transactions that the pool did not have the last time; none the first time. */
  async #fetchPool(): Promise<readonly unknown[] | undefined> {
    const { pending } = membersOf(parseResult(await this.upstream.request('txpool_content')))
    if (pending === undefined) return undefined
    const transactions = Object.values(membersOf(pending)).flatMap(ofSender => Object.values(membersOf(ofSender)))
    const before = this.#pool
    this.#pool = new Set(transactions.map(transaction => membersOf(transaction)['hash']))
    return before === undefined ? [] : transactions.filter(transaction => !before.has(membersOf(transaction)['hash']))
  }
}
