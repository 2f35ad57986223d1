import { isFinalityTag } from '../../src/plugin/internal.ts'
import type { BlockNumberOrTag, FinalityTag, BlockRange } from '../../src/plugin/internal.ts'
import { isFailure, withBlocks } from '../../src/plugin/plugin.ts'
import type { Reply, Request, Services, Target } from '../../src/plugin/plugin.ts'
import type { BlockQuery, NodeQuery } from './node-query.ts'
import { reportedBlockOf } from './reported-block.ts'

/**
 * Answers about `safe` and `finalized` are never from below the reported block of the tag: from a node that is below it, that block is
 * requested by its number. So is it from a partner, which is not followed: it gets the number of the newest block that the tag is known to name.
 */
export class FinalityTags {
  readonly #services: Services
  /** By upstream and tag, on the monotonic clock. */
  readonly #requestedAt = new Map<string, number>()

  constructor(services: Services) {
    this.#services = services
  }

  /** Sends a query whose result is the block of the tag. */
  async send({ request, method, target, limits, sendRequest }: BlockQuery, tag: FinalityTag): Promise<Reply> {
    const reported = this.#services.heads.tags.reported(tag)
    const reply = await sendRequest(request, limits)
    const block = await this.#report(reply, request, tag, target)
    if (block === undefined || reported === undefined || block >= reported) return reply
    return sendRequest(withBlocks(request, method, { from: reported, to: reported }), limits)
  }

  /** The range with numbers in place of the tags for which there is one. */
  async resolve({ from, to }: BlockRange, query: NodeQuery): Promise<BlockRange> {
    const { target } = query
    for (const tag of new Set([from, to].filter(isFinalityTag))) {
      if (target.source === 'node' && this.#numberFor(target, tag) !== undefined) await this.#update(tag, query)
    }
    const resolved = (block: BlockNumberOrTag) => (isFinalityTag(block) ? this.#numberFor(target, block) : undefined) ?? block
    return { from: resolved(from), to: resolved(to) }
  }

  #numberFor({ name, source }: Target, tag: FinalityTag): number | undefined {
    const { tags } = this.#services.heads
    return source === 'partner' ? tags.known(tag) : tags.blockFor(name, tag)
  }

  /** Requests the block of the tag: the node may have reached the reported block since the last request. */
  async #update(tag: FinalityTag, { target, limits, sendRequest }: NodeQuery): Promise<void> {
    const { clock, heads } = this.#services
    const [key, now] = [`${tag} ${target.name}`, clock.monotonic()]
    if (now - (this.#requestedAt.get(key) ?? -Infinity) < heads.pollIntervalMs) return
    this.#requestedAt.set(key, now)
    const request = { method: 'eth_getBlockByNumber', params: [tag, false] }
    await this.#report(await sendRequest(request, limits), request, tag, target)
  }

  /** The block of a reply to a request by the tag, which is reported. */
  async #report(reply: Reply, request: Request, tag: FinalityTag, target: Target): Promise<number | undefined> {
    const { heads, methods, results } = this.#services
    const method = methods.get(request.method)
    const block = isFailure(reply) || method === undefined ? undefined : reportedBlockOf(reply, request, method, results)?.number
    if (block !== undefined) await heads.tags.report(heads.reporterOf(target), tag, block)
    return block
  }
}
