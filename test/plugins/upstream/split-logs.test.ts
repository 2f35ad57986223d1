import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import upstream from '../../../plugins/upstream/index.ts'
import type { Json, Request, Target } from '../../../src/plugin/call.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { isCharged, isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import type { Heads, RequestOptions } from '../../../src/services/index.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { TestClock, fakeCall, unreachableNext, fakeOrigin, createStage, target } from '../../support/fakes.ts'

type Filter = { readonly [name: string]: Json }

interface Log {
  readonly block: number
  readonly address: string
  readonly topics: readonly string[]
  /** As the node writes it. */
  readonly text: string
}

/** A chain whose head is block `head`, and whose logs stand in its order. */
interface Chain {
  readonly head: number
  readonly logs: readonly Log[]
}

const hex = (value: number): string => `0x${value.toString(16)}`
const hashOf = (block: number): string => `0x${block.toString(16).padStart(64, '0')}`
const failure = (code: number, message: string): Failure => ({
  kind: 'node',
  error: { code, message },
  fault: 'caller',
  status: 200,
  source: 'node',
})
const json = (text: string, count?: number): Reply => ({
  result: Buffer.from(text),
  source: 'node',
  upstream: 'own',
  ...(count === undefined ? {} : { count }),
})

const blockOf = (name: Json | undefined, { head }: Chain): number =>
  name === 'earliest' ? 0 : name === 'finalized' ? head >> 1 : name === 'latest' || name === undefined ? head : Number(name)

const fits = (wanted: Json | undefined, value: string | undefined): boolean =>
  wanted === undefined ||
  wanted === null ||
  wanted === value ||
  (Array.isArray(wanted) && (wanted.length === 0 || wanted.includes(null) || wanted.includes(value)))

/** What a node without limits answers. */
const logsOf = (chain: Chain, filter: Filter): Reply => {
  const byHash = chain.logs.filter(log => filter['blockHash'] === undefined || hashOf(log.block) === filter['blockHash'])
  const [from, to] =
    filter['blockHash'] === undefined ? [blockOf(filter['fromBlock'], chain), blockOf(filter['toBlock'], chain)] : [0, chain.head]
  if (from > to) return failure(-32602, 'invalid block range params')
  const topics = (filter['topics'] ?? []) as readonly Json[]
  const found = byHash.filter(
    log =>
      log.block >= from &&
      log.block <= to &&
      fits(filter['address'], log.address) &&
      topics.length <= log.topics.length &&
      topics.every((wanted, i) => fits(wanted, log.topics[i])),
  )
  return json(`[${found.map(log => log.text).join(',')}]`, found.length)
}

/** The same with limits, which it refuses to go beyond. */
const limitedNode =
  (chain: Chain, { maxRange = Infinity, maxParams = Infinity }: Partial<Target>) =>
  (request: Request): Reply => {
    const [filter] = request.params as readonly [Filter]
    if (request.method === 'eth_getBlockByNumber') {
      const number = blockOf(request.params[0], chain)
      return number > chain.head ? json('null') : json(JSON.stringify({ hash: hashOf(number), number: hex(number), transactions: ['0x1'] }))
    }
    const [from, to] = [blockOf(filter['fromBlock'], chain), Math.min(chain.head, blockOf(filter['toBlock'], chain))]
    const lists = [filter['address'], ...((filter['topics'] ?? []) as readonly Json[])]
    if (to - from >= maxRange && filter['blockHash'] === undefined) return failure(-32602, `exceed maximum block range ${maxRange}`)
    if (lists.some(list => Array.isArray(list) && list.length > maxParams))
      return failure(-32000, 'exceed max addresses or topics per search position')
    return logsOf(chain, filter)
  }

interface SplitSetting extends Partial<Target> {
  readonly maxChunks?: number
  readonly clock?: TestClock
  /** The last block that is final; none unless given. */
  readonly final?: number
  readonly signal?: AbortSignal
}

