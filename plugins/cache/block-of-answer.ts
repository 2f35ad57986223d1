import { blockSelectorOf, toBuffer } from '../../src/plugin/plugin.ts'
import type { BlockSelector, Call, Services, RawJson } from '../../src/plugin/plugin.ts'

/** The block that an answer is about: by its number or its hash. */
export type BlockOfAnswer = number | string

/** The block that the call names, where its method says in which parameter. */
export const blockOfAnswer = ({ context: { request } }: Call<'request'>, methods: Services['methods']): BlockOfAnswer | undefined => {
  const blocks = blockSelectorOf(methods.get(request.method), request.params)
  return blocks && newestBlockOf(blocks)
}

/** Undefined for what moves with the head. */
const newestBlockOf = (blocks: BlockSelector): BlockOfAnswer | undefined => {
  if ('hash' in blocks) return blocks.hash
  const { from, to } = blocks
  return typeof from === 'number' && typeof to === 'number' ? Math.max(from, to) : undefined
}

/** The block of a transaction or a receipt. Its logs, if they come first, say the same. */
export const minedBlockOf = (result: RawJson): number | undefined => {
  const bytes = toBuffer(result)
  const at = bytes.indexOf('"blockNumber"')
  if (at < 0) return undefined
  const [, text] = /^"blockNumber"\s*:\s*"(0x[0-9a-fA-F]+)"/.exec(bytes.toString('latin1', at, at + 64)) ?? []
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : undefined
}
