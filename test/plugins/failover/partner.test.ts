import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { parse } from 'yaml'
import t from '../../support/tap.ts'
import type { Test } from 'tap'
import failover from '../../../plugins/failover/index.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { harness } from '../../../src/testing/index.ts'
import { formatMetrics } from '../../../src/services/metrics.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { openModelHeads } from '../../services/chain-heads/model-heads.ts'
import { deferred } from '../../support/deferred.ts'
import { createStage, fakeAccount, fakeCall, fakeOrigin, fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { failure, getLogs, growth, node, openFailover, partner, rateLimited, uncounted } from './failover-fixture.ts'

t.test('the partner', async t => {
  t.test('gets eth_getLogs when own nodes are down and the plan qualifies', async t => {
    const { request, requested } = openFailover(t, { p: () => fakeResult('p') }, { partner })
    t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    t.same(requested, ['a', 'b', 'p'])
  })

  t.test('gets nothing for a plan that does not qualify, of another method, or while a node answers', async t => {
    const { request, requested } = openFailover(t, { p: () => fakeResult('p') }, { partner })
    t.equal(valueOrErrorCode(await request(getLogs())), -32002)
    t.equal(valueOrErrorCode(await request(fakeCall('eth_call', [], growth))), -32002)
    t.notOk(requested.includes('p'))
    const healthy = openFailover(t, { a: () => fakeResult('a') }, { partner })
    t.equal(valueOrErrorCode(await healthy.request(getLogs(growth))), 'a')
    t.same(healthy.requested, ['a'])
  })

  t.test('gets the calls of an outage for which the retry budget has nothing left, with breakers closed', async t => {
    const failing = { a: () => uncounted('a'), b: () => uncounted('b') }
    const { request, countOf } = openFailover(t, { ...failing, p: () => fakeResult('p', { source: 'partner' }) }, { partner })
    for (let i = 0; i < 20; i++) t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    t.equal(countOf('b'), 4, 'a fifth of 20 calls: own nodes get no more retries than without a partner')
    t.equal(valueOrErrorCode(await request(getLogs())), -32002)
    const withDownPartner = openFailover(t, { ...failing, p: () => uncounted('p') }, { partner })
    for (let i = 0; i < 20; i++) t.equal(valueOrErrorCode(await withDownPartner.request(getLogs(growth))), -32002)
    t.ok(withDownPartner.countOf('b') <= 4)
    t.ok(withDownPartner.countOf('p') <= 20, 'at most once a call')
  })

  t.test('gets the calls of own nodes that operators have drained, unless it is drained itself', async t => {
    const answers = { a: () => fakeResult('a'), b: () => fakeResult('b'), p: () => fakeResult('p', { source: 'partner' }) }
    const replyWith = async (...drained: readonly string[]) => {
      const { request, requested } = openFailover(t, answers, { partner }, { drained: new Set(drained) })
      return [valueOrErrorCode(await request(getLogs(growth))), ...requested]
    }
    t.same(await replyWith('a'), ['b', 'b'])
    t.same(await replyWith('a', 'b'), ['p', 'p'])
    t.same(await replyWith('a', 'b', 'p'), [-32002])
  })

  t.test('gets no call that an own node may have carried out', async t => {
    const send = fakeCall('eth_sendTransaction', [{}], growth)
    const options = { partner: { ...partner, methods: ['eth_sendTransaction'] }, upstreams: [node('a')] }
    const { request, requested, services } = openFailover(t, { p: () => fakeResult('p') }, options)
    t.equal(valueOrErrorCode(await request(send)), -32002)
    t.same(requested, ['a'])
    t.match(formatMetrics(services.metrics.families()), /tollgate_retries_total\{kind="partner"\} 0/)
    const limited = openFailover(
      t,
      { a: () => refuse('unavailable', { source: 'gateway', fault: 'upstream', retryElsewhere: true }), p: () => fakeResult('p') },
      options,
    )
    t.equal(valueOrErrorCode(await limited.request(send)), 'p', 'no own node got it')
  })

  t.test('makes answers vary by the right to forwarding, for its methods only', async t => {
    const vary = (context: object, options: object, headers = {}) =>
      failover.vary?.(context as never, options as never, fakeOrigin({ headers }))
    const context = { ...getLogs(growth).context }
    t.equal(vary(context, { partner }), 'forwarding')
    t.equal(vary(context, {}), '')
    t.equal(vary({ ...context, account: fakeAccount }, { partner }), '')
    t.equal(vary({ ...context, request: { method: 'eth_call', params: [] } }, { partner }), '')
    const onRequest = { partner: { ...partner, when: 'header' } }
    t.equal(vary(context, onRequest), '')
    t.equal(vary(context, onRequest, { 'enable-failover': 'true' }), 'forwarding')
  })

  t.test('is named in the descriptions of the methods that it may answer, with the header that it needs', async t => {
    const described = ['eth_getLogs', 'eth_call'].map(name => ({ name, credits: 1, params: [] }))
    const { services } = openFailover(t, { a: () => fakeResult('a') })
    const forwardedBy = (over: object) =>
      createStage(failover, { upstreams: [node('a')], breaker: { openFor: 1_000 }, ...over }, services)
        .describeMethods?.(described)
        .map(({ forwarded }) => forwarded)
    t.same(forwardedBy({ partner }), ['outage', undefined])
    t.same(forwardedBy({ partner: { ...partner, when: 'header' } }), ['header', undefined])
    t.equal(forwardedBy({}), undefined)
  })

  t.test('is requested at once when all own nodes have an open breaker or are rate limiting', async t => {
    const { request, requested, requestMany } = openFailover(
      t,
      { a: () => failure('a', { unresponsive: true }), b: () => rateLimited(60), p: () => fakeResult('p') },
      { partner },
    )
    await requestMany(1)
    requested.length = 0
    t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    t.same(requested, ['p'])
  })

  t.test('answers no caller while its chain id is another', async t => {
    let chainId: Json = '0x5'
    const { request, requested, clock, countOf, log, probes, services } = openFailover(
      t,
      { p: () => fakeResult('p') },
      { partner },
      { respondToChainId: () => fakeResult(chainId) },
    )
    t.equal(valueOrErrorCode(await request(getLogs(growth))), -32002)
    t.same(
      log.lines.filter(({ level }) => level === 'error'),
      [
        {
          level: 'error',
          fields: { upstream: 'p', reason: 'chain', chainId: 5, expectedChainId: 31337 },
          message: 'partner excluded: wrong chain',
        },
      ],
    )
    t.equal(valueOrErrorCode(await request(getLogs(growth))), -32002)
    t.equal(countOf('p'), 0, 'nor does it get their calls')
    t.equal(probes.length, 1, 'it is asked again after 10 s')
    t.match(
      formatMetrics(services.metrics.families()),
      /tollgate_upstream_reduced\{network="devnet",upstream="p",class="all",reason="chain"\} 1/,
    )
    chainId = '0x7A69'
    clock.advance(10_000)
    t.match(
      formatMetrics(services.metrics.families()),
      /tollgate_upstream_reduced\{network="devnet",upstream="p",class="all",reason="chain"\} 1/,
      'until a call has found that it is on the chain',
    )
    t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    t.match(
      formatMetrics(services.metrics.families()),
      /tollgate_upstream_reduced\{network="devnet",upstream="p",class="all",reason="chain"\} 0/,
    )
    const before = probes.length
    clock.advance(599_999)
    t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    t.notOk(probes.slice(before).includes('p eth_chainId'))
    chainId = '0x1'
    clock.advance(1)
    t.equal(valueOrErrorCode(await request(getLogs(growth))), -32002, 'the check runs beside the call, and its answer is withheld')
    t.equal(requested.filter(name => name === 'p').length, 3)
  })

  t.test('gets no call before its chain id is known, which is requested once for all calls that wait', async t => {
    for (const [chainId, expected, count] of [
      ['0x5', -32002, 0],
      ['0x7a69', 'p', 2],
    ] as const) {
      const { promise: reply, resolve: respond } = deferred<Reply>()
      const { request, countOf, requestMany, probes } = openFailover(
        t,
        { p: () => fakeResult('p') },
        { partner },
        { respondToChainId: () => reply },
      )
      await requestMany(12) // opens the breakers of the own nodes
      const replies = [request(getLogs(growth)), request(getLogs(growth))]
      await turn()
      t.equal(countOf('p'), 0)
      respond(fakeResult(chainId))
      for (const reply of await Promise.all(replies)) t.equal(valueOrErrorCode(reply), expected)
      t.equal(countOf('p'), count)
      t.equal(probes.filter(each => each === 'p eth_chainId').length, 1)
    }
  })

  t.test('gets no call as long as it returns no chain id; once it has, it keeps its calls while it does not answer that', async t => {
    for (const reply of [refuse('unavailable'), refuse('rate')]) {
      let chainIdReply: Reply = reply
      const { request, requested, clock, log, services } = openFailover(
        t,
        { p: () => fakeResult('p') },
        { partner },
        { respondToChainId: () => chainIdReply },
      )
      t.equal(valueOrErrorCode(await request(getLogs(growth))), -32002, JSON.stringify(valueOrErrorCode(reply)))
      t.notOk(requested.includes('p'))
      t.ok(log.lines.some(({ message }) => message === 'partner excluded: it has not returned its chain ID'))
      t.equal(valueOrErrorCode(await request(getLogs(growth))), -32002, 'asked again at once')
      t.match(
        formatMetrics(services.metrics.families()),
        /tollgate_upstream_reduced\{network="devnet",upstream="p",class="all",reason="unverified"\} 1/,
      )
      chainIdReply = fakeResult('0x7a69')
      clock.advance(10_000) // the retry budget
      t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p', 'the next call has it asked again')
      chainIdReply = reply
      clock.advance(600_000)
      t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
      t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    }
  })

  t.test('is not held back by a check of its chain that has failed before', async t => {
    let respond = (): Reply | Promise<Reply> => fakeResult('0x7a69')
    const { request, clock } = openFailover(t, { p: () => fakeResult('p') }, { partner }, { respondToChainId: () => respond() })
    t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    clock.advance(600_000)
    respond = () => failure('p')
    t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    respond = () => new Promise(() => {})
    const replies: Json[] = []
    void request(getLogs(growth)).then(reply => replies.push(valueOrErrorCode(reply)))
    await turn()
    t.same(replies, ['p'])
  })

  t.test('that has no chain id to tell gets its calls, and the log says that it is not checked', async t => {
    const lacksMethod: Reply = { ...refuse('method'), kind: 'node' }
    const noIds = ['yes', '0x', '0x5 ', [], null, 5, `0x${'1'.repeat(64)}`]
    for (const reply of [lacksMethod, ...noIds.map(id => fakeResult(id))]) {
      const { request, log } = openFailover(t, { p: () => fakeResult('p') }, { partner }, { respondToChainId: () => reply })
      t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p', JSON.stringify(valueOrErrorCode(reply)))
      t.ok(log.lines.some(({ message }) => message === 'partner without a chain ID: its chain is not checked'))
    }
  })

  t.test('with `when: header` is for callers who send Enable-Failover: true', async t => {
    const replyTo = async (headers: Record<string, string>, context = growth) => {
      const { request } = openFailover(t, { p: () => fakeResult('p') }, { partner: { ...partner, when: 'header' } })
      return valueOrErrorCode(await request({ ...getLogs(context), origin: fakeOrigin({ headers }) }))
    }
    t.equal(await replyTo({}), -32002)
    t.equal(await replyTo({ 'enable-failover': 'false' }), -32002)
    t.equal(await replyTo({ 'enable-failover': 'True' }), 'p')
    t.equal(await replyTo({ 'enable-failover': 'true' }, { account: fakeAccount }), -32002, 'the plan must qualify all the same')
  })
})

t.test('of the plans that are shipped, growth and custom are forwarded in an outage, and no other', async t => {
  const { plans } = parse(readFileSync('configs/gateway.yaml', 'utf8')) as { readonly plans: Readonly<Record<string, object>> }
  const gateway = await harness({
    pipeline:
      '- key-auth: {}\n- failover: { upstreams: [{ name: own, url: http://own.test }], partner: { name: helper, url: http://helper.test } }',
    plans,
    keys: Object.fromEntries(Object.keys(plans).map(plan => [plan, { plan }])),
    upstreams: { own: 'down', helper: { eth_getLogs: { result: [] } } },
  })
  const forwarded: string[] = []
  for (const key of Object.keys(plans)) {
    const { upstream, error } = await gateway.call('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x2' }], { key })
    if (upstream === 'helper') forwarded.push(key)
    else t.match(error, { code: -32002 }, key)
  }
  t.same(forwarded, ['growth', 'custom'])
  await gateway.stop()
})

