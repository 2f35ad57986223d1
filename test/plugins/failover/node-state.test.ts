import t from '../../support/tap.ts'
import { NodeErrors, isErrorOfNode } from '../../../plugins/failover/node-errors.ts'
import { NodeState, Suspension, judge } from '../../../plugins/failover/node-state.ts'
import type { Observations } from '../../../plugins/failover/node-state.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import { formatMetrics, createMetricsRegistry, withLabels } from '../../../src/services/metrics.ts'
import { NodeStatuses } from '../../../src/services/node-status.ts'
import type { Services } from '../../../src/services/index.ts'
import { TestClock, TestLog, fakeTarget } from '../../support/fakes.ts'

const healthy: Observations = {
  exclusion: undefined,
  isDrained: false,
  isBreakerOpen: false,
  isBackingOff: false,
  isRateSpent: false,
  isDistrusted: false,
  suspensions: [new Suspension()],
  slowShare: 1,
}

/** Suspended at 0 for 1 s, then recovering for 2 s. */
const suspended = () => {
  const suspension = new Suspension()
  suspension.begin(0)
  return suspension
}

t.test('what is observed of a node says whether it gets calls, which share of them, and why', async t => {
  for (const [observed, now, expected] of [
    [{}, 0, { usable: true, weight: 1, reasons: [] }],
    [{ exclusion: 'chain' }, 0, { usable: false, weight: 1, reasons: ['chain'] }],
    [{ isDrained: true }, 0, { usable: false, weight: 1, reasons: ['drained'] }],
    [{ exclusion: 'lag' }, 0, { usable: true, weight: 1, reasons: ['lag'] }],
    [{ isBreakerOpen: true }, 0, { usable: false, weight: 1, reasons: ['breaker'] }],
    [{ isBackingOff: true }, 0, { usable: false, weight: 1, reasons: ['rateLimited'] }],
    [{ isDistrusted: true }, 0, { usable: false, weight: 1, reasons: ['lied'] }],
    [{ isRateSpent: true }, 0, { usable: false, weight: 1, reasons: ['rateSpent'] }],
    [{ suspensions: [suspended()] }, 999, { usable: true, weight: 0, reasons: ['suspect'] }],
    [{ suspensions: [suspended()], isBreakerOpen: true }, 999, { usable: false, weight: 0, reasons: ['breaker'] }],
    [{ suspensions: [new Suspension(), suspended()] }, 1000, { usable: true, weight: 0.05, reasons: ['recovering'] }],
    [{ suspensions: [suspended()] }, 2000, { usable: true, weight: 0.5, reasons: ['recovering'] }],
    [{ suspensions: [suspended()], slowShare: 0.5 }, 2000, { usable: true, weight: 0.25, reasons: ['recovering', 'slow'] }],
    [{ suspensions: [suspended()] }, 3000, { usable: true, weight: 1, reasons: [] }],
    [{ slowShare: 0.1, isRateSpent: true }, 0, { usable: false, weight: 0.1, reasons: ['rateSpent', 'slow'] }],
  ] as const)
    t.same(judge({ ...healthy, ...observed }, now), expected, JSON.stringify({ ...observed, now }))
})

