import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { readSuggestedRange, suggestRange } from '../../../plugins/upstream/too-many-results.ts'
import { ChunkedBytes } from '../../../src/json/chunked-bytes.ts'
import type { Call, Json, ContextKey, Request } from '../../../src/plugin/call.ts'
import { activityOf } from '../../../src/plugin/internal.ts'
import { isCharged, isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Result, Reply, RpcError } from '../../../src/plugin/reply.ts'
import type { RequestOptions } from '../../../src/services/index.ts'
import { blockSelectorOf } from '../../../src/services/method-table/block-selector.ts'
import { createLongResult } from '../../support/long-result.ts'
import { fakeCall, fakeResult, fakeTarget, valueOrErrorCode } from '../../support/fakes.ts'
import { openUpstream } from './upstream-fixture.ts'

/** The plugin's reply where the node's reply is this. */
const handle = (call: Call<ContextKey>, reply: Reply, inspect?: (options: RequestOptions) => void): Promise<Reply> =>
  openUpstream(async (_target, _request, requestOptions) => (inspect?.(requestOptions), reply))(call)

const nodeError = (error: RpcError): Failure => ({ kind: 'node', error, fault: 'caller', status: 200, source: 'node', upstream: 'own' })

t.test('the response of a node', async t => {
  t.test("the contract's time bounds the query where the method has one", async t => {
    await handle(fakeCall('eth_getLogs', [{}]), fakeResult([]), ({ timeoutMs }) => t.equal(timeoutMs, 10_000))
    await handle(fakeCall('eth_call'), fakeResult(1), ({ timeoutMs }) => t.equal(timeoutMs, 30_000))
  })

  t.test('a node that waits for a block has that time beside the usual one, and is not taken for hung meanwhile', async t => {
    const limitsOf = async (...params: Json[]) => {
      let limits: RequestOptions | undefined
      await handle(fakeCall('eth_sendRawTransactionSync', ['0x12', ...params]), fakeResult({}), options => (limits = options))
      return [limits?.timeoutMs, limits?.livenessProbe?.afterMs, limits?.waits]
    }
    t.same(await limitsOf(), [90_000, 62_000, true])
    t.same(await limitsOf(5_000), [35_000, 7_000, true])
    t.same(await limitsOf('0x1388'), [35_000, 7_000, true])
    t.same(await limitsOf(0), [90_000, 62_000, true])
    t.same(await limitsOf(Number.MAX_SAFE_INTEGER), [90_000, 62_000, true])
    await handle(fakeCall('eth_call'), fakeResult(1), ({ waits }) => t.equal(waits, false))
  })

  t.test("a live node that is too slow: another node may be faster; in the contract's words for eth_getLogs", async t => {
    const timeout = refuse('timeout', { fault: 'upstream', upstream: 'own', source: 'node' })
    t.match(await handle(fakeCall('eth_getLogs', [{}]), timeout), {
      error: { code: -32005, message: 'query timeout exceeded' },
      fault: 'upstream',
      category: 'timeout',
      retryElsewhere: true,
      upstream: 'own',
    })
    t.match(await handle(fakeCall('eth_call'), timeout), {
      error: { code: -32002 },
      fault: 'upstream',
      status: 503,
      retryElsewhere: true,
      retryAfter: 1,
    })
  })

  const wrong = { kind: 'unavailable', fault: 'upstream', source: 'node', upstream: 'own', retryElsewhere: true, cause: /^wrong result: / }
  const hash = (n: number) => `0x${n.toString(16).padStart(64, 'a')}`
  const resultOf = async (method: string, params: readonly Json[], value: Json) =>
    handle(fakeCall(method, params), fakeResult(value, { upstream: 'own', ...{ count: Array.isArray(value) ? value.length : undefined } }))
  const isAccepted = async (method: string, params: readonly Json[], value: Json): Promise<boolean> => {
    const reply = await resultOf(method, params, value)
    if (isFailure(reply)) t.match(reply, wrong)
    else t.same(valueOrErrorCode(reply), value)
    return !isFailure(reply)
  }

  t.test('that is no storage value or no height reaches no caller (contract 4.2)', async t => {
    for (const value of [null, {}, 'x', 5, '0x', '0xffffffffffffffffffff', [], true])
      t.notOk(await isAccepted('eth_blockNumber', [], value), `${value}`)
    for (const value of [null, {}, 'x', 5, '0xzz', [], true, '0X1', `0x${'0'.repeat(65)}`, `0x${'ab'.repeat(33)}`])
      t.notOk(await isAccepted('eth_getStorageAt', [], value), `${value}`)
    t.ok(await isAccepted('eth_blockNumber', [], '0x10'))
    t.ok(await isAccepted('eth_getStorageAt', [], `0x${'ab'.repeat(32)}`))
    t.ok(await isAccepted('eth_getTransactionReceipt', [], null))
  })

  t.test('has the type that the method table says', async t => {
    const address = `0x${'1'.repeat(40)}`
    const wrong: Readonly<Record<string, readonly Json[]>> = {
      eth_getBalance: [null, 1e300, '0x', '1', '0xzz', `0x${'1'.repeat(65)}`, {}, [], true],
      eth_call: [null, 5, 'x', '0xzz', `0x${'z'.repeat(300)}`, {}, []],
      eth_sendRawTransaction: [null, '0x12', `0x${'1'.repeat(300)}`, {}],
      eth_getBlockTransactionCountByHash: ['0x', 1, {}, false],
      eth_feeHistory: [null, 'x', []],
      eth_simulateV1: [null, 'x', {}],
    }
    for (const [name, values] of Object.entries(wrong))
      for (const value of values) t.notOk(await isAccepted(name, [address], value), `${name} ${JSON.stringify(value)}`)
    for (const value of ['0x5', 7, [1], true]) {
      for (const name of ['eth_getBlockByNumber', 'eth_getTransactionByBlockNumberAndIndex'])
        t.notOk(await isAccepted(name, ['latest', '0x0'], value), `${name} ${JSON.stringify(value)}`)
    }
    for (const value of ['0x5', 7, {}]) t.notOk(await isAccepted('eth_getBlockReceipts', ['latest'], value), JSON.stringify(value))
    for (const value of [null, []]) t.ok(await isAccepted('eth_getBlockReceipts', ['latest'], value))
    t.ok(await isAccepted('eth_getBlockByNumber', ['latest', false], { number: '0x1' }))
    t.ok(await isAccepted('debug_traceBlockByNumber', ['latest'], null))
    t.ok(await isAccepted('eth_getBalance', [address, 'latest'], '0xAb'))
    t.ok(await isAccepted('eth_call', [{}, 'latest'], '0x'))
    t.ok(await isAccepted('eth_call', [{}, 'latest'], `0x${'ab'.repeat(300)}`))
    t.ok(await isAccepted('eth_getBlockTransactionCountByHash', [hash(1)], null))
    t.ok(await isAccepted('eth_syncing', [], false))
  })

  t.test('that are logs is a list', async t => {
    for (const value of [null, {}, 'x', 5, true]) t.notOk(await isAccepted('eth_getLogs', [{}], value), `${value}`)
    t.ok(await isAccepted('eth_getLogs', [{}], []))
  })

  t.test('of a partner has the logs of one branch, in order, each once', async t => {
    const log = (block: Json, index: Json, over = {}) => ({
      address: hash(1),
      blockNumber: block,
      blockHash: hash(Number(block)),
      logIndex: index,
      ...over,
    })
    const right = [log('0x1', '0x0'), log('0x1', '0x2', { removed: false }), log('0x3', '0x1'), log('0x10', '0x0')]
    const pending = log(null, null, { blockHash: null })
    for (const [logs, isRight] of [
      [right, true],
      [[], true],
      [[pending, pending], true],
      [[...right, log('0x11', '0x0', { removed: true })], false],
      [[...right, log('0x10', '0x0')], false],
      [[log('0x1', '0x1'), log('0x1', '0x0')], false],
      [[log('0x2', '0x0'), log('0x1', '0x1')], false],
      [[log('0x1', '0x0'), log('0x1', '0x1', { blockHash: hash(9) })], false],
    ] as const) {
      const reply = async (source: 'node' | 'partner') =>
        handle(fakeCall('eth_getLogs', [{}]), fakeResult(logs, { source, upstream: 'own', ...{ count: logs.length } }))
      const partnerReply = await reply('partner')
      if (isRight) t.same(valueOrErrorCode(partnerReply), logs)
      else t.match(partnerReply, { ...wrong, source: 'partner' })
      t.same(valueOrErrorCode(await reply('node')), logs, 'an own node is followed')
    }
  })

  t.test('has no log outside the requested blocks or addresses, wherever it stands and however it is written', async t => {
    const [own, other, third] = ['a1', 'b2', 'c3'].map(byte => `0x${byte.repeat(20)}`) as [string, string, string]
    const log = (block: Json, address = own, over = {}) => ({
      address,
      topics: [],
      data: '0x',
      blockNumber: block,
      blockHash: hash(5),
      ...over,
    })
    const range = { fromBlock: '0x10', toBlock: '0x20', address: own }
    for (const [filter, logs, isRight] of [
      [range, [log('0x10'), log('0x18'), log('0x20')], true],
      [range, [log('0xf')], false],
      [range, [log('0x10'), log('0x21')], false],
      [range, [log('0x18', other)], false],
      [range, [log('0x18', own.toUpperCase().replace('X', 'x'))], true],
      [range, [log(null)], false],
      [range, [log('')], false],
      [range, [log('0x')], false],
      [range, [log('0x18'), { address: own }], false],
      [range, [log('0x18'), 5], false],
      [range, [log('0x18', own, { nested: { blockNumber: '0x99', address: other } })], true],
      [range, [log('0x99', own, { nested: { blockNumber: '0x18' } })], false],
      [range, [log('0x18', own, { text: 'blockNumber', more: '"blockNumber":"0x99"' })], true],
      [{ ...range, address: [own, other] }, [log('0x18', other), log('0x18'), log('0x18', other)], true],
      [{ ...range, address: [own, other] }, [log('0x18', other), log('0x18', third)], false],
      [{ ...range, address: [] }, [log('0x18', third)], true],
      [{ fromBlock: '0x10' }, [log('0x10', third), log('0xffffffffffff')], true],
      [{ toBlock: '0x10' }, [log('0x11')], false],
      [{ fromBlock: 'earliest', toBlock: 'latest' }, [log('0x11')], true],
      [{ fromBlock: 'latest', toBlock: 'pending' }, [log(null)], true],
      [{ blockHash: hash(5) }, [log('0x1'), log('0x1')], true],
      [{ blockHash: hash(5) }, [log('0x1'), log('0x1', own, { blockHash: hash(6) })], false],
    ] as const)
      t.equal(await isAccepted('eth_getLogs', [filter], logs), isRight, JSON.stringify([filter, logs]))
    const escaped = `[{"address":"${own}","bl\\u006fckNumber":"0x99","blockNumber":"0x18"}]`
    const spaced = `[ { "blockNumber" :\n"0x18" , "address"\t: "${own}" }, {"blockNumber":"0x21","address":"${own}"} ]`
    for (const [text, isRight] of [
      [spaced, false],
      [spaced.replace('0x21', '0x20'), true],
      [escaped, true],
    ] as const) {
      const result: Result = { source: 'node', upstream: 'own', result: Buffer.from(text), count: text === escaped ? 1 : 2 }
      const reply = await handle(fakeCall('eth_getLogs', [range]), result)
      t.equal(!isFailure(reply), isRight, text)
    }
  })

  t.test('has no such log among 10,000, in whatever chunks they came', async t => {
    const range = { fromBlock: '0x1', toBlock: '0x2710', address: `0x${'a1'.repeat(20)}` }
    const all = Array.from({ length: 10_000 }, (_, i) => ({
      address: range.address,
      topics: Array.from({ length: i % 5 }, () => hash(i)),
      data: `0x${'00'.repeat((i * 7919) % 640)}`,
      blockNumber: `0x${(i + 1).toString(16)}`,
      removed: false,
    }))
    const accepts = async (logs: readonly Json[], chunkBytes: number) => {
      const bytes = Buffer.from(JSON.stringify(logs))
      const chunks = Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, i) =>
        bytes.subarray(i * chunkBytes, (i + 1) * chunkBytes),
      )
      const result: Result = { source: 'node', upstream: 'own', result: new ChunkedBytes(chunks), count: logs.length }
      return !isFailure(await handle(fakeCall('eth_getLogs', [range]), result))
    }
    for (const chunkBytes of [65_536, 16_385]) {
      t.ok(await accepts(all, chunkBytes))
      for (const at of [0, 5000, 9999]) {
        for (const over of [
          { blockNumber: '0x2711' },
          { blockNumber: '0x0' },
          { address: `0x${'a2'.repeat(20)}` },
          { blockNumber: null },
        ]) {
          t.notOk(await accepts(all.with(at, { ...all[at]!, ...over } as never), chunkBytes), `${at} ${JSON.stringify(over)}`)
        }
      }
    }
  })

  t.test('is the block, the transaction or the receipt that was requested, or null', async t => {
    const [one, two] = [hash(1), hash(2)]
    for (const [method, params, right, other] of [
      ['eth_getBlockByNumber', ['0x10', false], { hash: one, number: '0x10' }, { hash: one, number: '0x11' }],
      ['eth_getBlockByHash', [one, true], { transactions: [{ hash: two }], hash: one }, { hash: two }],
      ['eth_getTransactionByHash', [one], { blockHash: two, hash: one.toUpperCase().replace('X', 'x') }, { blockHash: one, hash: two }],
      ['eth_getTransactionReceipt', [one], { logs: [{ transactionHash: two }], transactionHash: one }, { transactionHash: two }],
      ['eth_getTransactionByBlockNumberAndIndex', ['0x10', '0x0'], { blockNumber: '0x10', hash: two }, { blockNumber: '0x1', hash: two }],
      ['eth_getTransactionByBlockHashAndIndex', [one, '0x0'], { blockHash: one, hash: two }, { blockHash: two, hash: one }],
      ['eth_getBlockReceipts', ['0x10'], [{ logs: [{ blockNumber: '0x9' }], blockNumber: '0x10' }], [{ blockNumber: '0x11' }]],
      ['eth_getBlockReceipts', [one], [{ blockHash: one }, {}], [{ blockHash: two }]],
      ['eth_getBlockReceipts', [{ blockHash: one }], [], [{}]],
    ] as const) {
      t.ok(await isAccepted(method, params, right), method)
      t.notOk(await isAccepted(method, params, other), method)
      t.ok(await isAccepted(method, params, null), method)
      for (const value of ['x', 5, {}, [5], [right], [[right]]])
        t.notOk(await isAccepted(method, params, value), `${method} ${JSON.stringify(value)}`)
    }
    for (const tag of ['latest', 'pending', 'safe', 'finalized', 'earliest']) {
      t.ok(await isAccepted('eth_getBlockByNumber', [tag, false], { number: tag === 'pending' ? null : '0x99', hash: one }), tag)
    }
  })

  t.test('a storage word shorter than 32 bytes is left-padded', async t => {
    const word = async (value: Json) => valueOrErrorCode(await handle(fakeCall('eth_getStorageAt'), fakeResult(value)))
    t.equal(await word('0x1'), `0x${'1'.padStart(64, '0')}`)
    t.equal(await word('0x'), `0x${'0'.repeat(64)}`)
    t.equal(await word(`0x${'ab'.repeat(32)}`), `0x${'ab'.repeat(32)}`)
  })

  t.test('a silent node is probed once, however many calls wait', async t => {
    let probes = 0
    const waiting: RequestOptions[] = []
    const send = openUpstream(async (_target, request, requestOptions) => {
      if (request.method === 'eth_blockNumber') probes += 1
      else waiting.push(requestOptions)
      return fakeResult('0x1')
    })
    for (let i = 0; i < 5; i++) await send(fakeCall('eth_call'))
    const alive = await Promise.all(waiting.map(({ livenessProbe }) => livenessProbe?.isAlive()))
    t.same(alive, [true, true, true, true, true])
    t.equal(probes, 1)
  })

  t.test('is waited for as long as is usual for the node and the class before the node is probed', async t => {
    const probeAfterOf = async (latencyMs: number, calls: number, probeAfter: number | 'auto' = 'auto') => {
      const target = { ...fakeTarget }
      for (let i = 0; i < calls; i++) activityOf(target).latencyOf('execution').record(0, latencyMs)
      for (let i = 0; i < calls; i++) activityOf(target).latencyOf('light').record(0, 1)
      let afterMs = 0
      const respond = async (_target: unknown, _request: unknown, { livenessProbe }: RequestOptions) => (
        (afterMs = livenessProbe?.afterMs ?? 0), fakeResult('0x1')
      )
      await openUpstream(respond, {}, { probeAfter })(fakeCall('eth_call', [], { target }))
      return Math.round(afterMs / 10) * 10
    }
    t.equal(await probeAfterOf(200, 15), 250, 'too few calls')
    t.equal(await probeAfterOf(200, 100), 400)
    t.equal(await probeAfterOf(5, 100), 100, 'no sooner')
    t.equal(await probeAfterOf(5000, 100), 2000, 'no later')
    t.equal(await probeAfterOf(5000, 100, 30), 30, "the operator's time")
  })

  t.test('a silent node that is rate limiting or erroring is alive; a node that does not respond is not', async t => {
    const isAlive = async (probeReply: Reply) => {
      const allOptions: RequestOptions[] = []
      const respond = async (_target: unknown, { method }: Request, requestOptions: RequestOptions) => (
        allOptions.push(requestOptions), method === 'eth_call' ? fakeResult('0x1') : probeReply
      )
      await openUpstream(respond)(fakeCall('eth_call'))
      return allOptions[0]?.livenessProbe?.isAlive()
    }
    const noResponse = refuse('unavailable', { source: 'node', cause: 'connection refused' })
    t.equal(await isAlive({ ...noResponse, category: 'rateLimited', cause: 'HTTP 429' }), true)
    t.equal(await isAlive(nodeError({ code: -32603, message: 'internal error' })), true)
    t.equal(await isAlive(noResponse), false)
  })
})

