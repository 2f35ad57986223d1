import { isJsonObject, singleFlight } from '../../src/plugin/plugin.ts'
import type { BlockId, Json, Services, Timer } from '../../src/plugin/plugin.ts'
import type { Filter } from './filter.ts'

/** What is stored of a filter, so that another process goes on with it. */
export interface StoredFilter {
  readonly id: string
  readonly account: string
  readonly kind: 'newHeads' | 'logs'
  /** The filter object of `logs`. */
  readonly request: Json
  /** Blocks up to this one were before the filter. */
  readonly firstBlock: number
  /** Changes up to this block have been delivered. */
  readonly position: BlockId
}

/** As it was read from the store. */
export interface WrittenFilter extends StoredFilter {
  /** In ms since 1970, by the clock of the process that has written it. */
  readonly writtenAt: number
}

interface StoredFiltersOptions extends Pick<Services, 'clock' | 'filterRecords' | 'network'> {
  /** The name of this process. */
  readonly owner: string
  /** Filters are stored until they have not been used for so long. */
  readonly maxUnusedMs: number
  /** Another process has taken the filter. */
  onTaken(filter: Filter): void
}

interface FoundFilter {
  readonly filter: WrittenFilter
  /** Empty when it belongs to whoever takes it. */
  readonly owner: string
}

type FilterRecord = NonNullable<Awaited<ReturnType<Services['filterRecords']['find']>>>

const writeIntervalMs = 1_000
/** Filters that are written at once: those that are polled more often than that are written less often. */
const maxWrites = 100
/** A process that has not written for so long is taken for dead: others take over its filters. */
const ownerTimeoutMs = 4_000
/** How often a process that waits for the death of another looks. */
const ownerPollIntervalMs = 500

/**
 * The filters of this process in the store. They are written behind, each second, so that a poll waits for no store: what a process that
 * dies has delivered in its last second may be delivered again. A process that ends in order writes all.
 */
export class StoredFilters {
  readonly #options: StoredFiltersOptions
  readonly #kept = new Set<Filter>()
  readonly #written = new WeakSet<Filter>()
  /** To be written, or to be removed. */
  readonly #pending = new Map<Filter, 'put' | 'remove'>()
  /** By filter: it is being removed from the store, or given back to it. */
  readonly #ended = new Map<string, 'removed' | Promise<void>>()
  /** Filters that are being resumed. */
  #claimCount = 0
  #timer: Timer | undefined
  #ownerWrittenAt = -Infinity

  constructor(options: StoredFiltersOptions) {
    this.#options = options
  }

  /** The filter is new, or has been used. */
  record(filter: Filter): void {
    if (filter.position === undefined) return
    this.#kept.add(filter)
    this.#pending.set(filter, 'put')
    this.#startTimer()
  }

