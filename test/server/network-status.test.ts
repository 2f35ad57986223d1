import t from '../support/tap.ts'
import { networkStatuses } from '../../src/server/network-status.ts'
import type { NetworkHeads } from '../../src/server/network-status.ts'
import type { NodeStatus } from '../../src/services/node-status.ts'

const node: NodeStatus = {
  ...{ network: 'n', upstream: 'one', isPartner: false, inFlight: 0 },
  ...{ usable: true, restrictions: [], lastRestrictions: [], errors: [] },
}
const heads: NetworkHeads = {
  ...{ name: 'n', head: 7 },
  upstreams: [
    { name: 'one', usable: true, head: 7 },
    { name: 'two', usable: true, head: 7 },
  ],
}

const statusOf = (network: Partial<NetworkHeads> = {}, ...nodes: readonly Partial<NodeStatus>[]) =>
  networkStatuses(
    [{ ...heads, ...network }],
    nodes.map(each => ({ ...node, ...each })),
  )[0]

const drained = { usable: false, restrictions: [{ class: 'all', reason: 'drained' }] } as const

t.test('a network is in one state, for developers and operators alike', async t => {
  t.match(statusOf(), { state: 'ok', nodes: 2, usableNodes: 2 })
  t.match(statusOf({}, drained), {
    state: 'ok',
    nodes: 2,
    usableNodes: 1,
    upstreams: [{ condition: 'drained' }, { condition: 'usable' }],
  })
  t.match(statusOf({}, { usable: false }), { state: 'degraded', usableNodes: 1 })
  t.match(statusOf({}, { usable: false }, { ...drained, upstream: 'two' }), { state: 'down' }, 'of those in service none is usable')
  t.match(statusOf({}, drained, { ...drained, upstream: 'two' }), { state: 'down', usableNodes: 0 })
  t.match(statusOf({ stalled: true }), { state: 'stalled' })
  t.match(statusOf({ stalled: true }, drained), { state: 'stalled', usableNodes: 1 }, 'callers get no new block, whatever one node is')
  t.match(statusOf({ stalled: true }, drained, { ...drained, upstream: 'two' }), { state: 'down' })
  t.match(statusOf({ idle: true }), { state: 'unknown' })
  t.match(statusOf({ idle: true }, { usable: false }), { state: 'degraded' }, 'what is known of the nodes counts first')
  t.match(networkStatuses([{ name: 'n' }], []), [{ state: 'unknown', nodes: 0, usableNodes: 0 }], 'before its upstreams are tracked')
})

t.test('a partner is none of the nodes of a network', async t => {
  const partner = { upstream: 'partner', isPartner: true }
  t.match(statusOf({}, partner), { state: 'ok', nodes: 2, usableNodes: 2, upstreams: { length: 3 } })
  t.match(statusOf({}, drained, { ...drained, upstream: 'two' }, partner), { state: 'down' })
})

t.test('a node that is not usable says since when: of all reasons that keep calls away, the first', async t => {
  const limited = { class: 'all', reason: 'rateLimited' } as const
  const breaker = { class: 'all', reason: 'breaker' } as const
  const slow = { class: 'logs', reason: 'slow' } as const
  const upstreamOf = (status: Partial<NodeStatus>) => statusOf({}, status)?.upstreams[0]
  t.match(
    upstreamOf({
      usable: false,
      restrictions: [limited, breaker, slow],
      lastRestrictions: [
        { ...limited, at: 9_000, since: 5_000 },
        { ...breaker, at: 9_000, since: 3_000 },
        { ...slow, at: 9_000, since: 1_000 },
      ],
    }),
    { condition: 'notUsable', unusableSince: new Date(3_000).toISOString(), reasons: { length: 3 } },
  )
  const reduced = upstreamOf({ restrictions: [slow], lastRestrictions: [{ ...slow, at: 9_000, since: 1_000 }] })
  t.match(reduced, { condition: 'reduced', usable: true, reasons: [{ keepsAway: false, since: new Date(1_000).toISOString() }] })
  t.notOk(Object.hasOwn(reduced ?? {}, 'unusableSince'))
})

t.test('a network is down from when the last of its nodes became unusable, where that is known of each', async t => {
  const restriction = { class: 'all', reason: 'drained' } as const
  const since = (upstream: string, at: number) => ({ ...drained, upstream, lastRestrictions: [{ ...restriction, at: 9_000, since: at }] })
  const partner = { upstream: 'partner', isPartner: true }
  t.match(statusOf({}, since('one', 1_000), since('two', 3_000), partner), { state: 'down', downSince: new Date(3_000).toISOString() })
  for (const nodes of [
    [since('one', 1_000), { ...drained, upstream: 'two' }],
    [since('one', 1_000), { upstream: 'two' }],
  ])
    t.notOk(Object.hasOwn(statusOf({}, ...nodes) ?? {}, 'downSince'))
})

t.test('an open circuit breaker is told by why it is: that of all classes as the node hangs, that of one as its calls failed', async t => {
  const restrictions = ['all', 'logs'].map(each => ({ class: each, reason: 'breaker' as const }))
  const [ofAll, ofLogs] = statusOf({}, { restrictions })?.upstreams[0]?.reasons ?? []
  t.match(ofAll?.text, /as the node hangs: .* once a probe succeeds$/)
  t.match(ofLogs?.text, /as too many calls failed: .* once a probe succeeds$/)
})

t.test('what attempts have failed with is counted over all processes, with the last one of any', async t => {
  const error = { error: 'HTTP 503', count: 2, at: 3_000, method: 'eth_call', requestId: 'r-1' }
  const other = { ...error, error: 'rateLimited', at: 1_000 }
  const status = statusOf({}, { errors: [other, error] }, { errors: [{ ...error, count: 5, at: 2_000, requestId: 'r-0' }] })
  const { at: _, ...counted } = error
  t.same(status?.upstreams[0]?.errors, [
    { ...counted, count: 7, lastSeen: new Date(3_000).toISOString() },
    { ...counted, error: 'rateLimited', lastSeen: new Date(1_000).toISOString() },
  ])
  t.equal(status?.upstreams[1]?.errors, undefined)
})