/** Callers have been told of block 100; no own node answers calls. */
const openOutage = async (t: Pick<Test, 'teardown'>, heightOfPartner: () => Reply) => {
  const model = openModelHeads(['a', 'b'], 10)
  t.teardown(model.stop)
  await model.recordCall()
  const respondToProbe = (_timeoutMs: number, name: string) => (name === 'p' ? heightOfPartner() : failure(name))
  const outage = openFailover(t, { p: () => fakeResult('p') }, { partner }, { heads: model.heads, respondToProbe })
  const getLogsOf = async (filter: Json) => valueOrErrorCode(await outage.request(fakeCall('eth_getLogs', [filter], growth)))
  const heightRequests = () => outage.probes.filter(each => each === 'p eth_blockNumber').length
  return { ...outage, getLogsOf, heightRequests, pollIntervalMs: model.heads.pollIntervalMs }
}

t.test('the partner answers nothing about blocks that callers know and it lacks', async t => {
  let height = 0x63
  const { getLogsOf, heightRequests, countOf, clock, log, pollIntervalMs } = await openOutage(t, () => fakeResult(toHexQuantity(height)))
  for (const filter of [
    {},
    { fromBlock: '0x1', toBlock: 'latest' },
    { fromBlock: '0x64', toBlock: '0x64' },
    { fromBlock: '0x1', toBlock: '0xff' },
  ])
    t.equal(await getLogsOf(filter), -32002, JSON.stringify(filter))
  t.equal(countOf('p'), 0)
  t.equal(heightRequests(), 1, 'its height is requested once in a poll interval')
  t.match(
    log.lines.filter(({ message }) => message.startsWith('partner')),
    [{ level: 'warn', fields: { height: 99, requiredHeight: 100 }, message: 'partner lacks the block that callers know' }],
  )
  t.equal(await getLogsOf({ fromBlock: '0x1', toBlock: '0x63' }), 'p')
  height = 0x64
  clock.advance(pollIntervalMs)
  t.equal(await getLogsOf({ fromBlock: '0x64', toBlock: 'latest' }), 'p')
  clock.advance(pollIntervalMs)
  t.equal(await getLogsOf({ fromBlock: '0x64', toBlock: 'latest' }), 'p')
  t.equal(heightRequests(), 2, 'a height that is known to be enough is not requested again')
})

