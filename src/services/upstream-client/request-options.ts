import type { Signal } from '../../plugin/cancellation.ts'

/** What one ask is held to. */
export interface RequestOptions {
  /** Longest wait for the whole answer, in ms. Waiting for a place in the target's `concurrency` counts too. */
  readonly timeoutMs: number
  /** Most bytes of an answer; of one that is compressed, most bytes inflated. */
  readonly maxBytes: number
  /** The caller left: stop. */
  readonly signal: Signal
  /** Asked once when `after` ms pass without a byte; false means that the node hangs, which ends the call. */
  readonly livenessProbe?: { readonly afterMs: number; isAlive(): Promise<boolean> }
  /** The node may get the request twice: it is sent again when a kept connection turns out to be closed. */
  readonly idempotent?: boolean
  /** Asks after the node's health: does not wait for a place in the target's `concurrency`. */
  readonly bypassConcurrencyLimit?: boolean
}
