import { refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { openHeadsSource } from '../../../src/services/chain-heads/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
import t from '../../support/tap.ts'
import { shippedMethods } from '../method-table/shipped-table.ts'
import { targetOf } from './model-heads.ts'
import { openModelHeads } from './model-heads.ts'

t.test('polling', async t => {
  t.test('starts with the first call and sends one request per upstream and interval, however many calls come in', async t => {
    const { advance, recordCall, heads, requestCount, settle } = openModelHeads()
    await settle()
    t.equal(requestCount(), 0)
    for (let i = 0; i < 1000; i++) await recordCall()
    t.equal(requestCount(), 3, 'one to each upstream, and one that checks the finalized block of one against the chain of the other')
    for (let i = 0; i < 10; i++) {
      heads.recordActivity()
      await advance(500)
    }
    t.equal(requestCount(), 23)
    t.equal(requestCount('finalized'), 2)
    t.equal(requestCount('eth_chainId'), 2)
  })

  t.test('stops 30 s after the last call, and starts with the next call, which does not wait', async t => {
    const { advance, recordCall, heads, requestCount } = openModelHeads(['a'])
    await recordCall()
    await advance(60_000)
    const before = requestCount()
    t.ok(before >= 60 && before <= 62, `${before} polls in 30 s`)
    await advance(60_000)
    t.equal(requestCount(), before)
    heads.recordActivity()
    t.equal(requestCount(), before, 'the call does not wait for the response')
    await recordCall()
    t.equal(requestCount(), before + 1)
  })

  t.test('requests the finalized block every 16 block times or 30 s, whichever is longer', async t => {
    const { advance, recordCall, requestCount } = openModelHeads(['a'])
    for (let i = 0; i < 61; i++) {
      await recordCall()
      await advance(1000)
    }
    t.equal(requestCount('finalized'), 3)
  })

  t.test('stops when the upstreams are not tracked any more', async t => {
    const { advance, recordCall, requestCount, stop } = openModelHeads(['a'])
    await recordCall()
    stop()
    stop()
    await advance(5000)
    t.equal(requestCount(), 1)
  })
})

/** Networks of one process with ten upstreams each. An upstream answers when the test says so. */
const openManyNetworks = (count: number) => {
  const clock = new TestClock()
  const startMs = clock.monotonic()
  const source = openHeadsSource()
  const requests: { readonly upstream: string; readonly what: string; readonly atMs: number; respond(reply: Reply): void }[] = []
  const networks = Array.from({ length: count }, (_, i) => {
    const heads = source.open(`network-${i}`, {
      ...{ chainId: 1, blockTime: 10_000, clock, log: new TestLog(), metrics: createMetricsRegistry() },
      errorCategory: shippedMethods.errorCategory,
      upstreamClient: {
        disconnects: () => 0,
        request: ({ name }, { method, params }) =>
          new Promise(respond =>
            requests.push({ upstream: name, what: `${method} ${params[0]}`, atMs: clock.monotonic() - startMs, respond }),
          ),
      },
    })
    heads.track(Array.from({ length: 10 }, (__, j) => targetOf(`${i}/${j}`)))
    return heads
  })
  return { clock, requests, networks, ready: source.ready() }
}
const settle = () => new Promise(setImmediate)
const maxChainChecks = 128

t.test('many networks', async t => {
  t.test('have so many checks of their chains at once, the first upstream of each network first, until a call comes in', async t => {
    const { requests, networks, ready } = openManyNetworks(200)
    t.equal(requests.length, maxChainChecks)
    networks[199]?.recordActivity()
    t.equal(requests.length, maxChainChecks + 10, 'those for which a call waits do not take turns')
    for (let answered = 0; answered < 1_990; answered += 1) {
      requests[answered]?.respond(fakeResult('0x1'))
      if (answered % 10 === 0) await settle()
      const waiting = requests.filter(({ what }) => what.startsWith('eth_chainId')).length - answered - 1
      if (waiting > maxChainChecks + 10) t.fail(`${waiting} at once`)
    }
    await ready
    const inTurn = requests.filter(({ upstream }) => !upstream.startsWith('199/')).slice(maxChainChecks)
    const order = inTurn.map(({ upstream }) => Number(upstream.split('/')[1]))
    t.same(
      order,
      order.toSorted((one, other) => one - other),
    )
    t.equal(new Set(requests.map(({ upstream }) => upstream)).size, 2_000)
  })

  t.test('do not wait for upstreams that do not answer; one that fails is asked again after the first ones of others', async t => {
    const { clock, requests } = openManyNetworks(80)
    const upstreams = () => new Set(requests.map(({ upstream }) => upstream)).size
    let askedBeforeThird: ReadonlySet<string> | undefined
    for (let ms = 0; ms < 2_000; ms += 250) {
      for (const { upstream, respond } of requests) if (upstream === '0/0') respond(refuse('timeout', { upstream }))
      await settle()
      t.ok(upstreams() >= Math.min(800, (ms / 250) * maxChainChecks), `${upstreams()} after ${ms} ms`)
      const third = requests.findIndex(({ upstream }, i) => requests.slice(0, i).filter(each => each.upstream === upstream).length === 2)
      if (third >= 0) askedBeforeThird ??= new Set(requests.slice(0, third).map(({ upstream }) => upstream))
      clock.advance(250)
      await settle()
    }
    for (let i = 0; i < 80; i += 1) t.ok(askedBeforeThird?.has(`${i}/0`) && askedBeforeThird.has(`${i}/1`), `network ${i}`)
  })

  t.test('are polled in turn, though the first call of all comes in the same moment', async t => {
    const { clock, requests, networks } = openManyNetworks(100)
    const answerAll = async () => {
      for (const { what, respond } of requests) respond(fakeResult(what.startsWith('eth_chainId') ? '0x1' : null))
      await settle()
    }
    for (const heads of networks) heads.recordActivity()
    for (let i = 0; i < 20; i += 1) await answerAll()
    for (let ms = 0; ms < 10_000; ms += 100) {
      clock.advance(100)
      await answerAll()
    }
    const isPoll = (what: string) => what === 'eth_getBlockByNumber latest'
    const polls = requests.filter(({ what, upstream, atMs }) => isPoll(what) && upstream.endsWith('/0') && atMs > 5_000)
    t.equal(polls.length, 100, 'one in each interval of 5 s')
    const inTenth = Array.from({ length: 10 }, (_, i) => polls.filter(({ atMs }) => Math.ceil((atMs - 5_000) / 500) === i + 1).length)
    t.ok(
      inTenth.every(count => count >= 8 && count <= 12),
      inTenth.join(' '),
    )
  })
})
