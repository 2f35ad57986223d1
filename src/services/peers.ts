import { randomBytes } from 'node:crypto'
import type { Json } from '../util/json.ts'

/** Answers a request of another worker; undefined when there is nothing to answer. */
export type PeerHandler = (payload: Json) => Promise<Json | undefined>

/** The workers of this gateway that serve one network. What one of them keeps for a caller, the others find by its name. */
export interface Peers {
  /** The name of this process, of 16 hex digits: no other process ever has it. */
  readonly name: string
  /** Asks the worker of this name. Undefined when there is none, as it has exited, and when it does not answer. */
  request(peer: string, payload: Json): Promise<Json | undefined>
  /** Replaces the handler of the requests of others. */
  serve(handler: PeerHandler): void
}

export const peerNameChars = 16

export const newPeerName = (): string => randomBytes(peerNameChars / 2).toString('hex')

/** A gateway without workers is one process. */
export const openOnlyPeer = (): Peers => ({ name: newPeerName(), request: async () => undefined, serve: () => undefined })
