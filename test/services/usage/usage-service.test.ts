import t from 'tap'
import { openUsage } from '../../../src/services/usage/index.ts'
import type { CountedCall } from '../../../src/services/usage/index.ts'
import type { UsageCount, UsageReport, UsageStore } from '../../../src/store/store.ts'
import { InMemoryUsageStore } from '../../store/in-memory-store.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { drainEventLoop } from '../ledger/ledger-test-cluster.ts'
import { dayMs, hourMs } from '../../../src/util/dates.ts'

const noon = Date.UTC(2026, 0, 15, 12)
const hour = noon / hourMs
const day = Math.floor(noon / dayMs)

const counted = (over: Partial<CountedCall> = {}): CountedCall => ({
  account: 'acc_1',
  key: 'key_1',
  network: 'devnet',
  method: 'eth_call',
  outcome: 'ok',
  forwarded: false,
  day,
  calls: 1,
  credits: 80,
  ...over,
})

/** One process, its store, and what may go wrong between them. */
class UsageScenario {
  readonly clock: TestClock
  readonly log = new TestLog()
  readonly reports: UsageReport[] = []
  store: InMemoryUsageStore
  storeFault: 'down' | 'deaf' | 'hanging' | undefined
  readonly usage

  constructor(start = noon) {
    this.clock = new TestClock(start)
    this.store = new InMemoryUsageStore(this.clock)
    const store: UsageStore = {
      reportUsage: report => this.#transmit(report),
      usageCounts: (account, from, to) => this.store.usageCounts(account, from, to),
    }
    this.usage = openUsage(store, this.clock, {
      log: this.log,
      retentionMs: 90 * dayMs,
      maxPendingCounts: 5_000,
      newProcessName: () => 'p1',
    })
  }

  async advance(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 500) {
      this.clock.advance(Math.min(left, 500))
      await drainEventLoop()
    }
  }

  rows(account = 'acc_1'): readonly UsageCount[] {
    return this.store.usageCounts(account, 0, hour + 10_000)
  }

  get sums(): readonly [calls: number, credits: number] {
    return this.rows().reduce<[number, number]>(([calls, credits], row) => [calls + row.calls, credits + row.credits], [0, 0])
  }

  /** `deaf`: the store takes the report, and its answer is lost. */
  async #transmit(report: UsageReport): Promise<number> {
    if (this.storeFault === 'down') throw new Error('connection refused')
    if (this.storeFault === 'hanging') return new Promise(() => {})
    this.reports.push(report)
    const had = await this.store.reportUsage(report)
    if (this.storeFault === 'deaf') throw new Error('connection reset')
    return had
  }
}

t.test('calls are in the store a second later, added up by group', async t => {
  const scene = new UsageScenario()
  await scene.usage.start()
  for (let i = 0; i < 5; i += 1) scene.usage.count(counted())
  scene.usage.count(counted({ method: 'eth_getLogs', credits: 255, forwarded: true }))
  scene.usage.count(counted({ outcome: 'spent', credits: 0, day: undefined }))
  t.same(scene.rows(), [])
  await scene.advance(1_000)
  t.match(scene.rows(), [
    { hour, method: 'eth_call', outcome: 'ok', forwarded: false, calls: 5, credits: 400 },
    { hour, method: 'eth_getLogs', outcome: 'ok', forwarded: true, calls: 1, credits: 255 },
    { hour, method: 'eth_call', outcome: 'spent', forwarded: false, calls: 1, credits: 0 },
  ])
  const { length } = scene.reports
  await scene.advance(10_000)
  t.equal(scene.reports.length, length, 'nothing is reported while nobody calls')
})

t.test('a call can be taken back, before it was reported and after', async t => {
  const scene = new UsageScenario()
  await scene.usage.start()
  const back = () => scene.usage.count(counted({ calls: -1, credits: -80 }))
  scene.usage.count(counted())
  back()
  await scene.advance(1_000)
  t.same(scene.rows(), [])
  scene.usage.count(counted())
  await scene.advance(1_000)
  back()
  await scene.advance(1_000)
  t.same(scene.sums, [0, 0])
})

t.test('each call is counted once, whatever becomes of messages', async t => {
  for (const fault of ['down', 'deaf', 'hanging'] as const) {
    t.test(fault, async t => {
      const scene = new UsageScenario()
      await scene.usage.start()
      let calls = 0
      for (const state of [undefined, fault, fault, undefined, fault, undefined, undefined]) {
        scene.storeFault = state
        for (let i = 0; i < 7; i += 1) scene.usage.count(counted())
        calls += 7
        await scene.advance(2_500)
      }
      t.same(scene.sums, [calls, calls * 80])
      for (const old of scene.reports) await scene.store.reportUsage(old)
      t.same(scene.sums, [calls, calls * 80])
    })
  }
})

