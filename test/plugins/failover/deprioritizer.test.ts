import t from '../../support/tap.ts'
import type { Test } from 'tap'
import type { Call, ContextKey, Json } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import type { Heads } from '../../../src/services/index.ts'
import { fakeCall, fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { failure, getLogs, growth, openFailover, partner } from './failover-fixture.ts'
import type { Responder } from './failover-fixture.ts'

const deprioritized = 'upstream deprioritized: other upstreams succeed where it fails'

t.test('a result of an unexpected type', async t => {
  const unexpected = (name: string) => () => fakeResult(name, { unexpectedType: true, upstream: name })

  t.test('is returned only if neither another node nor the partner has a better one', async t => {
    const replyTo = async (...args: [responders: Record<string, Responder>, options?: object]) =>
      valueOrErrorCode(await openFailover(t, ...args).request(getLogs(growth)))
    t.equal(await replyTo({ a: unexpected('a'), b: () => fakeResult('b') }), 'b')
    t.equal(await replyTo({ a: unexpected('a'), b: unexpected('b') }), 'a')
    t.equal(await replyTo({ a: unexpected('a') }), 'a')
    t.equal(await replyTo({ a: unexpected('a'), p: () => fakeResult('p') }, { partner }), 'p')
    t.equal(await replyTo({ a: unexpected('a'), p: unexpected('p') }, { partner }), 'a')
  })

  t.test('opens no breaker, but its node is requested last while others answer', async t => {
    const { request, requested, requestMany, clock } = openFailover(t, { a: unexpected('a'), b: () => fakeResult('b') })
    await requestMany(6)
    requested.length = 0
    t.equal(valueOrErrorCode(await request(getLogs())), 'b')
    t.same(requested, ['b'])
    clock.advance(60_000)
    await request(getLogs())
    t.same(requested, ['b', 'a', 'b'])
  })
})

t.test('errors to which another node may have a better reply', async t => {
  const nodeError = (over = {}): Failure => ({
    ...refuse('params', { source: 'node', upstream: 'a' }),
    kind: 'node',
    retryElsewhere: true,
    ...over,
  })

  t.test('are returned only if no other node has a better reply', async t => {
    t.equal(valueOrErrorCode(await openFailover(t, { a: () => nodeError(), b: () => fakeResult('b') }).request(getLogs())), 'b')
    t.equal(valueOrErrorCode(await openFailover(t, { a: () => nodeError() }).request(getLogs())), -32602)
  })

  t.test('are no outage: the partner is not requested', async t => {
    const { request, requested } = openFailover(t, { a: () => nodeError(), p: () => fakeResult('p') }, { partner })
    t.equal(valueOrErrorCode(await request(getLogs(growth))), -32602)
    t.notOk(requested.includes('p'))
  })

  t.test("are an outage when they are the node's fault: then the partner is requested", async t => {
    const { request, requested } = openFailover(t, { a: () => nodeError({ fault: 'upstream' }), p: () => fakeResult('p') }, { partner })
    t.equal(valueOrErrorCode(await request(getLogs(growth))), 'p')
    t.same(requested, ['a', 'b', 'p'])
  })

  t.test('are returned if they are about the request rather than about a node, where there is a choice', async t => {
    const internal = () => nodeError({ fault: 'upstream', error: { code: -32000, message: 'x' } })
    const codeOf = async (a: Responder, b: Responder) => valueOrErrorCode(await openFailover(t, { a, b }).request(getLogs()))
    t.equal(await codeOf(internal, () => nodeError()), -32602)
    t.equal(await codeOf(() => nodeError(), internal), -32602)
    t.equal(await codeOf(internal, internal), -32000)
  })

  t.test('and concurrency limits of the gateway are no outage either', async t => {
    const { request, requested } = openFailover(t, { a: () => refuse('unavailable'), b: () => refuse('unavailable') }, { partner })
    t.equal(valueOrErrorCode(await request(getLogs(growth))), -32002)
    t.same(requested, ['a', 'b'])
  })
})

t.test('a node that fails what others answer', async t => {
  const internal = () => failure('a', { retryElsewhere: true })
  const openNodes = (t: Pick<Test, 'teardown'>, a: Responder, b: Responder = () => fakeResult('b'), others = {}) =>
    openFailover(t, { a, b, ...others }, { breaker: { openFor: 5000 }, partner })

  t.test('is requested last for that method, and then once in each period, until it answers', async t => {
    let reply: Reply = internal()
    const { requestMany, countOf, clock, log, request } = openNodes(t, () => reply)
    await requestMany(20)
    t.equal(countOf('a'), 5)
    t.same(
      log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message),
      [deprioritized],
    )
    await request(fakeCall('eth_call'))
    t.equal(countOf('a'), 6, 'other methods are not affected')
    for (let i = 1; i <= 3; i++) {
      clock.advance(5000)
      await requestMany(20)
      t.equal(countOf('a'), 6 + i)
    }
    reply = fakeResult('a')
    clock.advance(5000)
    t.equal(valueOrErrorCode(await request(getLogs())), 'a')
    t.equal(valueOrErrorCode(await request(getLogs())), 'a')
  })

  t.test('is tried by one request at a time after each period, however long that takes and however many come', async t => {
    const silent: Responder = ({ signal }) =>
      new Promise(resolve => signal?.addEventListener('abort', () => resolve(refuse('unavailable', { source: 'node', fault: 'caller' }))))
    const { request, countOf, advance } = openFailover(
      t,
      { a: silent, b: () => fakeResult('b', { upstream: 'b' }) },
      { hedge: true, breaker: { openFor: 1000 } },
    )
    const calls: Promise<Reply>[] = []
    const call10PerSecond = async (seconds: number) => {
      for (let i = 0; i < 10 * seconds; i++) {
        calls.push(request(getLogs()))
        await advance(100)
      }
    }
    await call10PerSecond(12)
    const before = countOf('a')
    await call10PerSecond(60)
    t.equal(countOf('a') - before, 10, 'one each 6 s: 5 s until it is hedged, and a period')
    await advance(5000)
    t.ok((await Promise.all(calls)).every(reply => valueOrErrorCode(reply) === 'b'))
  })

  t.test('is tried by the next request when the caller of a trial has left', async t => {
    let reply: Reply | Promise<Reply> = internal()
    const { request, requestMany, countOf, clock } = openNodes(t, () => reply)
    await requestMany(5)
    clock.advance(5000)
    let leave: (reply: Reply) => void = () => undefined
    reply = new Promise(resolve => (leave = resolve))
    const trial = request(getLogs())
    await requestMany(5)
    t.equal(countOf('a'), 6)
    leave(refuse('unavailable', { source: 'gateway', fault: 'caller' }))
    await trial
    reply = fakeResult('a')
    t.equal(valueOrErrorCode(await request(getLogs())), 'a')
  })

  t.test('is requested all the same when no other can answer', async t => {
    let b: Reply = fakeResult('b')
    const { requestMany, request, requested } = openNodes(
      t,
      () => (requested.length < 10 ? internal() : fakeResult('a')),
      () => b,
    )
    await requestMany(6)
    b = failure('b')
    t.equal(valueOrErrorCode(await request(getLogs())), 'a')
  })

  for (const [what, a, b] of [
    ['others fail it too', internal(), { ...internal(), upstream: 'b' }],
    ['the failure is about the request', { ...internal(), fault: 'caller' }, fakeResult('b')],
    ['only the partner answers', internal(), failure('b')],
  ] as const) {
    t.test(`keeps its place when ${what}`, async t => {
      const { requestMany, countOf } = openNodes(
        t,
        () => a as Reply,
        () => b as Reply,
        { p: () => fakeResult('p', { source: 'partner' }) },
      )
      await requestMany(4, () => getLogs(growth))
      const before = countOf('a')
      await requestMany(2, () => getLogs(growth))
      t.equal(countOf('a'), before + 2)
    })
  }
})

