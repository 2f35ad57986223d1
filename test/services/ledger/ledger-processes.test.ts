import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { systemClock } from '../../../src/services/clock.ts'
import { openStore } from '../../../src/store/open-store.ts'
import type { Store } from '../../../src/store/store.ts'
import type { StoreAddress } from '../../../src/config/types.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { tempFolder } from '../../store/temp-store.ts'
import { TestLog } from '../../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import type { WorkerTask } from './ledger-worker.ts'
import { accountWith, kindsOf } from './ledger-test-cluster.ts'

const dailyCredits = 20_000_000
const maxLease = dailyCredits / 100
const maxCost = 255
const minCost = 19

interface ForkedWorker {
  readonly child: ChildProcess
  /** Credits that the worker has served so far. */
  served(): number
  /** Resolves when the worker has paused so many times. */
  hasPaused(times: number): Promise<void>
  /** Resolves when the process has exited. */
  readonly ended: Promise<unknown>
}

const forkWorker = async (task: WorkerTask): Promise<ChildProcess> => {
  const child = fork(join(import.meta.dirname, 'ledger-worker.js'), [JSON.stringify(task)])
  await once(child, 'message')
  return child
}

const startWorker = async (task: WorkerTask): Promise<ForkedWorker> => {
  const child = await forkWorker(task)
  let pauses = 0
  child.on('message', () => {
    pauses += 1
  })
  return {
    child,
    served: () => Number(readFileSync(task.servedFile, 'utf8')),
    async hasPaused(times) {
      while (pauses < times) await once(child, 'message')
    },
    ended: once(child, 'exit'),
  }
}

const servedBy = (workers: readonly ForkedWorker[]): number => workers.reduce((sum, worker) => sum + worker.served(), 0)

/** Resolves when the workers together have served so many credits. */
const untilServed = (workers: readonly ForkedWorker[], credits: number): Promise<void> =>
  new Promise(resolve => {
    const timer = setInterval(() => {
      if (servedBy(workers) < credits) return
      clearInterval(timer)
      resolve()
    }, 2)
  })

/** Processes that spend one account's day. */
interface ForkedWorkers {
  /** With those that have ended. */
  readonly workers: readonly ForkedWorker[]
  add(): Promise<ForkedWorker>
}

type Disruption = (workers: ForkedWorkers) => Promise<void>

interface SpendOptions {
  readonly redis?: RedisServer
  /** Served credits at which each worker waits for a message. */
  readonly pauseAtServed?: readonly number[]
}

/**
 * Four processes spend one account's day during a disruption; credits that are left when they have ended are spent here.
 * Returns the served credits, and the store's totals.
 */
const spendDay = async (t: Test, disrupt: Disruption, { redis, pauseAtServed = [] }: SpendOptions = {}) => {
  const path = await tempFolder(t)
  const address: StoreAddress = redis?.address ?? { kind: 'lmdb', path: join(path, 'store') }
  const workers: ForkedWorker[] = []
  const names = 'abcdefghijklmnopqrstuvwxyz'[Symbol.iterator]()
  const add = async (): Promise<ForkedWorker> => {
    const servedFile = join(path, `${names.next().value}.served`)
    const worker = await startWorker({ storeUrl: storeUrlOf(address), servedFile, limit: dailyCredits, pauseAtServed })
    workers.push(worker)
    return worker
  }
  await Promise.all([add(), add(), add(), add()])
  await disrupt({ workers, add })
  await Promise.all(workers.map(({ ended }) => ended))
  const store = await openStore(address, systemClock)
  const served = servedBy(workers) + (await spendRemaining(store))
  const totals = await store.dayTotals('acc_1')
  await store.close()
  return { served, totals }
}

const spendRemaining = async (store: Store): Promise<number> => {
  const ledger = openLedger(store, systemClock, { log: new TestLog() })
  await ledger.start()
  let served = 0
  for (const cost of [255, 80, minCost]) {
    while ((await ledger.charge(accountWith(dailyCredits), cost)).kind === 'charged') served += cost
  }
  await ledger.stop()
  return served
}

const storeUrlOf = (address: StoreAddress): string => (address.kind === 'lmdb' ? `lmdb:${address.path}` : address.url.reveal())

t.test('four processes, two of which stop, serve a day up to the last credit that is enough for a call', async t => {
  const { served, totals } = await spendDay(t, async ({ workers }) => {
    for (const [index, worker] of workers.slice(0, 2).entries()) {
      await untilServed(workers, ((index + 1) * dailyCredits) / 4)
      worker.child.kill('SIGTERM')
    }
  })
  t.ok(served <= dailyCredits && dailyCredits - served < minCost, `${served} of ${dailyCredits}`)
  t.match(totals, { leased: served, used: served, held: 0, forfeited: 0 })
})

