import t from 'tap'
import cache from '../../plugins/cache/index.ts'
import type { Call, Json, Note } from '../../src/call.ts'
import type { Signal } from '../../src/leave.ts'
import { buildNetwork } from '../../src/network.ts'
import type { Lent } from '../../src/network.ts'
import { wholeOf } from '../../src/pieces.ts'
import { definePlugin } from '../../src/plugin.ts'
import { isCharged, refuse } from '../../src/reply.ts'
import type { Reply } from '../../src/reply.ts'
import { openKeeper } from '../../src/services/keep.ts'
import { openMetrics } from '../../src/services/metrics.ts'
import type { Methods, Services, View } from '../../src/services/index.ts'
import { shippedTable } from '../services/methods/shipped.ts'
import { TestClock, TestLog, call, origin, result, said, stageOf } from '../support/fakes.ts'

/** Only what the plugin reads of the table. */
const methods = (entries: Record<string, object>): Methods =>
  ({
    names: Object.keys(entries),
    get: (name: string) => entries[name],
  }) as unknown as Methods

const deferred = <T>() => {
  let settle!: (value: T) => void
  const promise = new Promise<T>(resolve => {
    settle = resolve
  })
  return { promise, settle }
}

const table = methods({
  eth_blockNumber: { keep: 'head' },
  eth_getStorageAt: { keep: 'block', at: 2 },
  eth_getTransactionReceipt: { keep: 'found' },
  eth_getLogs: { keep: 'block', at: 0 },
  eth_call: { keep: 'block' },
  eth_sendRawTransaction: { keep: 'never' },
})
/** Heads of which a test says what is known: node `a` is at the head, `b` behind; blocks up to 0x10 are final for `a`. */
const knownHeads = () => {
  const known = { epoch: 0, era: 0, current: ['a'], final: { a: 0x10, b: 0x8 } as Record<string, number>, touches: 0 }
  const look = (): View => {
    const { epoch, era, current, final } = { ...known }
    return {
      epoch,
      era,
      head: undefined,
      isCurrent: name => current.includes(name ?? ''),
      isFinal: (name = '', block) => block === finalHash || (typeof block === 'number' && block <= (final[name] ?? -1)),
      finalOf: (name = 'a') => (final[name] === undefined ? undefined : { number: final[name], hash: `0x${final[name].toString(16)}` }),
    }
  }
  const touch = () => {
    known.touches += 1
  }
  // What the plugin reads of it.
  const heads = {
    get view() {
      return look()
    },
    interval: 500,
    touch,
  } as unknown as Services['heads']
  return { known, heads }
}
const finalHash = `0x${'f1'.repeat(32)}`

const open = (given: Partial<Services> = {}, options = {}) => {
  const clock = new TestClock()
  const stage = stageOf(cache, { maxBytes: 1 << 20, methods: {}, tooMany: 10_000, ...options }, { clock, methods: table, ...given })
  let asked = 0
  const ask = (c: Call<Note>, reply: Reply = result('0x1')) =>
    stage.handle(c, async () => {
      asked += 1
      return reply
    })
  return { clock, stage, ask, asked: () => asked }
}

t.test('keeps an answer, and nothing of the memory that it came in', async t => {
  const { ask } = open()
  const piece = Buffer.alloc(65_536, '"0x1"').subarray(0, 5)
  const reply: Reply = { ...result('0x1', { upstream: 'a' }), result: piece }
  for (const source of ['node', 'cache'] as const) {
    const question = () => call('eth_getStorageAt', ['0xa', source, '0x1'])
    await ask(question(), { ...reply, source })
    const hit = await ask(question(), refuse('internal'))
    t.equal(said(hit), '0x1')
    t.equal('result' in hit && wholeOf(hit.result).buffer.byteLength, 5, source)
  }
})

t.test('answers a repeated call from memory, marks it, and names no upstream', async t => {
  const { ask, asked } = open()
  t.match(await ask(call('eth_getStorageAt', ['0xa', '0x0', 'latest']), result('0x1', { upstream: 'own' })), {
    cache: 'miss',
    upstream: 'own',
  })
  const hit = await ask(call('eth_getStorageAt', ['0xa', '0x0', 'latest']))
  t.match(hit, { cache: 'hit', source: 'cache' })
  t.equal(hit.upstream, undefined)
  t.equal(said(hit), '0x1')
  t.equal(asked(), 1)
})

