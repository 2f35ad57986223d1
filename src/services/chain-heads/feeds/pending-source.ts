import { createSemaphore, sleep } from '../../../util/async.ts'
import { boundedCache } from '../../../util/bounded-cache.ts'
import type { Timer } from '../../clock.ts'
import { membersOf, parseResult } from '../upstream-requests.ts'
import type { EventsUpdate, FeedSource } from './block-feed.ts'
import { PolledPendingReader, SubscribedPendingReader } from './pending-readers.ts'
import type { PendingReader, PendingReaderOptions, PoolUpstream } from './pending-readers.ts'

interface PendingSourceOptions extends Pick<PendingReaderOptions, 'clock' | 'chainId' | 'random' | 'pollIntervalMs' | 'isFull'> {
  /** The best first, without those that are drained. */
  upstreams(): readonly PoolUpstream[]
  /** An operator has drained it: it is sent nothing. */
  isDrained(upstream: string): boolean
  publish(update: EventsUpdate): void
}

/** Transactions that have come are published together this often. */
const publishIntervalMs = 50
/** How soon an upstream is left that is drained, or no longer among the plausible ones, as after a reload. */
const checkIntervalMs = 1_000
/** Until the upstreams are asked again, when none has returned transactions. */
const reopenIntervalMs = 1_000
/** Hashes of 66 characters: a transaction is published once, though several upstreams report it. */
const maxSeenHashes = 32_768
/** Transactions that are requested by their hash at once, and those that wait for it: more are not published. */
const maxConcurrentFetches = 8
const maxWaitingFetches = 1_000

/**
 * The transactions that come to the pool of one upstream: of one with a WebSocket if there is one, else of the best that can be polled.
 * When that upstream fails, another takes its place; transactions that came meanwhile may be missing, and none is published twice.
 */
export class PendingSource implements FeedSource {
  readonly #options: PendingSourceOptions
  readonly #seen = boundedCache<true>(maxSeenHashes)
  readonly #fetches = createSemaphore(maxConcurrentFetches)
  #waitingFetches = 0
  #reader: PendingReader | undefined
  #isOpen = false
  #checkTimer: Timer | undefined
  #events: string[] = []
  #publishTimer: Timer | undefined
  /** Counts starts and stops. */
  #version = 0

  constructor(options: PendingSourceOptions) {
    this.#options = options
  }

  async start(onStarted: () => void): Promise<boolean> {
    this.#version += 1
    const isStarted = await this.#openReader(this.#version)
    if (isStarted) onStarted()
    return isStarted
  }

  stop(): void {
    this.#version += 1
    this.#reader?.close()
    this.#reader = undefined
    this.#isOpen = false
    this.#checkTimer?.cancel()
    this.#publishTimer?.cancel()
    this.#publishTimer = undefined
    this.#events = []
  }

  async sync(onSynced: () => void): Promise<void> {
    await this.#reader?.poll()
    this.#publish()
    onSynced()
  }

  /** The upstream of the reader that was lost comes last. False when no upstream returns transactions, or the source has been stopped. */
  async #openReader(version: number, lost?: PendingReader): Promise<boolean> {
    const readers = this.#createReaders(version)
    const isOfLost = ({ upstream }: PendingReader) => upstream.name === lost?.upstream.name
    for (const reader of [...readers.filter(each => !isOfLost(each)), ...readers.filter(isOfLost)]) {
      this.#reader = reader
      const isOpen = await reader.open()
      if (isOpen && version === this.#version) return this.#recordOpen(version)
      reader.close()
      if (version !== this.#version) return false
    }
    this.#reader = undefined
    return false
  }

  #recordOpen(version: number): true {
    this.#isOpen = true
    this.#checkTimer?.cancel()
    this.#checkTimer = this.#options.clock.every(checkIntervalMs, () => {
      if (this.#isOpen && this.#isToLeave(this.#reader?.upstream)) void this.#replaceReader(version)
    })
    return true
  }

  /** Where no upstream is plausible, the reader stays. */
  #isToLeave(current: PoolUpstream | undefined): boolean {
    const upstreams = this.#options.upstreams()
    if (current !== undefined && this.#options.isDrained(current.name)) return true
    return upstreams.length > 0 && !upstreams.some(upstream => upstream === current)
  }

  #createReaders(version: number): readonly PendingReader[] {
    const upstreams = this.#options.upstreams()
    const create = (make: (options: PendingReaderOptions) => PendingReader): PendingReader => {
      const reader = make({
        ...this.#options,
        onTransactions: transactions => {
          if (reader === this.#reader) for (const transaction of transactions) this.#handle(transaction, reader)
        },
        onLost: () => {
          if (reader === this.#reader && this.#isOpen) void this.#replaceReader(version)
        },
      })
      return reader
    }
    return [
      ...upstreams.flatMap(upstream => {
        const { ws } = upstream
        return ws === undefined ? [] : [create(options => new SubscribedPendingReader(upstream, ws, options))]
      }),
      ...upstreams.map(upstream => create(options => new PolledPendingReader(upstream, options))),
    ]
  }

  async #replaceReader(version: number): Promise<void> {
    const lost = this.#reader
    this.#isOpen = false
    lost?.close()
    while (version === this.#version && !(await this.#openReader(version, lost))) await sleep(this.#options.clock, reopenIntervalMs)
  }

  #handle(transaction: unknown, { upstream }: PendingReader): void {
    const hash = parseHash(membersOf(transaction)['hash'] ?? transaction)
    if (hash === undefined || this.#seen.has(hash)) return
    this.#seen.set(hash, true)
    if (!this.#options.isFull) this.#add(JSON.stringify(hash))
    else if (typeof transaction === 'object') this.#add(JSON.stringify(transaction))
    else void this.#fetch(hash, upstream)
  }

  /** It may be in a block by now: then it is no longer pending, and still an event. */
  async #fetch(hash: string, upstream: PoolUpstream): Promise<void> {
    if (this.#waitingFetches >= maxWaitingFetches) return
    const version = this.#version
    this.#waitingFetches += 1
    const transaction = parseResult(await this.#fetches(() => upstream.request('eth_getTransactionByHash', hash)))
    this.#waitingFetches -= 1
    if (version === this.#version && parseHash(membersOf(transaction)['hash']) === hash) this.#add(JSON.stringify(transaction))
  }

  #add(event: string): void {
    this.#events.push(event)
    this.#publishTimer ??= this.#options.clock.after(publishIntervalMs, () => this.#publish())
  }

  #publish(): void {
    this.#publishTimer?.cancel()
    this.#publishTimer = undefined
    const events = this.#events
    this.#events = []
    if (events.length > 0) this.#options.publish({ events })
  }
}

/** The hash in lower case, as it is compared and published; undefined for anything else. */
const parseHash = (value: unknown): string | undefined =>
  typeof value === 'string' && /^0x[0-9a-f]{64}$/i.test(value) ? value.toLowerCase() : undefined
