import { directStage, networkOf, rateLimitProperties, thenMaybe } from '../src/plugin/internal.ts'
import type { DirectHandler, MaybePromise, RateLimitOptions, RateQuota, TokenRequest, TooFewTokens, Plan } from '../src/plugin/internal.ts'
import { copyReply, definePlugin, refuse } from '../src/plugin/plugin.ts'
import type { Failure, Key, Reply, Services } from '../src/plugin/plugin.ts'

const { rate, creditRate } = rateLimitProperties

/** Calls and credits per second, beside the credits of the day. */
export default definePlugin({
  name: 'rate-limit',
  summary: 'Refuses calls that come faster than the limits of their account, key or IP address, with 429 and Retry-After.',
  options: {
    type: 'object',
    properties: {
      account: {
        type: 'object',
        description:
          'Limits of each account, over all its keys and networks; the `rate` of its plan in gateway.yaml takes the place of `rate`.',
        properties: { rate, creditRate },
      },
      key: {
        type: 'object',
        description: 'Limit of each API key, over all networks. A key may have a stricter rate of its own.',
        properties: { rate },
      },
      ip: {
        type: 'object',
        description: 'Limit of each IP address that calls come from, of IPv6 each /64, over all networks.',
        properties: { rate },
      },
    },
  },
  reads: ['request', 'key', 'account'],
  once: true,
  limitsRates: options => options,
  create({ account: accountLimit, key: keyLimit, ip: ipLimit }, services) {
    const { rateLimits, methods, network, usage, priceOf } = services
    const handle: DirectHandler<'request' | 'key' | 'account'> = (call, next) => {
      const { account, key, request } = call.context
      const credits = accountLimit?.creditRate === undefined ? 0 : priceOf(call)
      const { plan } = account
      const requests = [
        ...tokenRequests(`account ${account.id}`, accountLimitOf(plan, accountLimit), credits),
        ...tokenRequests(`key ${key.id}`, strictestLimit(keyLimit, key), credits),
        ...tokenRequests(`ip ${networkOf(call.origin.ip)}`, ipLimit, credits),
      ]
      if (requests.length === 0) return next(call)
      const serve = (tooFew: TooFewTokens | undefined): MaybePromise<Reply> => {
        if (tooFew === undefined) return thenMaybe(next(call), reply => withQuota(reply, requests, rateLimits))
        // The plugin that charges, and records all other calls, is below.
        const method = methods.get(request.method)
        const refusal = refuseCall(tooFew)
        usage.record({ call, reply: refusal, method, network: network.name, day: undefined, credits: 0 })
        return withQuota(refusal, [tooFew.refused], rateLimits)
      }
      return thenMaybe(rateLimits.take(requests), serve)
    }
    return directStage({ handle })
  },
})

const refuseCall = ({ refused, waitMs }: TooFewTokens): Failure => {
  const [kind = '', owner = ''] = refused.bucket.split(' ')
  const { perSecond, burst } = refused.rate
  return refuse('rate', {
    ...(kind === 'credits' && { message: 'too many credits per second' }),
    retryAfter: Math.min(maxRetryAfterSeconds, Math.ceil(waitMs / 1000)),
    data: { limit: owner, perSecond, burst },
  })
}

/** A caller that waited for long would not know that the rest of its calls could go on. */
const maxRetryAfterSeconds = 5

/** The bucket that has the least left, for the headers. */
const withQuota = (reply: Reply, requests: readonly TokenRequest[], rateLimits: Services['rateLimits']): Reply => {
  let least: RateQuota | undefined
  for (const { bucket, rate } of requests) {
    const quota = {
      name: bucket.startsWith('calls') ? ('calls' as const) : ('credits' as const),
      limit: rate.burst,
      windowMs: (rate.burst / rate.perSecond) * 1000,
      ...rateLimits.stateOf(bucket, rate),
    }
    if (least === undefined || quota.remaining / quota.limit < least.remaining / least.limit) least = quota
  }
  return copyReply(reply, { rateQuota: least })
}

/** The rate of the plan takes the place of that of the network. */
const accountLimitOf = ({ rate, burst }: Plan, limit: RateLimitOptions | undefined): RateLimitOptions | undefined =>
  rate === undefined ? limit : { ...limit, rate, ...(burst !== undefined && { burst }) }

/** A key's own rate holds where the operator's limit of all keys is not stricter. */
const strictestLimit = (
  limit: Pick<RateLimitOptions, 'rate'> | undefined,
  { rate, burst }: Pick<Key, 'rate' | 'burst'>,
): RateLimitOptions | undefined => {
  if (rate === undefined) return limit
  const own = { rate, burst: burst ?? Math.ceil(rate) }
  if (limit?.rate === undefined) return own
  return { rate: Math.min(rate, limit.rate), burst: Math.min(own.burst, Math.ceil(limit.rate)) }
}

/** What a call takes of the buckets of one account, key or address: `owner` names which. */
const tokenRequests = (owner: string, limit: RateLimitOptions | undefined, credits: number): readonly TokenRequest[] => {
  if (limit === undefined) return []
  const { rate, burst = burstOf(rate), creditRate } = limit
  const creditBurst = burstOf(creditRate)
  const requests: TokenRequest[] = []
  if (rate !== undefined && burst !== undefined) requests.push({ bucket: `calls ${owner}`, rate: { perSecond: rate, burst }, tokens: 1 })
  if (creditRate !== undefined && creditBurst !== undefined)
    requests.push({ bucket: `credits ${owner}`, rate: { perSecond: creditRate, burst: creditBurst }, tokens: credits })
  return requests
}

/** A whole number, as the headers of an answer require. */
const burstOf = (perSecond: number | undefined): number | undefined => perSecond && Math.ceil(perSecond)