t.test('a store that lost its last writes is told them again', async t => {
  const scene = new UsageScenario()
  await scene.usage.start()
  const backup = new InMemoryUsageStore(scene.clock)
  for (let second = 0; second < 8; second += 1) {
    scene.usage.count(counted())
    await scene.advance(1_000)
    if (second === 3) for (const report of scene.reports) await backup.reportUsage(report)
  }
  scene.store = backup
  scene.usage.count(counted())
  await scene.advance(3_000)
  t.same(scene.sums, [9, 720])
  t.match(scene.log.lines, [{ level: 'warn', message: /the store lost/ }])
})

t.test('a charged call counts for the day that was charged, also when it ends after midnight', async t => {
  const scene = new UsageScenario(Date.UTC(2026, 0, 15, 23, 59, 59))
  await scene.usage.start()
  scene.usage.count(counted())
  await scene.advance(3_000)
  scene.usage.count(counted())
  scene.usage.count(counted({ day: day + 1 }))
  scene.usage.count(counted({ day: undefined, outcome: 'spent', credits: 0 }))
  await scene.advance(1_000)
  const next = (day + 1) * 24
  t.match(scene.rows(), [
    { hour: next - 1, calls: 2 },
    { hour: next, outcome: 'ok', calls: 1 },
    { hour: next, outcome: 'spent', calls: 1 },
  ])
})

t.test('a clock that is wrong moves calls to the edge of the day that was charged, not out of it', async t => {
  const scene = new UsageScenario(noon - 3 * dayMs)
  scene.usage.count(counted())
  await scene.usage.start()
  t.match(scene.rows(), [{ hour: day * 24, calls: 1 }])
})

t.test('while the store is away', async t => {
  t.test('hours stay apart as long as memory lasts', async t => {
    const scene = new UsageScenario()
    await scene.usage.start()
    scene.storeFault = 'down'
    for (let i = 0; i < 4; i += 1) {
      scene.usage.count(counted())
      await scene.advance(hourMs / 2)
    }
    scene.storeFault = undefined
    await scene.advance(1_500)
    t.match(scene.rows(), [
      { hour, calls: 2 },
      { hour: hour + 1, calls: 2 },
    ])
  })

  t.test('then hours of a day are put together: sums by day and group stay exact, and it is logged once', async t => {
    const scene = new UsageScenario(Date.UTC(2026, 0, 15, 21))
    await scene.usage.start()
    scene.storeFault = 'down'
    for (let i = 0; i < 6; i += 1) {
      const at = day + (i < 3 ? 0 : 1)
      for (let key = 0; key < 1_500; key += 1) scene.usage.count(counted({ key: `key_${key}`, day: at }))
      await scene.advance(1_000)
      scene.clock.advance(hourMs)
      await drainEventLoop()
    }
    scene.storeFault = undefined
    await scene.advance(2_000)
    const rows = scene.rows()
    const byDay = new Map<number, number>()
    for (const row of rows) byDay.set(Math.floor(row.hour / 24), (byDay.get(Math.floor(row.hour / 24)) ?? 0) + row.calls)
    t.same(
      [...byDay],
      [
        [day, 4_500],
        [day + 1, 4_500],
      ],
    )
    t.ok(rows.length <= 6_500, `${rows.length} rows`)
    t.same(
      scene.log.lines.map(({ level }) => level),
      ['warn'],
    )
    t.ok(Math.max(...scene.reports.map(({ counts }) => counts.length)) <= 1_000)
  })
})

t.test('stop reports the rest, and says what could not be reported', async t => {
  const scene = new UsageScenario()
  scene.usage.count(counted())
  await scene.usage.stop()
  await scene.usage.stop()
  t.same(scene.sums, [1, 80])
  const cut = new UsageScenario()
  cut.storeFault = 'down'
  cut.usage.count(counted())
  await cut.usage.stop()
  t.match(cut.log.lines, [{ level: 'warn', fields: { calls: 1 } }])
})

t.test('a store that nobody writes to is still asked each hour to drop what is old', async t => {
  const scene = new UsageScenario()
  await scene.usage.start()
  scene.clock.advance(hourMs)
  await scene.advance(1_000)
  t.ok(scene.reports.length >= 2)
  t.match(scene.reports.at(-1), { counts: [], retentionHours: 90 * 24 })
})
