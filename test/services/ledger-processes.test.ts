import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open.ts'
import type { Store } from '../../src/store/store.ts'
import type { StoreAddress } from '../../src/config/types.ts'
import { openLedger } from '../../src/services/ledger.ts'
import { tempFolder } from '../store/temp.ts'
import { TestLog } from '../support/fakes.ts'
import { noRedis, startRedis } from '../support/redis.ts'
import type { Redis } from '../support/redis.ts'
import type { Task } from './ledger-worker.ts'
import { accountWith, kinds } from './ledger-world.ts'

// Also when this file is run alone, on a busy machine.
t.setTimeout(120_000)

const limit = 20_000_000
const chunk = limit / 100
const dearest = 255
const cheapest = 19

interface Worker {
  readonly child: ChildProcess
  /** What it has served so far, by its own account. */
  served(): number
  /** Resolves when it has come to so many of its stops. */
  hasStopped(times: number): Promise<void>
  /** Resolves when it has ended. */
  readonly ended: Promise<unknown>
}

const forkWorker = async (task: Task): Promise<ChildProcess> => {
  const child = fork(join(import.meta.dirname, 'ledger-worker.js'), [JSON.stringify(task)])
  await once(child, 'message')
  return child
}

const start = async (task: Task): Promise<Worker> => {
  const child = await forkWorker(task)
  let stops = 0
  child.on('message', () => {
    stops += 1
  })
  return {
    child,
    served: () => Number(readFileSync(task.witness, 'utf8')),
    async hasStopped(times) {
      while (stops < times) await once(child, 'message')
    },
    ended: once(child, 'exit'),
  }
}

const servedBy = (workers: readonly Worker[]): number => workers.reduce((sum, worker) => sum + worker.served(), 0)

/** Resolves when the workers together have served so much. */
const untilServed = (workers: readonly Worker[], credits: number): Promise<void> =>
  new Promise(resolve => {
    const timer = setInterval(() => {
      if (servedBy(workers) < credits) return
      clearInterval(timer)
      resolve()
    }, 2)
  })

/** Processes that spend one account's day. */
interface Crew {
  /** Those that have ended too. */
  readonly workers: readonly Worker[]
  /** One more. */
  add(): Promise<Worker>
}

type Disturb = (crew: Crew) => Promise<void>

interface Setting {
  readonly redis?: Redis
  /** Where each worker waits to be told to go on: credits it has served. */
  readonly stops?: readonly number[]
}

/**
 * Four processes spend one account's day, disturbed on the way; what they gave back when they ended is spent here.
 * Returns what was served in all, and the store's books.
 */
const spend = async (t: Test, disturb: Disturb, { redis, stops = [] }: Setting = {}) => {
  const path = await tempFolder(t)
  const address: StoreAddress = redis?.address ?? { kind: 'lmdb', path: join(path, 'store') }
  const workers: Worker[] = []
  const names = 'abcdefghijklmnopqrstuvwxyz'[Symbol.iterator]()
  const add = async (): Promise<Worker> => {
    const witness = join(path, `${names.next().value}.served`)
    const worker = await start({ where: addressOf(address), witness, limit, stops })
    workers.push(worker)
    return worker
  }
  await Promise.all([add(), add(), add(), add()])
  await disturb({ workers, add })
  await Promise.all(workers.map(({ ended }) => ended))
  const store = await openStore(address, systemClock)
  const served = servedBy(workers) + (await spendRest(store))
  const totals = await store.totals('acc_1')
  await store.close()
  return { served, totals }
}

const spendRest = async (store: Store): Promise<number> => {
  const ledger = openLedger(store, systemClock, { log: new TestLog() })
  await ledger.start()
  let served = 0
  for (const cost of [255, 80, cheapest]) {
    while ((await ledger.charge(accountWith(limit), cost)).kind === 'charged') served += cost
  }
  await ledger.stop()
  return served
}

const addressOf = (address: StoreAddress): string => (address.kind === 'lmdb' ? `lmdb:${address.path}` : address.url.reveal())

t.test('four processes, two of them stopped, serve a day to the last credit that buys a call', async t => {
  const { served, totals } = await spend(t, async ({ workers }) => {
    for (const [index, worker] of workers.slice(0, 2).entries()) {
      await untilServed(workers, ((index + 1) * limit) / 4)
      worker.child.kill('SIGTERM')
    }
  })
  t.ok(served <= limit && limit - served < cheapest, `${served} of ${limit}`)
  t.match(totals, { leased: served, used: served, held: 0, forfeited: 0 })
})

