import t from 'tap'
import cache from '../../../plugins/cache/index.ts'
import type { Call, Json, ContextKey } from '../../../src/plugin/call.ts'
import type { Signal } from '../../../src/plugin/cancellation.ts'
import { buildNetwork } from '../../../src/core/network.ts'
import type { HostServices } from '../../../src/core/network.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { definePlugin } from '../../../src/plugin/plugin.ts'
import { isCharged, refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { openSingletons } from '../../../src/core/singletons.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import type { MethodTable, Services, ChainSnapshot } from '../../../src/services/index.ts'
import { shippedTable } from '../../services/method-table/shipped-table.ts'
import { TestClock, TestLog, fakeCall, fakeOrigin, fakeResult, valueOrErrorCode, createStage } from '../../support/fakes.ts'

/** Only what the plugin reads of the table. */
const methods = (entries: Record<string, object>): MethodTable =>
  ({
    names: Object.keys(entries),
    get: (name: string) => entries[name],
  }) as unknown as MethodTable

const deferred = <T>() => {
  let settle!: (value: T) => void
  const promise = new Promise<T>(resolve => {
    settle = resolve
  })
  return { promise, settle }
}

const table = methods({
  eth_blockNumber: { cache: 'latest' },
  eth_getStorageAt: { cache: 'block', blockParam: 2 },
  eth_getTransactionReceipt: { cache: 'mined' },
  eth_getLogs: { cache: 'block', blockParam: 0 },
  eth_call: { cache: 'block' },
  eth_sendRawTransaction: { cache: 'never' },
})
/** Heads of which a test says what is known: node `a` is at the head, `b` behind; blocks up to 0x10 are final for `a`. */
const knownHeads = () => {
  const known = { headVersion: 0, finalityVersion: 0, current: ['a'], final: { a: 0x10, b: 0x8 } as Record<string, number>, touches: 0 }
  const look = (): ChainSnapshot => {
    const { headVersion, finalityVersion, current, final } = { ...known }
    return {
      headVersion,
      finalityVersion,
      head: undefined,
      isCurrent: name => current.includes(name ?? ''),
      isFinal: (name = '', block) => block === finalHash || (typeof block === 'number' && block <= (final[name] ?? -1)),
      finalizedBlockOf: (name = 'a') =>
        final[name] === undefined ? undefined : { number: final[name], hash: `0x${final[name].toString(16)}` },
    }
  }
  const recordActivity = () => {
    known.touches += 1
  }
  // What the plugin reads of it.
  const heads = {
    get snapshot() {
      return look()
    },
    pollIntervalMs: 500,
    recordActivity,
  } as unknown as Services['heads']
  return { known, heads }
}
const finalHash = `0x${'f1'.repeat(32)}`

const open = (given: Partial<Services> = {}, options = {}) => {
  const clock = new TestClock()
  const stage = createStage(
    cache,
    { maxBytes: 1 << 20, methods: {}, cacheTooManyFor: 10_000, ...options },
    { clock, methods: table, ...given },
  )
  let asked = 0
  const ask = (c: Call<ContextKey>, reply: Reply = fakeResult('0x1')) =>
    stage.handle(c, async () => {
      asked += 1
      return reply
    })
  return { clock, stage, ask, asked: () => asked }
}

t.test('keeps an answer, and nothing of the memory that it came in', async t => {
  const { ask } = open()
  const piece = Buffer.alloc(65_536, '"0x1"').subarray(0, 5)
  const reply: Reply = { ...fakeResult('0x1', { upstream: 'a' }), result: piece }
  for (const source of ['node', 'cache'] as const) {
    const question = () => fakeCall('eth_getStorageAt', ['0xa', source, '0x1'])
    await ask(question(), { ...reply, source })
    const hit = await ask(question(), refuse('internal'))
    t.equal(valueOrErrorCode(hit), '0x1')
    t.equal('result' in hit && toBuffer(hit.result).buffer.byteLength, 5, source)
  }
})

t.test('answers a repeated call from memory, marks it, and names no upstream', async t => {
  const { ask, asked } = open()
  t.match(await ask(fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest']), fakeResult('0x1', { upstream: 'own' })), {
    cache: 'miss',
    upstream: 'own',
  })
  const hit = await ask(fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest']))
  t.match(hit, { cache: 'hit', source: 'cache' })
  t.equal(hit.upstream, undefined)
  t.equal(valueOrErrorCode(hit), '0x1')
  t.equal(asked(), 1)
})

t.test('keeps what may change for half a block time, counted from the question', async t => {
  const { clock, ask, asked, stage } = open()
  await ask(fakeCall('eth_blockNumber'))
  clock.advance(500)
  await ask(fakeCall('eth_blockNumber'))
  t.equal(asked(), 1)
  clock.advance(1)
  await ask(fakeCall('eth_blockNumber'))
  t.equal(asked(), 2)
  const { promise, settle } = deferred<Reply>()
  const slow = stage.handle(fakeCall('eth_getLogs', [{}]), () => promise)
  clock.advance(500)
  settle(fakeResult([]))
  await slow
  await ask(fakeCall('eth_getLogs', [{}]))
  t.equal(asked(), 3, 'an answer that took as long is not kept')
})

t.test('keeps nothing for longer than a block takes, however rare the polls', async t => {
  const { clock, ask, asked } = open({ network: { name: 'fast', chainId: 1, blockTime: 100 } })
  await ask(fakeCall('eth_blockNumber'))
  clock.advance(101)
  await ask(fakeCall('eth_blockNumber'))
  t.equal(asked(), 2)
})

t.test('an answer that may change is kept only while the head stands in whose epoch it was asked', async t => {
  const { known, heads } = knownHeads()
  const { ask, asked, stage } = open({ heads })
  const storage = fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest'])
  await ask(storage, fakeResult('0x1', { upstream: 'a' }))
  t.match(await ask(storage), { cache: 'hit' })
  known.headVersion = 1
  t.equal(valueOrErrorCode(await ask(storage, fakeResult('0x2', { upstream: 'a' }))), '0x2')
  t.equal(asked(), 2)

  const { promise, settle } = deferred<Reply>()
  const early = stage.handle(fakeCall('eth_blockNumber'), () => promise)
  known.headVersion = 2
  t.equal(
    valueOrErrorCode(await ask(fakeCall('eth_blockNumber'), fakeResult('0x12', { upstream: 'a' }))),
    '0x12',
    'nobody joins a question from before the head',
  )
  settle(fakeResult('0x11', { upstream: 'a' }))
  await early
  t.equal(
    valueOrErrorCode(await ask(fakeCall('eth_blockNumber'))),
    '0x12',
    'an answer about an older head does not replace one about the newer',
  )
})

t.test('the answer of a node that is behind, or not known to be at the head, is not kept', async t => {
  const { known, heads } = knownHeads()
  const { ask, asked, stage } = open({ heads })
  for (const upstream of ['b', 'partner', 'b']) await ask(fakeCall('eth_getLogs', [{}]), fakeResult([], { upstream }))
  t.equal(asked(), 3)
  const { promise, settle } = deferred<Reply>()
  const asking = stage.handle(fakeCall('eth_getLogs', [{}]), () => promise)
  known.current = ['a', 'b']
  settle(fakeResult([], { upstream: 'b' }))
  await asking
  t.notMatch(await ask(fakeCall('eth_getLogs', [{}])), { cache: 'hit' }, 'nor when the node reached the head only after it was asked')
})

for (const [what, method, params, value] of [
  ['the state at a final block', 'eth_getStorageAt', ['0xa', '0x0', '0x10'], '0x1'],
  ['the state at a final block by its number as an object', 'eth_getStorageAt', ['0xa', '0x0', { blockNumber: '0x10' }], '0x1'],
  ['the state at a final block by its hash', 'eth_getStorageAt', ['0xa', '0x0', finalHash], '0x1'],
  ['logs of a final range', 'eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x10' }], []],
  ['logs of a final block by its hash', 'eth_getLogs', [{ blockHash: finalHash }], []],
  ['a receipt in a final block', 'eth_getTransactionReceipt', ['0x1'], { logs: [{ blockNumber: '0x10' }], blockNumber: '0x10' }],
] as const) {
  t.test(`keeps ${what} over new heads, until final blocks are undone`, async t => {
    const { known, heads } = knownHeads()
    const { clock, ask, asked } = open({ heads })
    await ask(fakeCall(method, params as readonly Json[]), fakeResult(value as Json, { upstream: 'a' }))
    known.headVersion += 1
    clock.advance(86_400_000)
    t.match(await ask(fakeCall(method, params as readonly Json[])), { cache: 'hit' })
    known.finalityVersion += 1
    await ask(fakeCall(method, params as readonly Json[]))
    t.equal(asked(), 2)
  })
}

