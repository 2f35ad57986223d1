import { toBuffer } from '../../json/chunked-bytes.ts'
import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'

/** A block as far as heads need it. */
export interface BlockHeader {
  readonly number: number
  readonly hash: string
  readonly parentHash: string
  /** When it was made, by its own account: milliseconds since 1970. */
  readonly timestampMs?: number
}

/** Undefined for a failure, `null`, a pending block, or anything else that is no block. */
export const parseBlockReply = (reply: Reply): BlockHeader | undefined => parseBlockHeader(parseResult(reply))

/** The same for what a node says unasked. */
export const parseBlockHeader = (value: unknown): BlockHeader | undefined => {
  const { number, hash, parentHash, timestamp } = asObject(value)
  const height = parseQuantity(number)
  if (height === undefined || typeof hash !== 'string' || typeof parentHash !== 'string') return undefined
  const seconds = parseQuantity(timestamp)
  return {
    number: height,
    hash: hash.toLowerCase(),
    parentHash: parentHash.toLowerCase(),
    ...(seconds !== undefined && { timestampMs: 1000 * seconds }),
  }
}

/** The number in a reply whose result is a hex quantity, as of eth_blockNumber and eth_chainId. */
export const parseQuantityReply = (reply: Reply): number | undefined => parseQuantity(parseResult(reply))

/** Undefined for what is no hex quantity, and above 2^53 - 1. */
export const parseQuantity = (value: unknown): number | undefined => {
  const parsed = typeof value === 'string' && /^0x[0-9a-fA-F]{1,14}$/.test(value) ? Number(value) : undefined
  return Number.isSafeInteger(parsed) ? parsed : undefined
}

/** The connections have proved that a result is JSON. */
const parseResult = (reply: Reply): unknown => (isFailure(reply) ? undefined : JSON.parse(toBuffer(reply.result).toString()))

const asObject = (value: unknown): Readonly<Record<string, unknown>> => Object(value)
