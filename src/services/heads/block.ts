import { wholeOf } from '../../pieces.ts'
import { isFailure } from '../../reply.ts'
import type { Reply } from '../../reply.ts'

/** A block as far as heads need it. */
export interface Block {
  readonly number: number
  readonly hash: string
  readonly parentHash: string
  /** When it was made, by its own account: milliseconds since 1970. */
  readonly time?: number
}

/** Undefined for a failure, `null`, a pending block, or anything else that is no block. */
export const readBlock = (reply: Reply): Block | undefined => blockOf(readJson(reply))

/** The same for what a node says unasked. */
export const blockOf = (value: unknown): Block | undefined => {
  const { number, hash, parentHash, timestamp } = members(value)
  const height = readNumber(number)
  if (height === undefined || typeof hash !== 'string' || typeof parentHash !== 'string') return undefined
  const seconds = readNumber(timestamp)
  return {
    number: height,
    hash: hash.toLowerCase(),
    parentHash: parentHash.toLowerCase(),
    ...(seconds !== undefined && { time: 1000 * seconds }),
  }
}

/** The number in a reply whose result is a hex quantity, as of eth_blockNumber and eth_chainId. */
export const readQuantity = (reply: Reply): number | undefined => readNumber(readJson(reply))

/** Undefined for what is no hex quantity, and above 2^53 - 1. */
export const readNumber = (value: unknown): number | undefined => {
  const read = typeof value === 'string' && /^0x[0-9a-fA-F]{1,14}$/.test(value) ? Number(value) : undefined
  return Number.isSafeInteger(read) ? read : undefined
}

/** The connections have proved that a result is JSON. */
const readJson = (reply: Reply): unknown => (isFailure(reply) ? undefined : JSON.parse(wholeOf(reply.result).toString()))

const members = (value: unknown): Readonly<Record<string, unknown>> => Object(value)
