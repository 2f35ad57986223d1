import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import type { AddressInfo } from 'node:net'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { AlertRounds, roundIntervalMs } from '../../src/portal/alerts/alert-rounds.ts'
import type { AlertOptions } from '../../src/portal/alerts/alert-rounds.ts'
import { defaultRateRule, readAlertSettings } from '../../src/portal/alerts/alert-settings.ts'
import { listDeliveries, listOperatorDeliveries } from '../../src/portal/alerts/delivery-records.ts'
import { maxOfIncident, warningDelayMs } from '../../src/portal/alerts/operator-alerts.ts'
import type { OperatorReceivers } from '../../src/portal/alerts/operator-alerts.ts'
import {
  acknowledgeIncidents,
  endedAfterMs,
  readAcknowledgments,
  unacknowledgeIncidents,
} from '../../src/portal/alerts/shared-incidents.ts'
import { networkIncidents } from '../../src/portal/alerts/network-incidents.ts'
import {
  firstDayOf,
  observedSecondsOf,
  observedSinceOf,
  openOutageHistory,
  outageDaysOf,
  recordObserved,
  recordOutage,
  unobservedDaysOf,
  withObservedNow,
} from '../../src/portal/alerts/outage-days.ts'
import { formatMessage } from '../../src/portal/alerts/message-format.ts'
import { alertsJson, changeAlerts } from '../../src/portal/alerts/manage-alerts.ts'
import { testWebhook } from '../../src/portal/alerts/webhook-message.ts'
import { deriveOperatorKey, formatKey } from '../../src/portal/alerts/webhook-signature.ts'
import { createHostResolver, resolveHost, webhookAddressRule } from '../../src/portal/alerts/webhook-addresses.ts'
import type { ResolveHost } from '../../src/portal/alerts/webhook-addresses.ts'
import { postWebhook } from '../../src/portal/alerts/webhook-request.ts'
import { openMailer } from '../../src/portal/mail/mailer.ts'
import { addPerson, changeRole, setEmail } from '../../src/portal/people/people.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { RecordedAccounts } from '../../src/services/accounts/recorded-accounts.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { openUsage } from '../../src/services/usage/index.ts'
import { systemClock } from '../../src/services/clock.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { Store } from '../../src/store/store.ts'
import { withTimeoutOr } from '../../src/util/async.ts'
import type { MaybePromise } from '../../src/util/async.ts'
import { dayMs, hourMs } from '../../src/util/dates.ts'
import { tempStore } from '../store/temp-store.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startMailServer } from '../support/mail-server.ts'
import { createPortalClient, createPortalDeployment, signInToPortal } from '../support/portal-client.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { isSigned, startWebhookReceiver } from '../support/webhook-receiver.ts'

const plan = { name: 'core', dailyCredits: 1_000, forwarding: false }
const portalSecret = new Secret('portal-secret-canary')

/** One account on a store, whose credits are used; and gateways that look after its alerts. */
class AlertScenario {
  readonly clock = new TestClock(Date.UTC(2026, 0, 15, 12))
  readonly log = new TestLog()
  readonly metrics = createMetricsRegistry()
  readonly #t: Test
  #store: Store | undefined
  #processes = 0

  constructor(t: Test) {
    this.#t = t
  }

  async open(openStore: (t: Test, clock: TestClock) => Promise<Store> = tempStore): Promise<this> {
    this.#store = await openStore(this.#t, this.clock)
    await this.store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 0 })
    return this
  }

  get store(): Store {
    if (this.#store === undefined) throw new Error('not open yet')
    return this.#store
  }

  get services() {
    const { store, clock } = this
    const accounts = new RecordedAccounts(store, clock, { kind: 'operator', name: 'test' })
    return { store, portalSecret, accounts, canMail: true, knownNetworks: ['devnet', 'testnet'] }
  }

  gateway(over: Partial<AlertOptions> = {}): AlertRounds {
    const { store, clock, log, metrics } = this
    const portal = { portalUrl: 'https://portal.test', version: '1.2.3', portalSecret, sendMail: undefined }
    const rounds = new AlertRounds({
      ...{ store, clock, log, metrics, ...portal, plans: () => ({ core: plan }), allowedSubnets: ['127.0.0.1'] },
      incidents: async () => ({ list: () => [] }),
      networkNames: () => ['devnet'],
      networkStatuses: () => [],
      ...over,
    })
    this.#t.teardown(() => rounds.stop())
    return rounds
  }

  /** A process that charges calls, reports them, and ends. */
  async spend(credits: number, outcome = 'ok', account = 'acc_1', key = 'key_1'): Promise<void> {
    const name = `p${(this.#processes += 1)}`
    const options = { log: this.log, process: name }
    const usage = openUsage(this.store, this.clock, { ...options, retentionMs: 90 * dayMs })
    const ledger = openLedger(this.store, this.clock, options)
    await usage.start()
    await ledger.start()
    const charged = credits === 0 || (await ledger.charge({ id: account, name: account, plan }, credits)).kind === 'charged'
    if (!charged) throw new Error('the credits are used up')
    const day = Math.floor(this.clock.now() / dayMs)
    const group = { account, key, network: 'devnet', method: 'eth_call', outcome, forwarded: false }
    usage.count({ ...group, day, calls: 1, credits })
    await ledger.stop()
    await usage.stop()
  }

  /** A process that counts so many calls, and ends. */
  async count(calls: number, outcome = 'ok', durationMs = 10): Promise<void> {
    const usage = openUsage(this.store, this.clock, { log: this.log, process: `p${(this.#processes += 1)}`, retentionMs: 90 * dayMs })
    await usage.start()
    usage.count({
      account: 'acc_1',
      key: 'key_1',
      network: 'devnet',
      method: 'eth_call',
      outcome,
      forwarded: false,
      day: -1,
      calls,
      credits: 0,
      durationMs,
    })
    await usage.stop()
  }

  /** A round of each gateway at once; resolves when nothing is being sent any more. */
  async round(...gateways: readonly AlertRounds[]): Promise<void> {
    this.clock.advance(roundIntervalMs)
    await Promise.all(gateways.map(gateway => gateway.run()))
    await waitUntil(async () =>
      (await this.deliveries()).every(({ state, nextAttempt }) => state !== 'pending' || nextAttempt > this.clock.now()),
    )
  }

  async deliveries() {
    return listDeliveries(this.store, 'acc_1')
  }

  countOf(result: string): number {
    const family = this.metrics.families().find(({ name }) => name === 'tollgate_alert_deliveries_total')
    return family?.series.find(({ labels }) => labels['result'] === result)?.values[0] ?? 0
  }
}

const receiverFor = async (t: Test) => {
  const receiver = await startWebhookReceiver()
  t.teardown(() => receiver.stop())
  return receiver
}

const onRedis = async (t: Test, clock: TestClock): Promise<Store> => {
  const redis = await startRedisServer()
  const store = await openRedisStore(redis.address, systemClock, clock)
  t.teardown(async () => {
    await store.close()
    await redis.remove()
  })
  return store
}

const engines = [
  { engine: 'LMDB', open: tempStore, skip: false },
  { engine: 'Redis', open: onRedis, skip: skipWithoutRedis },
] as const

for (const { engine, open, skip } of engines) {
  t.test(`on ${engine}, several gateways send each threshold of a day and a month once`, { skip }, async t => {
    const scenario = await new AlertScenario(t).open(open)
    const receiver = await receiverFor(t)
    const secret = (await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url }))?.reveal() ?? ''
    await changeAlerts(scenario.services, 'acc_1', { monthly: [1, 5] })
    const gateways = [scenario.gateway(), scenario.gateway(), scenario.gateway()]
    const sent = () => receiver.received.map(({ json }) => `${json.data.period} ${json.data.date} ${json.data.threshold}`).sort()
    await scenario.spend(740)
    await scenario.round(...gateways)
    t.same(sent(), ['month 2026-01 1'], '740 of 31,000')
    await scenario.spend(10)
    for (let i = 0; i < 3; i += 1) await scenario.round(...gateways)
    t.same(sent(), ['day 2026-01-15 75', 'month 2026-01 1'])
    await scenario.spend(250)
    for (let i = 0; i < 3; i += 1) await scenario.round(...gateways)
    t.same(sent(), ['day 2026-01-15 100', 'day 2026-01-15 75', 'day 2026-01-15 85', 'month 2026-01 1'])
    const message = receiver.received.find(({ json }) => json.data.threshold === 100)
    t.match(message?.json, {
      type: 'credits.threshold',
      timestamp: '2026-01-15T12:00:25.000Z',
      data: { account: { id: 'acc_1', name: 'alice' }, plan: 'core', used: 1_000, limit: 1_000, resetAt: '2026-01-16T00:00:00.000Z' },
    })
    for (const each of receiver.received) t.ok(isSigned(each, secret), 'signed with the secret that was shown')
    t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 4)
    scenario.clock.advance(dayMs)
    await scenario.spend(800)
    await scenario.round(...gateways)
    t.same(sent().slice(0, 4), ['day 2026-01-15 100', 'day 2026-01-15 75', 'day 2026-01-15 85', 'day 2026-01-16 75'], 'another day')
    t.same(sent().slice(4), ['month 2026-01 1', 'month 2026-01 5'], '1,800 of 31,000')
  })
}

t.test('the sum of a month is that of its days, also of days before the alerts were set', async t => {
  const scenario = await new AlertScenario(t).open()
  const receiver = await receiverFor(t)
  const spendOnDays = async (days: number) => {
    for (let i = 0; i < days; i += 1) {
      await scenario.spend(900)
      scenario.clock.advance(dayMs)
    }
  }
  await spendOnDays(6)
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url, daily: [], monthly: [17, 18, 26, 100] })
  const gateway = scenario.gateway()
  await scenario.round(gateway)
  t.match(receiver.received, [{ json: { data: { period: 'month', threshold: 17, used: 5_400, limit: 31_000 } } }])
  await spendOnDays(3)
  await scenario.round(gateway)
  t.same(
    // Messages to one address are sent at the same time.
    receiver.received.map(({ json }) => [json.data.threshold, json.data.used]).sort(),
    [
      [17, 5_400],
      [18, 8_100],
      [26, 8_100],
    ],
  )
  scenario.clock.advance(10 * dayMs)
  await scenario.spend(900)
  await scenario.round(gateway)
  t.equal(receiver.received.length, 3, 'a new month begins with nothing')
})

