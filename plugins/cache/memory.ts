import { LRUCache } from 'lru-cache'
import { isFailure, Pieces, wholeOf } from '../../src/plugin.ts'
import type { Call, Failure, Keep, Reply, Result, Services, Text, View } from '../../src/plugin.ts'
import type { Shared } from './shared.ts'
import { minedIn, subjectOf } from './subject.ts'

/** A call that a node must answer, and what was known, at which time, before one was asked. */
export interface Miss {
  readonly call: Call<'request'>
  readonly keep: Keep
  readonly key: string
  readonly view: View
  readonly asked: number
}

export interface MemoryOptions {
  readonly maxBytes: number
  /** ms for which a query for too much is refused. */
  readonly tooMany: number
}

/** An answer, and how long it stands: while final blocks stand, or while the head does in whose epoch it was asked. */
interface Kept {
  readonly reply: Reply
  readonly era?: number
  readonly epoch?: number
}

/** The first level: answers in the memory of this process. What is proved to be final goes to the second one too. */
export class Memory {
  readonly #options: MemoryOptions
  readonly #services: Services
  readonly #shared: Shared | undefined
  readonly #kept: LRUCache<string, Kept>
  /** ms for which an answer is kept that may change. */
  readonly #life: number

  constructor(options: MemoryOptions, services: Services, shared: Shared | undefined) {
    const { network, heads } = services
    this.#options = options
    this.#services = services
    this.#shared = shared
    this.#kept = keepAnswers(options.maxBytes, services)
    this.#life = Math.min(network.blockTime, heads.interval)
  }

  /** The answer as later callers get it, if there is one that still stands. */
  find(key: string, view: View): Reply | undefined {
    const kept = this.#kept.get(key)
    return kept !== undefined && stands(kept, view) ? kept.reply : undefined
  }

  keep(miss: Miss, reply: Reply): void {
    const { keep, key, view, asked } = miss
    const [kept, { heads, clock }, { tooMany }] = [this.#kept, this.#services, this.#options]
    const now = heads.view
    if (reply.source === 'cache') {
      // final, by the word of another machine
      if (now.era === view.era) kept.set(key, { reply: remembered(reply), era: view.era })
    } else if (isFailure(reply)) {
      if (isTooMuch(reply) && tooMany > 0) kept.set(key, { reply: remembered(reply) }, { ttl: tooMany })
    } else if (!mayKeep(keep, key, reply)) {
      kept.delete(key)
    } else if (now.era === view.era && this.#isProvedFinal(miss, reply)) {
      kept.set(key, { reply: remembered(reply), era: view.era })
      this.#shared?.keep({ key }, reply, view)
    } else if (now.epoch === view.epoch && view.isCurrent(reply.upstream)) {
      const ttl = this.#life - (clock.monotonic() - asked)
      if (ttl > 0) kept.set(key, { reply: remembered(reply), epoch: view.epoch }, { ttl })
    }
  }

  /** Is the answer about a block that the node which gave it had called final before it was asked? */
  #isProvedFinal({ call, keep, view }: Miss, { result, upstream }: Result): boolean {
    const subject = keep === 'found' ? minedIn(result) : keep === 'block' ? subjectOf(call, this.#services.methods) : undefined
    return subject !== undefined && view.isFinal(upstream, subject)
  }
}

/** Bytes that an entry takes beside its key and its result: measured with 100,000 small entries. */
const overhead = 400

const keepAnswers = (maxBytes: number, { memory, keep, clock }: Services): LRUCache<string, Kept> => {
  const maxSize = Math.max(1, Math.min(maxBytes, memory)) // lru-cache takes 0 for no bound
  return keep(
    'answers',
    { maxSize },
    () =>
      new LRUCache<string, Kept>({
        maxSize,
        maxEntrySize: Math.max(1, Math.floor(maxSize / 4)),
        sizeCalculation: ({ reply }, key) => (isFailure(reply) ? 0 : reply.result.byteLength) + 2 * key.length + overhead,
        perf: { now: () => clock.monotonic() },
        ttlResolution: 0,
      }),
  )
}

const stands = ({ era, epoch }: Kept, view: View): boolean =>
  (era === undefined || era === view.era) && (epoch === undefined || epoch === view.epoch)

const isTooMuch = ({ kind, meaning }: Failure): boolean => kind === 'tooMany' || meaning === 'tooWide'

const mayKeep = (keep: Keep, key: string, { result, odd }: Result): boolean => {
  if (odd === true || isNothing(result) || key.includes('"pending"')) return false
  return keep !== 'found' || minedIn(result) !== undefined
}

const nothing = Buffer.from('null')

const isNothing = (result: Text): boolean => result.byteLength === nothing.length && wholeOf(result).equals(nothing)

/** The reply as later callers get it: no node was asked for them, so a refusal costs them nothing. */
const remembered = (reply: Reply): Reply => {
  if (isFailure(reply)) return { ...reply, source: 'cache', upstream: undefined, cache: 'hit' }
  return { result: onItsOwn(reply.result), count: reply.count, source: 'cache', upstream: undefined, cache: 'hit' }
}

/** What is part of something longer would keep all of that: 64 KiB, for 66 bytes that came compressed. In 1 MiB that is little. */
const onItsOwn = (text: Text): Text => {
  if (text instanceof Pieces) return text.byteLength > 1 << 20 ? text : wholeOf(text)
  return text.buffer.byteLength - text.byteLength > overhead ? Buffer.from(new Uint8Array(text).buffer) : text
}
