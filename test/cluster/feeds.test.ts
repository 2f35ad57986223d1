import t from '../support/tap.ts'
import { FeedConsumer } from '../../plugins/subscriptions/feed-consumer.ts'
import { FeedBroadcast, WorkerFeeds } from '../../src/cluster/shared-feeds.ts'
import { SharedFeed } from '../../src/services/chain-heads/index.ts'
import type { ChainUpdate, EventsUpdate } from '../../src/services/chain-heads/index.ts'
import { TestClock } from '../support/fakes.ts'
import { connectWorker } from '../support/worker-channel.ts'

const settle = () => new Promise(setImmediate)
const updateOf = (number: number): ChainUpdate => ({
  removed: [],
  added: [{ number, hash: `0x${number}`, parentHash: `0x${number - 1}`, json: '{}' }],
})

/** The feeds of a worker whose end of the channel is `primary`, and what listeners of its headers have seen. */
const openWorkerFeeds = (clock: TestClock, primary: ReturnType<typeof connectWorker>['primary']) => {
  const workerFeeds = new WorkerFeeds({ network: 'devnet', clock, primary })
  primary.handle({ feed: ({ feed, run, steps }) => workerFeeds.handle(feed, run, steps) })
  const seen: (number | 'end')[] = []
  const listen = () =>
    workerFeeds.headers.subscribe({
      onUpdate: ({ added }) => seen.push(...added.map(({ number }) => number)),
      onEnd: () => seen.push('end'),
    })
  return { workerFeeds, seen, listen }
}

/** A primary and workers, whose channels can be stopped. */
const openCluster = (workerCount: number) => {
  const clock = new TestClock()
  const runs = { headers: 0, logs: 0 }
  const startCounts = { headers: 0, logs: 0 }
  const sourceOf = (kind: 'headers' | 'logs') => ({
    start: async (onStarted: () => void) => {
      runs[kind] += 1
      const start = (startCounts[kind] += 1)
      await settle()
      const isStarted = start === startCounts[kind]
      if (isStarted) onStarted()
      return isStarted
    },
    stop: () => {
      runs[kind] -= 1
      startCounts[kind] += 1
    },
    sync: async (onSynced: () => void) => {
      await settle()
      onSynced()
    },
  })
  const otherSource = {
    start: async (onStarted: () => void) => {
      await settle()
      onStarted()
      return true
    },
    stop: () => undefined,
    sync: async () => undefined,
  }
  const feeds = {
    headers: new SharedFeed(sourceOf('headers')),
    logs: new SharedFeed(sourceOf('logs')),
    receipts: new SharedFeed(otherSource),
    pendingHashes: new SharedFeed<EventsUpdate>(otherSource),
    pendingTransactions: new SharedFeed<EventsUpdate>(otherSource),
    syncing: new SharedFeed<EventsUpdate>(otherSource),
  }
  const broadcast = new FeedBroadcast('devnet', feeds)
  const workers = Array.from({ length: workerCount }, () => {
    const blocked: (() => void)[] = []
    let isBlocked = false
    const { worker: toWorker, primary } = connectWorker(clock, {
      down(deliver, onSent) {
        const send = (): void => {
          onSent()
          deliver()
        }
        if (isBlocked) blocked.push(send)
        else setImmediate(send)
      },
    })
    toWorker.handle({
      startFeed: (start, reply) => void broadcast.startFeed(toWorker, start, reply),
      stopFeed: ({ feed }) => broadcast.stopFeed(toWorker, feed),
    })
    const { workerFeeds, seen, listen } = openWorkerFeeds(clock, primary)
    return {
      seen,
      listen,
      feeds: workerFeeds,
      exit() {
        broadcast.removeWorker(toWorker)
      },
      block() {
        isBlocked = true
      },
      unblock() {
        isBlocked = false
        blocked.splice(0).forEach(deliver => deliver())
      },
    }
  })
  return { clock, runs, feeds, broadcast, workers: workers as [(typeof workers)[0], (typeof workers)[0]] }
}

