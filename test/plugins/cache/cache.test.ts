import t from '../../support/tap.ts'
import cache from '../../../plugins/cache/index.ts'
import type { Call, Json, ContextKey, Signal } from '../../../src/plugin/call.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { definePlugin } from '../../../src/plugin/plugin.ts'
import { isCharged, isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Reply, Result } from '../../../src/plugin/reply.ts'
import type { Services, ChainSnapshot } from '../../../src/services/index.ts'
import { harness } from '../../../src/testing/index.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { deferred } from '../../support/deferred.ts'
import { createLongResult } from '../../support/long-result.ts'
import { TestClock, TestLog, fakeCall, fakeOrigin, fakeResult, valueOrErrorCode, createStage } from '../../support/fakes.ts'

/** Heads that the test controls: node `a` is at the head, `b` behind; blocks up to 0x10 are finalized on `a`. */
const createHeads = () => {
  const state = {
    headVersion: 0,
    finalityVersion: 0,
    current: ['a'],
    final: { a: 0x10, b: 0x8 } as Record<string, number>,
    activities: 0,
    mayLag: false,
  }
  const snapshotOf = (): ChainSnapshot => {
    const { headVersion, finalityVersion, current, final } = { ...state }
    return {
      headVersion,
      finalityVersion,
      head: undefined,
      reportedHeight: 0,
      isCurrent: name => current.includes(name ?? ''),
      isFinal: (name = '', block) => block === finalHash || (typeof block === 'number' && block <= (final[name] ?? -1)),
      finalizedBlockOf: (name = 'a') =>
        final[name] === undefined ? undefined : { number: final[name], hash: `0x${final[name].toString(16)}` },
    }
  }
  const recordActivity = () => {
    state.activities += 1
  }
  // The part that the plugin reads.
  const heads = {
    get snapshot() {
      return snapshotOf()
    },
    get mayLag() {
      return state.mayLag
    },
    sync: async () => false,
    pollIntervalMs: 500,
    recordActivity,
  } as unknown as Services['heads']
  return { state, heads }
}
const finalHash = `0x${'f1'.repeat(32)}`

const openCache = (given: Partial<Services> = {}, options = {}) => {
  const clock = new TestClock()
  const stage = createStage(cache, { maxBytes: 1 << 20, methods: {}, ...options }, { clock, methods: shippedMethods, ...given })
  let requests = 0
  const request = (call: Call<ContextKey>, reply: Reply = fakeResult('0x1')) =>
    stage.handle(call, async () => {
      requests += 1
      return reply
    })
  return { clock, stage, request, requests: () => requests }
}

t.test('caches an answer without the buffer that it came in', async t => {
  const { request } = openCache()
  const part = Buffer.alloc(65_536, '"0x1"').subarray(0, 5)
  const reply: Reply = { ...fakeResult('0x1', { upstream: 'a' }), result: part }
  for (const source of ['node', 'cache'] as const) {
    const call = () => fakeCall('eth_getStorageAt', ['0xa', source, '0x1'])
    await request(call(), { ...reply, source })
    const hit = await request(call(), refuse('internal'))
    t.equal(valueOrErrorCode(hit), '0x1')
    t.equal('result' in hit && toBuffer(hit.result).buffer.byteLength, 5, source)
  }
})

