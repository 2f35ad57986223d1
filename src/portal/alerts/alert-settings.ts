import { hash } from 'node:crypto'
import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { isJsonObject } from '../../util/json.ts'
import type { Json } from '../../util/json.ts'
import { randomId } from '../people/random-tokens.ts'
import type { WebhookFormat } from './message-format.ts'

/** When calls of an account fail, or are slow, so often that somebody is told. */
export interface RateRule {
  /** Percent of the calls that fail; 0: nobody is told. */
  readonly errorRate: number
  /** The p95 of the latency of successful calls, in ms; 0: nobody is told. */
  readonly latency: number
  /** Both are of so many minutes, up to now. */
  readonly window: number
  /** Nobody is told because of fewer calls. */
  readonly minCalls: number
}

export const defaultRateRule: RateRule = { errorRate: 0, latency: 0, window: 15, minCalls: 100 }

/** Who is told when an account has used a share of its credits, when its calls fail or are slow, or when a network does not answer. */
export interface AlertSettings extends RateRule {
  /** Id of the account. */
  readonly account: string
  readonly webhook: Webhook | undefined
  /** Whether the owners of the account get mail at the addresses that they have confirmed. */
  readonly email: boolean
  /** Percent of the credits of a day, ascending. */
  readonly daily: readonly number[]
  /** Percent of the credits of all days of a month, ascending. */
  readonly monthly: readonly number[]
  /** Percent of the daily limit of each API key that has one, ascending. */
  readonly keyDaily: readonly number[]
  /** Names of those of whose outages somebody is told. */
  readonly networks: readonly string[]
}

export interface Webhook {
  readonly url: string
  /** Makes the secret of this webhook another than that of the one before. No secret itself. */
  readonly salt: string
  /** `standard` unless given. */
  readonly format?: WebhookFormat
}

const defaultThresholds = [75, 85, 100] as const

/** Of a day, of a month, of the limits of all keys on a day, and of incidents of a kind that begin on a day. No further alerts are sent, however often thresholds are changed: owners choose whom mail goes to. */
export const maxThresholds = 10

const bucketCount = 64

/** The settings of all accounts are stored in so many groups: to read them all at once would hold up calls. */
export const alertBuckets: readonly string[] = Array.from({ length: bucketCount }, (_, i) => `bucket-${i}`)

const bucketOf = (account: string): string => `bucket-${Number.parseInt(hash('sha256', account, 'hex').slice(0, 4), 16) % bucketCount}`

export const newWebhook = (url: string, format: WebhookFormat = 'standard'): Webhook => ({
  url,
  salt: randomId(),
  ...(format !== 'standard' && { format }),
})

/** Those of the account; the defaults, which tell nobody, where none are stored. */
export const readAlertSettings = async (store: RecordStore, account: string): Promise<AlertSettings> =>
  toSettings(await store.findRecord('alerts', account)) ?? defaultSettings(account)

const defaultSettings = (account: string): AlertSettings => ({
  account,
  webhook: undefined,
  email: false,
  daily: defaultThresholds,
  monthly: defaultThresholds,
  keyDaily: [],
  networks: [],
  ...defaultRateRule,
})

/** Changes the settings as they are now: of several changes at once none is lost. */
export const editAlertSettings = async (
  store: RecordStore,
  account: string,
  edit: (before: AlertSettings) => AlertSettings,
): Promise<{ readonly before: AlertSettings; readonly after: AlertSettings }> => {
  for (;;) {
    const found = await store.findRecord('alerts', account)
    const before = toSettings(found) ?? defaultSettings(account)
    const after = edit(before)
    const isWritten =
      found === undefined
        ? await store.addRecord('alerts', { id: account, account: bucketOf(account), value: toValue(after), expires: neverExpires })
        : await store.replaceRecord('alerts', found, toValue(after))
    if (isWritten) return { before, after }
  }
}

const toValue = ({ account: _, webhook, ...settings }: AlertSettings): Json => ({
  ...(webhook && { webhook: { ...webhook } }),
  ...settings,
})

export const hasReceiver = ({ webhook, email }: Pick<AlertSettings, 'webhook' | 'email'>): boolean => webhook !== undefined || email

/** The settings of the accounts of one bucket. */
export const listAlertSettings = async (store: Pick<RecordStore, 'records'>, bucket: string): Promise<readonly AlertSettings[]> =>
  (await store.records('alerts', bucket)).flatMap(record => toSettings(record) ?? [])

/** Written by editAlertSettings() alone. */
const toSettings = (record: StoredRecord | undefined): AlertSettings | undefined =>
  isJsonObject(record?.value)
    ? ({
        webhook: undefined,
        keyDaily: [],
        networks: [],
        ...defaultRateRule,
        ...record.value,
        account: record.id,
      } as unknown as AlertSettings)
    : undefined
