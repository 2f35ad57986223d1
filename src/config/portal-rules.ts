import { isJsonObject } from '../util/json.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isSecureUrl } from './addresses.ts'
import { parseDuration } from './formats.ts'
import { subnetListProblems } from './listen-options.ts'
import { browserUrlPattern } from './portal-schema.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

/** Rules of `portal` that its schema cannot express. */
export const portalProblems = (source: YamlFile): readonly Problem[] => [
  ...browserUrlProblems(source, ['portal', 'url']),
  ...smtpUrlProblems(source),
  ...oidcProblems(source),
  ...signUpProblems(source),
  ...secretProblems(source),
  ...webhookAddressProblems(source),
  ...usageWebhookProblems(source),
]

/** What has the form of a URL may still be none, such as http://1.2.3.999. */
export const browserUrlProblems = (source: YamlFile, path: readonly string[]): readonly Problem[] => {
  const text = source.textAt(path)
  if (text === undefined || !new RegExp(browserUrlPattern).test(text) || URL.canParse(text)) return []
  return [source.problemAt(path, `${path.join('.')} has no valid host or port`, 'for example https://tollgate.example.org')]
}

const smtpUrlProblems = (source: YamlFile): readonly Problem[] => {
  const path = ['portal', 'smtp', 'url']
  const text = source.textAt(path)
  if (text === undefined || isSmtpUrl(text)) return []
  return [
    source.problemAt(
      path,
      'portal.smtp.url must be an smtp:// or smtps:// URL',
      'user and password stand before the host, special characters as %XX',
    ),
  ]
}

const isSmtpUrl = (text: string): boolean => /^smtps?:\/\//.test(text) && URL.canParse(text) && new URL(text).hostname !== ''

const oidcProblems = (source: YamlFile): readonly Problem[] => {
  const path = ['portal', 'oidc']
  const issuer = source.textAt([...path, 'issuer'])
  const domains = source.valueAt([...path, 'domains'])
  return [
    ...(issuer === undefined || !/^https?:/.test(issuer) || isSecureIssuer(issuer)
      ? []
      : [
          source.problemAt(
            [...path, 'issuer'],
            'portal.oidc.issuer must be the https:// URL of the provider',
            'without /.well-known/…; http:// is for a provider on this machine',
          ),
        ]),
    ...(Array.isArray(domains) && domains.length > 0 && source.valueAt(['portal', 'signUp']) === undefined
      ? [
          source.problemAtKey(
            [...path, 'domains'],
            'portal.oidc.domains requires portal.signUp',
            'it names the plan of new accounts, for example signUp: { plan: core }',
          ),
        ]
      : []),
  ]
}

const isSecureIssuer = (text: string): boolean => !text.includes('/.well-known/') && isSecureUrl(text)

const signUpProblems = (source: YamlFile): readonly Problem[] => {
  const path = ['portal', 'signUp']
  if (!isJsonObject(source.valueAt(path))) return []
  const plan = source.textAt([...path, 'plan'])
  const plans = source.valueAt(['plans'])
  const names = isJsonObject(plans) ? Object.keys(plans) : []
  return [
    ...(source.valueAt(['portal', 'smtp']) === undefined && source.valueAt(['portal', 'oidc']) === undefined
      ? [
          source.problemAtKey(
            path,
            'portal.signUp requires portal.smtp or portal.oidc',
            'new accounts are confirmed by e-mail: add the mail server, or the provider that has confirmed the address',
          ),
        ]
      : []),
    ...(plan === undefined || names.length === 0 || names.includes(plan)
      ? []
      : [source.problemAt([...path, 'plan'], `portal.signUp.plan must be one of plans: ${names.join(', ')}`, didYouMean(plan, names))]),
  ]
}

const secretProblems = (source: YamlFile): readonly Problem[] =>
  source.valueAt(['portal', 'previousSecret']) !== undefined && source.valueAt(['portal', 'secret']) === undefined
    ? [source.problemAtKey(['portal', 'previousSecret'], 'portal.previousSecret has no effect without portal.secret', 'name it secret')]
    : []

const webhookAddressProblems = (source: YamlFile): readonly Problem[] =>
  subnetListProblems(source, ['portal', 'webhooks', 'allow'], 'an address of webhooks', 'for example 10.0.0.7, 10.0.0.0/8 or fd00::/8')

const usageWebhookProblems = (source: YamlFile): readonly Problem[] => [
  ...usageWebhookUrlProblems(source),
  ...usageWebhookRetentionProblems(source),
]

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
