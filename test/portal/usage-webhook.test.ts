import t from '../support/tap.ts'
import type { Test } from 'tap'
import { createUsageQueries } from '../../src/portal/queries/usage-queries.ts'
import { UsageWebhook } from '../../src/portal/usage-webhook.ts'
import type { UsageWebhookOptions } from '../../src/portal/usage-webhook.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { deriveUsageKey, formatKey } from '../../src/portal/alerts/webhook-signature.ts'
import { auditDay } from '../../src/cli/audit.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { exportUsage } from '../../src/services/usage/usage-export.ts'
import type { UsageExportRow } from '../../src/services/usage/usage-export.ts'
import { openUsage } from '../../src/services/usage/index.ts'
import type { Store } from '../../src/store/store.ts'
import { dayMs, hourMs, isoDate } from '../../src/util/dates.ts'
import { tempStore } from '../store/temp-store.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { createPortalDeployment } from '../support/portal-client.ts'
import { untilDayLasts, waitUntil } from '../support/wait-until.ts'
import { isSigned, startWebhookReceiver } from '../support/webhook-receiver.ts'
import { changeAccount } from '../store/change-account.ts'

const plan = { name: 'core', dailyCredits: 1_000_000, forwarding: false }
const portalSecret = new Secret('billing-secret-canary')
const secret = formatKey(deriveUsageKey(portalSecret)).reveal()
const noon = Date.UTC(2026, 0, 15, 12)

/** Accounts whose calls are charged and counted by processes that die, and a billing system. */
const openScenario = async (t: Test) => {
  const clock = new TestClock(noon)
  const log = new TestLog()
  const store = await tempStore(t, clock)
  const receiver = await startWebhookReceiver()
  t.teardown(() => receiver.stop())
  for (const name of ['alice', 'bob']) await store.addAccount({ id: `acc_${name}`, name, plan: 'core', created: 0 })
  const gateway = (over: Partial<UsageWebhookOptions> = {}) =>
    new UsageWebhook({
      ...{ store, clock, log, metrics: createMetricsRegistry(), version: '1.2.3', retentionMs: 90 * dayMs },
      ...{ queries: createUsageQueries(store, clock), url: new Secret(receiver.url), portalSecret },
      ...over,
    })
  const messages = (type: string) => receiver.received.filter(({ json }) => json.type === type)
  const rows = (): UsageExportRow[] => messages('usage.rows').flatMap(({ json }) => json.data.rows)
  return { clock, log, store, receiver, gateway, messages, rows }
}

let processes = 0

/** A process of a gateway: charges calls and counts them. */
const startProcess = async (realStore: Store, clock: TestClock) => {
  let isCut = false
  const failWhenCut = () => {
    if (isCut) throw new Error('cut off')
  }
  const store: Store = {
    ...realStore,
    reportUsage: async report => (failWhenCut(), realStore.reportUsage(report)),
    requestLease: async request => (failWhenCut(), realStore.requestLease(request)),
    heartbeat: async process => (failWhenCut(), realStore.heartbeat(process)),
  }
  const name = `p${(processes += 1)}`
  const options = { log: new TestLog(), process: name }
  const usage = openUsage(store, clock, { ...options, retentionMs: 90 * dayMs })
  const ledger = openLedger(store, clock, options)
  await usage.start()
  await ledger.start()
  const day = Math.floor(clock.now() / dayMs)
  return {
    async call(account: string, method: string, credits: number): Promise<void> {
      const { kind } = await ledger.charge({ id: account, name: account, plan }, credits)
      if (kind !== 'charged') throw new Error(kind)
      usage.count({ account, key: 'key_1', network: 'devnet', method, outcome: 'ok', forwarded: false, day, calls: 1, credits })
    },
    /** What was called since the report before is in the store. */
    report: () => usage.start(),
    /** SIGKILL, or a network that is cut: the store hears nothing more of it. */
    cut() {
      isCut = true
    },
    restore() {
      isCut = false
    },
    async stop(): Promise<void> {
      await ledger.stop()
      await usage.stop()
    },
  }
}

