import { ChainIdCheck, metricDefinitions, refuse } from '../../src/plugin/plugin.ts'
import type { CallContext, Origin, Reply, Services, Target } from '../../src/plugin/plugin.ts'
import { UpstreamNode } from './upstream-node.ts'
import type { NextBelow, FailoverCall } from './upstream-node.ts'
import type { FailoverOptions } from './failover-options.ts'

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
 * call: no caller gets a reply from another chain.
 */
export class PartnerNode extends UpstreamNode {
  readonly #services: Services
  readonly #chainIdCheck: ChainIdCheck
  #exclusionReason: 'chain' | 'unverified' | undefined

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
      intervalMs: checkIntervalMs,
      request: () => upstreamClient.request(target, { method: 'eth_chainId', params: [] }, requestOptions),
      onUncheckable: cause => services.log.warn({ upstream: target.name, cause }, 'partner without a chain ID: its chain is not checked'),
    })
  }

  /** The next call after a failed check waits for another one, when that is due. */
  override isUsable(methodClass: string): boolean {
    return (this.#isVerified || this.#chainIdCheck.dueInMs === 0) && super.isUsable(methodClass)
  }

  override async request(call: FailoverCall, methodClass: string, next: NextBelow): Promise<Reply> {
    if (!this.#isVerified) await this.#checkChain()
    if (!this.#isVerified) return this.#refuseCall()
    const [reply] = await Promise.all([super.request(call, methodClass, next), this.#checkChain()])
    return this.#isVerified ? reply : this.#refuseCall()
  }

  get #isVerified(): boolean {
    return this.#chainIdCheck.result === 'passed'
  }

  #refuseCall(): Reply {
    return refuse('unavailable', { source: 'partner', upstream: this.name, cause: 'not known to be on the chain of the network' })
  }

  async #checkChain(): Promise<void> {
    await this.#chainIdCheck.check()
    const previous = this.#exclusionReason
    const reason = this.#isVerified ? undefined : this.#chainIdCheck.isWrongChain ? 'chain' : 'unverified'
    if (reason === previous) return
    this.#exclusionReason = reason
    if (previous !== undefined) this.#setExcluded(previous, 0)
    if (reason !== undefined) this.#setExcluded(reason, 1)
    this.#logExclusion()
  }

  #setExcluded(reason: 'chain' | 'unverified', value: 0 | 1): void {
    this.#services.metrics.gauge(metricDefinitions.upstreamExcluded, { upstream: this.name, reason }).set(value)
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

/** Until eth_chainId is requested again, after the expected chain ID. */
const checkIntervalMs = 600_000
