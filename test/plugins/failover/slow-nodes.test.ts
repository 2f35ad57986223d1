import { setImmediate as turn } from 'node:timers/promises'
import t from '../../support/tap.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { failure, getLogs, getReceipt, node, openFailover } from './failover-fixture.ts'
import type { Responder } from './failover-fixture.ts'

t.test('a node that does not answer in time', async t => {
  /** Node `a` answers 100 calls, and from then on what `respond` says. */
  const openWithFailingNode = async (respond: Responder, options: object = {}, respondOfOther: Responder = () => fakeResult('b')) => {
    let isFailing = false
    const opened = openFailover(
      t,
      {
        b: call => (isFailing ? respondOfOther(call) : fakeResult('b')),
        c: () => fakeResult('c'),
        a: call => (isFailing ? respond(call) : fakeResult('a')),
      },
      { hedge: true, ...options },
      { respondToProbe: () => fakeResult('0x1') },
    )
    await opened.requestMany(100, getReceipt)
    opened.requested.length = 0
    /** Resolves with the replies to 20 calls. */
    const requestEach10ms = async (): Promise<readonly Reply[]> => {
      const replies: Promise<Reply>[] = []
      for (let i = 0; i < 20; i++) {
        replies.push(opened.request(getReceipt()))
        await opened.advance(10)
      }
      return Promise.all(replies)
    }
    return { ...opened, requestEach10ms, fail: (value: boolean) => (isFailing = value) }
  }
  const hang: Responder = ({ signal }) =>
    new Promise<Reply>(resolve => signal?.addEventListener('abort', () => resolve(refuse('unavailable', { fault: 'caller' }))))

  t.test('gets calls of that class only after the others, before any probe is answered, and is probed at once', async t => {
    const { request, fail, requestEach10ms, countOf, requested, probes, log } = await openWithFailingNode(hang)
    fail(true)
    t.ok((await requestEach10ms()).every(reply => valueOrErrorCode(reply) === 'b'))
    t.ok(countOf('a') <= 8, `${countOf('a')} calls went to the node that hangs`)
    t.same(probes, ['a eth_blockNumber'])
    t.equal(log.lines.filter(({ message }) => message.startsWith('upstream suspect')).length, 1)
    requested.length = 0
    fail(false)
    void request(getLogs())
    t.same(requested, ['a'], 'other classes are not concerned')
  })

  t.test('loses its late calls to others, also those for which there is no hedge', async t => {
    const { fail, requestEach10ms } = await openWithFailingNode(hang, { hedge: false })
    fail(true)
    t.ok((await requestEach10ms()).every(reply => valueOrErrorCode(reply) === 'b'))
  })

  t.test(
    'leaves no trace in the answer where the others fail: no upstream can answer, and the caller is told when to try again',
    async t => {
      const { request, advance, fail } = await openWithFailingNode(hang, { hedge: false }, () => failure('b'))
      fail(true)
      const replies: Reply[] = []
      for (let i = 0; i < 20; i++) {
        void request(getReceipt()).then(reply => replies.push(reply))
        await advance(10)
      }
      t.ok(replies.length > 0)
      for (const reply of replies) t.match(reply, { kind: 'unavailable', source: 'gateway', retryAfter: Number })
    },
  )

  t.test('keeps its calls where no other node is', async t => {
    const { request, fail, advance, countOf, log } = await openWithFailingNode(hang, { upstreams: [node('a')] })
    fail(true)
    for (let i = 0; i < 10; i++) {
      void request(getReceipt())
      await advance(20)
    }
    t.equal(countOf('a'), 10)
    t.notOk(log.lines.some(({ message }) => message.startsWith('upstream suspect')))
  })

  t.test('is the only one that is suspect', async t => {
    let isFailing = false
    const hangLater: Responder = call => (isFailing ? hang(call) : fakeResult('x'))
    const upstreams = ['a', 'b', 'c'].map(name => node(name, { weight: 1 }))
    const opened = openFailover(
      t,
      { a: hangLater, b: hangLater, c: () => fakeResult('c') },
      { upstreams, hedge: true },
      { respondToProbe: () => fakeResult('0x1') },
    )
    await opened.requestMany(300, getReceipt)
    isFailing = true
    const suspects = () => opened.log.lines.filter(({ message }) => message.startsWith('upstream suspect')).length
    const sendUntil = async (isEnough: (calls: number) => boolean) => {
      for (let calls = 0; !isEnough(calls); calls++) {
        void opened.request(getReceipt())
        await opened.advance(10)
      }
    }
    await sendUntil(calls => calls === 100 || suspects() > 0)
    await sendUntil(calls => calls === 90)
    t.equal(suspects(), 1, 'the other fails, too, while one is suspended')
  })

  t.test('comes before a node of weight 0', async t => {
    const upstreams = [node('a', { weight: 1 }), node('b', { weight: 1 }), node('c', { weight: 0 })]
    const { request, fail, advance, countOf } = await openWithFailingNode(hang, { upstreams })
    fail(true)
    for (let i = 0; i < 40; i++) {
      void request(getReceipt())
      await advance(10)
    }
    t.equal(countOf('c'), 0)
  })
})

