import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { openModelHeads, orderOf, targetOf } from './model-heads.ts'

t.test('an implausible head', async t => {
  const absurdHeight = 1_000_000_000
  /** Nodes whose blocks have timestamps: block 100 is of this moment, and the block time is 1 s. */
  const openTimed = (names?: readonly string[]) => {
    const model = openModelHeads(names)
    const genesisMs = model.clock.now() - 100_000
    const withTimestamp = (value: Json | undefined): Json | undefined => {
      const { number, ...rest } = Object(value) as { number?: string }
      return number === undefined ? value : { ...rest, number, timestamp: toHexQuantity(genesisMs / 1000 + Number(number)) }
    }
    for (const { name } of model.nodes)
      model.responseOverrides.set(name, (method, params) => withTimestamp(model.nodeOf(name).answer(method, params)))
    /** From now on the node returns its newest block with this number and time, and its finalized block with that number. */
    const reportHead = (name: string, number: number, timeMs = model.clock.now(), finalized = number) =>
      model.responseOverrides.set(name, (method, params) => {
        const block = withTimestamp(model.nodeOf(name).answer(method, params))
        if (params[0] === 'latest')
          return { ...Object(block), number: toHexQuantity(number), timestamp: toHexQuantity(Math.floor(timeMs / 1000)) }
        return params[0] === 'finalized' ? { ...Object(block), number: toHexQuantity(finalized) } : block
      })
    return { ...model, reportHead }
  }

  t.test('counts neither for the height nor for the cache, and no other upstream lags behind it', async t => {
    const { heads, reportHead, recordCall, advance, logLines } = openTimed()
    reportHead('a', absurdHeight)
    await recordCall()
    t.match(heads.status, { head: 100, finalized: 50 })
    t.same([heads.snapshot.isCurrent('a'), heads.snapshot.isCurrent('b')], [false, true])
    t.notOk(heads.snapshot.isFinal('a', 60))
    t.equal(heads.reportHeight('b', 100), 100)
    t.equal(heads.reportHeight('a', absurdHeight), 100)
    t.same(logLines(), [], 'the other upstream may return the same head with its next poll')
    await advance(1000)
    t.same(logLines(), ['error upstream excluded: its head is implausibly high'])
    t.same(orderOf(heads, [targetOf('a'), targetOf('b')]), ['b', 'a'])
    t.match(heads.status.upstreams, [
      { name: 'a', usable: false, because: `its head is implausibly high: ${absurdHeight - 100} blocks ahead` },
      { name: 'b', usable: true },
    ])
    t.equal(heads.exclusionOf('a'), 'ahead')
    reportHead('a', 101)
    await advance(500)
    t.same(orderOf(heads, [targetOf('a'), targetOf('b')]), ['a', 'b'])
    t.match(heads.status, { head: 101 })
  })

  t.test('does not win as the lower one of two, when only the upstream of the higher one passes the ancestor check', async t => {
    const { heads, chain, clock, nodeOf, responseOverrides, recordCall, advance, requests } = openTimed()
    for (let i = 0; i < 3900; i++) chain.mine()
    const openedAt = clock.now()
    /** Both have the chain, which is an hour old. But b returns its newest block with the number 70. */
    for (const name of ['a', 'b']) {
      nodeOf(name).head = chain.tip
      responseOverrides.set(name, (method, params) => {
        const value = nodeOf(name).answer(method, params)
        const { number, ...rest } = Object(value) as { number?: string }
        if (number === undefined) return value
        const timestamp = toHexQuantity(Math.floor(openedAt / 1000) - (chain.tip.number - Number(number)))
        return { ...rest, timestamp, number: name === 'b' && params[0] === 'latest' ? toHexQuantity(70) : number }
      })
    }
    await recordCall()
    t.match(heads.status, { head: 4000 })
    t.equal(heads.reportHeight('b', 70), 4000)
    await advance(2000)
    t.same(orderOf(heads, [targetOf('b'), targetOf('a')]), ['a', 'b'], 'b lags')
    t.equal(requests.filter(request => request === 'b eth_getBlockByNumber').length, 6, 'one request more than polls')
  })

  t.test('is the higher one of two, when both upstreams pass the ancestor check, or neither does, or one does not answer', async t => {
    for (const passing of ['both', 'neither', 'no answer']) {
      const { heads, responseOverrides, recordCall, advance, clock } = openTimed()
      const openedAt = clock.now()
      const block = (number: number, head: number) => ({
        number: toHexQuantity(number),
        hash: toHexQuantity(number),
        parentHash: '0x0',
        timestamp: toHexQuantity(Math.floor(openedAt / 1000) - (head - number)),
      })
      for (const [name, head] of [
        ['a', 50_000],
        ['b', 1000],
      ] as const) {
        responseOverrides.set(name, (method, [at]) =>
          method === 'eth_chainId'
            ? '0x1'
            : at === 'latest'
              ? block(head, head)
              : at === 'finalized' || passing === 'neither'
                ? null
                : passing === 'no answer' && name === 'b'
                  ? undefined
                  : block(Number(at), head),
        )
      }
      await recordCall()
      await advance(2000)
      t.match(heads.status, { head: 1000 }, passing)
      t.equal(heads.reportHeight('a', 50_000), 1000)
      t.same(orderOf(heads, [targetOf('a'), targetOf('b')]), ['b', 'a'])
    }
  })

  t.test('does not win against more upstreams that report another', async t => {
    const { heads, reportHead, recordCall } = openTimed(['a', 'b', 'c'])
    reportHead('c', 5, undefined, 1)
    await recordCall()
    t.match(heads.status, { head: 100 })
    t.same(orderOf(heads, [targetOf('c'), targetOf('a')]), ['a', 'c'], 'c lags')
  })

  t.test('that counted while it was the only one is dropped, with the blocks that it finalized', async t => {
    const { heads, responseOverrides, reportHead, recordCall, advance, logLines } = openTimed()
    const override = responseOverrides.get('b') ?? (() => undefined)
    reportHead('a', absurdHeight)
    responseOverrides.set('b', () => undefined)
    await recordCall()
    t.equal(heads.reportHeight('a', absurdHeight), absurdHeight)
    t.ok(heads.snapshot.isFinal('a', 60))
    const { finalityVersion } = heads.snapshot
    responseOverrides.set('b', override)
    await advance(500)
    t.equal(heads.reportHeight('b', 100), 100)
    t.notOk(heads.snapshot.isFinal('a', 60))
    t.ok(heads.snapshot.finalityVersion > finalityVersion, 'cached finalized responses are dropped')
    t.ok(logLines().includes('warn finalized block discarded: the head of its upstream is implausible'))
  })

  t.test('from an answer before the first poll is dropped with the first poll', async t => {
    const { heads, recordCall } = openTimed()
    t.equal(heads.reportHeight('a', absurdHeight), absurdHeight)
    await recordCall()
    t.equal(heads.reportHeight('b', 100), 100)
  })

  t.test('does not win as the lower one of two, when both upstreams have agreed on the higher one before', async t => {
    const { heads, reportHead, clock, recordCall, advance } = openTimed()
    await recordCall()
    reportHead('a', 101, clock.now() + 1000)
    reportHead('b', 5, undefined, 1)
    await advance(1000)
    t.match(heads.status, { head: 101 })
    t.equal(heads.reportHeight('b', 5), 101)
    t.same(orderOf(heads, [targetOf('b'), targetOf('a')]), ['a', 'b'])
  })

  t.test('is not the head of a single upstream, nor a head above blocks whose timestamps prove nothing', async t => {
    const alone = openTimed(['a'])
    await alone.recordCall()
    alone.reportHead('a', 5000)
    t.equal(alone.heads.reportHeight('a', 5000), 5000)
    await alone.advance(500)
    t.match(alone.heads.status, { head: 5000 })
    const stuck = openTimed()
    stuck.reportHead('b', 100, stuck.clock.now() - 3_600_000)
    stuck.reportHead('a', 3700)
    await stuck.recordCall()
    t.match(stuck.heads.status, { head: 3700 })
    const ahead = openTimed()
    ahead.reportHead('b', 100, ahead.clock.now() + 3_600_000)
    ahead.reportHead('a', 3700)
    await ahead.recordCall()
    t.match(ahead.heads.status, { head: 3700 }, 'nor a head above blocks with timestamps in the future')
  })

  t.test('does not come from a change of the system clock', async t => {
    for (const jumpMs of [-86_400_000, 86_400_000]) {
      const { heads, clock, recordCall, advance, logLines } = openTimed()
      await recordCall()
      clock.shiftWallClock(jumpMs)
      await advance(5000)
      t.match(heads.status, { head: 100, finalized: 50 })
      t.equal(heads.reportHeight('a', 101), 101)
      t.same(logLines(), [])
    }
  })
})