for (const { engine, open, skip } of engines) {
  t.test(`on ${engine}, an account is told once that its calls fail, and again when that has ended and begins anew`, { skip }, async t => {
    const scenario = await new AlertScenario(t).open(open)
    const receiver = await receiverFor(t)
    await changeAlerts(scenario.services, 'acc_1', {
      webhook: receiver.url,
      daily: [],
      monthly: [],
      errorRate: 10,
      window: 10,
      minCalls: 50,
    })
    const gateways = [scenario.gateway(), scenario.gateway(), scenario.gateway()]
    const incidents = async () => (await alertsJson(scenario.store, 'acc_1')).incidents
    await scenario.count(49, 'timeout')
    await scenario.round(...gateways)
    t.same(receiver.received, [], '49 calls are too few')
    await scenario.count(151)
    await scenario.round(...gateways)
    const account = { id: 'acc_1', name: 'alice' }
    const since = '2026-01-15T12:00:10.000Z'
    const data = { account, since, window: 10, calls: 200, value: 24.5, threshold: 10 }
    t.match(receiver.received, [{ json: { type: 'errors.threshold', timestamp: since, data } }])
    t.match(await incidents(), [{ type: 'errors.threshold', since, value: 24.5 }])
    await scenario.count(350)
    for (let i = 0; i < 3; i += 1) await scenario.round(...gateways)
    t.equal((await incidents()).length, 1, '8.9 % are not yet 20 % below the threshold')
    await scenario.count(200)
    await scenario.round(...gateways)
    t.same(await incidents(), [], '6.5 %')
    t.equal(receiver.received.length, 1)
    await scenario.count(100, 'internal')
    await scenario.round(...gateways)
    await scenario.round(...gateways)
    t.equal(receiver.received.length, 2, 'it begins anew')
    scenario.clock.advance(15 * 60_000)
    await scenario.round(...gateways)
    t.same(await incidents(), [], 'no call has failed in the window')
    t.equal(receiver.received.length, 2)
  })
}

t.test('an account is told that its calls are slow, by mail too; failed calls have no latency', async t => {
  const scenario = await new AlertScenario(t).open()
  const mails: string[] = []
  const gateway = scenario.gateway({ sendMail: async ({ subject, text }) => mails.push(subject, text) > 0 })
  await setEmail(
    scenario.store,
    await addPerson(scenario.store, { account: 'acc_1', name: 'olga', role: 'owner' }),
    'olga@example.org',
    true,
  )
  await changeAlerts(scenario.services, 'acc_1', { email: true, daily: [], monthly: [], latency: 500 })
  await scenario.count(900, 'timeout', 5_000)
  await scenario.count(95, 'ok', 100)
  await scenario.count(4, 'ok', 2_000)
  await scenario.round(gateway)
  t.same(mails, [], '99 successful calls, of which 4 % are slow')
  await scenario.count(6, 'ok', 2_000)
  await scenario.round(gateway)
  t.match(mails, [
    /^Tollgate: alice has slow calls: p95 2\d{3} ms$/,
    /The p95 latency of 105 calls of the account alice was 2\d{3} ms in the 15 minutes before 2026-01-15T12:00:10.000Z. The alert is set at 500 ms./,
  ])
  t.match((await alertsJson(scenario.store, 'acc_1')).deliveries, [{ type: 'latency.threshold', period: null, threshold: 500 }])
})

t.test('another threshold begins anew, 10 times a day at most; without one nothing lasts', async t => {
  const scenario = await new AlertScenario(t).open()
  const receiver = await receiverFor(t)
  const gateway = scenario.gateway()
  const set = (errorRate: number) => changeAlerts(scenario.services, 'acc_1', { errorRate })
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url, daily: [], monthly: [] })
  await scenario.count(200, 'timeout')
  for (let threshold = 1; threshold <= 14; threshold += 1) {
    await set(threshold)
    await scenario.round(gateway)
  }
  t.equal(receiver.received.length, 10)
  await set(0)
  t.same((await alertsJson(scenario.store, 'acc_1')).incidents, [])
})

t.test('nothing lasts while there is no receiver: the next one is told of what begins then', async t => {
  const scenario = await new AlertScenario(t).open()
  const gateway = scenario.gateway()
  const incidents = async () => (await alertsJson(scenario.store, 'acc_1')).incidents
  const first = await receiverFor(t)
  await changeAlerts(scenario.services, 'acc_1', { webhook: first.url, daily: [], monthly: [], errorRate: 50 })
  await scenario.count(200, 'timeout')
  await scenario.round(gateway)
  t.equal((await incidents()).length, 1)
  await changeAlerts(scenario.services, 'acc_1', { webhook: null })
  t.same(await incidents(), [])
  scenario.clock.advance(2 * dayMs)
  const second = await receiverFor(t)
  await changeAlerts(scenario.services, 'acc_1', { webhook: second.url })
  await scenario.count(200, 'timeout')
  await scenario.round(gateway)
  t.match(second.received, [{ json: { type: 'errors.threshold', data: { since: '2026-01-17T12:00:10.000Z' } } }])
})

t.test('receivers that are set a day after calls began to fail are not told of it', async t => {
  const scenario = await new AlertScenario(t).open()
  const first = await receiverFor(t)
  const gateway = scenario.gateway()
  await changeAlerts(scenario.services, 'acc_1', { webhook: first.url, daily: [], monthly: [], errorRate: 50 })
  for (let hour = 0; hour < 25 * 12; hour += 1) {
    await scenario.count(200, 'timeout')
    if (hour % 12 === 0) await scenario.round(gateway)
    scenario.clock.advance(5 * 60_000)
  }
  t.equal(first.received.length, 1, 'of a day in which all calls fail')
  await setEmail(
    scenario.store,
    await addPerson(scenario.store, { account: 'acc_1', name: 'olga', role: 'owner' }),
    'olga@example.org',
    true,
  )
  await changeAlerts(scenario.services, 'acc_1', { email: true })
  let mails = 0
  await scenario.count(200, 'timeout')
  await scenario.round(scenario.gateway({ sendMail: async () => (mails += 1) > 0 }))
  t.equal(mails, 0)
  t.equal((await alertsJson(scenario.store, 'acc_1')).incidents.length, 1, 'it lasts')
})

t.test('settings from before error rates were in them tell nobody of calls', async t => {
  const scenario = await new AlertScenario(t).open()
  const value = { email: true, daily: [50], monthly: [] }
  await scenario.store.addRecord('alerts', { id: 'acc_1', account: 'bucket-1', value, expires: neverExpires })
  t.match(await readAlertSettings(scenario.store, 'acc_1'), { ...value, webhook: undefined, ...defaultRateRule, errorRate: 0, latency: 0 })
})

t.test('100 % is reached when a call is refused, although a rest is left that is too small for it', async t => {
  const scenario = await new AlertScenario(t).open()
  const receiver = await receiverFor(t)
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url, daily: [100], monthly: [] })
  const gateway = scenario.gateway()
  await scenario.spend(960)
  await scenario.round(gateway)
  t.equal(receiver.received.length, 0)
  await scenario.spend(0, 'spent')
  await scenario.round(gateway)
  t.match(receiver.received, [{ json: { data: { threshold: 100, used: 960 } } }])
})

t.test('100 % of the daily limit of a key too, unless the credits of the account are what is used up', async t => {
  const refusedAt = async (spendOfAccount: number, otherKey: boolean) => {
    const scenario = await new AlertScenario(t).open()
    const { store, services } = scenario
    const receiver = await receiverFor(t)
    for (const id of ['key_1', 'key_2'])
      await store.addKey(id, { id, account: 'acc_1', created: 0, name: id, hint: 'wxyz', ...(id === 'key_1' && { dailyCredits: 1_000 }) })
    await changeAlerts(services, 'acc_1', { webhook: receiver.url, daily: [], monthly: [], keyDaily: [100] })
    const gateway = scenario.gateway()
    await scenario.spend(960, 'ok', 'key_1')
    if (spendOfAccount > 0) await scenario.spend(spendOfAccount)
    await scenario.round(gateway)
    t.equal(receiver.received.length, 0)
    await scenario.spend(0, 'spent')
    if (otherKey) await scenario.spend(0, 'spent', 'acc_1', 'key_2')
    await scenario.round(gateway)
    return receiver.received.map(({ json: { data } }) => [data.key.id, data.threshold, data.used])
  }
  t.same(await refusedAt(0, false), [['key_1', 100, 960]])
  t.same(await refusedAt(1_000, false), [], 'the account has nothing left')
  t.same(await refusedAt(960, true), [], 'a key without a limit is refused too')
})

type SeenIncident = ReturnType<Awaited<ReturnType<AlertOptions['incidents']>>['list']>[number]

/** What one gateway sees of the nodes; those of a deployment see it on their own. */
class SeenIncidents {
  #incidents: readonly SeenIncident[] = []

  begin(clock: TestClock, incident: Partial<SeenIncident> = {}): void {
    const network = {
      network: 'devnet',
      node: undefined,
      kind: 'down',
      class: 'all',
      text: 'no node can be used',
      severity: 'critical' as const,
      times: 1,
    }
    this.#incidents = [{ ...network, began: clock.now(), ended: undefined, ...incident }, ...this.#incidents]
  }

  end(clock: TestClock): void {
    this.#incidents = this.#incidents.map(each => ({ ...each, ended: each.ended ?? clock.now() }))
  }

