import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { formatMetrics } from '../../../src/services/metrics.ts'
import { ancestorAt } from '../../support/model-chain.ts'
import { openModelHeads } from './model-heads.ts'

t.test('a reorg', async t => {
  t.test('is found by the ancestors of the new head, which are fetched', async t => {
    const { heads, chain, nodeOf, recordCall, advance, logLines, requests, metrics } = openModelHeads(['a'])
    for (let i = 0; i < 12; i++) {
      await recordCall()
      chain.mine()
      nodeOf('a').head = chain.tip
      await advance(500)
    }
    const before = heads.snapshot
    chain.reorg()
    nodeOf('a').head = chain.tip
    await advance(500)
    t.not(heads.snapshot.headVersion, before.headVersion)
    t.equal(heads.snapshot.finalityVersion, before.finalityVersion)
    t.same(logLines(), ['info chain reorg'])
    t.ok(requests.includes('a eth_getBlockByHash'))
    t.match(formatMetrics(metrics.families()), /tollgate_reorgs_total 1\n/)
  })

  t.test('reverts nothing while the node fails when it is asked for the finalized block', async t => {
    const { heads, chain, nodeOf, responseOverrides, recordCall, advance } = openModelHeads(['a'])
    await recordCall()
    const { finalityVersion } = heads.snapshot
    chain.reset()
    for (let i = 0; i < 200; i++) chain.mine()
    Object.assign(nodeOf('a'), { head: chain.tip })
    responseOverrides.set('a', (method, params) => (params[0] === 'latest' ? nodeOf('a').answer(method, params) : undefined))
    await recordCall()
    await advance(500)
    t.equal(heads.snapshot.finalityVersion, finalityVersion)
    responseOverrides.clear()
    await recordCall()
    await advance(1_000)
    t.equal(heads.snapshot.finalityVersion, finalityVersion + 1, 'until the node says what it has')
  })

  t.test('reverts nothing where the node that is asked for the finalized block is tracked no longer', async t => {
    const { heads, chain, nodeOf, responseOverrides, recordCall, advance, logLines, stop } = openModelHeads(['a'])
    await recordCall()
    const { finalityVersion } = heads.snapshot
    chain.reset()
    for (let i = 0; i < 200; i++) chain.mine()
    Object.assign(nodeOf('a'), { head: chain.tip })
    let isAsked = false
    responseOverrides.set('a', (method, params) => {
      isAsked ||= params[0] === '0x32'
      return params[0] === 'latest' ? nodeOf('a').answer(method, params) : new Promise(() => {})
    })
    await recordCall()
    await advance(500)
    t.ok(isAsked)
    stop()
    await advance(500)
    t.equal(heads.snapshot.finalityVersion, finalityVersion)
    t.same(logLines(), [])
  })

  t.test('that reverts finalized blocks increases the finality version', async t => {
    for (const length of [10, 100, 500]) {
      const { heads, chain, nodeOf, recordCall, advance, logLines } = openModelHeads(['a'])
      await recordCall()
      const before = heads.snapshot
      t.ok(before.isFinal('a', 50))
      chain.reset()
      for (let i = 0; i < length; i++) chain.mine()
      Object.assign(nodeOf('a'), { head: chain.tip, final: chain.final })
      await advance(500)
      t.equal(heads.snapshot.finalityVersion, before.finalityVersion + 1, `a new chain of ${length} blocks`)
      t.notOk(heads.snapshot.isFinal('a', 50))
      t.ok(logLines().includes('warn finalized blocks were reverted'))
    }
  })

  t.test('that reverts finalized blocks of a longer chain increases the finality version with the poll that returns its head', async t => {
    for (const [extraBlocks, depth] of [
      [3, 20],
      [1, 60],
      [40, 2],
      [0, 20],
    ] as const) {
      const { heads, chain, nodeOf, recordCall, advance } = openModelHeads(['a'])
      for (let i = 0; i < 60; i++) {
        chain.mine()
        nodeOf('a').head = nodeOf('a').final = chain.tip // some networks finalize the head, until it reorgs
        await recordCall()
        await advance(500)
      }
      const { number } = heads.snapshot.finalizedBlockOf('a') ?? { number: 0 }
      const { finalityVersion } = heads.snapshot
      const lowestReverted = chain.tip.number - depth + 1
      chain.fork(depth, depth + extraBlocks)
      Object.assign(nodeOf('a'), { head: chain.tip, final: ancestorAt(chain.tip, 100) })
      await advance(500)
      t.equal(
        heads.snapshot.finalityVersion,
        number >= lowestReverted ? finalityVersion + 1 : finalityVersion,
        `${depth} blocks are replaced by ${depth + extraBlocks}`,
      )
      await advance(500)
      t.same(
        [heads.snapshot.isFinal('a', 100), heads.snapshot.isFinal('a', Math.max(lowestReverted, 101))],
        [true, number < lowestReverted],
      )
    }
  })

  t.test('is not reported when an upstream that is behind takes over', async t => {
    const { heads, chain, nodeOf, responseOverrides, recordCall, advance, logLines, metrics } = openModelHeads(['a', 'b'])
    nodeOf('b').head = chain.tip
    for (let i = 0; i < 2; i++) chain.mine()
    nodeOf('a').head = chain.tip
    await recordCall()
    await advance(500)
    responseOverrides.set('a', () => undefined)
    for (let i = 0; i < 12; i++) {
      await recordCall()
      await advance(500)
    }
    t.match(heads.status, { head: chain.tip.number - 2 })
    t.notMatch(logLines().join(), 'chain reorg')
    t.match(formatMetrics(metrics.families()), /tollgate_reorgs_total 0\n/)
  })

  t.test('is not reported when the chain has grown by several blocks between two polls', async t => {
    const { heads, chain, nodeOf, recordCall, advance, logLines } = openModelHeads(['a'])
    await recordCall()
    for (const count of [5, 60, 300]) {
      for (let i = 0; i < count; i++) chain.mine()
      nodeOf('a').head = chain.tip
      await advance(500)
    }
    t.same(logLines(), [])
    t.equal(heads.snapshot.finalityVersion, 0)
  })
})

