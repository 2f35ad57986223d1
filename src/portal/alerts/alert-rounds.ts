import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { NetworkStatus } from '../../server/network-status.ts'
import type { LazyStore } from '../../store/lazy-store.ts'
import type { AccountRow } from '../../store/store.ts'
import { dayMs, isoTime } from '../../util/dates.ts'
import { startRounds } from '../../services/rounds.ts'
import type { BackgroundTask } from '../../services/rounds.ts'
import type { MaybePromise } from '../../util/async.ts'
import { tryLock } from '../concurrent-changes.ts'
import { listVerifiedOwners } from '../people/people.ts'
import { alertBuckets, hasReceiver, listAlertSettings, maxThresholds } from './alert-settings.ts'
import type { AlertSettings } from './alert-settings.ts'
import { Deliverer, isDue } from './delivery-attempts.ts'
import type { DelivererOptions, DeliveryTarget, FindTarget } from './delivery-attempts.ts'
import { addDelivery, listDeliveries, replaceDelivery } from './delivery-records.ts'
import type { AccountDelivery, AlertContent, Delivery } from './delivery-records.ts'
import { updateIncidents } from './incidents.ts'
import { observationStepOf, recordFirstDay, recordObserved, recordOutage } from './outage-days.ts'
import { contentsOfOutage, endOfOutage, outagesOf } from './network-outages.ts'
import type { NetworkOutage } from './network-outages.ts'
import { OperatorAlerts } from './operator-alerts.ts'
import type { OperatorAlertOptions } from './operator-alerts.ts'
import { SharedIncidents } from './shared-incidents.ts'
import type { SharedIncidentsOptions } from './shared-incidents.ts'
import { readReachedThresholds } from './thresholds.ts'
import type { ThresholdServices } from './thresholds.ts'
import { webhookAddressRule } from './webhook-addresses.ts'

export interface AlertOptions extends Omit<DelivererOptions, 'store'> {
  readonly store: LazyStore
  readonly plans: ThresholdServices['plans']
  /** Private addresses that webhooks of accounts may have. */
  readonly allowedSubnets: readonly string[]
  /** Of the networks of the gateway, after reloads too. */
  networkNames(): readonly string[]
  /** How they are for this gateway. */
  networkStatuses(): MaybePromise<readonly Pick<NetworkStatus, 'name' | 'state'>[]>
  /** Undefined where operators are told of nothing. */
  readonly operators?: Pick<OperatorAlertOptions, 'receivers' | 'operatorUrl'> | undefined
  readonly incidents: SharedIncidentsOptions['incidents']
}

/** Of several gateways of one configuration, one at a time does a round. */
export const roundIntervalMs = 5_000

/** A receiver that does not answer takes one of these for 10 s; what is due beyond waits, in the store, for the next round. */
const maxConcurrentDeliveries = 64

/**
 * Checked together: their requests to Redis wait together, and LMDB commits what they write at once. The first round of 1,000 accounts on
 * LMDB takes 1.1 s of CPU; one account at a time it took 2.0 s, and three times as long.
 */
const accountsPerTurn = 16

/** Observed together, which takes two requests to the store each: far away, 500 networks wait for twenty times its distance. */
const networksPerTurn = 50

/** How long owners see what was sent. */
const deliveryRetentionMs = 7 * dayMs

/** Outages of the networks of this gateway, and what lasts of others: a network that was taken out of the configuration does not answer again. */
interface ToldOutages {
  readonly current: readonly NetworkOutage[]
  /** A gateway has told whom it could of their ends. Who was told that one began, and nothing since, still is. */
  readonly past: readonly NetworkOutage[]
}

/** What an account may be told of. */
interface Alert {
  readonly content: AlertContent
  /** When it is over, in ms since 1970. */
  readonly endsAt: number
}

/** Tells accounts which thresholds they have reached, and operators and accounts of incidents. */
export class AlertRounds {
  readonly deliverer: Deliverer
  readonly #options: AlertOptions
  readonly #isAllowed: (address: string) => boolean
  readonly #incidents: SharedIncidents
  readonly #operatorAlerts: OperatorAlerts | undefined
  readonly #inFlight = new Map<string, Promise<void>>()
  /** Networks whose first day is in the store, and the last step of time in which each was observed. */
  readonly #observed = new Map<string, number | undefined>()
  #isStopped = false

