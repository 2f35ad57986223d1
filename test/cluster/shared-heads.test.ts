import fc from 'fast-check'
import t from 'tap'
import type { Json, Target } from '../../src/plugin/call.ts'
import { refuse } from '../../src/plugin/reply.ts'
import { Secret } from '../../src/plugin/secret.ts'
import type { UpstreamClient } from '../../src/services/upstream-client/index.ts'
import { RecentBlocks as Blocks, mergeChanges } from '../../src/services/chain-heads/index.ts'
import type { RecentBlocksChange } from '../../src/services/chain-heads/index.ts'
import { formatMetrics, createMetricsRegistry } from '../../src/services/metrics.ts'
import { SharedHeads } from '../../src/cluster/shared-heads.ts'
import { WorkerHeads } from '../../src/cluster/worker-heads.ts'
import { Channel } from '../../src/cluster/channel.ts'
import type { NetworkMessage, PrimaryMessage, WorkerChannel, WorkerMessage } from '../../src/cluster/channel.ts'
import { TestClock, TestLog, fakeResult } from '../support/fakes.ts'
import { ModelChain, ModelNode, ancestorAt, toQuantity, seededRandom } from '../support/model-chain.ts'

const targets = (...names: readonly string[]): readonly Target[] =>
  names.map(name => ({ name, url: new Secret(`http://${name}.test/canary`), source: 'node' }))

/** Messages that are under way in one direction, in order; `isHeld` keeps them there. Two fill the pipe. */
class TestPipe<M extends PrimaryMessage | WorkerMessage> {
  readonly #onMessage: (message: M) => void
  readonly #waiting: M[] = []
  readonly #blockedSends: (() => void)[] = []
  readonly #channel = new Channel<M>((message, onSent) => this.#send(message, onSent))
  isPaused = false

  constructor(hear: (message: M) => void) {
    this.#onMessage = hear
  }

  send(message: M): void {
    this.#channel.send(message)
  }

  deliver(): boolean {
    const message = this.isPaused ? undefined : this.#waiting.shift()
    if (message === undefined) return false
    this.#blockedSends.shift()?.()
    this.#onMessage(message)
    return true
  }

  /** How many messages it holds. */
  get length(): number {
    return this.#waiting.length
  }

  /** As a pipe does: what arrives is a copy. */
  #send(message: M, sent: () => void): void {
    this.#waiting.push(JSON.parse(JSON.stringify(message)))
    if (this.#waiting.length <= 2) sent()
    else this.#blockedSends.push(sent)
  }
}

interface TestWorker {
  readonly heads: WorkerHeads
  readonly up: TestPipe<WorkerMessage>
  readonly down: TestPipe<NetworkMessage>
  /** The process ends. */
  kill(): void
}

