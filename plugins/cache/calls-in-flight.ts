import { Cancellation, onAbort, resultMemoryOf } from '../../src/plugin/plugin.ts'
import type { Call, ChainSnapshot, DirectNext, Reply, Services, SpanReference } from '../../src/plugin/plugin.ts'

/** What was known when a call began: a later call may expect more of the answer. */
type KnownVersions = Pick<ChainSnapshot, 'headVersion'> & Pick<Services['heads'], 'transactionVersion'>

/** The upstream calls that callers may join, by key. */
export class CallsInFlight {
  readonly #services: Pick<Services, 'heads' | 'currentSpan'>
  readonly #calls = new Map<string, SharedCall>()

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
    { message, origin, context }: Call<'request'>,
    variant: string,
    next: DirectNext<'request'>,
  ) {
    this.requestId = origin.requestId
    this.span = span
    this.#versions = versions
    this.#onEnd = onEnd
    this.#reply = Promise.resolve(next({ message, origin, signal: this.#cancellation, context, variant }))
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
