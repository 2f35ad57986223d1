import { beaconChains, periodOf, slotAt, timeOf } from '../../../../plugins/verify/beacon/beacon-chain.ts'
import { BeaconHeads } from '../../../../plugins/verify/beacon/beacon-heads.ts'
import { Secret } from '../../../../src/plugin/secret.ts'
import type { Json } from '../../../../src/plugin/call.ts'
import { openPluginRecords } from '../../../../src/services/plugin-records.ts'
import type { PluginRecords } from '../../../../src/services/plugin-records.ts'
import { openInMemoryRecords } from '../../../../src/testing/in-memory-store.ts'
import { PluginProblems } from '../../../../src/services/plugin-problems.ts'
import { createMetricsRegistry, withLabels } from '../../../../src/services/metrics.ts'
import { TestClock, TestLog } from '../../../support/fakes.ts'
import t from '../../../support/tap.ts'
import { waitUntil } from '../../../support/wait-until.ts'
import { ModelBeacon, checkpointAt, honestAnswers, startBeaconNode } from './model-beacon.ts'

/** Those of one store; of `fails`, the name of what the store does not do now. */
const openRecords = (fails: { now?: 'find' | 'put' } = {}) => {
  const records = openPluginRecords({ store: openInMemoryRecords(), clock: new TestClock() }).of('devnet', 'verify')
  const unless = async <T>(name: 'find' | 'put', run: () => Promise<T>): Promise<T> => {
    if (fails.now === name) throw new Error('the store is unreachable')
    return run()
  }
  return {
    find: (name: string) => unless('find', () => records.find(name)),
    put: (name: string, value: Json, expiresInMs: number) => unless('put', () => records.put(name, value, expiresInMs)),
  }
}

type Members = { readonly [name: string]: Json }

const model = new ModelBeacon()
const slotMs = 12_000
const dayMs = 86_400_000
const periodSlots = 8192

interface OpenOptions {
  /** Of the checkpoint, before the slot of now. */
  readonly ageSlots?: number
  readonly maxCheckpointAgeMs?: number
  readonly gloasEpoch?: number
  /** Changes what the honest node answers to a path; undefined leaves it. */
  readonly change?: (path: string, honest: Json | string | undefined) => Json | string | undefined
  readonly path?: string
  readonly records?: PluginRecords
  /** Those of the network that another one reports to. */
  readonly reports?: ReturnType<PluginProblems['open']>
}

const open = async (t: { teardown(run: () => unknown): void }, options: OpenOptions = {}) => {
  const { ageSlots = 40, maxCheckpointAgeMs = 14 * dayMs, change, path = '', gloasEpoch, records = openRecords() } = options
  const clock = new TestClock()
  const log = new TestLog()
  const registry = createMetricsRegistry()
  const metrics = withLabels(registry, { network: 'devnet' })
  const problems = new PluginProblems({ clock, metrics: createMetricsRegistry() })
  const { reports = problems.open('devnet', 'verify') } = options
  const honest = honestAnswers(model, { now: clock.now, ...(gloasEpoch !== undefined && { gloasEpoch }) })
  const credentials: string[] = []
  const node = await startBeaconNode((asked, request) => {
    credentials.push(`${request.headers.authorization} ${request.headers['x-key']}`)
    const answer = honest(asked, request)
    return change?.(asked, answer) ?? answer
  })
  t.teardown(() => node.stop())
  const slot = slotAt(model.chain, clock.now())
  const heads = new BeaconHeads(
    {
      url: new Secret(`${node.url.replace('http://', path === '' ? 'http://' : 'http://user:pa%s%2Fs@')}${path}`),
      headers: { 'x-key': new Secret('hidden-key') },
      checkpoint: checkpointAt(model, slot - ageSlots),
      maxCheckpointAgeMs,
      chain: beaconChains.get(1)!,
    },
    { clock, log, metrics, records, problems: reports },
  )
  t.teardown(() => heads.stop())
  return {
    ...{ clock, log, node, heads, slot, credentials, reports },
    problems: () => problems.read().map(({ name, severity, text }) => `${severity} ${name}: ${text}`),
    events: () => log.lines.map(({ fields }) => (fields as { readonly event?: string }).event),
    /** Rounds that have ended. */
    roundCount: () =>
      registry
        .families()
        .filter(({ name }) => name === 'tollgate_beacon_rounds_total')
        .flatMap(({ series }) => series)
        .reduce((sum, { values: [count = 0] }) => sum + count, 0),
    countOf: (name: string) => node.requests.filter(each => each.startsWith(name)).length,
    /** Runs the timers of the time, and waits until the node has been asked so often for the newest block. */
    async pass(ms: number, updates: number) {
      await waitUntil(() => clock.timerCount > 0)
      clock.advance(ms)
      await waitUntil(() => node.requests.filter(each => each === 'optimistic_update').length >= updates)
    },
  }
}

