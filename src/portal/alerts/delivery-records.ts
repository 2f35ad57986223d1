import { hash } from 'node:crypto'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import type { ProblemSeverity } from '../../services/plugin-problems.ts'
import { hourMs } from '../../util/dates.ts'
import { toJson } from '../../util/json.ts'
import { operatorsId } from './webhook-signature.ts'

/** From one attempt to the next, of an alert or of the usage of a day. */
export const deliveryRetryDelays = { minMs: 30_000, maxMs: hourMs }

/** A gateway that ends while it sends leaves the delivery to others after this time. Longer than any attempt. */
export const deliveryLockTtlMs = 120_000

export const deliveryChannels = ['webhook', 'email'] as const

export type DeliveryChannel = (typeof deliveryChannels)[number]

export const deliveryStates = ['pending', 'delivered', 'failed'] as const

/** One message to one receiver. There is never a second one with its id, so that an alert is sent once. */
export interface Delivery<Message = AlertMessage | OperatorMessage> {
  readonly id: string
  /** Id of the account, or `operators`. */
  readonly account: string
  readonly channel: DeliveryChannel
  /** Of mail to an owner: the id of the person. */
  readonly person?: string
  /** Of operators: the address, or the name of the webhook. */
  readonly receiver?: string
  readonly message: Message
  readonly state: (typeof deliveryStates)[number]
  readonly attempts: number
  /** Milliseconds since 1970, as all times here. */
  readonly created: number
  /** When a pending delivery is attempted next. */
  readonly nextAttempt: number
  readonly lastAttempt: number | undefined
  /** How the last attempt ended, in words. */
  readonly lastStatus: string | undefined
  /** When its record is dropped. */
  readonly expires: number
}

export type AccountDelivery = Delivery<AlertMessage>

export type OperatorDelivery = Delivery<OperatorMessage>

interface Timestamped {
  /** ISO 8601. */
  readonly timestamp: string
}

/** What the receiver is told. It is stored, so that each attempt says the same. */
export type AlertMessage = AlertContent & Timestamped

/** The same, where operators are told. */
export type OperatorMessage = OperatorAlert & Timestamped

/** A node, a network or a plugin has a problem, or has it no more. */
export const problemAlertTypes = ['incident.began', 'incident.ended'] as const

type ProblemAlertType = (typeof problemAlertTypes)[number]

export interface OperatorAlert {
  readonly type: ProblemAlertType
  readonly data: {
    readonly network: string
    /** Null: the network. */
    readonly node: string | null
    /** As in the incidents of the operator's API. */
    readonly kind: string
    readonly class: string
    readonly severity: ProblemSeverity
    readonly text: string
    /** ISO 8601. */
    readonly began: string
    /** Null while it lasts. */
    readonly ended: string | null
  }
}

export type AlertContent =
  | { readonly type: 'credits.threshold'; readonly data: CreditsAlert }
  | { readonly type: IncidentType; readonly data: IncidentAlert }
  | { readonly type: ProblemAlertType; readonly data: NetworkAlert }

/** `errors.threshold`: too many calls fail. `latency.threshold`: they are slow. */
export const incidentTypes = ['errors.threshold', 'latency.threshold'] as const

export type IncidentType = (typeof incidentTypes)[number]

export const alertTypes = ['credits.threshold', ...incidentTypes, ...problemAlertTypes] as const

interface AlertedAccount {
  readonly account: { readonly id: string; readonly name: string }
}

/** A share of the credits is used. */
export interface CreditsAlert extends AlertedAccount {
  readonly plan: string
  /** Of which the daily limit is meant; absent where that of the account is. */
  readonly key?: { readonly id: string; readonly name: string; readonly hint: string }
  readonly period: 'day' | 'month'
  /** YYYY-MM-DD or YYYY-MM, UTC. */
  readonly date: string
  /** Percent. */
  readonly threshold: number
  readonly used: number
  readonly limit: number
  /** ISO 8601: when the next day or month begins. */
  readonly resetAt: string
}

/** What was measured when calls began to fail or to be slow. */
export interface IncidentAlert extends AlertedAccount {
  /** ISO 8601. */
  readonly since: string
  /** Minutes before that, of which the figures are. */
  readonly window: number
  /** Of the window: all calls, or of latencies the successful ones. */
  readonly calls: number
  /** Percent of the calls that failed, or the p95 of their latency in ms. */
  readonly value: number
  readonly threshold: number
}

/** `down`: calls to the network are not answered. `stalled`: it has no new blocks. */
export const outageKinds = ['down', 'stalled'] as const

/** What callers notice of an incident of a network: not which of its nodes are the reason. */
export interface NetworkAlert extends AlertedAccount {
  readonly network: string
  readonly kind: (typeof outageKinds)[number]
  /** ISO 8601. */
  readonly began: string
  /** Null while it lasts. */
  readonly ended: string | null
}

/** An id for receivers, by which they recognize a message that they have had before. */
export const messageId = ({ id }: Pick<Delivery, 'id'>): string => `msg_${hash('sha256', id, 'base64url').slice(0, messageIdChars)}`

const messageIdChars = 24

/** False when there is a delivery with this id. */
export const addDelivery = (store: RecordStore, delivery: Delivery): Promise<boolean> => store.addRecord('delivery', toRecord(delivery))

export const replaceDelivery = (store: RecordStore, delivery: Delivery): Promise<void> => store.putRecord('delivery', toRecord(delivery))

export const findDelivery = async (store: RecordStore, id: string): Promise<Delivery | undefined> => {
  const record = await store.findRecord('delivery', id)
  return record && toDelivery(record)
}

/** Those of the account, in no order. */
export const listDeliveries = async (store: Pick<RecordStore, 'records'>, account: string): Promise<readonly AccountDelivery[]> =>
  (await store.records('delivery', account)).map(record => toDelivery(record) as AccountDelivery) // AccountAlerts alone writes them

export const listOperatorDeliveries = async (store: Pick<RecordStore, 'records'>): Promise<readonly OperatorDelivery[]> =>
  (await store.records('delivery', operatorsId)).map(record => toDelivery(record) as OperatorDelivery) // OperatorAlerts alone writes them

const toRecord = ({ id, account, expires, ...value }: Delivery): StoredRecord => ({
  id,
  account,
  value: toJson(value),
  expires,
})

/** Written by toRecord() alone. */
const toDelivery = ({ id, account, value, expires }: StoredRecord): Delivery =>
  ({ lastAttempt: undefined, lastStatus: undefined, ...(value as object), id, account, expires }) as Delivery
