import { nameOf } from '../brand.ts'
import type { BrandOptions } from '../brand.ts'
import type { AlertMessage } from './delivery-records.ts'

type NamedBrand = Pick<BrandOptions, 'name'>

/** How messages to a webhook are written: `standard` for programs, `slack` for the incoming webhooks of Slack and of what takes its format. */
export const webhookFormats = ['standard', 'slack'] as const

export type WebhookFormat = (typeof webhookFormats)[number]

/** What tries a webhook. */
export interface TestMessage {
  readonly type: 'test'
  /** ISO 8601. */
  readonly timestamp: string
  readonly data: Pick<AlertMessage['data'], 'account'>
}

/** The body of the request. */
export const formatMessage = (
  { format = 'standard' }: { readonly format?: WebhookFormat },
  message: AlertMessage | TestMessage,
  brand: NamedBrand | undefined,
): string => JSON.stringify(format === 'slack' ? { text: escapeForSlack(textOf(message, brand)) } : message)

const textOf = (message: AlertMessage | TestMessage, brand: NamedBrand | undefined): string =>
  message.type === 'test'
    ? `${nameOf(brand)}: this is a test message for the account ${message.data.account.name}.`
    : [summarizeAlert(message, brand), ...describeAlert(message)].join('\n')

/** In one line, as the subject of a mail. */
export const summarizeAlert = ({ data: { account, period, threshold } }: AlertMessage, brand: NamedBrand | undefined): string =>
  `${nameOf(brand)}: ${account.name} has used ${threshold} % of its ${period === 'day' ? 'daily credits' : 'credits of the month'}`

export const describeAlert = ({ data: { account, plan, period, date, used, limit, resetAt } }: AlertMessage): readonly string[] => [
  `The account ${account.name} (plan ${plan}) has used ${used} of ${limit} credits of ${date} (UTC).`,
  period === 'day' ? `At 100 %, calls are refused until ${resetAt}.` : `The month ends at ${resetAt}.`,
]

/** Else it would be read as a link or a mention. */
const escapeForSlack = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
