import t from '../../support/tap.ts'
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
