import t from '../support/tap.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { ancestorAt } from '../support/model-chain.ts'
import { connectWorker } from '../support/worker-channel.ts'
import { WorkerNetworks } from '../../src/cluster/worker-networks.ts'
import { DrainedNodes } from '../../src/services/drained-nodes.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { NodeStatuses } from '../../src/services/node-status.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import { StoreError } from '../../src/store/store.ts'
import { TestLog } from '../support/fakes.ts'
import type { ChainUpdate, HeadsStatus } from '../../src/services/chain-heads/index.ts'
import { openCluster, targetsOf } from './model-cluster.ts'

/** What workers know: when it began is known where upstreams are asked. */
const withoutTimes = (status: HeadsStatus | undefined) => {
  const { lastHead, stalled, idle, upstreams = [], ...rest } = status ?? {}
  return { ...rest, upstreams: upstreams.map(({ lastHead: seen, unusableSince, ...upstream }) => upstream) }
}

t.test('several workers', async t => {
  t.test('cost no more polls than one worker, and none while no call comes in', async t => {
    const { addWorker, deliverAll, advance, takePollCount, workers } = openCluster()
    for (let i = 0; i < 4; i++) addWorker()
    await deliverAll()
    t.equal(takePollCount(), 0)
    for (let i = 0; i < 20; i++) {
      for (const { heads } of workers) heads.recordActivity()
      await deliverAll()
      await advance(500)
    }
    t.equal(takePollCount(), 42, 'two upstreams, at once and after each 500 ms')
    await advance(60_000)
    const last = takePollCount()
    t.ok(last >= 58 * 2 && last <= 61 * 2, `${last} polls after the last call`)
    await advance(60_000)
    t.equal(takePollCount(), 0)
    workers[2]?.heads.recordActivity()
    await deliverAll()
    t.equal(takePollCount(), 2)
  })

  t.test('have the state of the primary: the head, finalized blocks by number and by hash, and exclusions', async t => {
    const { addWorker, deliverAll, advance, chain, nodeOf, responseOverrides, sharedHeads, log } = openCluster()
    const [one, two] = [addWorker(), addWorker()]
    responseOverrides.set('b', (method, params) => (method === 'eth_chainId' ? '0x5' : nodeOf('b').answer(method, params)))
    await deliverAll()
    one.heads.recordActivity()
    await deliverAll()
    for (let i = 0; i < 12; i++) {
      for (let j = 0; j < 4; j++) chain.mine()
      chain.finalize()
      Object.assign(nodeOf('a'), { head: chain.tip, final: chain.final })
      one.heads.recordActivity()
      await advance(5000)
    }
    const final = nodeOf('a').final
    const block110 = ancestorAt(chain.tip, 110)
    for (const { heads } of [one, two]) {
      t.same(heads.status, withoutTimes(sharedHeads.statusOf('model')))
      t.match(heads.status, {
        head: chain.tip.number,
        upstreams: [
          { name: 'a', usable: true },
          { name: 'b', usable: false, because: 'its chain ID is 5' },
        ],
      })
      t.same([heads.snapshot.isCurrent('a'), heads.snapshot.isCurrent('b')], [true, false])
      const finalized = heads.snapshot.finalizedBlockOf('a')
      t.ok(finalized !== undefined && finalized.number > 100 && finalized.number <= final.number)
      t.ok(heads.snapshot.isFinal('a', 90))
      t.ok(heads.snapshot.isFinal('a', ancestorAt(chain.tip, 101)?.hash ?? ''))
      t.notOk(heads.snapshot.isFinal('a', chain.tip.hash))
      t.notOk(heads.snapshot.isFinal('b', 90))
      t.same(
        targetsOf('b', 'a').map(target => heads.chainCheckOf(target).result),
        ['failed', 'passed'],
      )
    }
    t.ok(block110 !== undefined && (await two.heads.verifyFinalized(block110)))
    t.notOk(await two.heads.verifyFinalized({ number: 110, hash: chain.tip.hash }))
    t.same(
      log.lines.map(({ message }) => message),
      ['upstream excluded: wrong chain ID'],
      'logged once',
    )
    for (const { heads } of [one, two]) t.equal(heads.exclusionOf('b'), 'chain')
  })

  t.test('increase the head version with each head, and drop a branch after a reorg', async t => {
    const { addWorker, deliverAll, advance, chain, nodeOf } = openCluster(7, ['a'])
    const { heads } = addWorker()
    await deliverAll()
    heads.recordActivity()
    await deliverAll()
    const before = heads.snapshot
    await advance(500)
    t.equal(heads.snapshot.headVersion, before.headVersion)
    chain.mine()
    nodeOf('a').head = chain.tip
    await advance(500)
    t.not(heads.snapshot.headVersion, before.headVersion)
    chain.reset()
    for (let i = 0; i < 200; i++) chain.mine()
    Object.assign(nodeOf('a'), { head: chain.tip, final: chain.final })
    await advance(500)
    t.equal(heads.snapshot.finalityVersion, before.finalityVersion + 1)
    t.notOk(heads.snapshot.isFinal('a', 50))
  })

  t.test('that start later have the state before they are ready', async t => {
    const { addWorker, deliverAll, advance, chain, nodeOf } = openCluster()
    addWorker().heads.recordActivity()
    await deliverAll()
    for (let i = 0; i < 10; i++) {
      chain.mine()
      nodeOf('a').head = chain.tip
      await advance(500)
    }
    const late = addWorker()
    const [target] = targetsOf('a')
    t.equal(target && late.heads.chainCheckOf(target).result, 'pending')
    await deliverAll()
    t.equal(target && late.heads.chainCheckOf(target).result, 'passed')
    t.match(late.heads.status, { head: 110 })
    t.equal(late.heads.reportHeight('b', 90), 110)
  })

  t.test('that read other upstreams from a changed file know those of all, until the last worker that has them exits', async t => {
    const { addWorker, deliverAll, advance, takePollCount, workers } = openCluster(7, ['a', 'b'])
    for (let i = 0; i < 2; i++) addWorker(targetsOf('a'))
    await deliverAll()
    workers[0]?.heads.recordActivity()
    await deliverAll()
    const reported = workers[0]?.heads.reportHeight('a', 101)
    const told = workers[0]?.heads.tags.report('a', 'finalized', 90)
    await deliverAll()
    await Promise.all([reported, told])
    workers[1]?.kill()
    addWorker(targetsOf('b'))
    await deliverAll()
    const upstreamsOf = (i: number) => workers[i]?.heads.status.upstreams.map(({ name }) => name)
    for (const i of [0, 2]) t.same(upstreamsOf(i), ['b', 'a'])
    workers[0]?.kill()
    addWorker(targetsOf('b'))
    await deliverAll()
    for (const i of [2, 3]) t.same(upstreamsOf(i), ['b'])
    t.equal(workers[2]?.heads.snapshot.reportedHeight, 101, 'what callers were told stays')
    t.equal(workers[2]?.heads.tags.blockFor('b', 'finalized'), 90)
    takePollCount()
    workers[2]?.heads.recordActivity()
    await advance(500)
    t.ok(takePollCount() > 0)
    t.match(workers[2]?.heads.status, { head: 100 })
  })

  t.test(
    'find the newest block at the nodes of before while they prepare a reload to others, and until their last call has ended',
    async t => {
      const { addWorker, deliverAll, advance, chain, nodes, workers } = openCluster(7, ['a', 'b'])
      const [one, two] = [addWorker(targetsOf('a')), addWorker(targetsOf('a'))]
      const mine = async (): Promise<void> => {
        chain.mine()
        for (const node of nodes) node.head = chain.tip
        for (const { heads } of workers) heads.recordActivity()
        await deliverAll()
        await advance(1000)
      }
      /** Whether calls of each worker find the newest block at the node. */
      const found = (name: string) => workers.map(({ heads }) => heads.hasBlock(name))
      await mine()
      t.same(found('a'), [true, true])
      one.heads.track(targetsOf('b'))
      await mine()
      t.same(
        [found('a'), found('b')],
        [
          [true, true],
          [true, true],
        ],
        'the first has prepared',
      )
      two.heads.track(targetsOf('b'))
      one.untrack()
      await mine()
      t.same(
        [found('a'), found('b')],
        [
          [true, true],
          [true, true],
        ],
        'a call of the second has not ended',
      )
      two.untrack()
      await mine()
      for (const { heads } of workers) t.match(heads.status, { upstreams: [{ name: 'b' }] })
    },
  )

  t.test('that do not read for long cost a few messages, and then have the same state as the others', async t => {
    const { addWorker, deliverAll, advance, chain, nodeOf, sharedHeads, workers } = openCluster(7, ['a'])
    const [one, two] = [addWorker(), addWorker()]
    await deliverAll()
    two.down.isPaused = true
    for (let i = 0; i < 1000; i++) {
      if (i % 300 === 100) chain.reorg()
      else chain.mine()
      nodeOf('a').head = chain.tip
      if (i % 100 === 0) Object.assign(nodeOf('a'), { final: ancestorAt(chain.tip, chain.tip.number - 20) })
      one.heads.recordActivity()
      await advance(500)
    }
    t.ok(two.down.length < 8, `${two.down.length} messages wait`)
    two.down.isPaused = false
    await deliverAll()
    for (const { heads } of workers) {
      t.same(heads.status, withoutTimes(sharedHeads.statusOf('model')))
      for (const back of [200, 300, 500]) t.ok(heads.snapshot.isFinal('a', ancestorAt(chain.tip, chain.tip.number - back)?.hash ?? ''))
      for (const back of [0, 1, 20]) t.notOk(heads.snapshot.isFinal('a', ancestorAt(chain.tip, chain.tip.number - back)?.hash ?? ''))
    }
    t.equal(two.heads.reportHeight('a', 1), chain.tip.number)
  })

  t.test('leave no series of an upstream behind that none of them has', async t => {
    const { addWorker, deliverAll, metrics, sharedHeads, served } = openCluster(7, ['a', 'b'])
    const upstreams = () => new Set(metrics.families().flatMap(({ series }) => series.flatMap(({ labels }) => labels['upstream'] ?? [])))
    const first = addWorker(targetsOf('a', 'b'))
    await deliverAll()
    t.same(upstreams(), new Set(['a', 'b']))
    const second = addWorker(targetsOf('b'))
    first.untrack()
    await deliverAll()
    t.same(upstreams(), new Set(['b']))

    second.untrack()
    await deliverAll()
    t.not(sharedHeads.statusOf('model'), undefined, 'a network that is served is known, while no worker tracks it too')
    const third = addWorker(targetsOf('b'))
    await deliverAll()
    served.clear()
    third.untrack()
    await deliverAll()
    t.equal(sharedHeads.statusOf('model'), undefined)
    t.same(metrics.families(), [])
  })

  t.test('know nothing of a node by what another answers that has its name in a worker which has yet to prepare the reload', async t => {
    const { addWorker, deliverAll, advance } = openCluster()
    const [first, second] = [addWorker(), addWorker()]
    first.heads.recordActivity()
    await deliverAll()
    first.heads.track([{ name: 'a', url: new Secret('http://other.test'), source: 'node' }, ...targetsOf('b')])
    await deliverAll()
    first.heads.recordActivity()
    await advance(1000)
    const reporter = second.heads.reporterOf(targetsOf('a')[0]!)
    const reports = Promise.all([second.heads.tags.report(reporter, 'safe', 70), second.heads.reportHeight(reporter, 101)])
    await deliverAll()
    t.equal((await reports)[1], 101)
    t.equal(first.heads.tags.reported('safe'), 70)
    t.same([first.heads.hasBlock('a', 101), first.heads.tags.blockFor('a', 'safe')], [false, 70])
  })

  t.test('keep to a drain while one of them, which starts or reloads, cannot read the store', async t => {
    const { addWorker, deliverAll, advance, clock, nodeOf, responseOverrides } = openCluster()
    let isReachable = false
    let isDrained = true
    const value = { network: 'model', upstream: 'a', since: 1, by: { kind: 'command', name: 'root' } }
    const records = async (kind: string) =>
      kind === 'drained-node' && isDrained ? [{ id: 'model/a', account: '', value, expires: neverExpires }] : []
    const unreachable = async () => {
      if (!isReachable) throw new StoreError('unreachable')
      return []
    }
    const start = async (store: ConstructorParameters<typeof DrainedNodes>[0]['store']) => {
      const drained = new DrainedNodes({ store, clock, log: new TestLog() })
      await drained.start()
      t.teardown(() => drained.stop())
      return addWorker(targetsOf('a', 'b'), new NodeStatuses(createMetricsRegistry(), drained).of('model'))
    }
    const [first, second] = [await start({ records }), await start({ records: unreachable })]
    await deliverAll()
    const asked: string[] = []
    responseOverrides.set('a', (method, params) => {
      asked.push(String(params[0]))
      return nodeOf('a').answer(method, params)
    })
    first.heads.recordActivity()
    await advance(3000)
    t.ok(asked.includes('latest'))
    t.notOk(asked.includes('finalized'))
    isReachable = true
    second.heads.recordActivity()
    await advance(3000)
    t.ok(asked.includes('finalized'), 'what the worker has read then counts')

    const isFollowed = async () => {
      asked.length = 0
      for (let i = 0; i < 20; i++) {
        first.heads.recordActivity()
        await advance(3000)
      }
      return asked.includes('finalized')
    }
    isDrained = false
    t.ok(await isFollowed())
    isReachable = false
    isDrained = true
    await advance(2000)
    t.notOk(await isFollowed())
    second.heads.track(targetsOf('a', 'b'))
    t.notOk(await isFollowed(), 'what the worker has read before does not count')
  })

  t.test('log no URL', async t => {
    const { addWorker, deliverAll, responseOverrides, advance, log } = openCluster()
    responseOverrides.set('a', method => (method === 'eth_chainId' ? '0x9' : undefined))
    addWorker().heads.recordActivity()
    await deliverAll()
    await advance(2000)
    t.ok(log.lines.length > 0)
    t.notMatch(JSON.stringify(log.lines), /canary/)
  })
})

