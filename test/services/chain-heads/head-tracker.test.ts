import t from '../../support/tap.ts'
import { Cancellation } from '../../../src/plugin/call.ts'
import { ancestorAt } from '../../support/model-chain.ts'
import { parseClient } from '../../../src/services/chain-heads/client-version.ts'
import { openModelHeads, orderOf, targetOf } from './model-heads.ts'

t.test('the snapshot', async t => {
  t.test('before the first poll has each upstream current, and nothing finalized', async t => {
    const { heads } = openModelHeads()
    t.ok(heads.snapshot.isCurrent('a') && heads.snapshot.isCurrent(undefined))
    t.notOk(heads.snapshot.isFinal('a', 0))
    t.same(heads.status, {
      idle: true,
      upstreams: [
        { name: 'a', usable: false, because: 'its chain ID is not known yet' },
        { name: 'b', usable: false, because: 'its chain ID is not known yet' },
      ],
    })
  })

  t.test('has an upstream behind the head not current; a new head increases the head version', async t => {
    const { heads, chain, nodeOf, recordCall, advance } = openModelHeads()
    nodeOf('b').head = ancestorAt(chain.tip, 99) ?? chain.tip
    await recordCall()
    t.ok(heads.snapshot.isCurrent('a'))
    t.notOk(heads.snapshot.isCurrent('b'))
    t.notOk(heads.snapshot.isCurrent('partner'))
    const { headVersion } = heads.snapshot
    await advance(500)
    t.equal(heads.snapshot.headVersion, headVersion)
    chain.mine()
    nodeOf('b').head = chain.tip
    await advance(500)
    t.not(heads.snapshot.headVersion, headVersion)
    t.ok(heads.snapshot.isCurrent('b'))
    t.notOk(heads.snapshot.isCurrent('a'))
  })

  t.test('never changes once it was taken', async t => {
    const { heads, chain, nodeOf, recordCall, advance } = openModelHeads()
    nodeOf('b').head = ancestorAt(chain.tip, 99) ?? chain.tip
    await recordCall()
    const { snapshot } = heads
    nodeOf('b').head = chain.tip
    await advance(500)
    t.notOk(snapshot.isCurrent('b'))
    t.ok(heads.snapshot.isCurrent('b'))
  })

  t.test('has a block finalized by the finalized block of that upstream; by hash, too, among the recent blocks', async t => {
    const { heads, chain, nodeOf, recordCall, advance } = openModelHeads()
    nodeOf('b').final = ancestorAt(chain.tip, 40) ?? chain.tip
    await recordCall()
    t.ok(heads.snapshot.isFinal('a', 50))
    t.notOk(heads.snapshot.isFinal('a', 51))
    t.notOk(heads.snapshot.isFinal('b', 50))
    t.ok(heads.snapshot.isFinal('b', 40))
    const hash = chain.tip.hash
    t.notOk(heads.snapshot.isFinal('a', hash))
    for (let i = 0; i < 40; i++) {
      for (let j = 0; j < 3; j++) chain.mine()
      chain.finalize()
      for (const node of [nodeOf('a'), nodeOf('b')]) Object.assign(node, { head: chain.tip, final: chain.final })
      await recordCall()
      await advance(1000)
    }
    t.ok(heads.snapshot.isFinal('a', hash))
    t.notOk(heads.snapshot.isFinal('a', `0x${'12'.repeat(32)}`))
  })

  t.test('has no block final that replicas behind the URL of the upstream may lack, where blocks are final at once', async t => {
    const { heads, chain, nodeOf, recordCall } = openModelHeads()
    nodeOf('a').final = chain.tip
    await recordCall()
    for (const [number, isFinal] of [
      [97, true],
      [98, false],
      [100, false],
    ] as const) {
      t.equal(heads.snapshot.isFinal('a', number), isFinal, 'a replica is 3 s behind, and so 3 blocks')
    }
    t.notOk(heads.snapshot.isFinal('a', chain.tip.hash))
    t.equal(heads.snapshot.finalizedBlockOf('a')?.number, 100)
  })

  t.test('verifies a block that another process has as finalized against this chain', async t => {
    const { heads, chain, nodeOf, responseOverrides, recordCall, advance } = openModelHeads(['a', 'b'])
    const block = (number: number) => ({ number, hash: ancestorAt(chain.tip, number)?.hash ?? '' })
    nodeOf('b').final = ancestorAt(chain.tip, 40) ?? chain.tip
    const [older, newest, newer] = [block(30), block(50), block(51)]
    t.notOk(await heads.verifyFinalized(older), 'before the first poll')
    t.equal(heads.snapshot.finalizedBlockOf(), undefined)
    await recordCall()
    t.match(
      [heads.snapshot.finalizedBlockOf(), heads.snapshot.finalizedBlockOf('a'), heads.snapshot.finalizedBlockOf('b')],
      [newest, newest, block(40)],
    )
    t.equal(heads.snapshot.finalizedBlockOf('partner'), undefined)
    t.same(await Promise.all([older, newest, newer].map(each => heads.verifyFinalized(each))), [true, true, false])
    t.notOk(await heads.verifyFinalized({ number: 30, hash: newest.hash }))
    responseOverrides.set('a', () => undefined)
    t.notOk(await heads.verifyFinalized(older), 'no upstream answers')
    responseOverrides.clear()
    chain.reset()
    for (let i = 0; i < 100; i++) chain.mine()
    for (const node of [nodeOf('a'), nodeOf('b')]) Object.assign(node, { head: chain.tip, final: ancestorAt(chain.tip, 60) })
    await advance(500)
    await advance(500)
    t.same(
      await Promise.all([older, newest, block(60)].map(each => heads.verifyFinalized(each))),
      [false, false, true],
      'after the reset to another chain',
    )
  })

  t.test('has no finalized block of an upstream without the `finalized` tag, nor of an upstream without a chain ID', async t => {
    const { heads, responseOverrides, nodeOf, recordCall } = openModelHeads(['a', 'b'], undefined, { b: null })
    responseOverrides.set('a', (method, params) => (params[0] === 'finalized' ? null : nodeOf('a').answer(method, params)))
    await recordCall()
    t.notOk(heads.snapshot.isFinal('a', 0))
    t.notOk(heads.snapshot.isFinal('b', 0))
    t.notOk(heads.snapshot.isCurrent('b'), 'nor has it a head')
  })

  t.test('drops the head of an upstream after three failed polls in a row', async t => {
    const { heads, chain, nodeOf, responseOverrides, recordCall, advance } = openModelHeads()
    nodeOf('b').head = ancestorAt(chain.tip, 98) ?? chain.tip
    await recordCall()
    responseOverrides.set('a', () => undefined)
    await advance(1000)
    t.notOk(heads.snapshot.isCurrent('b'))
    await advance(500)
    t.match(heads.status, { head: 98 })
    t.notOk(heads.snapshot.isCurrent('b'), 'callers were told of block 100')
    nodeOf('b').head = chain.tip
    await advance(500)
    t.ok(heads.snapshot.isCurrent('b'))
  })
})

