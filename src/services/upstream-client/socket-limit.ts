/** The sockets that a process may have to nodes; see SocketLimits. */
export interface UpstreamSockets {
  readonly maxUpstreamSockets: number
  recordRefused(peer: 'upstream', reason: string): void
}

/** Counts sockets that are open together. */
export class SocketLimit {
  readonly #maxSockets: number
  #openSockets = 0

  constructor(maxSockets: number) {
    this.#maxSockets = maxSockets
  }

  acquire(): boolean {
    if (this.#openSockets >= this.#maxSockets) return false
    this.#openSockets += 1
    return true
  }

  release(): void {
    this.#openSockets -= 1
  }
}
