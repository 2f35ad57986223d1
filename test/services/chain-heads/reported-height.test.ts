import t from '../../support/tap.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { ancestorAt, seededRandom } from '../../support/model-chain.ts'
import { openModelHeads, targetOf } from './model-heads.ts'

t.test('the reported height', async t => {
  t.test('does not go back when upstreams disagree, or one takes over from another', async t => {
    const { heads, nodeOf, responseOverrides, chain, recordCall, advance } = openModelHeads()
    await recordCall()
    t.equal(heads.reportHeight('a', 101), 101)
    t.equal(heads.reportHeight('b', 99), 101)
    responseOverrides.set('a', () => undefined)
    nodeOf('b').head = ancestorAt(chain.tip, 99) ?? chain.tip
    for (let i = 0; i < 5; i++) await advance(500)
    t.equal(heads.reportHeight('b', 99), 101)
  })

  t.test('is at least the head', async t => {
    const { heads, recordCall } = openModelHeads()
    await recordCall()
    t.equal(heads.reportHeight('b', 90), 100)
  })

  t.test('does not go back where a provider has replicas behind one URL, some of which lag by 2 s', async t => {
    const random = seededRandom(5)
    const { heads, chain, nodeOf, recordCall, clock, settle } = openModelHeads(['a'])
    const reported: number[] = []
    for (let i = 0; i < 2000; i++) {
      if (i % 4 === 0) chain.mine()
      nodeOf('a').head = ancestorAt(chain.tip, chain.tip.number - 2 * random(2)) ?? chain.tip
      if (i % 10 === 0) await recordCall()
      clock.advance(250)
      await settle()
      reported.push(Number(await heads.reportHeight('a', nodeOf('a').head.number)))
    }
    t.same(
      reported.filter((height, i) => height < (reported[i - 1] ?? 0)),
      [],
    )
    t.ok((reported.at(-1) ?? 0) >= chain.tip.number - 2)
  })

  t.test('goes back once no upstream has had it for 3 s: the chain is shorter', async t => {
    const { heads, moveHeads, recordCall, advance, logLines, metrics } = openModelHeads()
    await recordCall()
    moveHeads(80)
    const { headVersion } = heads.snapshot
    await advance(2500)
    t.equal(heads.reportHeight('a', 80), 100)
    t.not(heads.snapshot.headVersion, headVersion, 'the head version increases at once')
    await advance(500)
    t.equal(heads.reportHeight('a', 80), 80)
    t.ok(logLines().includes('warn reported height went back: the chain is shorter'))
    const reverts = metrics.families().find(({ name }) => name === 'tollgate_reported_height_reverts_total')
    t.equal(reverts?.series[0]?.values[0], 1)
  })

  t.test('goes back when those that answer are below it, and the one that had it is silent', async t => {
    const { heads, responseOverrides, moveHeads, recordCall, advance } = openModelHeads()
    await recordCall()
    responseOverrides.set('a', () => undefined)
    moveHeads(80)
    await advance(2500)
    t.equal(heads.reportHeight('b', 80), 100)
    await advance(5000)
    t.equal(heads.reportHeight('b', 80), 80)
  })

  t.test('does not go back by the first poll after a time without polls', async t => {
    const { heads, moveHeads, recordCall, advance } = openModelHeads()
    await recordCall()
    await advance(60_000)
    moveHeads(80)
    await recordCall()
    await advance(1000)
    t.equal(heads.reportHeight('a', 80), 100)
  })

  t.test('goes back once no chain of the upstreams can have it: the chain began anew', async t => {
    const { heads, nodeOf, responseOverrides, clock, moveHeads, recordCall, advance, metrics, logLines } = openModelHeads()
    await recordCall()
    heads.tags.report('a', 'safe', 70)
    moveHeads(20)
    for (const name of ['a', 'b'])
      responseOverrides.set(name, (method, params) => {
        const value = nodeOf(name).answer(method, params)
        return params[0] === 'latest' ? { ...Object(value), timestamp: toHexQuantity(Math.floor(clock.now() / 1000)) } : value
      })
    await advance(500)
    t.equal(heads.reportHeight('a', 20), 20)
    t.equal(heads.tags.reported('safe'), undefined, 'what was safe is void')
    t.ok(logLines().includes('warn reported height went back: no chain of the nodes can have it'))
    const reverts = metrics.families().find(({ name }) => name === 'tollgate_reported_height_reverts_total')
    t.equal(reverts?.series[0]?.values[0], 1)
  })

  t.test('of a tag is requested by its number once another node has come under the name of one that had got so far', async t => {
    const { heads, recordCall, stop } = openModelHeads()
    await recordCall()
    heads.tags.report('a', 'safe', 70)
    t.equal(heads.tags.blockFor('a', 'safe'), undefined)
    t.teardown(heads.track([{ ...targetOf('a'), url: new Secret('http://other.test') }, targetOf('b')]))
    stop()
    t.same([heads.tags.reported('safe'), heads.tags.blockFor('a', 'safe'), heads.tags.blockFor('b', 'safe')], [70, 70, 70])
    t.teardown(heads.track([{ ...targetOf('a'), url: new Secret('http://other.test') }, targetOf('b')]))
    heads.tags.report('a', 'safe', 70)
    t.equal(heads.tags.blockFor('a', 'safe'), undefined, 'the node is the same after another reload')
  })

  t.test('and of a tag, says nothing about another node that has come under the name of the one that answers it', async t => {
    const { heads, recordCall, advance, stop } = openModelHeads()
    const [before, after] = [targetOf('a'), { ...targetOf('a'), url: new Secret('http://other.test') }]
    await recordCall()
    t.teardown(heads.track([after, targetOf('b')]))
    stop()
    await recordCall()
    await advance(1000)
    t.same([before, after, targetOf('b')].map(heads.reporterOf, heads), ['', 'a', 'b'])
    t.equal(heads.reportHeight(heads.reporterOf(before), 101), 101)
    heads.tags.report(heads.reporterOf(before), 'safe', 70)
    t.equal(heads.tags.reported('safe'), 70)
    t.same([heads.hasBlock('a', 101), heads.tags.blockFor('a', 'safe')], [false, 70])
    heads.reportHeight(heads.reporterOf(after), 101)
    t.equal(heads.hasBlock('a', 101), true)
  })

  t.test('stays while no upstream answers', async t => {
    const { heads, responseOverrides, nodeOf, recordCall, advance } = openModelHeads()
    await recordCall()
    responseOverrides.set('a', () => undefined)
    responseOverrides.set('b', () => undefined)
    for (let i = 0; i < 70; i++) {
      await recordCall()
      await advance(1000)
    }
    responseOverrides.set('b', (method, params) => nodeOf('b').answer(method, params))
    t.equal(heads.reportHeight('b', 90), 100)
  })

  t.test('is raised by no caller and no lying node above what the other nodes make plausible, and the cache is not blinded', async t => {
    const { heads, chain, clock, nodeOf, responseOverrides, recordCall } = openModelHeads(['a', 'b', 'liar'])
    for (const name of ['a', 'b', 'liar']) {
      responseOverrides.set(name, (method, params) => {
        const value = nodeOf(name).answer(method, params)
        return params[0] === 'latest' ? { ...Object(value), timestamp: toHexQuantity(Math.floor(clock.now() / 1000)) } : value
      })
    }
    await recordCall()
    const { headVersion } = heads.snapshot
    for (const height of [Number.MAX_SAFE_INTEGER, 1_000_000_000, 1_000]) {
      for (let i = 0; i < 100; i++) t.equal(await heads.reportHeight('liar', height), chain.tip.number)
    }
    t.equal(heads.snapshot.headVersion, headVersion, 'what is cached about the newest block stays')
    for (let i = 0; i < 1000; i++) await heads.reportHeight('liar', chain.tip.number + i)
    const maxSlackBlocks = 31 // 3 times the default maxLag, 10 s, and a block
    t.ok(heads.snapshot.reportedHeight <= chain.tip.number + maxSlackBlocks, `${heads.snapshot.reportedHeight}`)
    t.ok(heads.snapshot.headVersion <= headVersion + maxSlackBlocks, 'the cache is emptied for few of its reports')
  })

  t.test('is none on a development node: what it says is the answer, blocks that go back are followed, and no call waits', async t => {
    const { heads, moveHeads, recordCall, advance, settle, logLines } = openModelHeads(['a', 'b'], undefined, {}, {}, { devNode: true })
    await recordCall()
    for (const number of [101, 90, 1_000_000, 0]) t.equal(heads.reportHeight('a', number), number)
    heads.tags.report('a', 'finalized', 60)
    t.same([heads.tags.blockFor('b', 'finalized'), heads.snapshot.reportedHeight], [undefined, 0])
    const removed: number[] = []
    const feed = heads.feeds.headers.subscribe({
      onUpdate: update => removed.push(...update.removed.map(({ number }) => number)),
      onEnd: () => t.fail('the feed has ended'),
    })
    t.ok(await feed.isStarted)
    for (let i = 0; i < 20; i++) await settle() // the older blocks are fetched
    moveHeads(97)
    await advance(500)
    for (let i = 0; i < 10; i++) await settle()
    t.same(removed, [100, 99, 98])
    t.same([heads.status.head, heads.hasBlock('a'), heads.hasBlock('b', 100)], [97, true, true])
    feed.close()
    t.notMatch(logLines().join(), /went back/)
  })

  t.test('increases the head version when an answer is above the head', async t => {
    const { heads, recordCall } = openModelHeads()
    await recordCall()
    const { headVersion } = heads.snapshot
    heads.reportHeight('a', 101)
    t.not(heads.snapshot.headVersion, headVersion)
    t.ok(heads.snapshot.isCurrent('a'))
    t.notOk(heads.snapshot.isCurrent('b'))
  })
})
