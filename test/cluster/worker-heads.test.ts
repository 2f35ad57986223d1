import t from '../support/tap.ts'
import { toRevealedTarget } from '../../src/cluster/worker-messages.ts'
import { toHexQuantity } from '../../src/util/json.ts'
import { ancestorAt, seededRandom } from '../support/model-chain.ts'
import { openCluster, targetsOf } from './model-cluster.ts'

t.test('a transaction that callers of one worker sent', async t => {
  t.test('is known to every worker before its sender is answered', async t => {
    const { addWorker, deliverAll } = openCluster()
    const [one, two, three] = [addWorker(), addWorker(), addWorker()]
    await deliverAll()
    const before = two.heads.transactionVersion
    const isAnswered: number[] = []
    two.down.isPaused = true
    for (const i of [1, 2, 3]) void Promise.resolve(one.heads.recordTransaction()).then(() => isAnswered.push(i))
    await deliverAll()
    t.ok(three.heads.transactionVersion > before)
    t.same([isAnswered, two.heads.transactionVersion], [[], before])
    two.down.isPaused = false
    await deliverAll()
    t.same(isAnswered, [1, 2, 3])
    t.ok(two.heads.transactionVersion > before)
  })

  t.test('waits 50 ms for a worker that is busy, once, and not at all for one that has exited', async t => {
    const { addWorker, deliverAll, clock } = openCluster()
    const [one, two, three] = [addWorker(), addWorker(), addWorker()]
    await deliverAll()
    three.kill()
    two.down.isPaused = true
    const first = one.heads.recordTransaction()
    await deliverAll()
    clock.advance(50)
    await deliverAll()
    await first
    const second = one.heads.recordTransaction()
    await deliverAll()
    await second
    const { transactionVersion } = two.heads
    two.down.isPaused = false
    await deliverAll()
    t.ok(two.heads.transactionVersion > transactionVersion, 'it learns of them all the same')
    one.up.isPaused = true
    const third = one.heads.recordTransaction()
    await deliverAll()
    clock.advance(50)
    await third
  })
})

t.test('a worker that missed the message about a transaction learns of it before it answers from memory', async t => {
  const { addWorker, deliverAll, clock } = openCluster()
  const [one, two] = [addWorker(), addWorker()]
  await deliverAll()
  const { transactionVersion } = two.heads
  two.down.isPaused = true
  const sent = one.heads.recordTransaction()
  await deliverAll()
  clock.advance(50)
  await sent
  t.ok(two.heads.mayLag)
  two.down.isPaused = false
  const synced = two.heads.sync()
  await deliverAll()
  t.ok(await synced)
  t.ok(two.heads.transactionVersion > transactionVersion)
})

t.test('a transaction after the network is tracked anew, with another block time, is not taken for the one before', async t => {
  const { addWorker, deliverAll } = openCluster()
  const [one, two] = [addWorker(), addWorker()]
  await deliverAll()
  const send = async () => {
    const { transactionVersion } = two.heads
    const sent = one.heads.recordTransaction()
    await deliverAll()
    await sent
    t.ok(two.heads.transactionVersion > transactionVersion)
  }
  await send()
  const targets = targetsOf('a', 'b').map(toRevealedTarget)
  one.primary.send('track', { network: 'model', upstreams: { chainId: 1, blockTime: 2000, targets } })
  await deliverAll()
  await send()
})

t.test('each transaction is answered of several that became one message, as the pipe was full', async t => {
  const { addWorker, deliverAll } = openCluster()
  const [one, two] = [addWorker(), addWorker()]
  await deliverAll()
  const { transactionVersion } = two.heads
  one.up.isPaused = true
  const sent = Array.from({ length: 6 }, () => one.heads.recordTransaction())
  t.ok(one.up.length < 6)
  one.up.isPaused = false
  await deliverAll()
  await Promise.all(sent)
  t.ok(two.heads.transactionVersion > transactionVersion)
})

