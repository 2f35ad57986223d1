import { blocksOf, wholeOf } from '../../src/plugin.ts'
import type { Blocks, Call, Services, Text } from '../../src/plugin.ts'

/** The block that an answer is about: by its number or its hash. */
export type Subject = number | string

/** The block that the call names, where its method says in which parameter. */
export const subjectOf = ({ notes: { request } }: Call<'request'>, methods: Services['methods']): Subject | undefined => {
  const blocks = blocksOf(methods.get(request.method), request.params)
  return blocks && lastOf(blocks)
}

/** Undefined for what moves with the head. */
const lastOf = (blocks: Blocks): Subject | undefined => {
  if ('hash' in blocks) return blocks.hash
  const { from, to } = blocks
  return typeof from === 'number' && typeof to === 'number' ? Math.max(from, to) : undefined
}

/** The block of a transaction or a receipt. Its logs, if they come first, say the same. */
export const minedIn = (result: Text): number | undefined => {
  const bytes = wholeOf(result)
  const at = bytes.indexOf('"blockNumber"')
  if (at < 0) return undefined
  const [, text] = /^"blockNumber"\s*:\s*"(0x[0-9a-fA-F]+)"/.exec(bytes.toString('latin1', at, at + 64)) ?? []
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : undefined
}
