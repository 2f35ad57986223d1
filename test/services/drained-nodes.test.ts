import t from '../support/tap.ts'
import { DrainedNodes } from '../../src/services/drained-nodes.ts'
import type { DrainedNode } from '../../src/services/drained-nodes.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { NodeStatuses } from '../../src/services/node-status.ts'
import { neverExpires } from '../../src/store/record-store.ts'
import { StoreError } from '../../src/store/store.ts'
import { setImmediate } from 'node:timers/promises'
import { TestClock, TestLog } from '../support/fakes.ts'

t.test('a process learns within a second which nodes are drained, and forgets none while the store is unreachable', async t => {
  const [clock, log] = [new TestClock(), new TestLog()]
  let stored: readonly DrainedNode[] | undefined = [
    { network: 'base', upstream: 'own/eu', since: 1, by: { kind: 'command', name: 'root' } },
  ]
  let readmittedAt = 1
  const records = async (kind: string) => {
    if (stored === undefined) throw new StoreError('unreachable')
    if (kind === 'readmitted-node')
      return [{ id: 'base/a', account: '', value: { network: 'base', upstream: 'a', at: readmittedAt }, expires: neverExpires }]
    return stored.map(({ by, ...node }, i) => ({ id: String(i), account: '', value: { ...node, by: { ...by } }, expires: neverExpires }))
  }
  const passTime = async (ms: number) => {
    clock.advance(ms)
    await setImmediate()
  }
  const nodes = new DrainedNodes({ store: { records }, clock, log })
  const statuses = new NodeStatuses(createMetricsRegistry(), nodes)
  const { trust, add } = statuses.of('base')
  const noticed = [{ class: 'all', reason: 'drained', at: 5_000, since: 5_000 } as const]
  add('own/eu', () => ({ isPartner: false, inFlight: 0, usable: true, restrictions: [], lastRestrictions: noticed, errors: [] }))
  const distrust = () => ['light', 'logs'].forEach(each => trust.distrust('a', each, { isForGood: true }))
  distrust()
  await nodes.start()
  const atFirst = nodes.of('base')
  t.same([[...atFirst], [...nodes.of('devnet')]], [['own/eu'], []], 'before the first call')
  await passTime(1_000)
  t.equal(nodes.of('base'), atFirst, 'the same set while nothing changes')
  t.same(statuses.read()[0]?.lastRestrictions, [{ ...noticed[0], since: 1 }], 'since the operator has drained it')
  stored = undefined
  await passTime(5_000)
  t.equal(nodes.of('base'), atFirst)
  stored = [{ network: 'devnet', upstream: 'node', by: { kind: 'command', name: 'root' }, since: 2 }]
  await passTime(1_000)
  t.same([[...nodes.of('base')], [...nodes.of('devnet')]], [[], ['node']])
  t.match(
    log.lines.map(({ fields }) => fields),
    [
      { event: 'node-drained', network: 'base', upstream: 'own/eu' },
      { event: 'node-drained', network: 'devnet', upstream: 'node' },
      { event: 'node-undrained', network: 'base', upstream: 'own/eu' },
    ],
  )
  t.ok(trust.isDistrusted('a', 'light'), 'what was readmitted before the start is known')
  trust.distrust('an a', 'light')
  readmittedAt = 2
  await passTime(1_000)
  t.notOk(trust.isDistrusted('a', 'light') || trust.isDistrusted('a', 'logs'))
  t.ok(trust.isDistrusted('an a', 'light'), 'another node')
  distrust()
  await passTime(2_000)
  t.ok(trust.isDistrusted('a', 'light'), 'it has lied again since')
  await nodes.stop()
  stored = []
  await passTime(5_000)
  t.equal(nodes.of('devnet').size, 1)
})

t.test('a process that cannot read which nodes are drained, or could not yet, says that it does not know, until it can again', async t => {
  const [clock, log] = [new TestClock(), new TestLog()]
  let isReachable = false
  const records = async () => {
    if (!isReachable) throw new StoreError('unreachable')
    return []
  }
  const nodes = new DrainedNodes({ store: { records }, clock, log })
  const statuses = new NodeStatuses(createMetricsRegistry(), nodes).of('base')
  let changes = 0
  statuses.onDrained(() => void (changes += 1))
  await nodes.start()
  t.same([statuses.isDrainedKnown, changes], [false, 0])
  for (const expected of [1, 2]) {
    isReachable = true
    for (let i = 0; i < 2; i++) {
      clock.advance(1_000)
      await setImmediate()
      t.same([statuses.isDrainedKnown, changes], [true, expected], 'the first reading is news, also that none is drained')
    }
    isReachable = false
    clock.advance(1_000)
    await setImmediate()
    t.same([statuses.isDrainedKnown, changes], [false, expected])
  }
  await nodes.stop()
})

t.test('a drained node with an end gets calls from then on, also while the store is unreachable', async t => {
  const [clock, log] = [new TestClock(), new TestLog()]
  const until = clock.now() + 3_000
  let isReachable = true
  const records = async (kind: string) => {
    if (!isReachable) throw new StoreError('unreachable')
    if (kind === 'readmitted-node') return []
    const value = { network: 'base', upstream: 'own', since: 1, until, by: { kind: 'command', name: 'root' } }
    return [{ id: 'base/own', account: '', value, expires: until }]
  }
  const nodes = new DrainedNodes({ store: { records }, clock, log })
  await nodes.start()
  isReachable = false
  const passTime = async (ms: number) => {
    clock.advance(ms)
    await setImmediate()
  }
  await passTime(1_000)
  t.same([...nodes.of('base')], ['own'])
  await passTime(2_000)
  t.same([...nodes.of('base')], [])
  t.match(log.lines.at(-1)?.fields, { event: 'node-undrained', network: 'base', upstream: 'own' })
  await nodes.stop()
})
