import { isFailure } from '../../reply.ts'
import type { Reply } from '../../reply.ts'

/** A block as far as heads need it. */
export interface Block {
  readonly number: number
  readonly hash: string
  readonly parentHash: string
}

/** Undefined for a failure, `null`, a pending block, or anything else that is no block. */
export const readBlock = (reply: Reply): Block | undefined => {
  const { number, hash, parentHash } = members(readJson(reply))
  const height = readNumber(number)
  return height !== undefined && typeof hash === 'string' && typeof parentHash === 'string'
    ? { number: height, hash: hash.toLowerCase(), parentHash: parentHash.toLowerCase() }
    : undefined
}

/** The number in a reply whose result is a hex quantity, as of eth_blockNumber and eth_chainId. */
export const readQuantity = (reply: Reply): number | undefined => readNumber(readJson(reply))

/** Undefined for what is no hex quantity, and above 2^53 - 1. */
export const readNumber = (value: unknown): number | undefined => {
  const read = typeof value === 'string' && /^0x[0-9a-fA-F]{1,14}$/.test(value) ? Number(value) : undefined
  return Number.isSafeInteger(read) ? read : undefined
}

/** The connections have proved that a result is JSON. */
const readJson = (reply: Reply): unknown =>
  isFailure(reply) ? undefined : JSON.parse(Buffer.from(reply.result).toString())

const members = (value: unknown): Readonly<Record<string, unknown>> => Object(value)
