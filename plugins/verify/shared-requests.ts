import { Cancellation, onAbort } from '../../src/plugin/plugin.ts'
import type { Failure } from '../../src/plugin/plugin.ts'
import { disconnected } from './node-requests.ts'
import type { VerifiedCall } from './verified-call.ts'

interface SharedRequest<T> {
  readonly value: Promise<T | Failure>
  readonly cancellation: Cancellation
  waitingCount: number
}

/** What calls need of one node at the same time is requested once. The request is canceled when the last of them leaves. */
export class SharedRequests<T> {
  readonly #pending = new Map<string, SharedRequest<T>>()

  /** `key`: what is requested. Each node has requests of its own, as a failure is its own. */
  get(key: string, call: VerifiedCall, request: (call: VerifiedCall) => Promise<T | Failure>): Promise<T | Failure> {
    const { target } = call.context
    const id = `${target.name} ${key}`
    const shared = this.#pending.get(id) ?? this.#begin(id, call, request)
    shared.waitingCount += 1
    return new Promise((resolve, reject) => {
      const stopListening = onAbort(call.signal ?? call.origin.signal, () => {
        shared.waitingCount -= 1
        if (shared.waitingCount === 0) this.#end(id, shared).cancellation.abort()
        resolve(disconnected(call))
      })
      shared.value.then(resolve, reject).finally(stopListening)
    })
  }

  #begin(id: string, call: VerifiedCall, request: (call: VerifiedCall) => Promise<T | Failure>): SharedRequest<T> {
    const cancellation = new Cancellation()
    const value = request({ ...call, signal: cancellation }).finally(() => this.#end(id, shared))
    const shared: SharedRequest<T> = { value, cancellation, waitingCount: 0 }
    this.#pending.set(id, shared)
    return shared
  }

  #end(id: string, shared: SharedRequest<T>): SharedRequest<T> {
    if (this.#pending.get(id) === shared) this.#pending.delete(id)
    return shared
  }
}
