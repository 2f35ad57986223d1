import type { ObjectSchema, StringSchema } from '../plugin/options-schema.ts'
import { logLevels } from '../services/log-settings.ts'
import { problemSeverities } from '../services/plugin-problems.ts'
import { rateLimitProperties } from '../services/rate-limit-options.ts'

// All options of gateway.yaml, section by section; at the end the file as a whole.

const portalListener = { options: ['listen.portal'], hint: 'add listen.portal, for example 127.0.0.1:8081', isIdle: true } as const
const adminListener = { options: ['listen.admin'], hint: 'add listen.admin, for example 127.0.0.1:8082', isIdle: true } as const

/** Whoever guesses one is the operator, or signs in as anybody: 16 characters of hexadecimal are 64 bits. */
const minSecretLength = 16

export const defaultRpcAddress = '127.0.0.1:8080'

const certificateSchema = {
  type: 'object',
  properties: {
    cert: {
      type: 'string',
      format: 'path',
      description: 'The PEM file of the certificate, followed by its chain; relative to this file.',
      examples: ['/etc/letsencrypt/live/rpc.example.com/fullchain.pem'],
    },
    key: {
      type: 'string',
      format: 'path',
      description: 'The PEM file of the private key, without a passphrase; relative to this file.',
      examples: ['/etc/letsencrypt/live/rpc.example.com/privkey.pem'],
    },
  },
  required: ['cert', 'key'],
} as const satisfies ObjectSchema

/** `listen.tls`. */
const tlsSchema = {
  ...certificateSchema,
  description:
    'TLS 1.2 and 1.3 on the RPC listener and the portal. The files are read again when they change; open connections stay. Plain HTTP by default.',
} as const satisfies ObjectSchema

/** `listen` of gateway.yaml. */
const listenSchema = {
  type: 'object',
  description: 'Addresses of the listeners: host:port, with brackets around an IPv6 host; port 0 is any free port.',
  properties: {
    rpc: {
      type: 'string',
      format: 'address',
      default: defaultRpcAddress,
      description: 'JSON-RPC over HTTP and WebSocket; the Host header names the network.',
    },
    portal: {
      type: 'string',
      format: 'address',
      description: 'The dashboard for developers. None by default.',
      examples: ['127.0.0.1:8081'],
    },
    admin: {
      type: 'string',
      format: 'address',
      description: 'Health, metrics, logs, reloads and the page of the operator. None by default.',
      examples: ['127.0.0.1:8082'],
    },
    tls: tlsSchema,
    proxyProtocol: {
      type: 'boolean',
      default: false,
      requires: { options: ['trustedProxies'], hint: 'name the proxies, for example [10.0.0.0/8]' },
      description:
        'Whether the trusted proxies begin each connection to the RPC listener with a header of the PROXY protocol, version 1 or 2.',
    },
    trustedProxies: {
      type: 'array',
      items: { type: 'string', format: 'subnet' },
      default: [],
      description:
        'IP addresses and subnets of the proxies in front of the gateway. Their X-Forwarded-For or Forwarded names the address of the caller.',
      examples: [['10.0.0.0/8', '2001:db8::/32']],
    },
  },
  default: {},
} as const satisfies ObjectSchema

const adminTlsSchema = {
  ...certificateSchema,
  requires: adminListener,
  description:
    'TLS on the admin listener, as `listen.tls`. Commands such as `tollgate health` accept this certificate alone, whatever hosts it names.',
} as const satisfies ObjectSchema

/** As addresses are compared with it. */
const emailDomain = {
  type: 'string',
  pattern: '^[a-z0-9-]+(\\.[a-z0-9-]+)+$',
  label: 'a domain such as example.org, in lower case',
} as const satisfies StringSchema

