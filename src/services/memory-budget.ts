import { refuse } from '../plugin/reply.ts'
import type { RefusalDetails, Failure } from '../plugin/reply.ts'

/** The bytes that all responses may take together, while they come in and until callers have read them. */
export interface MemoryBudget {
  /** False when the bytes do not fit; then none are reserved. */
  reserve(bytes: number): boolean
  release(bytes: number): void
  readonly reservedBytes: number
}

export const createMemoryBudget = (maxBytes: number): MemoryBudget => {
  let reservedBytes = 0
  return {
    reserve(bytes) {
      if (reservedBytes + bytes > maxBytes) return false
      reservedBytes += bytes
      return true
    },
    release(bytes) {
      reservedBytes -= bytes
    },
    get reservedBytes() {
      return reservedBytes
    },
  }
}

/** The reply in place of a response that does not fit the memory budget: neither the caller's fault nor a node's. */
export const overloaded = (details: Pick<RefusalDetails, 'upstream'> = {}): Failure =>
  refuse('unavailable', {
    ...details,
    source: 'gateway',
    fault: 'gateway',
    retryAfter: 1,
    message: 'too many responses are waiting to be read; retry later',
    cause: 'response memory budget exhausted',
  })
