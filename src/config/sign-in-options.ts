import type { ObjectSchema, StringSchema } from '../plugin/options-schema.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isJsonObject } from '../util/json.ts'
import { isSecureUrl } from './addresses.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

/** As addresses are compared with it. */
const emailDomain = {
  type: 'string',
  pattern: '^[a-z0-9-]+(\\.[a-z0-9-]+)+$',
  label: 'a domain such as example.org, in lower case',
} as const satisfies StringSchema

/** `portal.smtp`. */
export const smtpSchema = {
  type: 'object',
  description: 'The mail server that sends sign-in links. Without it, operators and owners pass links on.',
  properties: {
    url: {
      type: 'string',
      format: 'secret',
      description: 'smtp://USER:PASSWORD@HOST:PORT, or smtps:// for TLS from the first byte.',
      examples: ['${SMTP_URL}'],
    },
    from: {
      type: 'string',
      pattern: '^[^@\\r\\n]+@[^@\\r\\n]+$',
      label: 'a sender such as Tollgate <no-reply@example.org>',
      description: 'The sender of the mail.',
      examples: ['Tollgate <no-reply@example.org>'],
    },
  },
  required: ['url', 'from'],
} as const satisfies ObjectSchema

/** `portal.oidc`. */
export const oidcSchema = {
  type: 'object',
  description: 'The OpenID Connect provider at which people may sign in, besides sign-in links. Its redirect URI is `url` with /sign-in.',
  properties: {
    issuer: {
      type: 'string',
      pattern: '^https?://[^?#@]+$',
      label: 'a URL such as https://login.example.org',
      description: 'The URL of the provider, as its metadata names it.',
      examples: ['https://login.example.org'],
    },
    clientId: { type: 'string', description: 'The name of the dashboard at the provider.', examples: ['tollgate'] },
    clientSecret: {
      type: 'string',
      format: 'secret',
      description: 'The password of the dashboard at the provider.',
      examples: ['${OIDC_CLIENT_SECRET}'],
    },
    domains: {
      type: 'array',
      items: emailDomain,
      default: [],
      description:
        'The domains of verified e-mail addresses that get an account as `signUp` makes it, at the first sign-in. ' +
        'None by default: people must have been invited, or have their address from the operator.',
      examples: [['example.org']],
    },
    name: {
      type: 'string',
      default: 'OpenID Connect',
      description: 'What the button to sign in calls the provider.',
      examples: ['Example'],
    },
  },
  required: ['issuer', 'clientId', 'clientSecret'],
} as const satisfies ObjectSchema

/** `portal.signUp`. */
export const signUpSchema = {
  type: 'object',
  description: 'Lets people with an e-mail address make accounts of their own. Off by default; requires `smtp` or `oidc`.',
  properties: {
    plan: { type: 'string', description: 'The plan of new accounts: one of `plans`.', examples: ['core'] },
    perDay: {
      type: 'integer',
      minimum: 1,
      maximum: 100_000,
      default: 100,
      description: 'Most new accounts in a UTC day, of all gateways on the store together.',
    },
    domains: {
      type: 'array',
      items: emailDomain,
      default: [],
      description: 'The domains of e-mail addresses that may sign up by a link. All by default.',
      examples: [['example.org']],
    },
  },
  required: ['plan'],
} as const satisfies ObjectSchema

/** Rules of how people sign in and up that the schemas cannot express. */
export const signInProblems = (source: YamlFile): readonly Problem[] => [
  ...smtpUrlProblems(source),
  ...oidcProblems(source),
  ...signUpProblems(source),
]

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