t.test('an answer about an old block excludes no upstream whose head is not known', async t => {
  const { heads, responseOverrides, nodeOf, recordCall, advance, stop, logLines } = openModelHeads(['a', 'b'], 5)
  t.teardown(stop)
  responseOverrides.set('a', (method, params) => (method === 'eth_chainId' ? nodeOf('a').answer(method, params) : undefined))
  await recordCall()
  await advance(1500)
  await heads.reportHeight('a', 40)
  await advance(500)
  t.same(orderOf(heads, [{ name: 'a' }, { name: 'b' }]), ['a', 'b'])
  t.same(
    logLines().filter(line => /excluded/.test(line)),
    [],
  )
  responseOverrides.delete('a')
  await advance(500)
  t.equal(heads.status.upstreams.find(({ name }) => name === 'a')?.head, 100)
})

t.test('upstreams that two pipelines track, as while one takes over from the other', async t => {
  t.test('keep what is known of them; upstreams of the later pipeline alone are polled at once', async t => {
    const { heads, stop, recordCall, settle, requests, advance } = openModelHeads(['a', 'b', 'c'])
    const stopAll = heads.track([targetOf('a'), targetOf('b')])
    stop()
    await recordCall()
    const { head } = heads.snapshot
    const before = requests.length
    const stopLater = heads.track([targetOf('b'), targetOf('c')])
    await settle()
    t.same(heads.snapshot.head, head)
    t.ok(requests.slice(before).every(request => request.startsWith('c ')))
    t.ok(requests.length > before)
    t.ok(heads.hasBlock('a'), 'calls of the earlier pipeline find the newest block at its upstreams')
    stopAll()
    await advance(500)
    t.same(
      heads.status.upstreams.map(({ name, head: number }) => [name, number]),
      [
        ['b', head],
        ['c', head],
      ],
    )
    stopLater()
    const atEnd = requests.length
    await advance(1000)
    t.equal(requests.length, atEnd, 'none is polled when no pipeline tracks')
  })

  t.test('are those of the earlier pipeline again when the later one stops first', async t => {
    const { heads, recordCall, advance, requests } = openModelHeads(['a', 'b'])
    await recordCall()
    heads.track([targetOf('b')])()
    requests.length = 0
    await advance(500)
    t.ok(requests.some(request => request.startsWith('a ')))
    t.same(
      heads.status.upstreams.map(({ name }) => name),
      ['a', 'b'],
    )
  })

  t.test('have it subscribed to what other processes report while a pipeline tracks them, and no longer', async t => {
    const subscribed: string[] = []
    const broadcastOf = (name: string) => ({
      raise: () => undefined,
      lower: () => undefined,
      subscribe: () => {
        subscribed.push(name)
        return () => void subscribed.splice(subscribed.indexOf(name), 1)
      },
    })
    const names = ['height', 'safe', 'finalized']
    const [height, safe, finalized] = names.map(broadcastOf).map(broadcast => [broadcast])
    const broadcasts = { heightBroadcasts: height, tagBroadcasts: { safe, finalized } }
    const { heads, stop } = openModelHeads(['a', 'b'], undefined, {}, {}, broadcasts as Parameters<typeof openModelHeads>[4])
    const stopLater = heads.track([targetOf('b')])
    t.same(subscribed, names, 'once each')
    stop()
    t.same(subscribed, names)
    stopLater()
    t.same(subscribed, [])
    heads.track([targetOf('a')])
    t.same(subscribed, names)
  })
})