const sum = (rows: readonly UsageExportRow[]): number => rows.reduce((total, { credits }) => total + credits, 0)

const collect = async (store: Store, from: number, to: number): Promise<UsageExportRow[]> => {
  const rows: UsageExportRow[] = []
  for await (const row of exportUsage(store, { from, to })) rows.push(row)
  return rows
}

t.test('the rows of an account that was removed before they were sent are sent, under its id', async t => {
  const { clock, store, gateway, rows } = await openScenario(t)
  await gateway().run()
  const process = await startProcess(store, clock)
  await process.call('acc_alice', 'eth_call', 80)
  await process.call('acc_bob', 'eth_getCode', 80)
  await process.stop()
  const deleteAt = clock.now()
  await changeAccount(store, 'acc_alice', { suspended: deleteAt, deleteAt })
  t.ok(await store.removeAccount('acc_alice', deleteAt))
  clock.advance(13 * hourMs)
  await gateway().run()
  t.match(rows(), [
    { accountId: 'acc_alice', account: 'acc_alice', credits: 80 },
    { accountId: 'acc_bob', account: 'bob', credits: 80 },
  ])
})

t.test('each row of a day that is over is sent once, over several gateways and failures; the sums are those of the ledger', async t => {
  const { clock, store, receiver, gateway, messages, rows, log } = await openScenario(t)
  const [one, killed] = [await startProcess(store, clock), await startProcess(store, clock)]
  for (let i = 0; i < 1_500; i += 1) await one.call('acc_alice', `method_${i}`, 1 + (i % 7))
  await one.report()
  for (let i = 0; i < 900; i += 1) await killed.call('acc_bob', `method_${i}`, 80)
  await killed.report()
  clock.advance(2 * hourMs)
  for (let i = 0; i < 700; i += 1) await one.call('acc_bob', `method_${i}`, 5)
  // Charged and never reported: the process is killed.
  for (let i = 0; i < 10; i += 1) await killed.call('acc_alice', 'eth_lost', 255)
  killed.cut()
  await one.stop()
  t.same(auditDay(await store.dayTotals('acc_alice'), plan.dailyCredits).faults, [])
  const gateways = [gateway(), gateway(), gateway()]
  const run = () => Promise.all(gateways.map(each => each.run()))
  await run()
  t.same(
    messages('usage.rows').map(({ json }) => json.data.day),
    [],
    'the day is not over',
  )
  clock.advance(10 * hourMs + 30_000)
  await run()
  t.same(messages('usage.rows'), [], 'reports may be on their way for a minute')
  clock.advance(30_000)
  // Every other message is refused at first.
  for (let i = 0; messages('usage.day').filter(({ json }) => json.data.day === '2026-01-15').length === 0 && i < 20; i += 1) {
    receiver.answerWith(i % 2 === 0 ? 503 : 204)
    await run()
    clock.advance(60_000)
  }
  const accepted = new Map(
    messages('usage.rows').map(message => [message.headers['webhook-id'], message.json.data.rows as UsageExportRow[]]),
  )
  const acceptedRows = [...accepted.values()].flat()
  const exported = await collect(store, Date.UTC(2026, 0, 15), Date.UTC(2026, 0, 16))
  t.equal(acceptedRows.length, 2_400)
  t.equal(new Set(acceptedRows.map(({ id }) => id)).size, 2_400)
  t.same(
    acceptedRows.map(({ id, credits }) => [id, credits]).sort(),
    exported.map(({ id, credits }) => [id, credits]).sort(),
    'they are the rows of `usage export`',
  )
  const day = Math.floor(noon / dayMs)
  const used = (await store.dayTotals('acc_alice', day)).used + (await store.dayTotals('acc_bob', day)).used
  t.equal(sum(acceptedRows), used)
  t.match(messages('usage.day').at(-1)?.json.data, { day: '2026-01-15', rows: 2_400, calls: 3_100, credits: used, ledgerCredits: used })
  for (const message of receiver.received) t.ok(isSigned(message, secret))
  t.ok(rows().length > 2_400, 'what was refused was sent again')
  t.notMatch(JSON.stringify(log.lines), /billing-secret|127\.0\.0\.1/)
  const sent = receiver.received.length
  clock.advance(hourMs)
  await run()
  t.equal(receiver.received.length, sent, 'nothing is sent twice')
})

