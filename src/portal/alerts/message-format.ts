import { allClasses } from '../../services/node-reasons.ts'
import { nameOf } from '../brand.ts'
import type { NamedBrand } from '../brand.ts'
import { nameOfKind } from '../state-labels.ts'
import type {
  AlertMessage,
  CreditsAlert,
  IncidentAlert,
  IncidentType,
  NetworkAlert,
  OperatorAlert,
  OperatorMessage,
} from './delivery-records.ts'

/** How messages to a webhook are written: `standard` for programs, `slack` for the incoming webhooks of Slack and of what takes its format. */
export const webhookFormats = ['standard', 'slack'] as const

export type WebhookFormat = (typeof webhookFormats)[number]

/** What tries a webhook. */
interface TestMessage {
  readonly type: 'test'
  /** ISO 8601. */
  readonly timestamp: string
  /** Empty where operators are told. */
  readonly data: Partial<Pick<AlertMessage['data'], 'account'>>
}

/** The body of the request. */
export const formatMessage = (
  { format = 'standard' }: { readonly format?: WebhookFormat },
  message: AlertMessage | OperatorMessage | TestMessage,
  brand: NamedBrand | undefined,
): string => JSON.stringify(format === 'slack' ? { text: escapeForSlack(textOf(message, brand)) } : message)

/** To whom a test message goes. */
export const describeAccount = (name: string): string => `the account ${name}`

/** What a test message says, in one line. */
export const describeTest = (receivers: string, brand: NamedBrand | undefined): string =>
  `${nameOf(brand)}: this is a test message for ${receivers}.`

const textOf = (message: AlertMessage | OperatorMessage | TestMessage, brand: NamedBrand | undefined): string =>
  message.type === 'test'
    ? describeTest(message.data.account === undefined ? 'operators' : describeAccount(message.data.account.name), brand)
    : [summarizeAlert(message, brand), ...describeAlert(message)].join('\n')

/** In one line, as the subject of a mail. */
export const summarizeAlert = (message: AlertMessage | OperatorMessage, brand: NamedBrand | undefined): string =>
  `${nameOf(brand)}: ${isOfOperators(message) ? summarizeForOperators(message) : summarizeForAccount(message)}`

const isOfOperators = (message: AlertMessage | OperatorMessage): message is OperatorMessage => !('account' in message.data)

const summarizeForAccount = ({ type, data }: AlertMessage): string => {
  switch (type) {
    case 'credits.threshold':
      return `${data.account.name} ${summarizeCredits(data)}`
    case 'errors.threshold':
    case 'latency.threshold':
      return `${data.account.name} ${summarizeIncident(type, data)}`
    case 'incident.began':
    case 'incident.ended':
      return `${data.network} ${outageTexts[data.kind][data.ended === null ? 'begins' : 'ends']}`
  }
}

const outageTexts = {
  down: { begins: 'does not answer', ends: 'answers again' },
  stalled: { begins: 'has no new blocks', ends: 'has new blocks again' },
} as const

const summarizeForOperators = ({ type, data: { network, node, kind, class: methodClass, severity } }: OperatorAlert): string => {
  const ofClass = methodClass === allClasses ? '' : ` (${methodClass})`
  return `${type === 'incident.began' ? severity : 'ended'}: ${node === null ? network : `${node} of ${network}`}: ${nameOfKind(kind)}${ofClass}`
}

const summarizeCredits = ({ key, period, threshold }: CreditsAlert): string =>
  key === undefined
    ? `has used ${threshold} % of its ${period === 'day' ? 'daily credits' : 'credits of the month'}`
    : `has used ${threshold} % of the daily limit of the key ${describeKey(key)}`

/** `indexer …7maA`. */
export const describeKey = ({ name, hint }: NonNullable<CreditsAlert['key']>): string => `${name} …${hint}`.trim()

const summarizeIncident = (type: IncidentType, { value }: IncidentAlert): string =>
  type === 'errors.threshold' ? `has ${value} % failed calls` : `has slow calls: p95 ${value} ms`

export const describeAlert = (message: AlertMessage | OperatorMessage): readonly string[] => {
  if (isOfOperators(message)) return describeForOperators(message)
  const { type, data } = message
  switch (type) {
    case 'credits.threshold':
      return describeCredits(data)
    case 'errors.threshold':
    case 'latency.threshold':
      return describeIncident(type, data)
    case 'incident.began':
    case 'incident.ended':
      return describeOutage(data)
  }
}

const describeOutage = ({ network, kind, began, ended }: NetworkAlert): readonly string[] => [
  ...(ended === null ? [`${kind === 'down' ? `Calls to ${network} fail` : `The newest block of ${network} does not change`}.`] : []),
  ended === null ? `Since ${began}. A message is sent when it has ended.` : `From ${began} to ${ended}.`,
]

const describeForOperators = ({ data: { text, began, ended } }: OperatorAlert): readonly string[] => [
  `${text}.`,
  ended === null ? `Since ${began}. A message is sent when it has ended.` : `From ${began} to ${ended}.`,
]

const describeCredits = ({ account, plan, key, period, date, used, limit, resetAt }: CreditsAlert): readonly string[] => [
  `The ${key === undefined ? '' : `key ${describeKey(key)} of the `}account ${account.name} (plan ${plan}) has used ${used} of ${limit} credits of ${date} (UTC).`,
  period === 'day'
    ? `At 100 %, calls${key === undefined ? '' : ' with the key'} are refused until ${resetAt}.`
    : `The month ends at ${resetAt}.`,
]

const describeIncident = (type: IncidentType, { account, since, window, calls, value, threshold }: IncidentAlert): readonly string[] => {
  const before = `in the ${window} minutes before ${since}`
  const sentences = {
    'errors.threshold': [`${value} % of ${calls} calls of the account ${account.name} failed ${before}`, `${threshold} %`],
    'latency.threshold': [`The p95 latency of ${calls} calls of the account ${account.name} was ${value} ms ${before}`, `${threshold} ms`],
  } as const
  const [measured, shown] = sentences[type]
  return [`${measured}. The alert is set at ${shown}.`, 'No further one is sent until this has ended.']
}

/** Else it would be read as a link or a mention. */
const escapeForSlack = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
