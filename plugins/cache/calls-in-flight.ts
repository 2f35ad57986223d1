import { ShortLivedMap, resultMemoryOf } from '../../src/plugin/internal.ts'
import type { ChainSnapshot, DirectNext, SpanReference } from '../../src/plugin/internal.ts'
import { Cancellation, copyReply, isFailure, onAbort } from '../../src/plugin/plugin.ts'
import type { Call, Reply, Services } from '../../src/plugin/plugin.ts'
import type { CacheQuery } from './finality-and-ttl.ts'
import type { MemoryCache, UncachedHandlers } from './memory-cache.ts'
import type { SecondLevelCache } from './second-level-cache.ts'

interface CacheLevels {
  readonly memoryCache: MemoryCache
  readonly secondLevelCache: SecondLevelCache | undefined
}

/** Answers from Redis or from a node. Calls that ask the same at the same time share one request. */
export const createUncachedHandlers = ({ memoryCache, secondLevelCache }: CacheLevels, services: Services): UncachedHandlers => {
  const { heads, clock, log } = services
  const callsInFlight = new CallsInFlight(services)
  return {
    async answerMiss({ call, next, methodCache, key, variant }) {
      const { request } = call.context
      let isInStep = !heads.mayLag
      if (!isInStep) {
        isInStep = await heads.sync()
        const hit = memoryCache.get(key, call, methodCache, isInStep)
        if (hit !== undefined) return hit
      }
      const snapshot = heads.snapshot
      const callInFlight = isInStep ? callsInFlight.find(key) : undefined
      if (callInFlight !== undefined) {
        methodCache.recordLookup('joined')
        callInFlight.span?.linkFromCurrent()
        log.debug({ requestId: call.origin.requestId, joinedRequestId: callInFlight.requestId }, 'call joined an identical call in flight')
        return copyReply(await callInFlight.join(call), { cache: 'hit' })
      }
      const { transactionVersion } = heads
      const miss = { key, policy: methodCache.policy, request, snapshot, transactionVersion, requestedAt: clock.monotonic() }
      const below = secondLevelCache === undefined ? next : lookUpBefore(next, secondLevelCache, miss)
      const reply = await callsInFlight.begin(key, call, variant, below).join(call)
      memoryCache.store(miss, reply)
      methodCache.recordLookup(reply.source === 'cache' ? 'redis' : 'miss')
      return copyReply(reply, { cache: reply.source === 'cache' ? 'hit' : 'miss' })
    },
    /** The answer is delivered when no later call can join one that began before. */
    async send(call, next) {
      const reply = await next(call)
      if (mayHaveSent(reply)) await heads.recordTransaction()
      return reply
    },
  }
}

/** Only a refusal and an error of a node that lacks it say that there is no transaction, and not that the caller left when the node had it. */
const mayHaveSent = (reply: Reply): boolean =>
  !isFailure(reply) ||
  reply.fault === 'upstream' ||
  reply.category === 'alreadyKnown' ||
  (reply.kind === 'unavailable' && reply.source !== 'gateway')

/** Looks up the answer in Redis before a node is requested. */
const lookUpBefore =
  (next: DirectNext<'request'>, secondLevelCache: SecondLevelCache, query: CacheQuery): DirectNext<'request'> =>
  async call =>
    (await secondLevelCache.get(query)) ?? next(call)

/** What was known when a call began: a later call may expect more of the answer. */
type KnownVersions = Pick<ChainSnapshot, 'headVersion'> & Pick<Services['heads'], 'transactionVersion'>

/** The upstream calls that callers may join, by key. */
class CallsInFlight {
  readonly #services: Pick<Services, 'heads' | 'currentSpan'>
  readonly #calls = new ShortLivedMap<string, SharedCall>()

  constructor(services: Pick<Services, 'heads' | 'currentSpan'>) {
    this.#services = services
  }

  /** A call that began when the current head, and every transaction that was sent, were known. */
  find(key: string): SharedCall | undefined {
    const call = this.#calls.get(key)
    return call?.mayJoin(this.#versions) === true ? call : undefined
  }

  begin(key: string, call: Call<'request'>, variant: string, next: DirectNext<'request'>): SharedCall {
    const onEnd = () => {
      if (this.#calls.get(key) === sharedCall) this.#calls.delete(key)
    }
    const sharedCall = new SharedCall({ versions: this.#versions, span: this.#services.currentSpan(), onEnd }, call, variant, next)
    this.#calls.set(key, sharedCall)
    return sharedCall
  }

  get #versions(): KnownVersions {
    const { snapshot, transactionVersion } = this.#services.heads
    return { headVersion: snapshot.headVersion, transactionVersion }
  }
}

interface SharedCallOptions {
  readonly versions: KnownVersions
  readonly span: SpanReference | undefined
  /** Called each time that a caller gets the reply. */
  onEnd(): void
}

/** One upstream call whose reply several callers wait for. It is canceled when the last of them leaves. */
class SharedCall {
  /** Of the call that it began for. */
  readonly requestId: string
  /** In which it runs, to which the spans of the callers that join link. */
  readonly span: SpanReference | undefined
  readonly #versions: KnownVersions
  readonly #onEnd: () => void
  readonly #reply: Promise<Reply>
  readonly #cancellation = new Cancellation()
  #waitingCallers = 0
  /** To the first caller, who holds the memory of the result. Each further caller is a holder more. */
  #isDelivered = false

  constructor(
    { versions, span, onEnd }: SharedCallOptions,
    { message, origin, startedAtMs, context }: Call<'request'>,
    variant: string,
    next: DirectNext<'request'>,
  ) {
    this.requestId = origin.requestId
    this.span = span
    this.#versions = versions
    this.#onEnd = onEnd
    this.#reply = Promise.resolve(next({ message, origin, signal: this.#cancellation, startedAtMs, context, variant }))
  }

  /** False when the call was canceled, or began before the current head was known or the last transaction was accepted. */
  mayJoin({ headVersion, transactionVersion }: KnownVersions): boolean {
    const began = this.#versions
    return !this.#cancellation.aborted && began.headVersion === headVersion && began.transactionVersion === transactionVersion
  }

  async join(call: Call): Promise<Reply> {
    this.#waitingCallers += 1
    const stopListening = onAbort(call.signal ?? call.origin.signal, () => {
      this.#waitingCallers -= 1
      if (this.#waitingCallers === 0) this.#cancellation.abort()
    })
    try {
      const reply = await this.#reply
      if (this.#isDelivered) resultMemoryOf(reply)?.addHolder()
      this.#isDelivered = true
      return reply
    } finally {
      this.#onEnd()
      stopListening()
    }
  }
}
