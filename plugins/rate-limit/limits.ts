import { rateLimitProperties } from '../../src/plugin/plugin.ts'
import type { Key, RateLimitOptions, TokenRequest } from '../../src/plugin/plugin.ts'

export const limitSchema = <const Description extends string>(description: Description) =>
  ({ type: 'object', description, properties: rateLimitProperties }) as const

/** A key's own rate holds where the operator's limit of all keys is not stricter. */
export const strictestLimit = (
  limit: RateLimitOptions | undefined,
  { rate, burst }: Pick<Key, 'rate' | 'burst'>,
): RateLimitOptions | undefined => {
  if (rate === undefined) return limit
  const own = { rate, burst: burst ?? Math.ceil(rate) }
  if (limit?.rate === undefined) return { ...limit, ...own }
  return { ...limit, rate: Math.min(rate, limit.rate), burst: Math.min(own.burst, limit.burst ?? Math.ceil(limit.rate)) }
}

/** What a call takes of the buckets of one account, key or address: `owner` names which. */
export const tokenRequests = (owner: string, limit: RateLimitOptions | undefined, credits: number): readonly TokenRequest[] => {
  if (limit === undefined) return []
  const { rate, burst = burstOf(rate), creditRate, creditBurst = burstOf(creditRate) } = limit
  const requests: TokenRequest[] = []
  if (rate !== undefined && burst !== undefined) requests.push({ bucket: `calls ${owner}`, rate: { perSecond: rate, burst }, tokens: 1 })
  if (creditRate !== undefined && creditBurst !== undefined)
    requests.push({ bucket: `credits ${owner}`, rate: { perSecond: creditRate, burst: creditBurst }, tokens: credits })
  return requests
}

/** A whole number, as the headers of an answer require. */
const burstOf = (perSecond: number | undefined): number | undefined => perSecond && Math.ceil(perSecond)
