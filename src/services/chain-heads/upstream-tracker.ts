import type { Target } from '../../plugin/call.ts'
import type { Signal } from '../../plugin/cancellation.ts'
import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import type { Log } from '../log.ts'
import { parseBlockReply } from './block-header.ts'
import type { BlockHeader } from './block-header.ts'
import type { HeadReport, AncestorCheckResult } from './head-plausibility.ts'
import { NewHeadsSubscription } from './new-heads-subscription.ts'
import { fetchBlock, openUpstreamRequester } from './upstream-requester.ts'
import type { UpstreamRequester } from './upstream-requester.ts'
import { ChainIdCheck } from './chain-id-check.ts'
import { AncestorCheck } from './ancestor-check.ts'
import { withRateLimitBackoff } from './rate-limited-requester.ts'
import type { Head } from './chain-state.ts'
import { UpstreamHead } from './upstream-head.ts'
import type { UpstreamHeadOptions } from './upstream-head.ts'

export interface UpstreamTrackerOptions extends UpstreamHeadOptions {
  readonly target: Target
  readonly chainId: number
  /** In ms. */
  readonly blockTime: number
  readonly upstreamClient: UpstreamClient
  readonly log: Log
  readonly signal: Signal
  /** ms between questions for the finalized block, and for the chain. */
  readonly slowPollIntervalMs: number
  /** From 0 to below 1. */
  random(): number
  /** Is the older block of an age that fits the newer one? */
  isAgePlausible(newer: HeadReport, older: HeadReport): boolean
  /** The node has told something unasked. */
  onHead(upstream: UpstreamTracker): void
}

/** What one node tells of its chain: when it is polled, each thing at most once at a time, or unasked over its WebSocket. */
export class UpstreamTracker {
  readonly target: Target
  readonly #options: UpstreamTrackerOptions
  readonly #request: UpstreamRequester
  readonly #chainIdCheck: ChainIdCheck
  readonly #ancestorCheck: AncestorCheck
  readonly #head: UpstreamHead
  readonly #subscription: NewHeadsSubscription | undefined
  #finalized: BlockHeader | undefined
  #isPolling = false
  #finalizedDueAt = 0
  #finalityResets = 0
  /** Of its connections, as far as they have been noticed. */
  #disconnects: number