t.test('the newest signed block is known soon after the start, and once it is used', async t => {
  const { heads, slot, pass, countOf, clock } = await open(t)
  t.equal(heads.head, undefined)
  heads.start('refuse')
  await pass(0, 1)
  await waitUntil(() => heads.head !== undefined)
  t.match(heads.head, { slot: slot - 1, blockNumber: slot - 1 })
  clock.advance(600_000)
  t.equal(countOf('optimistic_update'), 1, 'no call needs it: nothing is asked')
  t.equal(heads.head, undefined, 'it is too old to be the newest')
  heads.use()
  await pass(0, 2)
  await waitUntil(() => heads.head !== undefined)
  t.equal(heads.head?.slot, slot + 49)
  await pass(4_000, 3)
  heads.use()
  heads.use()
  await pass(4_000, 4)
  await pass(4_000, 5)
  await waitUntil(() => heads.head?.slot === slot + 50)
  t.equal(countOf('optimistic_update'), 5, 'every 4 s')
  t.equal(countOf('bootstrap'), 1)
  t.ok(countOf('finality_update') <= 2, 'every 6.4 min')
})

t.test('who waits gets the next signed block, or as long as it may take', async t => {
  const { heads, clock, pass } = await open(t)
  let isDone = false
  void heads.next(1_000).then(() => (isDone = true))
  clock.advance(1_000)
  await waitUntil(() => isDone)
  const next = heads.next(60_000)
  heads.start('refuse')
  await pass(0, 1)
  await next
  t.ok(heads.head)
})

t.test('an old checkpoint leads to the newest block by one committee after the other', async t => {
  const { heads, slot, pass, node, countOf } = await open(t, { ageSlots: 11 * periodSlots + 50, maxCheckpointAgeMs: 20 * dayMs })
  heads.start('refuse')
  await pass(0, 1)
  await waitUntil(() => heads.head !== undefined)
  t.equal(heads.head?.slot, slot - 1)
  t.ok(countOf('updates') <= 3, 'up to 8 periods in a request')
  t.ok(node.requests.some(each => each === `updates?start_period=${periodOf(slot - 11 * periodSlots - 50)}&count=8`))
})

t.test('a checkpoint that is too old proves nothing', async t => {
  const { heads, log, countOf, clock, events, node } = await open(t, { ageSlots: 15 * 7200 })
  heads.start('refuse')
  clock.advance(0)
  await waitUntil(() => log.lines.length > 0)
  t.match(log.lines, [
    { level: 'error', fields: { event: 'beacon-unproven' }, message: /15 days old: set `checkpoint` to the root of a newer/ },
  ])
  t.equal(countOf('optimistic_update'), 0)
  t.ok(heads.isFailing)
  const { length } = node.requests
  clock.advance(slotMs)
  await waitUntil(() => node.requests.length > length || heads.isFailing)
  t.equal(events().length, 1, 'logged once')
})

t.test('a process that starts follows the chain from the last final block in the store, however old the checkpoint is', async t => {
  const old = { ageSlots: 2 * 7200, maxCheckpointAgeMs: dayMs }
  const fails: { now?: 'find' | 'put' } = {}
  const records = openRecords(fails)
  const run = async (options: OpenOptions, rounds = 1) => {
    const opened = await open(t, { records, ...options })
    opened.heads.start('refuse')
    for (let round = 1; round <= rounds; round++) {
      await waitUntil(() => opened.clock.timerCount > 0)
      opened.clock.advance(slotMs)
      await waitUntil(() => opened.heads.head !== undefined || opened.heads.isFailing)
    }
    return opened
  }
  t.ok((await run(old)).heads.isFailing, 'the checkpoint is too old')
  // A process that ran since the checkpoint was new.
  fails.now = 'put'
  const first = await run({ ...old, maxCheckpointAgeMs: 3 * dayMs })
  t.ok(first.heads.head)
  t.ok((await run(old)).heads.isFailing, 'the store has not taken it yet')
  delete fails.now
  first.heads.use()
  await first.pass(4_000, 2)
  await waitUntil(() => first.clock.timerCount > 0)
  t.ok((await run(old)).heads.isFailing, 'the consensus node does not have the bootstrap of that block')
  checkpointAt(model, first.slot - 96)
  const second = await run(old)
  t.ok(second.heads.head, 'all that follows is proven by it')
  t.equal(second.countOf('bootstrap'), 1)
  t.ok((await run({ ...old, ageSlots: 2 * 7200 + 32 })).heads.isFailing, 'another checkpoint in the configuration begins anew')
  fails.now = 'find'
  const third = await run(old)
  t.ok(third.heads.isFailing, 'the store is unreachable')
  delete fails.now
  third.clock.advance(slotMs)
  await waitUntil(() => third.heads.head !== undefined)
  t.same(third.events(), ['beacon-unproven', 'beacon-recovered'])
})