t.test('of a development node each worker gives its callers what the node says, and waits for no other', async t => {
  const { addWorker, deliverAll, advance, nodes, chain } = openCluster(7, ['a'], true)
  const [one, two] = [addWorker(), addWorker()]
  one.heads.recordActivity()
  await deliverAll()
  two.down.isPaused = true
  for (const number of [101, 80]) t.equal(one.heads.reportHeight('a', number), number)
  await one.heads.tags.report('a', 'finalized', 90)
  two.down.isPaused = false
  for (const node of nodes) node.head = ancestorAt(chain.tip, 80) ?? chain.tip
  await advance(500)
  for (const { heads } of [one, two]) {
    t.ok(heads.hasBlock('a'), 'no call waits for the block of before')
    t.same([heads.status.head, heads.tags.blockFor('a', 'finalized')], [80, undefined])
  }
})

t.test('the reported height of several workers', async t => {
  t.test('is given to no caller before every worker has it', async t => {
    const { addWorker, deliverAll, pipes } = openCluster()
    const [one, two] = [addWorker(), addWorker()]
    one.heads.recordActivity()
    await deliverAll()
    two.down.isPaused = true
    let reported: number | undefined
    const pending = Promise.resolve(one.heads.reportHeight('a', 101)).then(height => {
      reported = height
    })
    await deliverAll()
    t.equal(reported, undefined, 'the other worker does not have it yet')
    t.equal(two.heads.reportHeight('b', 100), 100)
    two.down.isPaused = false
    await deliverAll()
    await pending
    t.equal(reported, 101)
    t.equal(two.heads.reportHeight('b', 100), 101)
    t.equal(one.heads.reportHeight('b', 99), 101)
    t.notOk(pipes().some(pipe => pipe.deliver()))
  })

  t.test('waits 50 ms for a worker or a primary that is busy, and not at all for a worker that has exited', async t => {
    const { addWorker, deliverAll, clock } = openCluster()
    const [one, two, three] = [addWorker(), addWorker(), addWorker()]
    one.heads.recordActivity()
    await deliverAll()
    three.kill()
    two.down.isPaused = true
    const first = one.heads.reportHeight('a', 101)
    await deliverAll()
    clock.advance(50)
    await deliverAll()
    t.equal(await first, 101)
    one.up.isPaused = true
    const second = one.heads.reportHeight('a', 102)
    await deliverAll()
    clock.advance(50)
    t.equal(await second, 101)
    two.kill()
    one.up.isPaused = false
    await deliverAll()
    const third = one.heads.reportHeight('a', 103)
    await deliverAll()
    t.equal(await third, 103)
  })

  t.test('answers each report of an upstream whose reports became one, as the pipe was full', async t => {
    const { addWorker, deliverAll } = openCluster()
    const one = addWorker()
    one.heads.recordActivity()
    await deliverAll()
    one.up.isPaused = true
    for (let i = 0; i < 3; i++) one.heads.pollLagging()
    const given: (readonly [string, number])[] = []
    for (const [upstream, height] of [
      ['a', 102],
      ['b', 101],
      ['a', 101],
    ] as const)
      void Promise.resolve(one.heads.reportHeight(upstream, height)).then(reported => given.push([upstream, reported]))
    one.up.isPaused = false
    await deliverAll()
    t.same(given.toSorted(), [
      ['a', 102],
      ['a', 102],
      ['b', 101],
    ])
  })

  t.test('does not wait again for a worker that missed an acknowledgment, until its next one', async t => {
    const { addWorker, deliverAll, clock } = openCluster()
    const [one, two] = [addWorker(), addWorker()]
    one.heads.recordActivity()
    await deliverAll()
    two.down.isPaused = true
    const first = one.heads.reportHeight('a', 101)
    await deliverAll()
    clock.advance(50)
    await deliverAll()
    t.equal(await first, 101)
    const second = one.heads.reportHeight('a', 102)
    await deliverAll()
    t.equal(await second, 102, 'at once')
    two.down.isPaused = false
    await deliverAll()
    two.down.isPaused = true
    let reported: number | undefined
    void Promise.resolve(one.heads.reportHeight('a', 103)).then(height => {
      reported = height
    })
    await deliverAll()
    t.equal(reported, undefined, 'it has acknowledged a height, so this one waits for it')
    two.down.isPaused = false
    await deliverAll()
    t.equal(reported, 103)
  })

  t.test('is never implausible', async t => {
    const { addWorker, deliverAll, responseOverrides, nodeOf, clock } = openCluster()
    for (const name of ['a', 'b']) {
      responseOverrides.set(name, (method, params) => {
        const value = nodeOf(name).answer(method, params)
        return params[0] === 'latest' ? { ...Object(value), timestamp: toHexQuantity(Math.floor(clock.now() / 1000)) } : value
      })
    }
    const [one, two] = [addWorker(), addWorker()]
    one.heads.recordActivity()
    await deliverAll()
    const first = one.heads.reportHeight('a', 1_000_000_000)
    await deliverAll()
    t.equal(await first, 100)
    t.equal(two.heads.reportHeight('b', 100), 100)
  })

  t.test('goes back for all workers when no node has the block any more', async t => {
    const { addWorker, deliverAll, advance, nodes, chain } = openCluster()
    const [one, two] = [addWorker(), addWorker()]
    one.heads.recordActivity()
    await deliverAll()
    for (const node of nodes) node.head = ancestorAt(chain.tip, 20) ?? node.head
    await advance(500)
    t.equal(two.heads.reportHeight('a', 20), 100)
    await advance(5_000)
    t.same([one.heads.reportHeight('a', 20), two.heads.reportHeight('a', 20)], [20, 20])
  })

  t.test('never goes back for one caller, whatever the order of messages (40 random runs of 1,500 steps)', async t => {
    for (let seed = 1; seed <= 40; seed++) {
      const violations = await runRandomCluster(seed)
      t.same(violations, [], `seed ${seed}`)
    }
  })
})

