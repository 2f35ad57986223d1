import t from '../support/tap.ts'
import { copyReply, withCredits, withSameText } from '../../src/plugin/reply.ts'
import type { Charge, CreditQuota, Failure, RateQuota, Result } from '../../src/plugin/reply.ts'

const quota: CreditQuota = { limit: 100, remaining: 20, resetsInMs: 5 }
const rateQuota: RateQuota = { name: 'calls', limit: 10, windowMs: 1000, remaining: 3, resetsInMs: 700 }
const charge: Charge = { refund: () => undefined, keep: () => undefined }
const onSettled = () => undefined

// Required: a member that is added to the types and not here does not compile.
const result: Required<Result> = {
  result: Buffer.from('[]'),
  count: 0,
  unexpectedType: true,
  verified: 'proof',
  source: 'node',
  upstream: 'own',
  cache: 'miss',
  credits: 80,
  charge,
  quota,
  rateQuota,
  onSettled,
  upstreamRequest: { id: 'r-1', attempts: 2, durationMs: 3 },
}

const failure: Required<Failure> = {
  error: { code: -32005, message: 'too many', data: { limit: 1 } },
  fault: 'upstream',
  kind: 'tooMany',
  status: 503,
  retryAfter: 2,
  allow: 'GET',
  cause: 'HTTP 503',
  nodeError: { code: -32000, message: 'busy' },
  category: 'tooMany',
  meant: 'eth_getLogs',
  retryElsewhere: true,
  unresponsive: true,
  source: 'partner',
  upstream: 'partner',
  cache: 'hit',
  credits: 0,
  charge,
  quota,
  rateQuota,
  onSettled,
  upstreamRequest: { id: 'r-1', attempts: 2, durationMs: 3 },
}

t.test('copyReply', async t => {
  t.test('copies every member of a result and of a failure', async t => {
    for (const reply of [result, failure]) {
      const copy = copyReply(reply, {})
      t.not(copy, reply)
      t.strictSame(copy, reply)
    }
  })

  t.test('makes the changes in the copy alone, undefined ones too', async t => {
    const original = { ...result }
    t.strictSame(copyReply(result, { source: 'cache', upstream: undefined, cache: 'hit' }), {
      ...result,
      source: 'cache',
      upstream: undefined,
      cache: 'hit',
    })
    t.strictSame(result, original)
  })

  t.test('another result is neither counted nor verified by what was said of the one before', async t => {
    const [first, other] = [Buffer.from('[1,2]'), Buffer.from('[3]')]
    const counted: Result = { ...result, result: first, count: 2, verified: 'proof' }
    t.match(copyReply(counted, { source: 'cache' }), { count: 2, verified: 'proof' })
    t.strictSame(copyReply(counted, { result: other }), { ...counted, result: other, count: undefined, verified: undefined })
    t.match(copyReply(counted, { count: 1, result: other, verified: 'check' }), { count: 1, verified: 'check' })
    t.strictSame(withSameText(counted, other), { ...counted, result: other })
  })
})

t.test('withCredits copies every member but those that it sets', async t => {
  const otherQuota = { ...quota, remaining: 10 }
  for (const reply of [result, failure])
    t.strictSame(withCredits(reply, 5, otherQuota), { ...reply, credits: 5, quota: otherQuota, charge: undefined })
})
