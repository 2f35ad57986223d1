import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { UsageCount } from '../../src/store/usage-store.ts'
import { TestLog } from '../support/fakes.ts'
import { untilDayLasts } from '../support/wait-until.ts'
import { accountsCommand, createTestConfigs, usageCommand } from './run-command.ts'

await untilDayLasts()

t.test('usage shows the credits of today, also while a gateway is running', async t => {
  const { dir, json, run } = await createTestConfigs(t)
  const { id } = (await json(accountsCommand, 'add', 'alice', '--plan', 'core')) as { id: string }
  const store = await openStore({ kind: 'lmdb', path: join(dir, '..', 'data') }, systemClock)
  const ledger = openLedger(store, systemClock, { log: new TestLog() })
  await ledger.start()
  const account = { id, name: 'alice', plan: { name: 'core', dailyCredits: 1_000, forwarding: false } }
  await ledger.charge(account, 80)

  const midnight = new Date()
  midnight.setUTCHours(24, 0, 0, 0)
  const running = (await json(usageCommand, 'alice')) as Record<string, number>
  t.match(running, {
    account: 'alice',
    plan: 'core',
    day: /^\d{4}-\d\d-\d\d$/,
    limit: 1_000,
    forfeited: 0,
    resetAt: midnight.toISOString(),
  })
  t.equal((running['used'] ?? 0) + (running['held'] ?? 0) + (running['left'] ?? 0), 1_000)
  t.ok((running['used'] ?? 0) + (running['held'] ?? 0) >= 80)

  await ledger.stop()
  await store.close()
  t.match(await json(usageCommand, id), { used: 80, held: 0, forfeited: 0, left: 920 })
  t.match((await run(usageCommand, 'alice')).out, [
    /^account    alice$/,
    /^plan       core$/,
    /^day        20/,
    /^limit      1000$/,
    /^used       80$/,
    /^held       0$/,
    /^forfeited  0$/,
    /^left       920$/,
    /^resetAt    20\S+Z$/,
  ])
})

t.test('an account whose plan is no longer in gateway.yaml is shown without a limit', async t => {
  const { dir, json, run } = await createTestConfigs(t)
  await json(accountsCommand, 'add', 'alice', '--plan', 'core', '--credits', '700')
  const file = join(dir, 'gateway.yaml')
  await writeFile(file, (await readFile(file, 'utf8')).replace('core:', 'solid:'))
  t.match(await json(usageCommand, 'alice'), { account: 'alice', plan: 'core', limit: null, used: 0, held: 0, forfeited: 0, left: null })
  t.match(await run(usageCommand, 'alice'), {
    code: 0,
    out: [
      String,
      /^plan       core$/,
      String,
      /^limit      plan no longer exists$/,
      String,
      String,
      String,
      /^left       plan no longer exists$/,
    ],
  })
})

t.test('usage of an unknown account is an error', async t => {
  const { run } = await createTestConfigs(t)
  t.same(await run(usageCommand, 'alice'), {
    code: 1,
    out: [],
    err: ['tollgate: unknown account "alice"; `tollgate accounts list` shows the names'],
  })
})

