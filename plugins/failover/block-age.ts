import type { BlockSelector, ChainSnapshot } from '../../src/plugin/plugin.ts'

/** Full nodes have the state of so many newest blocks. */
export const fullStateBlocks = 128

/**
 * How many blocks the oldest of the blocks is below the head; Infinity for `earliest`. Undefined where that cannot be known: for
 * a block by its hash, and for numbers while there is no head.
 */
export const oldestBlockAge = (blocks: BlockSelector, snapshot: Pick<ChainSnapshot, 'head' | 'finalizedBlockOf'>): number | undefined => {
  if ('hash' in blocks) return undefined
  const { from } = blocks
  if (from === 'earliest') return Infinity
  // Finalized blocks are hours old on some networks; safe blocks lie between them and the head.
  const number = from === 'finalized' || from === 'safe' ? snapshot.finalizedBlockOf()?.number : from
  if (typeof number !== 'number') return 0
  return snapshot.head === undefined ? undefined : Math.max(0, snapshot.head - number)
}