t.test('a suspension', async t => {
  /** How long the node gets fewer calls after a suspension that ends at once. */
  const recoveryMs = (suspension: Suspension, now: number): number => {
    suspension.beginUntilRecovery(now)
    suspension.recover(now)
    let ms = 0
    while (suspension.shareAt(now + ms) < 1) ms += 1000
    return ms
  }

  t.test('lasts until the breaker has closed, however long that takes', async t => {
    const suspension = new Suspension()
    suspension.beginUntilRecovery(0)
    t.equal(suspension.shareAt(100_000), 0)
    suspension.recover(100_000)
    t.same([suspension.shareAt(100_000), suspension.shareAt(101_000), suspension.shareAt(102_000)], [0.05, 0.5, 1])
  })

  t.test('is longer each time that the node fails again soon, and as at first after a calm minute', async t => {
    const suspension = new Suspension()
    let now = 0
    const next = () => {
      const ms = recoveryMs(suspension, now)
      now += ms
      return ms
    }
    t.same(Array.from({ length: 7 }, next), [2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
    now += 61_000
    t.equal(next(), 2000)
  })
})

t.test('the state of a node', async t => {
  const openState = (t: Pick<Tap, 'teardown'>) => {
    const clock = new TestClock()
    const registry = createMetricsRegistry()
    const statuses = new NodeStatuses(registry)
    const services = { clock, log: new TestLog(), metrics: withLabels(registry, { network: 'n' }), nodes: statuses.of('n') }
    const state = new NodeState({
      target: { ...fakeTarget },
      openFor: 1000,
      services: services as unknown as Services, // what a state without probes uses
      exclusion: () => undefined,
      shownExclusion: () => undefined,
      inFlight: () => 0,
    })
    t.teardown(() => state.stop())
    return { clock, state, statuses, metrics: () => formatMetrics(registry.families()) }
  }

  t.test('is shown with its turn, as the latest pipeline has it', async t => {
    const { statuses } = openState(t)
    const turn = () => statuses.read().map(each => each.turn)
    t.same(turn(), [undefined])
    const upstream = fakeTarget.name
    const end = statuses.of('n').addTurns([
      { upstream: 'other', place: 1 },
      { upstream, place: 2 },
    ])
    t.same(turn(), [{ place: 2 }])
    const endLater = statuses.of('n').addTurns([{ upstream, place: 1, weight: 3 }])
    t.same(turn(), [{ place: 1, weight: 3 }])
    endLater()
    t.same(turn(), [{ place: 2 }], 'one that could not start leaves those of before')
    end()
    t.same(turn(), [undefined])
  })

  t.test('gives the node its first call at once after a suspension, then a share that grows evenly', async t => {
    const { clock, state } = openState(t)
    const turnsWithin = (ms: number) => {
      let turns = 0
      for (let i = 0; i < 100; i++) {
        if (state.takesTurn('light')) turns += 1
        clock.advance(ms / 100)
      }
      return turns
    }
    t.equal(turnsWithin(1000), 100)
    state.recordSuspect('light')
    t.ok(state.judge('logs').weight === 1, 'other classes are not concerned')
    t.equal(turnsWithin(1000), 0)
    t.ok(state.takesTurn('light'))
    const halves = [turnsWithin(1000), turnsWithin(1000)] as const
    t.ok(halves[0] > 20 && halves[0] < 30, `${halves}`)
    t.ok(halves[1] > 70 && halves[1] < 80, `${halves}`)
    t.equal(turnsWithin(1000), 100)
  })

  t.test('has a smaller share for a node that comes and goes', async t => {
    const { clock, state } = openState(t)
    const shares = Array.from({ length: 6 }, () => {
      state.recordSuspect('light')
      while (state.judge('light').weight === 0) clock.advance(10)
      let turns = 0
      for (let i = 0; i < 100; i++) {
        if (state.takesTurn('light')) turns += 1
        clock.advance(30)
      }
      return turns
    })
    t.ok(shares[0]! > 60 && shares.at(-1)! < 10, `${shares}`)
  })

  t.test('leaves no restriction in the metrics when the node has been replaced by another of its name', async t => {
    const { state, statuses, metrics } = openState(t)
    for (let i = 0; i < 5; i++) state.recordOutcome('logs', 'failure')
    t.match(metrics(), /upstream="own",class="logs",reason="breaker"\} 1/)
    const replacement = { usable: true, restrictions: [], isPartner: false, inFlight: 0, lastRestrictions: [], errors: [] }
    t.teardown(statuses.of('n').add('own', () => replacement))
    t.match(metrics(), /upstream="own",class="logs",reason="breaker"\} 1/, 'both are there')
    state.stop()
    t.match(metrics(), /upstream="own",class="logs",reason="breaker"\} 0/)
  })

  t.test('is one source: what operators read and the metrics are the same, for the class or for all of them', async t => {
    const { clock, state, statuses, metrics } = openState(t)
    const statusOf = () => statuses.read()[0]
    for (let i = 0; i < 5; i++) state.recordOutcome('logs', 'failure')
    t.same(statusOf(), {
      ...{ network: 'n', upstream: 'own', isPartner: false, inFlight: 0 },
      lastRestrictions: [{ class: 'logs', reason: 'breaker', at: clock.now(), since: clock.now() }],
      ...{ usable: true, restrictions: [{ class: 'logs', reason: 'breaker' }], errors: [] },
    })
    t.match(metrics(), /tollgate_upstream_reduced\{network="n",upstream="own",class="logs",reason="breaker"\} 1/)
    t.equal(state.recordRateLimited(2), 2000)
    t.match(statusOf(), {
      usable: false,
      restrictions: [
        { class: 'all', reason: 'rateLimited' },
        { class: 'logs', reason: 'breaker' },
      ],
    })
    t.match(metrics(), /class="all",reason="rateLimited"\} 1/)
    const limitedAt = clock.now()
    clock.advance(1000)
    const lastOf = (reason: string) => statusOf()?.lastRestrictions.find(each => each.reason === reason)
    t.match(lastOf('rateLimited'), { at: clock.now(), since: limitedAt }, 'since when it has held')
    clock.advance(1000)
    t.same(statusOf()?.restrictions, [{ class: 'logs', reason: 'breaker' }])
    clock.advance(500)
    state.recordRateLimited(2)
    t.match(lastOf('rateLimited'), { since: clock.now() }, 'another time')
    clock.advance(2000)
    t.match(metrics(), /class="all",reason="rateLimited"\} 0/, 'without a timer')
    state.recordHung()
    t.same(statusOf()?.restrictions, [{ class: 'all', reason: 'breaker' }])
  })
})