  constructor(options: UpstreamTrackerOptions) {
    const { target, chainId, upstreamClient, clock, signal, slowPollIntervalMs, isAgePlausible } = options
    this.#options = options
    this.target = target
    this.#disconnects = upstreamClient.disconnects(target)
    this.#request = withRateLimitBackoff(openUpstreamRequester(upstreamClient, target, signal), clock)
    this.#chainIdCheck = new ChainIdCheck({ chainId, clock, intervalMs: slowPollIntervalMs, request: () => this.#request('eth_chainId') })
    this.#head = new UpstreamHead(options)
    this.#ancestorCheck = new AncestorCheck({
      clock,
      intervalMs: slowPollIntervalMs,
      isAgePlausible,
      requestBlock: number => this.#request('eth_getBlockByNumber', number, false),
    })
    this.#subscription = target.ws && new NewHeadsSubscription({ ...this.#subscriptionOptions(), url: target.ws })
  }

  get name(): string {
    return this.target.name
  }

  get head(): Head | undefined {
    return this.isWrongChain ? undefined : this.#head.head
  }

  /** The newest block that it has shown, as long as it answers. */
  get latestBlock(): HeadReport | undefined {
    return this.isWrongChain ? undefined : this.#head.latestBlock
  }

  /** What it had to show when it was asked for an earlier block, as long as it answers. */
  get ancestorCheckResult(): AncestorCheckResult | undefined {
    return this.head === undefined ? undefined : this.#ancestorCheck.result
  }

  /** The head with its parent, when the node has shown it. */
  get headBlock(): BlockHeader | undefined {
    return this.isWrongChain ? undefined : this.#head.headBlock
  }

  /** The newest block that the node says is final; undefined while its chain has not been proved to be ours. */
  get finalized(): BlockHeader | undefined {
    return this.#chainIdCheck.isExpectedChain ? this.#finalized : undefined
  }

  /** Is it on another chain than ours? */
  get isWrongChain(): boolean {
    return this.#chainIdCheck.isWrongChain
  }

  /** The id of its chain; undefined as long as it did not give one. */
  get upstreamChainId(): number | undefined {
    return this.#chainIdCheck.upstreamChainId
  }

  /** Does it tell of heads unasked? */
  get isSubscribed(): boolean {
    return this.#subscription?.isFresh === true
  }

  /** How often it has shown its head. */
  get headsReceived(): number {
    return this.#head.headsReceived
  }

  get height(): number | undefined {
    return this.head?.number
  }

  get lowPolls(): number {
    return this.#head.lowPolls
  }

  get isSilent(): boolean {
    return this.isWrongChain || this.#head.isSilent
  }

  /** An answer of the node to a caller said how high it is. */
  observeHeight(number: number): void {
    this.#head.observeHeight(number)
  }

  /** What it said to be final was undone, or cannot be: it is asked again at the next poll. */
  discardFinalized(): void {
    this.#finalityResets += 1
    this.#finalized = undefined
    this.#finalizedDueAt = 0
  }

  /** Calls come in: it may tell of heads unasked. */
  openSubscription(): void {
    if (!this.isWrongChain) this.#subscription?.open()
  }

  /** Nobody calls any more. */
  closeSubscription(): void {
    this.#subscription?.close()
  }

  /** Asks for the newest block, unless it is still being asked, or tells of it unasked. */
  async poll(): Promise<void> {
    if (this.#isPolling) return
    this.#isPolling = true
    try {
      this.#checkDisconnects()
      await this.#chainIdCheck.check()
      if (this.isWrongChain) this.closeSubscription()
      else if (!this.isSubscribed) await this.#pollHead()
    } finally {
      this.#isPolling = false
    }
  }

  /**
   * Asks for the final block, when that is due. Resolves with it when it has changed. It counts if others agree, and
   * nothing was undone meanwhile: then it may be what was said before that.
   */
  async pollFinalized(isConfirmed: (final: BlockHeader) => Promise<boolean>): Promise<BlockHeader | undefined> {
    const now = this.#options.clock.monotonic()
    if (!this.#chainIdCheck.isExpectedChain || now < this.#finalizedDueAt) return undefined
    this.#finalizedDueAt = now + this.#options.slowPollIntervalMs
    const [previous, resetsBefore] = [this.#finalized, this.#finalityResets]
    const reported = parseBlockReply(await this.#request('eth_getBlockByNumber', 'finalized', false))
    // None that it has not reached itself.
    if (reported === undefined || reported.number > (this.#head.head?.number ?? -1) || reported.hash === previous?.hash) return undefined
    const isAgreed = await isConfirmed(reported)
    if (resetsBefore !== this.#finalityResets) return undefined
    if (isAgreed) this.#finalized = reported
    else this.discardFinalized()
    return this.finalized
  }

  /** Asks for an earlier block, when that is due: the newest may be a number that somebody made up. */
  async checkAncestor(): Promise<void> {
    if (this.headBlock !== undefined) await this.#ancestorCheck.check(this.headBlock)
  }

  /** A block by its hash or number; undefined when the node does not tell. */
  fetchBlock(hashOrNumber: string): Promise<BlockHeader | undefined> {
    return fetchBlock(this.#request, hashOrNumber)
  }

  /** Asks for the chain id: at first, after a connection came back, and now and then. */
  checkChainId(): Promise<void> {
    return this.#chainIdCheck.check()
  }

  /** Another node may be there now, as after a restart: its chain is asked for before anything else. */
  #checkDisconnects(): void {
    const { upstreamClient, target } = this.#options
    const disconnects = upstreamClient.disconnects(target)
    if (disconnects > this.#disconnects) this.#chainIdCheck.invalidate()
    this.#disconnects = disconnects
  }

  async #pollHead(): Promise<void> {
    this.#head.beginPoll()
    const reply = await this.#request('eth_getBlockByNumber', 'latest', false)
    const block = parseBlockReply(reply)
    if (block === undefined) {
      if (isUpstreamFailure(reply)) this.#chainIdCheck.invalidate()
      return this.#head.recordFailure()
    }
    this.#subscription?.comparePolledHead(block)
    this.#head.update(block, this.isSubscribed)
  }

  #subscriptionOptions(): Omit<ConstructorParameters<typeof NewHeadsSubscription>[0], 'url'> {
    const {
      chainId,
      blockTime,
      clock,
      log,
      random,
      target: { name: upstream },
      onHead,
    } = this.#options
    return {
      chainId,
      clock,
      staleAfterMs: Math.max(2000, 4 * blockTime),
      random,
      onHead: block => {
        this.#head.beginPoll()
        this.#head.update(block, true)
        onHead(this)
      },
      onSubscribed: isResubscription => {
        log.info({ upstream }, 'upstream tells of heads by subscription')
        if (!isResubscription) return
        this.#chainIdCheck.invalidate()
        void this.#chainIdCheck.check().then(() => onHead(this))
      },
      onFailure: cause => log.warn({ upstream, cause }, 'upstream tells of no heads by subscription: it is polled'),
    }
  }
}

/** Another node may answer next. One that limits us is there. */
const isUpstreamFailure = (reply: Reply): boolean => isFailure(reply) && reply.fault !== 'caller' && reply.category !== 'rateLimited'
