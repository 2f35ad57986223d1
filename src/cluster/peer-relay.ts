import type { WorkerChannel, WorkerMessage } from './channel.ts'

/** A request that has been passed on. */
interface PendingRequest {
  readonly network: string
  readonly from: WorkerChannel
  readonly to: WorkerChannel
  /** As the worker that asks knows the request. */
  readonly id: number
}

/** Passes requests of workers on to other workers, and the answers back. A worker that exits answers nothing. */
export class PeerRelay {
  readonly #workers = new Map<string, WorkerChannel>()
  readonly #pending = new Map<number, PendingRequest>()
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