t.test('the partner answers nothing about `safe` and `finalized` while it lacks the block that own nodes have named so', async t => {
  let height = 0x31
  const { getLogsOf, countOf, clock, pollIntervalMs } = await openOutage(t, () => fakeResult(toHexQuantity(height)))
  const filters = [
    { fromBlock: '0x1', toBlock: 'finalized' },
    { fromBlock: '0x1', toBlock: 'safe' },
    { fromBlock: 'finalized', toBlock: '0x20' },
    { fromBlock: 'finalized', toBlock: 'finalized' },
  ]
  for (const filter of filters) t.equal(await getLogsOf(filter), -32002, JSON.stringify(filter))
  t.equal(countOf('p'), 0)
  height = 0x32
  clock.advance(pollIntervalMs + 10_000) // the retry budget
  for (const filter of filters) t.equal(await getLogsOf(filter), 'p', JSON.stringify(filter))
})

t.test('a partner that does not return its height answers nothing but queries by the hash of a block', async t => {
  const { getLogsOf, heightRequests } = await openOutage(t, () => refuse('timeout'))
  t.equal(await getLogsOf({ fromBlock: '0x1', toBlock: 'latest' }), -32002)
  t.equal(heightRequests(), 1)
  t.equal(await getLogsOf({ blockHash: `0x${'0'.repeat(64)}` }), 'p')
})