  gateway(scenario: AlertScenario, receivers: Partial<OperatorReceivers>, over: Partial<AlertOptions> = {}): AlertRounds {
    const incidents = async () => ({ list: () => this.#incidents })
    const all = { mail: [], severity: 'warning' as const, webhooks: {}, ...receivers }
    return scenario.gateway({ incidents, operators: { receivers: all, operatorUrl: 'https://admin.test/operator' }, ...over })
  }
}

/** By then a message says that what nobody sees any more has ended. */
const endedMs = endedAfterMs + 4 * roundIntervalMs

/** Rounds until so much time has passed. */
const roundsFor = async (scenario: AlertScenario, ms: number, ...gateways: readonly AlertRounds[]): Promise<void> => {
  for (let passed = 0; passed < ms; passed += roundIntervalMs) {
    await scenario.round(...gateways)
    const { store, clock } = scenario
    await waitUntil(async () =>
      [...(await listOperatorDeliveries(store)), ...(await listDeliveries(store, 'acc_1'))].every(
        ({ state, nextAttempt }) => state !== 'pending' || nextAttempt > clock.now(),
      ),
    )
  }
}

for (const { engine, open, skip } of engines) {
  t.test(
    `on ${engine}, operators are told once that a network is down and that it no longer is, whichever gateways see it`,
    { skip },
    async t => {
      const scenario = await new AlertScenario(t).open(open)
      const { clock } = scenario
      const receiver = await receiverFor(t)
      const seen = [new SeenIncidents(), new SeenIncidents()] as const
      const webhooks = { 'on-call': { url: new Secret(receiver.url), format: 'standard' as const } }
      const gateways = seen.map(each => each.gateway(scenario, { webhooks }))
      const sent = () => receiver.received.map(({ json }) => json.type)
      await roundsFor(scenario, 10_000, ...gateways)
      t.same(sent(), [])
      const began = new Date(clock.now()).toISOString()
      seen[0].begin(clock)
      await roundsFor(scenario, 30_000, ...gateways)
      seen[1].begin(clock)
      seen[0].end(clock)
      await roundsFor(scenario, endedMs, ...gateways)
      t.same(sent(), ['incident.began'], 'it ends when no gateway sees it')
      seen[1].end(clock)
      const ended = new Date(clock.now()).toISOString()
      await roundsFor(scenario, endedMs, ...gateways)
      t.same(sent(), ['incident.began', 'incident.ended'])
      const data = { network: 'devnet', node: null, kind: 'down', class: 'all', severity: 'critical', text: 'no node can be used', began }
      t.same(
        receiver.received.map(({ json }) => json.data),
        [
          { ...data, ended: null },
          { ...data, ended },
        ],
      )
      const secret = formatKey(deriveOperatorKey(portalSecret, 'on-call')).reveal()
      for (const each of receiver.received) t.ok(isSigned(each, secret), 'signed with the secret that `alerts webhook-secret` prints')
      t.notMatch(JSON.stringify(scenario.log.lines), receiver.url)
    },
  )
}

t.test(
  'a warning that is over within a minute is told to nobody; one that lasts is, and not to receivers of critical problems alone',
  async t => {
    const scenario = await new AlertScenario(t).open()
    const { clock } = scenario
    const [all, critical] = [await receiverFor(t), await receiverFor(t)]
    const seen = new SeenIncidents()
    const gateway = seen.gateway(scenario, {
      webhooks: {
        chat: { url: new Secret(all.url), format: 'slack' },
        'on-call': { url: new Secret(critical.url), format: 'standard', severity: 'critical' },
      },
    })
    const node = { node: 'node-1', kind: 'unreachable', text: 'connection refused', severity: 'warning' as const }
    seen.begin(clock, { ...node, class: 'logs' })
    await roundsFor(scenario, warningDelayMs / 2, gateway)
    seen.end(clock)
    seen.begin(clock, { ...node, kind: 'drained', severity: 'info' })
    await roundsFor(scenario, 3 * warningDelayMs, gateway)
    t.same(all.received, [])
    seen.begin(clock, node)
    await roundsFor(scenario, 2 * warningDelayMs, gateway)
    t.match(all.received, [{ json: { text: /^Tollgate: warning: node-1 of devnet: .+\nconnection refused\.\nSince / } }])
    seen.end(clock)
    await roundsFor(scenario, endedMs, gateway)
    t.match(all.received[1], { json: { text: /^Tollgate: ended: node-1 of devnet: / } })
    t.same(critical.received, [])
  },
)

for (const { engine, open, skip } of engines) {
  t.test(
    `on ${engine}, an account is told once of outages of the networks that it names, and of no nodes, plugins or other networks`,
    { skip },
    async t => {
      const scenario = await new AlertScenario(t).open(open)
      const { clock, store, services } = scenario
      const receiver = await receiverFor(t)
      await changeAlerts(services, 'acc_1', { webhook: receiver.url, daily: [], monthly: [], networks: ['devnet'] })
      const seen = [new SeenIncidents(), new SeenIncidents()] as const
      const gateways = seen.map(each => each.gateway(scenario, {}))
      await roundsFor(scenario, 10_000, ...gateways)
      const began = new Date(clock.now()).toISOString()
      for (const each of seen) each.begin(clock)
      seen[0].begin(clock, { node: 'node-1', kind: 'unreachable' })
      seen[0].begin(clock, { kind: 'verify lied', text: 'node-1 has lied' })
      seen[1].begin(clock, { network: 'testnet', kind: 'stalled' })
      await roundsFor(scenario, 30_000, ...gateways)
      for (const each of seen) each.end(clock)
      const ended = new Date(clock.now()).toISOString()
      await roundsFor(scenario, endedMs, ...gateways)
      const data = { account: { id: 'acc_1', name: 'alice' }, network: 'devnet', kind: 'down', began }
      t.same(
        receiver.received.map(({ json: { type, data } }) => ({ type, data })),
        [
          { type: 'incident.began', data: { ...data, ended: null } },
          { type: 'incident.ended', data: { ...data, ended } },
        ],
      )
      t.match((await alertsJson(store, 'acc_1')).deliveries, [
        { type: 'incident.ended', network: 'devnet', date: ended, threshold: null },
        { type: 'incident.began', network: 'devnet', date: began, threshold: null },
      ])
      const history = await openOutageHistory(store, clock)()
      const days = outageDaysOf(history?.get('devnet') ?? [], [], clock.now())
      t.same(days, [{ date: '2026-01-15', downSeconds: 30, stalledSeconds: 0 }], 'and is in the history of the network, once')
      clock.advance(dayMs)
      t.same(await store.records('incident', 'operators'), [], 'what has ended is kept for a day')
    },
  )
}

t.test('who names a network during its outage is told of it within a day of its beginning, and of its end then only', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, services } = scenario
  const receiver = await receiverFor(t)
  const webhook = { webhook: receiver.url, format: 'slack' as const, daily: [], monthly: [] }
  const seen = new SeenIncidents()
  const gateway = seen.gateway(scenario, {})
  seen.begin(clock)
  seen.begin(clock, { network: 'testnet', kind: 'stalled' })
  await roundsFor(scenario, 10_000, gateway)
  await changeAlerts(services, 'acc_1', { ...webhook, networks: ['devnet'] })
  await roundsFor(scenario, 10_000, gateway)
  clock.advance(dayMs)
  await changeAlerts(services, 'acc_1', { networks: ['devnet', 'testnet'] })
  await roundsFor(scenario, 10_000, gateway)
  seen.end(clock)
  await roundsFor(scenario, endedMs, gateway)
  t.match(receiver.received, [
    { json: { text: /^Tollgate: devnet does not answer\nCalls to devnet fail\.\nSince .+ A message is sent when it has ended\.$/ } },
    { json: { text: /^Tollgate: devnet answers again\n/ } },
  ])
  t.equal(receiver.received.length, 2)
})

t.test('while an operator looks after a problem its first message is not sent again each day; it and the end are sent', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, store } = scenario
  const services = { clock, store }
  const receiver = await receiverFor(t)
  const seen = new SeenIncidents()
  const gateway = seen.gateway(scenario, { webhooks: { chat: { url: new Secret(receiver.url), format: 'standard' } } })
  const sent = () => receiver.received.map(({ json }) => json.type)
  const days = async (count: number): Promise<void> => {
    for (let half = 0; half < 2 * count; half += 1) {
      clock.advance(dayMs / 2)
      await roundsFor(scenario, 10_000, gateway)
    }
  }
  const acknowledge = (incidents: Parameters<typeof acknowledgeIncidents>[2] = []) =>
    acknowledgeIncidents(services, { network: 'devnet', node: 'node-1' }, incidents, {
      ...{ by: { kind: 'operator', name: 'dora' }, at: new Date(clock.now()).toISOString(), note: null },
    })
  const name = { network: 'devnet', node: 'node-1', kind: 'unreachable', class: 'all', text: 'refused', severity: 'warning' } as const
  const find = async () => (await readAcknowledgments(store))(name)
  const { network: _, ...incident } = name
  seen.begin(clock, incident)
  t.equal(await acknowledge(), 0, 'it is in no store yet')
  t.equal(await acknowledge([{ ...name, began: new Date(clock.now()).toISOString() }]), 1, 'the gateway sees it')
  await roundsFor(scenario, 2 * warningDelayMs, gateway)
  t.same(sent(), ['incident.began'], 'no alert is withheld')
  const alice = { by: { kind: 'operator', name: 'alice' }, at: new Date(clock.now()).toISOString(), note: null } as const
  t.equal(await acknowledgeIncidents(services, { network: 'devnet' }, [], alice), 1)
  t.match(await find(), { by: { name: 'dora' } }, 'who acknowledges the network does not take over its nodes')
  await days(4)
  t.same(sent(), ['incident.began'])
  t.equal(await unacknowledgeIncidents(services, { network: 'devnet', node: 'node-2' }), 0)
  t.equal(await unacknowledgeIncidents(services, { network: 'devnet' }), 1)
  t.equal(await find(), undefined)
  await days(1)
  t.same(sent(), ['incident.began', 'incident.began'], 'each day, once nobody looks after it')
  t.equal(await acknowledge(), 1, 'what any gateway sees')
  seen.end(clock)
  await roundsFor(scenario, endedMs, gateway)
  t.same(sent(), ['incident.began', 'incident.began', 'incident.ended'])
  t.equal(await find(), undefined, 'it ends with the incident')
  t.equal(await acknowledge(), 0)
  seen.begin(clock, incident)
  await roundsFor(scenario, 2 * warningDelayMs, gateway)
  t.equal(sent().at(-1), 'incident.began')
  t.equal(await find(), undefined, 'a new one is not acknowledged')
  t.equal(await acknowledge(), 1)
})

t.test('a first message that nobody has got is sent anew, also of an acknowledged problem', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, store } = scenario
  const receiver = await receiverFor(t)
  receiver.answerWith(500)
  const seen = new SeenIncidents()
  const gateway = seen.gateway(scenario, { webhooks: { chat: { url: new Secret(receiver.url), format: 'standard' } } })
  const states = async () => (await listOperatorDeliveries(store)).map(({ state }) => state)
  seen.begin(clock, { node: 'node-1', kind: 'unreachable', class: 'all', text: 'refused', severity: 'warning' })
  await roundsFor(scenario, 2 * warningDelayMs, gateway)
  t.same(await states(), ['pending'])
  const by = { kind: 'operator', name: 'dora' } as const
  const acknowledgment = { by, at: new Date(clock.now()).toISOString(), note: null }
  t.equal(await acknowledgeIncidents({ clock, store }, { network: 'devnet' }, [], acknowledgment), 1)
  for (let hour = 0; hour < 26; hour += 1) {
    clock.advance(hourMs)
    await roundsFor(scenario, 10_000, gateway)
  }
  receiver.answerWith(204)
  for (let hour = 0; hour < 3; hour += 1) {
    clock.advance(hourMs)
    await roundsFor(scenario, 10_000, gateway)
  }
  t.same(await states(), ['delivered'])
})