t.test('keeps what may change for half a block time, counted from the question', async t => {
  const { clock, ask, asked, stage } = open()
  await ask(call('eth_blockNumber'))
  clock.turn(500)
  await ask(call('eth_blockNumber'))
  t.equal(asked(), 1)
  clock.turn(1)
  await ask(call('eth_blockNumber'))
  t.equal(asked(), 2)
  const { promise, settle } = deferred<Reply>()
  const slow = stage.handle(call('eth_getLogs', [{}]), () => promise)
  clock.turn(500)
  settle(result([]))
  await slow
  await ask(call('eth_getLogs', [{}]))
  t.equal(asked(), 3, 'an answer that took as long is not kept')
})

t.test('keeps nothing for longer than a block takes, however rare the polls', async t => {
  const { clock, ask, asked } = open({ network: { name: 'fast', chainId: 1, blockTime: 100 } })
  await ask(call('eth_blockNumber'))
  clock.turn(101)
  await ask(call('eth_blockNumber'))
  t.equal(asked(), 2)
})

t.test('an answer that may change is kept only while the head stands in whose epoch it was asked', async t => {
  const { known, heads } = knownHeads()
  const { ask, asked, stage } = open({ heads })
  const storage = call('eth_getStorageAt', ['0xa', '0x0', 'latest'])
  await ask(storage, result('0x1', { upstream: 'a' }))
  t.match(await ask(storage), { cache: 'hit' })
  known.epoch = 1
  t.equal(said(await ask(storage, result('0x2', { upstream: 'a' }))), '0x2')
  t.equal(asked(), 2)

  const { promise, settle } = deferred<Reply>()
  const early = stage.handle(call('eth_blockNumber'), () => promise)
  known.epoch = 2
  t.equal(
    said(await ask(call('eth_blockNumber'), result('0x12', { upstream: 'a' }))),
    '0x12',
    'nobody joins a question from before the head',
  )
  settle(result('0x11', { upstream: 'a' }))
  await early
  t.equal(said(await ask(call('eth_blockNumber'))), '0x12', 'an answer about an older head does not replace one about the newer')
})

t.test('the answer of a node that is behind, or not known to be at the head, is not kept', async t => {
  const { known, heads } = knownHeads()
  const { ask, asked, stage } = open({ heads })
  for (const upstream of ['b', 'partner', 'b']) await ask(call('eth_getLogs', [{}]), result([], { upstream }))
  t.equal(asked(), 3)
  const { promise, settle } = deferred<Reply>()
  const asking = stage.handle(call('eth_getLogs', [{}]), () => promise)
  known.current = ['a', 'b']
  settle(result([], { upstream: 'b' }))
  await asking
  t.notMatch(await ask(call('eth_getLogs', [{}])), { cache: 'hit' }, 'nor when the node reached the head only after it was asked')
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
    await ask(call(method, params as readonly Json[]), result(value as Json, { upstream: 'a' }))
    known.epoch += 1
    clock.turn(86_400_000)
    t.match(await ask(call(method, params as readonly Json[])), { cache: 'hit' })
    known.era += 1
    await ask(call(method, params as readonly Json[]))
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
    await ask(call(method, params as readonly Json[]), result(value as Json, { upstream }))
    known.epoch += 1
    await ask(call(method, params as readonly Json[]))
    t.equal(asked(), 2)
  })
}

t.test('an answer from memory keeps somebody looking whether final blocks are undone', async t => {
  const { known, heads } = knownHeads()
  const { ask, asked } = open({ heads })
  for (let i = 0; i < 3; i++) await ask(call('eth_getStorageAt', ['0xa', '0x0', '0x10']), result('0x1', { upstream: 'a' }))
  t.same([asked(), known.touches], [1, 2])
})

