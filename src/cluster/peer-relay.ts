import { newPeerName } from '../services/peers.ts'
import type { PeerHandler, PeerReply, Peers } from '../services/peers.ts'
import type { Json } from '../util/json.ts'
import { PendingReplies } from './channel.ts'
import type { NetworkChannel, NetworkMessage, WorkerMessage, WorkerChannel } from './worker-messages.ts'

/** A request that has been passed on. */
interface RelayedRequest {
  readonly network: string
  readonly from: WorkerChannel
  readonly to: WorkerChannel
  /** As the worker that asks knows the request. */
  readonly id: number
}

/** Passes requests of workers on to other workers, and the answers back. A worker that exits answers nothing. */
export class PeerRelay {
  readonly #workers = new Map<string, WorkerChannel>()
  readonly #pending = new Map<number, RelayedRequest>()
  #lastId = 0

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (message.kind === 'joinPeers') this.#workers.set(message.peer, worker)
    else if (message.kind === 'peerRequest') this.#passOn(worker, message)
    else if (message.kind === 'peerReply') this.#reply(message.id, message.payload)
  }

  removeWorker(worker: WorkerChannel): void {
    for (const [peer, each] of this.#workers) if (each === worker) this.#workers.delete(peer)
    for (const [id, { from, to }] of this.#pending) {
      if (from === worker) this.#pending.delete(id)
      else if (to === worker) this.#reply(id)
    }
  }

  #passOn(from: WorkerChannel, { network, peer, id, payload }: Extract<WorkerMessage, { kind: 'peerRequest' }>): void {
    const to = this.#workers.get(peer)
    if (to === undefined) return from.send({ kind: 'peerReply', network, id })
    const relayId = (this.#lastId += 1)
    this.#pending.set(relayId, { network, from, to, id })
    to.send({ kind: 'peerRequest', network, id: relayId, payload })
  }

  #reply(relayId: number, payload?: Extract<WorkerMessage, { kind: 'peerReply' }>['payload']): void {
    const request = this.#pending.get(relayId)
    if (request === undefined) return
    this.#pending.delete(relayId)
    const { network, from, id } = request
    from.send({ kind: 'peerReply', network, id, ...(payload !== undefined && { payload }) })
  }
}

/** A worker that does not answer in time is busy or stopped. */
const requestTimeoutMs = 5_000

/** A worker's way to the other workers of a network: the primary passes requests and answers on. */
export class WorkerPeers implements Peers {
  readonly name = newPeerName()
  readonly #channel: NetworkChannel
  readonly #replies: PendingReplies<PeerReply>
  #handler: PeerHandler | undefined

  constructor(channel: NetworkChannel) {
    this.#channel = channel
    this.#replies = new PendingReplies(channel.clock)
    channel.send({ kind: 'joinPeers', network: channel.network, peer: this.name })
  }

  serve(handler: PeerHandler): () => void {
    this.#handler = handler
    return () => {
      if (this.#handler === handler) this.#handler = undefined
    }
  }

  request(peer: string, payload: Json): Promise<PeerReply> {
    const { network, send } = this.#channel
    return this.#replies.request(
      requestTimeoutMs,
      id => send({ kind: 'peerRequest', network, peer, id, payload }),
      () => 'late',
    )
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    if (message.kind === 'peerRequest') void this.#answer(message.id, message.payload)
    else if (message.kind === 'peerReply') this.#replies.resolve(message.id, replyOf(message))
  }

  async #answer(id: number, payload: Json): Promise<void> {
    const { network, send } = this.#channel
    const answer = await this.#handler?.answer(payload)
    send({ kind: 'peerReply', network, id, ...(answer !== undefined && { payload: answer }) })
  }
}

const replyOf = ({ payload }: { readonly payload?: Json }): PeerReply => (payload === undefined ? 'absent' : { payload })
