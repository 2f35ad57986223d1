import { Cancellation } from '../../plugin/call.ts'
import type { Target } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import { nextFlight } from '../../util/async.ts'
import type { Semaphore } from '../../util/async.ts'
import type { Log } from '../log.ts'
import type { MethodTable } from '../method-table/index.ts'
import type { Metrics } from '../metrics.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import { UpstreamChain } from './chain-id-check.ts'
import { ClientVersion } from './client-version.ts'
import { AncestorCheck } from './head-plausibility.ts'
import type { AncestorCheckResult, HeadReport } from './head-plausibility.ts'
import type { Head } from './heads-types.ts'
import { NewHeadsSubscription } from './new-heads-subscription.ts'
import { FinalizedBlock, UpstreamHead } from './upstream-blocks.ts'
import type { SeenHead } from './upstream-blocks.ts'
import { PollReport } from './poll-report.ts'
import type { Clock } from '../clock.ts'
import {
  fetchBlock,
  mayBeReplaced,
  openBlockDataFetcher,
  openUpstreamRequester,
  parseBlockReply,
  withRateLimitBackoff,
} from './upstream-requests.ts'
import type { BlockHeader, UpstreamRequester } from './upstream-requests.ts'

export interface UpstreamTrackerOptions {
  readonly clock: Clock
  readonly target: Target
  /** Its place among the upstreams of the network. */
  readonly index: number
  readonly chainId: number
  readonly checkInTurn: Semaphore
  readonly upstreamClient: UpstreamClient
  readonly errorCategory: MethodTable['errorCategory']
  readonly log: Log
  readonly metrics: Metrics<'network'>
  /** ms between polls of the finalized block, and between checks of the chain ID. */
  readonly slowPollIntervalMs: number
  /** ms without a head after which the subscription is stale. */
  readonly staleAfterMs: number
  /** From 0 to below 1. */
  random(): number
  isAgePlausible(newer: HeadReport, older: HeadReport): boolean
  /** An operator has drained it: it takes no subscription. */
  isDrained(upstream: string): boolean
  /** The subscription, or the check of the chain, has changed what is known of the upstream. */
  onChange(): void
}

/** The head, the finalized block and the chain ID of one upstream. Each of them is requested at most once at a time. */
export class UpstreamTracker {
  readonly name: string
  /** Where it takes subscriptions. */
  readonly ws: Secret | undefined
  readonly headers: Target['headers']
  readonly pollReport: PollReport
  readonly request: UpstreamRequester
  readonly fetchBlockData: ReturnType<typeof openBlockDataFetcher>
  readonly chain: UpstreamChain
  /** Not watched as polls are: a node that does not say what it is answers all the same. */
  readonly software: ClientVersion
  readonly #options: UpstreamTrackerOptions
  readonly #ancestorCheck: AncestorCheck
  readonly #head: UpstreamHead
  readonly #finalized: FinalizedBlock
  readonly #subscription: NewHeadsSubscription | undefined
  /** Ends its requests. */
  readonly #cancellation = new Cancellation()
  /** The poll in flight. */
  #polling: Promise<void> | undefined

  constructor(options: UpstreamTrackerOptions) {
    const { target, upstreamClient, clock, log, metrics, slowPollIntervalMs: intervalMs, isAgePlausible } = options
    const signal = this.#cancellation
    this.#options = options
    this.name = target.name
    this.ws = target.ws
    this.headers = target.headers
    this.pollReport = new PollReport(target.name, { clock, log, metrics, onFailure: () => this.chain.scheduleCheck() })
    this.#head = new UpstreamHead(clock)
    const request = withRateLimitBackoff(openUpstreamRequester(upstreamClient, target, signal), clock, options.errorCategory)
    this.request = this.pollReport.watch(request)
    this.fetchBlockData = openBlockDataFetcher(target, signal, options)
    this.software = new ClientVersion({
      clock,
      request: () => request('web3_clientVersion'),
      disconnects: () => upstreamClient.disconnects(target),
    })
    const onUncheckable = (cause: string) =>
      log.warn({ upstream: target.name, cause }, 'upstream without a chain ID: its chain is not checked')
    this.chain = new UpstreamChain({
      ...options,
      ...{ signal, onUncheckable, intervalMs },
      request: () => this.request('eth_chainId'),
      isFailing: () => this.pollReport.failure !== undefined,
    })
    this.#finalized = new FinalizedBlock({ clock, intervalMs, request: this.request, headNumber: () => this.#head.head?.number ?? -1 })
    this.#ancestorCheck = new AncestorCheck({ clock, intervalMs, request: this.request, isAgePlausible })
    this.#subscription = target.ws && this.#createSubscription(target.ws)
  }

  get head(): Head | undefined {
    return this.chain.isExpectedChain ? this.#head.head : undefined
  }

  get height(): number | undefined {
    return this.head?.number
  }

  /** Undefined before the first, and on another chain. */
  get lastSeenHead(): SeenHead | undefined {
    return this.chain.isWrongChain ? undefined : this.#head.lastSeen
  }