for (const [what, method, params, value, upstream] of [
  ['a block that is not final', 'eth_getStorageAt', ['0xa', '0x0', '0x11'], '0x1', 'a'],
  ['a block that is not final for the node that answered', 'eth_getStorageAt', ['0xa', '0x0', '0x9'], '0x1', 'b'],
  ['`finalized`, which moves', 'eth_getStorageAt', ['0xa', '0x0', 'finalized'], '0x1', 'a'],
  ['a hash that is not known to be final', 'eth_getStorageAt', ['0xa', '0x0', `0x${'00'.repeat(32)}`], '0x1', 'a'],
  ['a range that ends above the final block', 'eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x11' }], [], 'a'],
  ['a range that ends at the head', 'eth_getLogs', [{ fromBlock: '0x1', toBlock: 'latest' }], [], 'a'],
  ['a receipt in a block that is not final', 'eth_getTransactionReceipt', ['0x1'], { blockNumber: '0x11' }, 'a'],
  ['a method whose table does not say where the block stands', 'eth_call', [{}, '0x1'], '0x1', 'a'],
  ['a number beyond what can be compared', 'eth_getStorageAt', ['0xa', '0x0', '0xffffffffffffffff'], '0x1', 'a'],
] as const) {
  t.test(`does not keep an answer about ${what} over a new head`, async t => {
    const { known, heads } = knownHeads()
    const { ask, asked } = open({ heads })
    await ask(fakeCall(method, params as readonly Json[]), fakeResult(value as Json, { upstream }))
    known.headVersion += 1
    await ask(fakeCall(method, params as readonly Json[]))
    t.equal(asked(), 2)
  })
}