t.test('usage --by counts calls by one field, with those that failed and how long the others took', async t => {
  const latencies = [...new Array<number>(13).fill(0), 2]
  const { dir, json, run } = await createTestConfigs(t)
  const { id } = (await json(accountsCommand, 'add', 'alice', '--plan', 'core')) as { id: string }
  await json(accountsCommand, 'add', 'bo', '--plan', 'core')
  const store = await openStore({ kind: 'lmdb', path: join(dir, '..', 'data') }, systemClock)
  t.teardown(() => store.close())
  const { day: today } = await store.dayTotals(id)
  const count = (over: Partial<UsageCount>) => ({
    account: id,
    key: 'key_1',
    network: 'devnet',
    method: 'eth_call',
    outcome: 'ok',
    forwarded: false,
    hour: today * 24,
    calls: 1,
    credits: 80,
    ...over,
  })
  await store.reportUsage({
    process: 'p1',
    seq: 1,
    retentionHours: 2_160,
    counts: [
      count({ calls: 2, credits: 160, latencies }),
      count({ method: 'eth_getLogs', credits: 255, network: 'base-mainnet', forwarded: true, key: 'key_2' }),
      count({ method: 'eth_getLogs', credits: 0, outcome: 'unavailable' }),
      count({ hour: today * 24 - 1, calls: 10, credits: 800 }),
      count({ hour: (today - 2) * 24, calls: 100, credits: 8_000 }),
    ],
  })
  const date = (day: number) => new Date(day * 86_400_000).toISOString().slice(0, 10)

  t.test('of today, unless --days is given', async t => {
    t.same(await json(usageCommand, 'alice', '--by', 'method'), {
      account: 'alice',
      from: date(today),
      to: date(today),
      by: 'method',
      groups: [
        { name: 'eth_getLogs', calls: 2, failed: 1, byGateway: 1, forwarded: 1, credits: 255, p50Ms: null, p95Ms: null, p99Ms: null },
        { name: 'eth_call', calls: 2, failed: 0, byGateway: 0, forwarded: 0, credits: 160, p50Ms: 0.876, p95Ms: 0.944, p99Ms: 0.95 },
      ],
      total: { calls: 4, failed: 1, byGateway: 1, forwarded: 1, credits: 415, p50Ms: 0.876, p95Ms: 0.944, p99Ms: 0.95 },
    })
    t.match(await json(usageCommand, 'alice', '--by', 'method', '--days', '2'), { from: date(today - 1), total: { calls: 14 } })
    t.match(await json(usageCommand, 'alice', '--by', 'method', '--days', '3'), { total: { calls: 114 } })
  })

  t.test('by each field, as CSV, with hours and days in order', async t => {
    const csv = async (...args: string[]) => (await run(usageCommand, 'alice', '--csv', '--by', ...args)).out
    t.same(await csv('outcome'), [
      'outcome,calls,failed,byGateway,forwarded,credits,p50Ms,p95Ms,p99Ms',
      'ok,3,0,0,1,415,0.876,0.944,0.95',
      'unavailable,1,1,1,0,0,,,',
    ])
    t.same(await csv('network'), [
      'network,calls,failed,byGateway,forwarded,credits,p50Ms,p95Ms,p99Ms',
      'base-mainnet,1,0,0,1,255,,,',
      'devnet,3,1,1,0,160,0.876,0.944,0.95',
    ])
    t.same(await csv('key'), [
      'key,calls,failed,byGateway,forwarded,credits,p50Ms,p95Ms,p99Ms',
      'key_2,1,0,0,1,255,,,',
      'key_1,3,1,1,0,160,0.876,0.944,0.95',
    ])
    t.same(await csv('hour', '--days', '2'), [
      'hour,calls,failed,byGateway,forwarded,credits,p50Ms,p95Ms,p99Ms',
      `${date(today - 1)}T23:00Z,10,0,0,0,800,,,`,
      `${date(today)}T00:00Z,4,1,1,1,415,0.876,0.944,0.95`,
    ])
    t.same(await csv('day', '--days', '3'), [
      'day,calls,failed,byGateway,forwarded,credits,p50Ms,p95Ms,p99Ms',
      `${date(today - 2)},100,0,0,0,8000,,,`,
      `${date(today - 1)},10,0,0,0,800,,,`,
      `${date(today)},4,1,1,1,415,0.876,0.944,0.95`,
    ])
  })

  t.test('as a table with a total', async t => {
    t.same((await run(usageCommand, 'alice', '--by', 'key')).out, [
      'KEY    CALLS  FAILED  BYGATEWAY  FORWARDED  CREDITS  P50MS  P95MS  P99MS',
      'key_2  1      0       0          1          255',
      'key_1  3      1       1          0          160      0.876  0.944  0.95',
      'total  4      1       1          1          415      0.876  0.944  0.95',
    ])
    t.same((await run(usageCommand, 'bo', '--by', 'key')).out, [`no calls of bo on ${date(today)}`])
  })

  t.test('of all accounts, with their names', async t => {
    t.match(await json(usageCommand, 'all', '--hours', '24', '--by', 'account'), {
      by: 'account',
      groups: [{ account: 'alice', failed: 1, p50Ms: 0.876, p95Ms: 0.944, p99Ms: 0.95 }],
    })
    t.match((await run(usageCommand, 'all', '--csv')).out, [
      /^account,calls,failed,byGateway,forwarded,credits,p50Ms,p95Ms,p99Ms$/,
      /^alice,\d+,1,1,1,/,
    ])
    t.match((await run(usageCommand, 'all', '--by', 'method', '--hours', '48')).out, [
      /^METHOD +CALLS/,
      /^eth_call +12/,
      /^eth_getLogs +2/,
      /^total +14/,
    ])
    t.match((await run(usageCommand, 'all', '--by', 'day', '--hours', '48')).out, [
      /^DAY +CALLS/,
      new RegExp(`^${date(today - 1)} +10`),
      new RegExp(`^${date(today)} +4`),
      /^total +14/,
    ])
    t.match(await run(usageCommand, 'all', '--by', 'minute'), { code: 64, err: [/^--by must be account, /] })
  })

  t.test('wrong options are a usage error', async t => {
    for (const [args, message] of [
      [['--by', 'methd'], /^--by must be method, .* or day, not "methd"; did you mean `method`\?$/],
      [['--days', '7'], /^--days requires `by`$/],
      [['--by', 'key', '--days', '0'], /^--days must be a number from 1 to 3660, not "0"$/],
      [['--by', 'key', '--csv', '--json'], /^--json and --csv cannot be combined$/],
    ] as const)
      t.match(await run(usageCommand, 'alice', ...args), { code: 64, err: [message] })
  })
})

