import type { Clock } from '../services/clock.ts'
import type { TokenRequest } from '../services/rate-limits.ts'
import { RemoteRateLimits } from '../services/remote-rate-limits.ts'
import type { TokenGrant } from '../services/remote-rate-limits.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { PrimaryMessage, WorkerMessage } from './channel.ts'

/** When the primary does not answer in time, a call is let through. */
const primaryTimeoutMs = 50

type Reply = Extract<PrimaryMessage, { readonly kind: 'tokens' }>

/** The buckets of a worker: the primary has those of the gateway. */
export class WorkerRateLimits extends RemoteRateLimits {
  readonly #primary: PrimaryTokens

  constructor(clock: Clock, send: (message: WorkerMessage) => void) {
    const primary = new PrimaryTokens(clock, send)
    super(clock, primary.request)
    this.#primary = primary
  }

  /** From the primary. */
  handleMessage(reply: Reply): void {
    this.#primary.handleMessage(reply)
  }
}

/** Requests to the primary that wait for their replies. */
class PrimaryTokens {
  readonly #clock: Clock
  readonly #send: (message: WorkerMessage) => void
  readonly #pending = new Map<number, (reply: Reply) => void>()
  #lastId = 0

  constructor(clock: Clock, send: (message: WorkerMessage) => void) {
    this.#clock = clock
    this.#send = send
  }

  readonly request = async (request: TokenRequest, most: number): Promise<TokenGrant | undefined> => {
    const id = (this.#lastId += 1)
    const reply = new Promise<Reply>(resolve => this.#pending.set(id, resolve))
    this.#send({ kind: 'takeTokens', id, request, most })
    const received = await withTimeoutOr(this.#clock, primaryTimeoutMs, reply, () => undefined)
    this.#pending.delete(id)
    return received
  }

  handleMessage(reply: Reply): void {
    this.#pending.get(reply.id)?.(reply)
  }
}