/** `portal.smtp`. */
const smtpSchema = {
  type: 'object',
  requires: portalListener,
  description: 'The mail server that sends sign-in links. Without it, operators and owners pass links on.',
  properties: {
    url: {
      type: 'string',
      format: 'smtp-url',
      description: 'smtp://USER:PASSWORD@HOST:PORT, or smtps:// for TLS from the first byte.',
      examples: ['smtps://tollgate:${SMTP_PASSWORD}@mail.example.org:465'],
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
const oidcSchema = {
  type: 'object',
  requires: portalListener,
  description: 'The OpenID Connect provider at which people may sign in, besides sign-in links. Its redirect URI is `url` with /sign-in.',
  properties: {
    issuer: {
      type: 'string',
      format: 'https-url',
      pattern: '^https?://(?!.*/\\.well-known/)[^?#@]+$',
      label: 'the https:// URL of the provider, without /.well-known/…',
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
const signUpSchema = {
  type: 'object',
  requires: {
    options: ['smtp', 'oidc'],
    hint: 'new accounts are confirmed by e-mail: add the mail server, or the provider that has confirmed the address',
  },
  description: 'Lets people whose e-mail address a link or the provider has confirmed make accounts of their own. Off by default.',
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
      description: 'The domains of e-mail addresses that may sign up. All by default.',
      examples: [['example.org']],
    },
    approval: {
      type: 'boolean',
      default: false,
      description:
        'Calls of a new account are refused until the operator has approved it, with `tollgate accounts resume` or on their page.',
    },
  },
  required: ['plan'],
} as const satisfies ObjectSchema

/** A page of a shop or of a billing system, which is told whose account it is about. */
const paymentPage = {
  requires: portalListener,
  type: 'string',
  pattern: '^https?://[^\\s/]+\\S*$',
  label: 'a URL that starts with https:// or http://',
} as const

/** `portal.brand`. */
const brandSchema = {
  type: 'object',
  requires: portalListener,
  description: 'What the dashboard and its mail show in place of Tollgate.',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 40, description: 'The name of the product.', examples: ['Example RPC'] },
    logo: {
      type: 'string',
      format: 'path',
      description: 'A square image, SVG or PNG of at most 64 KiB; relative to this file.',
      examples: ['logo.svg'],
    },
    accent: {
      type: 'string',
      pattern: '^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$',
      label: 'a color such as "#0b6e4f", in quotes',
      description:
        'The color of buttons and links, with a contrast of 4.5 or more to white (WCAG AA). The dark theme has it as light as it must be there.',
      examples: ['#0b6e4f'],
    },
    support: {
      type: 'string',
      pattern: '^(https?://[^\\s/]+\\S*|mailto:[^\\s@]+@[^\\s@]+)$',
      label: 'a URL such as https://example.org/help or mailto:help@example.org',
      description: 'Where people get help: a link on each page.',
      examples: ['https://example.org/help'],
    },
  },
} as const satisfies ObjectSchema

/** `portal.operatorAlerts`. */
const operatorAlertsSchema = {
  type: 'object',
  requires: portalListener,
  description:
    'Who is told when a problem of a node, of a network or of a plugin begins, and when it has ended. Of all gateways on the store, one sends each message. Without it, the page Home warns; `{}` if others alert you, such as Prometheus.',
  properties: {
    severity: {
      type: 'string',
      enum: problemSeverities,
      default: 'warning',
      description: '`critical`: only problems that callers notice, and answers that were proven wrong. `warning`: all problems.',
    },
    mail: {
      type: 'array',
      items: { type: 'string', pattern: '^[^@\\s]+@[^@\\s]+$', label: 'an e-mail address such as on-call@example.org' },
      default: [],
      requires: { options: ['portal.smtp'], hint: 'add the mail server' },
      description: 'Addresses that get mail.',
      examples: [['on-call@example.org']],
    },
    webhooks: {
      type: 'object',
      description: 'Webhooks, each by a name of its own.',
      entries: { noun: 'webhook', example: 'on-call' },
      additionalProperties: {
        type: 'object',
        properties: {
          url: {
            type: 'string',
            format: 'http-url',
            description: 'Where messages are sent: http or https.',
            examples: ['https://hooks.example.org/on-call'],
          },
          format: {
            type: 'string',
            enum: ['standard', 'slack'],
            default: 'standard',
            description: '`standard`: for programs, signed as webhooks of accounts are. `slack`: for Slack and what takes its format.',
          },
          severity: {
            type: 'string',
            enum: problemSeverities,
            description: 'As above, for this webhook alone.',
            examples: ['critical'],
          },
        },
        required: ['url'],
      },
      default: {},
    },
  },
} as const satisfies ObjectSchema

/** `portal` of gateway.yaml. */
const portalSchema = {
  type: 'object',
  description: 'The dashboard for developers.',
  properties: {
    url: {
      requires: portalListener,
      type: 'string',
      format: 'web-url',
      label: 'a URL such as https://dashboard.example.org',
      description: 'The URL by which browsers reach the dashboard; that of `listen.portal` if absent.',
      examples: ['https://dashboard.example.org'],
    },
    networkUrl: {
      requires: portalListener,
      type: 'string',
      pattern: '^https?://[^?#@]*\\{host\\}[^?#@]*$',
      label: 'a URL with {host} in it, such as https://{host}',
      description:
        'The base URL of a network as the dashboard shows it, with {host} for the first of its `hosts`; the RPC listener if absent.',
      examples: ['https://{host}'],
    },
    secret: {
      requires: portalListener,
      type: 'string',
      format: 'secret',
      usualMinLength: minSecretLength,
      description:
        'Signs session cookies, and webhooks of alerts and of usage. Without it, the first gateway writes random keys into the store.',
      examples: ['${PORTAL_SECRET}'],
    },
    billingUrl: {
      ...paymentPage,
      description:
        'Where an account sees and pays its invoices: a link on the page Plan, and where its calls are refused. {account} stands for the id of the account.',
      examples: ['https://billing.example.org/?account={account}'],
    },
    smtp: smtpSchema,
    oidc: oidcSchema,
    webhooks: {
      requires: portalListener,
      type: 'object',
      description: 'Webhooks that owners of accounts set for alerts.',
      properties: {
        allow: {
          type: 'array',
          items: { type: 'string', format: 'subnet' },
          default: [],
          description:
            'IP addresses and subnets that webhooks may have although they are private, loopback, link-local or reserved. Only public addresses by default.',
          examples: [['10.1.2.0/24']],
        },
      },
      default: {},
    },
    usageWebhook: {
      requires: portalListener,
      type: 'object',
      description:
        'The webhook of a billing system, which gets the usage of all accounts for each UTC day that is over. `tollgate usage webhook-secret` prints the secret that signs its messages.',
      properties: {
        url: {
          type: 'string',
          format: 'http-url',
          description: 'Where messages are sent: http or https.',
          examples: ['https://billing.example.org/usage'],
        },
      },
      required: ['url'],
    },
    operatorAlerts: operatorAlertsSchema,
    signUp: signUpSchema,
    brand: brandSchema,
    publicStatus: {
      requires: portalListener,
      type: 'boolean',
      default: false,
      description: 'Whether everybody may see the page Status: the networks, their newest blocks, and whether their nodes can be used.',
    },
  },
  default: {},
} as const satisfies ObjectSchema

/** `jwt` of gateway.yaml. */
const jwtSchema = {
  type: 'object',
  description: 'Tokens (JWT) in place of API keys: a claim of the token names the key. One of `jwks` and `keyFile` verifies them.',
  properties: {
    issuer: {
      type: 'string',
      minLength: 1,
      description: 'The claim `iss` that tokens must have.',
      examples: ['https://login.example.org'],
    },
    audience: {
      type: 'array',
      items: { type: 'string', minLength: 1 },
      minItems: 1,
      description: 'The claim `aud` of a token must name one of these.',
      examples: [['tollgate']],
    },
    jwks: {
      type: 'string',
      format: 'https-url',
      description: 'The URL of the JSON Web Key Set of the issuer, without user and password.',
      examples: ['https://login.example.org/.well-known/jwks.json'],
    },
    keyFile: {
      type: 'string',
      format: 'path',
      description: 'A file of public keys, relative to this file: a JSON Web Key Set. It is read again when it changes.',
      examples: ['jwt-keys.json'],
    },
    claim: {
      type: 'string',
      minLength: 1,
      default: 'sub',
      description: 'The claim that has the id of the API key, such as key_3fKx81bQ2mZa. The rules of that key apply.',
      examples: ['https://example.org/tollgate-key'],
    },
  },
  required: ['issuer', 'audience'],
  exactlyOneOf: { options: ['jwks', 'keyFile'], hint: 'for example jwks: https://login.example.org/.well-known/jwks.json' },
} as const satisfies ObjectSchema

/** `limits` of gateway.yaml. */
const limitsSchema = {
  type: 'object',
  description: 'Limits on requests of callers, and on the memory of requests and responses.',
  properties: {
    connections: {
      type: 'integer',
      minimum: 1,
      default: 10_000,
      description:
        'Maximum number of open connections of callers, divided among the workers; fewer where `ulimit -n` does not allow as many.',
    },
    body: {
      type: 'string',
      format: 'size',
      minimum: '1B',
      usual: { min: '1KiB', max: '256MiB' },
      default: '1MiB',
      description: 'Maximum size of the body of an HTTP request, and of a message over WebSocket.',
    },
    batch: { type: 'integer', minimum: 1, default: 1000, description: 'Maximum number of calls in one batch.' },
    batchReply: {
      type: 'string',
      format: 'size',
      minimum: '1B',
      usual: { min: '64KiB', max: '4GiB' },
      default: '64MiB',
      description: 'Maximum size of the response to a batch.',
    },
    inFlight: {
      type: 'string',
      format: 'size',
      minimum: '1B',
      usual: { min: '1MiB', max: '256GiB' },
      default: '512MiB',
      description:
        'Maximum size of everything together that is held for callers, divided among the workers: requests while they arrive, calls in ' +
        'flight, and responses until callers have read them.',
    },
  },
  default: {},
} as const satisfies ObjectSchema

/** `requestLog` of gateway.yaml. */
const requestLogSchema = {
  type: 'object',
  description:
    'The last failed and slow calls of each account, and a sample of the others, for the page Requests of the dashboard. Owners may turn it off for their account.',
  properties: {
    enabled: { type: 'boolean', default: true, description: 'Whether requests are logged.' },
    params: {
      type: 'boolean',
      default: true,
      description:
        'Whether the parameters of calls are stored, cut to 1 KiB, and the messages of errors. Parameters of methods that send transactions never are.',
    },
    slow: {
      type: 'string',
      format: 'duration',
      usual: { min: '10ms', max: '1m' },
      default: '1s',
      description: 'How long a call takes that is logged as slow.',
    },
    retention: {
      type: 'string',
      format: 'duration',
      minimum: '1h',
      usual: { min: '1h', max: '30d' },
      default: '24h',
      description: 'How long requests are stored, at most about 10,000 of an account.',
    },
    maxBytes: {
      type: 'string',
      format: 'size',
      minimum: '1MiB',
      usual: { min: '1MiB', max: '16GiB' },
      default: '64MiB',
      description: 'Most bytes of all accounts together in the store: the oldest requests make room.',
    },
  },
  default: {},
} as const satisfies ObjectSchema

/** The keys of gateway.yaml. */
export const gatewaySchema = {
  type: 'object',
  description: 'Settings that all networks of one gateway share.',
  properties: {
    listen: listenSchema,
    portal: portalSchema,
    admin: {
      type: 'object',
      description: 'The admin listener.',
      properties: {
        token: {
          requires: adminListener,
          type: 'string',
          format: 'secret',
          usualMinLength: minSecretLength,
          description:
            'Authorizes /log-level, /access-log, /reload and /api/v1, as `Authorization: Bearer TOKEN`, and signs in at /operator. Without a token these paths do not exist.',
          examples: ['${ADMIN_TOKEN}'],
        },
        tokens: {
          requires: { options: ['token'], hint: 'add admin.token, with which commands ask the running gateway', isIdle: true },
          type: 'object',
          description:
            'Tokens of single operators by their names, each as good as `token`: the log of changes has the name of who signed in. Without one here, a name is signed out.',
          entries: { noun: 'token', example: 'alice: ${ALICE_TOKEN}' },
          examples: [{ alice: '${ALICE_TOKEN}' }],
          additionalProperties: {
            type: 'string',
            format: 'secret',
            usualMinLength: minSecretLength,
            description: 'The token of this operator.',
            examples: ['${ALICE_TOKEN}'],
          },
        },
        tls: adminTlsSchema,
        url: {
          requires: adminListener,
          type: 'string',
          format: 'web-url',
          label: 'a URL such as https://tollgate-admin.example.org',
          description: 'The URL by which browsers reach the admin listener, behind a proxy. With https the session cookie is secure.',
          examples: ['https://tollgate-admin.example.org'],
        },
      },
      default: {},
    },
    store: {
      type: 'string',
      format: 'store',
      description:
        'Where accounts, keys and credits are stored: lmdb:PATH, a directory, relative to this file, for one machine; ' +
        'or Redis for several machines, redis://USER:PASSWORD@HOST:PORT/DATABASE (rediss:// with TLS), with several hosts for a cluster, ' +
        'or redis+sentinel://HOST:PORT,HOST:PORT/NAME for the primary that Sentinels name. With `OLD -> NEW` the gateway uses OLD until ' +
        '`tollgate store copy OLD NEW --switch` has copied it.',
      examples: ['lmdb:../data', 'redis://127.0.0.1:6379'],
    },
    workers: {
      type: 'integer',
      minimum: 1,
      orAuto: true,
      default: 1,
      description: 'Worker processes that share the port; auto is one per core.',
      examples: [4, 'auto'],
    },
    watch: {
      type: 'boolean',
      default: true,
      description: 'Whether a change of the files of the configuration reloads it, as SIGHUP does.',
    },
    memory: {
      type: 'string',
      format: 'size',
      minimum: '1B',
      usual: { min: '1MiB', max: '256GiB' },
      default: '512MiB',
      description: 'Memory of all caches together, divided among networks and workers.',
    },
    plans: {
      type: 'object',
      description: 'The plans that accounts may have, by name.',
      entries: { noun: 'plan', example: 'core: { dailyCredits: 3000000 }' },
      additionalProperties: {
        type: 'object',
        description: 'One plan. `rate` and `burst` limit each account in networks with the plugin `rate-limit`.',
        properties: {
          dailyCredits: {
            type: 'integer',
            minimum: 1,
            maximum: Number.MAX_SAFE_INTEGER,
            description: 'Credits that an account may use in one day, UTC.',
            examples: [3_000_000],
          },
          forwarding: {
            type: 'boolean',
            default: false,
            description: 'Whether eth_getLogs may go to a partner provider during an outage of the own upstreams.',
          },
          rate: rateLimitProperties.rate,
          burst: rateLimitProperties.burst,
          offered: {
            requires: portalListener,
            type: 'boolean',
            default: false,
            description:
              'Whether the page Plan of the dashboard compares the plan with that of the account, with `portal.brand.support` as the link to ask for it.',
          },
          price: {
            requires: portalListener,
            type: 'string',
            minLength: 1,
            maxLength: 60,
            description: 'What the plan costs, as the page Plan of the dashboard says it.',
            examples: ['$49 a month'],
          },
          url: {
            ...paymentPage,
            description:
              'Where an account gets the plan, such as a page of payment: the link beside the plan where it is `offered`, in place of `portal.brand.support`. {account} stands for the id of the account.',
            examples: ['https://shop.example.org/growth?account={account}'],
          },
        },
        required: ['dailyCredits'],
      },
    },
    jwt: jwtSchema,
    limits: limitsSchema,
    usage: {
      type: 'object',
      description: 'Counts of calls by account, key, network, method, outcome, hour and day, for `tollgate usage`.',
      properties: {
        retention: {
          type: 'string',
          format: 'duration',
          minimum: '1d',
          usual: { min: '1d', max: '3650d' },
          default: '90d',
          description: 'How long counts of days are stored; those of hours for 14 days at most.',
        },
      },
      default: {},
    },
    requestLog: requestLogSchema,
    log: {
      type: 'string',
      enum: logLevels,
      default: 'info',
      description: 'The lowest level that is logged.',
    },
    accessLog: {
      type: 'object',
      description: 'One line for each call.',
      properties: {
        file: {
          type: 'string',
          format: 'log-file',
          description:
            'Where lines are written: stdout, or a path relative to this file, which is opened anew on SIGUSR2. None by default.',
          examples: ['stdout', '/var/log/tollgate/access.log'],
        },
        sample: {
          type: 'number',
          minimum: 0,
          maximum: 1,
          default: 1,
          description:
            'The share of calls that is logged, from 0 to 1. Calls with a JSON-RPC error, HTTP statuses of 400 and above, and calls that took 1 s or ' +
            'longer are always logged.',
        },
      },
      default: {},
    },
    drain: {
      type: 'object',
      description: 'What happens between SIGTERM and the end of the process.',
      properties: {
        grace: {
          type: 'string',
          format: 'duration',
          usual: { min: '100ms', max: '1h' },
          default: '5s',
          description:
            'How long calls are still served after SIGTERM while /readyz already answers 503, so that load balancers take notice. ' +
            'SIGINT skips it.',
        },
        timeout: {
          type: 'string',
          format: 'duration',
          usual: { min: '100ms', max: '1h' },
          default: '10s',
          description: 'How long calls in flight may then take to finish.',
        },
      },
      default: {},
    },
  },
  required: ['store', 'plans'],
} as const satisfies ObjectSchema