t.test('answers a repeated call from memory, as a cache hit without an upstream', async t => {
  const { request, requests } = openCache()
  t.match(await request(fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest']), fakeResult('0x1', { upstream: 'own' })), {
    cache: 'miss',
    upstream: 'own',
  })
  const hit = await request(fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest']))
  t.match(hit, { cache: 'hit', source: 'cache' })
  t.equal(hit.upstream, undefined)
  t.equal(valueOrErrorCode(hit), '0x1')
  t.equal(requests(), 1)
})

t.test('caches an answer that may change for half a block time, counted from its request', async t => {
  const { clock, request, requests, stage } = openCache()
  await request(fakeCall('eth_blockNumber'))
  clock.advance(500)
  await request(fakeCall('eth_blockNumber'))
  t.equal(requests(), 1)
  clock.advance(1)
  await request(fakeCall('eth_blockNumber'))
  t.equal(requests(), 2)
  const { promise, resolve: settle } = deferred<Reply>()
  const slow = stage.handle(fakeCall('eth_getLogs', [{}]), () => promise)
  clock.advance(500)
  settle(fakeResult([]))
  await slow
  await request(fakeCall('eth_getLogs', [{}]))
  t.equal(requests(), 3, 'an answer that took as long is not cached')
})

t.test('caches no answer that may change for longer than the block time, however long the poll interval is', async t => {
  const { clock, request, requests } = openCache({ network: { name: 'fast', chainId: 1, blockTime: 100, devNode: false } })
  await request(fakeCall('eth_blockNumber'))
  clock.advance(101)
  await request(fakeCall('eth_blockNumber'))
  t.equal(requests(), 2)
})

t.test('an answer that may change is cached only until the head changes', async t => {
  const { state, heads } = createHeads()
  const { request, requests, stage } = openCache({ heads })
  const storage = fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest'])
  await request(storage, fakeResult('0x1', { upstream: 'a' }))
  t.match(await request(storage), { cache: 'hit' })
  state.headVersion = 1
  t.equal(valueOrErrorCode(await request(storage, fakeResult('0x2', { upstream: 'a' }))), '0x2')
  t.equal(requests(), 2)

  const { promise, resolve: settle } = deferred<Reply>()
  const early = stage.handle(fakeCall('eth_blockNumber'), () => promise)
  state.headVersion = 2
  t.equal(
    valueOrErrorCode(await request(fakeCall('eth_blockNumber'), fakeResult('0x12', { upstream: 'a' }))),
    '0x12',
    'no call joins a request from before the head',
  )
  settle(fakeResult('0x11', { upstream: 'a' }))
  await early
  t.equal(
    valueOrErrorCode(await request(fakeCall('eth_blockNumber'))),
    '0x12',
    'an answer about an older head does not replace one about the newer',
  )
})

t.test('the answer of a node that is behind, or not known to be at the head, is not cached', async t => {
  const { state, heads } = createHeads()
  const { request, requests, stage } = openCache({ heads })
  for (const upstream of ['b', 'partner', 'b']) await request(fakeCall('eth_getLogs', [{}]), fakeResult([], { upstream }))
  t.equal(requests(), 3)
  const { promise, resolve: settle } = deferred<Reply>()
  const pending = stage.handle(fakeCall('eth_getLogs', [{}]), () => promise)
  state.current = ['a', 'b']
  settle(fakeResult([], { upstream: 'b' }))
  await pending
  t.notMatch(
    await request(fakeCall('eth_getLogs', [{}])),
    { cache: 'hit' },
    'nor when the node reached the head only after it was requested',
  )
})

for (const [what, method, params, value] of [
  ['the state at a finalized block', 'eth_getStorageAt', ['0xa', '0x0', '0x10'], '0x1'],
  ['the state at a finalized block by its number as an object', 'eth_getStorageAt', ['0xa', '0x0', { blockNumber: '0x10' }], '0x1'],
  ['the state at a finalized block by its hash', 'eth_getStorageAt', ['0xa', '0x0', finalHash], '0x1'],
  ['logs of a finalized range', 'eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x10' }], []],
  ['logs of a finalized block by its hash', 'eth_getLogs', [{ blockHash: finalHash }], []],
  ['a receipt in a finalized block', 'eth_getTransactionReceipt', ['0x1'], { logs: [{ blockNumber: '0x10' }], blockNumber: '0x10' }],
] as const) {
  t.test(`caches ${what} over new heads, until a reorg of finalized blocks`, async t => {
    const { state, heads } = createHeads()
    const { clock, request, requests } = openCache({ heads })
    await request(fakeCall(method, params as readonly Json[]), fakeResult(value as Json, { upstream: 'a' }))
    state.headVersion += 1
    clock.advance(86_400_000)
    t.match(await request(fakeCall(method, params as readonly Json[])), { cache: 'hit' })
    state.finalityVersion += 1
    await request(fakeCall(method, params as readonly Json[]))
    t.equal(requests(), 2)
  })
}

