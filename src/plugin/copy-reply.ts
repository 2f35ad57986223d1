import { isFailure } from './reply.ts'
import type { Charge, CreditQuota, Failure, Reply, Result } from './reply.ts'

/**
 * A copy of the reply with these changes. The one place that copies replies: a member that is missing in copyMembers() does
 * not compile. It takes 30 ns where a spread of replies that were made in different places takes 170 to 360.
 */
export const copyReply = <R extends Reply>(reply: R, changes: Partial<R>): R => {
  const copy = copyMembers(reply) as R // a Result for a Result, a Failure for a Failure
  for (const name in changes) copy[name] = changes[name] as R[typeof name] // only members that are there
  return copy
}

/** The reply with the credits kept for it and the quota they come from. Every call is copied here once: 20 ns. */
export const withCredits = (reply: Reply, credits: number, quota: CreditQuota, charge?: Charge): Reply => {
  const copy = copyMembers(reply)
  copy.credits = credits
  copy.quota = quota
  copy.charge = charge
  return copy
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** Every member of T is there, if only as undefined. */
type Complete<T> = { [Name in keyof Required<T>]: T[Name] }

const copyMembers = (reply: Reply): Mutable<Reply> => (isFailure(reply) ? copyFailure(reply) : copyResult(reply))

const copyResult = ({
  result,
  count,
  unexpectedType,
  source,
  upstream,
  cache,
  credits,
  charge,
  quota,
  rateQuota,
  onSent,
  upstreamRequest,
}: Result): Complete<Result> => ({
  result,
  count,
  unexpectedType,
  source,
  upstream,
  cache,
  credits,
  charge,
  quota,
  rateQuota,
  onSent,
  upstreamRequest,
})

const copyFailure = (failure: Failure): Complete<Failure> => {
  const { error, fault, kind, status, retryAfter, allow, cause, nodeError, category, retryElsewhere, unresponsive } = failure
  const { source, upstream, cache, credits, charge, quota, rateQuota, onSent, upstreamRequest } = failure
  return {
    error,
    fault,
    kind,
    status,
    retryAfter,
    allow,
    cause,
    nodeError,
    category,
    retryElsewhere,
    unresponsive,
    source,
    upstream,
    cache,
    credits,
    charge,
    quota,
    rateQuota,
    onSent,
    upstreamRequest,
  }
}
