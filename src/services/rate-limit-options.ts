/** The options of limits, in plans and in network files. */
export const rateLimitProperties = {
  rate: {
    type: 'string',
    format: 'rate',
    description: 'Calls in a time: so many per second (s), minute (m) or hour (h).',
    examples: ['100/s', '6000/m'],
  },
  burst: {
    type: 'integer',
    requires: { options: ['rate'], hint: 'for example 100/s' },
    minimum: 1,
    description: 'Calls that may come at once; as many as `rate` allows in a second if absent.',
    examples: [200],
  },
  creditRate: {
    type: 'string',
    format: 'rate',
    description: 'Credits in a time: a call takes what it costs.',
    examples: ['8000/s'],
  },
} as const

/** What a network allows each account, over all its keys and networks, each API key and each IP address. */
export interface NetworkRateLimits {
  readonly account?: RateLimitOptions
  readonly key?: Pick<RateLimitOptions, 'rate'>
  readonly ip?: Pick<RateLimitOptions, 'rate'>
}

/** Per second. */
export interface RateLimitOptions {
  readonly rate?: number
  readonly burst?: number
  readonly creditRate?: number
}
