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

  t.test('goes back once each upstream has been below it for 3 s, and three polls: the chain was reset', async t => {
    const { heads, moveHeads, recordCall, advance, logLines } = openModelHeads()
    await recordCall()
    moveHeads(80)
    const { headVersion } = heads.snapshot
    await advance(2500)
    t.equal(heads.reportHeight('a', 80), 100)
    t.not(heads.snapshot.headVersion, headVersion, 'the head version increases at once')
    await advance(500)
    t.equal(heads.reportHeight('a', 80), 80)
    t.ok(logLines().includes('warn reported height went back: the chain is shorter'))
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

  t.test('goes back at once when a caller has taken every node back, not before, and not for longer', async t => {
    const { heads, nodeOf, chain, moveHeads, recordCall, advance, logLines } = openModelHeads()
    await recordCall()
    nodeOf('a').head = ancestorAt(chain.tip, 80) ?? chain.tip
    heads.tags.report('a', 'safe', 70)
    await heads.recordRewind()
    t.equal(heads.reportHeight('a', 80), 100, 'another node has the block')
    t.equal(heads.tags.blockFor('b', 'safe'), 70)
    moveHeads(80)
    await heads.recordRewind()
    t.equal(heads.reportHeight('a', 80), 80)
    t.equal(heads.tags.blockFor('b', 'safe'), undefined, 'the nodes say again what is safe')
    t.same(
      logLines().filter(line => line.includes('went back')),
      ['info reported height went back: a caller has taken the node back'],
    )
    t.equal(heads.reportHeight('b', 90), 90)
    await advance(500)
    t.equal(heads.reportHeight('a', 80), 90, 'what is told afterwards is not taken back')
  })

  t.test('goes back with the node though a poll was in flight, whose answer is older', async t => {
    const { heads, nodeOf, responseOverrides, moveHeads, recordCall, clock, settle } = openModelHeads(['a'])
    await recordCall()
    const before = nodeOf('a').answer('eth_getBlockByNumber', ['latest', false])
    let answer = () => {}
    responseOverrides.set('a', () => new Promise(resolve => (answer = () => resolve(before))))
    clock.advance(500)
    await settle()
    responseOverrides.delete('a')
    moveHeads(80)
    await heads.recordRewind()
    answer()
    await settle()
    t.equal(heads.reportHeight('a', 80), 80)
    clock.advance(500)
    await settle()
    t.equal(heads.status.head, 80, 'polls go on')
  })

  t.test('does not wait for an upstream that has been silent for 3 s, and three polls: no upstream has the block', async t => {
    const { heads, responseOverrides, moveHeads, recordCall, advance, metrics } = openModelHeads()
    await recordCall()
    responseOverrides.set('a', () => undefined)
    moveHeads(80)
    await advance(3000)
    t.equal(heads.reportHeight('b', 80), 100)
    await advance(500)
    t.equal(heads.reportHeight('b', 80), 80)
    const reverts = metrics.families().find(({ name }) => name === 'tollgate_reported_height_reverts_total')
    t.equal(reverts?.series[0]?.values[0], 1)
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
