import { EventEmitter } from 'node:events'
import type Koa from 'koa'
import t from '../support/tap.ts'
import { editAlertSettings } from '../../src/portal/alerts/alert-settings.ts'
import { addDelivery } from '../../src/portal/alerts/delivery-records.ts'
import { AccountStreams } from '../../src/portal/account-events.ts'
import { createUsageQueries } from '../../src/portal/queries/usage-queries.ts'
import { readAccountReport } from '../../src/portal/routes/account.ts'
import { openUsage } from '../../src/services/usage/index.ts'
import type { EventStream } from '../../src/server/event-stream.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { UsageCount } from '../../src/store/usage-store.ts'
import type { UsageFilter } from '../../src/portal/queries/usage-dimensions.ts'
import { dayMs, hourMs, isoTime } from '../../src/util/dates.ts'
import { latencyBucketOf } from '../../src/util/latency-buckets.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'
import { tempStore } from '../store/temp-store.ts'
import { changeAccount } from '../store/change-account.ts'

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

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0)

t.test('queries of usage', async t => {
  const store = await tempStore(t, new TestClock(nowHour * hourMs))
  let seq = 0
  const report = (...counts: readonly Partial<UsageCount>[]) =>
    store.reportUsage({ process: 'p1', seq: (seq += 1), counts: counts.map(count), retentionHours })
  await report(
    { fiveMinutes: nowHour * 12 },
    { hour: nowHour - 1, method: 'eth_getLogs', credits: 510, forwarded: true },
    { hour: nowHour - 30, key: 'key_2', outcome: 'params', credits: 0, calls: 1 },
    { hour: nowHour - 200 },
    { account: 'acc_2', credits: 999 },
  )
  const clock = new TestClock(nowHour * hourMs + 1_000)
  let reads = 0
  const usageRows: typeof store.usageRows = (...range) => {
    reads += 1
    return store.usageRows(...range)
  }
  const queries = createUsageQueries({ ...store, usageRows }, clock)
  const lastHours = (hours: number) =>
    ({ account: 'acc_1', period: 'hour', from: nowHour + 1 - hours, to: nowHour + 1, filter: {} }) as const
  const today = Math.floor(nowHour / 24)
  const lastDays = (days: number) => ({ account: 'acc_1', period: 'day', from: today + 1 - days, to: today + 1, filter: {} }) as const
  const series = { maxSeries: 10 }

  t.test('calls over time are summed by each dimension, hour and day, for one account', async t => {
    const byMethod = await queries.overTime({ ...lastHours(24), ...series, by: 'method' })
    t.match(byMethod.groups, [
      { name: 'eth_getLogs', calls: 2, credits: 510, forwarded: 2, failed: 0 },
      { name: 'eth_call', calls: 2, credits: 160, forwarded: 0 },
    ])
    t.match(byMethod.total, { calls: 4, credits: 670, forwarded: 2 })
    t.equal(byMethod.total.points.calls.length, 24)
    t.same(byMethod.total.points.calls.slice(-3), [0, 2, 2])
    t.same(byMethod.total.points.credits.slice(-2), [510, 160])
    const byKey = await queries.overTime({ ...lastDays(3), maxSeries: 1, by: 'key' })
    t.match(byKey.groups, [
      { name: 'key_1', calls: 4, points: { calls: { length: 3 } } },
      { name: 'key_2', calls: 1, credits: 0, failed: 1, points: { calls: [], failed: [], credits: [], p50Ms: [], p95Ms: [] } },
    ])
    t.equal(sumOf(byKey.total.points.calls), 5)
    t.equal(sumOf(byKey.total.points.failed), 1)
    t.same((await queries.overTime({ ...lastHours(24), ...series, account: 'acc_9', by: 'network' })).groups, [])
    const fiveMinutes = { account: 'acc_1', period: 'fiveMinutes', from: nowHour * 12, to: nowHour * 12 + 12, filter: {} } as const
    t.same((await queries.overTime({ ...fiveMinutes, ...series, by: 'key' })).total.points.calls.slice(0, 2), [2, 0])
  })

  t.test('each group is divided by a second dimension, and its parts add up to it', async t => {
    const { groups } = await queries.overTime({ ...lastDays(3), maxSeries: 0, by: 'key', and: 'method' })
    t.match(groups, [
      {
        ...{ name: 'key_1', calls: 4 },
        parts: [
          { name: 'eth_getLogs', calls: 2, credits: 510, forwarded: 2 },
          { name: 'eth_call', calls: 2, credits: 160, failed: 0 },
        ],
      },
      { name: 'key_2', parts: [{ name: 'eth_call', calls: 1, credits: 0, failed: 1 }] },
    ])
    t.same((await queries.overTime({ ...lastDays(3), ...series, by: 'key' })).groups[0]?.parts, [])
  })

  t.test('filters combine', async t => {
    const totalOf = async (filter: UsageFilter) => (await queries.overTime({ ...lastDays(3), ...series, filter, by: 'method' })).total.calls
    t.equal(await totalOf({ key: 'key_1' }), 4)
    t.equal(await totalOf({ key: 'key_1', method: 'eth_getLogs' }), 2)
    t.equal(await totalOf({ key: 'key_2', method: 'eth_getLogs' }), 0)
    t.equal(await totalOf({ network: 'devnet', outcome: 'failed' }), 1)
    t.equal(await totalOf({ network: 'other' }), 0)
    const filter = { key: 'key_2', method: 'eth_getLogs' }
    const offered = { methods: ['eth_call', 'eth_getLogs'], networks: ['devnet'], keys: ['key_1', 'key_2'] }
    t.match(await queries.overTime({ ...lastDays(3), ...series, filter, by: 'method' }), offered, 'what else could be chosen')
    t.match(await queries.outcomes({ ...lastDays(3), filter: { key: 'key_2' } }), { outcomes: [{ outcome: 'params', calls: 1 }] })
  })

  t.test('latencies are those of the calls that succeeded, merged over hours, methods and keys', async t => {
    const times = (latencyMs: number, calls: number) => {
      const latencies = new Array<number>(latencyBucketOf(latencyMs) + 1).fill(0)
      latencies[latencies.length - 1] = calls
      return { account: 'acc_7', calls, credits: 0, latencies }
    }
    await report({ ...times(10, 90) }, { ...times(10, 5), hour: nowHour - 1 }, { ...times(1_000, 5), key: 'key_2' })
    await report({ account: 'acc_7', outcome: 'timeout', calls: 100, credits: 0 })
    const { groups, total } = await queries.overTime({ ...lastHours(2), ...series, account: 'acc_7', by: 'key', latencies: true })
    t.equal(total.failed, 100)
    const isNear = (ms: number | null, expected: number) => t.ok(ms !== null && Math.abs(ms / expected - 1) < 0.2, `${ms} near ${expected}`)
    isNear(total.p50Ms, 10)
    isNear(total.p95Ms, 10)
    isNear(total.p99Ms, 1_000)
    isNear(groups.find(({ name }) => name === 'key_2')?.p50Ms ?? null, 1_000)
    const { p95Ms } = total.points
    t.equal(p95Ms.length, 2)
    isNear(p95Ms[0] ?? null, 10)
    isNear(p95Ms[1] ?? null, 1_000)
    isNear(total.points.p99Ms[1] ?? null, 1_000)
    const ofGroup = groups.find(({ name }) => name === 'key_1')?.points.p95Ms ?? []
    t.equal(ofGroup.length, 2, 'of each group too, where that is asked for')
    isNear(ofGroup[1] ?? null, 10)
    t.same((await queries.overTime({ ...lastHours(2), ...series, account: 'acc_7', by: 'key' })).groups[0]?.points.p95Ms, [])
    const { total: failed } = await queries.overTime({
      ...lastHours(2),
      ...series,
      account: 'acc_7',
      filter: { outcome: 'timeout' },
      by: 'key',
    })
    t.equal(failed.p50Ms, null)
  })

  t.test('outcomes, and last uses', async t => {
    const params = { outcome: 'params', calls: 1, methods: [{ method: 'eth_call', calls: 1 }] }
    t.match(await queries.outcomes(lastHours(720)), {
      outcomes: [
        {
          ...{ outcome: 'ok', calls: 6 },
          methods: [
            { method: 'eth_call', calls: 4 },
            { method: 'eth_getLogs', calls: 2 },
          ],
        },
        params,
      ],
      calls: 7,
    })
    const { failed, ...ofOutcome } = await queries.outcomes({ ...lastHours(720), filter: { outcome: 'failed' } })
    t.same(ofOutcome, { outcomes: [params], calls: 7 }, 'of how many calls they are')
    const others = await queries.outcomes({ ...lastHours(720), filter: { outcome: 'failed', network: 'other' } })
    t.same(others, { outcomes: [], calls: 0, failed }, 'what failed calls have can be chosen, whatever is chosen')
    t.same([failed.method, failed.network.length, failed.key.length], [['eth_call'], 1, 1])
    const lastUses = await queries.lastUses({ account: 'acc_1', fromDay: today - 7, toDay: today })
    t.same(
      new Map(lastUses),
      new Map([
        ['key_2', nowHour - 30],
        ['key_1', nowHour],
      ]),
    )
  })

  t.test('past hours are read again after a minute, the running one after half a second', async t => {
    clock.advance(120_000)
    const callsOfHour = async (hours: number) =>
      (await queries.overTime({ ...lastHours(hours), ...series, by: 'network' })).total.points.calls[0]
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
    t.match((await queries.totals({ ...range, by: 'account' })).groups, [
      { name: 'acc_2', credits: 999 },
      { name: 'acc_1', credits: 320, calls: 4, forwarded: 0 },
    ])
    const devnet = { credits: 1_319, failed: 100, p50Ms: Number, p95Ms: Number, p99Ms: Number }
    t.match(await queries.totals({ ...range, by: 'network' }), { groups: [{ name: 'devnet', ...devnet }], total: devnet })
    await report({ outcome: 'unavailable', calls: 3, credits: 0 }, { account: 'acc_2', outcome: 'rate', calls: 5, credits: 0 })
    t.match(
      (await queries.totals({ ...range, by: 'outcome' })).total,
      { failed: 108, byGateway: 103 },
      'callers are at fault for the others',
    )
    for (const [i, name] of ['carol', 'alice', 'bob'].entries())
      await store.addAccount({ id: `acc_${i}`, name, plan: 'core', created: i, ...(name === 'bob' && { label: 'Customer 7' }) })
    const page = { search: '', also: [], sort: 'name', after: '', limit: 2 } as const
    const namesOf = async (options: Partial<Parameters<typeof queries.accountPage>[0]>) => {
      const { accounts, next } = await queries.accountPage({ ...page, ...options })
      return [accounts.map(({ row, used }) => `${row.name} ${used}`), next]
    }
    t.same(await namesOf({}), [['alice 830', 'bob 999'], 'bob'])
    t.same(await namesOf({ after: 'bob' }), [['carol 0'], undefined])
    t.same(await namesOf({ search: 'customer', limit: 9 }), [['bob 999'], undefined])
    t.same(await namesOf({ sort: 'used' }), [['bob 999', 'alice 830'], '2'])
    t.same(await namesOf({ sort: 'used', after: '2' }), [['carol 0'], undefined])
    t.same(await namesOf({ sort: 'used', search: 'A' }), [['alice 830', 'carol 0'], undefined])
    const carol = await store.account('carol')
    t.ok(carol !== undefined && (await store.renameAccount(carol, 'Umbrella')))
    for (const sort of ['name', 'used'] as const)
      t.same(await namesOf({ sort, search: 'CAROL', after: '' }), [['Umbrella 0'], undefined], 'by a former name')
    t.same(await namesOf({ search: 'acc_2' }), [['bob 999'], undefined], 'by the beginning of the id')
    t.same(await namesOf({ search: 'cc_2' }), [[], undefined], 'ids are alike but for their ends')
    t.same(await namesOf({ search: 'key_7', also: ['acc_1'] }), [['alice 830'], undefined], 'by what was looked up')
  })

  t.test('the accounts near their limit, those whose calls have changed most, and what was told to accounts', async t => {
    const clock = new TestClock(nowHour * hourMs + 1_800_000)
    const store = await tempStore(t, clock)
    const counts: Partial<UsageCount>[] = []
    for (const [i, [credits, before, calls]] of (
      [
        [700, 1, 1],
        [750, 0, 100],
        [2_500, 500, 100],
        [900, 3, 3],
      ] as const
    ).entries()) {
      const account = `acc_${i}`
      await store.addAccount({
        id: account,
        name: `name-${i}`,
        plan: i === 3 ? 'removed' : 'core',
        created: 1,
        ...(i === 2 && { credits: 2_000 }),
      })
      counts.push(
        { account, credits },
        { account, hour: nowHour - 2, calls: before, credits: 0 },
        { account, hour: nowHour - 1, calls, credits: 0 },
      )
    }
    await store.reportUsage({ process: 'p1', seq: 1, counts: counts.map(count), retentionHours })
    await editAlertSettings(store, 'acc_1', settings => ({ ...settings, email: true }))
    const data = {
      account: { id: 'acc_1', name: 'name-1' },
      plan: 'core',
      period: 'day' as const,
      date: '',
      threshold: 75,
      used: 750,
      limit: 1_000,
      resetAt: '',
    }
    const delivery = {
      account: 'acc_1',
      channel: 'email' as const,
      state: 'failed' as const,
      attempts: 1,
      nextAttempt: 0,
      lastAttempt: undefined,
    }
    for (const [i, created] of [1, 3, 2].entries())
      await addDelivery(store, {
        ...{ ...delivery, id: `${i}`, created, lastStatus: 'no such host', expires: neverExpires },
        message: { type: 'credits.threshold', timestamp: '', data },
      })
    const queries = createUsageQueries(store, clock)
    const overview = await queries.accountOverview({ planCredits: { core: 1_000 }, forwardingPlans: ['core'], limit: 2 })
    t.match(overview, {
      ...{ accountCount: 4, forwardedCount: 3, nearLimitCount: 2, hour: nowHour - 1 },
      nearLimit: [
        { row: { name: 'name-2' }, used: 2_500, limit: 2_000 },
        { row: { name: 'name-1' }, used: 750, limit: 1_000 },
      ],
      movers: [
        { row: { name: 'name-2' }, before: 500, calls: 100 },
        { row: { name: 'name-1' }, before: 0, calls: 100 },
      ],
      alerts: [{ created: 3, accountName: 'name-1', state: 'failed' }, { created: 2 }],
    })
    await changeAccount(store, 'acc_2', { suspended: 1 })
    t.match(
      (
        await createUsageQueries(store, clock).accountOverview({ planCredits: { core: 1_000 }, forwardingPlans: [], limit: 2 })
      ).nearLimit.map(({ row }) => row.name),
      ['name-1'],
      'of a suspended account no calls are served anyway',
    )
    await changeAccount(store, 'acc_2', { suspended: null })
    const report = (seq: number, credits: number) =>
      store.reportUsage({ process: 'p2', seq, counts: [count({ account: 'acc_2', credits })], retentionHours })
    const usedMost = async () => (await queries.accountOverview({ planCredits: {}, forwardingPlans: [], limit: 2 })).nearLimit[0]?.used
    await store.addAccount({ id: 'acc_9', name: 'new', plan: 'core', created: 1 })
    await report(1, 100)
    t.match(
      await queries.accountOverview({ planCredits: {}, forwardingPlans: [], limit: 2 }),
      { accountCount: 4, nearLimit: [{ used: 2_500 }] },
      'accounts and their use as they were read',
    )
    clock.advance(30_000)
    t.equal(await usedMost(), 2_500, 'at once, while it is read again')
    await waitUntil(async () => (await usedMost()) === 2_600)
    await report(2, 100)
    clock.advance(120_000)
    t.equal(await usedMost(), 2_700, 'nothing older than two minutes')
    t.match(await queries.accountOverview({ planCredits: {}, forwardingPlans: [], limit: 2 }), {
      accountCount: 5,
      nearLimit: [{ row: { name: 'name-2' } }],
    })
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
    const plans = { core: { name: 'core', dailyCredits: 3_000_000, forwarding: false } }
    const report = await readAccountReport({ store: counted, plans, clock }, 'acc_1')
    t.same(reads, ['account: 1', 'dayBalance: 1', 'hourTotals: 24'])
    t.match(report, { creditsPerHour: 120_000, hours: { length: 24 } })
    const lease = { account: 'acc_1', process: 'p1', day: Math.floor(nowHour / 24), minCredits: 0, limit: 3_000_000, shareDivisor: 1 }
    await store.heartbeat('p1')
    await store.requestLease({ ...lease, seq: 1, counters: undefined, desiredCredits: 2_900_000 })
    await store.requestLease({ ...lease, seq: 2, counters: { granted: 2_900_000, returned: 0, used: 0 }, desiredCredits: 0 })
    const held = await readAccountReport({ store, plans, clock }, 'acc_1')
    t.match(held, { balance: { left: 100_000, held: 1_540_000 }, runsOutAt: report.runsOutAt }, 'what gateways hold is left too')
    t.same(report.hours.at(-1), { start: isoTime(nowHour * hourMs), calls: 1_000, failed: 0, credits: 80_000 })
  })

  t.test(
    'the first call of an account is seen within a second, by timers: 0.1 s until it is reported, and 0.4 s until the page is told',
    async t => {
      const clock = new TestClock(nowHour * hourMs)
      const store = await tempStore(t, clock)
      await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
      const timersOfStore = clock.timerCount
      const usage = openUsage(store, clock, { log: new TestLog(), retentionMs: 90 * dayMs })
      await usage.start()
      const person = { id: 'usr_1', account: 'acc_1', name: 'alice', role: 'owner', created: 1 } as const
      let reads = 0
      const authenticate = async () => {
        reads += 1
        return person
      }
      const plans = { core: { name: 'core', dailyCredits: 3_000_000, forwarding: false } }
      const streams = new AccountStreams({ store, plans, clock, startQueries: () => undefined })
      const state: Record<string, (stream: EventStream) => void> = {}
      const ctx = { res: new EventEmitter(), state, set: () => undefined }
      await streams.open(ctx as unknown as Koa.Context, person, authenticate) // what it uses of one
      const events: string[] = []
      let close: () => void = () => undefined
      const [start] = Object.values(state)
      start?.({ isWritable: true, write: text => void events.push(text), end: () => undefined, onClose: listener => (close = listener) })
      /** Reports and reads have a timer each while they go on. */
      const settledTimers = clock.timerCount
      const advance = async (ms: number) => {
        clock.advance(ms)
        await waitUntil(() => clock.timerCount === settledTimers)
      }
      const msUntilEvent = async () => {
        const { length } = events
        let ms = 0
        for (; events.length === length && ms < 3_000; ms += 100) await advance(100)
        return ms
      }
      // The next read is just before the report.
      await advance(350)
      t.equal(events.length, 1)
      const call = { ...count({}), day: Math.floor(nowHour / 24), calls: 1, credits: 80 }
      usage.count(call)
      const firstMs = await msUntilEvent()
      t.ok(firstMs <= 500, `${firstMs} ms`)
      t.match(events.at(-1), '"calls":1,')
      const readsOfFirst = reads
      await advance(900)
      t.equal(reads, readsOfFirst, 'an account that has calls is read once a second')
      close()
      await usage.stop()
      t.equal(clock.timerCount, timersOfStore)
    },
  )

  t.test('a query of months lets another one in between', async t => {
    const order: string[] = []
    const long = queries.outcomes({ ...lastHours(2_160), account: 'acc_3' }).then(() => order.push('long'))
    const short = queries.outcomes({ ...lastHours(2), account: 'acc_3' }).then(() => order.push('short'))
    await Promise.all([long, short])
    t.same(order, ['short', 'long'])
  })
})
