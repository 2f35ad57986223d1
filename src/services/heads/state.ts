import type { Settled } from './view.ts'

/** Where a node is, by what it told last. An answer to eth_blockNumber tells neither hash nor time. */
export interface Place {
  readonly number: number
  readonly hash?: string
  /** ms since 1970. */
  readonly time?: number
}

/** Why a node is passed over: it is on another chain, too far behind, or further ahead than can be. */
export type Reason = 'chain' | 'lag' | 'ahead'

/** What is known of a network's chain at one moment; plain data, so that processes can hand it on. */
export interface State {
  /** The newest that is believed. */
  readonly head?: Place
  /** The newest that any node called final. */
  readonly final?: Settled
  /** How often final blocks were undone. */
  readonly era: number
  /** The height that callers are told. */
  readonly told: number
  readonly nodes: readonly NodeState[]
}

export interface NodeState {
  readonly name: string
  readonly head?: Place
  /** The newest that it may be believed to be final. */
  readonly final?: Settled
  readonly isSubscribed: boolean
  readonly verdict?: Verdict
}

export interface Verdict {
  readonly reason: Reason
  /** What `/readyz?verbose` and the log say: with how many blocks, or which chain. */
  readonly words: string
}

export const isSame = (one: Place | undefined, other: Place | undefined): boolean =>
  one?.number === other?.number && one?.hash === other?.hash