t.test('a query over blocks with maxBlocks', async t => {
  const [canonical, replaced] = [`0x${'ab'.repeat(32)}`, `0x${'cd'.repeat(32)}`] as const
  const heights: Readonly<Record<string, number>> = { latest: 5_000, finalized: 4_500, [canonical]: 18, [replaced]: 18, '0x12': 18 }
  /** The reply to trace_filter, and what the node was asked. */
  const trace = async (filter: Json, head?: number) => {
    const requests: Request[] = []
    const respond = async (_target: unknown, request: Request) => {
      requests.push(request)
      if (request.method === 'trace_filter') return fakeResult([])
      const [block] = request.params
      const number = heights[String(block)]
      const hash = block === replaced ? replaced : canonical
      return fakeResult(number === undefined ? null : { number: `0x${number.toString(16)}`, hash })
    }
    const heads = { snapshot: { head }, tags: { blockFor: () => undefined } }
    const reply = await openUpstream(respond, { heads })(fakeCall('trace_filter', [filter]))
    return { reply, asked: requests.map(({ params: [param] }) => param) }
  }
  const fits = async (t: Test, filter: Json, sent: Json, ...blocks: readonly Json[]) => {
    const { reply, asked } = await trace(filter)
    t.same(valueOrErrorCode(reply), [])
    t.same(asked, [...blocks, sent])
  }

  t.test('is sent with its first and last block as numbers, a missing one as that of the latest block', async t => {
    await fits(t, { fromBlock: '0x1', toBlock: '0x3e8', count: 5 }, { fromBlock: '0x1', toBlock: '0x3e8', count: 5 })
    await fits(t, {}, { fromBlock: '0x1388', toBlock: '0x1388' }, 'latest')
    await fits(t, { fromBlock: '0x1388' }, { fromBlock: '0x1388', toBlock: '0x1388' }, 'latest')
    await fits(t, { fromBlock: 'earliest', toBlock: '0x5' }, { fromBlock: '0x0', toBlock: '0x5' })
    await fits(t, { fromBlock: 'finalized', toBlock: 'pending' }, { fromBlock: '0x1194', toBlock: '0x1388' }, 'latest', 'finalized')
  })

  t.test('is sent with the number of its blockHash, which many nodes ignore, unless the block was replaced or is unknown', async t => {
    await fits(t, { blockHash: canonical, count: 5 }, { count: 5, fromBlock: '0x12', toBlock: '0x12' }, canonical, '0x12')
    for (const [blockHash, ...blocks] of [[replaced, '0x12'], [`0x${'ef'.repeat(32)}`]] as const) {
      const { reply, asked } = await trace({ blockHash })
      t.match(reply, { error: { code: -32602, message: 'unknown block' }, category: 'blockNotFound', retryElsewhere: true })
      t.ok(isCharged(reply))
      t.same(asked, [blockHash, ...blocks])
    }
  })

  t.test('is refused without charge, with a range that fits, when it is wider, before a node scans a block', async t => {
    const isTooWide = async (filter: Json, message: string, data: Json) => {
      const { reply, asked } = await trace(filter)
      t.match(reply, { kind: 'params', error: { code: -32602, message: `the query is too wide: ${message}`, data } })
      t.notOk(isCharged(reply))
      t.notOk(asked.some(param => typeof param === 'object'))
    }
    const most = 'more than the 1000 that can be requested at once'
    await isTooWide({ fromBlock: '0x1', toBlock: '0x3e9' }, `1001 blocks, ${most}`, { from: '0x1', to: '0x3e8' })
    await isTooWide({ fromBlock: 'earliest' }, `5001 blocks, ${most}`, { from: '0x0', to: '0x3e7' })
    await isTooWide({ fromBlock: '0x0', toBlock: '0xffffffffffffffff' }, `9007199254740992 blocks, ${most}`, { from: '0x0' })
  })

  t.test('is refused without a request where the head is known', async t => {
    for (const filter of [{ fromBlock: 'earliest', toBlock: 'latest' }, { fromBlock: '0x1' }, { fromBlock: '0x1', toBlock: 'pending' }]) {
      const { reply, asked } = await trace(filter, 5_000)
      t.equal(valueOrErrorCode(reply), -32602)
      t.same(asked, [])
    }
  })

  t.test('is sent to another node when this one does not have the block of a tag', async t => {
    const { reply } = await trace({ fromBlock: 'safe' })
    t.match(reply, { kind: 'unavailable', retryElsewhere: true, cause: 'upstream has no block "safe"' })
  })
})