t.test('a node whose breaker closes gets no burst of calls', async t => {
  let isDown = true
  const { request, requestMany, advance, countOf, requested } = openFailover(
    t,
    { a: () => (isDown ? failure('a') : fakeResult('a')), b: () => fakeResult('b') },
    { breaker: { openFor: 1000 } },
    { respondToProbe: () => (isDown ? failure('a') : fakeResult('0x1')) },
  )
  await requestMany(10)
  t.equal(countOf('a'), 5)
  isDown = false
  await advance(1000)
  requested.length = 0
  const replies: Promise<Reply>[] = []
  for (let i = 0; i < 100; i++) replies.push(request(getLogs()))
  await Promise.all(replies)
  t.ok(countOf('a') >= 1 && countOf('a') <= 6, `${countOf('a')} of 100 calls that came at once`)
  await advance(1000)
  requested.length = 0
  await requestMany(100)
  t.ok(countOf('a') >= 45 && countOf('a') <= 55, `${countOf('a')} of 100 calls a second later`)
  await advance(1000)
  requested.length = 0
  await requestMany(100)
  t.equal(countOf('a'), 100)
  await turn()
})

t.test('a node that is far slower than another', async t => {
  /** Node `a` takes so long, and `b` 10 ms; of 20 calls a second three of four go to `a` while it is not slow. */
  const openSlow = (latencyMs: number) => {
    let slowMs = latencyMs
    const opened = openFailover(
      t,
      {
        a: async () => (await new Promise<void>(resolve => opened.clock.after(slowMs, resolve)), fakeResult('a')),
        b: async () => (await new Promise<void>(resolve => opened.clock.after(10, resolve)), fakeResult('b')),
      },
      { upstreams: [node('a', { weight: 3 }), node('b', { weight: 1 })] },
    )
    const sendFor = async (seconds: number) => {
      opened.requested.length = 0
      for (let i = 0; i < 20 * seconds; i++) {
        void opened.request(getReceipt())
        await opened.advance(50)
      }
      return opened.countOf('a') / opened.requested.length
    }
    return { ...opened, sendFor, setLatency: (ms: number) => (slowMs = ms) }
  }

  t.test('for half a minute gets calls by the ratio of their latencies, until it is about as fast', async t => {
    const { stage, sendFor, setLatency } = openSlow(500)
    await stage.start?.()
    t.equal(await sendFor(25), 0.75, 'not yet')
    await sendFor(20)
    const share = await sendFor(20)
    t.ok(share >= 0.06 && share <= 0.11, `${share}`)
    setLatency(10)
    for (let i = 0; i < 40 && (await sendFor(20)) < 0.75; i++);
    t.equal(await sendFor(20), 0.75)
  })

  t.test('by less than 100 ms, or less than four times, keeps its share', async t => {
    const { stage, sendFor } = openSlow(80)
    await stage.start?.()
    await sendFor(60)
    t.equal(await sendFor(10), 0.75)
  })
})