  remove(filter: Filter): void {
    if (!this.#kept.delete(filter)) return
    this.#pending.set(filter, 'remove')
    this.#ended.set(filter.id, 'removed')
  }

  /** Whoever is asked for the filter next goes on from the last block that was delivered. */
  release(filter: Filter): void {
    const stored = toStored(filter)
    if (stored === undefined) return
    this.#kept.delete(filter)
    this.#pending.delete(filter)
    const released = this.putBack(stored).then(() => void this.#ended.delete(filter.id))
    this.#ended.set(filter.id, released)
  }

  /** The filter and its owner; undefined when the account has no such filter. */
  async find(id: string, account: string): Promise<FoundFilter | 'unavailable' | undefined> {
    const ended = this.#ended.get(id)
    if (ended === 'removed') return undefined
    await ended
    try {
      const record = await this.#options.filterRecords.find('filter', id)
      return record?.account === account ? this.#read(record) : undefined
    } catch {
      return 'unavailable' // the store reports its failures itself
    }
  }

  /** As it was written last; undefined when it belongs to somebody else by now. */
  async take(id: string): Promise<FoundFilter | undefined> {
    const record = await this.#options.filterRecords.take('filter', id).catch(() => undefined)
    return record && this.#read(record)
  }

  /** Undefined for a filter of another network. */
  #read({ id, account, value, expires }: FilterRecord): FoundFilter | undefined {
    const { network, owner, ...filter } = isJsonObject(value) ? value : {}
    if (network !== this.#options.network.name) return undefined
    const stored = { ...filter, id, account } as unknown as StoredFilter // written by this class
    return { filter: { ...stored, writtenAt: expires - this.#options.maxUnusedMs }, owner: String(owner) }
  }

  /** Other workers find the filter here from now on. While `run` lasts, this process is not taken for dead. */
  async claim<T>(filter: StoredFilter, run: () => Promise<T>): Promise<T> {
    this.#claimCount += 1
    this.#startTimer()
    try {
      await Promise.all([this.#writeOwner(), this.#put(filter, this.#options.owner)]).catch(() => undefined)
      return await run()
    } finally {
      this.#claimCount -= 1
    }
  }

  /** Without an owner, it belongs to whoever takes it next. */
  async putBack(filter: StoredFilter, owner = ''): Promise<void> {
    await this.#put(filter, owner).catch(() => undefined)
  }

  /** Waits until a process that does not write any more counts as dead. */
  async isDead(owner: string): Promise<boolean> {
    const expiryOf = async () => (await this.#options.filterRecords.find('filter-owner', owner))?.expires
    try {
      const before = await expiryOf()
      for (let waitedMs = 0; waitedMs <= ownerTimeoutMs; waitedMs += ownerPollIntervalMs) {
        const expires = await expiryOf()
        if (expires === undefined) return true
        if (expires !== before) return false
        await this.wait()
      }
    } catch {
      // The store does not answer.
    }
    return false
  }

  /** For what other processes do. */
  wait(): Promise<void> {
    return new Promise(resolve => void this.#options.clock.after(ownerPollIntervalMs, resolve))
  }

  /** Writes all: other processes may take the filters at once. */
  async close(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = undefined
    await this.#write()
    const { filterRecords, owner } = this.#options
    for (const filter of [...this.#kept, ...this.#pending.keys()]) await this.#writeOne(filter).catch(() => undefined)
    this.#kept.clear()
    if (this.#ownerWrittenAt > -Infinity) await filterRecords.take('filter-owner', owner).catch(() => undefined)
  }

  #startTimer(): void {
    this.#timer ??= this.#options.clock.every(writeIntervalMs, () => void this.#write())
  }

  readonly #write = singleFlight(async (): Promise<void> => {
    try {
      if (this.#kept.size + this.#claimCount > 0) await this.#writeOwner()
      for (const filter of [...this.#pending.keys()].slice(0, maxWrites)) await this.#writeOne(filter)
    } catch {
      return // tried again with the next write; the store reports its failures itself
    }
    if (this.#kept.size + this.#claimCount + this.#pending.size > 0) return
    this.#timer?.cancel()
    this.#timer = undefined
  })

  async #writeOwner(): Promise<void> {
    const { clock, filterRecords, owner } = this.#options
    const silentMs = clock.monotonic() - this.#ownerWrittenAt
    await filterRecords.put('filter-owner', { id: owner, account: owner, value: null, expires: clock.now() + ownerTimeoutMs })
    this.#ownerWrittenAt = clock.monotonic()
    if (silentMs < ownerTimeoutMs) return
    for (const filter of this.#kept) {
      if (!this.#written.has(filter)) continue
      const record = await filterRecords.find('filter', filter.id)
      if (isJsonObject(record?.value) && record.value['owner'] === owner) continue
      this.#kept.delete(filter)
      this.#pending.delete(filter)
      this.#options.onTaken(filter)
    }
  }

  async #writeOne(filter: Filter): Promise<void> {
    const change = this.#pending.get(filter)
    this.#pending.delete(filter)
    const stored = toStored(filter)
    try {
      if (change === 'remove') {
        await this.#options.filterRecords.take('filter', filter.id)
        this.#ended.delete(filter.id)
      } else if (change === 'put' && stored !== undefined) {
        await this.#put(stored, this.#options.owner)
        this.#written.add(filter)
      }
    } catch (error) {
      const isWanted = change === 'remove' || this.#kept.has(filter)
      if (change !== undefined && isWanted && !this.#pending.has(filter)) this.#pending.set(filter, change)
      throw error
    }
  }

  #put({ id, account, kind, request, firstBlock, position }: StoredFilter, owner: string): Promise<void> {
    const { clock, filterRecords, network, maxUnusedMs } = this.#options
    const value = { kind, request, firstBlock, position: { ...position }, network: network.name, owner }
    return filterRecords.put('filter', { id, account, value, expires: clock.now() + maxUnusedMs })
  }
}

/** Undefined for a filter that ends with its process. */
const toStored = ({ id, account, topic, firstBlock, position }: Filter): StoredFilter | undefined => {
  if (position === undefined || (topic.kind !== 'newHeads' && topic.kind !== 'logs')) return undefined
  return { id, account, kind: topic.kind, request: topic.kind === 'logs' ? topic.request : null, firstBlock, position }
}
