import { namedBlocksOf } from '../../src/plugin/internal.ts'
import type { BlockSelector, Method } from '../../src/plugin/plugin.ts'

/** The block that a node must have to be requested. */
export interface RequiredBlock {
  /** Undefined: the newest block that callers have been told of, which is enough for a greater number too. */
  readonly number: number | undefined
}

const reportedBlock: RequiredBlock = { number: undefined }

/** The number of the newest block itself is no request for it: a lower one is corrected. */
export const requiredBlockOf = (blocks: BlockSelector | undefined, method: Method | undefined): RequiredBlock | undefined => {
  if (method?.result === 'blockNumber') return undefined
  if (method?.cache === 'latest') return reportedBlock
  const named = namedBlocksOf(blocks)
  if (named.some(isHeadTag)) return reportedBlock
  const numbers = named.filter(block => typeof block === 'number')
  return numbers.length === 0 ? undefined : { number: Math.max(...numbers) }
}

const isHeadTag = (block: number | string): boolean => block === 'latest' || block === 'pending'
