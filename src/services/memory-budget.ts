import { refuse } from '../plugin/reply.ts'
import type { RefusalDetails, Failure } from '../plugin/reply.ts'

/** Bytes that answers may take together, while they come in and until callers have read them. */
export interface MemoryBudget {
  /** False when they do not fit; then nothing is taken. */
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

/** The answer in place of one for which there is no room: ours, neither the caller's doing nor a node's. */
export const overloaded = (details: Pick<RefusalDetails, 'upstream'> = {}): Failure =>
  refuse('unavailable', {
    ...details,
    source: 'gateway',
    fault: 'gateway',
    retryAfter: 1,
    message: 'too many answers wait to be read now',
    cause: 'answers in flight take all the room they may',
  })
