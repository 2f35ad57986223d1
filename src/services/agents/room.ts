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