t.test('an answer from memory keeps somebody looking whether final blocks are undone', async t => {
  const { known, heads } = knownHeads()
  const { ask, asked } = open({ heads })
  for (let i = 0; i < 3; i++) await ask(fakeCall('eth_getStorageAt', ['0xa', '0x0', '0x10']), fakeResult('0x1', { upstream: 'a' }))
  t.same([asked(), known.touches], [1, 2])
})

t.test('what was not yet final for the node when it was asked is not kept as final', async t => {
  const { known, heads } = knownHeads()
  const { ask, asked, stage } = open({ heads })
  const { promise, settle } = deferred<Reply>()
  const asking = stage.handle(fakeCall('eth_getStorageAt', ['0xa', '0x0', '0x12']), () => promise)
  known.final = { a: 0x20 }
  known.headVersion += 1
  settle(fakeResult('0x1', { upstream: 'a' }))
  await asking
  await ask(fakeCall('eth_getStorageAt', ['0xa', '0x0', '0x12']))
  t.equal(asked(), 1)
})

for (const [what, method, params, reply] of [
  ['an error', 'eth_getLogs', [{}], { ...refuse('params'), kind: 'node', source: 'node' }],
  ['null', 'eth_getTransactionReceipt', ['0x1'], fakeResult(null)],
  ['what is asked of the pending block', 'eth_getStorageAt', ['0xa', '0x0', 'pending'], fakeResult('0x1')],
  ['logs of a pending range', 'eth_getLogs', [{ toBlock: 'pending' }], fakeResult([])],
  ['a transaction that is not mined', 'eth_getTransactionReceipt', ['0x1'], fakeResult({ blockHash: null, blockNumber: null })],
  [
    'the same, however it is written',
    'eth_getTransactionReceipt',
    ['0x1'],
    { source: 'node', result: Buffer.from('{ "blockNumber" : null }') },
  ],
  ['what is not of the kind that the method gives', 'eth_getStorageAt', ['0xa', '0x0', '0x1'], fakeResult('0x1', { unexpectedType: true })],
  ['a fault', 'eth_blockNumber', [], refuse('unavailable')],
  ['a query that took too long', 'eth_getLogs', [{}], refuse('timeout')],
] as const) {
  t.test(`never keeps ${what}`, async t => {
    const { ask, asked } = open()
    await ask(fakeCall(method, params as readonly Json[]), reply as Reply)
    await ask(fakeCall(method, params as readonly Json[]), reply as Reply)
    t.equal(asked(), 2)
  })
}