t.test('what callers of one worker were told of a finalized block', async t => {
  t.test('is known to every worker before the caller is answered, and nothing older is answered from memory', async t => {
    const { addWorker, deliverAll } = openCluster()
    const [one, two] = [addWorker(), addWorker()]
    one.heads.recordActivity()
    await deliverAll()
    two.down.isPaused = true
    let isReported = false
    const reported = Promise.resolve(one.heads.tags.report('a', 'finalized', 90)).then(() => {
      isReported = true
    })
    await deliverAll()
    t.notOk(isReported)
    const { headVersion } = two.heads.snapshot
    two.down.isPaused = false
    await deliverAll()
    await reported
    t.same([one.heads.tags.blockFor('b', 'finalized'), two.heads.tags.blockFor('b', 'finalized')], [90, 90])
    t.equal(two.heads.tags.blockFor('a', 'finalized'), undefined)
    t.not(two.heads.snapshot.headVersion, headVersion)
  })

  t.test('is known to a new worker, and to one that missed the message when it has asked', async t => {
    const { addWorker, deliverAll, clock } = openCluster()
    const [one, two] = [addWorker(), addWorker()]
    one.heads.recordActivity()
    await deliverAll()
    two.down.isPaused = true
    const reported = one.heads.tags.report('a', 'finalized', 90)
    await deliverAll()
    for (let ms = 0; ms <= 50; ms += 5) {
      clock.advance(5)
      await deliverAll()
    }
    await reported
    t.ok(two.heads.mayLag)
    two.down.isPaused = false
    const synced = two.heads.sync()
    await deliverAll()
    await synced
    t.equal(two.heads.tags.blockFor('b', 'finalized'), 90)
    const three = addWorker()
    await deliverAll()
    t.equal(three.heads.tags.blockFor('b', 'finalized'), 90)
  })
})