  constructor(options: AlertOptions) {
    this.#options = options
    this.deliverer = new Deliverer(options)
    this.#isAllowed = webhookAddressRule(options.allowedSubnets)
    this.#incidents = new SharedIncidents(options)
    const { operators } = options
    this.#operatorAlerts = operators && new OperatorAlerts({ ...options, ...operators })
  }

  /** Resolves before what it sends has been answered. Rejects where the store fails. */
  async run(): Promise<void> {
    await this.#incidents.report()
    await this.#sendAlerts()
    await this.#observe()
  }

  /** One round, unless another gateway of the configuration does one. */
  async #sendAlerts(): Promise<void> {
    const { store } = this.#options
    const names = this.#options.networkNames()
    // Never released: the next round is due when the lock ends.
    if ((await tryLock(this.#options, this.#lockOf(names), roundIntervalMs - 1)) === undefined) return
    const incidents = await this.#incidents.list()
    const toldOutages = (hasEnded: boolean) =>
      outagesOf(incidents.filter(each => each.hasEnded === hasEnded)).filter(
        ({ network, ended }) => ended === null || names.includes(network),
      )
    const outages: ToldOutages = { current: toldOutages(false), past: toldOutages(true) }
    await this.#operatorAlerts?.update(incidents, (id, findTarget) => this.#start(id, findTarget))
    // From another place each time: nobody is always the last whom the limit of deliveries leaves for the next round.
    const start = Math.floor(Math.random() * alertBuckets.length)
    for (const bucket of [...alertBuckets.slice(start), ...alertBuckets.slice(0, start)]) {
      await this.#inTurns(await listAlertSettings(store, bucket), accountsPerTurn, settings => this.#check(settings, outages))
      if (this.#isStopped) return
    }
    for (const incident of incidents) {
      if (incident.ended === null || incident.hasEnded) continue
      for (const outage of outagesOf([incident])) await recordEnded(store, outage)
      await this.#incidents.end(incident)
    }
  }

  /** Gateways that tell others, or of other networks, have rounds of their own: each message is sent once all the same. */
  #lockOf(networks: readonly string[]): string {
    const { operators, sendMail } = this.#options
    const { mail = [], severity, webhooks = {} } = operators?.receivers ?? {}
    const receivers = [mail, severity, Object.entries(webhooks).map(([name, each]) => [name, each.severity]), sendMail !== undefined]
    return `alert-round ${hash('sha256', JSON.stringify([networks.toSorted(), receivers]), 'base64url')}`
  }

  /** Each gateway: a network may have its calls at another one. */
  async #observe(): Promise<void> {
    const { store, clock, networkNames, networkStatuses } = this.#options
    const now = clock.now()
    const step = observationStepOf(now)
    const names = networkNames()
    const added = names.filter(name => !this.#observed.has(name))
    await this.#inTurns(added, networksPerTurn, async name => {
      await recordFirstDay(store, name, now)
      this.#observed.set(name, undefined)
    })
    if (names.every(name => this.#observed.get(name) === step)) return
    const observed = (await networkStatuses()).filter(({ name, state }) => state !== 'unknown' && this.#observed.get(name) !== step)
    await this.#inTurns(observed, networksPerTurn, async ({ name }) => {
      await recordObserved(store, name, now)
      this.#observed.set(name, step)
    })
  }

  /** So many at once, until it is stopped. */
  async #inTurns<T>(values: readonly T[], perTurn: number, run: (value: T) => Promise<void>): Promise<void> {
    for (let from = 0; from < values.length && !this.#isStopped; from += perTurn) {
      await Promise.all(values.slice(from, from + perTurn).map(run))
      // LMDB is read without a pause: calls get their turn.
      await setImmediate()
    }
  }