t.test('what operators are told of the heads', async t => {
  const ms = (iso: string | undefined): number => Date.parse(iso ?? '')

  t.test('has the newest block with when it was seen first and last, also while no upstream answers, and since when', async t => {
    const { heads, clock, responseOverrides, recordCall, advance } = openModelHeads()
    t.match(heads.status, { idle: true })
    t.notOk('lastHead' in heads.status)
    await recordCall()
    const seenAt = clock.now()
    await advance(2_000)
    t.match(heads.status, { head: 100, lastHead: { number: 100 } })
    t.equal(ms(heads.status.lastHead?.since), seenAt)
    const checkedAt = clock.now()
    t.equal(ms(heads.status.lastHead?.checkedAt), checkedAt)
    for (const name of ['a', 'b']) responseOverrides.set(name, () => undefined)
    await advance(500)
    const failedAt = clock.now()
    await advance(5_000)
    const { head, lastHead, upstreams } = heads.status
    t.equal(head, undefined)
    t.same([lastHead?.number, ms(lastHead?.checkedAt)], [100, checkedAt])
    t.same(
      upstreams.map(({ usable, unusableSince, lastHead: ofUpstream }) => [usable, ms(unusableSince), ofUpstream?.number]),
      [
        [false, failedAt, 100],
        [false, failedAt, 100],
      ],
    )
  })

  t.test('says that the chain stands still when upstreams answer and no block comes, and that nobody has looked without calls', async t => {
    const { heads, chain, nodeOf, recordCall, advance } = openModelHeads()
    for (let i = 0; i < 7; i += 1) {
      await recordCall()
      await advance(10_000)
    }
    t.match(heads.status, { head: 100, stalled: true })
    chain.mine()
    for (const name of ['a', 'b']) nodeOf(name).head = chain.tip
    await advance(1_000)
    t.notOk('stalled' in heads.status)
    await advance(100_000)
    t.match(heads.status, { head: 101, idle: true })
    t.notOk('stalled' in heads.status, 'it may have moved since')
  })

  t.test(
    'says within 10 s that upstreams answer again, also when their callers have left: they are asked until then, and no longer',
    async t => {
      const { heads, responseOverrides, requests, recordCall, advance, logLines } = openModelHeads()
      const usable = () => heads.status.upstreams.map(each => each.usable)
      const stopNodes = () => ['a', 'b'].forEach(name => responseOverrides.set(name, () => undefined))
      const msUntilUsable = async () => {
        let passed = 0
        for (; passed < 60_000 && usable().includes(false); passed += 500) await advance(500)
        return passed
      }
      const requestsIn = async (ms: number) => {
        const before = requests.length
        await advance(ms)
        return requests.length - before
      }
      await recordCall()
      await advance(1_000)
      stopNodes()
      await advance(60_000)
      t.same(usable(), [false, false])
      t.equal(await requestsIn(600_000), 120, 'one to each every 10 s')
      responseOverrides.clear()
      const outageMs = await msUntilUsable()
      t.ok(outageMs > 0 && outageMs <= 10_500, `${outageMs} ms`)
      t.notOk(heads.status.upstreams.some(each => 'unreachable' in each || 'unusableSince' in each))
      t.equal(logLines().filter(line => /answers again/.test(line)).length, 2)
      t.equal(await requestsIn(3_600_000), 0, 'upstreams in order are left alone')

      t.comment('only an operator has looked')
      stopNodes()
      for (let i = 0; i < 4; i += 1) await heads.refresh()
      t.same(usable(), [false, false])
      responseOverrides.clear()
      t.ok((await msUntilUsable()) <= 10_500)
      await recordCall()
      t.match(heads.status, { head: 100 })
    },
  )

  t.test('never says so of a development node, which has a block when somebody wants one', async t => {
    const { heads, recordCall, advance } = openModelHeads(['a'], undefined, {}, {}, { devNode: true })
    for (let i = 0; i < 7; i += 1) {
      await recordCall()
      await advance(10_000)
    }
    t.notOk('stalled' in heads.status || 'idle' in heads.status)
  })
})