/** The reply of the plugin, and what the node was asked for it. */
const ask = async (
  filter: Filter,
  node: (request: Request, terms: RequestOptions) => Reply | Promise<Reply>,
  setting: SplitSetting = {},
): Promise<{ readonly reply: Reply; readonly asked: readonly Request[] }> => {
  const { maxChunks = 16, clock = new TestClock(), final = -1, signal = new AbortController().signal, ...limits } = setting
  const asked: Request[] = []
  const stage = createStage(
    upstream,
    { timeout: 10_000, maxBytes: 1 << 20, probeAfter: 2000, maxChunks },
    {
      methods: shippedMethods,
      clock,
      heads: { snapshot: { isFinal: (_upstream: string, block: number) => block <= final } } as unknown as Heads, // all that is read of it
      upstreamClient: { request: async (_target, request, terms) => (asked.push(request), node(request, terms)), disconnects: () => 0 },
    },
  )
  const one = fakeCall('eth_getLogs', [filter], { target: { ...target, ...limits } })
  return { reply: await stage.handle({ ...one, origin: fakeOrigin({ signal }) }, unreachableNext), asked }
}

const textOf = (reply: Reply): Json => (isFailure(reply) ? { ...reply.error } : toBuffer(reply.result).toString())

const queries = (asked: readonly Request[]): readonly Filter[] =>
  asked.filter(request => request.method === 'eth_getLogs').map(request => request.params[0] as Filter)

const chainOf = (
  blocks: readonly (readonly { readonly address: string; readonly topics: readonly string[]; readonly pad: string }[])[],
): Chain => ({
  head: blocks.length - 1,
  logs: blocks.flatMap((logs, block) =>
    logs.map(({ address, topics, pad }, index) => ({
      block,
      address,
      topics,
      text: `{"data":"0x${'ab'.repeat(index % 4)}",${pad}"logIndex":"${hex(index)}",${pad}"blockNumber": "${hex(block)}","topics":${JSON.stringify(topics)}}`,
    })),
  ),
})

/** So many logs in each of so many blocks. */
const evenChain = (blocks: number, logs: number): Chain =>
  chainOf(
    Array.from({ length: blocks }, () =>
      Array.from({ length: logs }, (_, i) => ({ address: 'a', topics: [i % 2 === 0 ? 't' : 'u'], pad: '' })),
    ),
  )

t.test('pieces put together are what one call gives', async t => {
  const value = fc.constantFrom('a', 'b', 'c', 'd', 'e')
  const log = fc.record({ address: value, topics: fc.array(value, { maxLength: 3 }), pad: fc.constantFrom('', ' ', '\n') })
  const list = fc.array(fc.oneof({ arbitrary: value, weight: 9 }, fc.constant(null)), { maxLength: 8 })
  const start = fc.oneof(fc.nat(9).map(hex), fc.constantFrom('latest', 'earliest', 'finalized'))
  const end = fc.oneof(fc.nat(30).map(hex), fc.constantFrom('latest', 'earliest', 'finalized'))
  const filter = fc.record(
    {
      fromBlock: start,
      toBlock: end,
      address: fc.oneof(value, fc.array(value, { maxLength: 8 })),
      topics: fc.array(fc.oneof(value, list, fc.constant(null)), { maxLength: 3 }),
    },
    { requiredKeys: ['fromBlock', 'toBlock'] },
  )
  const limit = (most: number) => fc.option(fc.integer({ min: 1, max: most }), { nil: undefined })
  let split = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(log, { maxLength: 4 }), { minLength: 1, maxLength: 25 }),
      filter,
      limit(8),
      limit(3),
      async (blocks, filter, maxRange, maxParams) => {
        const chain = chainOf(blocks)
        const limits = { ...(maxRange !== undefined && { maxRange }), ...(maxParams !== undefined && { maxParams }) }
        const { reply, asked } = await ask(filter, limitedNode(chain, limits), { ...limits, maxChunks: 2000 })
        const whole = logsOf(chain, filter)
        const isBeyond = blockOf(filter.fromBlock, chain) > chain.head
        if (isBeyond || isFailure(whole)) return // the node's own words; nothing was put together
        assert.equal(textOf(reply), textOf(whole))
        assert.equal('count' in reply && reply.count, 'count' in whole && whole.count)
        if (queries(asked).length > 1) split += 1
      },
    ),
    { numRuns: 1000 },
  )
  t.ok(split > 200, `${split} of them came in pieces`)
})

