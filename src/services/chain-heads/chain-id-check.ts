import { createHash } from 'node:crypto'
import { onAbort } from '../../plugin/call.ts'
import type { Signal, Target } from '../../plugin/call.ts'
import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'
import { revealSecrets } from '../../plugin/secret.ts'
import { Backoff, singleFlight, withTimeoutOr } from '../../util/async.ts'
import type { Semaphore } from '../../util/async.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock, Timer } from '../clock.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import type { ChainCheckResult } from './heads-types.ts'
import { parseQuantityReply } from './upstream-requests.ts'

interface ChainIdCheckOptions {
  /** The chain ID of the network. */
  readonly chainId: number
  readonly clock: Clock
  /** ms between requests to an upstream on the expected chain. */
  readonly intervalMs: number
  /** Sends eth_chainId. */
  request(): Promise<Reply>
  /** The upstream has no eth_chainId, as its response says: it gets calls, but is not checked. */
  onUncheckable(cause: string): void
}

/** An upstream on the wrong chain serves no calls until an operator corrects it, so it is checked at least this often. */
const maxWrongChainIntervalMs = 10_000

/** Between requests to an upstream that no longer answers, while nothing else is requested of it. */
const failingIntervalMs = 10_000

/** Between requests to an upstream that has not returned a chain ID yet. */
const retryDelays = { minMs: 250, maxMs: 10_000 }

/** A check that takes longer lets the next one begin: an upstream that does not answer delays the others no more than one far away. */
const maxTurnMs = 250

/** After so many requests without a chain ID the check has failed: the first of a start may be late because the gateway itself is busy. */
const minFailures = 2

/**
 * Checks that an upstream is on the network's chain: before its first use, after a lost connection, and at an interval,
 * because an upstream may be replaced without a trace.
 */
export class ChainIdCheck {
  readonly #options: ChainIdCheckOptions
  readonly #retryDelays = new Backoff(retryDelays)
  #upstreamChainId: number | undefined
  #failures = 0
  #failure: string | undefined
  #isUncheckable = false
  #isCurrent = false
  #dueAt = -Infinity

  constructor(options: ChainIdCheckOptions) {
    this.#options = options
  }

  /** The last chain ID that the upstream returned; undefined before it returned one. */
  get upstreamChainId(): number | undefined {
    return this.#upstreamChainId
  }

  /** Is the last chain ID that the upstream returned the expected one? */
  get isExpectedChain(): boolean {
    return this.#upstreamChainId === this.#options.chainId
  }

  /** Has the upstream returned the ID of another chain? */
  get isWrongChain(): boolean {
    return this.#upstreamChainId !== undefined && !this.isExpectedChain
  }

  get result(): ChainCheckResult {
    if (this.isExpectedChain || this.#isUncheckable) return 'passed'
    return this.isWrongChain || this.#failures >= minFailures ? 'failed' : 'pending'
  }

  /** How many requests in a row have returned no chain ID. */
  get failures(): number {
    return this.#failures
  }

  /** Why there was no chain ID in the last response. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Milliseconds until check() sends the next request. */
  get dueInMs(): number {
    return this.#isCurrent ? Math.max(0, this.#dueAt - this.#options.clock.monotonic()) : 0
  }

  /** Another node may be at this URL now: the next check sends a request. */
  invalidate(): void {
    this.#isCurrent = false
  }

  /** Sends a request when a check is due. Callers that come meanwhile wait for the same response. */
  readonly check = singleFlight(() => this.#check())

  async #check(): Promise<void> {
    if (this.dueInMs > 0) return
    this.#isCurrent = true
    const startedAt = this.#options.clock.monotonic()
    const reply = await this.#options.request()
    const chainId = parseQuantityReply(reply)
    if (chainId === undefined) return this.#recordFailure(reply)
    this.#upstreamChainId = chainId
    this.#isUncheckable = false
    this.#failure = undefined
    this.#failures = 0
    this.#retryDelays.reset()
    const { intervalMs } = this.#options
    this.#dueAt = startedAt + (this.isWrongChain ? Math.min(maxWrongChainIntervalMs, intervalMs) : intervalMs)
  }

  /** An error, such as a rate limit, does not prove that the upstream has left a chain. */
  #recordFailure(reply: Reply): void {
    const { clock, intervalMs } = this.#options
    this.#failures += 1
    this.#failure = isFailure(reply) ? (reply.cause ?? reply.error.message) : 'the result of eth_chainId is no hex quantity'
    const isUncheckable = this.#upstreamChainId === undefined && lacksChainId(reply)
    if (isUncheckable) this.#setUncheckable(this.#failure)
    if (!this.isExpectedChain && !isUncheckable)
      this.#dueAt = clock.monotonic() + (this.#failures < minFailures ? 0 : this.#retryDelays.next())
    else if (isFailure(reply) && reply.fault !== 'caller') this.invalidate()
    else this.#dueAt = clock.monotonic() + intervalMs
  }