t.test('the finalized block', async t => {
  for (const response of ['the reverted block', 'a failure']) {
    t.test(`is not one that was reverted during the request, when the response is ${response}`, async t => {
      const { heads, chain, nodeOf, responseOverrides, recordCall, advance } = openModelHeads(['a'])
      await recordCall()
      for (let i = 0; i < 60; i++) {
        chain.mine()
        nodeOf('a').head = chain.tip
        nodeOf('a').final = ancestorAt(chain.tip, 100) ?? chain.tip
        await recordCall()
        await advance(500)
      }
      t.match(heads.snapshot.finalizedBlockOf('a'), { number: 100 })
      let respond: ((value: Json | undefined) => void) | undefined
      const reverted = nodeOf('a').answer('eth_getBlockByNumber', ['finalized'])
      responseOverrides.set('a', (method, params) =>
        params[0] !== 'finalized' || respond !== undefined
          ? nodeOf('a').answer(method, params)
          : new Promise(resolve => {
              respond = resolve
            }),
      )
      while (respond === undefined) {
        await recordCall()
        await advance(500)
      }
      chain.fork(70, 71)
      Object.assign(nodeOf('a'), { head: chain.tip, final: ancestorAt(chain.tip, 80) })
      const { finalityVersion } = heads.snapshot
      await advance(1000)
      t.equal(heads.snapshot.finalityVersion, finalityVersion + 1)
      respond(response === 'a failure' ? undefined : reverted)
      await advance(1000)
      t.match(heads.snapshot.finalizedBlockOf('a'), { number: 80, hash: nodeOf('a').final.hash })
    })
  }

  t.test('of an upstream on a branch that the others have left does not count until the upstream has left it too', async t => {
    const { heads, chain, nodeOf, recordCall, advance } = openModelHeads(['a', 'b'])
    for (let i = 0; i < 60; i++) chain.mine()
    const trunk = chain.tip
    Object.assign(nodeOf('a'), { head: trunk, final: ancestorAt(trunk, 130) })
    chain.fork(80, 40)
    Object.assign(nodeOf('b'), { head: chain.tip, final: ancestorAt(chain.tip, 90) })
    await recordCall()
    await advance(2000)
    t.same([heads.snapshot.isFinal('a', 130), heads.snapshot.isFinal('b', 90), heads.snapshot.finalityVersion], [true, false, 0])
    Object.assign(nodeOf('b'), { head: trunk, final: ancestorAt(trunk, 95) })
    await advance(1000)
    t.same([heads.snapshot.isFinal('b', 95), heads.snapshot.finalityVersion], [true, 0])
  })

  t.test('does not count above the head of its upstream', async t => {
    const { heads, chain, nodeOf, recordCall } = openModelHeads(['a'])
    nodeOf('a').head = ancestorAt(chain.tip, 40) ?? chain.tip
    await recordCall()
    t.notOk(heads.snapshot.isFinal('a', 10))
    t.notOk('finalized' in heads.status)
  })

  t.test('may go back on the same chain: it counts for that upstream, and nothing is reverted', async t => {
    const { heads, chain, nodeOf, recordCall, advance } = openModelHeads()
    await recordCall()
    nodeOf('a').final = ancestorAt(chain.tip, 30) ?? chain.tip
    const { finalityVersion } = heads.snapshot
    await advance(30_000)
    await recordCall()
    await advance(500)
    t.same([heads.snapshot.isFinal('a', 31), heads.snapshot.isFinal('b', 50)], [false, true])
    t.equal(heads.snapshot.finalityVersion, finalityVersion)
    t.match(heads.status, { finalized: 50 })
  })
})