t.test('usage export prints each row of a month once, with an id that stays, for all accounts', async t => {
  const { dir, json, run } = await createTestConfigs(t)
  const { id } = (await json(accountsCommand, 'add', 'alice', '--plan', 'core')) as { id: string }
  const now = new Date()
  const monthStart = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1)
  const month = new Date(monthStart).toISOString().slice(0, 7)
  const hour = monthStart / 3_600_000
  const daysOfMonth = (Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) - monthStart) / 86_400_000
  const group = { account: id, key: 'key_1', network: 'devnet', method: 'eth_call', outcome: 'ok', forwarded: false }
  const counts: UsageCount[] = [
    { ...group, hour, calls: 2, credits: 160 },
    { ...group, hour: hour + 23, calls: 1, credits: 80 },
    { ...group, hour: hour + 24 * daysOfMonth - 1, calls: 5, credits: 400 },
    { ...group, hour: hour + 5, account: 'acc_gone', outcome: 'params', calls: 1, credits: 0 },
    { ...group, hour: hour + 7, method: 'eth_getLogs', calls: 1, credits: 255 },
    { ...group, hour: hour + 7, method: 'eth_getLogs', calls: -1, credits: -255 },
    { ...group, hour: hour - 1, calls: 7, credits: 560 },
    { ...group, hour: hour + 24 * daysOfMonth, calls: 7, credits: 560 },
  ]
  const store = await openStore({ kind: 'lmdb', path: join(dir, '..', 'data') }, systemClock)
  await store.reportUsage({ process: 'p1', seq: 1, counts, retentionHours: 24 * 90 })
  const exportMonth = async (...args: string[]) => run(usageCommand, 'export', '--month', ...args)
  const rows = JSON.parse((await exportMonth(month, '--json')).out.join('\n')) as { id: string; day: string }[]
  const [first, last] = [`${month}-01`, `${month}-${daysOfMonth}`]
  t.match(
    rows.filter(({ day }) => day === first),
    [
      { account: 'alice', accountId: id, method: 'eth_call', calls: 3, credits: 240, forwarded: false },
      { account: '', accountId: 'acc_gone', outcome: 'params', calls: 1, credits: 0 },
    ].sort((a, b) => (a.accountId < b.accountId ? -1 : 1)),
  )
  t.match(
    rows.filter(({ day }) => day !== first),
    [{ day: last, calls: 5, credits: 400 }],
    'nothing of the months before and after, or of what was taken back',
  )
  t.equal(new Set(rows.map(row => row.id)).size, rows.length)
  await store.reportUsage({ process: 'p1', seq: 2, counts: [{ ...group, hour, calls: 1, credits: 80 }], retentionHours: 24 * 90 })
  const again = JSON.parse((await exportMonth(month, '--json')).out.join('\n')) as { id: string; calls: number }[]
  t.same(
    again.map(row => row.id),
    rows.map(row => row.id),
  )
  t.match((await exportMonth(month)).out, [
    'id,day,account,accountId,key,network,method,outcome,forwarded,calls,credits',
    ...again.map(row => new RegExp(`^${row.id},`)),
  ])
  await store.close()
  const running = await exportMonth(now.toISOString().slice(0, 7))
  t.match([running.code, running.err, running.out.length], [0, [/is not over: export it again later$/], 2])
  t.match((await exportMonth('2020-01')).err, [/^tollgate: usage of 2020-01 is not complete: .* `usage\.retention` is 90d$/])
  t.match((await exportMonth('9999-01')).err, ['tollgate: the month 9999-01 has not begun'])
  t.match((await exportMonth('2020-13')).err[0], '--month must be a month such as 2026-01')
})