t.test('a gateway that is killed while it sends leaves the rest to another, under the same ids', async t => {
  const { clock, store, receiver, gateway, messages } = await openScenario(t)
  const worker = await startProcess(store, clock)
  for (let i = 0; i < 1_100; i += 1) await worker.call('acc_alice', `method_${i}`, 1)
  await worker.stop()
  clock.advance(13 * hourMs)
  await gateway().run()
  receiver.received.length = 0
  // One day later, with the progress at the day that has just ended.
  const next = await startProcess(store, clock)
  for (let i = 0; i < 1_100; i += 1) await next.call('acc_alice', `method_${i}`, 1)
  await next.stop()
  clock.advance(dayMs)
  const fail = () => Promise.reject(new Error('killed'))
  const dying = gateway({ store: { ...store, putRecord: fail, takeRecord: fail } })
  await t.rejects(dying.run())
  t.equal(messages('usage.rows').length, 1)
  await gateway().run()
  t.equal(receiver.received.length, 1, 'not before the lock has expired')
  clock.advance(120_000)
  await gateway().run()
  t.same(
    receiver.received.map(({ headers }) => headers['webhook-id']),
    ['usage_2026-01-16_1', 'usage_2026-01-16_1', 'usage_2026-01-16_2', 'usage_2026-01-16_3'],
  )
  t.match(messages('usage.day')[0]?.json.data, { day: '2026-01-16', rows: 1_100, credits: 1_100 })
})

t.test('a day is sent when its calls have all been reported, or six hours later', async t => {
  const { clock, store, gateway, messages, rows } = await openScenario(t)
  const late = await startProcess(store, clock)
  await late.call('acc_alice', 'eth_call', 80)
  clock.shiftWallClock(12 * hourMs + 60_000)
  const heartbeats = () => store.heartbeat(`p${processes}`)
  await heartbeats()
  t.ok((await store.dayTotals('acc_alice', Math.floor(noon / dayMs))).held > 0)
  await gateway().run()
  t.same(messages('usage.rows'), [])
  await late.stop()
  await gateway().run()
  t.match(rows(), [{ account: 'alice', accountId: 'acc_alice', method: 'eth_call', calls: 1, credits: 80 }])
  const never = await startProcess(store, clock)
  await never.call('acc_alice', 'eth_call', 80)
  clock.shiftWallClock(dayMs)
  await heartbeats()
  await gateway().run()
  t.equal(messages('usage.day').length, 1)
  clock.shiftWallClock(6 * hourMs)
  await heartbeats()
  await gateway().run()
  t.equal(messages('usage.day').length, 2)
})

t.test('a day waits for a gateway that cannot reach the store, until it is back or has been silent for six hours', async t => {
  const { clock, store, gateway, messages, rows } = await openScenario(t)
  const daysSent = () => messages('usage.day').map(({ json }) => json.data.day)
  /** A gateway without calls of its own: the store has a live process. */
  const passHours = async (hours: number) => {
    clock.advance(hours * hourMs)
    await store.heartbeat('other')
    await gateway().run()
  }
  await gateway().run()
  await passHours(11)
  const cutOff = await startProcess(store, clock)
  await cutOff.call('acc_alice', 'eth_call', 80)
  await cutOff.report()
  cutOff.cut()
  await cutOff.call('acc_alice', 'eth_call', 80)
  await passHours(2)
  t.same(daysSent(), ['2026-01-14'])
  cutOff.restore()
  await cutOff.stop()
  await passHours(0)
  t.match(rows(), [{ accountId: 'acc_alice', calls: 2, credits: 160 }])
  t.match(messages('usage.day').at(-1)?.json.data, { day: '2026-01-15', calls: 2, credits: 160, ledgerCredits: 160 })
  await passHours(20)
  const gone = await startProcess(store, clock)
  await gone.call('acc_bob', 'eth_call', 80)
  await gone.report()
  gone.cut()
  await passHours(4)
  t.same(daysSent().at(-1), '2026-01-15')
  await passHours(2)
  t.same(daysSent().at(-1), '2026-01-16', 'before six hours of the next day are over')
})

