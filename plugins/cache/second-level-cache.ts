import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { SharedCache, SharedCacheEntry, ChainSnapshot } from '../../src/plugin/internal.ts'
import type { Reply, Result, Secret, Services } from '../../src/plugin/plugin.ts'
import { mayBeFinal } from './finality-and-ttl.ts'
import type { CacheQuery } from './finality-and-ttl.ts'

const entryTtlMs = 86_400_000

/** Look-ups of others wait while an entry is sent. */
const maxEntryBytes = 1_048_576

/**
 * The second level: answers about finalized blocks, shared between machines through Redis. An entry holds the block that was
 * finalized on the node that answered. It is returned only where that block is finalized too: so an entry from another chain,
 * or from a fork, is never returned.
 */
export class SecondLevelCache {
  readonly #redis: Secret
  readonly #services: Services
  /** By block of an entry, whether it is finalized here. A negative result expires: the nodes may only have been behind. */
  readonly #finalityChecks: LRUCache<string, Promise<boolean>>
  #finalityVersion = 0
  #cache: SharedCache | undefined

  constructor(redis: Secret, services: Services) {
    const { clock } = services
    this.#redis = redis
    this.#services = services
    this.#finalityChecks = new LRUCache({ max: 1000, perf: { now: () => clock.monotonic() }, ttlResolution: 0 })
  }

  open(): void {
    this.#cache = this.#services.sharedCaches.open(this.#redis)
  }

  /** Undefined when there is no entry, its answer may not be final, or Redis does not return it in time. */
  async get(query: CacheQuery): Promise<Reply | undefined> {
    const { heads, methods } = this.#services
    const finalized = heads.snapshot.finalizedBlockOf()
    if (this.#cache === undefined || finalized === undefined || !mayBeFinal(query, methods, finalized.number)) return undefined
    const maxResults = methods.get(query.request.method)?.maxResults ?? Infinity
    const entry = await this.#cache.get(
      this.#redisKeyOf(query),
      maxEntryBytes,
      found => (found.count ?? 0) <= maxResults && this.#isFinalHere(found),
    )
    return entry && { result: entry.result, count: entry.count, verified: entry.verified, source: 'cache', cache: 'hit' }
  }

  /** Stores an answer that is final by the snapshot from before its request, if it came from an own node. */
  store({ key }: CacheQuery, { result, verified, source, upstream }: Result, snapshot: ChainSnapshot): void {
    const finalizedBlock = snapshot.finalizedBlockOf(upstream)
    if (source !== 'node' || upstream === undefined || finalizedBlock === undefined || result.byteLength > maxEntryBytes) return
    this.#cache?.set(
      this.#redisKeyOf({ key }),
      { result, verified, finalizedBlock: { number: finalizedBlock.number, hash: finalizedBlock.hash } },
      entryTtlMs,
    )
  }

  /** Networks of the same name and chain share entries. The key is hashed: parameters may be long, and private. */
  #redisKeyOf({ key }: Pick<CacheQuery, 'key'>): string {
    const { chainId, name } = this.#services.network
    return `${chainId}:${name}:${hash('sha256', key, 'base64url')}`
  }

  #isFinalHere({ finalizedBlock }: SharedCacheEntry): Promise<boolean> {
    const { heads } = this.#services
    const { finalityVersion } = heads.snapshot
    if (finalityVersion !== this.#finalityVersion) this.#finalityChecks.clear()
    this.#finalityVersion = finalityVersion
    const id = `${finalizedBlock.number} ${finalizedBlock.hash}`
    const existing = this.#finalityChecks.get(id)
    if (existing !== undefined) return existing
    const check = heads.verifyFinalized(finalizedBlock)
    this.#finalityChecks.set(id, check)
    check.then(
      isFinal => {
        if (!isFinal) this.#finalityChecks.set(id, check, { ttl: finalityRecheckMs })
      },
      () => this.#finalityChecks.delete(id),
    )
    return check
  }
}

/** How long a block counts as not finalized before it is verified again. */
const finalityRecheckMs = 5_000