t.test('a worker that did not acknowledge a height in time', async t => {
  const openStopped = async () => {
    const cluster = openCluster()
    const [one, two] = [cluster.addWorker(), cluster.addWorker()]
    one.heads.recordActivity()
    two.heads.recordActivity()
    await cluster.deliverAll()
    t.notOk(two.heads.mayLag)
    two.down.isPaused = true
    const reported = one.heads.reportHeight('a', 101)
    await cluster.deliverAll()
    cluster.clock.advance(50)
    await cluster.deliverAll()
    t.equal(await reported, 101)
    return { ...cluster, one, two }
  }

  t.test('may lag until the primary has answered it', async t => {
    const { two, deliverAll } = await openStopped()
    t.equal(two.heads.snapshot.reportedHeight, 100)
    t.ok(two.heads.mayLag)
    let isSynced = false
    const synced = two.heads.sync().then(() => {
      isSynced = true
    })
    await deliverAll()
    t.notOk(isSynced)
    two.down.isPaused = false
    await deliverAll()
    await synced
    t.notOk(two.heads.mayLag)
    t.equal(two.heads.snapshot.reportedHeight, 101)
  })

  t.test('is waited for again as soon as it asks', async t => {
    const { one, two, deliverAll } = await openStopped()
    void two.heads.sync()
    await deliverAll()
    let reported: number | undefined
    void Promise.resolve(one.heads.reportHeight('a', 102)).then(height => {
      reported = height
    })
    await deliverAll()
    t.equal(reported, undefined)
    two.down.isPaused = false
    await deliverAll()
    t.equal(reported, 102)
  })

  t.test('is waited for once it has asked, though a height from before it asked becomes late meanwhile', async t => {
    const { addWorker, deliverAll, clock } = openCluster()
    const [one, two] = [addWorker(), addWorker()]
    one.heads.recordActivity()
    await deliverAll()
    two.down.isPaused = true
    const first = one.heads.reportHeight('a', 101)
    await deliverAll()
    clock.advance(25)
    void two.heads.sync()
    await deliverAll()
    clock.advance(25)
    await deliverAll()
    t.equal(await first, 101)
    let reported: number | undefined
    void Promise.resolve(one.heads.reportHeight('a', 102)).then(height => {
      reported = height
    })
    await deliverAll()
    t.equal(reported, undefined)
    two.down.isPaused = false
    await deliverAll()
    t.equal(reported, 102)
  })

  t.test('does not wait for a primary that does not answer for 250 ms, and may lag still', async t => {
    const { two, clock, deliverAll } = await openStopped()
    const synced = two.heads.sync()
    for (let ms = 0; ms < 250; ms += 25) {
      await deliverAll()
      clock.advance(25)
    }
    t.notOk(await synced)
    t.ok(two.heads.mayLag)
  })

  t.test('may answer a call that came before it asked, however long the primary took', async t => {
    const { two, clock, deliverAll } = await openStopped()
    let isSynced: boolean | undefined
    void two.heads.sync().then(result => {
      isSynced = result
    })
    for (let ms = 0; ms < 100; ms += 25) {
      await deliverAll()
      clock.advance(25)
    }
    two.down.isPaused = false
    await deliverAll()
    t.equal(isSynced, true)
    t.equal(two.heads.snapshot.reportedHeight, 101)
    t.ok(two.heads.mayLag, 'a later call asks again')
  })

  t.test('never answers from memory from before a height that a caller was told (20 random runs of 1,500 steps)', async t => {
    let answerCount = 0
    for (let seed = 1; seed <= 20; seed++) {
      const run = await runStoppingWorkers(seed)
      t.same(run.violations, [], `seed ${seed}`)
      answerCount += run.answerCount
    }
    t.ok(answerCount > 200, `${answerCount} answers from memory`)
  })
})

/** Workers are stopped for a while at any time, longer than anyone waits for them. */
const runStoppingWorkers = async (seed: number) => {
  const random = seededRandom(seed)
  const { addWorker, workers, deliverAll, clock, nodes, chain } = openCluster(seed)
  const violations: string[] = []
  let [toldHeight, answerCount] = [0, 0]
  for (let i = 0; i < 3; i++) addWorker()
  await deliverAll()
  for (let step = 0; step < 1500; step++) {
    const dice = random(100)
    const { heads, up, down } = workers[random(workers.length)]!
    if (dice < 5) chain.mine()
    else if (dice < 10) Object.assign(nodes[0]!, { head: chain.tip })
    else if (dice < 20) down.isPaused = !down.isPaused
    else if (dice < 60) [up, down][random(2)]?.deliver()
    else if (dice < 70) await deliverAll()
    else if (dice < 80) {
      // A timeout of 50 ms is counted in steps of a turn of the event loop.
      for (let ms = 0; ms < 10 + random(60); ms += 5) {
        clock.advance(5)
        await new Promise(setImmediate)
      }
    } else if (dice < 85 && nodes[0] !== undefined) {
      void Promise.resolve(heads.reportHeight('a', nodes[0].head.number)).then(height => {
        toldHeight = Math.max(toldHeight, height)
      })
    } else if (dice < 90) void heads.sync()
    else if (!heads.mayLag) {
      answerCount += 1
      const { reportedHeight } = heads.snapshot
      if (reportedHeight < toldHeight) violations.push(`step ${step}: from ${reportedHeight} after ${toldHeight}`)
    }
  }
  return { violations, answerCount }
}

