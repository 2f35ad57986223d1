import type { Clock } from '../services/clock.ts'
import { newPeerName } from '../services/peers.ts'
import type { PeerHandler, Peers } from '../services/peers.ts'
import type { Json } from '../util/json.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { NetworkMessage, WorkerMessage } from './channel.ts'

/** A worker that does not answer in time is busy or stopped. */
const requestTimeoutMs = 5_000

export interface WorkerPeersOptions {
  readonly network: string
  readonly clock: Clock
  send(message: WorkerMessage): void
}

/** A worker's way to the other workers of a network: the primary passes requests and answers on. */
export class WorkerPeers implements Peers {
  readonly name = newPeerName()
  readonly #options: WorkerPeersOptions
  readonly #pending = new Map<number, (payload: Json | undefined) => void>()
  #handler: PeerHandler = async () => undefined
  #lastId = 0

  constructor(options: WorkerPeersOptions) {
    this.#options = options
    options.send({ kind: 'joinPeers', network: options.network, peer: this.name })
  }

  serve(handler: PeerHandler): void {
    this.#handler = handler
  }

  async request(peer: string, payload: Json): Promise<Json | undefined> {
    const { network, clock, send } = this.#options
    const id = (this.#lastId += 1)
    const reply = new Promise<Json | undefined>(resolve => this.#pending.set(id, resolve))
    send({ kind: 'peerRequest', network, peer, id, payload })
    const answered = await withTimeoutOr(clock, requestTimeoutMs, reply, () => undefined)
    this.#pending.delete(id)
    return answered
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    if (message.kind === 'peerRequest') void this.#answer(message.id, message.payload)
    else if (message.kind === 'peerReply') this.#pending.get(message.id)?.(message.payload)
  }

  async #answer(id: number, payload: Json): Promise<void> {
    const { network, send } = this.#options
    const answer = await this.#handler(payload)
    send({ kind: 'peerReply', network, id, ...(answer !== undefined && { payload: answer }) })
  }
}
