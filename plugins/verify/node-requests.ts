import { isFailure, isJsonObject, parseHexQuantity, refuse, toBuffer, withContext } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Reply, Request, Result, Services, Target } from '../../src/plugin/plugin.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'

// What is asked of the node of a call, besides or in place of its request.

export const send = async (call: VerifiedCall, request: Request, next: NextPlugin): Promise<Reply> => {
  const reply = await next(withContext(call, { request }))
  return isFailure(reply) && request.method !== call.context.request.method ? toProofFailure(reply, request) : reply
}

/** The caller has not sent this request: an error about it says nothing to them, unless the node lacks the block or its state. */
const toProofFailure = (failure: Failure, { method }: Request): Failure =>
  failure.kind !== 'node' || failure.category === 'blockNotFound' || failure.category === 'stateUnavailable'
    ? failure
    : refuse('unavailable', {
        source: failure.source,
        upstream: failure.upstream,
        cause: `not proven: ${method}: ${failure.error.message}`,
        retryAfter: 1,
        retryElsewhere: true,
      })

/** Whichever node is asked, the others say the same: no further one is tried. */
export const notAgreed = refuse('unavailable', {
  source: 'gateway',
  fault: 'gateway',
  cause: 'upstreams do not agree on the header of the block',
  retryAfter: 1,
})

/** Whichever node is asked, it is not signed: no further one is tried. */
export const notSigned = refuse('unavailable', {
  source: 'gateway',
  fault: 'gateway',
  cause: 'the beacon chain does not prove the block, or no upstream has it',
  retryAfter: 4,
})

/** The caller has left, when nodes had been asked. */
export const disconnected = ({ context: { target } }: VerifiedCall): Failure =>
  refuse('unavailable', { source: target.source, upstream: target.name, fault: 'caller', cause: 'client disconnected' })

/** The node may be on another branch, or behind: that is no lie. */
export const notLinked = ({ context: { target } }: VerifiedCall): Failure =>
  refuse('unavailable', {
    source: target.source,
    upstream: target.name,
    cause: notLinkedCause,
    retryAfter: 1,
    retryElsewhere: true,
  })

/** No header shows it, whichever node is asked. That is no lie. */
export const notProvable = ({ context: { target } }: VerifiedCall, why: string): Failure =>
  refuse('unavailable', { source: target.source, upstream: target.name, cause: `not proven: ${why}`, retryAfter: 1, retryElsewhere: true })

const notLinkedCause = 'not proven: the node has another block, or none'

/** Whether the chain may have moved while the call was answered. */
export const mayHaveMoved = (reply: Reply): boolean => isFailure(reply) && (reply === notAgreed || reply.cause === notLinkedCause)

export const isFailed = <T extends object>(value: T | Failure): value is Failure => 'error' in value

export const toJson = ({ result }: Result): Json => JSON.parse(toBuffer(result).toString())

/** A result of the gateway's own, made from answers of the call's node. */
export const toResult = (value: Json, call: VerifiedCall): Result => toResultOf(Buffer.from(JSON.stringify(value)), call)

export const toResultOf = (result: Buffer, { context: { target } }: VerifiedCall): Result => ({
  source: target.source,
  upstream: target.name,
  result,
})

/** The own nodes that have a say: a node of another chain has none. */
export const votersOf = ({ context: { upstreams } }: VerifiedCall, heads: Services['heads']): readonly Target[] =>
  upstreams.filter(({ name }) => !['chain', 'unverified'].includes(heads.exclusionOf(name) ?? ''))

/** How many nodes may have a say: a node of which the chain is not known yet is asked nothing, and counts, else one of two would be believed alone. */
export const voterCountOf = ({ context: { upstreams } }: VerifiedCall, heads: Services['heads']): number =>
  upstreams.filter(({ name }) => heads.exclusionOf(name) !== 'chain').length

export interface FinalBlock {
  readonly number: number
  /** By the beacon chain. */
  readonly isProven: boolean
}

interface TagOptions {
  readonly heads: Services['heads']
  readonly headers: { finalBlockOf(call: VerifiedCall): Promise<FinalBlock | undefined> }
  refuseWrong(result: Result, wrong: { readonly cause: string }, call: VerifiedCall): Failure
}

/**
 * The number of the block that a tag names: of the newest block as far as it is known, of a final one as the beacon chain proves it, else as the node says. What it says
 * of `safe` and `finalized` is not below what other nodes have shown to be final.
 */
export const numberOf = async (
  block: number | string,
  call: VerifiedCall,
  next: NextPlugin,
  { heads, headers, refuseWrong }: TagOptions,
): Promise<number | Failure> => {
  if (typeof block === 'number') return block
  const { head, reportedHeight } = heads.snapshot
  if (block === 'earliest') return 0
  if (block === 'latest' && head !== undefined) return Math.max(head, reportedHeight)
  const final = block === 'safe' || block === 'finalized' ? await headers.finalBlockOf(call) : undefined
  if (block === 'finalized' && final?.isProven === true) return final.number
  const reply = await send(call, { method: 'eth_getBlockByNumber', params: [block, false] }, next)
  if (isFailure(reply)) return reply
  const found = toJson(reply)
  const number = isJsonObject(found) ? parseHexQuantity(found['number']) : undefined
  return number === undefined ? refuseWrong(reply, { cause: 'the block has no number' }, call) : Math.max(number, final?.number ?? 0)
}
