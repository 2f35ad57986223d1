import { refuse } from '../../reply.ts'
import type { Detail, Failure } from '../../reply.ts'

/** Bytes that answers may take together, while they come in and until callers have read them. */
export interface Room {
  /** False when they do not fit; then nothing is taken. */
  take(bytes: number): boolean
  give(bytes: number): void
  readonly taken: number
}

export const openRoom = (size: number): Room => {
  let taken = 0
  return {
    take(bytes) {
      if (taken + bytes > size) return false
      taken += bytes
      return true
    },
    give(bytes) {
      taken -= bytes
    },
    get taken() {
      return taken
    },
  }
}

/** The answer in place of one for which there is no room: ours, neither the caller's doing nor a node's. */
export const noRoom = (detail: Pick<Detail, 'upstream'> = {}): Failure =>
  refuse('unavailable', {
    ...detail,
    source: 'gateway',
    fault: 'gateway',
    retryAfter: 1,
    message: 'too many answers wait to be read now',
    cause: 'answers in flight take all the room they may',
  })