  #setUncheckable(cause: string): void {
    if (!this.#isUncheckable) this.#options.onUncheckable(cause)
    this.#isUncheckable = true
    this.#retryDelays.reset()
  }
}

/** A node may be without the method, or answer it with anything. Another error may be over soon. */
export const lacksChainId = (reply: Reply): boolean =>
  !isFailure(reply) || (reply.kind === 'node' && reply.error.code === methodNotFoundCode)

/** JSON-RPC 2.0. */
const methodNotFoundCode = -32601

const fingerprints = new WeakMap<Target, string>()

/** Identifies the node behind a target in every process of the gateway, without its secrets. */
export const fingerprintOf = (target: Target): string =>
  getOrCreate(fingerprints, target, ({ url, headers = {} }) =>
    createHash('sha256')
      .update(JSON.stringify(revealSecrets([url, headers])))
      .digest('base64url'),
  )

interface UpstreamChainOptions extends ChainIdCheckOptions {
  readonly target: Target
  readonly upstreamClient: UpstreamClient
  readonly signal: Signal
  readonly checkInTurn: Semaphore
  /** Its place among the upstreams of the network. */
  readonly index: number
  /** The upstream does not answer. */
  isFailing(): boolean
  /** A check that no poll has begun has ended. */
  onChange(): void
}

/**
 * The chain of an upstream that is tracked: its ID is requested until it is the expected one, and while the upstream does not answer, whether calls
 * come in or not. So an outage also ends when its callers have left.
 */
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
    const { upstreamClient, target } = this.#options
    const disconnects = upstreamClient.disconnects(target)
    if (disconnects > this.#disconnects) this.invalidate()
    this.#disconnects = disconnects
    await this.check()
    if (this.result === 'pending') await this.check()
    this.scheduleCheck()
  }

  /** The same, between polls. */
  async verifyNow(): Promise<void> {
    await this.verify()
    this.#options.onChange()
  }

  /** The same, while no call waits for it: the first upstreams of all networks take their turns first, and those that have failed later. */
  readonly verifyInTurn = singleFlight(() => {
    const { checkInTurn, clock, signal, index } = this.#options
    const verify = async () => (signal.aborted ? undefined : this.verifyNow())
    return checkInTurn(() => withTimeoutOr(clock, maxTurnMs, verify(), () => undefined), index + this.failures)
  })

  /** The next request is sent by itself where one is needed; each poll puts it off. */
  scheduleCheck(): void {
    const { clock, signal, isFailing } = this.#options
    this.#timer?.cancel()
    if (signal.aborted) return
    if (!this.isExpectedChain) this.#timer = clock.after(this.dueInMs, () => void this.verifyInTurn())
    else if (isFailing()) this.#timer = clock.after(failingIntervalMs, () => void this.#verifyAnew())
  }

  async #verifyAnew(): Promise<void> {
    this.invalidate()
    await this.verifyInTurn()
  }
}
