import t from '../support/tap.ts'
import { createUsageQueries } from '../../src/portal/queries/usage-queries.ts'
import { readAccountReport } from '../../src/portal/routes/account.ts'
import type { Store } from '../../src/store/store.ts'
import type { UsageCount } from '../../src/store/usage-store.ts'
import { hourMs, isoTime } from '../../src/util/dates.ts'
import { TestClock } from '../support/fakes.ts'
import { tempStore } from '../store/temp-store.ts'

const nowHour = 490_000
const retentionHours = 10_000

const count = (over: Partial<UsageCount>): UsageCount => ({
  account: 'acc_1',
  key: 'key_1',
  network: 'devnet',
  method: 'eth_call',
  outcome: 'ok',
  forwarded: false,
  hour: nowHour,
  calls: 2,
  credits: 160,
  ...over,
})

t.test('queries of usage', async t => {
  const store = await tempStore(t, new TestClock(nowHour * hourMs))
  let seq = 0
  const report = (...counts: readonly Partial<UsageCount>[]) =>
    store.reportUsage({ process: 'p1', seq: (seq += 1), counts: counts.map(count), retentionHours })
  await report(
    {},
    { hour: nowHour - 1, method: 'eth_getLogs', credits: 510, forwarded: true },
    { hour: nowHour - 30, key: 'key_2', outcome: 'params', credits: 0, calls: 1 },
    { hour: nowHour - 200 },
    { account: 'acc_2', credits: 999 },
  )
  const clock = new TestClock(nowHour * hourMs + 1_000)
  let reads = 0
  const usageCounts: typeof store.usageCounts = (...range) => {
    reads += 1
    return store.usageCounts(...range)
  }
  const queries = createUsageQueries({ ...store, usageCounts }, clock)
  const lastHours = (hours: number) => ({ account: 'acc_1', from: nowHour + 1 - hours, to: nowHour + 1 })

  t.test('calls over time are summed by each dimension, hour and day, for one account', async t => {
    const byMethod = await queries.overTime({ ...lastHours(24), by: 'method', stepHours: 1 })
    t.match(byMethod.groups, [
      { name: 'eth_getLogs', calls: 2, credits: 510, forwarded: 2 },
      { name: 'eth_call', calls: 2, credits: 160, forwarded: 0 },
    ])
    t.match(byMethod.total, { calls: 4, credits: 670, forwarded: 2 })
    t.equal(byMethod.total.points.length, 24)
    t.same(byMethod.total.points.slice(-3), [0, 2, 2])
    const byKey = await queries.overTime({ ...lastHours(48), by: 'key', stepHours: 24 })
    t.match(byKey.groups, [
      { name: 'key_1', calls: 4 },
      { name: 'key_2', calls: 1, credits: 0 },
    ])
    t.equal(
      byKey.total.points.reduce((sum, calls) => sum + calls, 0),
      5,
    )
    t.same((await queries.overTime({ ...lastHours(24), account: 'acc_9', by: 'network', stepHours: 1 })).groups, [])
  })

  t.test('outcomes, and last uses', async t => {
    t.same(await queries.outcomes(lastHours(720)), [
      ['ok', 6],
      ['params', 1],
    ])
    t.same(await queries.lastUses(lastHours(168)), [
      ['key_2', nowHour - 30],
      ['key_1', nowHour],
    ])
  })

  t.test('past hours are read again after a minute, the running one after half a second', async t => {
    clock.advance(120_000)
    const callsOfHour = async (hours: number) =>
      (await queries.overTime({ ...lastHours(hours), by: 'network', stepHours: 1 })).total.points[0]
    t.equal(await callsOfHour(31), 1)
    t.equal(await callsOfHour(1), 2)
    const readsBefore = reads
    await report({}, { hour: nowHour - 30 })
    t.equal(await callsOfHour(1), 2)
    t.equal(await callsOfHour(31), 1)
    t.ok(reads - readsBefore <= 1, `${reads - readsBefore} reads`)
    clock.advance(500)
    t.equal(await callsOfHour(1), 4)
    t.equal(await callsOfHour(31), 1)
    clock.advance(60_000)
    t.equal(await callsOfHour(31), 3)
    const readsBeforeJump = reads
    clock.shiftWallClock(-hourMs)
    clock.advance(60_000)
    await callsOfHour(31)
    t.ok(reads > readsBeforeJump, 'also after the clock went back')
  })

  t.test('totals of all accounts, and pages of accounts', async t => {
    const range = { from: nowHour, to: nowHour + 1 }
    t.match(await queries.totals({ ...range, by: 'account' }), [
      { name: 'acc_2', credits: 999 },
      { name: 'acc_1', credits: 320, calls: 4, forwarded: 0 },
    ])
    t.match(await queries.totals({ ...range, by: 'network' }), [{ name: 'devnet', credits: 1_319 }])
    for (const [i, name] of ['carol', 'alice', 'bob'].entries())
      await store.addAccount({ id: `acc_${i}`, name, plan: 'core', created: i, ...(name === 'bob' && { label: 'Customer 7' }) })
    const first = await queries.accountPage({ search: '', after: '', limit: 2 })
    t.match(first, { accounts: [{ name: 'alice' }, { name: 'bob' }], next: 'bob' })
    t.match(await queries.accountPage({ search: '', after: 'bob', limit: 2 }), { accounts: [{ name: 'carol' }], next: undefined })
    t.match(await queries.accountPage({ search: 'customer', after: '', limit: 9 }), { accounts: [{ name: 'bob' }], next: undefined })
  })

  t.test('the page Overview reads one row an hour, however many groups of calls there are, and needs no query', async t => {
    const clock = new TestClock(nowHour * hourMs + 1_800_000)
    const store = await tempStore(t, clock)
    await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
    for (let hour = nowHour - 25; hour <= nowHour; hour += 1) {
      const counts = Array.from({ length: 500 }, (_, i) =>
        count({ hour, method: `eth_method${i % 50}`, network: `network-${Math.floor(i / 50)}` }),
      )
      await store.reportUsage({ process: 'p1', seq: hour, counts, retentionHours })
    }
    const reads: string[] = []
    const counted = new Proxy(store, {
      get: (target, name: keyof Store) =>
        typeof target[name] !== 'function'
          ? target[name]
          : async (...args: never[]) => {
              const result: unknown = await Reflect.apply(target[name] as (...args: never[]) => unknown, target, args)
              reads.push(`${name}: ${Array.isArray(result) ? result.length : 1}`)
              return result
            },
    })
    const report = await readAccountReport(
      { store: counted, plans: { core: { name: 'core', dailyCredits: 3_000_000, forwarding: false } }, clock },
      'acc_1',
    )
    t.same(reads, ['account: 1', 'dayBalance: 1', 'hourTotals: 24'])
    t.match(report, { creditsPerHour: 120_000, hours: { length: 24 } })
    t.same(report.hours.at(-1), { start: isoTime(nowHour * hourMs), calls: 1_000, credits: 80_000 })
  })

  t.test('a query of months lets another one in between', async t => {
    const order: string[] = []
    const long = queries.outcomes({ ...lastHours(2_160), account: 'acc_3' }).then(() => order.push('long'))
    const short = queries.outcomes({ ...lastHours(2), account: 'acc_3' }).then(() => order.push('short'))
    await Promise.all([long, short])
    t.same(order, ['short', 'long'])
  })
})
