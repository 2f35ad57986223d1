import type { Clock } from '../../src/plugin/plugin.ts'

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
export class MissingMethods {
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
