import t from '../../support/tap.ts'
import { capableOf, createUpstreamCapabilities } from '../../../plugins/failover/upstream-capabilities.ts'
import failover from '../../../plugins/failover/index.ts'
import type { Json } from '../../../src/plugin/call.ts'
import type { ChainSnapshot, Heads } from '../../../src/services/index.ts'
import { blockSelectorOf } from '../../../src/services/method-table/block-selector.ts'
import { hex, shippedMethods } from '../../services/method-table/shipped-table.ts'
import { fakeCall, fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { breaker, node, openFailover } from './failover-fixture.ts'

const head = 10_000
const block = (age: number): string => `0x${(head - age).toString(16)}`
const snapshot = { head, finalizedBlockOf: () => ({ number: head - 500 }) } as Partial<ChainSnapshot> as ChainSnapshot // what is read of it
const heads: Pick<Heads, 'snapshot'> = { snapshot }

/** The names of the upstreams that a call goes to, in order. */
const selectFrom =
  (
    ...upstreams: readonly {
      readonly name: string
      readonly methods?: readonly string[]
      readonly archive?: true
      readonly history?: number
    }[]
  ) =>
  (method: string, params: readonly Json[]): string => {
    const capable = createUpstreamCapabilities(
      upstreams.map(({ archive = false, ...upstream }) => ({ archive, ...upstream })),
      { methods: shippedMethods, heads },
    )
    const fitnessOf = capable?.fitnessFor(method, blockSelectorOf(shippedMethods.get(method), params)) ?? (() => 0)
    const names = capableOf(upstreams, fitnessOf).map(({ name }) => name)
    return names.toSorted((one, other) => fitnessOf(one) - fitnessOf(other)).join(' ')
  }

const address = hex(20)

t.test('upstreams that state nothing are asked alike', async t => {
  t.equal(createUpstreamCapabilities([{ name: 'a', archive: false }], { methods: shippedMethods, heads }), undefined)
})

t.test('a call goes to the upstreams that answer its method', async t => {
  const select = selectFrom({ name: 'own', methods: ['eth_*', 'net_version'] }, { name: 'tracer', methods: ['eth_call', 'trace_*'] })
  t.equal(select('eth_getLogs', [{}]), 'own')
  t.equal(select('trace_block', [block(1)]), 'tracer')
  t.equal(select('eth_call', [{}, 'latest']), 'own tracer')
  t.equal(select('debug_traceTransaction', [hex(32)]), '')
  t.equal(select('eth_unknown', []), 'own', 'a method that is not in the table is matched too')
})

t.test('calls about old state go to archives first, and not to upstreams whose history is too short', async t => {
  const select = selectFrom(
    { name: 'short', history: 128 },
    { name: 'any' },
    { name: 'archive', archive: true },
    { name: 'long', history: 5000 },
  )
  for (const [recent, params] of [
    ['latest', [address, 'latest']],
    ['pending', [address, 'pending']],
    ['127 blocks', [address, block(127)]],
    ['above the head', [address, block(-5)]],
  ] as const)
    t.equal(select('eth_getBalance', params), 'short any archive long', recent)
  t.equal(select('eth_getBalance', [address, block(128)]), 'archive long any')
  t.equal(select('eth_getBalance', [address, block(5000)]), 'archive any')
  t.equal(select('eth_getBalance', [address, 'earliest']), 'archive any')
  t.equal(select('eth_getBalance', [address, 'finalized']), 'archive long any', 'the finalized block is 500 blocks old')
  t.equal(select('eth_getBalance', [address, { blockNumber: block(600) }]), 'archive long any')
  t.equal(select('eth_getBalance', [address, { blockHash: hex(32) }]), 'archive short any long', 'nobody knows how old it is')
  t.equal(select('debug_traceTransaction', [hex(32)]), 'archive short any long')
  t.equal(select('trace_filter', [{ fromBlock: block(600), toBlock: 'latest' }]), 'archive long any')
})

t.test('calls that read no state go to all upstreams, however old their block is', async t => {
  const select = selectFrom({ name: 'short', history: 128 }, { name: 'archive', archive: true })
  t.equal(select('eth_getBlockByNumber', ['earliest', false]), 'short archive')
  t.equal(select('eth_getLogs', [{ fromBlock: 'earliest', toBlock: 'latest' }]), 'short archive')
  t.equal(select('eth_getTransactionReceipt', [hex(32)]), 'short archive')
})

t.test('when every history is too short, the nodes that answer the method are asked for their own error', async t => {
  const select = selectFrom({ name: 'a', history: 128 }, { name: 'b', history: 256 }, { name: 'c', methods: ['net_*'] })
  t.equal(select('eth_getBalance', [address, block(256)]), 'a b')
  t.equal(select('eth_getBalance', [address, block(200)]), 'b')
})

t.test('failover never sends a call to an upstream that does not answer the method, not even after a failure', async t => {
  const upstreams = [node('a', { methods: ['eth_*'] }), node('b', { methods: ['trace_*'] }), node('c', { methods: ['trace_*'], weight: 2 })]
  const responders = { a: () => fakeResult('a'), b: () => fakeResult('b') }
  const { stage, request, requested } = openFailover(t, responders, { upstreams })
  t.equal(valueOrErrorCode(await request(fakeCall('trace_block', ['latest']))), 'b')
  t.same(requested.splice(0), ['c', 'b'])
  t.equal(valueOrErrorCode(await request(fakeCall('eth_gasPrice'))), 'a')
  t.match(await request(fakeCall('txpool_status')), { source: 'gateway', kind: 'method', error: { code: -32601 } })
  t.same(
    ['eth_call', 'trace_block', 'txpool_status'].map(name => stage.offers?.(name)),
    [true, true, false],
  )
})

t.test('options that contradict each other, or name no method, are problems', async t => {
  const problems: unknown[] = []
  const options = { upstreams: [{ ...node('a'), archive: true, history: 128 }], breaker }
  failover.check?.(options as never, (path, message) => problems.push([...path, message]))
  t.same(problems, [['upstreams', 0, 'history', '`history` applies only without `archive: true`']])
  t.throws(() => openFailover(t, {}, { upstreams: [node('a', { methods: ['eth_*', 'trce_*'] })] }), {
    message: 'no method of the method table fits trce_*',
  } as never)
})
