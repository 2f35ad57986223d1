import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from '../../support/tap.ts'
import { groupUsage } from '../../../src/services/account-reports.ts'
import { openUsage } from '../../../src/services/usage/index.ts'
import type { CountedCall } from '../../../src/services/usage/index.ts'
import { UsageCounters } from '../../../src/services/usage/usage-counters.ts'
import type { UsageCount, UsageAcknowledgment, UsageReport, UsageStore } from '../../../src/store/usage-store.ts'
import { InMemoryUsageStore } from '../../../src/testing/in-memory-store.ts'
import { TestClock, TestLog, fakeCall, fakeResult } from '../../support/fakes.ts'
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

/** One process, its store, and the faults between them. */
class UsageScenario {
  readonly clock: TestClock
  readonly log = new TestLog()
  readonly reports: UsageReport[] = []
  store: InMemoryUsageStore
  storeFault: 'refusing' | 'losingResponses' | 'hanging' | undefined
  readonly usage
  #served = 0

  constructor(start = noon) {
    this.clock = new TestClock(start)
    this.store = new InMemoryUsageStore(this.clock)
    const store: UsageStore = {
      reportUsage: report => this.#transmit(report),
      usageCounts: (account, from, to) => this.store.usageCounts(account, from, to),
      hourTotals: (account, from, to) => this.store.hourTotals(account, from, to),
    }
    this.usage = openUsage(store, this.clock, {
      log: this.log,
      retentionMs: 90 * dayMs,
      maxPendingCounts: 5_000,
      process: 'p1',
    })
  }

  async advance(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 500) {
      this.clock.advance(Math.min(left, 500))
      await drainEventLoop()
    }
  }

  /** A call each second. */
  async serve(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second += 1) {
      this.usage.count(counted())
      this.#served += 1
      await this.advance(1_000)
    }
  }

  /** What `sums` has to be after serve(). */
  get served(): readonly [calls: number, credits: number] {
    return [this.#served, this.#served * 80]
  }

  rows(account = 'acc_1'): readonly UsageCount[] {
    return this.store.usageCounts(account, 0, hour + 10_000)
  }

  get sums(): readonly [calls: number, credits: number] {
    return this.rows().reduce<[number, number]>(([calls, credits], row) => [calls + row.calls, credits + row.credits], [0, 0])
  }

  /** `losingResponses`: the store takes the report, and its response is lost. */
  async #transmit(report: UsageReport): Promise<UsageAcknowledgment> {
    if (this.storeFault === 'refusing') throw new Error('connection refused')
    if (this.storeFault === 'hanging') return new Promise(() => {})
    this.reports.push(report)
    const acknowledgment = await this.store.reportUsage(report)
    if (this.storeFault === 'losingResponses') throw new Error('connection reset')
    return acknowledgment
  }
}

t.test('calls are in the store a second later, summed by group', async t => {
  const scenario = new UsageScenario()
  await scenario.usage.start()
  for (let i = 0; i < 5; i += 1) scenario.usage.count(counted())
  scenario.usage.count(counted({ method: 'eth_getLogs', credits: 255, forwarded: true }))
  scenario.usage.count(counted({ outcome: 'spent', credits: 0, day: undefined }))
  // Free, and before the ledger has heard from its store.
  scenario.usage.count(counted({ method: 'eth_chainId', credits: 0, day: -1 }))
  t.same(scenario.rows(), [])
  await scenario.advance(1_000)
  t.match(scenario.rows(), [
    { hour, method: 'eth_call', outcome: 'ok', forwarded: false, calls: 5, credits: 400 },
    { hour, method: 'eth_getLogs', outcome: 'ok', forwarded: true, calls: 1, credits: 255 },
    { hour, method: 'eth_call', outcome: 'spent', forwarded: false, calls: 1, credits: 0 },
    { hour, method: 'eth_chainId', calls: 1, credits: 0 },
  ])
  const { length } = scenario.reports
  await scenario.advance(10_000)
  t.equal(scenario.reports.length, length, 'nothing is reported without calls')
})

t.test('a call after a pause is in the store 0.1 s later, and those that follow it within a second', async t => {
  const scenario = new UsageScenario()
  await scenario.usage.start()
  for (const pauseMs of [0, 60_000]) {
    await scenario.advance(pauseMs)
    const [before] = scenario.sums
    const { length } = scenario.reports
    scenario.usage.count(counted())
    await scenario.advance(99)
    t.equal(scenario.sums[0], before)
    await scenario.advance(1)
    t.equal(scenario.sums[0], before + 1)
    for (let i = 0; i < 9; i += 1) {
      scenario.usage.count(counted())
      await scenario.advance(100)
    }
    t.equal(scenario.sums[0], before + 10)
    t.equal(scenario.reports.length, length + 2, 'as many reports as with a call each 0.1 s in the second before')
  }
  await scenario.usage.stop()
  scenario.usage.count(counted())
  t.equal(scenario.clock.timerCount, 0)
})