t.test('a node that lies proves nothing, and is heard once it is right again', async t => {
  let isLying = true
  const { heads, pass, events, log, clock, problems } = await open(t, {
    change: (path, honest) => {
      if (!isLying || path !== 'optimistic_update') return undefined
      const { data } = honest as { readonly data: Members }
      const header = data['attested_header'] as Members
      return {
        data: {
          ...data,
          attested_header: { ...header, execution: { ...(header['execution'] as Members), block_hash: `0x${'66'.repeat(32)}` } },
        },
      }
    },
  })
  heads.start('refuse')
  await pass(0, 1)
  await waitUntil(() => log.lines.length > 0)
  t.not(heads.head?.blockHash, `0x${'66'.repeat(32)}`)
  await waitUntil(() => heads.isFailing)
  t.match(problems(), [/^critical beacon-unproven: no new block is proven by the consensus node: /])
  isLying = false
  heads.use()
  await waitUntil(() => heads.isFailing)
  clock.advance(slotMs)
  await waitUntil(() => !heads.isFailing)
  t.ok(heads.head)
  t.same(events(), ['beacon-unproven', 'beacon-recovered'])
  t.same(problems(), [])
})

t.test('operators read that the consensus node is behind, and that nothing becomes final', async t => {
  const kept = new Map<string, Json | string | undefined>()
  let isFrozen = false
  const { heads, clock, problems } = await open(t, {
    change: (path, honest) => {
      if (!isFrozen) kept.set(path, honest)
      return path.endsWith('_update') ? kept.get(path) : undefined
    },
  })
  heads.start('refuse')
  await waitUntil(() => clock.timerCount > 0)
  clock.advance(0)
  await waitUntil(() => heads.head !== undefined)
  t.same(problems(), [])
  isFrozen = true
  const pass = async (ms: number, count: number) => {
    clock.advance(ms)
    heads.use()
    clock.advance(0)
    await waitUntil(() => problems().length === count)
  }
  await waitUntil(() => clock.timerCount > 0)
  await pass(120_000, 1)
  t.match(problems(), [/^critical beacon-behind: the newest block that the consensus node has signatures of is 2 min old/])
  await waitUntil(() => clock.timerCount > 0)
  await pass(1_800_000, 2)
  t.match(problems()[1], /^warning beacon-not-final: the beacon chain has made no block final for [34]\d min/)
  isFrozen = false
  clock.advance(400_000)
  await waitUntil(() => {
    // A round that begins before a slot ends takes the answers of the next one for wrong.
    if (clock.timerCount > 0) clock.advance(slotMs)
    return problems().length === 0
  })
})

t.test('where upstreams may agree in place of the beacon chain, no caller notices: its problems are warnings', async t => {
  const { heads, problems, log, pass } = await open(t, { ageSlots: 15 * 7200 })
  heads.start('agree')
  await pass(0, 0)
  await waitUntil(() => heads.isFailing)
  t.match(problems(), [/^warning beacon-unproven: /])
  t.match(log.lines, [{ level: 'warn', fields: { event: 'beacon-unproven' } }])
  heads.start('refuse')
  await pass(slotMs, 0)
  await waitUntil(() => problems().some(problem => problem.startsWith('critical beacon-unproven: ')))
  t.equal(problems().length, 1, 'from the reload on')
})

t.test('operators read that no upstream has the newest signed block, until one has it or no call needs it', async t => {
  const { heads, clock, problems, events, pass } = await open(t)
  const missing = ['critical beacon-block-missing: no upstream has the newest block that the beacon chain proves']
  heads.start('agree')
  await pass(0, 1)
  await waitUntil(() => heads.head !== undefined && clock.timerCount > 0)
  const first = heads.head!
  for (let request = 0; request < 2; request++) heads.recordFound(first, false)
  t.same(problems(), missing, 'also where upstreams may agree about other blocks')
  t.same(events(), ['beacon-block-missing'], 'logged once')
  heads.recordFound(first, true)
  t.same(problems(), [])
  clock.advance(2 * slotMs)
  heads.use()
  await pass(0, 2)
  await waitUntil(() => (heads.head?.slot ?? 0) > first.slot && clock.timerCount > 0)
  heads.recordFound(first, false)
  t.same(problems(), [], 'it is not the newest any more')
  heads.recordFound(heads.head!, false)
  t.same(problems(), missing)
  await waitUntil(() => clock.timerCount > 0)
  clock.advance(60_000)
  await waitUntil(() => !problems().includes(missing[0]!))
  t.equal(events().filter(event => event === 'beacon-block-missing').length, 2)
})

