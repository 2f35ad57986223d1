import { LRUCache } from 'lru-cache'
import type { Request } from '../../src/plugin/plugin.ts'
import type { TrustedHeader } from './block-header.ts'

/** A result that does not fit the header of its block. */
interface SuspectedLie {
  readonly request: Request
  readonly header: TrustedHeader
  readonly upstream: string
  /** How it does not fit. */
  readonly cause: string
  /** What is kept of it until it is known whose fault it is. */
  readonly bytes: number
  /** The upstream has lied. */
  blame(): void
}

/** `blamed`: another upstream has proven the same. `shared`: each upstream fails at it in the same way, so that the chain is the cause. */
type Suspicion = 'blamed' | 'suspected' | 'shared'

const maxSuspected = 256
const maxSuspectedBytes = 16_777_216
const maxProven = 1024
const minEntryBytes = 1024

/**
 * Whose fault it is that a result does not fit the header of its block, on a chain that is not known to be as Ethereum: it may have transactions or receipts
 * that are under no root, in some of its blocks alone. So an upstream has lied once another has proven the same, and not before: upstreams that fail
 * together blame nobody, and an upstream that lies alone cannot make the others look like it. What does not fit is returned to nobody either way.
 */
export class SuspectedLies {
  readonly #suspected = new LRUCache<string, SuspectedLie>({
    max: maxSuspected,
    maxSize: maxSuspectedBytes,
    sizeCalculation: ({ bytes }) => minEntryBytes + bytes,
  })
  readonly #proven = new LRUCache<string, true>({ max: maxProven })

  /** `upstreams`: all that could prove it. */
  add(lie: SuspectedLie, upstreams: readonly string[]): Suspicion {
    const id = idOf(lie.request, lie.header)
    if (this.#proven.has(id)) {
      lie.blame()
      return 'blamed'
    }
    this.#suspected.set(`${lie.upstream} ${id}`, lie)
    const failsAlike = (name: string): boolean => this.#suspected.peek(`${name} ${id}`)?.cause === lie.cause
    return upstreams.includes(lie.upstream) && upstreams.every(failsAlike) ? 'shared' : 'suspected'
  }

  /** An upstream has proven what it was asked about the block. */
  confirm(request: Request, header: TrustedHeader): void {
    const id = idOf(request, header)
    this.#proven.set(id, true)
    if (this.#suspected.size === 0) return
    for (const [key, lie] of this.#suspected.entries()) {
      if (key !== `${lie.upstream} ${id}`) continue
      this.#suspected.delete(key)
      lie.blame()
    }
  }
}

/** Of a transaction upstreams may say that it is in different blocks. */
const idOf = ({ method, params }: Request, { hash }: TrustedHeader): string =>
  JSON.stringify([minedMethods.has(method) ? '' : hash, method, ...params])

const minedMethods: ReadonlySet<string> = new Set(['eth_getTransactionByHash', 'eth_getTransactionReceipt'])