t.test('refuses a query with too many results from memory for some seconds, free of charge', async t => {
  const { clock, ask, asked } = open()
  await ask(fakeCall('eth_getLogs', [{}]), refuse('tooMany', { upstream: 'own' }))
  const repeated = await ask(fakeCall('eth_getLogs', [{}]))
  t.match(repeated, { kind: 'tooMany', source: 'cache', fault: 'caller', cache: 'hit' })
  t.notOk(isCharged(repeated))
  clock.advance(10_001)
  await ask(fakeCall('eth_getLogs', [{}]))
  t.equal(asked(), 2)
})

t.test('an answer cannot be kept in a redis for no time', async t => {
  const said: string[] = []
  cache.check?.({ redisTtl: 0 } as never, (_path, message) => said.push(message))
  cache.check?.({ redisTtl: 1 } as never, (_path, message) => said.push(message))
  t.same(said, ['redisTtl must be greater than 0'])
})

t.test('remembers no refusal at all for 0 s', async t => {
  const { ask, asked } = open({}, { cacheTooManyFor: 0 })
  for (let i = 0; i < 3; i++) await ask(fakeCall('eth_getLogs', [{}]), refuse('tooMany', { upstream: 'own' }))
  t.equal(asked(), 3)
})

t.test('refuses a query that is too wide for any node from memory too, whoever found that', async t => {
  const { ask, asked } = open()
  const wide = {
    ...refuse('params', { category: 'rangeTooWide', retryElsewhere: true, upstream: 'own' }),
    kind: 'node',
    source: 'node',
  } as const
  await ask(fakeCall('eth_getLogs', [{}]), wide)
  t.match(await ask(fakeCall('eth_getLogs', [{}])), { error: { code: -32602 }, source: 'cache', cache: 'hit' })
  await ask(fakeCall('eth_getLogs', [{ address: '0x1' }]), { ...wide, kind: 'params', source: 'gateway' })
  t.match(await ask(fakeCall('eth_getLogs', [{ address: '0x1' }])), { source: 'cache', cache: 'hit' })
  t.equal(asked(), 2)
})

t.test('tells calls apart whose parameters nest differently', async t => {
  const { ask, asked } = open()
  for (const params of [[{ topics: [['a', 'b']] }], [{ topics: ['a', 'b'] }], [{ topics: [['a'], 'b'] }], [1, 1], [11]]) {
    await ask(fakeCall('eth_getLogs', params))
  }
  t.equal(asked(), 5)
})

t.test('a thousand identical calls in flight make one upstream call', async t => {
  const { stage } = open()
  const { promise, settle } = deferred<Reply>()
  let asked = 0
  const replies = Array.from({ length: 1000 }, () =>
    stage.handle(fakeCall('eth_blockNumber'), () => {
      asked += 1
      return promise
    }),
  )
  settle(fakeResult('0x5'))
  t.ok((await Promise.all(replies)).every(reply => valueOrErrorCode(reply) === '0x5'))
  t.equal(asked, 1)
})

