import { isFailure, refuse, wholeOf } from '../../src/plugin.ts'
import type { Origin, Reply, Services, Signal, Target } from '../../src/plugin.ts'
import { Node } from './node.ts'
import type { Below, FailoverCall } from './node.ts'
import type { Options } from './options.ts'

export type Partner = NonNullable<Options['partner']>

/** Does the caller want the partner's help? */
export const isWanted = ({ when }: Pick<Partner, 'when'>, { headers }: Origin): boolean =>
  when !== 'header' || String(headers['enable-failover']).trim().toLowerCase() === 'true'

/**
 * The partner as a node. It is asked for nothing but what is forwarded, except that the first of these calls, and then
 * one in a while, takes the question for its chain along: what it says of another chain nobody gets.
 */
export class PartnerNode extends Node {
  readonly #chain: Chain

  constructor({ methods: _methods, when: _when, ...partner }: Partner, breaker: Options['breaker'], services: Services) {
    const target: Target = { ...partner, source: 'partner' }
    super(target, breaker, services)
    this.#chain = openChain(target, services, this.closing)
  }

  override isUsable(kind: string): boolean {
    return !this.#chain.isKnownOther && super.isUsable(kind)
  }

  override async ask(call: FailoverCall, kind: string, next: Below): Promise<Reply> {
    const [reply, isOther] = await Promise.all([super.ask(call, kind, next), this.#chain.isOther()])
    return isOther ? refuse('unavailable', { source: 'partner', upstream: this.name, cause: 'it is on another chain' }) : reply
  }
}

/** In ms, until it is asked again: the right chain, and anything else or nothing. */
const seldom = 600_000
const soon = 60_000

interface Chain {
  /** It said so, and need not be asked again yet. */
  readonly isKnownOther: boolean
  /** Asks, where that is due. One that does not say, in time or in a chain id, may be on ours. */
  isOther(): Promise<boolean>
}

const openChain = (target: Target, { agents, clock, network, log }: Services, signal: Signal): Chain => {
  let isOther = false
  let due = -Infinity
  let asking: Promise<void> | undefined
  const ask = async () => {
    const terms = { timeout: 1000, maxBytes: 65_536, signal, resend: true, ahead: true }
    const id = readId(await agents.ask(target, { method: 'eth_chainId', params: [] }, terms))
    isOther = id !== undefined && id !== BigInt(network.chainId)
    due = clock.monotonic() + (id === undefined || isOther ? soon : seldom)
    if (!isOther) return
    log.error({ upstream: target.name, reason: 'chain', because: `it is on chain ${id}` }, 'the partner is left out: it is on another chain')
  }
  return {
    get isKnownOther() {
      return isOther && clock.monotonic() < due
    },
    async isOther() {
      if (clock.monotonic() >= due) asking ??= ask().finally(() => { asking = undefined })
      await asking
      return isOther
    },
  }
}

const readId = (reply: Reply): bigint | undefined => {
  if (isFailure(reply)) return undefined
  const [, id] = /^"(0x[0-9a-f]{1,16})"$/i.exec(wholeOf(reply.result).toString('latin1', 0, 32)) ?? []
  return id === undefined ? undefined : BigInt(id)
}
