import t from '../../support/tap.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { fakeCall, fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { failure, getLogs, openFailover, rateLimited } from './failover-fixture.ts'

t.test('breakers', async t => {
  t.test('open for a node after a few failures in a row, per class of method', async t => {
    const { requestMany, request, countOf } = openFailover(t, { b: () => fakeResult('b') })
    await requestMany(12)
    t.equal(countOf('a'), 5)
    await request(fakeCall('eth_call'))
    t.equal(countOf('a'), 6)
  })

  t.test('open by the error rate for a node that answers now and then', async t => {
    let calls = 0
    const { requestMany, countOf } = openFailover(t, {
      a: () => ((calls += 1) % 3 === 0 ? fakeResult('a') : failure('a')),
      b: () => fakeResult('b'),
    })
    await requestMany(60)
    t.ok(countOf('a') >= 20 && countOf('a') < 40, `${countOf('a')} calls`)
  })

  t.test('open at once, for all classes of method, when a node is unresponsive', async t => {
    const { request, countOf } = openFailover(t, { a: () => failure('a', { unresponsive: true }), b: () => fakeResult('b') })
    t.equal(valueOrErrorCode(await request(getLogs())), 'b')
    t.equal(valueOrErrorCode(await request(fakeCall('eth_call'))), 'b')
    t.equal(countOf('a'), 1)
  })

  t.test("close after a probe by eth_blockNumber, never by a caller's call", async t => {
    let isHealthy = false
    const respond = () => (isHealthy ? fakeResult('0x1') : failure('a'))
    const { requestMany, request, countOf, advance, probes, log } = openFailover(
      t,
      { a: respond, b: () => fakeResult('b') },
      { breaker: { openFor: 5000 } },
      { respondToProbe: respond },
    )
    await requestMany(7)
    t.equal(countOf('a'), 5)
    await advance(4999)
    t.same(probes, [])
    for (let i = 1; i <= 3; i++) {
      await advance(i === 1 ? 1 : 5000)
      t.equal(probes.length, i)
    }
    await requestMany(3)
    t.equal(countOf('a'), 5, 'probes that failed keep it open')
    isHealthy = true
    await advance(5000)
    t.equal(valueOrErrorCode(await request(getLogs())), '0x1')
    t.ok(probes.every(each => each === 'a eth_blockNumber'))
    t.same(
      log.lines.filter(({ message }) => message.startsWith('circuit breaker')).map(({ fields, message }) => [message, fields]),
      [
        ['circuit breaker open', { upstream: 'a', class: 'logs', breaker: 'open' }],
        ['circuit breaker closed', { upstream: 'a', class: 'logs', breaker: 'closed' }],
      ],
      'logged once each',
    )
  })

  t.test('never open because of errors that callers cause', async t => {
    const { requestMany, requested } = openFailover(t, { a: () => refuse('timeout') })
    await requestMany(50)
    t.equal(requested.length, 50)
  })

  for (const [what, reply] of [
    ['a caller who left', refuse('unavailable', { source: 'node', fault: 'caller' })],
    ['a query that takes too long', refuse('timeout')],
    ['an answer that is too large', refuse('tooLarge')],
    ['a request that is too long for the node', refuse('bodyTooLarge', { source: 'node', fault: 'upstream', retryElsewhere: true })],
    ["the gateway's own limit", refuse('unavailable', { upstream: 'a' })],
    ['an error that callers can cause', failure('a', { retryElsewhere: true })],
  ] as const) {
    t.test(`do not count ${what}`, async t => {
      const { requestMany, countOf } = openFailover(t, {
        a: () => reply,
        b: () => ('retryElsewhere' in reply ? reply : fakeResult('b')),
      })
      await requestMany(30)
      t.equal(countOf('a'), 30)
    })
  }
})

t.test('rate limits of nodes', async t => {
  t.test('are respected for as long as Retry-After says, and then one call probes', async t => {
    const { request, requestMany, clock, countOf } = openFailover(t, { a: () => rateLimited(10), b: () => fakeResult('b') })
    await requestMany(50)
    t.equal(countOf('a'), 1)
    clock.advance(9_999)
    await requestMany(5)
    t.equal(countOf('a'), 1)
    clock.advance(1)
    await Promise.all(Array.from({ length: 20 }, () => request(getLogs())))
    t.equal(countOf('a'), 2)
  })

  t.test('are respected for 1 s without Retry-After, then 2 s, 4 s, at most 60 s', async t => {
    const { requestMany, clock, countOf, log } = openFailover(t, { a: () => rateLimited(), b: () => fakeResult('b') })
    for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
      const before = countOf('a')
      await requestMany(3)
      t.equal(countOf('a'), before + 1)
      t.match(log.lines.at(-1), { message: 'upstream rate limited', fields: { upstream: 'a', backoffMs: seconds * 1000 } })
      clock.advance(seconds * 1000 - 1)
      await requestMany(3)
      t.equal(countOf('a'), before + 1, `none within ${seconds} s`)
      clock.advance(1)
    }
  })

  t.test('end when the probing call is answered, and not when its caller leaves', async t => {
    let reply: Reply = rateLimited(1)
    const { requestMany, clock, countOf, request } = openFailover(t, { a: () => reply, b: () => fakeResult('b') })
    await requestMany(1)
    clock.advance(1000)
    reply = refuse('unavailable', { source: 'node', fault: 'caller' })
    await requestMany(1)
    reply = fakeResult('a')
    const [first, second] = await Promise.all([request(getLogs()), request(getLogs())])
    t.same([valueOrErrorCode(first), valueOrErrorCode(second)], ['a', 'b'], 'one call probes, the other goes to the next node')
    t.equal(valueOrErrorCode(await request(getLogs())), 'a')
    t.equal(countOf('a'), 4)
  })

  t.test('are never returned to the caller, and never open a breaker', async t => {
    const { request, clock, log } = openFailover(t, { a: () => rateLimited(1), b: () => rateLimited(30) })
    for (let i = 0; i < 40; i++) {
      t.match(await request(getLogs()), { status: 503, error: { code: -32002 } })
      clock.advance(1000)
    }
    t.notOk(log.lines.some(({ message }) => message === 'circuit breaker open'))
  })
})