t.test('a clock that is ahead by days or years for a while neither ends a day early nor skips one', async t => {
  const { clock, store, log, gateway, messages, rows } = await openScenario(t)
  const worker = await startProcess(store, clock)
  await worker.call('acc_alice', 'eth_call', 80)
  await worker.report()
  await gateway().run()
  for (const aheadMs of [2 * dayMs, 400 * dayMs]) {
    clock.shiftWallClock(aheadMs)
    await gateway().run()
    clock.shiftWallClock(-aheadMs)
  }
  await worker.call('acc_alice', 'eth_call', 80)
  await worker.stop()
  clock.advance(dayMs)
  await gateway().run()
  t.same(
    messages('usage.day').map(({ json }) => json.data.day),
    ['2026-01-14', '2026-01-15'],
  )
  t.match(rows(), [{ calls: 2, credits: 160 }])
  t.notMatch(JSON.stringify(log.lines), /usage-skipped/)
})

t.test('after an outage of the billing system the days follow in order, those that `usage.retention` still covers', async t => {
  const { clock, store, receiver, gateway, messages, log } = await openScenario(t)
  receiver.answerWith(500)
  for (let i = 0; i < 12; i += 1) {
    const worker = await startProcess(store, clock)
    await worker.call('acc_bob', 'eth_call', 80)
    await worker.stop()
    await gateway().run()
    clock.advance(dayMs)
  }
  t.same(await store.records('delivery', ''), [await store.findRecord('delivery', 'usage-webhook')], 'one record, however long')
  receiver.answerWith(204)
  receiver.received.length = 0
  await gateway({ retentionMs: 5 * dayMs }).run()
  const days = messages('usage.day').map(({ json }) => [json.data.day, json.data.credits])
  t.same(
    days,
    [23, 24, 25, 26].map(date => [isoDate(Date.UTC(2026, 0, date)), 80]),
  )
  t.match(
    log.lines.filter(line => JSON.stringify(line).includes('usage-skipped')),
    [{ fields: { from: '2026-01-14', to: '2026-01-23' } }],
  )
})

t.test('days that are skipped are logged once, also while the first one that is left is not over', async t => {
  const { gateway, log } = await openScenario(t)
  for (let i = 0; i < 3; i += 1) await gateway({ retentionMs: dayMs }).run()
  t.match(
    log.lines.filter(line => JSON.stringify(line).includes('usage-skipped')),
    [{ fields: { from: '2026-01-14', to: '2026-01-15' } }],
  )
  t.equal(log.lines.length, 1)
})

await untilDayLasts()
const isDayYoung = Date.now() % dayMs < 60_000 && 'a day is sent when the next one is a minute old'

t.test('the webhook of gateway.yaml gets the day before, signed with the secret that the command prints', { skip: isDayYoung }, async t => {
  const [node, receiver] = [await startFakeNode({}), await startWebhookReceiver()]
  const deployment = createPortalDeployment(node.url, {
    gateway: { portal: { url: 'http://127.0.0.1', secret: 'portal-canary', usageWebhook: { url: '${USAGE_URL}' } } },
    env: { USAGE_URL: receiver.url },
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), receiver.stop()])
  })
  const day = isoDate(Date.now() - dayMs)
  const gateway = await deployment.start()
  await waitUntil(() => receiver.received.length > 0)
  t.match(receiver.received, [{ json: { type: 'usage.day', data: { day, rows: 0, credits: 0 } } }])
  const printed = (await deployment.run('usage', 'webhook-secret')).stdout.trim()
  t.match(printed, /^whsec_[\w+/]{43}=$/)
  for (const message of receiver.received) t.ok(isSigned(message, printed))
  t.equal(await gateway.stop(), 0)
})
