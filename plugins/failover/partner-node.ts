import { ChainIdCheck, refuse } from '../../src/plugin/plugin.ts'
import type { CallContext, Origin, Reply, Services, Target } from '../../src/plugin/plugin.ts'
import { UpstreamNode } from './upstream-node.ts'
import type { NextBelow, FailoverCall } from './upstream-node.ts'
import type { FailoverOptions } from './failover-options.ts'

export type PartnerOptions = NonNullable<FailoverOptions['partner']>

/** May the call go to the partner in an outage: by its method, by the account's plan, and by what the caller wants? */
export const mayForward = (
  { methods, when }: Pick<PartnerOptions, 'methods' | 'when'>,
  { request, account }: Pick<CallContext, 'request' | 'account'>,
  { headers }: Origin,
): boolean =>
  methods.includes(request.method) &&
  account.plan.forwarding &&
  (when !== 'header' || String(headers['enable-failover']).trim().toLowerCase() === 'true')

/**
 * The partner as a node. It is asked for nothing but what is forwarded, except that the first of these calls, and then
 * one in a while, takes the question for its chain along: what it says of another chain nobody gets.
 */
export class PartnerNode extends UpstreamNode {
  readonly #services: Services
  readonly #identity: ChainIdCheck
  #nextCheckAt = -Infinity
  #chainCheck: Promise<void> | undefined

  constructor({ methods: _methods, when: _when, ...partner }: PartnerOptions, breaker: FailoverOptions['breaker'], services: Services) {
    const target: Target = { ...partner, source: 'partner' }
    super(target, breaker, services)
    const {
      upstreamClient,
      clock,
      network: { chainId },
    } = services
    const terms = { timeoutMs: 1000, maxBytes: 65_536, signal: this.cancellation, idempotent: true, bypassConcurrencyLimit: true }
    this.#services = services
    this.#identity = new ChainIdCheck({
      chainId,
      clock,
      intervalMs: chainRecheckMs,
      request: () => upstreamClient.request(target, { method: 'eth_chainId', params: [] }, terms),
    })
  }

  override isUsable(kind: string): boolean {
    return !(this.#identity.isWrongChain && this.#services.clock.monotonic() < this.#nextCheckAt) && super.isUsable(kind)
  }

  override async request(call: FailoverCall, kind: string, next: NextBelow): Promise<Reply> {
    const [reply] = await Promise.all([super.request(call, kind, next), this.#checkChain()])
    if (!this.#identity.isWrongChain) return reply
    return refuse('unavailable', { source: 'partner', upstream: this.name, cause: 'it is on another chain' })
  }

  /** One that does not say, in time or in a chain id, may be on our chain. */
  #checkChain(): Promise<void> {
    const now = this.#services.clock.monotonic()
    if (this.#chainCheck === undefined || this.#identity.isExpectedChain || now >= this.#nextCheckAt) {
      this.#nextCheckAt = now + chainRetryMs
      if (this.#identity.isWrongChain) this.#identity.invalidate()
      this.#chainCheck = this.#identity.check().then(() => this.#reportWrongChain())
    }
    return this.#chainCheck
  }

  #reportWrongChain(): void {
    const { isWrongChain, upstreamChainId } = this.#identity
    if (!isWrongChain) return
    const because = `it is on chain ${upstreamChainId}`
    this.#services.log.error({ upstream: this.name, reason: 'chain', because }, 'the partner is left out: it is on another chain')
  }
}

/** In ms, until it is asked again: the right chain, and anything else or nothing. */
const chainRecheckMs = 600_000
const chainRetryMs = 60_000