t.test('a node that lacks old state', async t => {
  /** The newest block is 0x1000, the finalized one 0x400. */
  const heads = {
    snapshot: { head: 0x1000, finalizedBlockOf: () => ({ number: 0x400, hash: '0x' }) },
    rankOf: () => 0,
    exclusionOf: () => undefined,
    chainCheckOf: () => ({ result: 'passed' }),
    hasBlock: () => true,
    recordActivity: () => {},
  } as unknown as Heads // the part that failover reads
  const lacking: Failure = {
    ...refuse('params', { source: 'node', upstream: 'a', category: 'blockNotFound', retryElsewhere: true }),
    kind: 'node',
  }
  const hash = `0x${'ab'.repeat(32)}`
  const callAt = (block: Json) => () => fakeCall('eth_call', [{}, block])
  const logsOf = (filter: Json) => () => fakeCall('eth_getLogs', [filter])
  const openNodes = (t: Pick<Test, 'teardown'>, a: Responder, b: Responder = () => fakeResult('b'), known = heads) =>
    openFailover(t, { a, b }, { breaker: { openFor: 5000 } }, { heads: known })
  const isOld = ({ context }: Call<ContextKey>) => JSON.stringify(context.request.params).includes('0x5')
  const respondAsPruned: Responder = call => (isOld(call) ? lacking : fakeResult('a'))

  t.test('is requested last for old state, and first for the state that it has', async t => {
    const { requestMany, countOf, request, log } = openNodes(t, respondAsPruned)
    await requestMany(20, callAt('0x5'))
    t.equal(countOf('a'), 5)
    t.same(
      log.lines.map(({ fields, message }) => ({ fields, message })),
      [{ fields: { upstream: 'a', method: 'eth_call', blocks: 'historical' }, message: deprioritized }],
    )
    for (const recent of [[], [{}, 'latest'], [{}, 'pending'], [{}, '0xfff'], [{}, { blockNumber: '0xff0' }], [{}, '0x1001']]) {
      t.equal(valueOrErrorCode(await request(fakeCall('eth_call', recent))), 'a', JSON.stringify(recent))
    }
    t.equal(valueOrErrorCode(await request(fakeCall('eth_getLogs', [{ fromBlock: '0x6' }]))), 'a', 'other methods are not affected')
    await requestMany(5, callAt('0x5'))
    t.equal(countOf('a'), 5 + 7, 'answers for recent state do not end it')
  })

  for (const [age, call, others] of [
    [
      'historical',
      callAt('0x5'),
      [callAt('0x6'), callAt('earliest'), callAt('0xf00'), callAt({ blockNumber: '0x7' }), callAt('finalized'), callAt('safe')],
    ],
    [
      'historical',
      logsOf({ fromBlock: '0x5', toBlock: 'latest' }),
      [logsOf({ fromBlock: 'earliest' }), logsOf({ fromBlock: '0x7', toBlock: '0x8' })],
    ],
    ['recent', callAt('latest'), [callAt('0xfff'), callAt('pending'), callAt({ blockNumber: '0xfc0' }), () => fakeCall('eth_call', [{}])]],
    ['recent', logsOf({ fromBlock: '0xfff' }), [logsOf({}), logsOf({ fromBlock: 'latest', toBlock: 'latest' })]],
    ['named by its hash', callAt(hash), [callAt({ blockHash: hash }), callAt(`0x${'cd'.repeat(32)}`)]],
    ['named by its hash', logsOf({ blockHash: hash }), [logsOf({ blockHash: `0x${'cd'.repeat(32)}` })]],
  ] as const) {
    t.test(`all requests for ${age} state go to other nodes: ${JSON.stringify(call().context.request.params)}`, async t => {
      const { requestMany, countOf } = openNodes(t, () => lacking)
      await requestMany(5, call)
      for (const other of others) {
        await requestMany(2, other)
        t.equal(countOf('a'), 5, JSON.stringify(other().context.request.params))
      }
      for (const other of [
        callAt('0x8'),
        callAt('latest'),
        callAt(hash),
        logsOf({ fromBlock: '0x8' }),
        logsOf({}),
        logsOf({ blockHash: hash }),
      ])
        await requestMany(1, other)
      t.equal(countOf('a'), 10, 'and no other requests')
    })
  }

  for (const [what, call, a, b, known] of [
    ['no node has the block', callAt('0x5'), () => lacking, () => lacking, heads],
    ['the block is near the oldest that full nodes have', callAt('0xf80'), () => lacking, undefined, heads],
    ['no head is known', callAt('0x5'), () => lacking, undefined, { ...heads, snapshot: { ...heads.snapshot, head: undefined } }],
    ['the request names no block', () => fakeCall('eth_getTransactionReceipt', [hash]), () => lacking, undefined, heads],
    ['the query is too wide', callAt('0x5'), () => ({ ...lacking, category: 'rangeTooWide' }), undefined, heads],
  ] as const) {
    t.test(`keeps its place when ${what}`, async t => {
      const { requestMany, countOf } = openNodes(t, a as Responder, b, known)
      await requestMany(6, call)
      const before = countOf('a')
      await requestMany(2, call)
      t.equal(countOf('a'), before + 2)
    })
  }

  t.test('is tried once more after each period, until it has the state', async t => {
    let hasState = false
    const { requestMany, countOf, clock, request } = openNodes(t, call => (hasState ? fakeResult('a') : respondAsPruned(call)))
    await requestMany(6, callAt('0x5'))
    for (let i = 1; i <= 2; i++) {
      clock.advance(5000)
      await requestMany(5, callAt('0x5'))
      t.equal(countOf('a'), 5 + i)
    }
    hasState = true
    clock.advance(5000)
    for (let i = 0; i < 3; i++) t.equal(valueOrErrorCode(await request(callAt('0x5')())), 'a')
  })

  t.test('is requested all the same when no other can answer', async t => {
    let isOtherUp = true
    const { requestMany, request } = openNodes(
      t,
      call => (isOtherUp ? respondAsPruned(call) : fakeResult('a')),
      () => (isOtherUp ? fakeResult('b') : failure('b')),
    )
    await requestMany(6, callAt('0x5'))
    isOtherUp = false
    t.equal(valueOrErrorCode(await request(callAt('0x5')())), 'a')
  })
})