for (const [what, method, params, value, upstream] of [
  ['a block that is not finalized', 'eth_getStorageAt', ['0xa', '0x0', '0x11'], '0x1', 'a'],
  ['a block that is not finalized on the node that answered', 'eth_getStorageAt', ['0xa', '0x0', '0x9'], '0x1', 'b'],
  ['`finalized`, which moves', 'eth_getStorageAt', ['0xa', '0x0', 'finalized'], '0x1', 'a'],
  ['a hash that is not known to be finalized', 'eth_getStorageAt', ['0xa', '0x0', `0x${'00'.repeat(32)}`], '0x1', 'a'],
  ['a range that ends above the finalized block', 'eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x11' }], [], 'a'],
  ['a range that ends at the head', 'eth_getLogs', [{ fromBlock: '0x1', toBlock: 'latest' }], [], 'a'],
  ['a receipt in a block that is not finalized', 'eth_getTransactionReceipt', ['0x1'], { blockNumber: '0x11' }, 'a'],
  ['a number above 2^53', 'eth_getStorageAt', ['0xa', '0x0', '0xffffffffffffffff'], '0x1', 'a'],
] as const) {
  t.test(`does not cache an answer about ${what} over a new head`, async t => {
    const { state, heads } = createHeads()
    const { request, requests } = openCache({ heads })
    await request(fakeCall(method, params as readonly Json[]), fakeResult(value as Json, { upstream }))
    state.headVersion += 1
    await request(fakeCall(method, params as readonly Json[]))
    t.equal(requests(), 2)
  })
}

t.test('does not cache an answer of a method without a blockParam in the table over a new head', async t => {
  const { state, heads } = createHeads()
  const { blockParam: _, ...method } = shippedMethods.get('eth_call')!
  const { request, requests } = openCache({ heads, methods: { ...shippedMethods, get: () => method } })
  for (const headVersion of [0, 1]) {
    state.headVersion = headVersion
    await request(fakeCall('eth_call', [{}, '0x1']), fakeResult('0x1', { upstream: 'a' }))
  }
  t.equal(requests(), 2)
})

t.test('a cache hit counts as activity, so that heads are followed', async t => {
  const { state, heads } = createHeads()
  const { request, requests } = openCache({ heads })
  for (let i = 0; i < 3; i++) await request(fakeCall('eth_getStorageAt', ['0xa', '0x0', '0x10']), fakeResult('0x1', { upstream: 'a' }))
  t.same([requests(), state.activities], [1, 2])
})

t.test('a process that may not know what callers were told', async t => {
  const latest = (): Call<ContextKey> => fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest'])
  const final = (): Call<ContextKey> => fakeCall('eth_getStorageAt', ['0xa', '0x0', '0x10'])
  const openLagging = async (sync: (state: ReturnType<typeof createHeads>['state']) => void) => {
    const { state, heads } = createHeads()
    Object.assign(heads, {
      sync: async () => {
        sync(state)
        return !state.mayLag
      },
    })
    const opened = openCache({ heads })
    for (const call of [latest(), final()]) await opened.request(call, fakeResult('old', { upstream: 'a' }))
    state.mayLag = true
    return { ...opened, state }
  }

  t.test('asks first, and answers from memory if nothing is new', async t => {
    const { request, requests } = await openLagging(state => {
      state.mayLag = false
    })
    t.equal(valueOrErrorCode(await request(latest(), fakeResult('new'))), 'old')
    t.equal(requests(), 2)
  })

  t.test('asks first, and then a node if callers were told of a new block', async t => {
    const { request } = await openLagging(state => {
      Object.assign(state, { mayLag: false, headVersion: 1 })
    })
    t.equal(valueOrErrorCode(await request(latest(), fakeResult('new'))), 'new')
  })

  t.test('without an answer it asks a node, and joins no call in flight', async t => {
    const { request, stage } = await openLagging(() => {})
    const { promise, resolve: settle } = deferred<Reply>()
    const before = stage.handle(latest(), () => promise)
    await new Promise(setImmediate)
    t.equal(valueOrErrorCode(await request(latest(), fakeResult('new'))), 'new')
    settle(fakeResult('before'))
    t.equal(valueOrErrorCode(await before), 'before')
  })

  t.test('answers about finalized blocks from memory at once', async t => {
    const { request } = await openLagging(() => t.fail('no need to ask'))
    t.equal(valueOrErrorCode(await request(final(), fakeResult('new'))), 'old')
  })
})