t.test('the error of a node', async t => {
  const filter = { fromBlock: '0x1', toBlock: '0xffffff' }
  const stateError = (error: RpcError) => handle(fakeCall('eth_getStorageAt', ['0xa', '0x0', 'latest']), nodeError(error))

  t.test("what concerns the gateway's account at a provider is not shown to the caller, and has a Retry-After", async t => {
    for (const [code, message, data, retryAfter, category] of [
      [429, 'Too Many Requests', undefined, undefined, 'rateLimited'],
      [-32005, 'project ID request rate exceeded', { backoff_seconds: 29.5, see: 'https://x' }, 30, 'rateLimited'],
      [-32005, 'daily request count exceeded, request rate limited', { rate: { backoff_seconds: 7 } }, 7, 'rateLimited'],
      [-32005, 'request rate exceeded', { backoff_seconds: 86_400 }, 60, 'rateLimited'],
      [-32600, 'Must be authenticated!', undefined, undefined, 'unauthorized'],
      [-32011, 'no backend is currently healthy to serve traffic', undefined, undefined, 'noBackend'],
    ] as const) {
      const reply = (await stateError(data === undefined ? { code, message } : { code, message, data })) as Failure
      t.match(reply, {
        kind: 'unavailable',
        fault: 'upstream',
        category,
        status: 503,
        error: { code: -32002, message: 'no upstream can answer now' },
      })
      t.equal(reply.retryAfter, retryAfter)
      t.notOk(`${reply.cause}`.includes(message), 'a provider may quote the API key')
      t.notOk(isCharged(reply))
    }
  })

  t.test('takes precedence over the HTTP status, unless both say that the node is unhealthy', async t => {
    const with503 = (code: number, message: string) =>
      handle(fakeCall('eth_getLogs', [{}]), {
        ...refuse('unavailable', { source: 'node', cause: 'HTTP 503' }),
        nodeError: { code, message },
      })
    t.match(await with503(-32000, 'Query timeout exceeded.'), {
      kind: 'timeout',
      fault: 'upstream',
      error: { code: -32005, message: 'query timeout exceeded' },
    })
    t.match(await with503(-32000, 'header not found'), {
      kind: 'node',
      retryElsewhere: true,
      status: 200,
      error: { code: -32000, message: 'header not found' },
    })
    t.match(await with503(429, '25/second request limit reached'), { kind: 'unavailable', category: 'rateLimited' })
    for (const [code, message] of [
      [-32603, 'Internal error'],
      [-32000, 'bad gateway'],
      [-32600, 'Must be authenticated!'],
      [-32005, 'overloaded'],
      [1, 'who knows'],
    ] as const) {
      t.match(await with503(code, message), {
        kind: 'unavailable',
        fault: 'upstream',
        cause: 'HTTP 503',
        retryElsewhere: undefined,
        category: undefined,
      })
    }
  })

  t.test('a rate limit over HTTP passes unchanged', async t => {
    const limited = refuse('unavailable', { source: 'node', category: 'rateLimited', retryAfter: 3, cause: 'HTTP 429' })
    t.strictSame(await handle(fakeCall('eth_call'), limited), limited)
  })

  t.test('has its data whatever its length when it is a revert; other data is left out above 4,096 characters', async t => {
    const long = `0x${'ab'.repeat(100_000)}`
    const dataOf = async (error: RpcError) => ((await stateError(error)) as Failure).error.data
    t.equal(await dataOf({ code: 3, message: 'execution reverted', data: long }), long)
    t.equal(await dataOf({ code: -32000, message: 'execution reverted', data: long }), long)
    for (const [code, message] of [
      [7, 'whatever'],
      [-32000, 'header not found'],
      [-32602, 'invalid argument'],
      [-32603, 'Internal error'],
    ] as const) {
      t.equal(await dataOf({ code, message, data: long }), undefined, message)
      t.same(await dataOf({ code, message, data: { hint: 'x' } }), { hint: 'x' }, message)
      t.equal(await dataOf({ code, message, data: 'x'.repeat(4094) }), 'x'.repeat(4094), message)
    }
  })

  t.test('a result with too many logs is freed', async t => {
    const { result, memory } = createLongResult(300_000)
    const reply: Reply = { ...fakeResult('0'), result, count: 10_001 } as Result
    t.match(await handle(fakeCall('eth_getLogs', [filter]), reply), { kind: 'tooMany' })
    t.ok(memory.isFreed)
  })

  t.test('a truncated result is a failure: of a query that is too much for the node, or of the node', async t => {
    const truncated = (category?: 'tooMany' | 'timeout') => ({
      ...refuse('unavailable', { source: 'node', upstream: 'own', cause: 'result truncated' }),
      ...(category && { category }),
    })
    t.match(await handle(fakeCall('eth_getLogs', [filter]), truncated('tooMany')), {
      kind: 'tooMany',
      error: { code: -32005, message: 'query returned more than 10000 results', data: { limit: 10_000 } },
      fault: 'caller',
    })
    t.match(await handle(fakeCall('eth_getLogs', [filter]), truncated('timeout')), {
      kind: 'timeout',
      error: { code: -32005, message: 'query timeout exceeded' },
    })
    t.match(await handle(fakeCall('eth_getLogs', [filter]), truncated()), { kind: 'unavailable', fault: 'upstream' })
    t.match(await handle(fakeCall('eth_getBlockReceipts'), truncated('tooMany')), { kind: 'unavailable', fault: 'upstream' })
  })
})

