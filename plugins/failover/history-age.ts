import { blockSelectorOf } from '../../src/plugin/plugin.ts'
import type { Request, Services } from '../../src/plugin/plugin.ts'

/** How far back a question goes: to blocks whose state each full node has, to older ones; or to one named by its hash. */
export type HistoryAge = 'head' | 'past' | 'hash'

/** Newest blocks whose state full nodes keep. */
const fullStateBlocks = 128
/** Nodes are not all at the same block, nor at the newest that is known: so near to the last that they keep it depends. */
const headToleranceBlocks = 32

/** The newest block that the question names by its number. */
export const newestBlockNumber = ({ method, params }: Request, { methods }: Pick<Services, 'methods'>): number | undefined => {
  const blocks = blockSelectorOf(methods.get(method), params)
  if (blocks === undefined || 'hash' in blocks) return undefined
  const numbers = [blocks.from, blocks.to].filter(block => typeof block === 'number')
  return numbers.length === 0 ? undefined : Math.max(...numbers)
}

/** Undefined where that cannot be told. */
export const historyAgeOf = (
  { method, params }: Request,
  { methods, heads: { snapshot } }: Pick<Services, 'methods' | 'heads'>,
): HistoryAge | undefined => {
  const blocks = blockSelectorOf(methods.get(method), params)
  if (blocks === undefined || 'hash' in blocks) return blocks && 'hash'
  const { from } = blocks
  if (from === 'earliest') return 'past'
  // Final blocks are hours old on some networks; safe ones lie between.
  const number = from === 'finalized' || from === 'safe' ? snapshot.finalizedBlockOf()?.number : from
  if (typeof number !== 'number') return 'head'
  const age = snapshot.head === undefined ? fullStateBlocks : snapshot.head - number
  return age < fullStateBlocks - headToleranceBlocks ? 'head' : age < fullStateBlocks + headToleranceBlocks ? undefined : 'past'
}
