import { isJsonObject } from '../../util/json.ts'
import type { Clock, Timer } from '../clock.ts'
import type { EventsUpdate, FeedSource } from './block-feed.ts'
import { parseResult } from './upstream-requests.ts'
import type { UpstreamRequester } from './upstream-requests.ts'

/** Nodes synchronize for minutes. */
const pollIntervalMs = 5_000

export interface SyncingSourceOptions {
  readonly clock: Clock
  /** The best first. */
  upstreams(): readonly { readonly request: UpstreamRequester }[]
  publish(update: EventsUpdate): void
}

/** Polls eth_syncing of the best upstream. What that says at the start is no event: only a change is, as geth does it. */
export class SyncingSource implements FeedSource {
  readonly #options: SyncingSourceOptions
  #timer: Timer | undefined
  #isSyncing: boolean | undefined

  constructor(options: SyncingSourceOptions) {
    this.#options = options
  }

  async start(): Promise<boolean> {
    const timer = this.#options.clock.every(pollIntervalMs, () => void this.sync())
    this.#timer = timer
    await this.sync()
    return this.#timer === timer && this.#isSyncing !== undefined
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = this.#isSyncing = undefined
  }

  async sync(): Promise<void> {
    const [timer, [best]] = [this.#timer, this.#options.upstreams()]
    const status = best && parseResult(await best.request('eth_syncing'))
    const isSyncing = isJsonObject(status)
    if (timer !== this.#timer || (status !== false && !isSyncing)) return
    const before = this.#isSyncing
    this.#isSyncing = isSyncing
    if (before === undefined || before === isSyncing) return
    this.#options.publish({ events: [isSyncing ? JSON.stringify({ syncing: true, status }) : 'false'] })
  }
}