t.test('a call can be taken back before it is reported, and after', async t => {
  const scenario = new UsageScenario()
  await scenario.usage.start()
  const takeBack = () => scenario.usage.count(counted({ calls: -1, credits: -80 }))
  scenario.usage.count(counted())
  takeBack()
  await scenario.advance(1_000)
  t.same(scenario.rows(), [])
  scenario.usage.count(counted())
  await scenario.advance(1_000)
  takeBack()
  await scenario.advance(1_000)
  t.same(scenario.sums, [0, 0])
})

t.test('a call whose response cannot be delivered is taken back where it was counted, also when that is over', async t => {
  const lastPeriod = hour * 12 + 11
  const scenario = new UsageScenario(noon + hourMs - 1_500)
  await scenario.usage.start()
  const { context, ...call } = fakeCall('eth_call', [], {})
  const record = scenario.usage.record({
    call: { ...call, context: { ...context, account: { ...context.account, id: 'acc_1' } } },
    ...{ reply: fakeResult('0x'), method: undefined, network: 'devnet', credits: 80, day },
  })
  await scenario.advance(2_000)
  t.match(scenario.rows(), [{ hour, outcome: 'ok', calls: 1, credits: 80 }])
  await scenario.advance(300_000)
  scenario.usage.recordUndelivered(record, 'unavailable', 0)
  await scenario.advance(1_000)
  t.match(scenario.rows(), [{ hour, outcome: 'unavailable', calls: 1, credits: 0 }])
  const counts = scenario.reports.flatMap(report => report.counts)
  t.same(
    counts.map(({ fiveMinutes, outcome, calls }) => [fiveMinutes, outcome, calls]),
    [
      [lastPeriod, 'ok', 1],
      [lastPeriod, 'ok', -1],
      [lastPeriod, 'unavailable', 1],
    ],
  )
})

t.test('each five minutes have the calls that were counted in them and not taken back, whenever these are taken back and reported', t => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('count' as const), method: fc.constantFrom('eth_call', 'eth_getLogs') }),
    fc.record({ kind: fc.constant('takeBack' as const), index: fc.nat() }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(1_000, 60_000, 300_000, hourMs) }),
    fc.record({ kind: fc.constant('drain' as const), maxCounts: fc.constantFrom(1, 2, Infinity) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), steps => {
      const clock = new TestClock(noon - 2 * hourMs)
      const counters = new UsageCounters(clock, () => undefined)
      const kept: { readonly method: string; readonly period: number }[] = []
      const reported: UsageCount[] = []
      for (const each of steps) {
        if (each.kind === 'count') kept.push({ method: each.method, period: counters.count(counted({ method: each.method })) })
        else if (each.kind === 'drain') reported.push(...counters.drain(each.maxCounts))
        else if (each.kind === 'wait') {
          clock.advance(each.ms)
          counters.updatePeriod()
        } else if (kept.length > 0) {
          const [{ method, period } = { method: '', period: 0 }] = kept.splice(each.index % kept.length, 1)
          counters.count(counted({ method, period, calls: -1, credits: -80 }))
        }
      }
      reported.push(...counters.drain())
      const sums = (rows: readonly (readonly [name: string, calls: number])[]) => {
        const calls = new Map<string, number>()
        for (const [name, by] of rows) calls.set(name, (calls.get(name) ?? 0) + by)
        return [...calls].filter(([, sum]) => sum !== 0).sort()
      }
      assert.deepEqual(
        sums(reported.map(({ method, fiveMinutes, calls }) => [`${method} ${fiveMinutes}`, calls])),
        sums(kept.map(({ method, period }) => [`${method} ${period}`, 1])),
      )
      assert.ok(reported.every(({ hour: of, fiveMinutes = 0 }) => of === Math.floor(fiveMinutes / 12)))
    }),
    { numRuns: 300 },
  )
  t.pass('no counterexample')
  t.end()
})

t.test('each call is counted once, whatever happens to messages', async t => {
  for (const fault of ['refusing', 'losingResponses', 'hanging'] as const) {
    t.test(fault, async t => {
      const scenario = new UsageScenario()
      await scenario.usage.start()
      let calls = 0
      for (const state of [undefined, fault, fault, undefined, fault, undefined, undefined]) {
        scenario.storeFault = state
        for (let i = 0; i < 7; i += 1) scenario.usage.count(counted())
        calls += 7
        await scenario.advance(2_500)
      }
      t.same(scenario.sums, [calls, calls * 80])
      for (const old of scenario.reports) await scenario.store.reportUsage(old)
      t.same(scenario.sums, [calls, calls * 80])
    })
  }
})

t.test('a store that lost its last writes goes on with what it has, and the log says so', async t => {
  const scenario = new UsageScenario()
  await scenario.usage.start()
  const backup = new InMemoryUsageStore(scenario.clock)
  await scenario.serve(4)
  for (const report of scenario.reports) await backup.reportUsage(report)
  await scenario.serve(2)
  scenario.store = backup
  await scenario.serve(3)
  await scenario.advance(3_000)
  t.same(scenario.sums, [7, 560], 'without the calls that it has lost')
  t.match(scenario.log.lines, [{ level: 'warn', message: /store lost its last writes/ }])
})