t.test('ten times one of four processes is killed and another started: each kill forfeits at most one lease', async t => {
  const kills = 10
  const { served, totals } = await spendDay(t, async ({ workers, add }) => {
    const starting: Promise<ForkedWorker>[] = []
    for (let i = 0; i < kills; i += 1) {
      await untilServed(workers, ((i + 1) * dailyCredits) / 15)
      const victim = workers[i] ?? (await starting[i - 4])
      victim?.child.kill('SIGKILL')
      await victim?.ended
      starting.push(add())
    }
    await Promise.all(starting)
  })
  const unserved = dailyCredits - served
  t.ok(unserved >= 0, `${served} of ${dailyCredits}: no overshoot`)
  t.ok(unserved <= kills * maxLease + maxCost, `${unserved} not served`)
  t.equal(totals.leased, totals.used + totals.held + totals.forfeited)
  t.ok(served <= totals.leased && totals.leased <= dailyCredits)
  t.equal(totals.held, 0)
})

t.test('a balance for one call: one of 1,000 callers in four processes is served', async t => {
  const path = await tempFolder(t)
  const children = await Promise.all(
    ['a', 'b', 'c', 'd'].map(name =>
      forkWorker({ storeUrl: `lmdb:${join(path, 'store')}`, servedFile: join(path, name), limit: 80, callers: 250 }),
    ),
  )
  const kinds = await Promise.all(
    children.map(async child => {
      child.send('now')
      const [results] = (await once(child, 'message')) as [readonly string[]] // what the worker sends
      await once(child, 'exit')
      return results
    }),
  )
  t.equal(kinds.flat().filter(kind => kind === 'charged').length, 1)
  t.equal(kinds.flat().filter(kind => kind === 'exhausted').length, 999)
})

t.test('a redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer('--appendonly', 'yes')
  t.teardown(() => redis.remove())
  t.beforeEach(() => redis.send('FLUSHALL'))

  t.test('that is killed and restarted three times: no overshoot, and no credits are lost', async t => {
    const { served, totals } = await spendDay(
      t,
      async ({ workers }) => {
        for (const part of [0.2, 0.4, 0.6]) {
          await untilServed(workers, part * dailyCredits)
          await redis.kill()
          await redis.restart()
        }
      },
      { redis },
    )
    t.ok(served <= dailyCredits && dailyCredits - served < minCost, `${served} of ${dailyCredits}`)
    t.match(totals, { leased: served, used: served, held: 0, forfeited: 0 })
  })

  t.test('that loses all data early in the day: it is restored from the processes that hold the credits', async t => {
    // Between the two pauses each process requests another lease, and so reports all its counters.
    const pauseAtServed = [0.05 * dailyCredits, 0.1 * dailyCredits]
    const { served, totals } = await spendDay(
      t,
      async ({ workers }) => {
        await Promise.all(workers.map(worker => worker.hasPaused(1)))
        await redis.send('FLUSHALL')
        for (const { child } of workers) child.send('resume')
        await Promise.all(workers.map(worker => worker.hasPaused(2)))
        for (const { child } of workers) child.send('resume')
      },
      { redis, pauseAtServed },
    )
    t.ok(served <= dailyCredits && dailyCredits - served < minCost, `${served} of ${dailyCredits}`)
    t.match(totals, { leased: served, used: served })
  })

  t.test('with two of four processes killed: they forfeit at most their leases', async t => {
    const { served, totals } = await spendDay(
      t,
      async ({ workers }) => {
        for (const [index, worker] of workers.slice(0, 2).entries()) {
          await untilServed(workers, ((index + 1) * dailyCredits) / 10)
          worker.child.kill('SIGKILL')
        }
      },
      { redis },
    )
    const unserved = dailyCredits - served
    t.ok(unserved >= 0 && unserved <= 2 * maxLease + maxCost, `${unserved} not served`)
    t.equal(totals.leased, totals.used + totals.held + totals.forfeited)
  })

  t.test('with a balance for one call: one of 1,000 callers in four processes is served', async t => {
    const ledgers = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const store = await openStore(redis.address, systemClock)
        const ledger = openLedger(store, systemClock, { log: new TestLog() })
        t.teardown(() => ledger.stop().then(() => store.close()))
        await ledger.start()
        return ledger
      }),
    )
    const account = accountWith(80)
    const results = await kindsOf(Array.from({ length: 1_000 }, (_, i) => ledgers[i % 4]!.charge(account, 80)))
    t.equal(results.filter(kind => kind === 'charged').length, 1)
    t.equal(results.filter(kind => kind === 'exhausted').length, 999)
  })
})
