import { ChainIdCheck, isFinalityTag, namedBlocksOf, singleFlight, parseJsonHexQuantity } from '../../src/plugin/internal.ts'
import type { ExclusionReason, RequestOptions } from '../../src/plugin/internal.ts'
import { blockSelectorOf, isFailure, refuse, toBuffer } from '../../src/plugin/plugin.ts'
import type { CallContext, Origin, Reply, Request, Services, Target } from '../../src/plugin/plugin.ts'
import { UpstreamNode } from './upstream-node.ts'
import type { NextBelow, FailoverCall } from './upstream-node.ts'
import type { FailoverOptions } from './failover-options.ts'
import { requiredBlockOf } from './required-block.ts'

type PartnerOptions = NonNullable<FailoverOptions['partner']>

/** Whether the call may go to the partner in an outage: by its method, the account's plan and the request header. */
export const mayForward = (
  { methods, when }: Pick<PartnerOptions, 'methods' | 'when'>,
  { request, account }: Pick<CallContext, 'request' | 'account'>,
  { headers }: Origin,
): boolean =>
  methods.includes(request.method) &&
  account.plan.forwarding &&
  (when !== 'header' || String(headers['enable-failover']).trim().toLowerCase() === 'true')

/**
 * The partner as a node. It gets forwarded calls only, and before the first of them eth_chainId, then every 10 minutes beside a
 * call: no caller gets a reply from another chain. Nor does a caller get a reply from below a block that callers know: the height of
 * the partner is requested when the call is about a greater one than the partner is known to have.
 */
export class PartnerNode extends UpstreamNode {
  readonly #services: Services
  readonly #chainIdCheck: ChainIdCheck
  #exclusionReason: 'chain' | 'unverified' | undefined
  readonly #requestOptions: RequestOptions
  /** The last height that the partner returned. Not polled: an outage is rare, and the reported height stands still when no own node is left. */
  #height = 0
  /** On the monotonic clock. */
  #heightRequestedAt = -Infinity

  constructor({ methods: _methods, when: _when, ...partner }: PartnerOptions, breaker: FailoverOptions['breaker'], services: Services) {
    const target: Target = { ...partner, source: 'partner' }
    super(target, breaker, services)
    const {
      upstreamClient,
      clock,
      network: { chainId },
    } = services
    this.#requestOptions = { timeoutMs: 1000, maxBytes: 65_536, signal: this.cancellation, idempotent: true, bypassConcurrencyLimit: true }
    this.#services = services
    this.#chainIdCheck = new ChainIdCheck({
      chainId,
      clock,
      intervalMs: checkIntervalMs,
      request: () => upstreamClient.request(target, { method: 'eth_chainId', params: [] }, this.#requestOptions),
      onUncheckable: cause => services.log.warn({ upstream: target.name, cause }, 'partner without a chain ID: its chain is not checked'),
    })
  }

  /** The next call after a failed check waits for another one, when that is due. */
  protected override get exclusion(): ExclusionReason | undefined {
    if (this.#isVerified || this.#chainIdCheck.dueInMs === 0) return undefined
    return this.#chainIdCheck.isWrongChain ? 'chain' : 'unverified'
  }

  /** Until a check has passed. */
  protected override get shownExclusion(): ExclusionReason | undefined {
    return this.#exclusionReason
  }

  override async request(call: FailoverCall, methodClass: string, next: NextBelow): Promise<Reply> {
    if (!this.#isVerified) await this.#checkChain()
    if (!this.#isVerified) return this.#refuseCall(notOnChain)
    if (!(await this.#hasRequiredBlock(call.context.request))) return this.#refuseCall('it lacks a block that callers know')
    const check = this.#checkChain()
    const reply = await super.request(call, methodClass, next)
    // The last outage, and the last check with it, may be days ago: the answer waits for the check, for 1 s at most. After a check without a
    // chain ID it does not: the partner keeps its calls then, and each of them would wait.
    if (this.#chainIdCheck.failure === undefined) await check
    return this.#isVerified ? reply : this.#refuseCall(notOnChain)
  }

  /** As own nodes. Of a range that ends above the reported height, the partner must have what callers know. */
  async #hasRequiredBlock(request: Request): Promise<boolean> {
    const { heads, clock } = this.#services
    const requiredHeight = this.#requiredHeightOf(request)
    if (requiredHeight === undefined) return true
    const isRequestDue = () => clock.monotonic() - this.#heightRequestedAt >= heads.pollIntervalMs
    if (this.#height < requiredHeight && isRequestDue()) await this.#requestHeight(requiredHeight)
    return this.#height >= requiredHeight
  }

  /** `safe` and `finalized` are blocks that the own nodes have named. */
  #requiredHeightOf(request: Request): number | undefined {
    const { methods, heads } = this.#services
    const method = methods.get(request.method)
    const blocks = blockSelectorOf(method, request.params)
    const { reportedHeight } = heads.snapshot
    const required = requiredBlockOf(blocks, method)
    const heights = [
      ...(required === undefined ? [] : [Math.min(required.number ?? reportedHeight, reportedHeight)]),
      ...namedBlocksOf(blocks).flatMap(block => (isFinalityTag(block) ? (heads.tags.known(block) ?? []) : [])),
    ]
    return heights.length === 0 ? undefined : Math.max(...heights)
  }

  /** Calls that come meanwhile wait for the same response. */
  readonly #requestHeight = singleFlight(async (requiredHeight: number): Promise<void> => {
    const { upstreamClient, clock, log } = this.#services
    const reply = await upstreamClient.request(this.target, { method: 'eth_blockNumber', params: [] }, this.#requestOptions)
    this.#heightRequestedAt = clock.monotonic()
    const height = isFailure(reply) ? undefined : parseJsonHexQuantity(toBuffer(reply.result).toString('latin1'))
    if (height !== undefined) this.#height = height
    if (this.#height >= requiredHeight) return
    const cause = isFailure(reply) ? (reply.cause ?? reply.error.message) : undefined
    log.warn({ upstream: this.name, height, requiredHeight, cause }, 'partner lacks the block that callers know')
  })

  get #isVerified(): boolean {
    return this.#chainIdCheck.result === 'passed'
  }

  #refuseCall(cause: string): Reply {
    return refuse('unavailable', { source: 'partner', upstream: this.name, cause })
  }

  async #checkChain(): Promise<void> {
    await this.#chainIdCheck.check()
    const previous = this.#exclusionReason
    const reason = this.#isVerified ? undefined : this.#chainIdCheck.isWrongChain ? 'chain' : 'unverified'
    if (reason !== undefined) this.#height = 0 // of another chain, perhaps
    if (reason === previous) return
    this.#exclusionReason = reason
    this.#logExclusion()
  }

  #logExclusion(): void {
    const { log, network } = this.#services
    const { upstreamChainId: chainId, failure: cause } = this.#chainIdCheck
    const [upstream, reason] = [this.name, this.#exclusionReason]
    if (reason === undefined) log.info({ upstream }, 'partner no longer excluded')
    else if (reason === 'unverified') log.warn({ upstream, reason, cause }, 'partner excluded: it has not returned its chain ID')
    else log.error({ upstream, reason, chainId, expectedChainId: network.chainId }, 'partner excluded: wrong chain')
  }
}

const notOnChain = 'not known to be on the chain of the network'

/** Until eth_chainId is requested again, after the expected chain ID. */
const checkIntervalMs = 600_000