  /** Waits for what is being sent, which is aborted. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.deliverer.stop()
    await Promise.all(this.#inFlight.values())
  }

  async #check(settings: AlertSettings, outages: ToldOutages): Promise<void> {
    const { store, clock } = this.#options
    const { account, webhook, email } = settings
    if (!hasReceiver(settings)) return
    const row = await store.account(account)
    if (row === undefined) return
    const known = new Map((await listDeliveries(store, account)).map(delivery => [delivery.id, delivery]))
    for (const delivery of await this.#newDeliveries(await this.#alerts(row, settings, outages), settings, known)) {
      // Another gateway may be quicker.
      if (await addDelivery(store, delivery)) known.set(delivery.id, delivery)
    }
    await this.#keepOf(outages.current, known)
    for (const delivery of known.values()) {
      const isWanted = delivery.channel === 'webhook' ? webhook !== undefined : email
      if (isWanted && isDue(delivery, clock.now())) this.#start(delivery.id, each => this.#accountTarget(each, settings))
    }
  }

  /** While an outage lasts, it is known who was told that it began: they are told of its end. */
  async #keepOf(outages: readonly NetworkOutage[], known: ReadonlyMap<string, AccountDelivery>): Promise<void> {
    const { store, clock } = this.#options
    const now = clock.now()
    for (const delivery of known.values()) {
      const { message, state, expires } = delivery
      if (message.type !== 'incident.began' || state === 'pending' || expires > now + deliveryRetentionMs) continue
      const { network, kind, began } = message.data
      if (outages.some(each => each.network === network && each.kind === kind && each.began === began))
        await replaceDelivery(store, { ...delivery, expires: now + dayMs + deliveryRetentionMs })
    }
  }

  /** Whether the account has been told of them or not. */
  async #alerts(row: AccountRow, settings: AlertSettings, { current, past }: ToldOutages): Promise<readonly Alert[]> {
    const account = { id: row.id, name: row.name }
    const now = this.#options.clock.now()
    const isWanted = ({ network }: NetworkOutage): boolean => settings.networks.includes(network)
    const thresholds = await readReachedThresholds(this.#options, row, settings)
    const incidents = await updateIncidents(this.#options, row, settings)
    return [
      ...thresholds.map(({ message: data, endsAt }) => ({ content: { type: 'credits.threshold' as const, data }, endsAt })),
      ...incidents.map(({ type, ...data }) => ({ content: { type, data: { account, ...data } }, endsAt: Date.parse(data.since) + dayMs })),
      ...[
        ...current.filter(isWanted).flatMap(outage => contentsOfOutage(outage, account, now)),
        ...past.filter(isWanted).flatMap(outage => endOfOutage(outage, account)),
      ].map(content => ({ content, endsAt: now + dayMs })),
    ]
  }

  async #newDeliveries(
    alerts: readonly Alert[],
    { account, webhook, email }: AlertSettings,
    known: ReadonlyMap<string, AccountDelivery>,
  ): Promise<readonly AccountDelivery[]> {
    const { store, clock, sendMail } = this.#options
    if (alerts.length === 0) return []
    const people = email && sendMail !== undefined ? await listVerifiedOwners(store, account) : []
    const receivers: readonly Receiver[] = [
      ...(webhook === undefined ? [] : [{ channel: 'webhook' as const }]),
      ...people.map(({ id }) => ({ channel: 'email' as const, person: id })),
    ]
    const now = clock.now()
    return receivers.flatMap(receiver =>
      [...new Set(alerts.map(({ content }) => identityOf(content).period))].flatMap(period => {
        const ofPeriod = alerts.filter(({ content }) => identityOf(content).period === period)
        const told = [...known.values()].filter(each => isFor(receiver, each) && identityOf(each.message).period === period).length
        const deliveries = ofPeriod
          .filter(
            ({ content }) =>
              content.type !== 'incident.ended' || known.has(deliveryId(account, receiver, { ...content, type: 'incident.began' })),
          )
          .map(alert => newDelivery(account, receiver, alert, now))
          .filter(({ id }) => !known.has(id))
        return deliveries.slice(0, Math.max(0, maxThresholds - told))
      }),
    )
  }

  async #accountTarget({ channel, person = '' }: Delivery, { account, webhook }: AlertSettings): Promise<DeliveryTarget> {
    const { store, portalUrl } = this.#options
    if (channel === 'webhook')
      return webhook === undefined
        ? { kind: 'none', why: 'the account has no webhook any more' }
        : { kind: 'webhook', webhook: { account, webhook, isAllowed: this.#isAllowed } }
    // Who was an owner when the alert began may be none by now.
    const to = (await listVerifiedOwners(store, account)).find(({ id }) => id === person)?.email
    if (to === undefined) return { kind: 'none', why: 'no owner with a confirmed address any more' }
    const footer = [`Figures: ${portalUrl}/`, `Owners of the account change alerts here: ${portalUrl}/alerts`]
    return { kind: 'email', to, footer }
  }

  #start(id: string, findTarget: FindTarget): void {
    if (this.#isStopped || this.#inFlight.has(id) || this.#inFlight.size >= maxConcurrentDeliveries) return
    const attempt = this.deliverer
      .attempt(id, findTarget)
      // The store is unreachable, which the ledger logs: a later round tries again.
      .catch(() => undefined)
      .finally(() => this.#inFlight.delete(id))
    this.#inFlight.set(id, attempt)
  }
}

/** For the status of the network. */
const recordEnded = async (store: AlertOptions['store'], { network, kind, began, ended }: NetworkOutage): Promise<void> => {
  if (ended !== null) await recordOutage(store, { network, kind, began: Date.parse(began), ended: Date.parse(ended) })
}

interface AlertIdentity {
  /** Tells the alert from others of the account. */
  readonly name: string
  /** In which a receiver is told of so many alerts at most: a day, a month, a day of all keys, or the day on which incidents of one type began. */
  readonly period: string
}

const identityOf = ({ type, data }: AlertContent): AlertIdentity => {
  switch (type) {
    case 'credits.threshold':
      return data.key === undefined
        ? { name: `${data.date} ${data.threshold}`, period: data.date }
        : { name: `${data.date} ${data.threshold} ${data.key.id}`, period: `keys ${data.date}` }
    case 'errors.threshold':
    case 'latency.threshold':
      return { name: `${type} ${data.since}`, period: `${type} ${dayOf(data.since)}` }
    case 'incident.began':
    case 'incident.ended':
      return { name: [type, data.network, data.kind, data.began].join(' '), period: `${type} ${dayOf(data.began)}` }
  }
}

const dayOf = (time: string): string => time.slice(0, '2026-01-15'.length)

type Receiver = Pick<Delivery, 'channel' | 'person'>

const isFor = ({ channel, person }: Receiver, delivery: AccountDelivery): boolean =>
  delivery.channel === channel && delivery.person === person

const deliveryId = (account: string, { channel, person }: Receiver, content: AlertContent): string =>
  [account, identityOf(content).name, channel, ...(person === undefined ? [] : [person])].join(' ')

const newDelivery = (account: string, receiver: Receiver, { content, endsAt }: Alert, now: number): AccountDelivery => {
  const id = deliveryId(account, receiver, content)
  const message = { ...content, timestamp: isoTime(now) }
  const times = { created: now, nextAttempt: now, lastAttempt: undefined, expires: endsAt + deliveryRetentionMs }
  return { id, account, ...receiver, message, state: 'pending', attempts: 0, lastStatus: undefined, ...times }
}

/**
 * Rounds take a tenth of one CPU at most, unless one takes longer than 7 s. With 10,000 accounts on LMDB a round takes 0.3 s of CPU. The
 * first one adds up and stores the days of the month for each account, which takes 1.1 s for 1,000 accounts.
 */
const restFactor = 9
const maxRestMs = 60_000

export const startAlerts = (options: AlertOptions): BackgroundTask => {
  const { clock, log } = options
  const alertRounds = new AlertRounds(options)
  const rounds = startRounds({
    clock,
    run: () => alertRounds.run(),
    restMs: roundMs => Math.min(maxRestMs, Math.max(roundIntervalMs, restFactor * roundMs)),
    reportFailure: error => log.warn({ event: 'alerts-unchecked', err: error }, 'alerts could not be checked; they are tried again'),
  })
  return {
    async stop() {
      await Promise.all([alertRounds.stop(), rounds.stop()])
    },
  }
}
