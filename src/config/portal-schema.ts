import type { ObjectSchema } from '../plugin/options-schema.ts'

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
    smtp: {
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
    },
    oidc: {
      type: 'object',
      description:
        'The OpenID Connect provider at which people may sign in, besides sign-in links. Its redirect URI is `url` with /sign-in.',
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
          items: { type: 'string', pattern: '^[a-z0-9-]+(\\.[a-z0-9-]+)+$', label: 'a domain such as example.org, in lower case' },
          default: [],
          description:
            'The domains of verified e-mail addresses that get an account as `signUp` makes it, at the first sign-in. ' +
            'None by default: people must have been invited with their address.',
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
    },
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
    signUp: {
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
          items: { type: 'string' },
          default: [],
          description: 'The domains of e-mail addresses that may sign up by a link. All by default.',
          examples: [['example.org']],
        },
      },
      required: ['plan'],
    },
  },
  default: {},
} as const satisfies ObjectSchema