/** The blocks that a filter selects. */
const blocksOf = (filter: Json) => blockSelectorOf({ blockParam: 0 }, [filter])

t.test('the range suggested for a query with too many results', async t => {
  const logs = (...blocks: number[]) => Buffer.from(JSON.stringify(blocks.map(n => ({ topics: [], blockNumber: `0x${n.toString(16)}` }))))
  t.test('ends before the block of the first log that does not fit', async t => {
    t.same(suggestRange(logs(5, 5, 6, 7, 7), 3, blocksOf({})), { from: '0x5', to: '0x6', limit: 3 })
    t.same(suggestRange(logs(5, 5, 7, 7), 3, blocksOf({ fromBlock: '0x2' })), { from: '0x2', to: '0x6', limit: 3 })
  })
  t.test('is missing when one block holds too many logs, or blocks cannot be read', async t => {
    t.same(suggestRange(logs(5, 5, 5, 5), 3, blocksOf({ fromBlock: '0x5' })), { limit: 3 })
    t.same(suggestRange(Buffer.from('[1,2,3,4]'), 3, blocksOf({})), { limit: 3 })
  })
  t.test('is found behind any white space', async t => {
    t.same(suggestRange(Buffer.from('[{"blockNumber" : "0x1"},\n{"blockNumber"\t:\n"0x9"}]'), 1, blocksOf({})), {
      from: '0x1',
      to: '0x8',
      limit: 1,
    })
  })
})

