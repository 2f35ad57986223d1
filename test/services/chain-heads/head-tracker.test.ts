import t from 'tap'
import type { Json } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import type { UpstreamClient } from '../../../src/services/upstream-client/index.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import { formatMetrics, createMetricsRegistry } from '../../../src/services/metrics.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
import { ModelChain, ModelNode, ancestorAt, toQuantity, seededRandom } from '../../support/model-chain.ts'

const targetOf = (name: string) => ({ name, url: new Secret(`http://${name}.test`), source: 'node' as const })

/** A chain of 100 blocks whose block 50 is final, and heads that follow nodes of it. Blocks take 1 s, polls 500 ms. */
const openModelHeads = (names: readonly string[] = ['a', 'b'], maxLag?: number, chainIds: Readonly<Record<string, Json>> = {}) => {
  const chain = new ModelChain(seededRandom(7))
  for (let i = 0; i < 50; i++) chain.mine()
  while (chain.final.number !== 50) chain.finalize()
  for (let i = 0; i < 50; i++) chain.mine()
  const clock = new TestClock()
  const log = new TestLog()
  const metrics = createMetricsRegistry()
  const nodes = names.map(name => new ModelNode(name, chain))
  const asked: string[] = []
  /** What a node answers in place of its own; undefined is a failure. */
  const special = new Map<string, (method: string, params: readonly Json[]) => Json | undefined | Promise<Json | undefined>>()
  /** Connections that nodes have ended. */
  const losses = new Map<string, number>()
  const agents: UpstreamClient = {
    disconnects: ({ name }) => losses.get(name) ?? 0,
    async request({ name }, { method, params }) {
      asked.push(`${name} ${method}${params[0] === 'finalized' ? ' finalized' : ''}`)
      const node = nodes.find(each => each.name === name)
      const answer = special.get(name) ?? ((m: string, p: readonly Json[]) => node?.answer(m, p))
      const isElsewhere = method === 'eth_chainId' && !special.has(name) && name in chainIds
      const value = isElsewhere ? chainIds[name] : await answer(method, params)
      return value === undefined ? refuse('unavailable', { upstream: name, cause: 'ECONNREFUSED' }) : fakeResult(value)
    },
  }
  const heads = new HeadTracker({ chainId: 1, blockTime: 1000, upstreamClient: agents, clock, log, metrics })
  const stop = heads.track(names.map(targetOf), { maxLag })
  const settle = () => new Promise(setImmediate)
  const turn = async (ms: number) => {
    for (let left = ms; left > 0; left -= 500) {
      clock.advance(Math.min(500, left))
      await settle()
    }
  }
  /** A call comes, and what it sets off is done. */
  const touch = async () => {
    heads.recordActivity()
    await settle()
  }
  const polls = (what = 'eth_getBlockByNumber') => asked.filter(each => each.endsWith(what)).length
  const move = (number: number) =>
    nodes.forEach(node => {
      node.head = ancestorAt(chain.tip, number) ?? node.head
    })
  const by = (name: string) => nodes.find(node => node.name === name) as ModelNode
  const messages = () => log.lines.map(({ level, message }) => `${level} ${message}`)
  return { chain, heads, clock, nodes, special, losses, asked, stop, settle, turn, touch, polls, move, by, messages, metrics }
}

t.test('polls', async t => {
  t.test('begin with the first call and cost one question per node and interval, however many calls come', async t => {
    const { turn, touch, heads, polls, settle } = openModelHeads()
    await settle()
    t.equal(polls(), 0)
    for (let i = 0; i < 1000; i++) await touch()
    t.equal(polls(), 3, 'one to each, and one whether both call the same chain final')
    for (let i = 0; i < 10; i++) {
      heads.recordActivity()
      await turn(500)
    }
    t.equal(polls(), 23)
    t.equal(polls('finalized'), 2)
    t.equal(polls('eth_chainId'), 2)
  })

  t.test('end 30 s after the last call, and the next call wakes them without waiting', async t => {
    const { turn, touch, heads, polls } = openModelHeads(['a'])
    await touch()
    await turn(60_000)
    const before = polls()
    t.ok(before >= 60 && before <= 62, `${before} polls in 30 s`)
    await turn(60_000)
    t.equal(polls(), before)
    heads.recordActivity()
    t.equal(polls(), before, 'nothing is waited for')
    await touch()
    t.equal(polls(), before + 1)
  })

  t.test('ask rarely for the finalized block: every 16 blocks or 30 s, whichever is longer', async t => {
    const { turn, touch, polls } = openModelHeads(['a'])
    for (let i = 0; i < 61; i++) {
      await touch()
      await turn(1000)
    }
    t.equal(polls('finalized'), 3)
  })

  t.test('end when nobody follows the nodes any more', async t => {
    const { turn, touch, polls, stop } = openModelHeads(['a'])
    await touch()
    stop()
    stop()
    await turn(5000)
    t.equal(polls(), 1)
  })
})