/** A primary and its workers, on pipes that are emptied by hand, before nodes of one chain. Blocks take 1 s, polls 500 ms. */
const openCluster = (seed = 7, names: readonly string[] = ['a', 'b']) => {
  const chain = new ModelChain(seededRandom(seed))
  for (let i = 0; i < 100; i++) chain.mine()
  while (chain.final.number < 60) chain.finalize()
  const clock = new TestClock()
  const log = new TestLog()
  const metrics = createMetricsRegistry()
  const nodes = names.map(name => new ModelNode(name, chain))
  const by = (name: string) => nodes.find(node => node.name === name) as ModelNode
  const asked: string[] = []
  const responseOverrides = new Map<string, (method: string, params: readonly Json[]) => Json | undefined>()
  const agents: UpstreamClient = {
    disconnects: () => 0,
    async request({ name }, { method, params }) {
      asked.push(`${name} ${method} ${params[0] ?? ''}`)
      const answer = responseOverrides.get(name) ?? ((m: string, p: readonly Json[]) => by(name).answer(m, p))
      const value = answer(method, params)
      return value === undefined ? refuse('unavailable', { upstream: name, cause: 'ECONNREFUSED' }) : fakeResult(value)
    },
  }
  const sharedHeads = new SharedHeads({ upstreamClient: agents, clock, log, metrics, heightBroadcastsOf: () => [] })
  const workers: TestWorker[] = []
  const addWorker = (follows = targets(...names)): TestWorker => {
    const member: WorkerChannel = {
      send: message => {
        if ('network' in message) down.send(message)
      },
    }
    const up = new TestPipe<WorkerMessage>(message => sharedHeads.handleMessage(member, message))
    const heads = new WorkerHeads({
      network: 'model',
      chainId: 1,
      blockTime: 1000,
      upstreamClient: agents,
      clock,
      send: message => up.send(message),
    })
    const down = new TestPipe<NetworkMessage>(news => heads.handleMessage(news))
    const worker = {
      heads,
      up,
      down,
      kill() {
        up.isPaused = down.isPaused = true
        sharedHeads.removeWorker(member)
      },
    }
    workers.push(worker)
    heads.track(follows)
    return worker
  }
  const pipes = () => workers.flatMap(({ up, down }) => [up, down])
  const deliverAll = async () => {
    for (;;) {
      await new Promise(setImmediate)
      if (pipes().filter(line => line.deliver()).length === 0) return
    }
  }
  const advance = async (ms: number) => {
    for (let left = ms; left > 0; left -= 500) {
      clock.advance(Math.min(500, left))
      await deliverAll()
    }
  }
  const takePollCount = () => asked.splice(0).filter(each => each.endsWith('eth_getBlockByNumber latest')).length
  return {
    chain,
    clock,
    log,
    metrics,
    nodes,
    by,
    special: responseOverrides,
    asked,
    desk: sharedHeads,
    workers,
    hire: addWorker,
    lines: pipes,
    settle: deliverAll,
    turn: advance,
    polls: takePollCount,
  }
}

