import { LRUCache } from 'lru-cache'
import { isJsonObject, refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Services } from '../../src/plugin/plugin.ts'
import { ownerOfFilter } from './filter.ts'
import type { Fetch } from './missed-changes.ts'
import type { StoredFilters, WrittenFilter } from './stored-filters.ts'

/** What a caller wants of a filter. It goes to the process that keeps the filter. */
export interface FilterRequest {
  readonly action: 'changes' | 'criteria' | 'uninstall'
  readonly id: string
  readonly account: string
}

/** The text of a JSON array; or, for `criteria`, the filter object. */
export type FilterAnswer = FilterChanges | { readonly criteria: Json } | { readonly isRemoved: true }

interface FilterChanges {
  readonly text: string
  readonly count: number
  /** To be called once: what is not delivered comes again with the next poll, or the filter ends. */
  onSettled(isDelivered: boolean): void
}

/** As another process sends it. */
export type SentAnswer = Omit<FilterChanges, 'onSettled'> | Exclude<FilterAnswer, FilterChanges>

/** What a process answers another that asks for a filter which it does not keep. */
export const missingFilter = { isMissing: true } as const

export const feedUnavailable = refuse('unavailable', { retryAfter: 1, source: 'gateway' })

const maxOwners = 10_000
/** A filter may move while it is looked for. */
const maxAttempts = 3

interface RemoteFiltersOptions extends Pick<Services, 'clock' | 'peers'> {
  readonly stored: StoredFilters
  /** When the record was written from which this process goes on with the filter; undefined when it does not keep the filter. */
  resumedFrom(id: string): number | undefined
  /** The answer of this process, for a filter that it keeps. */
  answer(request: FilterRequest): FilterAnswer | undefined
  /** The filter of a process that has ended belongs to this process now. */
  resume(filter: WrittenFilter, fetch: Fetch): Promise<FilterAnswer | Failure | undefined>
}

/**
 * The way to filters that other processes keep. The process of a filter answers itself as long as it lives, in this gateway or in another
 * one: it alone knows what it has delivered, and the logs of blocks that were removed, which many nodes forget. A filter of a process
 * that has ended is taken out of the store.
 */
export class RemoteFilters {
  readonly #options: RemoteFiltersOptions
  /**
   * By filter: the process that keeps it since the one of its id has ended. Limited by `maxSize`, each entry being 1: for
   * `max`, lru-cache allocates all at once, 0.2 MiB a network.
   */
  readonly #owners = new LRUCache<string, string>({ maxSize: maxOwners, sizeCalculation: () => 1 })

  constructor(options: RemoteFiltersOptions) {
    this.#options = options
  }

  /** Undefined when the account has no such filter. */
  async request(request: FilterRequest, fetch: Fetch): Promise<FilterAnswer | Failure | undefined> {
    const owner = this.#owners.get(request.id) ?? ownerOfFilter(request.id)
    return owner === undefined ? undefined : this.#requestFrom(owner, request, fetch, maxAttempts)
  }

  async #requestFrom(
    owner: string,
    request: FilterRequest,
    fetch: Fetch,
    attemptsLeft: number,
  ): Promise<FilterAnswer | Failure | undefined> {
    const { clock, peers, stored, resumedFrom, answer, resume } = this.#options
    const { id, account, action } = request
    const sentAt = clock.now()
    const reply = await this.#ask(owner, request)
    if (typeof reply === 'object')
      return 'text' in reply ? { ...reply, onSettled: isDelivered => isDelivered || this.#end(owner, request) } : reply
    // What was written later may count what the process has delivered to nobody.
    const mayBeLost = (writtenAt: number) => reply === 'late' && action === 'changes' && writtenAt >= sentAt
    const writtenAt = resumedFrom(id)
    // Another call has had it resumed here.
    if (writtenAt !== undefined && !mayBeLost(writtenAt)) return answer(request)
    const found = await stored.find(id, account)
    if (reply === 'late' && typeof found !== 'object') return this.#giveUp(owner, request)
    if (typeof found === 'object' && mayBeLost(found.filter.writtenAt)) {
      await stored.take(id)
      return this.#giveUp(found.owner, request)
    }
    if (found === 'unavailable') return feedUnavailable
    if (found === undefined) return undefined
    const repeat = async (next: string) => (attemptsLeft > 1 ? this.#requestFrom(next, request, fetch, attemptsLeft - 1) : undefined)
    const isOwned = found.owner !== ''
    if (isOwned && found.owner !== owner && found.owner !== peers.name) return repeat(found.owner)
    if (action === 'criteria') return found.filter.kind === 'logs' ? { criteria: found.filter.request } : undefined
    if (isOwned && reply === 'missing') {
      // It has just been removed, or is being resumed.
      await stored.wait()
      return repeat(owner)
    }
    if (isOwned && !(await stored.isDead(found.owner))) {
      if (reply === 'late') return this.#giveUp(owner, request)
      return attemptsLeft > 1 ? repeat(owner) : feedUnavailable
    }
    const taken = await this.#take(id, found.owner)
    if (taken === undefined) return repeat(owner)
    return action === 'uninstall' ? { isRemoved: true } : resume(taken, fetch)
  }

  /** Takes the filter of this owner out of the store. Undefined when another process has been faster, and goes on with the filter. */
  async #take(id: string, owner: string): Promise<WrittenFilter | undefined> {
    const { stored } = this.#options
    const taken = await stored.take(id)
    if (taken?.owner === owner) return taken.filter
    if (taken !== undefined) await stored.putBack(taken.filter, taken.owner)
    await stored.wait()
    return undefined
  }

  /** The answer has not arrived. What the process may have delivered to nobody would be missing in the next answer: the filter ends. */
  #giveUp(owner: string, request: FilterRequest): Failure | undefined {
    if (request.action === 'criteria') return feedUnavailable
    void this.#end(owner, request)
    return undefined
  }

  /** Its process holds what it has answered no longer. When that process has ended, nobody may go on with what it has written. */
  async #end(owner: string, request: FilterRequest): Promise<void> {
    const { peers, stored, answer } = this.#options
    const uninstall = { ...request, action: 'uninstall' } as const
    if (owner === peers.name) answer(uninstall)
    else if (typeof (await this.#ask(owner, uninstall)) !== 'object') await stored.take(request.id)
  }

  async #ask(owner: string, request: FilterRequest): Promise<SentAnswer | 'missing' | 'absent' | 'late'> {
    const { peers } = this.#options
    if (owner === peers.name) return 'missing'
    const reply = await peers.request(owner, { ...request })
    if (typeof reply === 'string') return reply
    if (!isJsonObject(reply.payload) || 'isMissing' in reply.payload) return 'missing'
    if (owner !== ownerOfFilter(request.id)) this.#owners.set(request.id, owner)
    return reply.payload as SentAnswer // from Filters of another process
  }
}
