import { isFinalityTag } from '../../src/plugin/internal.ts'
import type { FinalityTag } from '../../src/plugin/internal.ts'
import { blockSelectorOf, isFailure, isJsonObject, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Json, Method, Reply, Request, Services, Target } from '../../src/plugin/plugin.ts'
import { reportedBlockOf } from './reported-block.ts'

interface TaggedRequest {
  readonly request: Request
  readonly method: Method | undefined
  readonly target: Target
  /** Sends the request to the target. */
  send(request: Request): Promise<Reply>
  /** Sends one more request, for a block. */
  requestBlock(request: Request): Promise<Reply>
}

/**
 * Answers about `safe` and `finalized` are never from below the reported block of the tag: from a node that is below it, that block is
 * requested by its number. So is it from a partner, which is not followed: it gets the number of the newest block that the tag is known to name.
 */
export const createTagSender = ({ heads, methods, results, clock }: Services) => {
  /** By upstream and tag, on the monotonic clock. */
  const requestedAt = new Map<string, number>()

  /** The block of a reply to a request by the tag, which is reported. */
  const report = async (reply: Reply, request: Request, tag: FinalityTag, { name }: Target): Promise<number | undefined> => {
    const method = methods.get(request.method)
    const block = isFailure(reply) || method === undefined ? undefined : reportedBlockOf(reply, request, method, results)?.number
    if (block !== undefined) await heads.tags.report(name, tag, block)
    return block
  }

  const numberFor = ({ name, source }: Target, tag: FinalityTag): number | undefined =>
    source === 'partner' ? heads.tags.known(tag) : heads.tags.blockFor(name, tag)

  /** Requests the block of the tag: the node may have reached the reported block since the last request. */
  const update = async (tag: FinalityTag, { target, requestBlock }: TaggedRequest): Promise<void> => {
    const [key, now] = [`${tag} ${target.name}`, clock.monotonic()]
    if (now - (requestedAt.get(key) ?? -Infinity) < heads.pollIntervalMs) return
    requestedAt.set(key, now)
    const request = { method: 'eth_getBlockByNumber', params: [tag, false] }
    await report(await requestBlock(request), request, tag, target)
  }

  const sendWithTags = async (tagged: TaggedRequest, tags: readonly [FinalityTag, ...FinalityTag[]], method: Method): Promise<Reply> => {
    const { request, target, send } = tagged
    const [tag] = tags
    if (method.reports === 'block') {
      const reported = heads.tags.reported(tag)
      const reply = await send(request)
      const block = await report(reply, request, tag, target)
      return block !== undefined && block < (reported ?? 0) ? send(withNumbers(request, method, () => reported)) : reply
    }
    if (target.source === 'node') for (const each of tags) if (numberFor(target, each) !== undefined) await update(each, tagged)
    return send(withNumbers(request, method, each => numberFor(target, each)))
  }

  return (tagged: TaggedRequest): Promise<Reply> => {
    const { request, method, send } = tagged
    const [tag, ...others] = tagsOf(request, method)
    return tag === undefined || method === undefined ? send(request) : sendWithTags(tagged, [tag, ...others], method)
  }
}

const noTags: readonly FinalityTag[] = []

const tagsOf = ({ params }: Request, method: Method | undefined): readonly FinalityTag[] => {
  const blocks = blockSelectorOf(method, params)
  if (blocks === undefined || 'hash' in blocks || !(isFinalityTag(blocks.from) || isFinalityTag(blocks.to))) return noTags
  return [...new Set([blocks.from, blocks.to].filter(isFinalityTag))]
}

/** The request with numbers in place of the tags for which there is one. */
const withNumbers = (request: Request, { blockParam = 0 }: Method, numberOf: (tag: FinalityTag) => number | undefined): Request => {
  const replace = (block: Json): Json => {
    const number = isFinalityTag(block) ? numberOf(block) : undefined
    return number === undefined ? block : toHexQuantity(number)
  }
  const param = request.params[blockParam] ?? null
  const replaced = isJsonObject(param)
    ? Object.fromEntries(Object.entries(param).map(([name, value]) => [name, blockMembers.has(name) ? replace(value) : value]))
    : replace(param)
  return { ...request, params: request.params.with(blockParam, replaced) }
}

/** Of EIP-1898, and of filters. */
const blockMembers: ReadonlySet<string> = new Set(['blockNumber', 'fromBlock', 'toBlock'])
