/** Bytes of all responses together that one turn of the event loop reads: 1.5 ms. */
const maxBytesPerTurn = 786_432
/** Responses that wait and are read on in one turn; a chunk has up to 64 KiB. */
const maxResumedPerTurn = 12
/** Shorter responses wait for nobody. */
const maxUnpausedBytes = 131_072
/** Bytes after which the end of the turn is marked: to mark it costs a microsecond, and most responses are short. */
const bytesPerMark = 131_072

/**
 * Shares out the time of the event loop over the responses that arrive: what has arrived of one is read 2 MB at once, which blocks for
 * 5 ms, and hundreds of long ones would block for a second. A response that finds its turn exhausted waits behind those that wait.
 */
export class ReadTurns {
  /** In order. */
  readonly #waiting: (() => void)[] = []
  #bytesThisTurn = 0
  #isTurnEnding = false

  /** Counts bytes of a response that has `responseBytes` so far. False when the response should be paused, and wait(). */
  record(bytes: number, responseBytes: number): boolean {
    this.#bytesThisTurn += bytes
    if (this.#bytesThisTurn >= bytesPerMark) this.#endTurnLater()
    return this.#bytesThisTurn < maxBytesPerTurn || responseBytes <= maxUnpausedBytes
  }

  /** Calls `resume` when it is the turn of the response, in another turn of the event loop. */
  wait(resume: () => void): void {
    this.#waiting.push(resume)
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
    for (const resume of this.#waiting.splice(0, maxResumedPerTurn)) resume()
    if (this.#waiting.length > 0) this.#endTurnLater()
  }
}
