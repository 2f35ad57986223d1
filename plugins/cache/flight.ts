import { Leave } from '../../src/plugin.ts'
import type { Call, Next, Reply, View } from '../../src/plugin.ts'

/** One upstream call that several callers wait for. It is given up when the last of them has left. */
export class Flight {
  readonly #epoch: number
  readonly #reply: Promise<Reply>
  readonly #end = new Leave()
  #waiting = 0

  constructor(view: View, call: Call<'request'>, next: Next<'request'>, onEnd: () => void) {
    this.#epoch = view.epoch
    this.#reply = next({ message: call.message, origin: call.origin, signal: this.#end, notes: call.notes })
    this.#reply.then(onEnd, onEnd)
  }

  /** Not when it was given up, nor when it began before the present head was known: it may be about an older one. */
  mayJoin({ epoch }: View): boolean {
    return !this.#end.aborted && this.#epoch === epoch
  }

  async join(call: Call): Promise<Reply> {
    const leave = () => {
      this.#waiting -= 1
      if (this.#waiting === 0) this.#end.abort()
    }
    const signal = call.signal ?? call.origin.signal
    this.#waiting += 1
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave)
    try {
      return await this.#reply
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }
}