t.test('a node that is drained', async t => {
  let drained: ReadonlySet<string> = new Set()
  let onDrained = (): void => undefined
  const nodes = {
    get drained() {
      return drained
    },
    isDrainedKnown: true,
    onDrained: (listener: () => void) => {
      onDrained = listener
      return () => undefined
    },
  }
  const { heads, chain, nodeOf, requests, responseOverrides, recordCall, advance } = openModelHeads(
    ['a', 'b'],
    undefined,
    {},
    {},
    { nodes },
  )
  const drain = (...names: readonly string[]) => {
    drained = new Set(names)
    onDrained()
  }
  const asked: string[] = []
  responseOverrides.set('a', (method, params) => {
    asked.push(`${method} ${String(params[0])}`)
    return nodeOf('a').answer(method, params)
  })
  heads.feeds.logs.subscribe({ onUpdate: () => undefined, onEnd: () => undefined })
  heads.feeds.headers.subscribe({ onUpdate: () => undefined, onEnd: () => undefined })
  const mine = async (count: number) => {
    for (let i = 0; i < count; i++) {
      chain.mine()
      for (const name of ['a', 'b']) nodeOf(name).head = chain.tip
      await recordCall()
      await advance(1_000)
    }
  }
  await mine(3)
  t.ok(
    asked.some(each => each.startsWith('eth_getLogs')),
    'the feed asks it first',
  )

  t.test(
    'gets nothing but polls of its chain and its newest block, also while its head is implausible, or calls wait for blocks',
    async t => {
      drain('a')
      asked.length = requests.length = 0
      await mine(60)
      void heads.waitForBlock(['a'], chain.tip.number + 1, { timeoutMs: 1_000, signal: new Cancellation() })
      await advance(2_000)
      await heads.refresh(true)
      nodeOf('a').head = { ...chain.tip, number: chain.tip.number + 1_000 }
      await advance(5_000)
      t.same([...new Set(asked)].sort(), ['eth_chainId undefined', 'eth_getBlockByNumber latest'])
      t.ok(
        requests.some(each => each.startsWith('b eth_getLogs')),
        'another is asked',
      )
      nodeOf('a').head = chain.tip
    },
  )

  t.test('has no say about the head, and operators see its own', async t => {
    nodeOf('b').head = ancestorAt(chain.tip, chain.tip.number - 2) ?? chain.tip
    await recordCall()
    await advance(10_000)
    t.equal(heads.snapshot.head, chain.tip.number - 2)
    t.match(heads.status.upstreams, [{ name: 'a', head: chain.tip.number }, { name: 'b' }])
    drain()
    t.equal(heads.snapshot.head, chain.tip.number, 'it has again, at once')
  })
})