  /** The newest block that polls or the subscription returned, as long as the upstream answers. */
  get latestBlock(): BlockHeader | undefined {
    return this.chain.isExpectedChain ? this.#head.latestBlock : undefined
  }

  /** Undefined before the first check, and while the upstream does not answer. */
  get ancestorCheckResult(): AncestorCheckResult | undefined {
    return this.head === undefined ? undefined : this.#ancestorCheck.result
  }

  /** The newest finalized block; undefined until the upstream has returned the expected chain ID. */
  get finalized(): BlockHeader | undefined {
    return this.chain.isExpectedChain ? this.#finalized.block : undefined
  }

  get isPolling(): boolean {
    return this.#polling !== undefined
  }

  /** Do heads come over the subscription, so that no polls are needed? */
  get isSubscribed(): boolean {
    return this.#subscription?.isFresh === true
  }

  /** Is its head from before a time without polls? */
  get isHeadOutdated(): boolean {
    return this.#head.isOutdated
  }

  /** How many heads polls and the subscription have returned. */
  get headsReceived(): number {
    return this.#head.headsReceived
  }

  /** An answer to a caller contained this height. */
  observeHeight(number: number): void {
    this.#head.observeHeight(number)
  }

  /** The finalized block was reverted, or is implausible: it is requested again with the next poll. */
  discardFinalized(): void {
    this.#finalized.discard()
  }

  openSubscription(): void {
    if (!this.chain.isWrongChain && !this.#options.isDrained(this.name)) this.#subscription?.open()
  }

  closeSubscription(): void {
    this.#subscription?.close()
  }

  /** It is not polled from now on, as no calls come in. */
  pause(): void {
    this.closeSubscription()
    this.#head.recordPause()
  }

  /** It is tracked no longer. */
  stop(): void {
    this.#cancellation.abort()
    this.closeSubscription()
    this.pollReport.releaseSeries()
  }

  /**
   * Requests the newest block, unless that request is in flight, or the subscription provides heads. A catch-up poll, for which calls or
   * subscribers wait, is sent all the same, after the one in flight: that may return what was the newest block before they came. Its failure
   * does not count, as there may be many in a poll interval.
   */
  async poll(isCatchUp: boolean): Promise<void> {
    if (isCatchUp) await this.#catchUp()
    else if (!this.isPolling) await this.#startPoll(false)
  }

  /** Resolves with the finalized block when it has changed. Only what `isConfirmed` agrees to counts. */
  async pollFinalized(isConfirmed: (reported: BlockHeader) => Promise<boolean>): Promise<BlockHeader | undefined> {
    return this.chain.isExpectedChain && (await this.#finalized.poll(isConfirmed)) ? this.finalized : undefined
  }

  /** Requests an ancestor of the newest block when that is due. */
  async checkAncestor(): Promise<void> {
    if (this.latestBlock !== undefined) await this.#ancestorCheck.check(this.latestBlock)
  }

  /** The block with this hash or number; undefined when the upstream does not return it. */
  fetchBlock(hashOrNumber: string): Promise<BlockHeader | undefined> {
    return fetchBlock(this.request, hashOrNumber)
  }

  readonly #catchUp = nextFlight(async (): Promise<void> => {
    while (this.isPolling) await this.#polling
    await this.#startPoll(true)
  })

  #startPoll(isCatchUp: boolean): Promise<void> {
    const polling = this.#pollChainAndHead(isCatchUp).finally(() => {
      if (this.#polling === polling) this.#polling = undefined
    })
    return (this.#polling = polling)
  }

  async #pollChainAndHead(isCatchUp: boolean): Promise<void> {
    await this.chain.verify()
    if (this.chain.isWrongChain) this.closeSubscription()
    if (this.chain.isExpectedChain && (isCatchUp || !this.isSubscribed)) await this.#pollHead(isCatchUp)
  }

  async #pollHead(isCatchUp: boolean): Promise<void> {
    this.#head.beginPoll()
    const sentAt = this.#options.clock.monotonic()
    const reply = await this.request('eth_getBlockByNumber', 'latest', false)
    const block = parseBlockReply(reply)
    if (block === undefined) {
      if (mayBeReplaced(reply)) this.chain.invalidate()
      return isCatchUp ? undefined : this.#head.recordFailure()
    }
    this.#subscription?.comparePolledHead(block, sentAt)
    this.#head.update(block)
  }

  /** The newest block may be from before the subscription, which does not publish it. */
  async #requestMissedHead(): Promise<void> {
    await this.chain.verifyNow()
    if (!this.isSubscribed && !this.isPolling) await this.poll(true)
    this.#options.onChange()
  }

  #handleNotification(block: BlockHeader): void {
    this.#head.recordNotification(block)
    this.#options.onChange()
  }

  #createSubscription(url: Secret): NewHeadsSubscription {
    return new NewHeadsSubscription({
      ...this.#options,
      url,
      upstream: this.name,
      headers: this.headers,
      onHead: block => this.#handleNotification(block),
      onSubscribed: isResubscription => {
        if (isResubscription) this.chain.invalidate()
        void this.#requestMissedHead()
      },
    })
  }
}