t.test('what attempts have failed with is counted by error, ten of a node at most, with the last one of each', async t => {
  const clock = new TestClock()
  const metrics = createMetricsRegistry()
  const errors = new NodeErrors('own', { clock, metrics: withLabels(metrics, { network: 'n' }) })
  const record = (details: Parameters<typeof refuse>[1], requestId = 'r-1') =>
    errors.record(refuse('unavailable', { source: 'node', ...details }), 'eth_call', requestId)
  const startedAt = clock.now()
  record({ cause: 'HTTP 503' }, 'r-1')
  record({ cause: 'wrong result: the hash is not that of the block' })
  record({ cause: 'provider rate limit or quota exceeded (code -32005)', category: 'rateLimited' })
  clock.advance(1_000)
  record({ cause: 'HTTP 503' }, 'r-2')
  t.same(errors.list(), [
    { error: 'HTTP 503', count: 2, at: startedAt + 1_000, method: 'eth_call', requestId: 'r-2' },
    { error: 'wrong result', count: 1, at: startedAt, method: 'eth_call', requestId: 'r-1' },
    { error: 'rateLimited', count: 1, at: startedAt, method: 'eth_call', requestId: 'r-1' },
  ])
  for (let status = 504; status < 600; status += 1) record({ cause: `HTTP ${status}` })
  t.equal(errors.list().length, 11)
  t.match(errors.list().at(-1), { error: 'other', count: 89 })
  t.match(formatMetrics(metrics.families()), /tollgate_upstream_failures_total\{network="n",upstream="own",error="HTTP 503"\} 2/)
  t.equal(metrics.families()[0]?.series.length, 11)
})

t.test('an error is of the node where that is at fault, whether it says something of its health or not', async t => {
  for (const [reply, expected] of [
    [refuse('unavailable', { source: 'node', cause: 'HTTP 503' }), true],
    [refuse('unavailable', { source: 'node', category: 'rateLimited' }), true],
    [refuse('unavailable', { source: 'node', cause: 'wrong result', retryElsewhere: true }), true],
    [refuse('timeout', { source: 'node', fault: 'upstream' }), true],
    [refuse('timeout', { source: 'node' }), false],
    [refuse('unavailable', { cause: 'upstream concurrency limit reached' }), false],
    [refuse('unavailable', { source: 'node', fault: 'caller', cause: 'client disconnected' }), false],
  ] as const)
    t.equal(isErrorOfNode(reply), expected, JSON.stringify(reply))
})

type Tap = typeof t
