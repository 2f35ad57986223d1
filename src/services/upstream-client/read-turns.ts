/** Bytes of all responses together that one turn of the event loop reads: 1.5 ms. */
const maxBytesPerTurn = 786_432
/** Shorter responses wait for nobody. */
const maxUnpausedBytes = 131_072
/** Bytes after which the end of the turn is marked: to mark it costs a microsecond, and most responses are short. */
const bytesPerMark = 131_072

interface WaitingResponse {
  /** So far. */
  readonly bytes: number
  resume(): void
}

/**
 * Shares out the time of the event loop over the responses that arrive: Node.js reads a socket up to 32 times in a row, 8 MB in all, which blocks
 * for 10 ms, and hundreds of long ones would block for a second. A response that finds its turn exhausted waits. The one of which most has
 * been read goes on first, so that few are in memory at a time.
 */
export class ReadTurns {
  /** The one with the most bytes is the last. */
  readonly #waiting: WaitingResponse[] = []
  #bytesThisTurn = 0
  #isTurnEnding = false

  /** Counts bytes of a response that has `responseBytes` so far. False when the response should be paused, and wait(). */
  record(bytes: number, responseBytes: number): boolean {
    this.#bytesThisTurn += bytes
    if (this.#bytesThisTurn >= bytesPerMark) this.#endTurnLater()
    return this.#bytesThisTurn < maxBytesPerTurn || responseBytes <= maxUnpausedBytes
  }

  /** Calls `resume` when it is the turn of the response, in another turn of the event loop. */
  wait(responseBytes: number, resume: () => void): void {
    const next = this.#waiting.findIndex(({ bytes }) => bytes >= responseBytes)
    this.#waiting.splice(next < 0 ? this.#waiting.length : next, 0, { bytes: responseBytes, resume })
    this.#endTurnLater()
  }

  #endTurnLater(): void {
    if (this.#isTurnEnding) return
    this.#isTurnEnding = true
    setImmediate(() => this.#endTurn())
  }

  #endTurn(): void {
    this.#isTurnEnding = false
    this.#bytesThisTurn = 0
    this.#waiting.pop()?.resume()
    if (this.#waiting.length > 0) this.#endTurnLater()
  }
}