t.test('a shared call goes on while one caller waits, and ends when the last has left', async t => {
  const { stage } = open()
  const [first, second] = [new AbortController(), new AbortController()]
  let shared: Signal | undefined
  for (const { signal } of [first, second]) {
    void stage.handle({ ...fakeCall('eth_blockNumber'), origin: fakeOrigin({ signal }) }, c => {
      shared = c.signal
      return new Promise(() => undefined)
    })
  }
  first.abort()
  t.equal(shared?.aborted, false)
  second.abort()
  t.equal(shared?.aborted, true)
  const { settle, promise } = deferred<Reply>()
  const late = stage.handle(fakeCall('eth_blockNumber'), () => promise)
  settle(fakeResult('0x6'))
  t.equal(valueOrErrorCode(await late), '0x6', 'nobody joins a call that was given up')
})

t.test('callers for whom the answer may differ never share it', async t => {
  let tier = 'a'
  const { ask, asked } = open({ vary: () => tier })
  await ask(fakeCall('eth_blockNumber'))
  tier = 'b'
  await ask(fakeCall('eth_blockNumber'))
  t.equal(asked(), 2)
})

t.test('a method that must not be shared passes by each time', async t => {
  const { ask, asked } = open()
  for (let i = 0; i < 2; i++) t.notOk('cache' in (await ask(fakeCall('eth_sendRawTransaction', ['0x1']))))
  t.equal(asked(), 2)
})

t.test('stays within its bytes, the smaller of its own and those of the machine', async t => {
  const { ask, asked } = open({ cacheBytes: 8192 })
  const big = fakeResult('0'.repeat(1500))
  for (let i = 0; i < 20; i++) await ask(fakeCall('eth_getStorageAt', [i]), big)
  t.equal(asked(), 20)
  await ask(fakeCall('eth_getStorageAt', [19]), big)
  t.equal(asked(), 20, 'the newest is still there')
  await ask(fakeCall('eth_getStorageAt', [0]), big)
  t.equal(asked(), 21, 'the oldest had to go')
})

t.test('the options override how long a method is kept, and refuse methods that are not offered', async t => {
  const { ask, asked } = open({}, { methods: { eth_blockNumber: 'never' } })
  await ask(fakeCall('eth_blockNumber'))
  await ask(fakeCall('eth_blockNumber'))
  t.equal(asked(), 2)
  t.throws(() => open({}, { methods: { eth_blokNumber: 'never' } }), { name: 'Misconfigured', message: /eth_blokNumber/ })
})

t.test('callers for whom two plugins vary never share an answer, whatever the plugins say', async t => {
  const varying = (header: string) =>
    definePlugin({
      name: header,
      summary: 'Varies by a header.',
      options: { type: 'object', properties: {} },
      vary: (_notes, _options, { headers }) => String(headers[header]),
      create: () => (c, next) => next(c),
    })
  let asked = 0
  const last = definePlugin({
    name: 'last',
    summary: 'Answers.',
    terminal: true,
    options: { type: 'object', properties: {} },
    create: () => async () => fakeResult((asked += 1), { upstream: 'a' }),
  })
  const steps = [cache, varying('a'), varying('b'), last].map(plugin => ({
    name: plugin.name,
    plugin,
    options: { maxBytes: 1 << 20, methods: {}, cacheTooManyFor: 1 },
    problemAt: () => {
      throw new Error('a problem')
    },
  }))
  const config = { name: 'net', chainId: 1, blockTime: 1000, hosts: [], methods: shippedTable, steps, file: 'net.yaml' }
  const lent = {
    clock: new TestClock(),
    log: new TestLog(),
    metrics: createMetricsRegistry(),
    cacheBytes: 1 << 20,
    singletons: openSingletons(),
    headsSource: { open: () => knownHeads().heads },
  } as unknown as HostServices // what is used of it here
  const { network } = await buildNetwork(config as never, lent)
  const ask = (headers: Record<string, string>) =>
    network?.run({ ...fakeCall('eth_gasPrice'), origin: fakeOrigin({ headers }) }).then(reply => 'cache' in reply && reply.cache)
  t.same([await ask({ a: 'x\n', b: 'y' }), await ask({ a: 'x\n', b: 'y' })], ['miss', 'hit'])
  t.same([await ask({ a: 'x', b: '\ny' }), await ask({ a: 'x', b: 'y' })], ['miss', 'miss'])
})
