import { getOrCreate } from '../../src/plugin/internal.ts'
import type { Timer } from '../../src/plugin/plugin.ts'
import type { Clock } from '../../src/plugin/internal.ts'

/** Above these shares of its calls, free failures limit an account. */
const singleAttemptShare = 0.05
const refusalShare = 0.1
/** With fewer calls in the window, a share says nothing. */
const minCalls = 20

const bucketMs = 10_000
/** A minute in all. */
const bucketCount = 6

/**
 * The free failures of each account within the last minute: calls that a node failed in a way that callers can cause, as by
 * queries that it does not finish. Their share of an account's calls is bounded, and with it the work that is done for nothing.
 */
export class FailureLimit {
  readonly #accounts = new Map<string, RecentCalls>()
  readonly #clock: Clock
  readonly #rotation: Timer

  constructor(clock: Clock) {
    this.#clock = clock
    this.#rotation = clock.every(bucketMs, () => this.#rotate())
  }

  stop(): void {
    this.#rotation.cancel()
  }

  of(account: string): RecentCalls {
    const recent = getOrCreate(this.#accounts, account, this.#createRecentCalls)
    recent.unusedRotations = 0
    return recent
  }

  readonly #createRecentCalls = (): RecentCalls => new RecentCalls(this.#clock)

  /** Drops the counts that are a minute old. A call is recorded when it ends, so an account is kept for a minute after its last call began. */
  #rotate(): void {
    for (const [account, recent] of this.#accounts) {
      recent.rotate()
      if (recent.isEmpty && recent.unusedRotations >= bucketCount) this.#accounts.delete(account)
    }
  }
}

/**
 * The calls of one account that were paid for, and how many were free failures. Other calls do not count: with any number of calls that cost
 * nothing, callers could have a tenth as many failures. To record a call takes 5 ns: no clock is read.
 */
export class RecentCalls {
  readonly missingMethods: MissingMethods
  unusedRotations = 0
  readonly #calls = noCalls()
  /** Undefined until there is one: most accounts have none, and a process has thousands of accounts. */
  #failures: number[] | undefined
  /** The bucket of now; the one behind it, around the end, is the oldest. */
  #newest = 0
  #totalCalls = 0
  #totalFailures = 0

  constructor(clock: Clock) {
    this.missingMethods = new MissingMethods(clock)
  }

  recordCall(): void {
    this.#calls[this.#newest]! += 1
    this.#totalCalls += 1
  }

  recordFreeFailure(): void {
    this.recordCall()
    this.#failures ??= noCalls()
    this.#failures[this.#newest]! += 1
    this.#totalFailures += 1
  }

  /** The account's calls get one attempt, and no hedge. */
  get isSingleAttempt(): boolean {
    return this.#totalFailures > 0 && isAbove(singleAttemptShare, this.#totalCalls, this.#totalFailures)
  }

  /** The account's calls are refused for so long; undefined when they are not. */
  get refusedForMs(): number | undefined {
    if (this.#totalFailures === 0 || !isAbove(refusalShare, this.#totalCalls, this.#totalFailures)) return undefined
    let [calls, failures, buckets] = [this.#totalCalls, this.#totalFailures, 0]
    while (isAbove(refusalShare, calls, failures)) {
      buckets += 1
      const oldest = (this.#newest + buckets) % bucketCount
      calls -= this.#calls[oldest]!
      failures -= this.#failures?.[oldest] ?? 0
    }
    return buckets * bucketMs
  }

  get isEmpty(): boolean {
    return this.#totalCalls === 0 && this.#totalFailures === 0
  }

  /** The oldest bucket becomes the newest. */
  rotate(): void {
    this.unusedRotations += 1
    this.#newest = (this.#newest + 1) % bucketCount
    this.#totalCalls -= this.#calls[this.#newest]!
    this.#calls[this.#newest] = 0
    if (this.#failures === undefined) return
    this.#totalFailures -= this.#failures[this.#newest]!
    this.#failures[this.#newest] = 0
    if (this.#totalFailures === 0) this.#failures = undefined
  }
}

const noCalls = (): number[] => new Array<number>(bucketCount).fill(0)

const isAbove = (share: number, calls: number, failures: number): boolean => calls >= minCalls && failures > share * calls

/** So many calls of a method in a row, without a charged one between them, show that the nodes lack it. */
const minCallsInRow = 5
/** Until the nodes are asked again for a method that they lack: they may have been upgraded. */
const rememberedForMs = 10_000

interface MissingMethod {
  readonly callsInRow: number
  /** On the monotonic clock. */
  readonly until: number
}

/**
 * The methods that one account's calls have shown the nodes to lack. Such calls are free and limit no account, so without a memory the nodes
 * would be asked as often as the caller likes. A memory of all accounts would let one caller withhold a method from the others, as some errors
 * that say so depend on the parameters. Bounded by the method table, as other methods are not recorded.
 */
class MissingMethods {
  readonly #clock: Clock
  /** Undefined without any: most accounts have none, and a process has thousands of accounts. */
  #methods: Map<string, MissingMethod> | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Is no node to be asked for a call of the method? When the time is over, one call asks. */
  refuses(method: string): boolean {
    const missing = this.#methods?.get(method)
    if (missing === undefined || missing.callsInRow < minCallsInRow) return false
    const now = this.#clock.monotonic()
    if (now < missing.until) return true
    this.#methods?.set(method, { ...missing, until: now + rememberedForMs })
    return false
  }

  /** The nodes lack the method, says the reply to a call. */
  record(method: string): void {
    this.#methods ??= new Map()
    const callsInRow = 1 + (this.#methods.get(method)?.callsInRow ?? 0)
    this.#methods.set(method, { callsInRow, until: this.#clock.monotonic() + rememberedForMs })
  }

  /** A call of the method has been charged, so a node has it. */
  forget(method: string): void {
    this.#methods?.delete(method)
  }
}