t.test('a log that fits several pieces of a filter comes once, in its place', async t => {
  const chain = evenChain(3, 4)
  const limits = { maxParams: 1, maxRange: 2 }
  const filter = { fromBlock: '0x0', toBlock: '0x2', address: ['a', 'b', 'a'], topics: [['u', 't', 'u']] }
  const { reply, asked } = await ask(filter, limitedNode(chain, limits), limits)
  t.equal(queries(asked).length, 8)
  t.strictSame(textOf(reply), textOf(logsOf(chain, filter)))
})

t.test('a node whose pieces hold a log twice, or hold what is no log, has failed', async t => {
  const twice = json('[{"blockNumber":"0x1","logIndex":"0x0"}]', 1)
  for (const answer of [
    twice,
    json('[{"blockNumber":"0x1"}]', 1),
    json('[1]', 1),
    json('[{"blockNumber":null,"logIndex":null}]', 1),
    json('{}'),
  ]) {
    const { reply } = await ask({ blockHash: hashOf(1), topics: [['t', 'u']] }, () => answer, { maxParams: 1 })
    t.match(reply, { kind: 'unavailable', fault: 'upstream', upstream: 'own' })
  }
})

t.test('one query stays one call when the node takes it', async t => {
  const chain = evenChain(10, 1)
  for (const [filter, setting] of [
    [{ fromBlock: '0x0', toBlock: '0x9' }, {}],
    [{ fromBlock: '0x0', toBlock: '0x9' }, { maxRange: 10 }],
    [{ fromBlock: 'latest', toBlock: 'latest' }, { maxRange: 1 }],
    [{ blockHash: hashOf(3) }, { maxRange: 1, maxParams: 1 }],
    [{ fromBlock: '0x0', toBlock: 'pending' }, { maxRange: 1 }],
    [
      { fromBlock: '0x5', toBlock: '0x5', address: ['a', 'b'] },
      { maxRange: 1, maxParams: 2 },
    ],
  ] as const) {
    const { asked } = await ask(filter, limitedNode(chain, {}), setting)
    t.same(asked, [{ method: 'eth_getLogs', params: [filter] }])
  }
  const { asked } = await ask({ fromBlock: '0x8', toBlock: 'latest' }, limitedNode(chain, {}), { maxRange: 2 })
  t.same(queries(asked), [{ fromBlock: '0x8', toBlock: 'latest' }], 'a tag that turns out to be near')
})

t.test('tags become numbers before the first piece is asked', async t => {
  const { reply, asked } = await ask(
    { fromBlock: 'earliest', toBlock: 'latest', address: 'a' },
    limitedNode(evenChain(10, 1), { maxRange: 4 }),
    { maxRange: 4 },
  )
  t.notOk(isFailure(reply))
  t.same(
    queries(asked),
    [
      ['0x0', '0x3'],
      ['0x4', '0x7'],
      ['0x8', '0x9'],
    ].map(([fromBlock, toBlock]) => ({ fromBlock, toBlock, address: 'a' })),
  )
})

t.test('what lies above the head is left to the node, in the last piece, as far as the node takes it', async t => {
  const far = '0xffffffffffffffff'
  for (const [fromBlock, toBlock, pieces] of [
    [
      '0x0',
      '0xa',
      [
        ['0x0', '0x5'],
        ['0x6', '0xa'],
      ],
    ],
    [
      '0x0',
      far,
      [
        ['0x0', '0x5'],
        ['0x6', '0xb'],
      ],
    ],
    ['0x4', far, [['0x4', '0x9']]],
    ['0x8', far, [['0x8', '0xd']]],
    ['latest', far, [['0x9', '0xe']]],
    ['0x20', '0x22', [['0x20', '0x22']]],
    ['0x20', '0x30', [['0x20', '0x25']]],
  ] as const) {
    const { reply, asked } = await ask({ fromBlock, toBlock }, limitedNode(evenChain(10, 1), {}), { maxRange: 6 })
    t.same(
      queries(asked).map(query => [query['fromBlock'], query['toBlock']]),
      pieces,
      `${fromBlock} to ${toBlock}`,
    )
    if (!fromBlock.startsWith('0x2')) t.match(reply, { count: fromBlock === 'latest' ? 1 : 10 - Number(fromBlock) })
  }
})