t.test('several workers', async t => {
  t.test('cost no more polls than one, and none when no worker is called', async t => {
    const { hire, settle, turn, polls, workers } = openCluster()
    for (let i = 0; i < 4; i++) hire()
    await settle()
    t.equal(polls(), 0)
    for (let i = 0; i < 20; i++) {
      for (const { heads } of workers) heads.recordActivity()
      await settle()
      await turn(500)
    }
    t.equal(polls(), 42, 'two nodes, at once and after each 500 ms')
    await turn(60_000)
    const last = polls()
    t.ok(last >= 58 * 2 && last <= 61 * 2, `${last} polls after the last call`)
    await turn(60_000)
    t.equal(polls(), 0)
    workers[2]?.heads.recordActivity()
    await settle()
    t.equal(polls(), 2)
  })

  t.test('know what the primary knows: the head, what is final by number and by hash, and whom to pass over', async t => {
    const { hire, settle, turn, chain, by, special, desk, metrics, log } = openCluster()
    const [one, two] = [hire(), hire()]
    special.set('b', (method, params) => (method === 'eth_chainId' ? '0x5' : by('b').answer(method, params)))
    await settle()
    one.heads.recordActivity()
    await settle()
    for (let i = 0; i < 12; i++) {
      for (let j = 0; j < 4; j++) chain.mine()
      chain.finalize()
      Object.assign(by('a'), { head: chain.tip, final: chain.final })
      one.heads.recordActivity()
      await turn(5000)
    }
    const final = by('a').final
    const known = ancestorAt(chain.tip, 110)
    for (const { heads } of [one, two]) {
      t.same(heads.status, desk.statusOf('model'))
      t.match(heads.status, {
        head: chain.tip.number,
        upstreams: [
          { name: 'a', usable: true },
          { name: 'b', usable: false, because: 'its chain ID is 5' },
        ],
      })
      t.same([heads.snapshot.isCurrent('a'), heads.snapshot.isCurrent('b')], [true, false])
      const known110 = heads.snapshot.finalizedBlockOf('a')
      t.ok(known110 !== undefined && known110.number > 100 && known110.number <= final.number)
      t.ok(heads.snapshot.isFinal('a', 90))
      t.ok(heads.snapshot.isFinal('a', ancestorAt(chain.tip, 101)?.hash ?? ''))
      t.notOk(heads.snapshot.isFinal('a', chain.tip.hash))
      t.notOk(heads.snapshot.isFinal('b', 90))
      t.same(
        heads.orderUpstreams(targets('b', 'a')).map(({ name }) => name),
        ['a'],
      )
    }
    t.ok(known !== undefined && (await two.heads.verifyFinalized(known)))
    t.notOk(await two.heads.verifyFinalized({ number: 110, hash: chain.tip.hash }))
    t.same(
      log.lines.map(({ message }) => message),
      ['upstream excluded: wrong chain ID'],
      'told once',
    )
    t.match(formatMetrics(metrics.families()), /tollgate_upstream_excluded\{network="model",upstream="b",reason="chain"\} 1/)
  })

  t.test('begin a new epoch with each head, and forget an abandoned branch', async t => {
    const { hire, settle, turn, chain, by } = openCluster(7, ['a'])
    const { heads } = hire()
    await settle()
    heads.recordActivity()
    await settle()
    const before = heads.snapshot
    await turn(500)
    t.equal(heads.snapshot.headVersion, before.headVersion)
    chain.mine()
    by('a').head = chain.tip
    await turn(500)
    t.not(heads.snapshot.headVersion, before.headVersion)
    chain.reset()
    for (let i = 0; i < 200; i++) chain.mine()
    Object.assign(by('a'), { head: chain.tip, final: chain.final })
    await turn(500)
    t.equal(heads.snapshot.finalityVersion, before.finalityVersion + 1)
    t.notOk(heads.snapshot.isFinal('a', 50))
  })

  t.test('that are hired later know all of it before they serve', async t => {
    const { hire, settle, turn, chain, by } = openCluster()
    hire().heads.recordActivity()
    await settle()
    for (let i = 0; i < 10; i++) {
      chain.mine()
      by('a').head = chain.tip
      await turn(500)
    }
    const late = hire()
    t.ok(late.heads.isAwaitingSnapshot)
    await settle()
    t.notOk(late.heads.isAwaitingSnapshot)
    t.match(late.heads.status, { head: 110 })
    t.equal(late.heads.reportHeight('b', 90), 110)
  })

  t.test('that read other nodes from a changed file bring them to all', async t => {
    const { hire, settle, turn, polls, workers } = openCluster(7, ['a', 'b'])
    for (let i = 0; i < 2; i++) hire(targets('a'))
    await settle()
    workers[0]?.heads.recordActivity()
    await settle()
    polls()
    workers[1]?.kill()
    hire(targets('b'))
    await settle()
    for (const worker of [workers[0], workers[2]]) t.match(worker?.heads.status, { upstreams: [{ name: 'b' }] })
    workers[2]?.heads.recordActivity()
    await turn(500)
    t.ok(polls() > 0)
    t.match(workers[2]?.heads.status, { head: 100 })
  })

  t.test('that read nothing for long cost a few messages, and then know what the others know', async t => {
    const { hire, settle, turn, chain, by, desk, workers } = openCluster(7, ['a'])
    const [one, two] = [hire(), hire()]
    await settle()
    two.down.isPaused = true
    for (let i = 0; i < 1000; i++) {
      if (i % 300 === 100) chain.reorg()
      else chain.mine()
      by('a').head = chain.tip
      if (i % 100 === 0) Object.assign(by('a'), { final: ancestorAt(chain.tip, chain.tip.number - 20) })
      one.heads.recordActivity()
      await turn(500)
    }
    t.ok(two.down.length < 8, `${two.down.length} messages wait`)
    two.down.isPaused = false
    await settle()
    for (const { heads } of workers) {
      t.same(heads.status, desk.statusOf('model'))
      for (const back of [200, 300, 500]) t.ok(heads.snapshot.isFinal('a', ancestorAt(chain.tip, chain.tip.number - back)?.hash ?? ''))
      for (const back of [0, 1, 20]) t.notOk(heads.snapshot.isFinal('a', ancestorAt(chain.tip, chain.tip.number - back)?.hash ?? ''))
    }
    t.equal(two.heads.reportHeight('a', 1), chain.tip.number)
  })

  t.test('have no URL in what they log', async t => {
    const { hire, settle, special, turn, log } = openCluster()
    special.set('a', method => (method === 'eth_chainId' ? '0x9' : undefined))
    hire().heads.recordActivity()
    await settle()
    await turn(2000)
    t.ok(log.lines.length > 0)
    t.notMatch(JSON.stringify(log.lines), /canary/)
  })
})

