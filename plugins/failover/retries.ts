import { keccak_256 } from '@noble/hashes/sha3.js'
import { isFailure, refuse } from '../../src/plugin/plugin.ts'
import type { Clock, Failure, Reply, Request } from '../../src/plugin/plugin.ts'
import { SlidingWindowCounter } from './sliding-window-counter.ts'

/** Retries are at most this ratio of the calls in the window, or the minimum if that is more (Envoy's retry budget). */
const maxRetryRatio = 0.2
const minRetries = 3
const windowMs = 10_000

/**
 * Bounds retries, so that an outage cannot double the load. A retry that succeeds returns its place, and retries without a
 * place wait for one: so all calls move to a healthy node, and few to a node that fails too.
 */
export class RetryBudget {
  readonly #clock: Clock
  readonly #callCount = new SlidingWindowCounter(windowMs)
  readonly #failedRetryCount = new SlidingWindowCounter(windowMs)
  readonly #waiting: ((isReserved: boolean) => void)[] = []
  #retriesInFlight = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  recordCall(): void {
    this.#callCount.add(this.#now)
  }

  /** Reserves a retry, which must be released; false when the budget is exhausted. */
  reserve(): boolean | Promise<boolean> {
    if (this.#isAvailable) return this.#reserveNow()
    // Only a retry in flight can return its place.
    return this.#retriesInFlight > 0 && new Promise<boolean>(resolve => this.#waiting.push(resolve))
  }

  release(failed: boolean): void {
    this.#retriesInFlight -= 1
    if (failed) this.#failedRetryCount.add(this.#now)
    while (this.#waiting.length > 0 && this.#isAvailable) this.#waiting.shift()?.(this.#reserveNow())
    if (this.#retriesInFlight === 0) for (const settle of this.#waiting.splice(0)) settle(false)
  }

  get #isAvailable(): boolean {
    const maxRetries = Math.max(minRetries, maxRetryRatio * this.#callCount.sum(this.#now))
    return this.#retriesInFlight + this.#failedRetryCount.sum(this.#now) + 1 <= maxRetries
  }

  get #now(): number {
    return this.#clock.monotonic()
  }

  #reserveNow(): true {
    this.#retriesInFlight += 1
    return true
  }
}

/**
 * The reply to a transaction that was sent to a second node, after the first failed without saying whether it accepted the
 * transaction. An error of the second node is a success where it is certain that the node has this very transaction.
 */
export const resolveDuplicateTransaction = async (
  reply: Reply,
  request: Request,
  sendRequest: (request: Request) => Promise<Reply>,
): Promise<Reply> => {
  if (!isFailure(reply) || reply.kind !== 'node') return reply
  const isAlreadyKnown = reply.category === 'alreadyKnown'
  if (!isAlreadyKnown && !/nonce too low/i.test(reply.error.message)) return reply
  const hash = transactionHashOf(request)
  if (hash === undefined || !(isAlreadyKnown || (await isTransactionKnown(hash, sendRequest)))) return reply
  const { source, upstream } = reply
  return { source, ...(upstream !== undefined && { upstream }), result: Buffer.from(`"${hash}"`) }
}

/** The nonce may have been used by this transaction or by another. */
const isTransactionKnown = async (hash: string, sendRequest: (request: Request) => Promise<Reply>): Promise<boolean> => {
  const reply = await sendRequest({ method: 'eth_getTransactionByHash', params: [hash] })
  return !isFailure(reply) && reply.result.at(0) === '{'.charCodeAt(0)
}

/** Keccak-256 of the sent bytes (EIP-2718). Undefined for transactions with blobs, whose hash leaves out the blobs (EIP-4844). */
const transactionHashOf = ({ method, params: [raw] }: Request): string | undefined =>
  method !== 'eth_sendRawTransaction' || typeof raw !== 'string' || raw.startsWith('0x03')
    ? undefined
    : `0x${Buffer.from(keccak_256(Buffer.from(raw.slice(2), 'hex'))).toString('hex')}`

/** Nodes failed first, so that the time was over: not the fault of the caller, so the call costs nothing. */
export const retryTimeout = (upstream: string): Failure => refuse('timeout', { upstream, fault: 'upstream' })

export const noUpstream = (candidates: readonly { retryInMs(): number }[]): Failure => {
  const retryInMs = Math.min(...candidates.map(node => node.retryInMs()))
  return refuse('unavailable', { retryAfter: Math.min(5, Math.max(1, Math.ceil(retryInMs / 1000))) })
}