t.test('what was not yet final for the node when it was asked is not kept as final', async t => {
  const { known, heads } = knownHeads()
  const { ask, asked, stage } = open({ heads })
  const { promise, settle } = deferred<Reply>()
  const asking = stage.handle(call('eth_getStorageAt', ['0xa', '0x0', '0x12']), () => promise)
  known.final = { a: 0x20 }
  known.epoch += 1
  settle(result('0x1', { upstream: 'a' }))
  await asking
  await ask(call('eth_getStorageAt', ['0xa', '0x0', '0x12']))
  t.equal(asked(), 1)
})

for (const [what, method, params, reply] of [
  ['an error', 'eth_getLogs', [{}], { ...refuse('params'), kind: 'node', source: 'node' }],
  ['null', 'eth_getTransactionReceipt', ['0x1'], result(null)],
  ['what is asked of the pending block', 'eth_getStorageAt', ['0xa', '0x0', 'pending'], result('0x1')],
  ['logs of a pending range', 'eth_getLogs', [{ toBlock: 'pending' }], result([])],
  ['a transaction that is not mined', 'eth_getTransactionReceipt', ['0x1'], result({ blockHash: null, blockNumber: null })],
  [
    'the same, however it is written',
    'eth_getTransactionReceipt',
    ['0x1'],
    { source: 'node', result: Buffer.from('{ "blockNumber" : null }') },
  ],
  ['what is not of the kind that the method gives', 'eth_getStorageAt', ['0xa', '0x0', '0x1'], result('0x1', { odd: true })],
  ['a fault', 'eth_blockNumber', [], refuse('unavailable')],
  ['a query that took too long', 'eth_getLogs', [{}], refuse('timeout')],
] as const) {
  t.test(`never keeps ${what}`, async t => {
    const { ask, asked } = open()
    await ask(call(method, params as readonly Json[]), reply as Reply)
    await ask(call(method, params as readonly Json[]), reply as Reply)
    t.equal(asked(), 2)
  })
}

t.test('refuses a query with too many results from memory for some seconds, free of charge', async t => {
  const { clock, ask, asked } = open()
  await ask(call('eth_getLogs', [{}]), refuse('tooMany', { upstream: 'own' }))
  const repeated = await ask(call('eth_getLogs', [{}]))
  t.match(repeated, { kind: 'tooMany', source: 'cache', fault: 'caller', cache: 'hit' })
  t.notOk(isCharged(repeated))
  clock.turn(10_001)
  await ask(call('eth_getLogs', [{}]))
  t.equal(asked(), 2)
})

t.test('an answer cannot be kept in a redis for no time', async t => {
  const said: string[] = []
  cache.check?.({ redisTtl: 0 } as never, (_path, message) => said.push(message))
  cache.check?.({ redisTtl: 1 } as never, (_path, message) => said.push(message))
  t.same(said, ['redisTtl must be more than nothing'])
})

t.test('remembers no refusal at all for 0 s', async t => {
  const { ask, asked } = open({}, { tooMany: 0 })
  for (let i = 0; i < 3; i++) await ask(call('eth_getLogs', [{}]), refuse('tooMany', { upstream: 'own' }))
  t.equal(asked(), 3)
})

t.test('refuses a query that is too wide for any node from memory too, whoever found that', async t => {
  const { ask, asked } = open()
  const wide = { ...refuse('params', { meaning: 'tooWide', elsewhere: true, upstream: 'own' }), kind: 'node', source: 'node' } as const
  await ask(call('eth_getLogs', [{}]), wide)
  t.match(await ask(call('eth_getLogs', [{}])), { error: { code: -32602 }, source: 'cache', cache: 'hit' })
  await ask(call('eth_getLogs', [{ address: '0x1' }]), { ...wide, kind: 'params', source: 'gateway' })
  t.match(await ask(call('eth_getLogs', [{ address: '0x1' }])), { source: 'cache', cache: 'hit' })
  t.equal(asked(), 2)
})

t.test('tells calls apart whose parameters nest differently', async t => {
  const { ask, asked } = open()
  for (const params of [[{ topics: [['a', 'b']] }], [{ topics: ['a', 'b'] }], [{ topics: [['a'], 'b'] }], [1, 1], [11]]) {
    await ask(call('eth_getLogs', params))
  }
  t.equal(asked(), 5)
})

