import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { revealStoreAddress } from '../../config/store-address.ts'
import type { StoreAddress } from '../../config/types.ts'
import type { Clock, Timer } from '../../services/clock.ts'
import { StoreError } from '../../store/store.ts'
import { Channel, transmitTo } from '../../util/channel.ts'
import type { ChannelCall, ChannelTopic } from '../../util/channel.ts'
import type { QueryName, UsageQueries } from './usage-queries.ts'

/** From the gateway to the process. */
export interface ToQueries {
  /** Sent first, as gateway.yaml writes it: arguments and environment are seen by others. */
  readonly store: ChannelTopic<string>
  readonly query: ChannelCall<QueryRequest, QueryReply>
  readonly end: ChannelTopic<undefined>
}

export interface QueryRequest {
  readonly name: QueryName
  readonly options: unknown
}

export type QueryReply = { readonly result: unknown } | { readonly storeError: string } | { readonly bug: string }

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
    if (current === undefined || current.hasEnded) current = new RunningProcess(address, clock)
    return current
  }
  const query = <Name extends QueryName>(name: Name) => ((options: unknown) => startProcess().run({ name, options })) as UsageQueries[Name] // what the query of this name returned in the process

  return {
    queries: new Proxy({} as UsageQueries, {
      // With a method `then` it would be a promise, and whoever awaits it would wait forever.
      get: (_, name: QueryName | 'then') => (name === 'then' ? undefined : query(name)),
    }),
    start: () => void startProcess(),
    close: endProcess,
  }
}

class RunningProcess {
  readonly #child: ChildProcess
  readonly #channel: Channel<ToQueries, Record<never, never>>
  #endReason: string | undefined

  constructor(address: StoreAddress, clock: Clock) {
    this.#child = fork(fileURLToPath(new URL('./query-main.js', import.meta.url)), {
      execArgv: [`--max-old-space-size=${maxHeapMb}`],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#channel = new Channel({ clock, rules: { query: { key: query => JSON.stringify(query) } }, transmit: transmitTo(this.#child) })
    // The gateway ends without waiting for it; it ends with the gateway.
    this.#child.unref()
    this.#child.channel?.unref()
    this.#child.on('message', this.#channel.receive.bind(this.#channel))
    this.#child.on('error', error => this.#close(error.message))
    this.#child.on('exit', (code, signal) => this.#close(`it ended with ${signal ?? `code ${code}`}`))
    this.#channel.send('store', revealStoreAddress(address))
  }

  get hasEnded(): boolean {
    return this.#endReason !== undefined
  }

  async run(query: QueryRequest): Promise<unknown> {
    const reply = await this.#channel.call('query', query, queryTimeoutMs)
    if (reply === 'late') throw new StoreError(`a query took longer than ${queryTimeoutMs / 1_000} s`)
    if (reply === 'exited') throw new StoreError(`the process of queries failed: ${this.#endReason}`)
    if ('result' in reply) return reply.result
    throw 'storeError' in reply ? new StoreError(reply.storeError) : new Error(reply.bug)
  }

  async end(): Promise<void> {
    if (this.hasEnded) return
    const exited = once(this.#child, 'exit')
    this.#child.ref()
    this.#channel.send('end', undefined)
    await exited
  }

  #close(reason: string): void {
    this.#endReason = reason
    this.#channel.close()
  }
}