t.test('an answer about a block that became finalized only after the request is not cached as final', async t => {
  const { state, heads } = createHeads()
  const { request, requests, stage } = openCache({ heads })
  const { promise, resolve: settle } = deferred<Reply>()
  const pending = stage.handle(fakeCall('eth_getStorageAt', ['0xa', '0x0', '0x12']), () => promise)
  state.final = { a: 0x20 }
  state.headVersion += 1
  settle(fakeResult('0x1', { upstream: 'a' }))
  await pending
  await request(fakeCall('eth_getStorageAt', ['0xa', '0x0', '0x12']))
  t.equal(requests(), 1)
})

for (const [what, method, params, reply] of [
  ['an error', 'eth_getLogs', [{}], { ...refuse('params'), kind: 'node', source: 'node' }],
  ['null', 'eth_getTransactionReceipt', ['0x1'], fakeResult(null)],
  ['state of the pending block', 'eth_getStorageAt', ['0xa', '0x0', 'pending'], fakeResult('0x1')],
  ['logs of a pending range', 'eth_getLogs', [{ toBlock: 'pending' }], fakeResult([])],
  ['a transaction that is not mined', 'eth_getTransactionReceipt', ['0x1'], fakeResult({ blockHash: null, blockNumber: null })],
  [
    'such a transaction with other white space',
    'eth_getTransactionReceipt',
    ['0x1'],
    { source: 'node', result: Buffer.from('{ "blockNumber" : null }') },
  ],
  ['a result of an unexpected type', 'eth_getStorageAt', ['0xa', '0x0', '0x1'], fakeResult('0x1', { unexpectedType: true })],
  ['a failure of upstreams', 'eth_blockNumber', [], refuse('unavailable')],
  ['a query that took too long', 'eth_getLogs', [{}], refuse('timeout')],
] as const) {
  t.test(`never caches ${what}`, async t => {
    const { request, requests } = openCache()
    await request(fakeCall(method, params as readonly Json[]), reply as Reply)
    await request(fakeCall(method, params as readonly Json[]), reply as Reply)
    t.equal(requests(), 2)
  })
}

t.test('repeats the error of a query with too many results for some seconds, free of charge', async t => {
  const { clock, request, requests } = openCache()
  await request(fakeCall('eth_getLogs', [{}]), refuse('tooMany', { upstream: 'own' }))
  const repeated = await request(fakeCall('eth_getLogs', [{}]))
  t.match(repeated, { kind: 'tooMany', source: 'cache', fault: 'caller', cache: 'hit' })
  t.notOk(isCharged(repeated))
  clock.advance(10_001)
  await request(fakeCall('eth_getLogs', [{}]))
  t.equal(requests(), 2)
})

t.test('repeats the error of a query that is too wide for any node, from a node or from the gateway', async t => {
  const { request, requests } = openCache()
  const wide = {
    ...refuse('params', { category: 'rangeTooWide', upstream: 'own' }),
    kind: 'node',
    source: 'node',
  } as const
  await request(fakeCall('eth_getLogs', [{}]), wide)
  t.match(await request(fakeCall('eth_getLogs', [{}])), { error: { code: -32602 }, source: 'cache', cache: 'hit' })
  await request(fakeCall('eth_getLogs', [{ address: '0x1' }]), { ...wide, kind: 'params', source: 'gateway' })
  t.match(await request(fakeCall('eth_getLogs', [{ address: '0x1' }])), { source: 'cache', cache: 'hit' })
  t.equal(requests(), 2)
})

