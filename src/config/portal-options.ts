import type { ObjectSchema } from '../plugin/options-schema.ts'
import { parseDuration } from './formats.ts'
import { subnetListProblems } from './listen-options.ts'
import type { Problem } from './problem.ts'
import { oidcSchema, signInProblems, signUpSchema, smtpSchema } from './sign-in-options.ts'
import type { YamlFile } from './yaml-file.ts'

/** The URL of an application, without a path. */
export const browserUrlPattern = '^https?://[^/?#@]+/?$'

/** `portal` of gateway.yaml. */
export const portalSchema = {
  type: 'object',
  description: 'The dashboard for developers.',
  properties: {
    url: {
      type: 'string',
      pattern: browserUrlPattern,
      label: 'a URL such as https://dashboard.example.org',
      description:
        'The URL by which browsers reach the dashboard; that of `listen.portal` if absent. With https the session cookie is secure.',
      examples: ['https://dashboard.example.org'],
    },
    networkUrl: {
      type: 'string',
      pattern: '^https?://[^?#@]*\\{host\\}[^?#@]*$',
      label: 'a URL with {host} in it, such as https://{host}',
      description:
        'The base URL of a network as the dashboard shows it, with {host} for the first of its `hosts`; the RPC listener if absent.',
      examples: ['https://{host}'],
    },
    secret: {
      type: 'string',
      format: 'secret',
      description: 'Signs session cookies, and webhooks of alerts. Without it, the first gateway writes random keys into the store.',
      examples: ['${PORTAL_SECRET}'],
    },
    previousSecret: {
      type: 'string',
      format: 'secret',
      description:
        'The `secret` of before: cookies that it has signed stay valid, and webhooks are signed with both. Remove it 12 hours after the change, and when owners have set their webhooks again.',
      examples: ['${PREVIOUS_PORTAL_SECRET}'],
    },
    smtp: smtpSchema,
    oidc: oidcSchema,
    webhooks: {
      type: 'object',
      description: 'Webhooks that owners of accounts set for alerts.',
      properties: {
        allow: {
          type: 'array',
          items: { type: 'string' },
          default: [],
          description:
            'IP addresses and subnets that webhooks may have although they are private, loopback, link-local or reserved. Only public addresses by default.',
          examples: [['10.1.2.0/24']],
        },
      },
      default: {},
    },
    usageWebhook: {
      type: 'object',
      description: 'The webhook of a billing system, which gets the usage of all accounts for each UTC day that is over.',
      properties: {
        url: {
          type: 'string',
          format: 'secret',
          description: 'Where messages are sent: http or https.',
          examples: ['${USAGE_WEBHOOK_URL}'],
        },
        secret: {
          type: 'string',
          format: 'secret',
          description:
            'Signs messages as Standard Webhooks describes: whsec_ and Base64, or any other text. Without it, a secret derived from ' +
            '`portal.secret` signs them, which `tollgate usage webhook-secret` prints.',
          examples: ['${USAGE_WEBHOOK_SECRET}'],
        },
      },
      required: ['url'],
    },
    signUp: signUpSchema,
  },
  default: {},
} as const satisfies ObjectSchema

/** Rules of `portal` that its schema cannot express. */
export const portalProblems = (source: YamlFile): readonly Problem[] => [
  ...browserUrlProblems(source, ['portal', 'url']),
  ...signInProblems(source),
  ...secretProblems(source),
  ...webhookAddressProblems(source),
  ...usageWebhookUrlProblems(source),
  ...usageWebhookRetentionProblems(source),
]

/** What has the form of a URL may still be none, such as http://1.2.3.999. */
export const browserUrlProblems = (source: YamlFile, path: readonly string[]): readonly Problem[] => {
  const text = source.textAt(path)
  if (text === undefined || !new RegExp(browserUrlPattern).test(text) || URL.canParse(text)) return []
  return [source.problemAt(path, `${path.join('.')} has no valid host or port`, 'for example https://tollgate.example.org')]
}

const secretProblems = (source: YamlFile): readonly Problem[] =>
  source.valueAt(['portal', 'previousSecret']) !== undefined && source.valueAt(['portal', 'secret']) === undefined
    ? [source.problemAtKey(['portal', 'previousSecret'], 'portal.previousSecret has no effect without portal.secret', 'name it secret')]
    : []

const webhookAddressProblems = (source: YamlFile): readonly Problem[] =>
  subnetListProblems(source, ['portal', 'webhooks', 'allow'], 'an address of webhooks', 'for example 10.0.0.7, 10.0.0.0/8 or fd00::/8')

const usageWebhookUrlProblems = (source: YamlFile): readonly Problem[] => {
  const path = ['portal', 'usageWebhook', 'url']
  const text = source.textAt(path)
  if (text === undefined || (/^https?:/.test(text) && URL.canParse(text))) return []
  return [
    source.problemAt(path, 'portal.usageWebhook.url must be an http:// or https:// URL', 'for example https://billing.example.org/usage'),
  ]
}

/** A day is sent up to 6 hours after its end, with all of its hours. */
const minSentRetentionMs = 2 * 86_400_000

const usageWebhookRetentionProblems = (source: YamlFile): readonly Problem[] => {
  const path = ['usage', 'retention']
  const retentionMs = parseDuration(source.textAt(path) ?? '')
  if (retentionMs === undefined || retentionMs >= minSentRetentionMs || source.valueAt(['portal', 'usageWebhook']) === undefined) return []
  const message = `portal.usageWebhook requires usage.retention of at least 2d, not ${source.describeValueAt(path)}`
  return [source.problemAt(path, message, 'a day is sent when it is over, and must still be stored then')]
}
