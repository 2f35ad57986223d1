import t from '../../support/tap.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import type { Heads } from '../../../src/services/index.ts'
import { ancestorAt } from '../../support/model-chain.ts'
import { openModelHeads, orderOf, targetOf } from './model-heads.ts'

const chainChecksOf = (heads: Heads, names = heads.status.upstreams.map(({ name }) => name)) =>
  names.map(name => heads.chainCheckOf(targetOf(name)).result)

t.test('an upstream', async t => {
  t.test('that lags more than maxLag comes last until it has caught up', async t => {
    const { heads, chain, nodeOf, recordCall, advance, logLines } = openModelHeads(['a', 'b'], 3)
    nodeOf('a').head = ancestorAt(chain.tip, 96) ?? chain.tip
    await recordCall()
    t.same(orderOf(heads, [targetOf('a'), targetOf('b')]), ['b', 'a'])
    t.match(heads.status.upstreams, [
      { name: 'a', head: 96, usable: false, because: 'its head lags 4 blocks behind' },
      { name: 'b', head: 100, usable: true },
    ])
    t.equal(heads.exclusionOf('a'), 'lag')
    nodeOf('a').head = ancestorAt(chain.tip, 97) ?? chain.tip
    await advance(500)
    t.same(orderOf(heads, [targetOf('a'), targetOf('b')]), ['a', 'b'])
    t.equal(heads.exclusionOf('a'), undefined)
    t.same(logLines(), ['warn upstream excluded: its head lags too far behind', 'info upstream no longer excluded'])
  })

  t.test('is not excluded for a head from before an idle time; it is when it lags once it is polled again', async t => {
    const { heads, chain, nodeOf, moveHeads, responseOverrides, recordCall, settle, advance, logLines } = openModelHeads(['a', 'b'], 3)
    const usable = () => heads.status.upstreams.map(each => each.usable)
    let release = (): void => {}
    const idleFor219Blocks = async (): Promise<void> => {
      await advance(60_000)
      for (let i = 0; i < 219; i++) chain.mine()
      moveHeads(chain.tip.number)
      const held = new Promise<void>(resolve => (release = resolve))
      responseOverrides.set('b', (method, params) => held.then(() => nodeOf('b').answer(method, params)))
    }
    await recordCall()
    await idleFor219Blocks()
    await recordCall()
    t.match(heads.status, { head: 319, upstreams: [{ head: 319 }, { head: 100 }] }, 'one has answered, the other not yet')
    t.same([usable(), heads.hasBlock('b')], [[true, true], false])
    release()
    await settle()
    t.match(heads.status, { upstreams: [{ head: 319 }, { head: 319 }] })
    t.same(logLines(), [])
    await idleFor219Blocks()
    nodeOf('b').head = ancestorAt(chain.tip, 319) ?? chain.tip
    heads.reportHeight('a', 538)
    t.same(usable(), [true, true], 'nor when a caller is given a greater height')
    await recordCall()
    release()
    await settle()
    t.same(usable(), [true, false])
    await advance(60_000)
    heads.recordActivity()
    t.same(usable(), [true, false], 'and then until it has caught up')
    t.same(logLines(), ['warn upstream excluded: its head lags too far behind'])
  })

  t.test('of another chain is excluded, logged as an error, and checked again', async t => {
    const { heads, responseOverrides, nodeOf, recordCall, settle, advance, logLines, requests } = openModelHeads(['a', 'b'], undefined, {
      a: '0x5',
    })
    nodeOf('a').head = { ...nodeOf('a').head, number: 5000 }
    await settle()
    t.same(chainChecksOf(heads), ['failed', 'passed'])
    t.same(logLines(), ['error upstream excluded: wrong chain ID'], 'before any call')
    await recordCall()
    t.match(heads.status, { head: 100 })
    t.notOk(requests.includes('a eth_getBlockByNumber'), 'its blocks are not requested')
    nodeOf('a').head = nodeOf('b').head
    responseOverrides.set('a', (method, params) => nodeOf('a').answer(method, params))
    for (let i = 0; i < 31; i++) {
      await recordCall()
      await advance(1000)
    }
    t.same(chainChecksOf(heads), ['passed', 'passed'])
  })

  t.test('has its chain ID checked again after it was unreachable', async t => {
    const { heads, responseOverrides, nodeOf, recordCall, advance } = openModelHeads(['a', 'b'])
    await recordCall()
    responseOverrides.set('a', () => undefined)
    await advance(500)
    responseOverrides.set('a', (method, params) => (method === 'eth_chainId' ? '0x5' : nodeOf('a').answer(method, params)))
    await advance(500)
    t.same(chainChecksOf(heads), ['failed', 'passed'])
  })

  t.test('has its chain ID checked again after it has closed a connection, though it answers', async t => {
    const { heads, responseOverrides, disconnects, nodeOf, recordCall, advance, requestCount } = openModelHeads(['a', 'b'])
    await recordCall()
    disconnects.set('a', 1)
    responseOverrides.set('a', (method, params) => (method === 'eth_chainId' ? '0x5' : nodeOf('a').answer(method, params)))
    await advance(500)
    t.same(chainChecksOf(heads), ['failed', 'passed'])
    t.equal(requestCount('eth_chainId'), 3, 'one for each upstream, and one more')
  })

  t.test('of another chain gets no calls even if no other remains, and is used once it is on the expected chain', async t => {
    const { heads, responseOverrides, nodeOf, recordCall, advance } = openModelHeads(['a', 'b'], undefined, { a: '0x5', b: '0x5' })
    await recordCall()
    t.ok(heads.status.upstreams.every(({ usable }) => !usable))
    t.same(chainChecksOf(heads), ['failed', 'failed'])
    responseOverrides.set('a', () => null)
    responseOverrides.set('b', (method, params) => nodeOf('b').answer(method, params))
    for (let i = 0; i < 11; i++) {
      await recordCall()
      await advance(1000)
    }
    t.same(chainChecksOf(heads), ['failed', 'passed'], 'within 10 s')
  })

  t.test('that does not return its chain ID gets no calls, and is asked again with a growing delay until it does', async t => {
    const { heads, responseOverrides, settle, advance, requestCount, logLines } = openModelHeads(['a'], undefined, {
      a: undefined,
    })
    t.same(chainChecksOf(heads), ['pending'])
    let isChecked = false
    void heads.whenChainChecked().then(() => (isChecked = true))
    await settle()
    t.same([chainChecksOf(heads), requestCount('eth_chainId'), isChecked], [['failed'], 2, true], 'twice at once')
    t.match(heads.status.upstreams, [{ usable: false, because: 'it has not returned its chain ID: ECONNREFUSED' }])
    t.equal(heads.exclusionOf('a'), 'unverified')
    await advance(60_000)
    t.equal(requestCount('eth_chainId'), 12, 'after 0.25, 0.5, 1, 2, 4 and 8 s, then every 10 s, although no call comes in')
    responseOverrides.set('a', () => '0x1')
    await advance(10_000)
    t.same(chainChecksOf(heads), ['passed'])
    t.equal(heads.exclusionOf('a'), undefined)
    t.same(logLines(), [
      'warn upstream does not answer: check its URL',
      'warn upstream excluded: it has not returned its chain ID',
      'info upstream answers again',
      'info upstream no longer excluded',
    ])
    await advance(60_000)
    t.equal(requestCount('eth_chainId'), 13, 'once it has, it is asked again only while calls come in')
  })

  t.test('that has no eth_chainId gets calls, and the log says that its chain is not checked', async t => {
    const { heads, settle, logLines, responseOverrides, requestCount, advance } = openModelHeads(['a'], undefined, { a: null })
    await settle()
    t.same(chainChecksOf(heads), ['passed'])
    t.same(logLines(), ['warn upstream without a chain ID: its chain is not checked'])
    responseOverrides.set('a', () => undefined)
    const before = requestCount('eth_chainId')
    await advance(60_000)
    t.ok(requestCount('eth_chainId') - before <= 12, 'while it does not answer, it is asked as seldom as any other')
    t.same(chainChecksOf(heads), ['passed'])
    responseOverrides.set('a', () => '0x5')
    await advance(60_000)
    heads.recordActivity()
    await advance(60_000)
    t.same(chainChecksOf(heads), ['failed'], 'once it returns another one, it gets none')
  })

  t.test('that does not answer does not delay a start, when another may get calls', async t => {
    const { heads, responseOverrides } = openModelHeads([])
    responseOverrides.set('a', () => new Promise(() => {}))
    responseOverrides.set('b', () => '0x1')
    heads.track([targetOf('a'), targetOf('b')])
    await heads.whenChainChecked()
    t.same(chainChecksOf(heads), ['pending', 'passed'])
  })

  t.test('that has returned the right chain ID keeps its calls while it does not answer', async t => {
    const { heads, responseOverrides, recordCall, advance } = openModelHeads(['a', 'b'])
    await recordCall()
    responseOverrides.set('a', () => undefined)
    for (let i = 0; i < 40; i++) {
      await recordCall()
      await advance(1000)
    }
    t.same(chainChecksOf(heads), ['passed', 'passed'])
  })

  t.test('whose URL changes with a reload gets no calls before its chain is known; the replaced one goes on', async t => {
    const { heads, settle, responseOverrides } = openModelHeads(['a'])
    await settle()
    const [before, after] = [targetOf('a'), { ...targetOf('a'), url: new Secret('http://moved.test') }]
    responseOverrides.set('a', () => '0x5')
    const stop = heads.track([after])
    t.same([heads.chainCheckOf(before).result, heads.chainCheckOf(after).result], ['passed', 'pending'])
    await settle()
    t.same([heads.chainCheckOf(before).result, heads.chainCheckOf(after).result], ['passed', 'failed'])
    stop()
    t.equal(heads.chainCheckOf(before).result, 'passed')
  })

  t.test('that lags less than maxLag comes last for blocks that it does not have', async t => {
    const { heads, chain, nodeOf, recordCall } = openModelHeads(['a', 'b', 'c'], 3)
    nodeOf('a').head = ancestorAt(chain.tip, 98) ?? chain.tip
    const all = [targetOf('a'), targetOf('b'), targetOf('unknown')]
    const order = (block?: number) => orderOf(heads, all, block)
    t.same(order(100), ['a', 'b', 'unknown'], 'before the first poll')
    await recordCall()
    t.same(order(98), ['a', 'b', 'unknown'])
    t.same(order(99), ['b', 'unknown', 'a'])
    t.same(order(100), ['b', 'unknown', 'a'])
    t.same(order(101), ['a', 'b', 'unknown'], 'no upstream has it')
    t.same(order(), ['a', 'b', 'unknown'])
    heads.reportHeight('b', 101)
    t.same(order(101), ['b', 'unknown', 'a'], 'at once with the answer to a caller')
  })

  t.test('that lags, or is implausibly high, is used when no other remains', async t => {
    const { heads, chain, nodeOf, recordCall } = openModelHeads(['a', 'b'], 3)
    nodeOf('a').head = ancestorAt(chain.tip, 90) ?? chain.tip
    await recordCall()
    t.match(heads.status.upstreams, [
      { name: 'a', usable: false },
      { name: 'b', usable: true },
    ])
    t.same(orderOf(heads, [targetOf('a')]), ['a'])
  })
})
