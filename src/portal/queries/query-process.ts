import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { revealStoreAddress } from '../../config/store-address.ts'
import type { StoreAddress } from '../../config/types.ts'
import type { Clock, Timer } from '../../services/clock.ts'
import { StoreError } from '../../store/store.ts'
import { withTimeoutOr } from '../../util/async.ts'
import type { QueryName, UsageQueries } from './usage-queries.ts'

/** The first message has the address of the store, as gateway.yaml writes it: arguments and environment are seen by others. */
export type QueryMessage =
  | { readonly store: string }
  | { readonly id: number; readonly name: QueryName; readonly options: unknown }
  | { readonly isEnd: true }

export type QueryReply = { readonly id: number } & (
  | { readonly result: unknown }
  | { readonly storeError: string }
  | { readonly bug: string }
)

export interface QueryProcess {
  readonly queries: UsageQueries
  /** Starts the process before it is needed: it takes 0.2 s, and 1 s while the machine is busy. */
  start(): void
  close(): Promise<void>
}

/** Without queries for this time the process ends: it holds 50 to 100 MB. */
const idleTimeoutMs = 300_000
const queryTimeoutMs = 30_000
const maxHeapMb = 256

/**
 * Queries in a process of their own, with a lower priority than calls; a process that fails is replaced with the next query. Not in
 * a thread: with two threads of a process on one LMDB folder, commits failed with EINVAL.
 */
export const openQueryProcess = (address: StoreAddress, clock: Clock): QueryProcess => {
  let current: RunningProcess | undefined
  let idleTimer: Timer | undefined

  const endProcess = async (): Promise<void> => {
    const ending = current
    current = undefined
    idleTimer?.cancel()
    await ending?.end()
  }
  const startProcess = (): RunningProcess => {
    idleTimer?.cancel()
    idleTimer = clock.after(idleTimeoutMs, () => void endProcess())
    if (current === undefined || current.hasEnded) current = new RunningProcess(address)
    return current
  }
  const query = <Name extends QueryName>(name: Name) =>
    ((options: unknown) =>
      withTimeoutOr(clock, queryTimeoutMs, startProcess().run(name, options), () => {
        throw new StoreError(`a query took longer than ${queryTimeoutMs / 1_000} s`)
      })) as UsageQueries[Name] // what the query of this name returned in the process

  return {
    queries: new Proxy({} as UsageQueries, {
      // With a method `then` it would be a promise, and whoever awaits it would wait forever.
      get: (_, name: QueryName | 'then') => (name === 'then' ? undefined : query(name)),
    }),
    start: () => void startProcess(),
    close: endProcess,
  }
}

interface PendingQuery {
  resolve(result: unknown): void
  reject(error: Error): void
}

class RunningProcess {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, PendingQuery>()
  #lastId = 0
  hasEnded = false

  constructor(address: StoreAddress) {
    this.#child = fork(fileURLToPath(new URL('./query-main.js', import.meta.url)), {
      execArgv: [`--max-old-space-size=${maxHeapMb}`],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    // The gateway ends without waiting for it; it ends with the gateway.
    this.#child.unref()
    this.#child.channel?.unref()
    this.#child.on('message', (reply: QueryReply) => this.#settle(reply))
    this.#child.on('error', error => this.#rejectAll(error.message))
    this.#child.on('exit', (code, signal) => this.#rejectAll(`it ended with ${signal ?? `code ${code}`}`))
    this.#send({ store: revealStoreAddress(address) })
  }

  run(name: QueryName, options: unknown): Promise<unknown> {
    const id = (this.#lastId += 1)
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      this.#send({ id, name, options })
    })
  }

  async end(): Promise<void> {
    if (this.hasEnded) return
    const exited = once(this.#child, 'exit')
    this.#child.ref()
    this.#send({ isEnd: true })
    await exited
  }

  /** A message that cannot be sent is followed by the end of the process, which rejects what is pending. */
  #send(message: QueryMessage): void {
    this.#child.send(message, () => undefined)
  }

  #settle(reply: QueryReply): void {
    const query = this.#pending.get(reply.id)
    this.#pending.delete(reply.id)
    if ('result' in reply) query?.resolve(reply.result)
    else query?.reject('storeError' in reply ? new StoreError(reply.storeError) : new Error(reply.bug))
  }

  #rejectAll(reason: string): void {
    this.hasEnded = true
    for (const query of this.#pending.values()) query.reject(new StoreError(`the process of queries failed: ${reason}`))
    this.#pending.clear()
  }
}
