import type { BlockId } from './chain-snapshot.ts'

/** Where a node is, by what it told last. An answer to eth_blockNumber tells neither hash nor time. */
export interface Head {
  readonly number: number
  readonly hash?: string
  /** ms since 1970. */
  readonly timestampMs?: number
}

/** Why a node is passed over: it is on another chain, too far behind, or further ahead than can be. */
export type ExclusionReason = 'chain' | 'lag' | 'ahead'

/** What is known of a network's chain at one moment; plain data, so that processes can hand it on. */
export interface ChainState {
  /** The newest that is believed. */
  readonly head?: Head
  /** The newest that any node called final. */
  readonly finalized?: BlockId
  /** How often final blocks were undone. */
  readonly finalityVersion: number
  /** The height that callers are told. */
  readonly reportedHeight: number
  readonly upstreams: readonly UpstreamState[]
}

export interface UpstreamState {
  readonly name: string
  readonly head?: Head
  /** The newest that it may be believed to be final. */
  readonly finalized?: BlockId
  readonly isSubscribed: boolean
  readonly exclusion?: Exclusion
}

export interface Exclusion {
  readonly reason: ExclusionReason
  /** What `/readyz?verbose` and the log say: with how many blocks, or which chain. */
  readonly description: string
}

export const isSameHead = (one: Head | undefined, other: Head | undefined): boolean =>
  one?.number === other?.number && one?.hash === other?.hash