t.test("a tag that the node does not know fails the query in the node's words", async t => {
  const { reply } = await ask({ fromBlock: '0x0', toBlock: 'finalized' }, () => failure(-39001, 'Unknown block'), { maxRange: 5 })
  t.match(reply, { error: { code: -39001, message: 'Unknown block' }, retryElsewhere: true })
})

t.test('when a block is replaced between two pieces, the whole is asked elsewhere', async t => {
  const node = limitedNode(evenChain(10, 1), {})
  let isReplaced = false
  const { reply } = await ask(
    { fromBlock: '0x0', toBlock: '0x9' },
    request => {
      if (request.method === 'eth_getLogs') isReplaced = true
      else if (isReplaced) return json(JSON.stringify({ number: '0x9', hash: hashOf(99) }))
      return node(request)
    },
    { maxRange: 5 },
  )
  t.match(reply, { kind: 'unavailable', fault: 'upstream', retryElsewhere: true, retryAfter: 1 })
})

t.test('no block is asked for when the last one is final', async t => {
  const { reply, asked } = await ask({ fromBlock: '0x0', toBlock: '0x9' }, limitedNode(evenChain(12, 1), {}), { maxRange: 5, final: 9 })
  t.notOk(isFailure(reply))
  t.same(
    asked.map(request => request.method),
    ['eth_getLogs', 'eth_getLogs'],
  )
  const later = await ask({ fromBlock: '0x0', toBlock: '0xa' }, limitedNode(evenChain(12, 1), {}), { maxRange: 6, final: 9 })
  t.same(
    later.asked.map(request => request.method),
    ['eth_getBlockByNumber', 'eth_getLogs', 'eth_getLogs', 'eth_getBlockByNumber'],
  )
})

t.test('the number of pieces is bounded, and nothing is asked for what would go beyond', async t => {
  const node = limitedNode(evenChain(100, 1), {})
  const { reply, asked } = await ask({ fromBlock: '0x5', toBlock: 'latest', address: ['a', 'b'] }, node, { maxRange: 2, maxParams: 1 })
  t.match(reply, {
    kind: 'params',
    category: 'rangeTooWide',
    retryElsewhere: true,
    fault: 'caller',
    error: {
      code: -32602,
      message: 'the query is too wide: 95 blocks, more than the 16 that can be asked for at once',
      data: { from: '0x5', to: '0x14' },
    },
  })
  t.notOk(isCharged(reply))
  t.same(queries(asked), [])
  const wide = await ask({ blockHash: hashOf(1), address: Array.from({ length: 17 }, (_, i) => hex(i)) }, node, { maxParams: 1 })
  t.match(wide.reply, { error: { code: -32602, message: 'the query is too wide: its addresses and topics are 17 queries, more than 16' } })
  t.same(wide.asked, [])
  t.equal(queries((await ask({ fromBlock: '0x0', toBlock: '0x1f' }, node, { maxRange: 2 })).asked).length, 16)
})

