import { Cancellation } from '../../src/plugin/plugin.ts'
import type { Call, Next, Reply, ChainSnapshot } from '../../src/plugin/plugin.ts'

/** One upstream call that several callers wait for. It is given up when the last of them has left. */
export class SingleFlight {
  readonly #headVersion: number
  readonly #reply: Promise<Reply>
  readonly #cancellation = new Cancellation()
  #waitingCallers = 0

  constructor(snapshot: ChainSnapshot, call: Call<'request'>, next: Next<'request'>, onEnd: () => void) {
    this.#headVersion = snapshot.headVersion
    this.#reply = next({ message: call.message, origin: call.origin, signal: this.#cancellation, context: call.context })
    this.#reply.then(onEnd, onEnd)
  }

  /** Not when it was given up, nor when it began before the present head was known: it may be about an older one. */
  mayJoin({ headVersion }: ChainSnapshot): boolean {
    return !this.#cancellation.aborted && this.#headVersion === headVersion
  }

  async join(call: Call): Promise<Reply> {
    const onCallerGone = () => {
      this.#waitingCallers -= 1
      if (this.#waitingCallers === 0) this.#cancellation.abort()
    }
    const signal = call.signal ?? call.origin.signal
    this.#waitingCallers += 1
    if (signal.aborted) onCallerGone()
    else signal.addEventListener('abort', onCallerGone)
    try {
      return await this.#reply
    } finally {
      signal.removeEventListener('abort', onCallerGone)
    }
  }
}
