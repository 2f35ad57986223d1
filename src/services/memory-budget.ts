import { refuse } from '../plugin/reply.ts'
import type { RefusalDetails, Failure } from '../plugin/reply.ts'
import { getOrCreate } from '../util/memoize.ts'
import { RecentMap } from '../util/recent-map.ts'

/**
 * Bytes of one call in flight, besides those of its message and of a long response: its part of the pipeline, and its request
 * to a node. Measured: 7 KB.
 */
const callOverheadBytes = 8_192

/** Bytes that each value of a message takes once it is parsed, at most; each value has at least two bytes of text. */
const maxParsedValueBytes = 64
/** More values are not parsed (`maxParsedValues` of the scanner). */
const maxValuesBytes = 25_000 * maxParsedValueBytes

/**
 * What a message takes until it has been answered, besides its own bytes: the call, the text, the parsed values, and the request to a
 * node. An upper bound that follows from the length alone, so that it is reserved before the message is read.
 */
export const handlingBytes = (messageBytes: number): number =>
  callOverheadBytes + 3 * messageBytes + Math.min((maxParsedValueBytes / 2) * messageBytes, maxValuesBytes)

/** Where the bytes of responses of nodes are reserved while they arrive: the share of a network. */
export interface ResponseMemory {
  /** `heldBytes` are those that the response has already reserved. */
  reserve(bytes: number, heldBytes: number): boolean
  release(bytes: number): void
}

/**
 * The bytes that this process holds for callers: requests while they arrive, calls in flight, responses of nodes while they
 * arrive, and responses until they have been read. They are reserved before they are held. To reserve and to release only adds
 * integers.
 */
export class MemoryBudget {
  readonly maxBytes: number
  /** Changed by reserve() and release() alone. */
  reservedBytes = 0
  readonly #shares = new RecentMap<MemoryShare>(maxShares, () => new MemoryShare(this), holdsBytes)
  /** Apart, as they are few, and each is kept by an upstream client. */
  readonly #networkShares = new Map<string, MemoryShare>()

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get freeBytes(): number {
    return this.maxBytes - this.reservedBytes
  }

  /** False when the bytes do not fit; then none are reserved. */
  reserve(bytes: number): boolean {
    if (bytes > this.freeBytes) return false
    this.reservedBytes += bytes
    return true
  }

  release(bytes: number): void {
    this.reservedBytes -= bytes
  }

  /** The share of a network, for its upstream client. */
  responseMemoryOf(network: string): ResponseMemory {
    return getOrCreate(this.#networkShares, network, () => new MemoryShare(this))
  }

  /** The share of an account, or of whoever else bytes are held for. To be asked for anew once it holds nothing. */
  shareOf(owner: string): MemoryShare {
    return this.#shares.get(owner)
  }
}

/** A response is small while it holds less than this part of what is free. */
const maxSmallResponsePercent = 12

/** Shares that hold nothing are forgotten once so many others have been asked for. */
const maxShares = 500
const holdsBytes = ({ heldBytes }: MemoryShare): boolean => heldBytes > 0

/**
 * The bytes of one owner. It takes more only while it holds less than is free for all others: alone it gets half of the budget, the
 * next owner half of what is left, and so on, so that nobody takes the room of all. An owner that holds little gets any response
 * that fits.
 */
class MemoryShare {
  readonly #budget: MemoryBudget
  #heldBytes = 0

  constructor(budget: MemoryBudget) {
    this.#budget = budget
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /**
   * False when the share or the budget is exhausted; then none are reserved. `heldBytes` are those of the response that the bytes belong
   * to: while it is small, the share does not matter, so that long responses of some callers give way to short ones of others.
   */
  reserve(bytes: number, heldBytes = Infinity): boolean {
    const { freeBytes } = this.#budget
    if (this.#heldBytes >= freeBytes && heldBytes >= (maxSmallResponsePercent / 100) * freeBytes) return false
    if (!this.#budget.reserve(bytes)) return false
    this.#heldBytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes
    this.#budget.release(bytes)
  }

  /** Takes over what another share holds, and refuses nothing. */
  takeOver(bytes: number, from: MemoryShare): void {
    from.#heldBytes -= bytes
    this.#heldBytes += bytes
  }
}

/**
 * What one HTTP request or one WebSocket holds, in the share of its account; of its address until the account is known. Whoever
 * holds further bytes for the caller reserves them here first, and releases them once they are no longer held; what is left
 * when an HTTP request has ended is released then.
 */
export class CallerMemory {
  readonly #budget: MemoryBudget
  #owner: string
  /** Of the owner; valid while bytes are held. */
  #share: MemoryShare | undefined
  #heldBytes = 0

  constructor(budget: MemoryBudget, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  get owner(): string {
    return this.#owner
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** False when the budget, or the share of the account, is exhausted, or this caller holds half of such a share: the call is refused. */
  reserve(bytes: number): boolean {
    if (this.#heldBytes === 0) this.#share = this.#budget.shareOf(this.#owner)
    else if (2 * this.#heldBytes >= this.#budget.freeBytes) return false
    if (this.#share?.reserve(bytes) !== true) return false
    this.#heldBytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes
    this.#share?.release(bytes)
  }

  /**
   * Room for one more call of a batch; that for its first call is reserved with the message. False early, when this caller holds a
   * quarter of what is free: the responses need room too.
   */
  reserveCall(): boolean {
    return 4 * this.#heldBytes < this.#budget.freeBytes && this.reserve(callOverheadBytes)
  }

  releaseCalls(count: number): void {
    this.release(count * callOverheadBytes)
  }

  releaseAll(): void {
    this.release(this.#heldBytes)
  }

  /** The account is known. */
  setOwner(owner: string): void {
    if (owner === this.#owner) return
    this.#owner = owner
    if (this.#heldBytes === 0) return
    const share = this.#budget.shareOf(owner)
    if (this.#share !== undefined) share.takeOver(this.#heldBytes, this.#share)
    this.#share = share
  }
}

/** The reply in place of what does not fit the memory budget: neither the caller's fault nor a node's. */
export const overloaded = (details: Pick<RefusalDetails, 'upstream'> = {}): Failure =>
  refuse('unavailable', {
    ...details,
    source: 'gateway',
    fault: 'gateway',
    retryAfter: 1,
    message: 'too many bytes are in flight; retry later',
    cause: 'memory budget exhausted',
  })
