import { blocksOf } from '../../src/plugin.ts'
import type { Request, Services } from '../../src/plugin.ts'

/** How far back a question goes: to blocks whose state each full node has, to older ones; or to one named by its hash. */
export type Depth = 'head' | 'past' | 'hash'

/** Newest blocks whose state full nodes keep. */
const kept = 128
/** Nodes are not all at the same block, nor at the newest that is known: so near to the last that they keep it depends. */
const edge = 32

/** The newest block that the question names by its number. */
export const newestOf = ({ method, params }: Request, { methods }: Pick<Services, 'methods'>): number | undefined => {
  const blocks = blocksOf(methods.get(method), params)
  if (blocks === undefined || 'hash' in blocks) return undefined
  const numbers = [blocks.from, blocks.to].filter(block => typeof block === 'number')
  return numbers.length === 0 ? undefined : Math.max(...numbers)
}

/** Undefined where that cannot be told. */
export const depthOf = (
  { method, params }: Request,
  { methods, heads: { view } }: Pick<Services, 'methods' | 'heads'>,
): Depth | undefined => {
  const blocks = blocksOf(methods.get(method), params)
  if (blocks === undefined || 'hash' in blocks) return blocks && 'hash'
  const { from } = blocks
  if (from === 'earliest') return 'past'
  // Final blocks are hours old on some networks; safe ones lie between.
  const number = from === 'finalized' || from === 'safe' ? view.finalOf()?.number : from
  if (typeof number !== 'number') return 'head'
  const age = view.head === undefined ? kept : view.head - number
  return age < kept - edge ? 'head' : age < kept + edge ? undefined : 'past'
}
