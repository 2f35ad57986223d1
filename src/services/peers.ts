import { randomBytes } from 'node:crypto'
import type { Json } from '../util/json.ts'

/** `absent`: the process is not reached, and has not handled the request. `late`: it does not answer, and may have handled the request. */
export type PeerReply = { readonly payload: Json } | 'absent' | 'late'

/** Answers the requests of other processes. */
export interface PeerHandler {
  /** Undefined when there is nothing to answer: the process counts as absent. */
  answer(payload: Json): Promise<Json | undefined>
  /** The answer to this request may not have arrived. */
  onUnsent(payload: Json): void
}

/**
 * The processes that serve one network: the workers of this gateway, and with Redis as the store those of all gateways that share it.
 * What one of them keeps for a caller, the others find by its name.
 */
export interface Peers {
  /** The name of this process, of 16 hex digits: no other process ever has it. */
  readonly name: string
  request(peer: string, payload: Json): Promise<PeerReply>
  /** Replaces the handler of the requests of others. Returns what ends it. */
  serve(handler: PeerHandler): () => void
}

const peerNameChars = 16

export const newPeerName = (): string => randomBytes(peerNameChars / 2).toString('hex')

/** A gateway without workers is one process. */
export const openOnlyPeer = (): Peers => ({ name: newPeerName(), request: async () => 'absent', serve: () => () => undefined })
