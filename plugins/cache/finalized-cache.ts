import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type {
  SharedCacheEntry,
  Json,
  CachePolicy,
  Reply,
  Result,
  Secret,
  Services,
  SharedCache,
  ChainSnapshot,
} from '../../src/plugin/plugin.ts'
import type { BlockOfAnswer } from './block-of-answer.ts'

export interface FinalizedCacheOptions {
  readonly redis: Secret
  readonly redisTtl: number
  readonly redisMaxBytes: number
}

/** A question whose answer may be final. */
export interface CacheQuery {
  /** The whole key of the answer, which tells it from any other of this network. */
  readonly key: string
  readonly method: string
  readonly policy: CachePolicy
  /** The block that the answer is about, where the question tells it. */
  readonly block: BlockOfAnswer | undefined
}

/**
 * The second level: answers about final blocks, shared with other machines through Redis. Each is kept with the final
 * block that its node knew when it was asked, and given only where that block is final too: on the same chain, that is,
 * whatever became of the chain that the answer was from.
 */
export class FinalizedCache {
  readonly #options: FinalizedCacheOptions
  readonly #services: Services
  /** Which final blocks of others are final here. A no may become a yes: this node may only have been behind. */
  readonly #finalityChecks: LRUCache<string, Promise<boolean>>
  #finalityVersion = 0
  #cache: SharedCache | undefined

  constructor(options: FinalizedCacheOptions, services: Services) {
    const { clock } = services
    this.#options = options
    this.#services = services
    this.#finalityChecks = new LRUCache({ max: 1000, perf: { now: () => clock.monotonic() }, ttlResolution: 0 })
  }

  open(): void {
    this.#cache = this.#services.sharedCaches.open(this.#options.redis)
  }

  /** Undefined when it is not there, may not be final or cannot be given in time. */
  async get(query: CacheQuery): Promise<Reply | undefined> {
    const { heads, methods } = this.#services
    const finalized = heads.snapshot.finalizedBlockOf()
    if (this.#cache === undefined || finalized === undefined || !mayBeFinal(query, finalized.number)) return undefined
    const maxResults = methods.get(query.method)?.maxResults ?? Infinity
    const entry = await this.#cache.get(
      this.#redisKeyOf(query),
      this.#options.redisMaxBytes,
      found => (found.count ?? 0) <= maxResults && this.#isFinalHere(found),
    )
    return entry && { result: entry.result, count: entry.count, source: 'cache', cache: 'hit' }
  }

  /** The answer, proved final by what was known when its node was asked, and that is one of our own. */
  store({ key }: Pick<CacheQuery, 'key'>, { result, source, upstream }: Result, snapshot: ChainSnapshot): void {
    const { redisTtl, redisMaxBytes } = this.#options
    const finalizedBlock = snapshot.finalizedBlockOf(upstream)
    if (source !== 'node' || upstream === undefined || finalizedBlock === undefined || result.byteLength > redisMaxBytes) return
    this.#cache?.set(
      this.#redisKeyOf({ key }),
      { result, finalizedBlock: { number: finalizedBlock.number, hash: finalizedBlock.hash } },
      redisTtl,
    )
  }

  /** Networks of one name answer alike on all machines. Parameters may be long, and private. */
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
    const knownCheck = this.#finalityChecks.get(id)
    if (knownCheck !== undefined) return knownCheck
    const check = heads.verifyFinalized(finalizedBlock)
    this.#finalityChecks.set(id, check)
    check.then(
      holds => {
        if (!holds) this.#finalityChecks.set(id, check, { ttl: finalityRecheckMs })
      },
      () => this.#finalityChecks.delete(id),
    )
    return check
  }
}

/** For how long a block that is not final here is not asked for again, in ms. */
const finalityRecheckMs = 5_000

const mayBeFinal = ({ policy, block }: CacheQuery, finalizedNumber: number): boolean =>
  policy === 'mined' || (policy === 'block' && block !== undefined && (typeof block === 'string' || block <= finalizedNumber))

export const finalizedCacheOptions = {
  redis: {
    type: 'string',
    format: 'redis',
    description: 'URL of a Redis in which gateways share finalized results; not the Redis of the store.',
    examples: ['redis://127.0.0.1:6380'],
  },
  redisTtl: {
    type: 'string',
    format: 'duration',
    default: '1d',
    description: 'How long a result is stored in `redis`.',
  },
  redisMaxBytes: {
    type: 'string',
    format: 'size',
    default: '1MiB',
    description: 'Maximum size of a result that is stored in `redis`.',
  },
} as const satisfies Record<string, Json>
