import { keccak_256 } from '@noble/hashes/sha3.js'
import { isFailure } from '../../src/plugin/plugin.ts'
import type { Reply, Request } from '../../src/plugin/plugin.ts'

/**
 * A transaction was sent to one node, which failed before it said whether it took it, and then to a second. What the
 * second says of a transaction that it has already is a success, where it is certain that it is this very one.
 */
export const resolveDuplicateTransaction = async (
  reply: Reply,
  request: Request,
  sendRequest: (request: Request) => Promise<Reply>,
): Promise<Reply> => {
  if (!isFailure(reply) || reply.kind !== 'node') return reply
  const isAlreadyKnown = reply.category === 'alreadyKnown'
  if (!isAlreadyKnown && !/nonce too low/i.test(reply.error.message)) return reply
  const hash = transactionHashOf(request)
  if (hash === undefined || !(isAlreadyKnown || (await isTransactionKnown(hash, sendRequest)))) return reply
  const { source, upstream } = reply
  return { source, ...(upstream !== undefined && { upstream }), result: Buffer.from(`"${hash}"`) }
}

/** A nonce is used up by this transaction or by another. */
const isTransactionKnown = async (hash: string, sendRequest: (request: Request) => Promise<Reply>): Promise<boolean> => {
  const found = await sendRequest({ method: 'eth_getTransactionByHash', params: [hash] })
  return !isFailure(found) && found.result.at(0) === '{'.charCodeAt(0)
}

/** Keccak-256 of what was sent (EIP-2718); undefined with blobs, where more is sent than is hashed (EIP-4844). */
const transactionHashOf = ({ method, params: [raw] }: Request): string | undefined =>
  method !== 'eth_sendRawTransaction' || typeof raw !== 'string' || raw.startsWith('0x03')
    ? undefined
    : `0x${Buffer.from(keccak_256(Buffer.from(raw.slice(2), 'hex'))).toString('hex')}`