t.test('ten times one of four is killed and another one started: each kill costs at most what it held', async t => {
  const kills = 10
  const { served, totals } = await spend(t, async ({ workers, add }) => {
    const starting: Promise<Worker>[] = []
    for (let i = 0; i < kills; i += 1) {
      await untilServed(workers, ((i + 1) * limit) / 15)
      const victim = workers[i] ?? (await starting[i - 4])
      victim?.child.kill('SIGKILL')
      await victim?.ended
      starting.push(add())
    }
    await Promise.all(starting)
  })
  const unserved = limit - served
  t.ok(unserved >= 0, `${served} of ${limit}: no overshoot`)
  t.ok(unserved <= kills * chunk + dearest, `${unserved} not served`)
  t.equal(totals.leased, totals.used + totals.held + totals.forfeited)
  t.ok(served <= totals.leased && totals.leased <= limit)
  t.equal(totals.held, 0)
})

t.test('a balance that buys one call: of 1,000 callers in four processes one is served', async t => {
  const path = await tempFolder(t)
  const children = await Promise.all(
    ['a', 'b', 'c', 'd'].map(name =>
      forkWorker({ where: `lmdb:${join(path, 'store')}`, witness: join(path, name), limit: 80, callers: 250 }),
    ),
  )
  const said = await Promise.all(
    children.map(async child => {
      child.send('now')
      const [verdicts] = (await once(child, 'message')) as [readonly string[]] // what the worker sends
      await once(child, 'exit')
      return verdicts
    }),
  )
  t.equal(said.flat().filter(kind => kind === 'charged').length, 1)
  t.equal(said.flat().filter(kind => kind === 'spent').length, 999)
})

t.test('a redis', { skip: noRedis }, async t => {
  const redis = await startRedis('--appendonly', 'yes')
  t.teardown(() => redis.remove())
  t.beforeEach(() => redis.send('FLUSHALL'))

  t.test('that is killed and started again, three times: no overshoot, and nothing is lost', async t => {
    const { served, totals } = await spend(
      t,
      async ({ workers }) => {
        for (const part of [0.2, 0.4, 0.6]) {
          await untilServed(workers, part * limit)
          await redis.kill()
          await redis.restart()
        }
      },
      { redis },
    )
    t.ok(served <= limit && limit - served < cheapest, `${served} of ${limit}`)
    t.match(totals, { leased: served, used: served, held: 0, forfeited: 0 })
  })

  t.test('that loses all it had early in the day: it learns it again from those who hold the credits', async t => {
    // From the first stop to the second each process asks for another lease, and so tells of all it had.
    const stops = [0.05 * limit, 0.1 * limit]
    const { served, totals } = await spend(
      t,
      async ({ workers }) => {
        await Promise.all(workers.map(worker => worker.hasStopped(1)))
        await redis.send('FLUSHALL')
        for (const { child } of workers) child.send('go on')
        await Promise.all(workers.map(worker => worker.hasStopped(2)))
        for (const { child } of workers) child.send('go on')
      },
      { redis, stops },
    )
    t.ok(served <= limit && limit - served < cheapest, `${served} of ${limit}`)
    t.match(totals, { leased: served, used: served })
  })

  t.test('and two of four processes killed: they cost at most what they held', async t => {
    const { served, totals } = await spend(
      t,
      async ({ workers }) => {
        for (const [index, worker] of workers.slice(0, 2).entries()) {
          await untilServed(workers, ((index + 1) * limit) / 10)
          worker.child.kill('SIGKILL')
        }
      },
      { redis },
    )
    const unserved = limit - served
    t.ok(unserved >= 0 && unserved <= 2 * chunk + dearest, `${unserved} not served`)
    t.equal(totals.leased, totals.used + totals.held + totals.forfeited)
  })

  t.test('and a balance that buys one call: of 1,000 callers at four processes one is served', async t => {
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
    const verdicts = await kinds(Array.from({ length: 1_000 }, (_, i) => ledgers[i % 4]!.charge(account, 80)))
    t.equal(verdicts.filter(kind => kind === 'charged').length, 1)
    t.equal(verdicts.filter(kind => kind === 'spent').length, 999)
  })
})