t.test('5,000 addresses reach a node that takes 1,000, though nobody has said so', async t => {
  const chain = evenChain(3, 2)
  const address = Array.from({ length: 5000 }, (_, i) => (i === 4321 ? 'a' : hex(i)))
  const filter = { fromBlock: '0x0', toBlock: '0x2', address }
  const asked: Request[] = []
  let node = limitedNode(chain, { maxParams: 1000 })
  const stage = createStage(
    upstream,
    { timeout: 10_000, maxBytes: 1 << 20, probeAfter: 2000, maxChunks: 16 },
    {
      methods: shippedMethods,
      clock: new TestClock(),
      heads: { snapshot: { isFinal: () => true } } as unknown as Heads, // all that is read of it
      upstreamClient: { request: async (_target, request) => (asked.push(request), node(request)), disconnects: () => 0 },
    },
  )
  const again = async (own: Filter, over: Partial<Target> = {}) => {
    asked.length = 0
    const reply = await stage.handle(fakeCall('eth_getLogs', [own], { target: { ...target, ...over } }), unreachableNext)
    return { reply, sizes: queries(asked).map(query => (query['address'] as readonly string[]).length) }
  }
  const first = await again(filter)
  t.strictSame(textOf(first.reply), textOf(logsOf(chain, filter)))
  t.same(first.sizes, [5000, 1000, 1000, 1000, 1000, 1000])
  t.same((await again(filter)).sizes, [1000, 1000, 1000, 1000, 1000], 'it is known from then on')
  t.same((await again({ ...filter, address: address.slice(0, 1000) })).sizes, [1000])
  t.same(
    (await again({ ...filter, address: address.slice(0, 999).concat(address.slice(0, 999)) })).sizes,
    [999],
    'what stands twice does not count',
  )
  node = limitedNode(chain, { maxParams: 5000 })
  t.same((await again(filter, { name: 'other' })).sizes, [5000], 'a node that takes them gets them at once')
  node = limitedNode(chain, { maxRange: 1 })
  const wide = await again(filter, { name: 'third' })
  t.match(wide.reply, { category: 'rangeTooWide', error: { code: -32602, message: /exceed maximum block range/ } })
  node = limitedNode(chain, { maxParams: 5000 })
  t.same((await again(filter, { name: 'third' })).sizes, [5000], 'lists were not what it refused')
})

for (const [most, concurrency] of [
  [4, undefined],
  [4, 256],
  [3, 3],
  [1, 1],
] as const) {
  t.test(`${most} pieces are asked at once, in order, where the concurrency is ${concurrency}`, async t => {
    const chain = evenChain(20, 1)
    const node = limitedNode(chain, {})
    let [running, atOnce] = [0, 0]
    const { reply, asked } = await ask(
      { fromBlock: '0x0', toBlock: '0x13' },
      async (request, { signal }) => {
        if (request.method !== 'eth_getLogs') return node(request)
        atOnce = Math.max(atOnce, ++running)
        // Later pieces are answered first.
        const { fromBlock } = request.params[0] as Filter
        for (let i = 0; i < 40 - Number(fromBlock); i++) await Promise.resolve()
        running -= 1
        t.notOk(signal.aborted)
        return node(request)
      },
      { maxRange: 2, ...(concurrency !== undefined && { concurrency }) },
    )
    t.equal(atOnce, most)
    t.strictSame(textOf(reply), textOf(logsOf(chain, { fromBlock: '0x0', toBlock: '0x13' })))
    t.same(
      queries(asked).map(filter => Number(filter['fromBlock'])),
      [0, 2, 4, 6, 8, 10, 12, 14, 16, 18],
    )
  })
}

t.test('10,000 logs over all pieces pass; one more is refused, with the first blocks that fit', async t => {
  const filter = { fromBlock: '0x0', toBlock: '0x3' }
  const full = await ask(filter, limitedNode(evenChain(4, 2500), {}), { maxRange: 1 })
  t.equal('count' in full.reply && full.reply.count, 10_000)
  const over = await ask(filter, limitedNode(evenChain(4, 2501), {}), { maxRange: 1 })
  t.match(over.reply, {
    kind: 'tooMany',
    source: 'node',
    upstream: 'own',
    error: { code: -32005, message: 'query returned more than 10000 results' },
  })
  t.strictSame((over.reply as Failure).error.data, { from: '0x0', to: '0x2', limit: 10_000 })
  t.ok(isCharged(over.reply))
  const crowded = await ask({ ...filter, topics: [['t', 'u']] }, limitedNode(evenChain(4, 10_002), {}), { maxParams: 1 })
  t.strictSame((crowded.reply as Failure).error.data, { limit: 10_000 }, 'not even the first blocks fit')
  const first = await ask(filter, limitedNode(evenChain(4, 5001), {}), { maxRange: 2 })
  t.strictSame((first.reply as Failure).error.data, { from: '0x0', to: '0x0', limit: 10_000 }, 'a part of the first piece fits')
})

