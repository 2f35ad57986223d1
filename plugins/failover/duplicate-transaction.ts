import { isFailure, keccak256, refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Reply, Request } from '../../src/plugin/plugin.ts'
import type { RetryBudget } from './retries.ts'

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
  const isCertain = isAlreadyKnown && !/nonce/i.test(message)
  return findSentTransaction(reply, request, sendRequest, isCertain)
}

/**
 * The reply to a transaction that the failure leaves open, as its sender would have got it: the success, where the node has the transaction,
 * else the failure. `isCertain`: the node has said that it has it.
 */
const findSentTransaction = async (
  failure: Failure,
  request: Request,
  sendRequest: (request: Request) => Promise<Reply>,
  isCertain = false,
): Promise<Reply> => {
  const hash = transactionHashOf(request)
  if (hash === undefined) return failure
  const receipt = isAnsweredWithReceipt(request) ? await sendRequest({ method: 'eth_getTransactionReceipt', params: [hash] }) : undefined
  if (receipt !== undefined && isObject(receipt)) return receipt
  const found = isCertain ? failure : await sendRequest({ method: 'eth_getTransactionByHash', params: [hash] })
  if (!isCertain && !isObject(found)) return failure
  const { source, upstream } = found
  if (receipt !== undefined) return refuse('notMined', { source, upstream, category: 'alreadyKnown', data: hash })
  return { source, ...(upstream !== undefined && { upstream }), result: Buffer.from(`"${hash}"`) }
}

/** The transaction at one of the nodes that were tried. */
interface LookUp {
  /** The node still answers. */
  isPossible(): boolean
  sendRequest(request: Request): Promise<Reply>
}

/** A node may have accepted a transaction before it failed: those that were tried are asked for it. Each time takes of the budget of retries. */
export const findSentAtNodes = async (
  failure: Failure,
  request: Request,
  lookUps: readonly LookUp[],
  retryBudget: RetryBudget,
): Promise<Reply> => {
  if (transactionHashOf(request) === undefined) return failure
  for (const { isPossible, sendRequest } of lookUps) {
    if (!isPossible()) continue
    if (!(await retryBudget.reserve())) return failure
    let reply: Reply = failure
    try {
      reply = await findSentTransaction(failure, request, sendRequest)
    } finally {
      retryBudget.release(reply === failure)
    }
    if (reply !== failure) return reply
  }
  return failure
}

/** Of geth, Erigon, reth and Besu; of Nethermind. The nonce may have been used by this transaction or by another. */
const usedNonce = /nonce too low|^oldnonce/i

const isAnsweredWithReceipt = ({ method }: Request): boolean => method === 'eth_sendRawTransactionSync'

const isObject = (reply: Reply): boolean => !isFailure(reply) && reply.result.at(0) === '{'.charCodeAt(0)

/** Keccak-256 of the sent bytes (EIP-2718). Undefined for transactions with blobs, whose hash leaves out the blobs (EIP-4844). */
const transactionHashOf = ({ method, params: [raw] }: Request): string | undefined =>
  !/^eth_sendRawTransaction(Sync)?$/.test(method) || typeof raw !== 'string' || raw.startsWith('0x03')
    ? undefined
    : `0x${keccak256(Buffer.from(raw.slice(2), 'hex')).toString('hex')}`