t.test('repeats no error of a partner: when the outage is over, a node may have the results', async t => {
  const { request } = openCache()
  await request(fakeCall('eth_getLogs', [{}]), refuse('tooMany', { upstream: 'helper', source: 'partner' }))
  t.match(await request(fakeCall('eth_getLogs', [{}]), fakeResult([], { upstream: 'own' })), { source: 'node', cache: 'miss' })
})

t.test('repeats no error of a query that is too wide for one node while another may accept it', async t => {
  const { request } = openCache()
  await request(fakeCall('eth_getLogs', [{}]), refuse('params', { category: 'rangeTooWide', retryElsewhere: true, upstream: 'limited' }))
  t.notOk(isFailure(await request(fakeCall('eth_getLogs', [{}]))))
})

t.test('distinguishes calls whose parameters nest differently', async t => {
  const { request, requests } = openCache()
  for (const params of [[{ topics: [['a', 'b']] }], [{ topics: ['a', 'b'] }], [{ topics: [['a'], 'b'] }], [1, 1], [11]]) {
    await request(fakeCall('eth_getLogs', params))
  }
  t.equal(requests(), 5)
})

t.test('a thousand identical calls in flight make one upstream call, and the log tells which', async t => {
  const log = new TestLog()
  const { stage } = openCache({ log })
  const { promise, resolve: settle } = deferred<Reply>()
  let requests = 0
  const replies = Array.from({ length: 1000 }, () =>
    stage.handle(fakeCall('eth_blockNumber'), () => {
      requests += 1
      return promise
    }),
  )
  settle(fakeResult('0x5'))
  t.ok((await Promise.all(replies)).every(reply => valueOrErrorCode(reply) === '0x5'))
  t.equal(requests, 1)
  t.equal(log.lines.length, 999)
  t.match(log.lines[0], { level: 'debug', fields: { requestId: 'r-1', joinedRequestId: 'r-1' } })
})

t.test('a shared call continues while one caller waits, and is canceled when the last has left', async t => {
  const { stage } = openCache()
  const [first, second] = [new AbortController(), new AbortController()]
  let shared: Signal | undefined
  for (const { signal } of [first, second]) {
    void stage.handle({ ...fakeCall('eth_blockNumber'), origin: fakeOrigin({ signal }) }, call => {
      shared = call.signal
      return new Promise(() => undefined)
    })
  }
  first.abort()
  t.equal(shared?.aborted, false)
  second.abort()
  t.equal(shared?.aborted, true)
  const { promise, resolve: settle } = deferred<Reply>()
  const late = stage.handle(fakeCall('eth_blockNumber'), () => promise)
  settle(fakeResult('0x6'))
  t.equal(valueOrErrorCode(await late), '0x6', 'no call joins a canceled one')
})

t.test('nothing about the pending block is shared, nor what some nodes take as that', async t => {
  const { stage } = openCache()
  for (const [method, params] of [
    ['eth_getStorageAt', ['0xa', '0x0', 'pending']],
    ['eth_getLogs', [{ fromBlock: '0x1', toBlock: 'pending' }]],
    ['eth_estimateGas', [{}]],
    ['eth_estimateGas', [{}, null]],
  ] as const) {
    const { promise, resolve: settle } = deferred<Reply>()
    let requests = 0
    const next = () => {
      requests += 1
      return promise
    }
    const replies = [1, 2, 3].map(() => stage.handle(fakeCall(method, params), next))
    settle(fakeResult('0x1'))
    await Promise.all(replies)
    t.equal(requests, 3, `${method} ${JSON.stringify(params)}`)
  }
})

