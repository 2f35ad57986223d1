import type { Secret } from '../plugin/secret.ts'
import type { Log } from '../services/log.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Metrics } from '../services/metrics.ts'
import { neverExpires } from '../store/record-store.ts'
import type { RecordStore } from '../store/record-store.ts'
import { ledgerRetentionDays } from '../store/store.ts'
import type { BalanceStore } from '../store/store.ts'
import { storeTimeOf } from '../store/store-clock.ts'
import { backoffDelayMs, isAttemptDue } from '../util/async.ts'
import { dayMs, isoDate, isoTime } from '../util/dates.ts'
import { toJson } from '../util/json.ts'
import { deliveryLockTtlMs, deliveryRetryDelays } from './alerts/delivery-records.ts'
import { resolveHost } from './alerts/webhook-addresses.ts'
import { postSigned } from './alerts/webhook-message.ts'
import { deriveUsageKey } from './alerts/webhook-signature.ts'
import { startRounds } from '../services/rounds.ts'
import type { BackgroundTask } from '../services/rounds.ts'
import { readSigningKey } from './signing-key.ts'
import { tryLock } from './concurrent-changes.ts'
import { maxSettlingMs } from './queries/usage-days.ts'
import type { UsageRowCursor } from './queries/usage-days.ts'
import type { UsageQueries } from './queries/usage-queries.ts'
import type { RecordServices } from './record-services.ts'

export interface UsageWebhookOptions extends RecordServices {
  readonly store: RecordStore & Pick<BalanceStore, 'dayBalance'>
  readonly queries: Pick<UsageQueries, 'usagePage' | 'ledgerDay'>
  readonly url: Secret
  /** A key that is derived from it signs messages. */
  readonly portalSecret: Secret | undefined
  /** Older days are not sent. */
  readonly retentionMs: number
  readonly version: string
  readonly log: Log
  readonly metrics: Metrics
}

/** How far the webhook has got. Days are sent one after the other. */
interface Progress {
  /** Days since 1970, UTC. */
  readonly day: number
  /** Of the next message, from 1 on. */
  readonly part: number
  /** The last row that was sent. */
  readonly after?: UsageRowCursor
  /** True when the sums of the day are what is left to send. */
  readonly hasSentRows: boolean
  readonly rows: number
  readonly calls: number
  readonly credits: number
  /** Failed attempts of the next message. */
  readonly attempts: number
  /** Milliseconds since 1970. */
  readonly nextAttempt: number
}

interface UsageMessage {
  readonly type: 'usage.rows' | 'usage.day'
  readonly data: { readonly day: string; readonly part: number } & { readonly [member: string]: unknown }
}

const maxRowsPerMessage = 1_000

/** Gateways report calls within seconds; the reports of the last ones have arrived by then. */
const minSettlingMs = 60_000
const recordId = 'usage-webhook'

const roundIntervalMs = 30_000

/** Sends the usage of days that are over until it is stopped. */
export const startUsageWebhook = (options: UsageWebhookOptions): BackgroundTask => {
  const { clock, log } = options
  const webhook = new UsageWebhook(options)
  const rounds = startRounds({
    clock,
    run: () => webhook.run(),
    restMs: () => roundIntervalMs,
    reportFailure: error => log.warn({ event: 'usage-unread', err: error }, 'usage for the webhook could not be read; it is tried again'),
  })
  return {
    async stop() {
      webhook.stop()
      await rounds.stop()
    },
  }
}

/** Sends the usage rows of each day that is over to a billing system: one gateway at a time, each part until it is accepted. */
export class UsageWebhook {
  readonly #options: UsageWebhookOptions
  readonly #stopping = new AbortController()
  #hasFailed = false

  constructor(options: UsageWebhookOptions) {
    this.#options = options
  }

  /** Sends what is due. Rejects where the store fails. */
  async run(): Promise<void> {
    while (!this.#stopping.signal.aborted && (await this.#sendNext())) {
      // The next part.
    }
  }

  /** Aborts the request in flight. */
  stop(): void {
    this.#stopping.abort()
  }

  /** True when there may be more to send. */
  async #sendNext(): Promise<boolean> {
    const { clock, store } = this.#options
    const release = await tryLock(this.#options, recordId, deliveryLockTtlMs)
    if (release === undefined) return false
    // A clock that is ahead for a moment would end days that go on: their later calls would never be sent. The id is no account's.
    const storeTime = storeTimeOf(await store.dayBalance(recordId))
    const progress = await this.#readProgress(storeTime)
    const isDue = isAttemptDue(deliveryRetryDelays, progress.nextAttempt, clock.now()) && (await this.#isClosed(progress.day, storeTime))
    const next = isDue ? await this.#attempt(progress, storeTime) : undefined
    if (next !== undefined) await this.#writeProgress(next)
    await release()
    return next !== undefined && next.attempts === 0
  }

  async #readProgress(storeTime: number): Promise<Progress> {
    const { store, retentionMs, log } = this.#options
    const stored = (await store.findRecord('delivery', recordId))?.value as Progress | undefined // written by #sendNext() alone
    const progress = stored ?? newDay(Math.floor(storeTime / dayMs) - 1)
    const firstDay = Math.ceil((storeTime - retentionMs) / dayMs)
    if (progress.day >= firstDay) return progress
    const next = newDay(firstDay)
    await this.#writeProgress(next)
    log.warn({ event: 'usage-skipped', from: isoDate(progress.day * dayMs), to: isoDate(firstDay * dayMs) }, skipped)
    return next
  }