t.test('a node that limits us', async t => {
  const limitedBy = (retryAfter?: number, says: Partial<Failure> = { category: 'rateLimited' }) => {
    const asked: number[] = []
    const clock = new TestClock()
    const agents: UpstreamClient = {
      disconnects: () => 0,
      async request(_target, { method }) {
        if (method === 'eth_chainId' && asked.length === 0) return fakeResult('0x1')
        asked.push(clock.monotonic())
        return { ...refuse('unavailable', { cause: 'HTTP 429' }), ...says, ...(retryAfter !== undefined && { retryAfter }) }
      },
    }
    const heads = new HeadTracker({
      chainId: 1,
      blockTime: 1000,
      upstreamClient: agents,
      clock,
      log: new TestLog(),
      metrics: createMetricsRegistry(),
    })
    t.teardown(heads.track([targetOf('a')]))
    const run = async (ms: number) => {
      for (let left = ms; left >= 0; left -= 500) {
        heads.recordActivity()
        await new Promise(setImmediate)
        clock.advance(500)
      }
      return asked.slice(1).map((at, i) => at - (asked[i] ?? 0))
    }
    return { run }
  }

  t.test('is not polled before its Retry-After is over', async t => {
    t.same(await limitedBy(20).run(45_000), [20_000, 20_000])
  })

  t.test('and does not say for how long, is polled after 1 s, 2 s, 4 s, at most 60 s', async t => {
    t.same(await limitedBy().run(190_000), [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
  })

  t.test('in JSON-RPC is left alone as well', async t => {
    for (const code of [-32005, 429]) {
      const says = { kind: 'node', fault: 'caller', error: { code, message: 'over the limit' } } as const
      t.same(await limitedBy(undefined, says).run(16_000), [1000, 2000, 4000, 8000])
    }
  })
})

t.test('what is known', async t => {
  t.test('is nothing before the first poll: each node counts as current, nothing as final', async t => {
    const { heads } = openModelHeads()
    t.ok(heads.snapshot.isCurrent('a') && heads.snapshot.isCurrent(undefined))
    t.notOk(heads.snapshot.isFinal('a', 0))
    t.same(heads.status, {
      upstreams: [
        { name: 'a', usable: true },
        { name: 'b', usable: true },
      ],
    })
  })

  t.test('a node that is behind is not current; a new head begins a new epoch', async t => {
    const { heads, chain, by, touch, turn } = openModelHeads()
    by('b').head = ancestorAt(chain.tip, 99) ?? chain.tip
    await touch()
    t.ok(heads.snapshot.isCurrent('a'))
    t.notOk(heads.snapshot.isCurrent('b'))
    t.notOk(heads.snapshot.isCurrent('partner'))
    const { headVersion: epoch } = heads.snapshot
    await turn(500)
    t.equal(heads.snapshot.headVersion, epoch)
    chain.mine()
    by('b').head = chain.tip
    await turn(500)
    t.not(heads.snapshot.headVersion, epoch)
    t.ok(heads.snapshot.isCurrent('b'))
    t.notOk(heads.snapshot.isCurrent('a'))
  })

  t.test('what was known when a node was asked never changes', async t => {
    const { heads, chain, by, touch, turn } = openModelHeads()
    by('b').head = ancestorAt(chain.tip, 99) ?? chain.tip
    await touch()
    const { snapshot: view } = heads
    by('b').head = chain.tip
    await turn(500)
    t.notOk(view.isCurrent('b'))
    t.ok(heads.snapshot.isCurrent('b'))
  })

  t.test('a block is final by what the node itself has said, by hash too when it is near enough', async t => {
    const { heads, chain, by, touch, turn } = openModelHeads()
    by('b').final = ancestorAt(chain.tip, 40) ?? chain.tip
    await touch()
    t.ok(heads.snapshot.isFinal('a', 50))
    t.notOk(heads.snapshot.isFinal('a', 51))
    t.notOk(heads.snapshot.isFinal('b', 50))
    t.ok(heads.snapshot.isFinal('b', 40))
    const hash = chain.tip.hash
    t.notOk(heads.snapshot.isFinal('a', hash))
    for (let i = 0; i < 40; i++) {
      for (let j = 0; j < 3; j++) chain.mine()
      chain.finalize()
      for (const node of [by('a'), by('b')]) Object.assign(node, { head: chain.tip, final: chain.final })
      await touch()
      await turn(1000)
    }
    t.ok(heads.snapshot.isFinal('a', hash))
    t.notOk(heads.snapshot.isFinal('a', `0x${'12'.repeat(32)}`))
  })

  t.test('a block that somebody else calls final holds when it is final on this chain', async t => {
    const { heads, chain, by, special, touch, turn } = openModelHeads(['a', 'b'])
    const block = (number: number) => ({ number, hash: ancestorAt(chain.tip, number)?.hash ?? '' })
    by('b').final = ancestorAt(chain.tip, 40) ?? chain.tip
    const [older, newest, newer] = [block(30), block(50), block(51)]
    t.notOk(await heads.verifyFinalized(older), 'nothing is known yet')
    t.equal(heads.snapshot.finalizedBlockOf(), undefined)
    await touch()
    t.match(
      [heads.snapshot.finalizedBlockOf(), heads.snapshot.finalizedBlockOf('a'), heads.snapshot.finalizedBlockOf('b')],
      [newest, newest, block(40)],
    )
    t.equal(heads.snapshot.finalizedBlockOf('partner'), undefined)
    t.same(await Promise.all([older, newest, newer].map(each => heads.verifyFinalized(each))), [true, true, false])
    t.notOk(await heads.verifyFinalized({ number: 30, hash: newest.hash }))
    special.set('a', () => undefined)
    t.notOk(await heads.verifyFinalized(older), 'nobody can tell')
    special.clear()
    chain.reset()
    for (let i = 0; i < 100; i++) chain.mine()
    for (const node of [by('a'), by('b')]) Object.assign(node, { head: chain.tip, final: ancestorAt(chain.tip, 60) })
    await turn(500)
    await turn(500)
    t.same(await Promise.all([older, newest, block(60)].map(each => heads.verifyFinalized(each))), [false, false, true], 'another chain')
  })

  t.test('a node without `finalized` has no final block, and one whose chain it does not tell neither', async t => {
    const { heads, special, by, touch } = openModelHeads(['a', 'b'], undefined, { b: null })
    special.set('a', (method, params) => (params[0] === 'finalized' ? null : by('a').answer(method, params)))
    await touch()
    t.notOk(heads.snapshot.isFinal('a', 0))
    t.notOk(heads.snapshot.isFinal('b', 0))
    t.ok(heads.snapshot.isCurrent('b'))
  })

  t.test('the head of a node that fails three polls in a row counts no longer', async t => {
    const { heads, chain, by, special, touch, turn } = openModelHeads()
    by('b').head = ancestorAt(chain.tip, 98) ?? chain.tip
    await touch()
    special.set('a', () => undefined)
    await turn(1000)
    t.notOk(heads.snapshot.isCurrent('b'))
    await turn(500)
    t.ok(heads.snapshot.isCurrent('b'))
    t.match(heads.status, { head: 98 })
  })
})

t.test('a reorganisation', async t => {
  t.test('is seen by the parents of the new head, which are fetched', async t => {
    const { heads, chain, by, touch, turn, messages, asked, metrics } = openModelHeads(['a'])
    for (let i = 0; i < 12; i++) {
      await touch()
      chain.mine()
      by('a').head = chain.tip
      await turn(500)
    }
    const before = heads.snapshot
    chain.reorg()
    by('a').head = chain.tip
    await turn(500)
    t.not(heads.snapshot.headVersion, before.headVersion)
    t.equal(heads.snapshot.finalityVersion, before.finalityVersion)
    t.same(messages(), ['info chain reorg'])
    t.ok(asked.includes('a eth_getBlockByHash'))
    t.match(formatMetrics(metrics.families()), /tollgate_reorgs_total 1\n/)
  })

  t.test('that undoes final blocks begins a new era', async t => {
    for (const length of [10, 100, 500]) {
      const { heads, chain, by, touch, turn, messages } = openModelHeads(['a'])
      await touch()
      const before = heads.snapshot
      t.ok(before.isFinal('a', 50))
      chain.reset()
      for (let i = 0; i < length; i++) chain.mine()
      Object.assign(by('a'), { head: chain.tip, final: chain.final })
      await turn(500)
      t.equal(heads.snapshot.finalityVersion, before.finalityVersion + 1, `a new chain of ${length} blocks`)
      t.notOk(heads.snapshot.isFinal('a', 50))
      t.ok(messages().includes('warn finalized blocks were reverted'))
    }
  })

  t.test('that undoes final blocks of a chain that goes on begins a new era with the poll that shows it', async t => {
    for (const [more, depth] of [
      [3, 20],
      [1, 60],
      [40, 2],
      [0, 20],
    ] as const) {
      const { heads, chain, by, touch, turn } = openModelHeads(['a'])
      for (let i = 0; i < 60; i++) {
        chain.mine()
        by('a').head = by('a').final = chain.tip // there are such networks, until they reorganise
        await touch()
        await turn(500)
      }
      const { number } = heads.snapshot.finalizedBlockOf('a') ?? { number: 0 }
      const { finalityVersion: era } = heads.snapshot
      const undone = chain.tip.number - depth + 1
      chain.fork(depth, depth + more)
      Object.assign(by('a'), { head: chain.tip, final: ancestorAt(chain.tip, 100) })
      await turn(500)
      t.equal(heads.snapshot.finalityVersion, number >= undone ? era + 1 : era, `${depth} blocks are replaced by ${depth + more}`)
      await turn(500)
      t.same([heads.snapshot.isFinal('a', 100), heads.snapshot.isFinal('a', Math.max(undone, 101))], [true, number < undone])
    }
  })

  t.test('is not seen where the chain has only grown by more than was polled', async t => {
    const { heads, chain, by, touch, turn, messages } = openModelHeads(['a'])
    await touch()
    for (const count of [5, 60, 300]) {
      for (let i = 0; i < count; i++) chain.mine()
      by('a').head = chain.tip
      await turn(500)
    }
    t.same(messages(), [])
    t.equal(heads.snapshot.finalityVersion, 0)
  })
})

t.test('a node', async t => {
  t.test('that is more blocks behind than maxLag comes last, until it has caught up', async t => {
    const { heads, chain, by, touch, turn, messages, metrics } = openModelHeads(['a', 'b'], 3)
    by('a').head = ancestorAt(chain.tip, 96) ?? chain.tip
    await touch()
    t.same(
      heads.orderUpstreams([targetOf('a'), targetOf('b')]).map(({ name }) => name),
      ['b', 'a'],
    )
    t.match(heads.status.upstreams, [
      { name: 'a', head: 96, usable: false, because: 'its head lags 4 blocks behind' },
      { name: 'b', head: 100, usable: true },
    ])
    t.match(formatMetrics(metrics.families()), /tollgate_upstream_excluded\{upstream="a",reason="lag"\} 1/)
    by('a').head = ancestorAt(chain.tip, 97) ?? chain.tip
    await turn(500)
    t.same(
      heads.orderUpstreams([targetOf('a'), targetOf('b')]).map(({ name }) => name),
      ['a', 'b'],
    )
    t.match(formatMetrics(metrics.families()), /tollgate_upstream_excluded\{upstream="a",reason="lag"\} 0/)
    t.same(messages(), ['warn upstream excluded: its head lags too far behind', 'info upstream no longer excluded'])
  })

  t.test('of another chain is left out, told as an error, and looked at again', async t => {
    const { heads, special, by, touch, settle, turn, messages, asked } = openModelHeads(['a', 'b'], undefined, { a: '0x5' })
    by('a').head = { ...by('a').head, number: 5000 }
    await settle()
    t.same(
      heads.orderUpstreams([targetOf('a'), targetOf('b')]).map(({ name }) => name),
      ['b'],
    )
    t.same(messages(), ['error upstream excluded: wrong chain ID'], 'before any call')
    await touch()
    t.match(heads.status, { head: 100 })
    t.notOk(asked.includes('a eth_getBlockByNumber'), 'its blocks are not asked for')
    by('a').head = by('b').head
    special.set('a', (method, params) => by('a').answer(method, params))
    for (let i = 0; i < 31; i++) {
      await touch()
      await turn(1000)
    }
    t.same(heads.orderUpstreams([targetOf('a'), targetOf('b')]).length, 2)
  })

  t.test('is asked for its chain again after its connection came back', async t => {
    const { heads, special, by, touch, turn } = openModelHeads(['a', 'b'])
    await touch()
    special.set('a', () => undefined)
    await turn(500)
    special.set('a', (method, params) => (method === 'eth_chainId' ? '0x5' : by('a').answer(method, params)))
    await turn(500)
    t.same(
      heads.orderUpstreams([targetOf('a'), targetOf('b')]).map(({ name }) => name),
      ['b'],
    )
  })

  t.test('is asked for its chain again after it has ended a connection, though it answers', async t => {
    const { heads, special, losses, by, touch, turn, polls } = openModelHeads(['a', 'b'])
    await touch()
    losses.set('a', 1)
    special.set('a', (method, params) => (method === 'eth_chainId' ? '0x5' : by('a').answer(method, params)))
    await turn(500)
    t.same(
      heads.orderUpstreams([targetOf('a'), targetOf('b')]).map(({ name }) => name),
      ['b'],
    )
    t.equal(polls('eth_chainId'), 3, 'once for each, and once more')
  })

  t.test('of another chain is left out even if none is left, and used once it is on ours', async t => {
    const { heads, special, by, touch, turn } = openModelHeads(['a', 'b'], undefined, { a: '0x5', b: '0x5' })
    await touch()
    t.ok(heads.status.upstreams.every(({ usable }) => !usable))
    t.same(heads.orderUpstreams([targetOf('a'), targetOf('b')]), [])
    special.set('a', () => null)
    special.set('b', (method, params) => by('b').answer(method, params))
    for (let i = 0; i < 11; i++) {
      await touch()
      await turn(1000)
    }
    t.same(
      heads.orderUpstreams([targetOf('a'), targetOf('b')]).map(({ name }) => name),
      ['b'],
      'within ten seconds',
    )
  })

  t.test('that is behind by less comes last for the blocks that it has not reached', async t => {
    const { heads, chain, by, touch } = openModelHeads(['a', 'b', 'c'], 3)
    by('a').head = ancestorAt(chain.tip, 98) ?? chain.tip
    const all = [targetOf('a'), targetOf('b'), targetOf('unknown')]
    const order = (block?: number) => heads.orderUpstreams(all, block).map(({ name }) => name)
    t.same(order(100), ['a', 'b', 'unknown'], 'nothing is known')
    await touch()
    t.same(order(98), ['a', 'b', 'unknown'])
    t.same(order(99), ['b', 'unknown', 'a'])
    t.same(order(100), ['b', 'unknown', 'a'])
    t.same(order(101), ['a', 'b', 'unknown'], 'nobody has it')
    t.same(order(), ['a', 'b', 'unknown'])
    heads.reportHeight('b', 101)
    t.same(order(101), ['b', 'unknown', 'a'], 'at once when a caller is told so')
  })

  t.test('too far behind, or ahead of what can be, is used when none is left', async t => {
    const { heads, chain, by, touch } = openModelHeads(['a', 'b'], 3)
    by('a').head = ancestorAt(chain.tip, 90) ?? chain.tip
    await touch()
    t.match(heads.status.upstreams, [
      { name: 'a', usable: false },
      { name: 'b', usable: true },
    ])
    t.same(
      heads.orderUpstreams([targetOf('a')]).map(({ name }) => name),
      ['a'],
    )
  })
})

t.test('a head that cannot be', async t => {
  const absurd = 1_000_000_000
  /** Nodes whose blocks tell their time: block 100 is of this moment, and each takes a second. */
  const openTimed = (names?: readonly string[]) => {
    const world = openModelHeads(names)
    const begin = world.clock.now() - 100_000
    const timed = (value: Json | undefined): Json | undefined => {
      const { number, ...rest } = Object(value) as { number?: string }
      return number === undefined ? value : { ...rest, number, timestamp: `0x${(begin / 1000 + Number(number)).toString(16)}` }
    }
    for (const { name } of world.nodes) world.special.set(name, (method, params) => timed(world.by(name).answer(method, params)))
    /** The node says so of its newest block, and of its final one. */
    const claim = (name: string, number: number, time = world.clock.now(), final = number) =>
      world.special.set(name, (method, params) => {
        const block = timed(world.by(name).answer(method, params))
        if (params[0] === 'latest') return { ...Object(block), number: toQuantity(number), timestamp: toQuantity(Math.floor(time / 1000)) }
        return params[0] === 'finalized' ? { ...Object(block), number: toQuantity(final) } : block
      })
    return { ...world, claim }
  }
  const names = (nodes: readonly { readonly name: string }[]) => nodes.map(({ name }) => name)

  t.test('is believed of none against another: not for the height, not for the cache, and nobody is behind it', async t => {
    const { heads, claim, touch, turn, messages, metrics } = openTimed()
    claim('a', absurd)
    await touch()
    t.match(heads.status, { head: 100, finalized: 50 })
    t.same([heads.snapshot.isCurrent('a'), heads.snapshot.isCurrent('b')], [false, true])
    t.notOk(heads.snapshot.isFinal('a', 60))
    t.equal(heads.reportHeight('b', 100), 100)
    t.equal(heads.reportHeight('a', absurd), 100)
    t.same(messages(), [], 'another node may show as much in a moment')
    await turn(1000)
    t.same(messages(), ['error upstream excluded: its head is implausibly high'])
    t.same(names(heads.orderUpstreams([targetOf('a'), targetOf('b')])), ['b', 'a'])
    t.match(heads.status.upstreams, [
      { name: 'a', usable: false, because: `its head is implausibly high: ${absurd - 100} blocks ahead` },
      { name: 'b', usable: true },
    ])
    t.match(formatMetrics(metrics.families()), /tollgate_upstream_excluded\{upstream="a",reason="ahead"\} 1/)
    claim('a', 101)
    await turn(500)
    t.same(names(heads.orderUpstreams([targetOf('a'), targetOf('b')])), ['a', 'b'])
    t.match(heads.status, { head: 101 })
  })

  t.test('of two who have nothing in common is believed when it has a past, and the lower one has none', async t => {
    const { heads, chain, clock, by, special, touch, turn, asked } = openTimed()
    for (let i = 0; i < 3900; i++) chain.mine()
    const began = clock.now()
    /** Both know the chain, which is an hour old, at a block a second; but one says of its newest block that it is number 70. */
    for (const name of ['a', 'b']) {
      by(name).head = chain.tip
      special.set(name, (method, params) => {
        const value = by(name).answer(method, params)
        const { number, ...rest } = Object(value) as { number?: string }
        if (number === undefined) return value
        const timestamp = toQuantity(Math.floor(began / 1000) - (chain.tip.number - Number(number)))
        return { ...rest, timestamp, number: name === 'b' && params[0] === 'latest' ? toQuantity(70) : number }
      })
    }
    await touch()
    t.match(heads.status, { head: 4000 })
    t.equal(heads.reportHeight('b', 70), 4000)
    await turn(2000)
    t.same(names(heads.orderUpstreams([targetOf('b'), targetOf('a')])), ['a', 'b'], 'b is behind')
    t.equal(asked.filter(each => each === 'b eth_getBlockByNumber').length, 6, 'one question more than polls')
  })

  t.test('is that of the lower where both have a past, or neither, or one does not answer', async t => {
    for (const past of ['both', 'neither', 'no answer']) {
      const { heads, special, touch, turn, clock } = openTimed()
      const began = clock.now()
      const block = (number: number, head: number) => ({
        number: toQuantity(number),
        hash: toQuantity(number),
        parentHash: '0x0',
        timestamp: toQuantity(Math.floor(began / 1000) - (head - number)),
      })
      for (const [name, head] of [
        ['a', 50_000],
        ['b', 1000],
      ] as const) {
        special.set(name, (method, [at]) =>
          method === 'eth_chainId'
            ? '0x1'
            : at === 'latest'
              ? block(head, head)
              : at === 'finalized' || past === 'neither'
                ? null
                : past === 'no answer' && name === 'b'
                  ? undefined
                  : block(Number(at), head),
        )
      }
      await touch()
      await turn(2000)
      t.match(heads.status, { head: 1000 }, past)
      t.equal(heads.reportHeight('a', 50_000), 1000)
      t.same(names(heads.orderUpstreams([targetOf('a'), targetOf('b')])), ['b', 'a'])
    }
  })

  t.test('is the lie of the fewer, where there are more', async t => {
    const { heads, claim, touch } = openTimed(['a', 'b', 'c'])
    claim('c', 5, undefined, 1)
    await touch()
    t.match(heads.status, { head: 100 })
    t.same(names(heads.orderUpstreams([targetOf('c'), targetOf('a')])), ['a', 'c'], 'c is behind')
  })

  t.test('that was believed while nobody else was there is taken back, with all that was final by it', async t => {
    const { heads, special, claim, touch, turn, messages } = openTimed()
    const honest = special.get('b') ?? (() => undefined)
    claim('a', absurd)
    special.set('b', () => undefined)
    await touch()
    t.equal(heads.reportHeight('a', absurd), absurd)
    t.ok(heads.snapshot.isFinal('a', 60))
    const { finalityVersion: era } = heads.snapshot
    special.set('b', honest)
    await turn(500)
    t.equal(heads.reportHeight('b', 100), 100)
    t.notOk(heads.snapshot.isFinal('a', 60))
    t.ok(heads.snapshot.finalityVersion > era, 'what was kept for final is dropped')
    t.ok(messages().includes('warn finalized block discarded: the head of its upstream is implausible'))
  })

  t.test('that an answer told before the first poll is taken back with it', async t => {
    const { heads, touch } = openTimed()
    t.equal(heads.reportHeight('a', absurd), absurd)
    await touch()
    t.equal(heads.reportHeight('b', 100), 100)
  })

  t.test('is what nodes agreed on before less than what one of them falls to', async t => {
    const { heads, claim, clock, touch, turn } = openTimed()
    await touch()
    claim('a', 101, clock.now() + 1000)
    claim('b', 5, undefined, 1)
    await turn(1000)
    t.match(heads.status, { head: 101 })
    t.equal(heads.reportHeight('b', 5), 101)
    t.same(names(heads.orderUpstreams([targetOf('b'), targetOf('a')])), ['a', 'b'])
  })

  t.test('is none of one node alone, nor above blocks that prove nothing by their times', async t => {
    const alone = openTimed(['a'])
    await alone.touch()
    alone.claim('a', 5000)
    t.equal(alone.heads.reportHeight('a', 5000), 5000)
    await alone.turn(500)
    t.match(alone.heads.status, { head: 5000 })
    const stuck = openTimed()
    stuck.claim('b', 100, stuck.clock.now() - 3_600_000)
    stuck.claim('a', 3700)
    await stuck.touch()
    t.match(stuck.heads.status, { head: 3700 })
    const ahead = openTimed()
    ahead.claim('b', 100, ahead.clock.now() + 3_600_000)
    ahead.claim('a', 3700)
    await ahead.touch()
    t.match(ahead.heads.status, { head: 3700 }, 'nor above blocks of times to come')
  })

  t.test('is none because somebody sets the clock of this machine', async t => {
    for (const jump of [-86_400_000, 86_400_000]) {
      const { heads, clock, touch, turn, messages } = openTimed()
      await touch()
      clock.shiftWallClock(jump)
      await turn(5000)
      t.match(heads.status, { head: 100, finalized: 50 })
      t.equal(heads.reportHeight('a', 101), 101)
      t.same(messages(), [])
    }
  })
})

t.test('what a node calls final', async t => {
  for (const late of ['what was final before', 'nothing']) {
    t.test(`is not what was undone while it was asked, when it says ${late}`, async t => {
      const { heads, chain, by, special, touch, turn } = openModelHeads(['a'])
      await touch()
      for (let i = 0; i < 60; i++) {
        chain.mine()
        by('a').head = chain.tip
        by('a').final = ancestorAt(chain.tip, 100) ?? chain.tip
        await touch()
        await turn(500)
      }
      t.match(heads.snapshot.finalizedBlockOf('a'), { number: 100 })
      let answer: ((value: Json | undefined) => void) | undefined
      const old = by('a').answer('eth_getBlockByNumber', ['finalized'])
      special.set('a', (method, params) =>
        params[0] !== 'finalized' || answer !== undefined
          ? by('a').answer(method, params)
          : new Promise(resolve => {
              answer = resolve
            }),
      )
      while (answer === undefined) {
        await touch()
        await turn(500)
      }
      chain.fork(70, 71)
      Object.assign(by('a'), { head: chain.tip, final: ancestorAt(chain.tip, 80) })
      const { finalityVersion: era } = heads.snapshot
      await turn(1000)
      t.equal(heads.snapshot.finalityVersion, era + 1)
      answer(late === 'nothing' ? undefined : old)
      await turn(1000)
      t.match(heads.snapshot.finalizedBlockOf('a'), { number: 80, hash: by('a').final.hash })
    })
  }

  t.test('on a branch that others have left is not, until it has left it too', async t => {
    const { heads, chain, by, touch, turn } = openModelHeads(['a', 'b'])
    for (let i = 0; i < 60; i++) chain.mine()
    const trunk = chain.tip
    Object.assign(by('a'), { head: trunk, final: ancestorAt(trunk, 130) })
    chain.fork(80, 40)
    Object.assign(by('b'), { head: chain.tip, final: ancestorAt(chain.tip, 90) })
    await touch()
    await turn(2000)
    t.same([heads.snapshot.isFinal('a', 130), heads.snapshot.isFinal('b', 90), heads.snapshot.finalityVersion], [true, false, 0])
    Object.assign(by('b'), { head: trunk, final: ancestorAt(trunk, 95) })
    await turn(1000)
    t.same([heads.snapshot.isFinal('b', 95), heads.snapshot.finalityVersion], [true, 0])
  })

  t.test('is none that it has not reached itself', async t => {
    const { heads, chain, by, touch } = openModelHeads(['a'])
    by('a').head = ancestorAt(chain.tip, 40) ?? chain.tip
    await touch()
    t.notOk(heads.snapshot.isFinal('a', 10))
    t.notOk('finalized' in heads.status)
  })

  t.test('may go back on the same chain: it counts for that node, and nothing is undone', async t => {
    const { heads, chain, by, touch, turn } = openModelHeads()
    await touch()
    by('a').final = ancestorAt(chain.tip, 30) ?? chain.tip
    const { finalityVersion: era } = heads.snapshot
    await turn(30_000)
    await touch()
    await turn(500)
    t.same([heads.snapshot.isFinal('a', 31), heads.snapshot.isFinal('b', 50)], [false, true])
    t.equal(heads.snapshot.finalityVersion, era)
    t.match(heads.status, { finalized: 50 })
  })
})

t.test('the height that callers are told', async t => {
  t.test('does not go back when nodes disagree or one takes over from another', async t => {
    const { heads, by, special, chain, touch, turn } = openModelHeads()
    await touch()
    t.equal(heads.reportHeight('a', 101), 101)
    t.equal(heads.reportHeight('b', 99), 101)
    special.set('a', () => undefined)
    by('b').head = ancestorAt(chain.tip, 99) ?? chain.tip
    for (let i = 0; i < 40; i++) await turn(500)
    t.equal(heads.reportHeight('b', 99), 101)
  })

  t.test('is at least the newest head', async t => {
    const { heads, touch } = openModelHeads()
    await touch()
    t.equal(heads.reportHeight('b', 90), 100)
  })

  t.test('does not go back where a provider has many nodes behind one URL, some of them two seconds behind', async t => {
    const random = seededRandom(5)
    const { heads, chain, by, touch, clock, settle } = openModelHeads(['a'])
    const told: number[] = []
    for (let i = 0; i < 2000; i++) {
      if (i % 4 === 0) chain.mine()
      by('a').head = ancestorAt(chain.tip, chain.tip.number - 2 * random(2)) ?? chain.tip
      if (i % 10 === 0) await touch()
      clock.advance(250)
      await settle()
      told.push(Number(await heads.reportHeight('a', by('a').head.number)))
    }
    t.same(
      told.filter((height, i) => height < (told[i - 1] ?? 0)),
      [],
    )
    t.ok((told.at(-1) ?? 0) >= chain.tip.number - 2)
  })

  t.test('goes back once each node has been below it for 3 s, and three polls: the chain was reset', async t => {
    const { heads, move, touch, turn, messages } = openModelHeads()
    await touch()
    move(80)
    const { headVersion: epoch } = heads.snapshot
    await turn(2500)
    t.equal(heads.reportHeight('a', 80), 100)
    t.not(heads.snapshot.headVersion, epoch, 'other answers follow at once')
    await turn(500)
    t.equal(heads.reportHeight('a', 80), 80)
    t.ok(messages().includes('warn reported height went back: the chain is shorter'))
  })

  t.test('a node that has been silent for a minute has no say', async t => {
    const { heads, special, move, touch, turn } = openModelHeads()
    await touch()
    special.set('a', () => undefined)
    move(80)
    for (let i = 0; i < 59; i++) {
      await touch()
      await turn(1000)
    }
    t.equal(heads.reportHeight('b', 80), 100)
    await touch()
    await turn(2000)
    t.equal(heads.reportHeight('b', 80), 80)
  })

  t.test('stays while no node answers any more', async t => {
    const { heads, special, by, touch, turn } = openModelHeads()
    await touch()
    special.set('a', () => undefined)
    special.set('b', () => undefined)
    for (let i = 0; i < 70; i++) {
      await touch()
      await turn(1000)
    }
    special.set('b', (method, params) => by('b').answer(method, params))
    t.equal(heads.reportHeight('b', 90), 100)
  })

  t.test('an answer above the head begins a new epoch', async t => {
    const { heads, touch } = openModelHeads()
    await touch()
    const { headVersion: epoch } = heads.snapshot
    heads.reportHeight('a', 101)
    t.not(heads.snapshot.headVersion, epoch)
    t.ok(heads.snapshot.isCurrent('a'))
    t.notOk(heads.snapshot.isCurrent('b'))
  })
})
