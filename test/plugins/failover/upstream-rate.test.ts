import t from '../../support/tap.ts'
import { harness } from '../../../src/testing/index.ts'
import type { FakeUpstream } from '../../../src/testing/index.ts'
import type { Json } from '../../../src/plugin/call.ts'

const pipelineOf = (failover: Json) => JSON.stringify([{ failover }, { upstream: {} }])
const own = { name: 'own', url: 'http://own.test' }
const second = { name: 'second', url: 'http://second.test' }
const partner = { name: 'partner', url: 'http://partner.test' }
const upstream = { eth_getBalance: { result: '0x1' }, eth_getLogs: { result: [] } }

/** A different call each time. */
const open = async (failover: Json, plan: object = {}, upstreams: Readonly<Record<string, FakeUpstream>> = {}) => {
  const gateway = await harness({ pipeline: pipelineOf(failover), upstream, upstreams, plans: { core: plan } })
  let count = 0
  const call = () => gateway.call('eth_getBalance', [`0x${(count += 1).toString(16).padStart(40, '0')}`, '0x1'])
  const upstreamsOf = async (calls: number) => {
    const names = []
    for (let i = 0; i < calls; i++) names.push((await call()).upstream)
    return names
  }
  return { ...gateway, callOnce: call, upstreamsOf }
}

t.test('when the rate of an upstream is spent, calls go elsewhere at once, and come back as the rate allows', async t => {
  const gateway = await open({ upstreams: [{ ...own, rate: '4/s' }, second] })
  t.same(await gateway.upstreamsOf(6), ['own', 'own', 'own', 'own', 'second', 'second'])
  t.equal(gateway.metric('tollgate_upstream_reduced', { upstream: 'own', reason: 'rateSpent' }), 1)
  t.equal(gateway.metric('tollgate_retries_total'), 0, 'no retry budget is needed')
  t.match(
    gateway.log.lines.filter(({ message }) => message === 'upstream rate spent: calls go to other upstreams'),
    { length: 1, 0: { level: 'warn', fields: { upstream: 'own' } } },
  )
  await gateway.advance(250)
  t.same(await gateway.upstreamsOf(2), ['own', 'second'])
  await gateway.advance(1000)
  t.equal(gateway.metric('tollgate_upstream_reduced', { upstream: 'own' }), 0)
  await gateway.advance(60_000)
  t.same(await gateway.upstreamsOf(5), ['own', 'own', 'own', 'own', 'second'], 'those of one second at once')
})

t.test('with nobody else to ask, a caller gets 503 with Retry-After, free of charge', async t => {
  const gateway = await open({ upstreams: [{ ...own, rate: '1/m' }] })
  t.match(await gateway.callOnce(), { result: '0x1' })
  for (let i = 0; i < 2; i++) t.match(await gateway.callOnce(), { status: 503, error: { code: -32002 }, retryAfter: 5 })
  await gateway.advance(60_000)
  t.match(await gateway.callOnce(), { result: '0x1' })
})

t.test('a spent rate is an outage, in which the partner is asked; its own rate holds too', async t => {
  const failover = { upstreams: [{ ...own, rate: '1/s' }], partner: { ...partner, rate: '1/s', methods: ['eth_getBalance'] } }
  const gateway = await open(failover, { forwarding: true })
  t.same(await gateway.upstreamsOf(2), ['own', 'partner'])
  t.match(await gateway.callOnce(), { status: 503, error: { code: -32002 }, retryAfter: 1 })
})

t.test('when a chunk fails, the call does not wait for those that wait for the rate', async t => {
  const gateway = await open({ upstreams: [{ ...own, rate: '20/m', maxRange: 10 }, second] }, {}, { own: { eth_getLogs: { status: 500 } } })
  const startedAt = gateway.clock.monotonic()
  t.match(await gateway.call('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x32' }]), { result: [], upstream: 'second' })
  t.ok(gateway.clock.monotonic() - startedAt < 1000, 'the next request to the first upstream is allowed after 3 s')
})

t.test('the chunks of one eth_getLogs wait for the rate', async t => {
  const gateway = await open({ upstreams: [{ ...own, rate: '2/s', maxRange: 10 }] })
  const startedAt = gateway.clock.monotonic()
  t.match(await gateway.call('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x32' }]), { result: [] })
  const elapsedMs = gateway.clock.monotonic() - startedAt
  t.equal(gateway.requests.filter(({ method }) => method === 'eth_getLogs').length, 5)
  t.ok(elapsedMs >= 1500 && elapsedMs <= 2500, `${elapsedMs} ms for 5 requests at 2/s, of which 2 at once`)
})
