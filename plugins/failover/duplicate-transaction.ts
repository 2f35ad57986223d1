import { keccak_256 } from '@noble/hashes/sha3.js'
import { isFailure } from '../../src/plugin/plugin.ts'
import type { Reply, Request } from '../../src/plugin/plugin.ts'

/**
 * The reply to a transaction that was sent to a second node, after the first failed without saying whether it accepted the
 * transaction. An error of the second node is a success where it is certain that the node has this very transaction.
 */
export const resolveDuplicateTransaction = async (
  reply: Reply,
  request: Request,
  sendRequest: (request: Request) => Promise<Reply>,
): Promise<Reply> => {
  if (!isFailure(reply) || reply.kind !== 'node') return reply
  const { message } = reply.error
  const isAlreadyKnown = reply.category === 'alreadyKnown'
  if (!isAlreadyKnown && !usedNonce.test(message)) return reply
  const hash = transactionHashOf(request)
  const isCertain = isAlreadyKnown && !/nonce/i.test(message)
  if (hash === undefined || !(isCertain || (await isTransactionKnown(hash, sendRequest)))) return reply
  const { source, upstream } = reply
  return { source, ...(upstream !== undefined && { upstream }), result: Buffer.from(`"${hash}"`) }
}

/** Of geth, Erigon, reth and Besu; of Nethermind. */
const usedNonce = /nonce too low|^oldnonce/i

/** The nonce may have been used by this transaction or by another. */
const isTransactionKnown = async (hash: string, sendRequest: (request: Request) => Promise<Reply>): Promise<boolean> => {
  const reply = await sendRequest({ method: 'eth_getTransactionByHash', params: [hash] })
  return !isFailure(reply) && reply.result.at(0) === '{'.charCodeAt(0)
}

/** Keccak-256 of the sent bytes (EIP-2718). Undefined for transactions with blobs, whose hash leaves out the blobs (EIP-4844). */
const transactionHashOf = ({ method, params: [raw] }: Request): string | undefined =>
  method !== 'eth_sendRawTransaction' || typeof raw !== 'string' || raw.startsWith('0x03')
    ? undefined
    : `0x${Buffer.from(keccak_256(Buffer.from(raw.slice(2), 'hex'))).toString('hex')}`