t.test('who was told that an outage began is told of its end, also weeks later', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, services } = scenario
  const receiver = await receiverFor(t)
  await changeAlerts(services, 'acc_1', { webhook: receiver.url, daily: [], monthly: [], networks: ['devnet'] })
  const seen = new SeenIncidents()
  const gateway = seen.gateway(scenario, {})
  seen.begin(clock)
  for (let day = 0; day < 20; day += 1) {
    await roundsFor(scenario, 10_000, gateway)
    clock.advance(dayMs)
  }
  await roundsFor(scenario, 10_000, gateway)
  seen.end(clock)
  await roundsFor(scenario, endedMs, gateway)
  t.same(
    receiver.received.map(({ json }) => json.type),
    ['incident.began', 'incident.ended'],
  )
})

for (const [what, over] of [
  ['the network', { networkNames: () => ['testnet'] }],
  ['the receivers', { operators: undefined }],
] as const) {
  t.test(`a gateway without ${what} ends an outage for nobody whom another can tell, and does not take its rounds`, async t => {
    const scenario = await new AlertScenario(t).open()
    const { clock, store, services } = scenario
    const [owner, operator, late] = [await receiverFor(t), await receiverFor(t), await receiverFor(t)]
    const alerts = { daily: [], monthly: [], networks: ['devnet'] }
    await changeAlerts(services, 'acc_1', { webhook: owner.url, ...alerts })
    const seen = new SeenIncidents()
    const webhooks = { 'on-call': { url: new Secret(operator.url), format: 'standard' as const } }
    const able = seen.gateway(scenario, { webhooks })
    const unable = seen.gateway(scenario, { webhooks }, over)
    const sent = () => [owner, operator].map(({ received }) => received.map(({ json }) => json.type).join(' '))
    seen.begin(clock)
    await roundsFor(scenario, 10_000, unable, able)
    t.same(sent(), ['incident.began', 'incident.began'])
    seen.end(clock)
    await roundsFor(scenario, endedMs, unable)
    t.match(await store.records('incident', 'operators'), [{ value: { hasEnded: true } }])
    await store.addAccount({ id: 'acc_2', name: 'bob', plan: 'core', created: 0 })
    await changeAlerts(services, 'acc_2', { webhook: late.url, ...alerts })
    await roundsFor(scenario, 20_000, unable, able)
    t.same(sent(), ['incident.began incident.ended', 'incident.began incident.ended'])
    t.same(late.received, [], 'who has alerts since hears nothing of it')
    const history = await openOutageHistory(store, clock)()
    t.match(outageDaysOf(history?.get('devnet') ?? [], [], clock.now()), [{ downSeconds: 10 }])
  })
}

t.test('of a network that is taken out of the configuration in an outage nobody is told that it answers again', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, services } = scenario
  const receiver = await receiverFor(t)
  await changeAlerts(services, 'acc_1', { webhook: receiver.url, daily: [], monthly: [], networks: ['devnet', 'testnet'] })
  const seen = new SeenIncidents()
  const gateway = seen.gateway(scenario, {}, { networkNames: () => ['testnet'] })
  seen.begin(clock)
  seen.begin(clock, { network: 'testnet' })
  await roundsFor(scenario, 10_000, gateway)
  seen.end(clock)
  await roundsFor(scenario, endedMs, gateway)
  const sent = receiver.received.map(({ json }) => `${json.type} ${json.data.network}`)
  t.same(sent.sort(), ['incident.began devnet', 'incident.began testnet', 'incident.ended testnet'])
})

t.test('when the clock goes back by hours, ends are told in time, and what begins again is told', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock } = scenario
  const receiver = await receiverFor(t)
  const seen = new SeenIncidents()
  const gateway = seen.gateway(scenario, { webhooks: { 'on-call': { url: new Secret(receiver.url), format: 'standard' } } })
  const sent = () => receiver.received.map(({ json }) => `${json.type} ${json.data.kind}`)
  seen.begin(clock)
  seen.begin(clock, { node: 'node-1', kind: 'unreachable', severity: 'warning' })
  await roundsFor(scenario, warningDelayMs + 20_000, gateway)
  const began = ['incident.began down', 'incident.began unreachable']
  t.same(sent().sort(), began)
  clock.shiftWallClock(-3 * hourMs)
  await roundsFor(scenario, 30_000, gateway)
  seen.end(clock)
  await roundsFor(scenario, endedMs, gateway)
  const ended = ['incident.ended down', 'incident.ended unreachable']
  t.same(sent().sort(), [...began, ...ended])
  clock.shiftWallClock(-3 * hourMs)
  seen.begin(clock)
  await roundsFor(scenario, 30_000, gateway)
  t.same(sent().sort(), ['incident.began down', ...began, ...ended])
})

t.test('alerts are for networks that the gateway has; one that it has no more may stay', async t => {
  const { services, store } = await new AlertScenario(t).open()
  await t.rejects(changeAlerts(services, 'acc_1', { networks: ['devnte'] }), {
    message: 'unknown network "devnte"; did you mean `devnet`?',
  })
  await changeAlerts(services, 'acc_1', { networks: ['devnet'] })
  await changeAlerts({ ...services, knownNetworks: ['testnet'] }, 'acc_1', { networks: ['devnet', 'testnet'] })
  t.match(await readAlertSettings(store, 'acc_1'), { networks: ['devnet', 'testnet'] })
})

t.test('operators get mail; a node that comes and goes is told of 10 times a day', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock } = scenario
  const mail = await startMailServer()
  t.teardown(() => mail.stop())
  const sendMail = openMailer({ url: new Secret(mail.url), from: 'Tollgate <no-reply@portal.test>' }, scenario.log)
  const seen = new SeenIncidents()
  const gateway = seen.gateway(scenario, { mail: ['on-call@example.org'] }, { sendMail })
  for (let i = 0; i < maxOfIncident + 2; i += 1) {
    seen.begin(clock)
    await roundsFor(scenario, 10_000, gateway)
    seen.end(clock)
    await roundsFor(scenario, endedMs, gateway)
  }
  t.equal(mail.received.length, 2 * maxOfIncident, 'of each, its beginning and its end')
  t.match(mail.received[0], {
    to: 'on-call@example.org',
    message: /Subject: Tollgate: critical: devnet: .*no node can be used\..*https:\/\/admin\.test\/operator/s,
  })
})

/** The store, as long as a gateway can reach it. */
class UnreliableStore {
  isReachable = true
  readonly store: Store

  constructor(store: Store) {
    this.store = new Proxy(store, {
      get: (target, name) => {
        const member = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        return this.isReachable ? member.bind(target) : () => Promise.reject(new Error('unreachable'))
      },
    })
  }
}

t.test('what began and ended while the store was unreachable is told when it is back', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, store } = scenario
  const receiver = await receiverFor(t)
  const seen = new SeenIncidents()
  const unreliable = new UnreliableStore(store)
  const webhooks = { 'on-call': { url: new Secret(receiver.url), format: 'standard' as const } }
  const gateway = seen.gateway(scenario, { webhooks }, { store: unreliable.store })
  await roundsFor(scenario, 5_000, gateway)
  unreliable.isReachable = false
  seen.begin(clock)
  clock.advance(20_000)
  await t.rejects(gateway.run(), 'unreachable')
  seen.end(clock)
  clock.advance(20_000)
  unreliable.isReachable = true
  await roundsFor(scenario, endedMs, gateway)
  t.same(
    receiver.received.map(({ json }) => json.type),
    ['incident.began', 'incident.ended'],
  )
})

t.test('of what lasts, no end is told when the store is back, whichever gateway reaches it first', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock } = scenario
  const receiver = await receiverFor(t)
  const webhooks = { 'on-call': { url: new Secret(receiver.url), format: 'standard' as const } }
  const seen = [new SeenIncidents(), new SeenIncidents()] as const
  const unreliable = new UnreliableStore(scenario.store)
  const first = seen[0].gateway(scenario, { webhooks }, { store: unreliable.store })
  const second = seen[1].gateway(scenario, { webhooks }, { store: unreliable.store })
  const sent = () => receiver.received.map(({ json }) => json.type)
  seen[1].begin(clock)
  await roundsFor(scenario, 30_000, first, second)
  t.same(sent(), ['incident.began'])
  unreliable.isReachable = false
  for (let passed = 0; passed < endedMs; passed += 30_000) {
    clock.advance(30_000)
    await t.rejects(first.run(), 'unreachable')
  }
  unreliable.isReachable = true
  await roundsFor(scenario, 10_000, first)
  await roundsFor(scenario, endedMs, first, second)
  t.same(sent(), ['incident.began'])

  t.comment('the gateway that sees it is the only one that cannot reach the store')
  await roundsFor(scenario, endedMs, first)
  t.same(sent(), ['incident.began', 'incident.ended'])
  await roundsFor(scenario, 30_000, first, second)
  t.same(sent(), ['incident.began', 'incident.ended', 'incident.began'], 'what was told to have ended is told to last')
  seen[1].end(clock)
  await roundsFor(scenario, endedMs, first, second)
  t.same(sent(), ['incident.began', 'incident.ended', 'incident.began', 'incident.ended'])
})

t.test('a webhook of the format `slack` gets a text, in which no account name is a mention', async t => {
  const scenario = await new AlertScenario(t).open()
  const receiver = await receiverFor(t)
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url, format: 'slack', daily: [75], monthly: [] })
  await scenario.spend(800)
  await scenario.round(scenario.gateway())
  t.match(JSON.parse(receiver.received[0]?.body ?? ''), {
    text: /^Tollgate: \S+ has used 75 % of its daily credits\nThe account \S+ \(plan \S+\) has used 800 of 1000 credits of .*calls are refused until/s,
  })
  t.match(receiver.received[0]?.headers['webhook-signature'], /^v1,/, 'it is signed all the same')
  const account = { id: 'acc_1', name: 'a<!channel>&b' }
  const sender = { ...scenario.services, clock: systemClock, version: '1.2.3', brand: undefined, allowedSubnets: ['127.0.0.1'] }
  t.match(await testWebhook(sender, account), { isDelivered: true })
  t.equal(receiver.received[1]?.body, '{"text":"Tollgate: this is a test message for the account a&lt;!channel&gt;&amp;b."}')
  t.match((await alertsJson(scenario.services.store, 'acc_1')).webhook, { url: receiver.url, format: 'slack' })
})