t.test('the height that callers are told by several workers', async t => {
  t.test('is told by none before all know it', async t => {
    const { hire, settle, lines } = openCluster()
    const [one, two] = [hire(), hire()]
    one.heads.recordActivity()
    await settle()
    two.down.isPaused = true
    let said: number | undefined
    const told = Promise.resolve(one.heads.reportHeight('a', 101)).then(height => {
      said = height
    })
    await settle()
    t.equal(said, undefined, 'the other worker does not know yet')
    t.equal(two.heads.reportHeight('b', 100), 100)
    two.down.isPaused = false
    await settle()
    await told
    t.equal(said, 101)
    t.equal(two.heads.reportHeight('b', 100), 101)
    t.equal(one.heads.reportHeight('b', 99), 101)
    t.notOk(lines().some(line => line.deliver()))
  })

  t.test('waits 50 ms for a worker or a primary that is busy, and not at all for one that is gone', async t => {
    const { hire, settle, clock } = openCluster()
    const [one, two, three] = [hire(), hire(), hire()]
    one.heads.recordActivity()
    await settle()
    three.kill()
    two.down.isPaused = true
    const told = one.heads.reportHeight('a', 101)
    await settle()
    clock.advance(50)
    await settle()
    t.equal(await told, 101)
    one.up.isPaused = true
    const other = one.heads.reportHeight('a', 102)
    await settle()
    clock.advance(50)
    t.equal(await other, 101)
    two.kill()
    one.up.isPaused = false
    await settle()
    const last = one.heads.reportHeight('a', 103)
    await settle()
    t.equal(await last, 103)
  })

  t.test('waits no second time for a worker that does not read, until it does', async t => {
    const { hire, settle, clock } = openCluster()
    const [one, two] = [hire(), hire()]
    one.heads.recordActivity()
    await settle()
    two.down.isPaused = true
    const first = one.heads.reportHeight('a', 101)
    await settle()
    clock.advance(50)
    await settle()
    t.equal(await first, 101)
    const second = one.heads.reportHeight('a', 102)
    await settle()
    t.equal(await second, 102, 'without any time passing')
    two.down.isPaused = false
    await settle()
    two.down.isPaused = true
    let said: number | undefined
    void Promise.resolve(one.heads.reportHeight('a', 103)).then(height => {
      said = height
    })
    await settle()
    t.equal(said, undefined, 'it read, so it is waited for')
    two.down.isPaused = false
    await settle()
    t.equal(said, 103)
  })

  t.test('is none that cannot be', async t => {
    const { hire, settle, special, by, clock } = openCluster()
    for (const name of ['a', 'b']) {
      special.set(name, (method, params) => {
        const value = by(name).answer(method, params)
        return params[0] === 'latest' ? { ...Object(value), timestamp: toQuantity(Math.floor(clock.now() / 1000)) } : value
      })
    }
    const [one, two] = [hire(), hire()]
    one.heads.recordActivity()
    await settle()
    const told = one.heads.reportHeight('a', 1_000_000_000)
    await settle()
    t.equal(await told, 100)
    t.equal(two.heads.reportHeight('b', 100), 100)
  })

  t.test('goes back for all when the chain was reset', async t => {
    const { hire, settle, turn, nodes, chain } = openCluster()
    const [one, two] = [hire(), hire()]
    one.heads.recordActivity()
    await settle()
    for (const node of nodes) node.head = ancestorAt(chain.tip, 80) ?? node.head
    await turn(2500)
    t.equal(two.heads.reportHeight('a', 80), 100)
    await turn(500)
    t.same([one.heads.reportHeight('a', 80), two.heads.reportHeight('a', 80)], [80, 80])
  })

  t.test('never goes back for one caller, whatever order messages come in (40 worlds of 1,500 steps)', async t => {
    for (let seed = 1; seed <= 40; seed++) {
      const faults = await runRandomWorld(seed)
      t.same(faults, [], `seed ${seed}`)
    }
  })
})