t.test('the range that a node suggests', async t => {
  const read = (message: string, data?: Json, filter: Json = { fromBlock: '0x1', toBlock: '0xffff' }) =>
    readSuggestedRange(data === undefined ? { code: 1, message } : { code: 1, message, data }, blocksOf(filter))
  t.test('is read from the message of each provider', async t => {
    for (const [message, from, to] of [
      ['... Try with this block range [0xBDE5, 0xBDEF].', '0xbde5', '0xbdef'],
      ['Based on your parameters, this block range should work: [0x1, 0xd043]', '0x1', '0xd043'],
      ['retry with the range 100-200', '0x64', '0xc8'],
      ['retry with the range 0x10 - 0x20', '0x10', '0x20'],
      ['this block range should work: 1 to 2', '0x1', '0x2'],
    ] as const)
      t.same(read(message), { from, to }, message)
    t.same(read('too many', { from: '0x2', to: '0x3', limit: 10_000 }), { from: '0x2', to: '0x3' })
  })
  t.test('is within the query, and is not the refused range', async t => {
    for (const message of [
      'range 1 - 2 exceeds limit of 10000',
      'try with this block range [0x9, 0x1]',
      'try with this block range [0x0, 0x1]',
      'try with this block range [0x1, 0x10000]',
      'try with this block range',
      'try with this block range [0x1]',
      '',
    ])
      t.equal(read(message), undefined, message)
    t.equal(read('', { from: 1, to: 2 }), undefined)
    t.equal(read('', ['0x1', '0x2']), undefined)
    t.same(read('try with this block range [0x0, 0x10000]', undefined, {}), { from: '0x0', to: '0x10000' })
  })
})