t.test('no call joins one that began before a transaction may have been accepted', async t => {
  const accepted = fakeResult('0xhash')
  for (const [what, outcome, isJoined] of [
    ['an accepted transaction', accepted, false],
    ['a node that failed after it got the transaction', refuse('unavailable'), false],
    ['a caller who left after a node got the transaction', refuse('unavailable', { source: 'node', fault: 'caller' }), false],
    ['a caller who left before', refuse('unavailable', { source: 'gateway', fault: 'caller' }), true],
    ['a transaction that the node refused', { ...refuse('params'), kind: 'node', source: 'node' } as Reply, true],
    ['a transaction that the gateway refused', refuse('params'), true],
  ] as const) {
    const { stage, request, requests } = openCache()
    const { promise, resolve: settle } = deferred<Reply>()
    const before = stage.handle(fakeCall('eth_getTransactionReceipt', ['0x1']), () => promise)
    await request(fakeCall('eth_sendRawTransaction', ['0x02']), outcome)
    const after = request(fakeCall('eth_getTransactionReceipt', ['0x1']), fakeResult('after'))
    const later = request(fakeCall('eth_getTransactionReceipt', ['0x1']), fakeResult('later'))
    settle(fakeResult('before'))
    const seen = (await Promise.all([before, after, later])).map(valueOrErrorCode)
    t.same(seen, isJoined ? ['before', 'before', 'before'] : ['before', 'after', 'after'], what)
    t.equal(requests(), isJoined ? 1 : 2)
  }
})

t.test('a transaction ends the answers from before that may change where blocks come faster than polls', async t => {
  const network = { name: 'fast', chainId: 1, blockTime: 100, devNode: false }
  const transaction = fakeCall('eth_sendRawTransaction', ['0x02'])
  for (const [what, given, outcome, isAskedAgain] of [
    ['an accepted transaction', { network }, fakeResult('0xhash'), true],
    ['a transaction that the gateway refused', { network }, refuse('params'), false],
    ['a transaction on a network that is polled more than once a block', {}, fakeResult('0xhash'), false],
  ] as const) {
    const { stage, request, requests } = openCache(given)
    const slot = (address: string) => fakeCall('eth_getStorageAt', [address, '0x0', 'latest'])
    const { promise, resolve: settle } = deferred<Reply>()
    await request(slot('0xa'), fakeResult('0x1'))
    const slow = stage.handle(slot('0xb'), () => promise)
    await request(transaction, outcome)
    settle(fakeResult('0x1'))
    await slow
    for (const address of ['0xa', '0xb']) {
      t.equal(valueOrErrorCode(await request(slot(address), fakeResult('0x2'))), isAskedAgain ? '0x2' : '0x1', `${what}, ${address}`)
    }
    const asked = requests()
    await request(slot('0xa'))
    t.equal(requests(), asked, 'an answer from after the transaction is cached')
  }
})

t.test('nothing of a development node is cached or shared, whatever block it is about', async t => {
  const { request, requests } = openCache({ network: { name: 'dev', chainId: 31337, blockTime: 1000, devNode: true } })
  const calls = [
    fakeCall('eth_blockNumber'),
    fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest']),
    fakeCall('eth_getStorageAt', ['0xa', '0x0', '0x1']),
    fakeCall('eth_getTransactionReceipt', ['0x1']),
  ]
  for (const [i, call] of calls.entries()) {
    await Promise.all([request(call, fakeResult({ blockNumber: '0x1' })), request(call, fakeResult({ blockNumber: '0x1' }))])
    t.notOk('cache' in (await request(call)))
    t.equal(requests(), 3 * (i + 1))
  }
})

t.test('calls of a method with the policy `never` are never shared', async t => {
  const { request, requests } = openCache()
  for (let i = 0; i < 2; i++) t.notOk('cache' in (await request(fakeCall('eth_sendRawTransaction', ['0x1']))))
  t.equal(requests(), 2)
})

t.test('stays within maxBytes and the share of the machine', async t => {
  const { request, requests } = openCache({ cacheBytes: 8192 })
  const slot = (i: number) => fakeCall('eth_getStorageAt', ['0xa', i, 'latest'])
  const big = fakeResult('0'.repeat(1500))
  for (let i = 0; i < 20; i++) await request(slot(i), big)
  t.equal(requests(), 20)
  await request(slot(19), big)
  t.equal(requests(), 20, 'the newest entry is cached')
  await request(slot(0), big)
  t.equal(requests(), 21, 'the oldest entry was evicted')
})