t.test('outages of networks are kept for 90 days, by day', async t => {
  const { clock, store } = await new AlertScenario(t).open()
  const midnight = Date.UTC(2026, 0, 15)
  const outage = { network: 'devnet', kind: 'down' as const, began: midnight - 60_000, ended: midnight + 30_000 }
  await recordOutage(store, outage)
  await recordOutage(store, outage)
  const read = async (seen: Parameters<typeof outageDaysOf>[1] = []) =>
    outageDaysOf((await openOutageHistory(store, clock)())?.get('devnet') ?? [], seen, clock.now())
  const recorded = [
    { date: '2026-01-14', downSeconds: 60, stalledSeconds: 0 },
    { date: '2026-01-15', downSeconds: 30, stalledSeconds: 0 },
  ]
  t.same(await read(), recorded, 'an outage over midnight is one of two days, and counts once')
  const lasting = await read([{ kind: 'stalled', began: clock.now() - 10_000, ended: undefined }])
  t.same(lasting[1], { ...recorded[1], stalledSeconds: 10 }, 'what lasts is shown too')
  const ended = { kind: 'down' as const, began: clock.now() - 20_000, ended: clock.now() - 5_000 }
  const seen = [ended, { ...outage, ended: midnight + 29_000 }]
  t.same((await read(seen))[1], { ...recorded[1], downSeconds: 45 }, 'and what has just ended, until it is recorded')
  t.same(outageDaysOf([], [{ ...outage, ended: midnight + 29_000 }], clock.now()), [], 'but by then, nothing else')
  for (let i = 0; i < 70; i += 1)
    await recordOutage(store, { ...outage, began: midnight + 60_000 * (i + 1), ended: midnight + 60_000 * (i + 1) + 1_000 })
  t.match((await read())[1], { downSeconds: 100 })
  const [today] = (await store.records('outage', 'operators')).filter(({ id }) => id.endsWith('2026-01-15'))
  t.ok(JSON.stringify(today).length < 4_000, 'further ones take no room')
  clock.advance(91 * dayMs)
  t.same(await read(), [])
  t.same(await store.records('outage', 'operators'), [])
})

t.test('the first day whose outages are recorded is known for each network, for good', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, store } = scenario
  const first = async () => firstDayOf((await openOutageHistory(store, clock)())?.get('devnet') ?? [])
  t.equal(await first(), null)
  const day = new Date(clock.now()).toISOString().slice(0, 10)
  await scenario.round(scenario.gateway())
  t.equal(await first(), day)
  clock.advance(91 * dayMs)
  await scenario.round(scenario.gateway())
  t.equal(await first(), day)
})

t.test('of days on which no gateway has observed a network nothing is known, and a gateway observes it while there are calls', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, store } = scenario
  const unobserved = async () => unobservedDaysOf((await openOutageHistory(store, clock)())?.get('devnet') ?? [], clock.now())
  const gaps = (...days: readonly (readonly [from: number, to: number])[]) =>
    days.map(([from, to]) => ({ from: `2026-01-${from}`, to: `2026-01-${to}` }))
  t.same(await unobserved(), [], 'before the first day there is no gap')
  const states = { idle: 'unknown', used: 'ok' }
  const [idle, used] = [states.idle, states.used].map(state =>
    scenario.gateway({ networkStatuses: () => [{ name: 'devnet', state: state as 'ok' | 'unknown' }] }),
  ) as [AlertRounds, AlertRounds]
  const roundOnDay = async (day: number, ...gateways: readonly AlertRounds[]) => {
    clock.advance(Date.UTC(2026, 0, day, 12) - clock.now())
    await scenario.round(...gateways)
  }
  await roundOnDay(15, idle)
  t.same(await unobserved(), gaps([15, 15]))
  // Of two gateways one does the round; the other one has the calls.
  await roundOnDay(16, idle, used)
  await roundOnDay(19, used)
  await roundOnDay(21, idle)
  t.same(await unobserved(), gaps([15, 15], [17, 18], [20, 21]))
  await recordOutage(store, { network: 'devnet', kind: 'down', began: Date.UTC(2026, 0, 17), ended: Date.UTC(2026, 0, 17, 1) })
  t.same(await unobserved(), gaps([15, 15], [18, 18], [20, 21]), 'what had an outage was observed')
  await scenario.round(used)
  t.same(await unobserved(), gaps([15, 15], [18, 18], [20, 20]))
})

t.test('of a network the time is known in which some gateway has observed it, and no other time has no outage', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, store } = scenario
  const observed = async () => observedSecondsOf((await openOutageHistory(store, clock)())?.get('devnet') ?? [], clock.now())
  t.same(await observed(), { last24Hours: 0, last90Days: 0 })
  let state: 'ok' | 'unknown' = 'unknown'
  const gateways = ['one', 'other'].map(() => scenario.gateway({ networkStatuses: () => [{ name: 'devnet', state }] }))
  const roundsUntil = async (time: number): Promise<void> => {
    while (clock.now() < time) {
      clock.advance(60_000)
      await scenario.round(...gateways)
    }
  }
  const [noon, hourMs] = [Date.UTC(2026, 0, 15, 12), 3_600_000]
  await roundsUntil(noon + hourMs)
  t.same(await observed(), { last24Hours: 0, last90Days: 0 }, 'nobody observes it without calls')
  state = 'ok'
  await roundsUntil(noon + 2 * hourMs)
  const after = (await observed()).last24Hours
  t.ok(after > 3_600 - 120 && after <= 3_600, `${after} s, from the first round that has seen it`)
  t.same(await observed(), { last24Hours: after, last90Days: after }, 'two gateways observe it once')
  state = 'unknown'
  await roundsUntil(noon + 14 * hourMs)
  const whole = (await observed()).last90Days
  t.ok(whole >= 3_600 && whole <= 3_600 + 600, `${whole} s, also over midnight`)
  await roundsUntil(noon + 25.5 * hourMs)
  const { last24Hours, last90Days } = await observed()
  t.equal(last90Days, whole)
  t.ok(last24Hours >= 1_500 && last24Hours <= 2_400, `${last24Hours} s: of an hour that begins 24.5 hours ago the last half`)
  clock.advance(91 * dayMs)
  t.same(await observed(), { last24Hours: 0, last90Days: 0 })
  state = 'ok'
  await scenario.round(...gateways)
  const [first] = (await store.records('outage', 'operators')).filter(({ id }) => id.endsWith(' first'))
  t.equal(Object.keys((first?.value as { observed?: object } | undefined)?.observed ?? {}).length, 1, 'older days are dropped')
})

t.test('a network that is known now is observed now, before that is recorded', async t => {
  const now = Date.UTC(2026, 0, 15, 12, 7)
  const day = Math.floor(now / dayMs)
  const first = { network: 'devnet', day: day - 1, outages: [] }
  t.equal(observedSinceOf([first]), undefined)
  const seen = withObservedNow([first], now)
  t.equal(observedSinceOf(seen), now)
  t.same(observedSecondsOf(seen, now + 60_000), { last24Hours: 60, last90Days: 60 }, 'from then on, within a step of 5 minutes')
  t.same(unobservedDaysOf(seen, now), [{ from: '2026-01-14', to: '2026-01-14' }])
  const earlier = [{ ...first, observed: { [day - 1]: 3, [day]: '4' } }]
  t.equal(observedSinceOf(earlier), (day - 1) * dayMs, 'of a day of which the number of steps is known alone')
  t.same(observedSecondsOf(withObservedNow(earlier, now), now).last90Days, 3 * 300 + 300 + 120)
  t.same(withObservedNow([], now), [], 'without a first day nothing is said')
})

t.test('since when a network is observed is known to the second, and of the last 90 days', async t => {
  const { clock, store } = await new AlertScenario(t).open()
  const began = Date.UTC(2026, 0, 15, 12, 7, 12)
  const since = async () => observedSinceOf((await openOutageHistory(store, clock)())?.get('devnet') ?? [])
  await recordObserved(store, 'devnet', began)
  t.equal(await since(), began)
  await recordObserved(store, 'devnet', began + 3 * dayMs)
  t.equal(await since(), began, 'what is observed later changes nothing')
  await recordObserved(store, 'devnet', began + 91 * dayMs)
  t.equal(await since(), Date.UTC(2026, 0, 18), 'the first day is dropped, and of the next one the number of steps is known alone')
  const again = began + 400 * dayMs
  await recordObserved(store, 'devnet', again)
  t.equal(await since(), again, 'after 90 days without a call it begins anew')
})

t.test('when a network was observed takes as little room after 90 days as after one, however often that began and ended', async t => {
  const { clock, store } = await new AlertScenario(t).open()
  const first = Date.UTC(2026, 0, 15)
  for (let day = 0; day < 95; day += 1)
    for (const hour of [3, 12, 23.99]) await recordObserved(store, 'devnet', first + day * dayMs + hour * hourMs)
  clock.advance(first + 95 * dayMs - 60_000 - clock.now())
  const [record] = await store.records('outage', 'operators')
  const { length } = JSON.stringify(record)
  t.ok(length < 1_400, `${length} bytes`)
  const recorded = (await openOutageHistory(store, clock)())?.get('devnet') ?? []
  // Of the step that runs a minute is still to come; and the last minute of yesterday is within 24 hours.
  const ofDay = 3 * 300 - 60
  t.same(observedSecondsOf(recorded, clock.now()), { last24Hours: ofDay + 60, last90Days: 89 * 3 * 300 + ofDay })
})

t.test('of many networks few are recorded at a time, and each once in 5 minutes', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, store } = scenario
  const networks = Array.from({ length: 120 }, (_, i) => ({ name: `net-${i}`, state: 'ok' as const }))
  let [underWay, most, writes] = [0, 0, 0]
  const count = async <T>(run: () => MaybePromise<T>): Promise<T> => {
    most = Math.max(most, (underWay += 1))
    await new Promise(setImmediate)
    return Promise.resolve(run()).finally(() => (underWay -= 1))
  }
  const counted: Store = {
    ...store,
    addRecord: (kind, record) => count(() => store.addRecord(kind, record)),
    findRecord: (kind, id) => count(() => store.findRecord(kind, id)),
    async replaceRecord(...args) {
      const isWritten = await count(() => store.replaceRecord(...args))
      if (isWritten) writes += 1
      return isWritten
    },
  }
  const gateways = ['one', 'other'].map(() =>
    scenario.gateway({ store: counted, networkNames: () => networks.map(({ name }) => name), networkStatuses: () => networks }),
  )
  for (let i = 0; i < 3; i += 1) await scenario.round(...gateways)
  t.equal((await openOutageHistory(store, clock)())?.size, 120)
  t.equal(writes, 120)
  t.ok(most <= 50 * gateways.length, `${most} at once`)
})

