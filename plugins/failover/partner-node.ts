import { ChainIdCheck, refuse } from '../../src/plugin/plugin.ts'
import type { CallContext, Origin, Reply, Services, Target } from '../../src/plugin/plugin.ts'
import { UpstreamNode } from './upstream-node.ts'
import type { NextBelow, FailoverCall } from './upstream-node.ts'
import type { FailoverOptions } from './failover-options.ts'

export type PartnerOptions = NonNullable<FailoverOptions['partner']>

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
 * The partner as a node. It gets forwarded calls only, and beside the first of them, then every 10 minutes, eth_chainId: no
 * caller gets a reply from another chain.
 */
export class PartnerNode extends UpstreamNode {
  readonly #services: Services
  readonly #chainIdCheck: ChainIdCheck
  #nextCheckAt = -Infinity
  #pendingCheck: Promise<void> | undefined

  constructor({ methods: _methods, when: _when, ...partner }: PartnerOptions, breaker: FailoverOptions['breaker'], services: Services) {
    const target: Target = { ...partner, source: 'partner' }
    super(target, breaker, services)
    const {
      upstreamClient,
      clock,
      network: { chainId },
    } = services
    const requestOptions = { timeoutMs: 1000, maxBytes: 65_536, signal: this.cancellation, idempotent: true, bypassConcurrencyLimit: true }
    this.#services = services
    this.#chainIdCheck = new ChainIdCheck({
      chainId,
      clock,
      intervalMs: recheckMs,
      request: () => upstreamClient.request(target, { method: 'eth_chainId', params: [] }, requestOptions),
    })
  }

  override isUsable(methodClass: string): boolean {
    return !(this.#chainIdCheck.isWrongChain && this.#services.clock.monotonic() < this.#nextCheckAt) && super.isUsable(methodClass)
  }

  override async request(call: FailoverCall, methodClass: string, next: NextBelow): Promise<Reply> {
    const [reply] = await Promise.all([super.request(call, methodClass, next), this.#checkChain()])
    if (!this.#chainIdCheck.isWrongChain) return reply
    return refuse('unavailable', { source: 'partner', upstream: this.name, cause: 'wrong chain' })
  }

  /** A partner that gives no chain id in time is taken to be on the expected chain. */
  #checkChain(): Promise<void> {
    const now = this.#services.clock.monotonic()
    if (this.#pendingCheck === undefined || this.#chainIdCheck.isExpectedChain || now >= this.#nextCheckAt) {
      this.#nextCheckAt = now + recheckFailedMs
      if (this.#chainIdCheck.isWrongChain) this.#chainIdCheck.invalidate()
      this.#pendingCheck = this.#chainIdCheck.check().then(() => this.#reportWrongChain())
    }
    return this.#pendingCheck
  }

  #reportWrongChain(): void {
    const { isWrongChain, upstreamChainId } = this.#chainIdCheck
    if (!isWrongChain) return
    const { log, network } = this.#services
    log.error(
      { upstream: this.name, reason: 'chain', chainId: upstreamChainId, expectedChainId: network.chainId },
      'partner excluded: wrong chain',
    )
  }
}

/** Until eth_chainId is requested again: after the expected chain id, and after any other reply. */
const recheckMs = 600_000
const recheckFailedMs = 60_000
