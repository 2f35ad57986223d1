import t from '../../support/tap.ts'
import type { Json, Request, Target } from '../../../src/plugin/call.ts'
import { KnownTags } from '../../../src/services/chain-heads/index.ts'
import type { FinalityTag } from '../../../src/services/index.ts'
import { TestClock, fakeCall, fakeResult, fakeTarget, valueOrErrorCode } from '../../support/fakes.ts'
import { openUpstream } from './upstream-fixture.ts'

const address = `0x${'11'.repeat(20)}`
const hash = `0x${'ab'.repeat(32)}`

/** The node `own` is at the finalized block `finalized.number`; callers were told of 0x20 as finalized. */
const openNode = (finalized: { number: number }, reported: number | null = 0x20, polled?: number, source: Target['source'] = 'node') => {
  const clock = new TestClock()
  const known = new KnownTags(name => (name === undefined ? polled : undefined))
  if (reported !== null) known.state = { reported: { finalized: reported }, upstreams: {} }
  const report = (name: string, tag: FinalityTag, block: number): void => {
    known.state = { reported: { [tag]: Math.max(block, known.reported(tag) ?? 0) }, upstreams: { [name]: { [tag]: block } } }
  }
  const tags = { report, blockFor: known.blockFor.bind(known), reported: known.reported.bind(known), known: known.known.bind(known) }
  const requests: Request[] = []
  const respond = ({ method, params: [block] }: Request): Json => {
    if (method !== 'eth_getBlockByNumber') return '0x1'
    return { number: block === 'finalized' ? `0x${finalized.number.toString(16)}` : (block ?? null), hash, parentHash: hash }
  }
  const send = openUpstream(
    async (_target, request) => {
      requests.push(request)
      return fakeResult(respond(request), { upstream: 'own', ...(request.method === 'eth_getLogs' && { count: 0 }) } as object)
    },
    {
      clock,
      heads: {
        tags,
        pollIntervalMs: 500,
        reporterOf: ({ name }: { readonly name: string }) => name,
        reportHeight: (_name: string, height: number) => height,
      },
    },
  )
  const call = async (method: string, ...params: readonly Json[]) =>
    valueOrErrorCode(await send(fakeCall(method, params, { target: { ...fakeTarget, source } })))
  return { call, requests, clock, known, sent: () => requests.splice(0).map(({ method, params }) => [method, ...params]) }
}

t.test('a partner gets the number of the newest block that a tag is known to name', async t => {
  for (const [reported, polled, number] of [
    [0x20, 0x30, '0x30'],
    [0x20, 0x10, '0x20'],
    [null, 0x30, '0x30'],
    [0x20, undefined, '0x20'],
    [null, undefined, 'finalized'],
  ] as const) {
    const { call, sent } = openNode({ number: 0x10 }, reported, polled, 'partner')
    await call('eth_getLogs', { fromBlock: '0x1', toBlock: 'finalized' })
    t.same(sent(), [['eth_getLogs', { fromBlock: '0x1', toBlock: number }]])
  }
})

t.test('a node that is below what callers were told of a tag', async t => {
  t.test('is asked for that block by its number', async t => {
    const { call, sent } = openNode({ number: 0x10 })
    t.match(await call('eth_getBlockByNumber', 'finalized', false), { number: '0x20' })
    t.same(sent(), [
      ['eth_getBlockByNumber', 'finalized', false],
      ['eth_getBlockByNumber', '0x20', false],
    ])
  })

  t.test('is asked what the tag names, once per poll interval, and then for the state at that block', async t => {
    const { call, sent, clock } = openNode({ number: 0x10 })
    await call('eth_getBalance', address, 'finalized')
    await call('eth_getBalance', address, { blockNumber: 'finalized' })
    t.same(sent(), [
      ['eth_getBlockByNumber', 'finalized', false],
      ['eth_getBalance', address, '0x20'],
      ['eth_getBalance', address, { blockNumber: '0x20' }],
    ])
    clock.advance(500)
    await call('eth_getBalance', address, 'finalized')
    t.equal(sent().length, 2)
  })

  t.test('is asked by the tag again as soon as it has got so far', async t => {
    const finalized = { number: 0x10 }
    const { call, sent, clock } = openNode(finalized)
    await call('eth_getBalance', address, 'finalized')
    finalized.number = 0x30
    clock.advance(500)
    sent()
    await call('eth_getBalance', address, 'finalized')
    t.same(sent().at(-1), ['eth_getBalance', address, 'finalized'])
  })

  t.test('is asked for logs up to that block', async t => {
    const { call, sent } = openNode({ number: 0x10 })
    await call('eth_getLogs', { fromBlock: '0x1', toBlock: 'finalized' })
    t.same(sent().at(-1), ['eth_getLogs', { fromBlock: '0x1', toBlock: '0x20' }])
  })
})

t.test('a node that is as far is asked by the tag, and its block is what callers were told', async t => {
  const { call, sent, known } = openNode({ number: 0x30 })
  t.match(await call('eth_getBlockByNumber', 'finalized', false), { number: '0x30' })
  await call('eth_getBalance', address, 'finalized')
  t.same(sent(), [
    ['eth_getBlockByNumber', 'finalized', false],
    ['eth_getBalance', address, 'finalized'],
  ])
  t.equal(known.reported('finalized'), 0x30)
})

t.test('without a report nothing is changed, and nothing more is asked', async t => {
  const { call, sent } = openNode({ number: 0x10 }, null)
  await call('eth_getBalance', address, 'finalized')
  await call('eth_getBalance', address, 'safe')
  t.same(sent(), [
    ['eth_getBalance', address, 'finalized'],
    ['eth_getBalance', address, 'safe'],
  ])
})
