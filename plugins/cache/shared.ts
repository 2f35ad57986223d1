import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Entry, Json, Keep, Reply, Result, Secret, Services, SharedCache, View } from '../../src/plugin.ts'
import type { Subject } from './subject.ts'

export interface SharedOptions {
  readonly redis: Secret
  readonly redisTtl: number
  readonly redisMaxBytes: number
}

/** A question whose answer may be final. */
export interface Question {
  /** The whole key of the answer, which tells it from any other of this network. */
  readonly key: string
  readonly method: string
  readonly keep: Keep
  /** The block that the answer is about, where the question tells it. */
  readonly subject: Subject | undefined
}

/**
 * The second level: answers about final blocks, shared with other machines through Redis. Each is kept with the final
 * block that its node knew when it was asked, and given only where that block is final too: on the same chain, that is,
 * whatever became of the chain that the answer was from.
 */
export class Shared {
  readonly #options: SharedOptions
  readonly #services: Services
  /** Which final blocks of others are final here. A no may become a yes: this node may only have been behind. */
  readonly #proofs: LRUCache<string, Promise<boolean>>
  #era = 0
  #cache: SharedCache | undefined

  constructor(options: SharedOptions, services: Services) {
    const { clock } = services
    this.#options = options
    this.#services = services
    this.#proofs = new LRUCache({ max: 1000, perf: { now: () => clock.monotonic() }, ttlResolution: 0 })
  }

  open(): void {
    this.#cache = this.#services.cache.open(this.#options.redis)
  }

  /** Undefined when it is not there, may not be final or cannot be given in time. */
  async find(question: Question): Promise<Reply | undefined> {
    const { heads, methods } = this.#services
    const final = heads.view.finalOf()
    if (this.#cache === undefined || final === undefined || !mayBeFinal(question, final.number)) return undefined
    const most = methods.get(question.method)?.maxResults ?? Infinity
    const entry = await this.#cache.find(
      this.#nameOf(question),
      this.#options.redisMaxBytes,
      found => (found.count ?? 0) <= most && this.#isOurs(found),
    )
    return entry && { result: entry.result, count: entry.count, source: 'cache', cache: 'hit' }
  }

  /** The answer, proved final by what was known when its node was asked, and that is one of our own. */
  keep({ key }: Pick<Question, 'key'>, { result, source, upstream }: Result, view: View): void {
    const { redisTtl, redisMaxBytes } = this.#options
    const under = view.finalOf(upstream)
    if (source !== 'node' || upstream === undefined || under === undefined || result.byteLength > redisMaxBytes) return
    this.#cache?.keep(this.#nameOf({ key }), { result, under: { number: under.number, hash: under.hash } }, redisTtl)
  }

  /** Networks of one name answer alike on all machines. Parameters may be long, and private. */
  #nameOf({ key }: Pick<Question, 'key'>): string {
    const { chainId, name } = this.#services.network
    return `${chainId}:${name}:${hash('sha256', key, 'base64url')}`
  }

  #isOurs({ under }: Entry): Promise<boolean> {
    const { heads } = this.#services
    const { era } = heads.view
    if (era !== this.#era) this.#proofs.clear()
    this.#era = era
    const id = `${under.number} ${under.hash}`
    const known = this.#proofs.get(id)
    if (known !== undefined) return known
    const asked = heads.holds(under)
    this.#proofs.set(id, asked)
    asked.then(
      holds => {
        if (!holds) this.#proofs.set(id, asked, { ttl: doubt })
      },
      () => this.#proofs.delete(id),
    )
    return asked
  }
}

/** For how long a block that is not final here is not asked for again, in ms. */
const doubt = 5_000

const mayBeFinal = ({ keep, subject }: Question, final: number): boolean =>
  keep === 'found' || (keep === 'block' && subject !== undefined && (typeof subject === 'string' || subject <= final))

export const sharedOptions = {
  redis: {
    type: 'string',
    format: 'redis',
    description: 'URL of a Redis in which machines share final answers; not the one of the store.',
  },
  redisTtl: {
    type: 'string',
    format: 'duration',
    default: '1d',
    description: 'How long an answer is kept there.',
  },
  redisMaxBytes: {
    type: 'string',
    format: 'size',
    default: '1MiB',
    description: 'Longest answer that is kept there.',
  },
} as const satisfies Record<string, Json>