t.test('a charged call counts for the day that was charged, also when the call ends after midnight', async t => {
  const scenario = new UsageScenario(Date.UTC(2026, 0, 15, 23, 59, 59))
  await scenario.usage.start()
  scenario.usage.count(counted())
  await scenario.advance(3_000)
  scenario.usage.count(counted())
  scenario.usage.count(counted({ day: day + 1 }))
  scenario.usage.count(counted({ day: undefined, outcome: 'spent', credits: 0 }))
  await scenario.advance(1_000)
  const next = (day + 1) * 24
  t.match(scenario.rows(), [
    { hour: next - 1, calls: 2 },
    { hour: next, outcome: 'ok', calls: 1 },
    { hour: next, outcome: 'spent', calls: 1 },
  ])
})

t.test('with a wrong clock a call counts for the nearest hour of the day that was charged', async t => {
  const scenario = new UsageScenario(noon - 3 * dayMs)
  scenario.usage.count(counted())
  await scenario.usage.start()
  t.match(scenario.rows(), [{ hour: day * 24, calls: 1 }])
})

t.test('while the store is unavailable', async t => {
  t.test('counts by hour are kept up to the memory limit', async t => {
    const scenario = new UsageScenario()
    await scenario.usage.start()
    scenario.storeFault = 'refusing'
    for (let i = 0; i < 4; i += 1) {
      scenario.usage.count(counted())
      await scenario.advance(hourMs / 2)
    }
    scenario.storeFault = undefined
    await scenario.advance(1_500)
    t.match(scenario.rows(), [
      { hour, calls: 2 },
      { hour: hour + 1, calls: 2 },
    ])
  })

  t.test('above the memory limit hours of a day are merged: sums by day and group stay exact, and it is logged once', async t => {
    const scenario = new UsageScenario(Date.UTC(2026, 0, 15, 21))
    await scenario.usage.start()
    scenario.storeFault = 'refusing'
    for (let i = 0; i < 6; i += 1) {
      const at = day + (i < 3 ? 0 : 1)
      for (let key = 0; key < 1_500; key += 1) scenario.usage.count(counted({ key: `key_${key}`, day: at }))
      await scenario.advance(1_000)
      scenario.clock.advance(hourMs)
      await drainEventLoop()
    }
    scenario.storeFault = undefined
    await scenario.advance(10_000)
    const rows = scenario.rows()
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
      scenario.log.lines.map(({ level }) => level),
      ['warn'],
    )
    t.ok(Math.max(...scenario.reports.map(({ counts }) => counts.length)) <= 1_000)
  })
})

t.test('of many groups each is reported within ten seconds, its calls of that time together', async t => {
  const scenario = new UsageScenario()
  await scenario.usage.start()
  const keys = Array.from({ length: 3_000 }, (_, i) => `key_${i}`)
  for (let second = 1; second <= 20; second += 1) {
    for (const key of keys) scenario.usage.count(counted({ key }))
    await scenario.advance(1_000)
    if (second === 10) t.equal(new Set(scenario.rows().map(row => row.key)).size, 3_000)
  }
  t.ok(scenario.reports.reduce((sum, { counts }) => sum + counts.length, 0) <= 20 * 310, 'a tenth of the groups a second')
  await scenario.advance(10_000)
  t.equal(scenario.sums[0], 60_000)
})

t.test('stop reports the rest, and logs how many calls could not be reported', async t => {
  const scenario = new UsageScenario()
  scenario.usage.count(counted())
  await scenario.usage.stop()
  await scenario.usage.stop()
  t.same(scenario.sums, [1, 80])
  const refused = new UsageScenario()
  refused.storeFault = 'refusing'
  refused.usage.count(counted())
  await refused.usage.stop()
  t.match(refused.log.lines, [{ level: 'warn', fields: { calls: 1 } }])
})

t.test('an empty report each hour lets the store drop old counts', async t => {
  const scenario = new UsageScenario()
  await scenario.usage.start()
  scenario.clock.advance(hourMs)
  await scenario.advance(1_000)
  t.ok(scenario.reports.length >= 2)
  t.match(scenario.reports.at(-1), { counts: [], retentionHours: 90 * 24 })
})

t.test('a group whose calls were all taken back, in another hour than they were counted in, is not shown', async t => {
  const count = (over: Partial<UsageCount>): UsageCount => ({ ...counted(), hour, ...over })
  const taken = [
    count({ outcome: 'ok' }),
    count({ outcome: 'ok', hour: hour - 1, calls: -1, credits: -80 }),
    count({ outcome: 'unavailable', credits: 0 }),
  ]
  const { groups } = await groupUsage(taken, 'outcome')
  t.same(
    groups.map(({ name, calls, credits }) => [name, calls, credits]),
    [['unavailable', 1, 0]],
  )
})
