import { Subscriptions } from '../../plugins/subscriptions/subscriptions.ts'
import { FeedBroadcast, WorkerFeeds } from '../../src/cluster/shared-feeds.ts'
import { Cancellation } from '../../src/plugin/call.ts'
import type { Heads } from '../../src/services/chain-heads/index.ts'
import type { Clock } from '../../src/services/clock.ts'
import type { FilterRecords, Services } from '../../src/services/index.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { composeEventRules } from '../../src/services/event-rules.ts'
import { results } from '../../src/services/results.ts'
import { StoreError } from '../../src/store/store.ts'
import type { PushOrigin } from '../../plugins/subscriptions/subscription.ts'
import { openInMemoryFilterRecords } from '../../src/testing/in-memory-store.ts'
import { TestLog, fakeOrigin } from '../support/fakes.ts'
import { connectWorker } from '../support/worker-channel.ts'

const network = 'devnet'

/** A primary with its feeds, and workers whose messages can be held back. */
export class SubscriptionCluster {
  readonly #broadcast: FeedBroadcast
  readonly #clock: Clock
  readonly #filterRecords: FilterRecords

  constructor(heads: Pick<Heads, 'feeds'>, clock: Clock) {
    this.#broadcast = new FeedBroadcast(network, heads.feeds)
    this.#clock = clock
    this.#filterRecords = openInMemoryFilterRecords(clock)
  }

  startWorker(): ClusterWorker {
    const held: (() => void)[] = []
    let [isHeld, isDead] = [false, false]
    const clock = clockOfLiving(this.#clock, () => isDead)
    const { worker, primary } = connectWorker(clock, {
      up(deliver, onSent) {
        onSent()
        if (!isDead) deliver()
      },
      down(deliver, onSent) {
        const send = (): void => {
          onSent()
          if (!isDead) deliver()
        }
        if (isHeld) held.push(send)
        else setImmediate(send)
      },
    })
    worker.handle({
      startFeed: (start, reply) => void this.#broadcast.startFeed(worker, start, reply),
      stopFeed: ({ feed }) => this.#broadcast.stopFeed(worker, feed),
    })
    const feeds = new WorkerFeeds({ network, clock, primary })
    primary.handle({ feed: ({ feed, run, steps }) => feeds.handle(feed, run, steps) })
    const sockets = new Set<ModelSocket>()
    const services = {
      clock,
      results,
      metrics: createMetricsRegistry(),
      log: new TestLog(),
      network: { name: network, chainId: 1, blockTime: 1_000 },
      accounts: { find: () => ({ kind: 'unknown' }) },
      usage: { count: () => undefined },
      heads: { feeds },
      filterRecords: recordsOfLiving(this.#filterRecords, () => isDead),
      events: composeEventRules([]),
      isServed: () => true,
    } as unknown as Services // what subscriptions read
    return {
      sockets,
      subscriptions: new Subscriptions(services),
      hold: () => void (isHeld = true),
      release: () => {
        isHeld = false
        for (const deliver of held.splice(0)) deliver()
      },
      kill: () => {
        isDead = true
        worker.close()
        this.#broadcast.removeWorker(worker)
        for (const socket of sockets) socket.close()
      },
    }
  }
}

/** A process that was killed writes no more. */
const recordsOfLiving = (records: FilterRecords, isDead: () => boolean): FilterRecords => {
  const living = async (): Promise<FilterRecords> => {
    if (isDead()) throw new StoreError('the process was killed')
    return records
  }
  return {
    put: async record => (await living()).put(record),
    replace: async (found, record) => (await living()).replace(found, record),
    find: async id => (await living()).find(id),
    take: async id => (await living()).take(id),
  }
}

/** A process that was killed has no timers. */
const clockOfLiving = (clock: Clock, isDead: () => boolean): Clock => ({
  now: () => clock.now(),
  monotonic: () => clock.monotonic(),
  after: (ms, run) => clock.after(ms, () => isDead() || run()),
  every(ms, run) {
    const timer = clock.every(ms, () => (isDead() ? timer.cancel() : run()))
    return timer
  },
})

export interface ClusterWorker {
  readonly subscriptions: Subscriptions
  readonly sockets: Set<ModelSocket>
  /** Its messages wait. */
  hold(): void
  release(): void
  kill(): void
}

/** Messages that a WebSocket takes while its caller does not read. */
const maxQueuedMessages = 20

/** A WebSocket whose caller may stop reading for a while: it gets what is queued later, or loses the WebSocket. */
export class ModelSocket {
  readonly #signal = new Cancellation()
  readonly origin: PushOrigin
  #queued: string[] = []
  #isReading = true
  readonly #onEvent: (event: SubscriptionEvent) => void

  constructor(onEvent: (event: SubscriptionEvent) => void) {
    this.#onEvent = onEvent
    const push = {
      send: (pieces: readonly (string | Uint8Array)[]) => this.#send(pieces.join('')),
      turn: () => undefined,
      close: () => this.close(),
    }
    this.origin = { ...fakeOrigin({ transport: 'websocket', signal: this.#signal }), push }
  }

  get isOpen(): boolean {
    return !this.#signal.aborted
  }

  setReading(isReading: boolean): void {
    this.#isReading = isReading
    if (isReading) for (const message of this.#queued.splice(0)) this.#deliver(message)
  }

  close(): void {
    this.#signal.abort()
  }

  #send(message: string): boolean {
    if (!this.isOpen) return false
    if (this.#isReading) this.#deliver(message)
    else if (this.#queued.push(message) > maxQueuedMessages) this.close()
    return this.isOpen
  }

  #deliver(message: string): void {
    const { params } = JSON.parse(message) as { params: SubscriptionEvent }
    this.#onEvent(params)
  }
}

export interface SubscriptionEvent {
  readonly subscription: string
  readonly result: unknown
}
