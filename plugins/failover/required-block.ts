import { blockSelectorOf } from '../../src/plugin/plugin.ts'
import type { Method, Request } from '../../src/plugin/plugin.ts'

/** The block that a node must have to be requested. */
export interface RequiredBlock {
  /** Undefined: the newest block that callers have been told of, which is enough for a greater number too. */
  readonly number: number | undefined
}

const reportedBlock: RequiredBlock = { number: undefined }

/** The number of the newest block itself is no request for it: a lower one is corrected. */
export const requiredBlockOf = ({ params }: Request, method: Method | undefined): RequiredBlock | undefined => {
  if (method === undefined || method.result === 'blockNumber') return undefined
  if (method.cache === 'latest') return reportedBlock
  const blocks = blockSelectorOf(method, params)
  if (blocks === undefined || 'hash' in blocks) return undefined
  if (isHeadTag(blocks.from) || isHeadTag(blocks.to)) return reportedBlock
  const numbers = [blocks.from, blocks.to].filter(block => typeof block === 'number')
  return numbers.length === 0 ? undefined : { number: Math.max(...numbers) }
}

const isHeadTag = (block: number | string): boolean => block === 'latest' || block === 'pending'