/** Callers call random workers, while blocks are mined, nodes lag, messages are delayed and workers are killed. */
const runRandomCluster = async (seed: number): Promise<readonly string[]> => {
  const random = seededRandom(seed)
  const { addWorker, workers, deliverAll, clock, chain, nodes } = openCluster(seed, ['a', 'b', 'c'])
  const violations: string[] = []
  for (let i = 0; i < 3; i++) addWorker()
  await deliverAll()
  const running = () => workers.filter(({ up }) => !up.isPaused)
  const callers = Array.from({ length: 4 }, (_, i) => ({ name: `caller ${i}`, height: 0, isWaiting: false }))
  const call = async (caller: (typeof callers)[number]) => {
    caller.isWaiting = true
    const worker = running()[random(running().length)]
    const node = nodes[random(nodes.length)]
    worker?.heads.recordActivity()
    const height = (await worker?.heads.reportHeight(node?.name ?? '', node?.head.number ?? 0)) ?? caller.height
    // A worker that was killed meanwhile has answered no caller.
    if (worker?.up.isPaused === false && height < caller.height)
      violations.push(`${caller.name} was given ${height} after ${caller.height}`)
    if (worker?.up.isPaused === false) caller.height = height
    caller.isWaiting = false
  }
  for (let step = 0; step < 1500; step++) {
    const dice = random(100)
    const pipes = running().flatMap(({ up, down }) => [up, down])
    if (dice < 3) chain.mine()
    else if (dice < 8) Object.assign(nodes[random(nodes.length)] ?? {}, { head: ancestorAt(chain.tip, chain.tip.number - random(3)) })
    else if (dice < 55) pipes[random(pipes.length)]?.deliver()
    else if (dice < 85) {
      const caller = callers[random(callers.length)]
      if (caller !== undefined && !caller.isWaiting) void call(caller)
    } else if (dice < 90) await deliverAll()
    // In all less than the timeouts of acknowledgments, until every pipe is empty again.
    else if (dice < 91) await deliverAll().then(() => clock.advance(20))
    else if (dice === 99 && random(20) === 0) {
      running()[random(running().length)]?.kill()
      addWorker()
      await deliverAll()
    }
    if (random(4) === 0) await new Promise(setImmediate)
  }
  await deliverAll()
  return violations
}

t.test('a subscriber gets a block when every worker has its height: no caller who has seen the block gets an older answer', async t => {
  const { addWorker, advance, deliverAll, nodes, chain } = openCluster()
  const [one, two] = [addWorker(), addWorker()]
  await deliverAll()
  const seen: number[] = []
  const subscription = one.heads.feeds.headers.subscribe({
    onUpdate: ({ added }) => void seen.push(...added.map(({ number }) => number)),
    onEnd: () => t.fail('the feed has ended'),
  })
  await deliverAll()
  t.equal(await subscription.isStarted, true)
  await advance(1_000)
  two.down.isPaused = true
  chain.mine()
  for (const node of nodes) node.head = chain.tip
  one.heads.recordActivity()
  await advance(500)
  t.same([seen, two.heads.snapshot.reportedHeight], [[], 100], 'the other worker does not know the height yet')
  two.down.isPaused = false
  await deliverAll()
  t.same([seen, two.heads.snapshot.reportedHeight], [[101], 101])
  subscription.close()
})
