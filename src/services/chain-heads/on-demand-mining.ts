import { hourMs } from '../../util/dates.ts'
import type { Clock, Timer } from '../clock.ts'
import { isSameHead } from './current-chain-state.ts'
import type { Head } from './heads-types.ts'
import type { HeadTiming } from './poll-schedule.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'

/** For so long blocks are taken to come on demand: between two pauses of a test they may come as often as by the clock. */
const detectionTtlMs = hourMs

/** The node may make the block of a transaction a moment after it has accepted the transaction. */
const pollDelayMs = 250

/**
 * Of so many polls that follow transactions, at least half find another block where blocks come on demand. Where they come by the clock, fewer do: the
 * newest block was old because the chain had halted, or because the nodes were still synchronizing. Were that not noticed, each transaction of a busy
 * network would end what is cached for an hour. Another block need not be a higher one: tests take their node back before each case.
 */
const minFollowUpPolls = 32

interface OnDemandMiningOptions extends Pick<HeadTiming, 'idleChainMs'> {
  readonly clock: Clock
  /** Polls all upstreams, and resolves with the head of the network. */
  pollHead(): Promise<Head | undefined>
}

type PolledUpstream = Pick<UpstreamTracker, 'height' | 'isPolling' | 'polledAgeMs'>

/** Notices a chain whose blocks come with transactions, as those of a development node, and not by the clock. */
export class OnDemandMining {
  readonly #options: OnDemandMiningOptions
  #detectedUntil = -Infinity
  #timer: Timer | undefined
  /** What the latest poll after a transaction has found. */
  #followUpHead: Head | undefined
  #followUpCount = 0
  #newBlockCount = 0

  constructor(options: OnDemandMiningOptions) {
    this.#options = options
  }

  get isDetected(): boolean {
    return this.#options.clock.monotonic() < this.#detectedUntil
  }

  /**
   * A poll has ended, and `best` has the highest head. It may lag: where another poll is in flight, or callers have been given a greater height, its
   * head says nothing of the chain.
   */
  recordPoll(best: PolledUpstream | undefined, upstreams: readonly PolledUpstream[], reportedHeight: number): void {
    const { clock, idleChainMs } = this.#options
    const { height = -1, polledAgeMs = 0 } = best ?? {}
    if (polledAgeMs <= idleChainMs || height < reportedHeight || upstreams.some(({ isPolling }) => isPolling)) return
    this.#detectedUntil = clock.monotonic() + detectionTtlMs
  }

  /** Answers that a caller gets before the transaction is in a block are cached no longer than on a chain with polls as often. */
  recordTransaction(): void {
    if (!this.isDetected) return
    this.#timer ??= this.#options.clock.after(pollDelayMs, () => {
      this.#timer = undefined
      void this.#options.pollHead().then(head => this.#recordFollowUp(head))
    })
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #recordFollowUp(head: Head | undefined): void {
    this.#followUpCount += 1
    if (!isSameHead(head, this.#followUpHead)) this.#newBlockCount += 1
    this.#followUpHead = head
    if (this.#followUpCount < minFollowUpPolls) return
    if (this.#newBlockCount < minFollowUpPolls / 2) this.#detectedUntil = -Infinity
    this.#followUpCount = this.#newBlockCount = 0
  }
}