t.test('a feed of the primary', async t => {
  t.test('runs once, while any worker listens, and reaches each of them in order', async t => {
    const { runs, feeds, workers } = openCluster(2)
    const subscriptions = workers.map(worker => worker.listen())
    for (const { isStarted } of subscriptions) t.equal(await isStarted, true)
    t.equal(runs.headers, 1)
    for (const number of [1, 2, 3]) feeds.headers.publish(updateOf(number))
    await workers[0].feeds.headers.sync()
    await workers[1].feeds.headers.sync()
    for (const { seen } of workers) t.same(seen, [1, 2, 3])
    subscriptions[0]?.close()
    t.equal(runs.headers, 1)
    subscriptions[1]?.close()
    t.equal(runs.headers, 0)
  })

  t.test('goes on for the others when a worker exits', async t => {
    const { runs, feeds, workers } = openCluster(2)
    for (const worker of workers) await worker.listen().isStarted
    workers[0].exit()
    feeds.headers.publish(updateOf(1))
    await workers[1].feeds.headers.sync()
    t.same([workers[1].seen, runs.headers], [[1], 1])
    workers[1].exit()
    t.equal(runs.headers, 0)
  })

  t.test('that is stopped while it starts, and started again, comes once and can be stopped', async t => {
    const { runs, feeds, workers } = openCluster(1)
    const [worker] = workers
    const first = worker.listen()
    first.close()
    const second = worker.listen()
    t.equal(await second.isStarted, true)
    await settle()
    second.close()
    t.equal(runs.headers, 0)
    const third = worker.listen()
    t.equal(await third.isStarted, true)
    feeds.headers.publish(updateOf(1))
    await worker.feeds.headers.sync()
    t.same(worker.seen, [1])
  })

  t.test('starts again after its end, though its stop and start of a busy worker wait for the primary', async t => {
    const { feeds, broadcast, clock } = openCluster(1)
    const blocked: (() => void)[] = []
    const { worker, primary } = connectWorker(clock, { up: (deliver, onSent) => void blocked.push(onSent, deliver) })
    const unblock = (): void => {
      while (blocked.length > 0) blocked.shift()?.()
    }
    const received: string[] = []
    const runs = new Set<number>()
    worker.handle({
      startFeed(start, reply) {
        received.push('start')
        runs.add(start.run)
        void broadcast.startFeed(worker, start, reply)
      },
      stopFeed({ feed }) {
        received.push('stop')
        broadcast.stopFeed(worker, feed)
      },
    })
    const { seen, listen } = openWorkerFeeds(clock, primary)
    const first = listen()
    unblock()
    await first.isStarted
    primary.send('activity', { network: 'devnet' })
    feeds.headers.end()
    listen().close()
    const last = listen()
    unblock()
    t.equal(await last.isStarted, true)
    t.same([received, runs.size], [['start', 'stop', 'start'], 2])
    feeds.headers.publish(updateOf(1))
    t.same(seen, ['end', 1])
  })

  t.test('that ends with the heads of a reload ends for those before too, though their worker is busy', async t => {
    const { broadcast, feeds, clock } = openCluster(0)
    const blocked: (() => void)[] = []
    const { worker, primary } = connectWorker(clock, { down: (deliver, onSent) => void blocked.push(onSent, deliver) })
    const unblock = (): void => {
      while (blocked.length > 0) blocked.shift()?.()
    }
    worker.handle({ startFeed: (start, reply) => void broadcast.startFeed(worker, start, reply) })
    const [running, reloaded] = [openWorkerFeeds(clock, primary), openWorkerFeeds(clock, primary)]
    primary.handle({
      feed({ feed, run, steps }) {
        for (const { workerFeeds } of [running, reloaded]) workerFeeds.handle(feed, run, steps)
      },
    })
    const { isStarted } = running.listen()
    await settle()
    unblock()
    t.equal(await isStarted, true)
    feeds.headers.publish(updateOf(1))
    broadcast.stop()
    reloaded.listen()
    broadcast.stop()
    unblock()
    t.same([running.seen, reloaded.seen], [[1, 'end'], ['end']])
  })

  t.test('that a worker stops and starts again does not bring what was on its way before', async t => {
    const { feeds, workers } = openCluster(2)
    const [worker, other] = workers
    await other.listen().isStarted
    const first = worker.listen()
    await first.isStarted
    worker.block()
    feeds.headers.publish(updateOf(1))
    feeds.headers.publish(updateOf(2))
    first.close()
    feeds.headers.publish(updateOf(3))
    const second = worker.listen()
    await settle()
    feeds.headers.publish(updateOf(4))
    worker.unblock()
    t.equal(await second.isStarted, true)
    feeds.headers.publish(updateOf(5))
    await worker.feeds.headers.sync()
    t.same(worker.seen, [4, 5])
    await other.feeds.headers.sync()
    t.same(other.seen, [1, 2, 3, 4, 5])
  })

  t.test('has brought what came before, when a worker that was stopped for a while gets the answer that it is synced', async t => {
    const { feeds, workers } = openCluster(1)
    const [worker] = workers
    await worker.listen().isStarted
    worker.block()
    feeds.headers.publish(updateOf(1))
    feeds.headers.publish(updateOf(2))
    let seenWhenSynced: unknown[] = []
    const synced = worker.feeds.headers.sync().then(() => (seenWhenSynced = [...worker.seen]))
    await settle()
    feeds.headers.publish(updateOf(3))
    worker.unblock()
    await synced
    t.same(seenWhenSynced.slice(0, 2), [1, 2])
    await settle()
    t.same(worker.seen, [1, 2, 3])
  })

  t.test('brings each update behind the reply to those who have joined, though both have waited', async t => {
    const { feeds, workers } = openCluster(1)
    const [worker] = workers
    const seen: number[] = []
    const consumer = new FeedConsumer({
      feed: worker.feeds.headers,
      handle: ({ added }) => seen.push(...added.map(({ number }) => number)),
      onEnd: () => seen.push(Number.NaN),
    })
    /** What has been handled when each joins: what follows is for it. */
    const joined: number[][] = []
    const join = async (before: number, behind: number) => {
      worker.block()
      const isJoined = consumer.retain(() => joined.push([...seen]))
      feeds.headers.publish(updateOf(before))
      await settle()
      await settle()
      feeds.headers.publish(updateOf(behind))
      worker.unblock()
      t.equal(await isJoined, true)
    }
    await join(1, 2)
    await join(3, 4)
    await settle()
    t.same(joined, [[1], [1, 2, 3]])
    t.same(seen, [1, 2, 3, 4])
  })

  t.test('reaches a worker that was stopped for a while without a gap', async t => {
    const { feeds, workers } = openCluster(1)
    await workers[0].listen().isStarted
    workers[0].block()
    for (let number = 1; number <= 500; number++) feeds.headers.publish(updateOf(number))
    workers[0].unblock()
    await settle()
    await settle()
    t.same(
      workers[0].seen,
      Array.from({ length: 500 }, (_, i) => i + 1),
    )
  })

  t.test('of events that stand for themselves reaches a worker, unless too many wait', async t => {
    const { feeds, workers } = openCluster(1)
    const [worker] = workers
    const seen: string[] = []
    const listener = { onUpdate: ({ events }: EventsUpdate) => void seen.push(...events), onEnd: () => void seen.push('end') }
    await worker.feeds.pendingHashes.subscribe(listener).isStarted
    feeds.pendingHashes.publish({ events: ['1'] })
    worker.block()
    for (let i = 0; i < 1_000; i++) feeds.pendingHashes.publish({ events: ['2', '3'] })
    worker.unblock()
    await settle()
    await settle()
    t.equal(seen.length, 2_001)
    worker.block()
    for (let i = 0; i < 6_000; i++) feeds.pendingHashes.publish({ events: ['4', '5'] })
    worker.unblock()
    await settle()
    await settle()
    t.equal(seen.at(-1), 'end')
  })

  t.test('ends for a worker that was stopped for too long, and can be started anew', async t => {
    const { feeds, workers } = openCluster(1)
    await workers[0].listen().isStarted
    workers[0].block()
    for (let number = 1; number <= 600; number++) feeds.headers.publish(updateOf(number))
    workers[0].unblock()
    await settle()
    await settle()
    t.same(workers[0].seen, [1, 'end'])
    await workers[0].listen().isStarted
    feeds.headers.publish(updateOf(601))
    await workers[0].feeds.headers.sync()
    t.same(workers[0].seen, [1, 'end', 601])
  })

  t.test('ends everywhere when the primary follows other upstreams', async t => {
    const { broadcast, workers } = openCluster(2)
    for (const worker of workers) await worker.listen().isStarted
    broadcast.stop()
    await settle()
    for (const { seen } of workers) t.same(seen, ['end'])
  })
})