t.test('two changes of a line of blocks that become one leave the same line', async () => {
  const most = 6
  /** How many blocks go, and how many come. */
  const step = fc.record({ back: fc.nat(8), more: fc.nat(9) })
  let made = 0
  const grow = (line: Blocks, { back, more }: { back: number; more: number }) => {
    const after = Math.max(line.highestNumber - back, line.highestNumber < 0 ? 0 : line.lowestNumber - 1)
    const blocks = Array.from({ length: more }, (_, i) => ({ number: after + 1 + i, hash: `0x${(made += 1)}` }))
    if (line.highestNumber < 0 || after < line.lowestNumber) return line.reset(blocks)
    line.truncateTo(after)
    line.append(blocks)
  }
  const copyOf = (line: Blocks) => {
    const copy = new Blocks(most)
    const change = line.changeFrom(copy)
    if (change !== undefined) copy.apply(change)
    return copy
  }
  fc.assert(
    fc.property(fc.array(step, { minLength: 3, maxLength: 12 }), steps => {
      const line = new Blocks(most)
      grow(line, { back: 0, more: 4 })
      const behind = copyOf(line)
      const before = copyOf(line)
      let joint: RecentBlocksChange | undefined
      for (const each of steps) {
        grow(line, each)
        const change = line.changeFrom(before)
        if (change === undefined) continue
        before.apply(change)
        joint = joint === undefined ? change : mergeChanges(joint, change, most)
      }
      if (joint !== undefined) behind.apply(joint)
      const isSame = behind.highestNumber === line.highestNumber
      const holdsAll = Array.from({ length: most }, (_, i) => line.highestNumber - i).every(
        number => line.hashAt(number) === undefined || behind.hashAt(number) === line.hashAt(number),
      )
      return isSame && holdsAll && (joint?.hashes.length ?? 0) <= most
    }),
    { numRuns: 2000 },
  )
})

/** Callers who ask workers by chance, while blocks come, nodes lag, messages dawdle and workers die. */
const runRandomWorld = async (seed: number): Promise<readonly string[]> => {
  const random = seededRandom(seed)
  const { hire, workers, settle, clock, chain, nodes } = openCluster(seed, ['a', 'b', 'c'])
  const faults: string[] = []
  for (let i = 0; i < 3; i++) hire()
  await settle()
  const serving = () => workers.filter(({ up }) => !up.isPaused)
  const callers = Array.from({ length: 4 }, (_, i) => ({ name: `caller ${i}`, told: 0, isAsking: false }))
  const ask = async (caller: (typeof callers)[number]) => {
    caller.isAsking = true
    const worker = serving()[random(serving().length)]
    const node = nodes[random(nodes.length)]
    worker?.heads.recordActivity()
    const told = (await worker?.heads.reportHeight(node?.name ?? '', node?.head.number ?? 0)) ?? caller.told
    // Whoever asked a worker that died meanwhile got no answer.
    if (worker?.up.isPaused === false && told < caller.told) faults.push(`${caller.name} was told ${told} after ${caller.told}`)
    if (worker?.up.isPaused === false) caller.told = told
    caller.isAsking = false
  }
  for (let step = 0; step < 1500; step++) {
    const dice = random(100)
    const lines = serving().flatMap(({ up, down }) => [up, down])
    if (dice < 3) chain.mine()
    else if (dice < 8) Object.assign(nodes[random(nodes.length)] ?? {}, { head: ancestorAt(chain.tip, chain.tip.number - random(3)) })
    else if (dice < 55) lines[random(lines.length)]?.deliver()
    else if (dice < 85) {
      const caller = callers[random(callers.length)]
      if (caller !== undefined && !caller.isAsking) void ask(caller)
    } else if (dice < 90) await settle()
    // Less in all than a busy worker is waited for, until every pipe is empty again.
    else if (dice < 91) await settle().then(() => clock.advance(20))
    else if (dice === 99 && random(20) === 0) {
      serving()[random(serving().length)]?.kill()
      hire()
      await settle()
    }
    if (random(4) === 0) await new Promise(setImmediate)
  }
  await settle()
  return faults
}