t.test('alerts do not wait for what is recorded for the status of networks', async t => {
  const scenario = await new AlertScenario(t).open()
  const { clock, store } = scenario
  const receiver = await receiverFor(t)
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url, daily: [75], monthly: [] })
  await scenario.spend(800)
  const failing: Store = {
    ...store,
    addRecord: (kind, record) => (kind === 'outage' ? Promise.reject(new Error('not recorded')) : store.addRecord(kind, record)),
  }
  clock.advance(roundIntervalMs)
  await t.rejects(scenario.gateway({ store: failing }).run(), 'not recorded')
  await waitUntil(() => receiver.received.length === 1)
})

t.test('callers of a network are told of its outages, also from before a restart, and of fewer or slow nodes', async t => {
  const now = Date.UTC(2026, 0, 15, 0, 30)
  const minuteMs = 60_000
  const logged = (kind: string, began: number, ended: number | undefined, node: string | null = 'a') => ({
    ...{ network: 'devnet', node: node ?? undefined, kind, class: 'all', text: 'secret', severity: 'warning' as const, times: 1 },
    ...{ began: now - began * minuteMs, ended: ended === undefined ? undefined : now - ended * minuteMs },
  })
  const day = Math.floor(now / dayMs)
  const midnight = day * dayMs
  const recorded = [
    { network: 'devnet', day: day - 1, outages: [{ kind: 'down' as const, began: midnight - 10 * minuteMs, ended: midnight }] },
    { network: 'devnet', day, outages: [{ kind: 'down' as const, began: midnight, ended: midnight + 5 * minuteMs }] },
  ]
  const told = (incidents: readonly ReturnType<typeof logged>[], known: typeof recorded = []) =>
    networkIncidents(known, incidents, new Set(['partner']), now).map(({ state, because, began, ended }) => [
      ...[state, because, (now - began) / minuteMs, ended === undefined ? undefined : (now - ended) / minuteMs],
    ])
  t.same(told([], recorded), [['down', null, 40, 25]], 'over midnight it is one')
  t.same(told([logged('down', 40, 25, null)], recorded), [['down', null, 40, 25]], 'it is told once')
  t.same(told([logged('down', 28, 25, null)], recorded), [['down', null, 40, 25]], 'whole, where this gateway was started in it')
  t.same(
    told([logged('down', 40, 34, null), logged('down', 33, 25, null)], recorded),
    [['down', null, 40, 25]],
    'and as one, where others saw it last all the time',
  )
  t.same(told([logged('down', 28, undefined, null)], recorded), [['down', null, 40, undefined]], 'it lasts while this gateway sees it')
  t.same(
    told([logged('notUsable', 20, 10), logged('breaker', 15, 5, 'b'), logged('slow', 3, undefined)]),
    [
      ['degraded', 'slow', 3, undefined],
      ['degraded', 'nodes', 20, 5],
    ],
    'what several nodes have is one time',
  )
  t.same(
    told([logged('notUsable', 20, undefined), logged('down', 12, 4, null)]),
    [
      ['degraded', 'nodes', 4, undefined],
      ['down', null, 12, 4],
      ['degraded', 'nodes', 20, 12],
    ],
    'a network that is down is not degraded as well',
  )
  t.same(
    told([logged('drained', 20, 5), logged('breaker', 15, 10), logged('slow', 15, 10)]),
    [],
    'a node that an operator has drained is none of the usual ones',
  )
  t.same(
    told([logged('breaker', 20, 4), logged('drained', 15, 5), logged('notUsable', 3, 2, 'b')]),
    [
      ['degraded', 'nodes', 3, 2],
      ['degraded', 'nodes', 5, 4],
      ['degraded', 'nodes', 20, 15],
    ],
    'before and after that it is',
  )
  t.same(told([logged('notUsable', 20, 10, 'partner'), logged('slow', 9, undefined, 'partner')]), [], 'partners are none of its nodes')
  t.same(told([logged('suspect', 3, 2.95), logged('verify beacon-behind', 9, 1, null)]), [], 'no moments, and no plugins')
})

t.test('a share of the daily limit of a key is told once a day for each key that has a limit, and is not revoked', async t => {
  const scenario = await new AlertScenario(t).open()
  const { store, services } = scenario
  const receiver = await receiverFor(t)
  for (const [id, key] of [
    ['key_1', { name: 'indexer', dailyCredits: 1_000 }],
    ['key_2', { name: 'free' }],
    ['key_3', { name: 'old', dailyCredits: 1_000, revoked: 1 }],
  ] as const)
    await store.addKey(id, { id, account: 'acc_1', created: 0, hint: 'wxyz', ...key })
  await changeAlerts(services, 'acc_1', { webhook: receiver.url, daily: [], monthly: [], keyDaily: [90, 50, 75] })
  for (const id of ['key_1', 'key_2', 'key_3']) await scenario.spend(800, 'ok', id)
  const gateway = scenario.gateway()
  await scenario.round(gateway, scenario.gateway())
  await scenario.round(gateway)
  const messages = receiver.received.map(({ body }) => JSON.parse(body))
  t.same(messages.map(({ data }) => [data.key.name, data.threshold]).sort(), [
    ['indexer', 50],
    ['indexer', 75],
  ])
  const key = { id: 'key_1', name: 'indexer', hint: 'wxyz' }
  t.match(messages[0], { type: 'credits.threshold', data: { key, period: 'day', used: 800, limit: 1_000 } })
  t.match((await alertsJson(store, 'acc_1')).deliveries[0], { key: 'indexer …wxyz', period: 'day' })
  t.match(formatMessage({ format: 'slack' }, messages[0], undefined), /has used \d+ % of the daily limit of the key indexer …wxyz\\n/)
  scenario.clock.advance(dayMs)
  await scenario.spend(600, 'ok', 'key_1')
  await scenario.round(gateway)
  t.equal(receiver.received.length, 3)
})

t.test('a webhook that fails is tried again with back-off for a day, always as the same message; its state is shown', async t => {
  const scenario = await new AlertScenario(t).open()
  const receiver = await receiverFor(t)
  receiver.answerWith(500)
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url, daily: [75], monthly: [] })
  const gateways = [scenario.gateway(), scenario.gateway()]
  await scenario.spend(800)
  const attemptTimes: number[] = []
  const start = scenario.clock.now()
  for (let i = 0; i < 44; i += 1) {
    await scenario.round(...gateways)
    if (receiver.received.length > attemptTimes.length) attemptTimes.push(scenario.clock.now() - start)
  }
  t.same(attemptTimes, [5_000, 35_000, 95_000, 215_000], 'after 30, 60 and 120 s')
  t.match(await scenario.deliveries(), [{ state: 'pending', attempts: 4, lastStatus: 'HTTP 500' }])
  for (let hour = 0; hour < 26; hour += 1) {
    scenario.clock.advance(hourMs)
    await scenario.round(...gateways)
  }
  t.match(await scenario.deliveries(), [{ state: 'failed', lastStatus: 'HTTP 500' }])
  t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 1)
  t.equal(new Set(receiver.received.map(({ body }) => body)).size, 1)
  t.equal(scenario.countOf('failed'), 1)
  t.equal(scenario.countOf('retried'), receiver.received.length - 1)
  t.match(
    scenario.log.lines.filter(line => JSON.stringify(line).includes('alert-undelivered')),
    [{}],
    'one line in the log',
  )
  t.notMatch(JSON.stringify(scenario.log.lines), /127\.0\.0\.1|portal-secret-canary/)
})

t.test('a message that had no receiver for a day is not sent to the next one', async t => {
  const scenario = await new AlertScenario(t).open()
  const [first, second] = [await receiverFor(t), await receiverFor(t)]
  first.answerWith(500)
  await changeAlerts(scenario.services, 'acc_1', { webhook: first.url, daily: [75], monthly: [] })
  await scenario.spend(800)
  const gateway = scenario.gateway()
  await scenario.round(gateway)
  await changeAlerts(scenario.services, 'acc_1', { webhook: null })
  scenario.clock.advance(25 * hourMs)
  await changeAlerts(scenario.services, 'acc_1', { webhook: second.url })
  await scenario.round(gateway)
  t.equal(second.received.length, 0)
  t.match(await scenario.deliveries(), [{ state: 'failed', attempts: 1, lastStatus: 'HTTP 500' }])
  t.equal(scenario.countOf('failed'), 1)
})

t.test('when the clock goes back by hours, alerts go on, and messages are tried again', async t => {
  const scenario = await new AlertScenario(t).open()
  const receiver = await receiverFor(t)
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url, daily: [10, 50], monthly: [] })
  const gateway = scenario.gateway()
  receiver.answerWith(500)
  await scenario.spend(100)
  await scenario.round(gateway)
  scenario.clock.shiftWallClock(-3 * hourMs)
  receiver.answerWith(204)
  await scenario.spend(400)
  await scenario.round(gateway)
  await waitUntil(async () => (await scenario.deliveries()).every(({ state }) => state === 'delivered'))
  t.same(receiver.received.map(({ json }) => json.data.threshold).sort(), [10, 10, 50])
})

t.test('a gateway that is killed while it sends leaves the message to another', async t => {
  const scenario = await new AlertScenario(t).open()
  const receiver = await receiverFor(t)
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url, daily: [75], monthly: [] })
  await scenario.spend(800)
  receiver.answerWith(0)
  // Its store is gone from one moment to the next: it can neither record the outcome nor give the lock back.
  const fail = () => Promise.reject(new Error('killed'))
  const dead = { ...scenario.store, putRecord: fail, replaceRecord: fail }
  const killed = scenario.gateway({ store: dead })
  scenario.clock.advance(roundIntervalMs)
  await killed.run()
  await waitUntil(() => receiver.received.length === 1)
  await killed.stop()
  receiver.answerWith(204)
  const other = scenario.gateway()
  const [delivery] = await scenario.deliveries()
  await other.deliverer.attempt(delivery?.id ?? '', () => ({ kind: 'none', why: 'the lock has not expired' }))
  t.equal(receiver.received.length, 1, 'not before the lock has expired')
  scenario.clock.advance(120_000)
  await scenario.round(other)
  t.match(await scenario.deliveries(), [{ state: 'delivered', lastStatus: 'HTTP 204' }])
  t.equal(receiver.received.length, 2)
  t.equal(receiver.received[0]?.headers['webhook-id'], receiver.received[1]?.headers['webhook-id'])
})