t.test('a node that does not answer, or too much, is reported by what it was asked, without its URL', async t => {
  for (const [answer, reason] of [
    ['', /optimistic_update: the answer is no JSON/],
    [' '.repeat(100_000), /optimistic_update: the response is larger than 64KiB/],
    [{ ok: true }, /the answer has no data/],
  ] as const) {
    const path = '/secret-path/v1?token=secret-token'
    const { heads, log, clock, credentials, problems } = await open(t, {
      path,
      change: asked => (asked.includes('optimistic_update') ? answer : undefined),
    })
    heads.start('refuse')
    clock.advance(0)
    await waitUntil(() => log.lines.length > 0)
    t.match(log.lines, [{ level: 'warn', fields: { event: 'beacon-unavailable', reason } }])
    t.match(problems(), [/^critical beacon-unavailable: the consensus node does not answer: /])
    t.notMatch(JSON.stringify([log.lines, problems()]), /secret|hidden|pa%s/)
    t.match(credentials[0], `Basic ${Buffer.from('user:pa%s/s').toString('base64')} hidden-key`)
  }
  const gone = await open(t)
  await gone.node.stop()
  gone.heads.start('refuse')
  gone.clock.advance(0)
  await waitUntil(() => gone.log.lines.length > 0)
  t.match(gone.log.lines, [{ fields: { event: 'beacon-unavailable', reason: /spec: ECONNREFUSED/ } }])
})

t.test('after a reload, what the new light client has reported lasts, and the old one reports no more', async t => {
  const before = await open(t)
  await before.node.stop()
  before.heads.start('refuse')
  before.clock.advance(0)
  await waitUntil(() => before.problems().length === 1)
  const after = await open(t, { reports: before.reports })
  await after.node.stop()
  after.heads.start('agree')
  after.clock.advance(0)
  await waitUntil(() => before.problems()[0]?.startsWith('warning ') === true)
  before.clock.advance(12_000)
  before.heads.stop()
  t.match(before.problems(), [/^warning beacon-unavailable: /])
  await waitUntil(() => before.roundCount() === 2)
  t.match(before.problems(), [/^warning beacon-unavailable: /], 'a round that was under way says nothing')
  after.heads.stop()
  t.same(before.problems(), [])
})

t.test('a process that is not used follows the committees for longer than a checkpoint counts', async t => {
  const { heads, pass, clock, slot } = await open(t, { maxCheckpointAgeMs: 2 * dayMs })
  heads.start('refuse')
  await pass(0, 1)
  await waitUntil(() => heads.head !== undefined)
  for (let hours = 1; hours <= 24 * 3; hours += 1) {
    clock.advance(3_600_000)
    await waitUntil(() => heads.head !== undefined)
  }
  t.equal(heads.head?.slot, slot - 1 + 3 * 7200)
  t.ok(clock.now() - timeOf(model.chain, heads.head!.slot) < 2 * slotMs)
})

t.test('the time of a fork that was not scheduled comes from the node', async t => {
  const clock = new TestClock()
  const epoch = Math.floor(slotAt(model.chain, clock.now()) / 32) - 1
  const gloas = new ModelBeacon({
    ...model.chain,
    forks: model.chain.forks.map(fork => (fork.name === 'gloas' ? { ...fork, epoch } : fork)),
  })
  const honest = honestAnswers(gloas, { now: clock.now, gloasEpoch: epoch })
  const node = await startBeaconNode((path, request) => honest(path, request))
  t.teardown(() => node.stop())
  const checkpoint = checkpointAt(gloas, (epoch - 4) * 32)
  const options = { url: new Secret(node.url), headers: {}, checkpoint, maxCheckpointAgeMs: dayMs, chain: model.chain }
  const heads = new BeaconHeads(options, {
    ...{ clock, log: new TestLog(), records: openRecords(), problems: { begin: () => () => undefined, end: () => undefined } },
    metrics: withLabels(createMetricsRegistry(), { network: 'devnet' }),
  })
  t.teardown(() => heads.stop())
  heads.start('refuse')
  clock.advance(0)
  await waitUntil(() => heads.head !== undefined)
  t.match(heads.head, { slot: slotAt(model.chain, clock.now()) - 1, blockNumber: undefined })
})