t.test('what an upstream runs is asked when somebody looks, and again after it was gone', async t => {
  const drained = new Set(['c'])
  const nodes = { drained, isDrainedKnown: true, onDrained: () => () => undefined }
  const { heads, requestCount, responseOverrides, disconnects, nodeOf, recordCall, advance } = openModelHeads(
    ['a', 'b', 'c'],
    undefined,
    {},
    {},
    { nodes },
  )
  let version: string | undefined = 'Geth/host-7.internal/v1.13.5-stable-916d6a44/linux-amd64/go1.21'
  responseOverrides.set('a', (method, params) => (method === 'web3_clientVersion' ? version : nodeOf('a').answer(method, params)))
  responseOverrides.set('b', (method, params) => (method === 'web3_clientVersion' ? undefined : nodeOf('b').answer(method, params)))
  const asked = () => requestCount('web3_clientVersion')
  const clients = () => heads.status.upstreams.map(({ client }) => client)
  await recordCall()
  t.equal(asked(), 0, 'calls ask nothing')
  await heads.refresh()
  t.same(clients(), ['Geth v1.13.5-stable-916d6a44', undefined, undefined], 'a node may be named after its host')
  t.equal(asked(), 2, 'not of a drained one')
  t.same(
    heads.status.upstreams.map(({ usable }) => usable),
    [true, true, true],
    'who does not say it is asked for calls all the same',
  )
  await heads.refresh()
  t.equal(asked(), 2)
  await advance(60_000)
  await heads.refresh()
  t.equal(asked(), 3, 'that which has not answered')
  version = 'reth/v1.0.0'
  disconnects.set('a', 1)
  await advance(60_000)
  await heads.refresh()
  t.same(clients(), ['reth v1.0.0', undefined, undefined])
  for (const [result, client] of [
    ['Nethermind/v1.25.4+20b10b35/linux-x64/dotnet8.0.2', 'Nethermind v1.25.4+20b10b35'],
    ['anvil/v0.2.0', 'anvil v0.2.0'],
    ['erigon/2.60.1/linux-amd64/go1.21.6', 'erigon 2.60.1'],
    ['https://user:secret@node.example/v3/0123456789', undefined],
    [`Geth/v${'1'.repeat(100)}`, undefined],
    ['Ge\u001b[31mth/v1.0', undefined],
    ['geth', undefined],
    [7, undefined],
    [undefined, undefined],
  ] as const)
    t.equal(parseClient(result), client)
})