t.test('owners with a confirmed address get mail, once; others do not', async t => {
  const scenario = await new AlertScenario(t).open()
  const mail = await startMailServer()
  t.teardown(() => mail.stop())
  const { store, log } = scenario
  for (const [name, role] of [
    ['olga', 'owner'],
    ['vera', 'viewer'],
  ] as const) {
    await setEmail(store, await addPerson(store, { account: 'acc_1', name, role }), `${name}@example.org`, true)
  }
  await addPerson(store, { account: 'acc_1', name: 'without', role: 'owner' })
  await setEmail(store, await addPerson(store, { account: 'acc_1', name: 'unconfirmed', role: 'owner' }), 'unconfirmed@example.org')
  await changeAlerts(scenario.services, 'acc_1', { email: true, monthly: [] })
  const sendMail = openMailer({ url: new Secret(mail.url), from: 'Tollgate <no-reply@example.org>' }, log)
  const gateways = [scenario.gateway({ sendMail }), scenario.gateway({ sendMail })]
  await scenario.spend(800)
  for (let i = 0; i < 3; i += 1) await scenario.round(...gateways)
  t.match(mail.received, [{ to: 'olga@example.org', message: /Subject: Tollgate: alice has used 75 % of its daily credits/ }])
  t.match(mail.received[0]?.message, /used 800 of 1000 credits of 2026-01-15/)
  t.match(mail.received[0]?.message, /Message-ID: <msg_/i)
  mail.refuseAll()
  await scenario.spend(100)
  await scenario.round(...gateways)
  t.match(
    (await scenario.deliveries()).filter(({ state }) => state === 'pending'),
    [{ channel: 'email', lastStatus: 'not accepted by the mail server' }],
  )
  t.notMatch(JSON.stringify(log.lines), /olga@example|mail-canary/)
})

t.test('mail that waits for another attempt goes to nobody who is no owner any more', async t => {
  const scenario = await new AlertScenario(t).open()
  const { store } = scenario
  const olga = await addPerson(store, { account: 'acc_1', name: 'olga', role: 'owner' })
  await setEmail(store, olga, 'olga@example.org', true)
  await changeAlerts(scenario.services, 'acc_1', { email: true, daily: [75], monthly: [] })
  await scenario.spend(800)
  const sent: string[] = []
  const gateway = scenario.gateway({ sendMail: async ({ to }) => sent.push(to) > 1 })
  await scenario.round(gateway)
  t.equal(await changeRole(store, olga, 'viewer'), true)
  scenario.clock.advance(hourMs)
  await scenario.round(gateway)
  t.same(sent, ['olga@example.org'])
  t.match(await scenario.deliveries(), [{ state: 'pending', attempts: 2, lastStatus: 'no owner with a confirmed address any more' }])
  t.equal(await changeRole(store, { ...olga, role: 'viewer' }, 'owner'), true)
  scenario.clock.advance(hourMs)
  await scenario.round(gateway)
  t.same(sent, ['olga@example.org', 'olga@example.org'])
})

t.test('a gateway stops within 2 s while the mail server hangs; the mail stays pending', async t => {
  const scenario = await new AlertScenario(t).open()
  const { store, clock } = scenario
  await setEmail(store, await addPerson(store, { account: 'acc_1', name: 'olga', role: 'owner' }), 'olga@example.org', true)
  await changeAlerts(scenario.services, 'acc_1', { email: true, monthly: [] })
  await scenario.spend(800)
  let mails = 0
  const gateway = scenario.gateway({ sendMail: () => new Promise(() => void (mails += 1)) })
  await gateway.run()
  await waitUntil(() => mails === 1)
  const stopped = gateway.stop()
  clock.advance(2_000)
  t.equal(await withTimeoutOr(systemClock, 5_000, stopped, () => 'still running'), undefined)
  t.match(await scenario.deliveries(), [{ channel: 'email', state: 'pending', attempts: 0 }])
})

t.test('a receiver is told of 10 thresholds a day at most, however often they are changed', async t => {
  const scenario = await new AlertScenario(t).open()
  const receiver = await receiverFor(t)
  await changeAlerts(scenario.services, 'acc_1', { webhook: receiver.url })
  await scenario.spend(900)
  const gateway = scenario.gateway()
  for (const first of [1, 11, 21]) {
    await changeAlerts(scenario.services, 'acc_1', { daily: Array.from({ length: 7 }, (_, i) => first + i), monthly: [] })
    await scenario.round(gateway)
  }
  t.equal((await scenario.deliveries()).length, 10)
  t.equal(receiver.received.length, 10)
  scenario.clock.advance(dayMs)
  await scenario.spend(900)
  await scenario.round(gateway)
  t.equal((await scenario.deliveries()).length, 17, 'another day')
})