t.test('a thousand identical calls in flight make one upstream call', async t => {
  const { stage } = open()
  const { promise, settle } = deferred<Reply>()
  let asked = 0
  const replies = Array.from({ length: 1000 }, () =>
    stage.handle(call('eth_blockNumber'), () => {
      asked += 1
      return promise
    }),
  )
  settle(result('0x5'))
  t.ok((await Promise.all(replies)).every(reply => said(reply) === '0x5'))
  t.equal(asked, 1)
})

t.test('a shared call goes on while one caller waits, and ends when the last has left', async t => {
  const { stage } = open()
  const [first, second] = [new AbortController(), new AbortController()]
  let shared: Signal | undefined
  for (const { signal } of [first, second]) {
    void stage.handle({ ...call('eth_blockNumber'), origin: origin({ signal }) }, c => {
      shared = c.signal
      return new Promise(() => undefined)
    })
  }
  first.abort()
  t.equal(shared?.aborted, false)
  second.abort()
  t.equal(shared?.aborted, true)
  const { settle, promise } = deferred<Reply>()
  const late = stage.handle(call('eth_blockNumber'), () => promise)
  settle(result('0x6'))
  t.equal(said(await late), '0x6', 'nobody joins a call that was given up')
})

t.test('callers for whom the answer may differ never share it', async t => {
  let tier = 'a'
  const { ask, asked } = open({ vary: () => tier })
  await ask(call('eth_blockNumber'))
  tier = 'b'
  await ask(call('eth_blockNumber'))
  t.equal(asked(), 2)
})

t.test('a method that must not be shared passes by each time', async t => {
  const { ask, asked } = open()
  for (let i = 0; i < 2; i++) t.notOk('cache' in (await ask(call('eth_sendRawTransaction', ['0x1']))))
  t.equal(asked(), 2)
})

t.test('stays within its bytes, the smaller of its own and those of the machine', async t => {
  const { ask, asked } = open({ memory: 8192 })
  const big = result('0'.repeat(1500))
  for (let i = 0; i < 20; i++) await ask(call('eth_getStorageAt', [i]), big)
  t.equal(asked(), 20)
  await ask(call('eth_getStorageAt', [19]), big)
  t.equal(asked(), 20, 'the newest is still there')
  await ask(call('eth_getStorageAt', [0]), big)
  t.equal(asked(), 21, 'the oldest had to go')
})

t.test('the options override how long a method is kept, and refuse methods that are not offered', async t => {
  const { ask, asked } = open({}, { methods: { eth_blockNumber: 'never' } })
  await ask(call('eth_blockNumber'))
  await ask(call('eth_blockNumber'))
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
    create: () => async () => result((asked += 1), { upstream: 'a' }),
  })
  const steps = [cache, varying('a'), varying('b'), last].map(plugin => ({
    name: plugin.name,
    plugin,
    options: { maxBytes: 1 << 20, methods: {}, tooMany: 1 },
    problem: () => {
      throw new Error('a problem')
    },
  }))
  const config = { name: 'net', chainId: 1, blockTime: 1000, hosts: [], methods: shippedTable, steps, file: 'net.yaml' }
  const lent = {
    clock: new TestClock(),
    log: new TestLog(),
    metrics: openMetrics(),
    memory: 1 << 20,
    keeper: openKeeper(),
    headsSource: { open: () => knownHeads().heads },
  } as unknown as Lent // what is used of it here
  const { network } = buildNetwork(config as never, lent)
  const ask = (headers: Record<string, string>) =>
    network?.run({ ...call('eth_gasPrice'), origin: origin({ headers }) }).then(reply => 'cache' in reply && reply.cache)
  t.same([await ask({ a: 'x\n', b: 'y' }), await ask({ a: 'x\n', b: 'y' })], ['miss', 'hit'])
  t.same([await ask({ a: 'x', b: '\ny' }), await ask({ a: 'x', b: 'y' })], ['miss', 'miss'])
})
