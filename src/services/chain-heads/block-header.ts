import { toBuffer } from '../../json/chunked-bytes.ts'
import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'
import { parseHexQuantity } from '../../util/hex-quantity.ts'
import { isJsonObject } from '../../util/json.ts'

/** The members of a block that heads need. Hashes are in lower case. */
export interface BlockHeader {
  readonly number: number
  readonly hash: string
  readonly parentHash: string
  /** The block's own timestamp, in ms since 1970. */
  readonly timestampMs?: number
}

/** Undefined for a failure, for `null`, for a pending block, and for anything else that is not a block. */
export const parseBlockReply = (reply: Reply): BlockHeader | undefined => parseBlockHeader(parseResult(reply))

/** The same for a block from a notification. */
export const parseBlockHeader = (value: unknown): BlockHeader | undefined => {
  const { number, hash, parentHash, timestamp } = membersOf(value)
  const height = parseHexQuantity(number)
  if (height === undefined || typeof hash !== 'string' || typeof parentHash !== 'string') return undefined
  const timestampSeconds = parseHexQuantity(timestamp)
  return {
    number: height,
    hash: hash.toLowerCase(),
    parentHash: parentHash.toLowerCase(),
    ...(timestampSeconds !== undefined && { timestampMs: 1000 * timestampSeconds }),
  }
}

/** The number in a reply whose result is a hex quantity, as of eth_chainId. */
export const parseQuantityReply = (reply: Reply): number | undefined => parseHexQuantity(parseResult(reply))

/** The members of a JSON object; none for any other value. */
export const membersOf = (value: unknown): Readonly<Record<string, unknown>> => (isJsonObject(value) ? value : {})

/** The upstream client has checked that a result is JSON. */
const parseResult = (reply: Reply): unknown => (isFailure(reply) ? undefined : JSON.parse(toBuffer(reply.result).toString()))