t.test('a reload that opens the heads of a network anew, with another block time', async t => {
  const open = async (next = targetsOf('a'), answered?: { readonly safe: number }, isListening = false) => {
    const { sharedHeads, ...cluster } = openCluster()
    const { chain, clock, log, metrics, nodeOf, upstreamClient, deliverAll, advance } = cluster
    const { worker, primary } = connectWorker(clock)
    const networks = new WorkerNetworks(clock, primary)
    worker.handle(sharedHeads.handlersOf(worker))
    primary.handle(networks.handlers)
    const openHeads = (blockTime: number, targets = targetsOf('a')) => {
      const heads = networks.open('model', { chainId: 1, blockTime, upstreamClient, errorCategory: () => undefined, clock, log, metrics })
      const untrack = heads.track(targets)
      return { heads, stop: () => (untrack(), heads.close()) }
    }
    const running = openHeads(1000)
    await deliverAll()
    const seen: (number | 'end')[] = []
    const listener = {
      onUpdate: ({ added }: ChainUpdate) => seen.push(...added.map(({ number }) => number)),
      onEnd: () => seen.push('end'),
    }
    const listen = async () => {
      const { isStarted } = running.heads.feeds.headers.subscribe(listener)
      await deliverAll()
      return isStarted
    }
    if (isListening) await listen()
    if (answered !== undefined) {
      running.heads.recordActivity()
      await deliverAll()
      await running.heads.tags.report('a', 'safe', answered.safe)
    }
    const prepared = openHeads(2000, next)
    await deliverAll()
    const nextHead = async (heads: (typeof running)['heads']) => {
      chain.mine()
      nodeOf('a').head = chain.tip
      heads.recordActivity()
      await advance(3000)
      return { head: heads.status.head, number: chain.tip.number }
    }
    return { running, prepared, nextHead, seen, listen }
  }

  t.test('takes over when it is committed', async t => {
    const { running, prepared, nextHead } = await open()
    running.stop()
    const { head, number } = await nextHead(prepared.heads)
    t.equal(head, number)
  })

  t.test('takes over what was reported of a tag, and not what another node has answered under the name of an upstream', async t => {
    const { prepared } = await open([{ name: 'a', url: new Secret('http://other.test'), source: 'node' }], { safe: 70 })
    t.same([prepared.heads.tags.reported('safe'), prepared.heads.tags.blockFor('a', 'safe')], [70, 70])
  })

  t.test('leaves the old heads as they were when it is abandoned, as when another worker could not prepare it', async t => {
    const { running, prepared, nextHead } = await open()
    prepared.stop()
    const { head, number } = await nextHead(running.heads)
    t.equal(head, number)
  })

  t.test('ends the feeds of the old heads, which begin anew where it is abandoned', async t => {
    const { running, prepared, nextHead, seen, listen } = await open(undefined, undefined, true)
    prepared.stop()
    t.same(seen, ['end'])
    t.equal(await listen(), true)
    const { number } = await nextHead(running.heads)
    t.same(seen, ['end', number])
  })
})
