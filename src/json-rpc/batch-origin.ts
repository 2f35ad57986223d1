import type { Origin } from '../plugin/call.ts'

/** The origin of the calls of a batch: that of its message, except that nothing can be pushed. */
export class BatchOrigin implements Origin {
  readonly push = undefined
  readonly #origin: Origin

  constructor(origin: Origin) {
    this.#origin = origin
  }

  get transport(): Origin['transport'] {
    return this.#origin.transport
  }

  get network(): string {
    return this.#origin.network
  }

  get key(): Origin['key'] {
    return this.#origin.key
  }

  get originHeader(): string | undefined {
    return this.#origin.originHeader
  }

  get ip(): string {
    return this.#origin.ip
  }

  get requestId(): string {
    return this.#origin.requestId
  }

  get headers(): Origin['headers'] {
    return this.#origin.headers
  }

  get signal(): Origin['signal'] {
    return this.#origin.signal
  }

  get state(): Origin['state'] {
    return this.#origin.state
  }
}