t.test('the memory of a long result', async t => {
  const mib = 1 << 20
  const longReply = (byteLength: number) => {
    const { result, memory } = createLongResult(byteLength)
    return { reply: { ...fakeResult('0'), result } as Reply, memory }
  }

  t.test('is freed when each caller of a shared call has released it', async t => {
    const { stage } = openCache()
    const { reply, memory } = longReply(mib)
    const { promise, resolve: settle } = deferred<Reply>()
    const replies = Array.from({ length: 3 }, () => stage.handle(fakeCall('eth_getLogs', [{}]), () => promise))
    settle(reply)
    await Promise.all(replies)
    for (const isLast of [false, false, true]) {
      memory.release()
      t.equal(memory.isFreed, isLast)
    }
  })

  t.test('is held while it is cached, and by each caller who gets it from the cache', async t => {
    const { request } = openCache({ cacheBytes: 8 * mib }, { maxBytes: 8 * mib })
    const { reply, memory } = longReply(1.5 * mib)
    const ask = (i: number, given = reply) => request(fakeCall('eth_getStorageAt', ['0xa', i, 'latest']), given)
    await ask(0)
    memory.release()
    t.equal(toBuffer(((await ask(0)) as Result).result).length, 1.5 * mib)
    for (let i = 1; i < 6; i++) await ask(i, longReply(1.5 * mib).reply)
    t.notOk(memory.isFreed, 'the entry was removed, and a caller has the result')
    memory.release()
    t.ok(memory.isFreed)
  })

  t.test('is held by an entry that expires while it is stored', async t => {
    let now = 0
    const clock = Object.assign(new TestClock(), { monotonic: () => (now += 300) })
    const { request } = openCache({ clock, cacheBytes: 8 * mib }, { maxBytes: 8 * mib })
    const { reply, memory } = longReply(1.5 * mib)
    const ask = (given: Reply) => request(fakeCall('eth_call', [{}, 'latest']), given)
    await ask({ ...reply, upstream: 'a' })
    await ask(fakeResult('0x1', { upstream: 'a' }))
    t.notOk(memory.isFreed, 'the entry was removed, and the caller has the result')
    memory.release()
    t.ok(memory.isFreed)
  })

  t.test('is not held where the result is too long to be cached', async t => {
    const { request } = openCache({ cacheBytes: 4 * mib }, { maxBytes: 4 * mib })
    const { reply, memory } = longReply(1.5 * mib)
    await request(fakeCall('eth_getStorageAt', ['0xa', 1, 'latest']), reply)
    memory.release()
    t.ok(memory.isFreed)
  })
})

t.test('the options override the policy of a method, and refuse methods that are not in the table', async t => {
  const { request, requests } = openCache({}, { methods: { eth_blockNumber: 'never' } })
  await request(fakeCall('eth_blockNumber'))
  await request(fakeCall('eth_blockNumber'))
  t.equal(requests(), 2)
  t.throws(() => openCache({}, { methods: { eth_blokNumber: 'never' } }), { name: 'Misconfigured', message: /eth_blokNumber/ })
})

t.test('callers for whom two plugins vary never share an answer, whatever text the plugins return', async t => {
  const varying = (header: string) =>
    definePlugin({
      name: header,
      summary: 'Varies by a header.',
      options: { type: 'object', properties: {} },
      vary: (_context, _options, { headers }) => String(headers[header]),
      create: () => (call, next) => next(call),
    })
  const gateway = await harness({
    pipeline: '- cache: {}\n- a: {}\n- b: {}',
    plugins: [varying('a'), varying('b')],
    upstream: { eth_gasPrice: { result: '0x1' } },
  })
  const cacheOf = async (headers: Record<string, string>) => (await gateway.call('eth_gasPrice', [], { headers })).cache
  t.same([await cacheOf({ a: 'x\n', b: 'y' }), await cacheOf({ a: 'x\n', b: 'y' })], ['miss', 'hit'])
  t.same([await cacheOf({ a: 'x', b: '\ny' }), await cacheOf({ a: 'x', b: 'y' })], ['miss', 'miss'])
  await gateway.stop()
})