t.test('webhooks reach no private address', async t => {
  const receiver = await receiverFor(t)
  const { port } = receiver
  const clock = new TestClock()
  const post = (url: string, resolve: ResolveHost = resolveHost, allowed: readonly string[] = []) => {
    const client = { clock, resolve, isAllowed: webhookAddressRule(allowed) }
    return postWebhook({ url, headers: {}, body: '{}', signal: new AbortController().signal }, client)
  }
  const refused = { isDelivered: false, status: /^the address of the webhook is private/ }

  t.test('written as an address, in any spelling', async t => {
    const hosts = [
      ...['127.0.0.1', '127.1', '0x7f.1', '2130706433', '017700000001', '0.0.0.0', '10.1.2.3', '172.16.0.1', '172.31.255.255'],
      ...['192.168.1.1', '169.254.169.254', '100.64.0.1', '198.18.0.1', '224.0.0.1', '255.255.255.255', '192.0.2.1', '１２７.0.0.1'],
      ...[
        '[::1]',
        '[::]',
        '[::ffff:127.0.0.1]',
        '[::ffff:7f00:1]',
        '[::127.0.0.1]',
        '[fe80::1]',
        '[fc00::1]',
        '[fd00:ec2::254]',
        '[ff02::1]',
      ],
      ...['[64:ff9b::7f00:1]', '[2002:7f00:1::]', '[2001::1]', '[2001:db8::1]', 'localhost', 'LOCALHOST', 'localhost.', 'x.localhost'],
    ]
    for (const host of hosts) t.match(await post(`http://${host}:${port}/`), refused, host)
    t.equal(receiver.connections, 0)
  })

  t.test('behind a name, also when only one of its addresses is private', async t => {
    for (const address of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '10.0.0.1', '169.254.169.254', 'fe80::1%1']) {
      t.match(await post(`http://hooks.test:${port}/`, async () => [address]), refused, address)
      t.match(
        await post(`http://hooks.test:${port}/`, async () => ['93.184.215.14', address]),
        refused,
        `beside a public address: ${address}`,
      )
    }
    t.equal(receiver.connections, 0)
  })

  t.test('behind a name that resolves to another address than before', async t => {
    const answers = [['127.0.0.1'], ['127.0.0.2']]
    const rebinding: ResolveHost = async () => answers.shift() ?? []
    t.match(await post(`http://hooks.test:${port}/`, rebinding, ['127.0.0.1']), { isDelivered: true })
    t.match(await post(`http://hooks.test:${port}/`, rebinding, ['127.0.0.1']), refused)
    t.equal(receiver.connections, 1)
  })

  t.test('behind a redirect', async t => {
    const before = receiver.received.length
    for (const status of [301, 302, 303, 307, 308]) {
      receiver.answerWith(status, { location: `http://127.0.0.1:${port}/other` })
      t.match(await post(receiver.url, resolveHost, ['127.0.0.1']), {
        isDelivered: false,
        status: `HTTP ${status}: redirects are not followed`,
      })
    }
    t.same(
      receiver.received.slice(before).map(({ path }) => path),
      ['/hook', '/hook', '/hook', '/hook', '/hook'],
    )
  })

  t.test('a name that DNS has no address for, or does not answer for, is what is said to have failed', async t => {
    const responseCodes: Readonly<Record<string, number>> = { none: 3, broken: 2 }
    const nameServer = createSocket('udp4').on('message', (query, { port: from }) => {
      const name = query.subarray(13, 13 + (query[12] ?? 0)).toString()
      const response = Buffer.from(query)
      response.writeUInt16BE(0x8180 | (responseCodes[name] ?? 0), 2)
      nameServer.send(response, from, '127.0.0.1')
    })
    await once(nameServer.bind(0, '127.0.0.1'), 'listening')
    t.teardown(() => nameServer.close())
    const resolve = createHostResolver([`127.0.0.1:${nameServer.address().port}`])
    const statusFor = async (name: string) => (await post(`http://${name}.example/`, resolve)).status
    t.equal(await statusFor('none'), 'DNS has no address for the host name of the webhook', 'NXDOMAIN')
    t.equal(await statusFor('empty'), 'DNS has no address for the host name of the webhook', 'no record')
    t.equal(await statusFor('broken'), 'DNS did not resolve the host name of the webhook (ESERVFAIL)')
  })

  t.test('public addresses are allowed, and those that the operator names', t => {
    const isAllowed = webhookAddressRule(['10.1.0.0/16', 'fd00::/8'])
    for (const address of ['93.184.215.14', '8.8.8.8', '172.32.0.1', '2606:4700::1111', '10.1.2.3', 'fd12::1'])
      t.ok(isAllowed(address), address)
    for (const address of ['10.2.0.1', 'fe80::1', '::1', 'hooks.test', '']) t.notOk(isAllowed(address), address)
    t.end()
  })

  t.test('a receiver that does not answer is given up after 10 s, and one without an end is not read', async t => {
    receiver.answerWith(0)
    const waiting = receiver.received.length
    const outcome = post(receiver.url, resolveHost, ['127.0.0.1'])
    await waitUntil(() => receiver.received.length > waiting)
    clock.advance(10_000)
    t.match(await outcome, { isDelivered: false, status: 'no response within 10 s' })
    const hanging = post('http://hooks.test/', () => new Promise(() => undefined))
    clock.advance(10_000)
    t.match(await hanging, { isDelivered: false, status: 'DNS did not resolve the host name of the webhook within 10 s' })
    const server = http.createServer((_request, response) => {
      const write = (): void => void (response.destroyed || response.write('x'.repeat(65_536), () => setImmediate(write)))
      write()
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.teardown(() => server.close())
    const endless = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    t.match(await post(endless, resolveHost, ['127.0.0.1']), { isDelivered: true, status: 'HTTP 200' })
  })

  t.test('a response decides by its status, whether its body ends or not; a change of protocols is a failure', async t => {
    const statusOf = async (response: string): Promise<unknown> => {
      const server = net.createServer(socket => {
        socket.on('error', () => undefined)
        socket.once('data', () => socket.write(response))
      })
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const outcome = post(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, resolveHost, ['127.0.0.1'])
      const [socket] = (await once(server, 'connection')) as [net.Socket]
      await waitUntil(() => socket.bytesWritten >= response.length)
      // The response has arrived when nothing is left to read.
      for (let i = 0; i < 20; i += 1) await new Promise(setImmediate)
      clock.advance(10_000)
      const result = await withTimeoutOr(systemClock, 5_000, outcome, () => 'no outcome')
      server.close()
      return result
    }
    t.same(await statusOf('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'), { isDelivered: true, status: 'HTTP 200' })
    const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'
    t.same(await statusOf(upgrade), { isDelivered: false, status: 'HTTP 101' })
  })
})

t.test('dead webhooks of many accounts hold neither sockets beyond a limit nor the others', async t => {
  const scenario = await new AlertScenario(t).open()
  const [dead, alive] = [await receiverFor(t), await receiverFor(t)]
  dead.answerWith(0)
  const { store, services } = scenario
  const add = async (id: string, url: string): Promise<void> => {
    await store.addAccount({ id, name: id, plan: 'core', created: 0 })
    await changeAlerts(services, id, { webhook: url, daily: [75], monthly: [] })
    await scenario.spend(800, 'ok', id)
  }
  for (let i = 0; i < 70; i += 1) await add(`acc_dead${i}`, dead.url)
  await add('acc_alive', alive.url)
  const gateway = scenario.gateway()
  const statesOf = async (id: string) => (await listDeliveries(store, id)).map(({ state }) => state)
  const isDelivered = async () => (await statesOf('acc_alive'))[0] === 'delivered'
  // On a busy machine the time of a delivery may be over before its request is sent: it is tried again.
  for (let rounds = 0; !(await isDelivered()) && rounds < 200; rounds += 1) {
    const before = dead.connections
    scenario.clock.advance(roundIntervalMs)
    await gateway.run()
    t.ok(dead.connections - before <= 64)
    for (let turns = 0; turns < 20; turns += 1) await new Promise(setImmediate)
    // Their time is over.
    scenario.clock.advance(10_000)
    await new Promise(setImmediate)
  }
  t.ok(await isDelivered())
  t.same(await statesOf('acc_dead0'), ['pending'])
})

t.test(
  'two gateways with workers on one Redis tell an account once; its owner and the operator see that',
  { skip: skipWithoutRedis },
  async t => {
    const [redis, node, receiver] = [
      await startRedisServer('--appendonly', 'yes'),
      await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_gasPrice: { result: '0x7' } }),
      await receiverFor(t),
    ]
    const adminToken = 'canary-operator-token'
    const deployment = createPortalDeployment(node.url, {
      gateway: {
        store: redis.url,
        workers: 2,
        admin: { token: adminToken },
        portal: { url: 'http://127.0.0.1', secret: 'canary-portal-secret', webhooks: { allow: ['127.0.0.1'] } },
      },
    })
    t.teardown(async () => {
      await deployment.remove()
      await Promise.all([node.stop(), redis.remove()])
    })
    await deployment.addAccount('alice')
    await deployment.run('accounts', 'set', 'alice', '--credits', '4000')
    const [one, other] = await Promise.all([deployment.start(), deployment.start()])
    const operator = createPortalClient(one.admin, adminToken)
    const owner = await signInToPortal(deployment, one, 'alice')
    const { key } = await deployment.addKey('alice')

    t.test('owners alone set alerts, in words about what is wrong', async t => {
      const developer = await signInToPortal(deployment, one, 'alice', '--person', 'dan', '--role', 'developer')
      t.equal((await developer.get('/alerts')).status, 403)
      t.match((await owner.get('/alerts')).json, {
        webhook: null,
        email: false,
        daily: [75, 85, 100],
        monthly: [75, 85, 100],
        ...{ errorRate: 0, latency: 0, window: 15, minCalls: 100, incidents: [] },
        mailReceivers: [],
        deliveries: [],
      })
      const cases: readonly (readonly [method: string, path: string, body: object, error: object])[] = [
        ['PATCH', '/alerts', { daily: [0] }, { field: 'daily.0' }],
        ['PATCH', '/alerts', { daily: [101] }, { field: 'daily.0' }],
        ['PATCH', '/alerts', { monthly: Array(11).fill(1) }, { field: 'monthly' }],
        ['PATCH', '/alerts', { keyDaily: [0] }, { field: 'keyDaily.0' }],
        ['PATCH', '/alerts', { errorRate: 101 }, { field: 'errorRate' }],
        ['PATCH', '/alerts', { latency: -1 }, { field: 'latency' }],
        ['PATCH', '/alerts', { window: 61 }, { field: 'window' }],
        ['PATCH', '/alerts', { minCalls: 9 }, { field: 'minCalls' }],
        ['PATCH', '/alerts', { email: true }, { field: 'email', message: /this gateway has no mail server/ }],
        ['POST', '/alerts/webhook', { url: 'ftp://example.org/' }, { field: 'url', message: /must be a URL such as/ }],
        ['POST', '/alerts/webhook', { url: 'https://user:password@example.org/' }, { field: 'url' }],
      ]
      for (const [method, path, body, error] of cases) {
        t.match(await owner.request(method, path, body), { status: 400, json: { error } }, JSON.stringify(body))
      }
      t.match(await owner.post('/alerts/test'), { status: 409, json: { error: { code: 'no-webhook' } } })
      t.match(await owner.post('/alerts/test?channel=email'), { status: 404, json: { error: { code: 'no-mail' } } })
    })

    t.test('the operator sets alerts too; the log of changes has the host of a webhook and no more of it', async t => {
      const webhook = `${receiver.url}/of-operator`
      const { status, json } = await operator.request('PATCH', '/accounts/alice/alerts', { webhook })
      t.match({ status, json }, { status: 200, json: { webhook: { url: webhook }, secret: /^whsec_/, enabled: true } })
      t.match(await operator.request('PATCH', '/accounts/alice/alerts', { email: true }), {
        status: 400,
        json: { error: { field: 'email', message: /this gateway has no mail server/ } },
      })
      t.match((await operator.request('PATCH', '/accounts/alice/alerts', { daily: [85, 75, 85] })).json, { daily: [75, 85] })
      t.match((await operator.request('PATCH', '/accounts/alice/alerts', { webhook: 'none' })).json, { webhook: null, secret: null })
      t.match((await operator.get('/accounts/alice/alerts')).json, { daily: [75, 85], monthly: [75, 85, 100] })
      const { stdout } = await deployment.run('changes', '--from', '2020-01-01', '--account', 'alice', '--json')
      const origin = new URL(receiver.url).origin
      t.match(
        JSON.parse(stdout).findLast(({ action }: { action: string }) => action === 'alerts-changed'),
        {
          before: { webhook: origin },
          after: { webhook: null },
        },
      )
      t.notMatch(stdout, /of-operator|whsec_/)
    })

    t.test('each threshold is told once', async t => {
      const { json: webhook } = await owner.post('/alerts/webhook', { url: receiver.url })
      t.match((await owner.post('/alerts/test')).json, { isDelivered: true, status: 'HTTP 204' })
      t.match(receiver.received, [{ json: { type: 'test' } }])
      // The four workers hold at most 160 credits each, so that none is refused for what another holds.
      for (let i = 0; i < 19; i += 1)
        for (const gateway of [one, other]) t.match(await call(gateway.http(key), 'eth_gasPrice'), { result: '0x7' })
      await waitUntil(() => receiver.received.length >= 2)
      await waitUntil(async () => (await owner.get('/alerts')).json.deliveries[0]?.state === 'delivered')
      await one.kill()
      for (let i = 0; i < 5; i += 1) t.match(await call(other.http(key), 'eth_gasPrice'), { result: '0x7' })
      await waitUntil(() => receiver.received.length >= 3)
      t.same(
        receiver.received.map(({ json }) => json.data.threshold),
        [undefined, 75, 85],
      )
      for (const message of receiver.received) t.ok(isSigned(message, webhook.secret))
      const moved = createPortalClient(other.portal ?? '')
      const shown = async () => (await moved.request('GET', '/alerts', undefined, { cookie: owner.cookies() })).json
      await waitUntil(async () => (await shown()).deliveries.every(({ state }: { state: string }) => state === 'delivered'))
      t.match(await shown(), { webhook: { url: receiver.url }, deliveries: [{ lastStatus: 'HTTP 204' }, { lastStatus: 'HTTP 204' }] })
      const metrics = await (await fetch(`${other.admin}/metrics`)).text()
      t.match(metrics, /tollgate_alert_deliveries_total\{recipient="account",channel="webhook",result="delivered"\} [12]/)
      t.match(metrics, /tollgate_alert_deliveries_total\{recipient="operators",channel="email",result="failed"\} 0/, 'from 0 on')
      const traces = JSON.stringify([receiver.received, one.log, other.log, await shown()])
      for (const canary of [key, adminToken, 'canary-portal-secret', webhook.secret]) t.notOk(traces.includes(canary))
    })

    t.test('a share of the daily limit of a key is told while the processes that serve the key go on', async t => {
      await deployment.run('accounts', 'set', 'alice', '--credits', '400000')
      const limited = JSON.parse((await deployment.run('keys', 'add', 'alice', '--credits', '1000', '--json')).stdout)
      const settings = { daily: [], monthly: [], keyDaily: [50, 90] }
      t.match(await createPortalClient(other.admin, adminToken).request('PATCH', '/accounts/alice/alerts', settings), { status: 200 })
      const before = receiver.received.length
      for (let i = 0; i < 7; i += 1) t.match(await call(other.http(limited.key), 'eth_gasPrice'), { result: '0x7' })
      await waitUntil(() => receiver.received.length > before)
      t.match(receiver.received[before]?.json.data, { key: { id: limited.id }, threshold: 50, used: 560, limit: 1_000 })
    })
  },
)
