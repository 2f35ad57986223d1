import { Identity, refuse } from '../../src/plugin.ts'
import type { Notes, Origin, Reply, Services, Target } from '../../src/plugin.ts'
import { Node } from './node.ts'
import type { Below, FailoverCall } from './node.ts'
import type { Options } from './options.ts'

export type Partner = NonNullable<Options['partner']>

/** May the call go to the partner in an outage: by its method, by the account's plan, and by what the caller wants? */
export const mayForward = (
  { methods, when }: Pick<Partner, 'methods' | 'when'>,
  { request, account }: Pick<Notes, 'request' | 'account'>,
  { headers }: Origin,
): boolean =>
  methods.includes(request.method) &&
  account.plan.forwarding &&
  (when !== 'header' || String(headers['enable-failover']).trim().toLowerCase() === 'true')

/**
 * The partner as a node. It is asked for nothing but what is forwarded, except that the first of these calls, and then
 * one in a while, takes the question for its chain along: what it says of another chain nobody gets.
 */
export class PartnerNode extends Node {
  readonly #services: Services
  readonly #identity: Identity
  #due = -Infinity
  #checked: Promise<void> | undefined

  constructor({ methods: _methods, when: _when, ...partner }: Partner, breaker: Options['breaker'], services: Services) {
    const target: Target = { ...partner, source: 'partner' }
    super(target, breaker, services)
    const {
      agents,
      clock,
      network: { chainId },
    } = services
    const terms = { timeout: 1000, maxBytes: 65_536, signal: this.closing, resend: true, ahead: true }
    this.#services = services
    this.#identity = new Identity({
      chainId,
      clock,
      rarely: seldom,
      ask: () => agents.ask(target, { method: 'eth_chainId', params: [] }, terms),
    })
  }

  override isUsable(kind: string): boolean {
    return !(this.#identity.isElsewhere && this.#services.clock.monotonic() < this.#due) && super.isUsable(kind)
  }

  override async ask(call: FailoverCall, kind: string, next: Below): Promise<Reply> {
    const [reply] = await Promise.all([super.ask(call, kind, next), this.#check()])
    if (!this.#identity.isElsewhere) return reply
    return refuse('unavailable', { source: 'partner', upstream: this.name, cause: 'it is on another chain' })
  }

  /** One that does not say, in time or in a chain id, may be on our chain. */
  #check(): Promise<void> {
    const now = this.#services.clock.monotonic()
    if (this.#checked === undefined || this.#identity.isOurs || now >= this.#due) {
      this.#due = now + soon
      if (this.#identity.isElsewhere) this.#identity.forget()
      this.#checked = this.#identity.check().then(() => this.#tell())
    }
    return this.#checked
  }

  #tell(): void {
    const { isElsewhere, chain } = this.#identity
    if (!isElsewhere) return
    const because = `it is on chain ${chain}`
    this.#services.log.error({ upstream: this.name, reason: 'chain', because }, 'the partner is left out: it is on another chain')
  }
}

/** In ms, until it is asked again: the right chain, and anything else or nothing. */
const seldom = 600_000
const soon = 60_000