  #writeProgress(progress: Progress): Promise<void> {
    return this.#options.store.putRecord('delivery', { id: recordId, account: '', value: toJson(progress), expires: neverExpires })
  }

  async #isClosed(day: number, storeTime: number): Promise<boolean> {
    const age = storeTime - (day + 1) * dayMs
    if (age < minSettlingMs) return false
    return age >= maxSettlingMs || (await this.#options.queries.ledgerDay({ day })).isSettled
  }

  /** The progress after an attempt; undefined when it was aborted. */
  async #attempt(progress: Progress, storeTime: number): Promise<Progress | undefined> {
    const { clock, log, metrics } = this.#options
    const { message, next } = progress.hasSentRows ? await this.#sumsMessage(progress, storeTime) : await this.#rowsMessage(progress)
    if (message === undefined) return next
    const { isDelivered, status } = await this.#post(message)
    if (!isDelivered && this.#stopping.signal.aborted) return undefined
    metrics.counter(metricDefinitions.usageWebhookMessages, { result: isDelivered ? 'delivered' : 'retried' }).add()
    const { day, part } = message.data
    if (!isDelivered && !this.#hasFailed) log.warn({ event: 'usage-undelivered', day, part, status }, undelivered)
    if (isDelivered && message.type === 'usage.day') log.info({ event: 'usage-delivered', ...message.data }, 'usage of a day delivered')
    this.#hasFailed = !isDelivered
    if (isDelivered) return next
    const attempts = progress.attempts + 1
    return { ...progress, attempts, nextAttempt: clock.now() + backoffDelayMs(deliveryRetryDelays, attempts) }
  }

  async #rowsMessage(progress: Progress): Promise<NextMessage> {
    const { day, part, after } = progress
    const { rows, next: cursor } = await this.#options.queries.usagePage({ day, after, limit: maxRowsPerMessage })
    const next = {
      ...progress,
      hasSentRows: cursor === undefined,
      attempts: 0,
      nextAttempt: 0,
      rows: progress.rows + rows.length,
      calls: rows.reduce((sum, row) => sum + row.calls, progress.calls),
      credits: rows.reduce((sum, row) => sum + row.credits, progress.credits),
    }
    if (rows.length === 0) return { message: undefined, next }
    const message = { type: 'usage.rows' as const, data: { day: isoDate(day * dayMs), part, rows } }
    return { message, next: { ...next, part: part + 1, ...(cursor && { after: cursor }) } }
  }

  async #sumsMessage({ day, part, rows, calls, credits }: Progress, storeTime: number): Promise<NextMessage> {
    const { queries } = this.#options
    const hasLedger = day > Math.floor(storeTime / dayMs) - ledgerRetentionDays
    const ledgerCredits = hasLedger ? (await queries.ledgerDay({ day })).used : null
    const data = { day: isoDate(day * dayMs), part, rows, calls, credits, ledgerCredits }
    return { message: { type: 'usage.day', data }, next: newDay(day + 1) }
  }

  async #post({ type, data }: UsageMessage) {
    const { url, version, clock, store, portalSecret } = this.#options
    const body = JSON.stringify({ type, timestamp: isoTime(clock.now()), data })
    const message = { id: `usage_${data.day}_${data.part}`, body }
    // The operator has chosen the address.
    const client = { clock, version, resolve: resolveHost, isAllowed: () => true }
    return postSigned(client, {
      url: url.reveal(),
      key: deriveUsageKey(await readSigningKey(store, portalSecret, 'webhooks')),
      message,
      signal: this.#stopping.signal,
    })
  }
}

interface NextMessage {
  /** Undefined where there is nothing to send. */
  readonly message: UsageMessage | undefined
  /** The progress when it has been delivered. */
  readonly next: Progress
}

const newDay = (day: number): Progress => ({
  day,
  part: 1,
  hasSentRows: false,
  rows: 0,
  calls: 0,
  credits: 0,
  attempts: 0,
  nextAttempt: 0,
})

const undelivered = 'webhook of usage did not accept a message, which is sent again until it does'
const skipped = 'webhook of usage: days that are older than `usage.retention` are not sent'