t.test('pieces together stay within the bytes of one answer', async t => {
  const node = limitedNode(evenChain(4, 1), {})
  const { reply } = await ask(
    { fromBlock: '0x0', toBlock: '0x3' },
    request => (request.method === 'eth_getLogs' ? json(`["${'0'.repeat(300_000)}"]`, 1) : node(request)),
    { maxRange: 1 },
  )
  t.match(reply, { kind: 'tooLarge' })
})

t.test('ten seconds are for the whole query', async t => {
  const clock = new TestClock()
  const node = limitedNode(evenChain(16, 1), {})
  const timeouts: number[] = []
  const { reply, asked } = await ask(
    { fromBlock: '0x0', toBlock: '0xf' },
    (request, { timeoutMs: timeout }) => {
      timeouts.push(timeout)
      clock.advance(Math.min(timeout, 1500))
      return timeout < 1500 ? refuse('timeout', { fault: 'upstream', source: 'node', upstream: 'own' }) : node(request)
    },
    { maxRange: 1, clock },
  )
  t.match(reply, { kind: 'timeout', fault: 'caller', error: { code: -32005, message: 'query timeout exceeded' } })
  t.same(timeouts, [10_000, 8500, 7000, 5500, 4000, 2500, 1000])
  t.equal(asked.length, 7, 'no piece is asked when the time is over')
})

t.test('a piece that fails ends the whole, and those under way', async t => {
  const node = limitedNode(evenChain(16, 1), {})
  const cancelled: string[] = []
  const { reply, asked } = await ask(
    { fromBlock: '0x0', toBlock: '0xf' },
    (request, { signal }) => {
      const { fromBlock } = request.params[0] as Filter
      if (request.method !== 'eth_getLogs') return node(request)
      if (fromBlock === '0x2') return refuse('unavailable', { source: 'node', upstream: 'own', cause: 'HTTP 500' })
      return new Promise(resolve =>
        signal.addEventListener('abort', () => {
          cancelled.push(String(fromBlock))
          resolve(refuse('unavailable', { source: 'node', fault: 'caller', cause: 'client disconnected' }))
        }),
      )
    },
    { maxRange: 1 },
  )
  t.match(reply, { kind: 'unavailable', fault: 'upstream', cause: 'HTTP 500' })
  t.same(cancelled, ['0x0', '0x1', '0x3'])
  t.equal(queries(asked).length, 4)
})

t.test('a caller who leaves ends all pieces', async t => {
  const node = limitedNode(evenChain(16, 1), {})
  const caller = new AbortController()
  let waiting = 0
  const { reply } = await ask(
    { fromBlock: '0x0', toBlock: '0xf' },
    (request, { signal }) => {
      if (request.method !== 'eth_getLogs') return node(request)
      if (++waiting === 4) queueMicrotask(() => caller.abort())
      return new Promise(resolve =>
        signal.addEventListener('abort', () =>
          resolve(refuse('unavailable', { source: 'node', fault: 'caller', cause: 'client disconnected' })),
        ),
      )
    },
    { maxRange: 1, signal: caller.signal },
  )
  t.match(reply, { cause: 'client disconnected', fault: 'caller' })
  t.equal(waiting, 4)
})

t.test('what a node refuses of a piece comes as of the whole', async t => {
  const { reply } = await ask({ fromBlock: '0x0', toBlock: '0x9' }, limitedNode(evenChain(10, 1), { maxRange: 2 }), { maxRange: 5 })
  t.match(reply, {
    category: 'rangeTooWide',
    retryElsewhere: true,
    error: { code: -32602, message: 'the query is too wide: exceed maximum block range 2' },
  })
})
