import { namedBlocksOf } from '../../src/plugin/internal.ts'
import type { Results, RpcError } from '../../src/plugin/internal.ts'
import { isJsonObject, parseHexQuantity, refuseTooManyResults, toBuffer, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { BlockSelector, Failure, Json, Result } from '../../src/plugin/plugin.ts'
import { boundsOf } from './block-range.ts'
import type { NumberRange } from './block-range.ts'

// The refusal of queries with more results than `maxResults` of the method, and the narrower range that the refusal suggests.

type SuggestedBlocks = { readonly from: string; readonly to: string; readonly limit: number }

/** What an indexer needs to retry with success: blocks `from` to `to` hold at most `limit` logs. */
export type SuggestedRange = SuggestedBlocks | Pick<SuggestedBlocks, 'limit'>

/** A node has returned more results than the method allows. */
export const refuseLongResult = async (
  { result, source, upstream }: Result,
  maxResults: number,
  blocks: BlockSelector | undefined,
  results: Results,
): Promise<Failure> => {
  const data = suggestRange(await results.toContiguous(result), maxResults, blocks)
  return refuseTooManyResults(maxResults, { data, source, upstream })
}

/** A node has refused a query by its own limit. */
export const normalizeTooManyResults = (
  { error, source, upstream, category }: Failure,
  maxResults: number,
  blocks: BlockSelector | undefined,
): Failure =>
  refuseTooManyResults(maxResults, { source, upstream, category, data: { ...readSuggestedRange(error, blocks), limit: maxResults } })

/** Whether the error names a limit below that of the method. What exceeds a higher one exceeds both. */
export const isLimitLower = ({ error }: Failure, maxResults: number): boolean => {
  const [, limit] = limitPattern.exec(error.message.slice(0, maxSearchedChars)) ?? []
  return limit !== undefined && Number(limit.replaceAll(',', '')) < maxResults
}

/** `more than 10000 results`, `max results 20000`, `max logs per response is 20000`, `exceeds limit of 10000`. */
const limitPattern = /(?:more than|max results|per response is|limit of) (\d[\d,]{0,15})/i

/**
 * Nodes return logs in the order of blocks, so all blocks before the block of log number `limit + 1` fit. Only `{ limit }`
 * when a single block holds too many. Searches the bytes: 10,001 searches take about 2 ms, parsing would take 40.
 */
export const suggestRange = (logs: Uint8Array, limit: number, blocks: BlockSelector | undefined): SuggestedRange => {
  const bytes = toBuffer(logs)
  const first = blockNumberAt(bytes, 0)
  let past = first
  for (let i = 0; i < limit && past !== undefined; i++) past = blockNumberAt(bytes, past.end)
  if (first === undefined || past === undefined) return { limit }
  const [named] = namedBlocksOf(blocks)
  const from = typeof named === 'number' ? named : first.number
  return past.number > from ? { from: toHexQuantity(from), to: toHexQuantity(past.number - 1), limit } : { limit }
}

/** The narrower range that a node's error suggests, in its data or its message; undefined when it is not within the query's. */
export const readSuggestedRange = (
  { message, data }: RpcError,
  blocks: BlockSelector | undefined,
): Omit<SuggestedBlocks, 'limit'> | undefined => {
  const suggested = rangeInData(data) ?? rangeInMessage(message)
  if (suggested === undefined || suggested.from > suggested.to) return undefined
  const { from, to } = boundsOf(blocks)
  const isInside = suggested.from >= from && suggested.to <= to
  return isInside ? { from: toHexQuantity(suggested.from), to: toHexQuantity(suggested.to) } : undefined
}

/** Of Infura, Alchemy and reth, in this order. A range elsewhere in a message may be the refused one. */
const suggestionPhrases = ['try with this block range', 'range should work', 'retry with the range']

/** `[0x1, 0x2]`, `0x1 - 0x2`, `1-2`, `1 to 2`. Each part is bounded: no message makes the match slow. */
const rangePattern = /^[ :[(]{0,4}(0x[0-9a-f]{1,16}|\d{1,16})(?:[ ,-]{1,4}| to )(0x[0-9a-f]{1,16}|\d{1,16})/i

const maxSearchedChars = 2000

const rangeInData = (data: Json | undefined): NumberRange | undefined => {
  const [from, to] = isJsonObject(data) ? [parseHexQuantity(data['from']), parseHexQuantity(data['to'])] : []
  return from === undefined || to === undefined ? undefined : { from, to }
}

const rangeInMessage = (message: string): NumberRange | undefined => {
  const text = message.slice(0, maxSearchedChars).toLowerCase()
  const phrase = suggestionPhrases.find(each => text.includes(each))
  const [, from, to] = (phrase && rangePattern.exec(text.slice(text.indexOf(phrase) + phrase.length))) || []
  return from === undefined || to === undefined ? undefined : { from: Number(from), to: Number(to) }
}

const blockNumberKey = Buffer.from('"blockNumber"')
const quoteCode = 0x22

/** The next block number at or after `start`. The other members of a log are hex, so no value contains the name. */
const blockNumberAt = (bytes: Buffer, start: number): { number: number; end: number } | undefined => {
  const at = bytes.indexOf(blockNumberKey, start)
  if (at < 0) return undefined
  const open = bytes.indexOf(quoteCode, at + blockNumberKey.length)
  const close = bytes.indexOf(quoteCode, open + 1)
  const number = open > 0 ? parseHexQuantity(bytes.toString('latin1', open + 1, close)) : undefined
  return number === undefined ? undefined : { number, end: close }
}
