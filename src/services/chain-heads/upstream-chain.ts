import { onAbort } from '../../plugin/call.ts'
import type { Signal, Target } from '../../plugin/call.ts'
import type { Timer } from '../clock.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import { ChainIdCheck } from './chain-id-check.ts'
import type { ChainIdCheckOptions } from './chain-id-check.ts'
import { fingerprintOf } from './target-fingerprint.ts'

export interface UpstreamChainOptions extends ChainIdCheckOptions {
  readonly target: Target
  readonly upstreamClient: UpstreamClient
  readonly signal: Signal
  /** A check that no poll has begun has ended. */
  onChange(): void
}

/** The chain of an upstream that is tracked: its ID is requested until it is the expected one, whether calls come in or not. */
export class UpstreamChain extends ChainIdCheck {
  readonly #options: UpstreamChainOptions
  /** Lost connections that have led to a check. */
  #disconnects: number
  /** Until the next request. */
  #timer: Timer | undefined

  constructor(options: UpstreamChainOptions) {
    super(options)
    this.#options = options
    this.#disconnects = options.upstreamClient.disconnects(options.target)
    onAbort(options.signal, () => this.#timer?.cancel())
  }

  /** See fingerprintOf(). */
  get fingerprint(): string {
    return fingerprintOf(this.#options.target)
  }

  /** Sends a request when a check is due, and after a lost connection: another node may be at this URL now, as after a restart. */
  async verify(): Promise<void> {
    const { upstreamClient, target, clock, signal } = this.#options
    const disconnects = upstreamClient.disconnects(target)
    if (disconnects > this.#disconnects) this.invalidate()
    this.#disconnects = disconnects
    await this.check()
    if (this.result === 'pending') await this.check()
    this.#timer?.cancel()
    if (!this.isExpectedChain && !signal.aborted) this.#timer = clock.after(this.dueInMs, () => void this.verifyNow())
  }

  /** The same, between polls. */
  async verifyNow(): Promise<void> {
    await this.verify()
    this.#options.onChange()
  }
}
