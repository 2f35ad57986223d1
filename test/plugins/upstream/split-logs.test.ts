import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from '../../support/tap.ts'
import type { Json, Request, Target } from '../../../src/plugin/call.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { isCharged, isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { ResultMemory } from '../../../src/json/result-memory.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import type { RequestOptions } from '../../../src/services/index.ts'
import { results } from '../../../src/services/results.ts'
import { harness } from '../../../src/testing/index.ts'
import type { Results } from '../../../src/services/results.ts'
import { toLongResult } from '../../support/long-result.ts'
import { TestClock, fakeCall, fakeOrigin, fakeTarget } from '../../support/fakes.ts'
import { openUpstream } from './upstream-fixture.ts'

/** Callers were told of no finalized block. */
const noTags = { blockFor: () => undefined }

type Filter = { readonly [name: string]: Json }

interface Log {
  readonly block: number
  readonly address: string
  readonly topics: readonly string[]
  /** As the node writes it. */
  readonly text: string
}

/** A chain whose head is block `head`, and its logs in the order of the chain. */
interface Chain {
  readonly head: number
  readonly logs: readonly Log[]
}

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

const matches = (pattern: Json | undefined, value: string | undefined): boolean =>
  pattern === undefined ||
  pattern === null ||
  pattern === value ||
  (Array.isArray(pattern) && (pattern.length === 0 || pattern.includes(null) || pattern.includes(value)))

/** The response of a node without limits. */
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
      matches(filter['address'], log.address) &&
      topics.length <= log.topics.length &&
      topics.every((pattern, i) => matches(pattern, log.topics[i])),
  )
  return json(`[${found.map(log => log.text).join(',')}]`, found.length)
}

/** A node that refuses requests beyond its limits. */
const limitedNode =
  (chain: Chain, { maxRange = Infinity, maxParams = Infinity }: Partial<Target>) =>
  (request: Request): Reply => {
    const [filter] = request.params as readonly [Filter]
    if (request.method === 'eth_getBlockByNumber') {
      const number = blockOf(request.params[0], chain)
      return number > chain.head
        ? json('null')
        : json(JSON.stringify({ hash: hashOf(number), number: toHexQuantity(number), transactions: ['0x1'] }))
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
  /** The newest block that the gateway knows of. */
  readonly head?: number
  /** The finalized block; none unless given. */
  readonly finalized?: number
  readonly joinArray?: Results['joinArray']
  readonly signal?: AbortSignal
}

/** The reply of the plugin, and the requests that the node got for it. */
const requestLogs = async (
  filter: Filter,
  node: (request: Request, options: RequestOptions) => Reply | Promise<Reply>,
  setting: SplitSetting = {},
): Promise<{ readonly reply: Reply; readonly requests: readonly Request[] }> => {
  const { maxChunks = 16, clock = new TestClock(), head, finalized = -1, joinArray = results.joinArray, signal, ...limits } = setting
  const requests: Request[] = []
  const send = openUpstream(
    async (_target, request, options) => (requests.push(request), node(request, options)),
    {
      clock,
      results: { ...results, joinArray },
      heads: {
        snapshot: {
          head,
          isFinal: (_upstream: string, block: number) => block <= finalized,
          finalizedBlockOf: () => (finalized < 0 ? undefined : { number: finalized, hash: hashOf(finalized) }),
        },
        tags: noTags,
        reporterOf: ({ name }: { readonly name: string }) => name,
        reportHeight: (_upstream: string, height: number) => height,
      },
    },
    { timeout: 10_000, maxBytes: 1 << 21, maxChunks },
  )
  const call = fakeCall('eth_getLogs', [filter], { target: { ...fakeTarget, ...limits } })
  return {
    reply: await send({ ...call, origin: fakeOrigin({ signal: signal ?? new AbortController().signal }) }),
    requests,
  }
}

const textOf = (reply: Reply): Json => (isFailure(reply) ? { ...reply.error } : toBuffer(reply.result).toString())

const filtersOf = (requests: readonly Request[]): readonly Filter[] =>
  requests.filter(request => request.method === 'eth_getLogs').map(request => request.params[0] as Filter)

const chainOf = (
  blocks: readonly (readonly { readonly address: string; readonly topics: readonly string[]; readonly pad: string }[])[],
): Chain => ({
  head: blocks.length - 1,
  logs: blocks.flatMap((logs, block) =>
    logs.map(({ address, topics, pad }, index) => ({
      block,
      address,
      topics,
      text: `{"address":"${address}","blockHash":"${hashOf(block)}","data":"0x${'ab'.repeat(index % 4)}",${pad}"logIndex":"${toHexQuantity(index)}",${pad}"blockNumber": "${toHexQuantity(block)}","topics":${JSON.stringify(topics)}}`,
    })),
  ),
})

/** A chain with `logs` logs in each of `blocks` blocks. */
const evenChain = (blocks: number, logs: number): Chain =>
  chainOf(
    Array.from({ length: blocks }, () =>
      Array.from({ length: logs }, (_, i) => ({ address: 'a', topics: [i % 2 === 0 ? 't' : 'u'], pad: '' })),
    ),
  )

t.test('merged chunks are what one request returns', async t => {
  const value = fc.constantFrom('a', 'b', 'c', 'd', 'e')
  const log = fc.record({ address: value, topics: fc.array(value, { maxLength: 3 }), pad: fc.constantFrom('', ' ', '\n') })
  const list = fc.array(fc.oneof({ arbitrary: value, weight: 9 }, fc.constant(null)), { maxLength: 8 })
  const start = fc.oneof(fc.nat(30).map(toHexQuantity), fc.constantFrom('latest', 'earliest', 'finalized'))
  const end = fc.oneof(fc.nat(30).map(toHexQuantity), fc.constantFrom('latest', 'earliest', 'finalized'))
  const filter = fc.record(
    {
      fromBlock: start,
      toBlock: end,
      address: fc.oneof(value, fc.array(value, { maxLength: 8 })),
      topics: fc.array(fc.oneof(value, list, fc.constant(null)), { maxLength: 3 }),
    },
    { requiredKeys: ['fromBlock', 'toBlock'] },
  )
  const limit = (max: number) => fc.option(fc.integer({ min: 1, max }), { nil: undefined })
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
        const { reply, requests } = await requestLogs(filter, limitedNode(chain, limits), { ...limits, maxChunks: 2000 })
        const whole = logsOf(chain, filter)
        if (isFailure(whole)) return // the node's own error; nothing was merged
        assert.equal(textOf(reply), textOf(whole))
        assert.equal('count' in reply && reply.count, 'count' in whole && whole.count)
        if (filtersOf(requests).length > 1) split += 1
      },
    ),
    { numRuns: 1000 },
  )
  t.ok(split > 100, `${split} of them were sent in chunks`) // about 230 of 1,000
})

t.test('the memory of long chunks is freed once they are merged', async t => {
  const memories: ResultMemory[] = []
  const chain = chainOf(Array(3).fill([{ address: 'a', topics: [], pad: ' '.repeat(200_000) }]))
  const node = limitedNode(chain, { maxRange: 1 })
  const nodeWithMemory = (request: Request): Reply => {
    const reply = node(request)
    if (isFailure(reply) || request.method !== 'eth_getLogs') return reply
    const { result, memory } = toLongResult(toBuffer(reply.result))
    memories.push(memory)
    return { ...reply, result }
  }
  const { reply } = await requestLogs({ fromBlock: '0x0', toBlock: '0x2' }, nodeWithMemory, { maxRange: 1 })
  t.ok(textOf(reply) === textOf(logsOf(chain, { fromBlock: '0x0', toBlock: '0x2' })))
  t.same(
    memories.map(({ isFreed }) => isFreed),
    [true, true, true],
  )
})

t.test('a log that matches several values of a list comes once, in its position', async t => {
  const chain = evenChain(3, 4)
  const limits = { maxParams: 1, maxRange: 2 }
  const filter = { fromBlock: '0x0', toBlock: '0x2', address: ['a', 'b', 'a'], topics: [['u', 't', 'u']] }
  const { reply, requests } = await requestLogs(filter, limitedNode(chain, limits), limits)
  t.equal(filtersOf(requests).length, 8)
  t.strictSame(textOf(reply), textOf(logsOf(chain, filter)))
})

t.test('chunks with a duplicate log, or with what is no log, are a failure of the node', async t => {
  const own = `"blockHash":"${hashOf(1)}"`
  const duplicate = json(`[{${own},"blockNumber":"0x1","logIndex":"0x0"}]`, 1)
  for (const result of [
    duplicate,
    json(`[{${own},"blockNumber":"0x1"}]`, 1),
    json('[1]', 1),
    json(`[{${own},"blockNumber":null,"logIndex":null}]`, 1),
    json('{}'),
  ]) {
    const { reply } = await requestLogs({ blockHash: hashOf(1), topics: [['t', 'u']] }, () => result, { maxParams: 1 })
    t.match(reply, { kind: 'unavailable', fault: 'upstream', upstream: 'own' })
  }
})

t.test('merged logs are checked against the filter of the caller, not only each chunk against its own', async t => {
  const chain = evenChain(12, 1)
  const foreign = Buffer.from(chain.logs.at(-1)?.text ?? '')
  const joinArray: Results['joinArray'] = elements => results.joinArray([...elements.slice(0, -1), foreign])
  const filter = { fromBlock: '0x0', toBlock: '0xa', address: 'a' }
  const { reply } = await requestLogs(filter, limitedNode(chain, {}), { maxRange: 1, joinArray })
  t.match(reply, { kind: 'unavailable', retryElsewhere: true, cause: /^wrong result: logs are outside the requested blocks/ })
  const own = await requestLogs({ ...filter, toBlock: '0xb' }, limitedNode(chain, {}), { maxRange: 1, joinArray })
  t.equal(textOf(own.reply), textOf(logsOf(chain, { ...filter, toBlock: '0xb' })))
})

t.test('the limits of an upstream are options of it', async t => {
  const own = '{ name: own, url: "http://own.test", maxRange: 10, maxParams: 2 }'
  const pipeline = `- failover: { upstreams: [${own}] }\n- upstream: {}`
  const gateway = await harness({ pipeline, upstream: { eth_getLogs: { result: [] } } })
  const address = [1, 2, 3].map(digit => `0x${String(digit).repeat(40)}`)
  t.match(await gateway.call('eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x14', address }]), { result: [] })
  t.equal(gateway.requests.filter(({ method }) => method === 'eth_getLogs').length, 4)
})

t.test('a query that the node accepts is sent as one request', async t => {
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
    const { requests } = await requestLogs(filter, limitedNode(chain, {}), setting)
    t.same(requests, [{ method: 'eth_getLogs', params: [filter] }])
  }
  const { requests } = await requestLogs({ fromBlock: '0x8', toBlock: 'latest' }, limitedNode(chain, {}), { maxRange: 2 })
  t.same(filtersOf(requests), [{ fromBlock: '0x8', toBlock: 'latest' }], 'a tag that resolves to a block within the range')
})

t.test('tags are resolved to numbers before the first chunk is requested', async t => {
  const { reply, requests } = await requestLogs(
    { fromBlock: 'earliest', toBlock: 'latest', address: 'a' },
    limitedNode(evenChain(10, 1), { maxRange: 4 }),
    { maxRange: 4 },
  )
  t.notOk(isFailure(reply))
  t.same(
    filtersOf(requests),
    [
      ['0x0', '0x3'],
      ['0x4', '0x7'],
      ['0x8', '0x9'],
    ].map(([fromBlock, toBlock]) => ({ fromBlock, toBlock, address: 'a' })),
  )
})

t.test('blocks above the head are left to the node, in the last chunk, as far as the node accepts them', async t => {
  const far = '0xffffffffffffffff'
  for (const [fromBlock, toBlock, chunks] of [
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
    const { reply, requests } = await requestLogs({ fromBlock, toBlock }, limitedNode(evenChain(10, 1), {}), { maxRange: 6 })
    t.same(
      filtersOf(requests).map(query => [query['fromBlock'], query['toBlock']]),
      chunks,
      `${fromBlock} to ${toBlock}`,
    )
    if (!fromBlock.startsWith('0x2')) t.match(reply, { count: fromBlock === 'latest' ? 1 : 10 - Number(fromBlock) })
  }
})

t.test('a block above the head has no logs: those of the head are not its logs', async t => {
  for (const [fromBlock, toBlock, sent] of [
    ['0xa', '0xa', ['0xa', '0xa']],
    ['0xa', '0xb', ['0xa', '0xb']],
    ['0xa', '0xff', ['0xa', '0xf']],
  ] as const) {
    const filter = { fromBlock, toBlock, address: ['a', 'b', 'c'] }
    const limits = { maxParams: 2, maxRange: 6 }
    const { reply, requests } = await requestLogs(filter, limitedNode(evenChain(10, 1), limits), limits)
    t.match(reply, { count: 0 })
    t.equal(textOf(reply), '[]')
    t.same(filtersOf(requests), [{ fromBlock: sent[0], toBlock: sent[1], address: ['a', 'b'] }], 'the node judges the blocks')
  }
})

t.test('a block that is added during a query is in no chunk, or in all of them', async t => {
  const [before, after] = [evenChain(10, 4), evenChain(11, 4)]
  for (const [fromBlock, toBlock, expected] of [
    ['0x5', '0xff', logsOf(before, { fromBlock: '0x5', toBlock: '0x9' })],
    ['0xa', '0xff', undefined],
    ['0xa', '0xa', undefined],
  ] as const) {
    const filter = { fromBlock, toBlock, topics: [['t', 'u']] }
    let logRequests = 0
    const { reply } = await requestLogs(
      filter,
      request => {
        const hasNewBlock = request.method === 'eth_getLogs' && (fromBlock === '0xa' || ++logRequests > 1)
        return limitedNode(hasNewBlock ? after : before, { maxParams: 1 })(request)
      },
      { maxParams: 1 },
    )
    if (expected === undefined) t.match(reply, { kind: 'unavailable', retryElsewhere: true, retryAfter: 1 })
    else t.equal(textOf(reply), textOf(expected))
  }
})

t.test('the last block may be added after it was requested: the blocks above it are still none of the query', async t => {
  const filter = { fromBlock: '0x5', toBlock: '0xa' }
  const [before, after] = [evenChain(10, 4), evenChain(13, 4)]
  let requestCount = 0
  const { reply } = await requestLogs(filter, request => limitedNode(++requestCount > 1 ? after : before, {})(request), { maxRange: 3 })
  t.equal(textOf(reply), textOf(logsOf(after, filter)))
})

t.test('a tag for which the node has no block is not taken for latest', async t => {
  const filter = { fromBlock: '0x0', toBlock: 'safe', topics: [['t', 'u']] }
  const node = limitedNode(evenChain(10, 4), {})
  const { reply, requests } = await requestLogs(
    filter,
    request =>
      request.method === 'eth_getLogs' ? failure(-39001, 'Unknown block') : request.params[0] === 'safe' ? json('null') : node(request),
    { maxParams: 1 },
  )
  t.match(reply, { error: { code: -39001 } })
  t.same(filtersOf(requests), [filter], 'the node refuses it in its own words')
})

t.test("a tag that the node does not know fails the query with the node's error", async t => {
  const { reply } = await requestLogs({ fromBlock: '0x0', toBlock: 'finalized' }, () => failure(-39001, 'Unknown block'), { maxRange: 5 })
  t.match(reply, { error: { code: -39001, message: 'Unknown block' }, retryElsewhere: true })
})

t.test('when a block is replaced between two chunks, the query is to be retried elsewhere', async t => {
  const node = limitedNode(evenChain(10, 1), {})
  let isReplaced = false
  const { reply } = await requestLogs(
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

t.test('no block is requested when the last one is final', async t => {
  const { reply, requests } = await requestLogs({ fromBlock: '0x0', toBlock: '0x9' }, limitedNode(evenChain(12, 1), {}), {
    maxRange: 5,
    finalized: 9,
  })
  t.notOk(isFailure(reply))
  t.same(
    requests.map(request => request.method),
    ['eth_getLogs', 'eth_getLogs'],
  )
  const later = await requestLogs({ fromBlock: '0x0', toBlock: '0xa' }, limitedNode(evenChain(12, 1), {}), { maxRange: 6, finalized: 9 })
  t.same(
    later.requests.map(request => request.method),
    ['eth_getBlockByNumber', 'eth_getLogs', 'eth_getLogs', 'eth_getBlockByNumber'],
  )
})

t.test('the number of chunks is bounded, and nothing is requested beyond the bound', async t => {
  const node = limitedNode(evenChain(100, 1), {})
  const { reply, requests } = await requestLogs({ fromBlock: '0x5', toBlock: 'latest', address: ['a', 'b'] }, node, {
    maxRange: 2,
    maxParams: 1,
  })
  t.match(reply, {
    kind: 'params',
    category: 'rangeTooWide',
    retryElsewhere: true,
    fault: 'caller',
    error: {
      code: -32602,
      message: 'the query is too wide: 95 blocks, more than the 16 that can be requested at once',
      data: { from: '0x5', to: '0x14' },
    },
  })
  t.notOk(isCharged(reply))
  t.same(filtersOf(requests), [])
  const wide = await requestLogs({ blockHash: hashOf(1), address: Array.from({ length: 17 }, (_, i) => toHexQuantity(i)) }, node, {
    maxParams: 1,
  })
  t.match(wide.reply, { error: { code: -32602, message: 'the query is too wide: its addresses and topics are 17 queries, more than 16' } })
  t.same(wide.requests, [])
  t.equal(filtersOf((await requestLogs({ fromBlock: '0x0', toBlock: '0x1f' }, node, { maxRange: 2 })).requests).length, 16)
})

t.test('a query that is too wide for the chain as it is known costs its node no request, as it costs its caller nothing', async t => {
  const node = limitedNode(evenChain(100, 1), {})
  const known = { maxRange: 2, head: 99, finalized: 90 }
  for (const [fromBlock, toBlock, blocks] of [
    ['0x5', 'latest', 95],
    ['earliest', '0xffff', 100],
    ['0x5', 'finalized', 86],
    ['0x5', 'safe', 86],
    ['0x5', '0x4f', 75],
  ] as const) {
    const { reply, requests } = await requestLogs({ fromBlock, toBlock }, node, known)
    t.match(reply, {
      category: 'rangeTooWide',
      retryElsewhere: true,
      error: { message: new RegExp(`wide: ${blocks} blocks, more than the 32`) },
    })
    t.same(requests, [], `${fromBlock} to ${toBlock}`)
  }
  const { reply } = await requestLogs({ fromBlock: '0x50', toBlock: 'latest' }, node, known)
  t.notOk(isFailure(reply), '20 blocks in 10 chunks')
})

t.test('5,000 addresses reach a node that accepts 1,000, without a maxParams', async t => {
  const chain = evenChain(3, 2)
  const address = Array.from({ length: 5000 }, (_, i) => (i === 4321 ? 'a' : toHexQuantity(i)))
  const filter = { fromBlock: '0x0', toBlock: '0x2', address }
  const requests: Request[] = []
  let node = limitedNode(chain, { maxParams: 1000 })
  const send = openUpstream(async (_target, request) => (requests.push(request), node(request)), {
    heads: { snapshot: { isFinal: () => true }, tags: noTags, reporterOf: () => '', reportHeight: () => 0 },
  })
  const countAddresses = async (filter: Filter, over: Partial<Target> = {}) => {
    requests.length = 0
    const reply = await send(fakeCall('eth_getLogs', [filter], { target: { ...fakeTarget, ...over } }))
    return { reply, sizes: filtersOf(requests).map(query => (query['address'] as readonly string[]).length) }
  }
  const first = await countAddresses(filter)
  t.strictSame(textOf(first.reply), textOf(logsOf(chain, filter)))
  t.same(first.sizes, [5000, 1000, 1000, 1000, 1000, 1000])
  t.same((await countAddresses(filter)).sizes, [1000, 1000, 1000, 1000, 1000], 'the limit is known from then on')
  t.same((await countAddresses({ ...filter, address: address.slice(0, 1000) })).sizes, [1000])
  t.same(
    (await countAddresses({ ...filter, address: address.slice(0, 999).concat(address.slice(0, 999)) })).sizes,
    [999],
    'duplicates do not count',
  )
  node = limitedNode(chain, { maxParams: 5000 })
  t.same((await countAddresses(filter, { name: 'other' })).sizes, [5000], 'a node that accepts them gets them at once')
  node = limitedNode(chain, { maxRange: 1 })
  const wide = await countAddresses(filter, { name: 'third' })
  t.match(wide.reply, { category: 'rangeTooWide', error: { code: -32602, message: /exceed maximum block range/ } })
  node = limitedNode(chain, { maxParams: 5000 })
  t.same((await countAddresses(filter, { name: 'third' })).sizes, [5000], 'the lists were not the reason')
})

for (const [maxParallel, concurrency] of [
  [4, undefined],
  [4, 256],
  [3, 3],
  [1, 1],
] as const) {
  t.test(`${maxParallel} chunks are requested at once, in order, where the concurrency is ${concurrency}`, async t => {
    const chain = evenChain(20, 1)
    const node = limitedNode(chain, {})
    let [running, maxRunning] = [0, 0]
    const { reply, requests } = await requestLogs(
      { fromBlock: '0x0', toBlock: '0x13' },
      async (request, { signal }) => {
        if (request.method !== 'eth_getLogs') return node(request)
        maxRunning = Math.max(maxRunning, ++running)
        // Later chunks get their responses first.
        const { fromBlock } = request.params[0] as Filter
        for (let i = 0; i < 40 - Number(fromBlock); i++) await Promise.resolve()
        running -= 1
        t.notOk(signal.aborted)
        return node(request)
      },
      { maxRange: 2, ...(concurrency !== undefined && { concurrency }) },
    )
    t.equal(maxRunning, maxParallel)
    t.strictSame(textOf(reply), textOf(logsOf(chain, { fromBlock: '0x0', toBlock: '0x13' })))
    t.same(
      filtersOf(requests).map(filter => Number(filter['fromBlock'])),
      [0, 2, 4, 6, 8, 10, 12, 14, 16, 18],
    )
  })
}

t.test('10,000 logs of all chunks pass; one more is refused, with the first blocks that fit', async t => {
  const filter = { fromBlock: '0x0', toBlock: '0x3' }
  const full = await requestLogs(filter, limitedNode(evenChain(4, 2500), {}), { maxRange: 1 })
  t.equal('count' in full.reply && full.reply.count, 10_000)
  const over = await requestLogs(filter, limitedNode(evenChain(4, 2501), {}), { maxRange: 1 })
  t.match(over.reply, {
    kind: 'tooMany',
    source: 'node',
    upstream: 'own',
    error: { code: -32005, message: 'query returned more than 10000 results' },
  })
  t.strictSame((over.reply as Failure).error.data, { from: '0x0', to: '0x2', limit: 10_000 })
  t.ok(isCharged(over.reply))
  const crowded = await requestLogs({ ...filter, topics: [['t', 'u']] }, limitedNode(evenChain(4, 10_002), {}), { maxParams: 1 })
  t.strictSame((crowded.reply as Failure).error.data, { limit: 10_000 }, 'not even the first blocks fit')
  const first = await requestLogs(filter, limitedNode(evenChain(4, 5001), {}), { maxRange: 2 })
  t.strictSame((first.reply as Failure).error.data, { from: '0x0', to: '0x0', limit: 10_000 }, 'a part of the first chunk fits')
})

t.test('chunks together stay within the bytes of one response', async t => {
  const node = limitedNode(evenChain(4, 1), {})
  const { reply } = await requestLogs(
    { fromBlock: '0x0', toBlock: '0x3' },
    request =>
      request.method === 'eth_getLogs'
        ? json(`[{"blockNumber":"${String((request.params[0] as Filter)['fromBlock'])}","data":"0x${'0'.repeat(600_000)}"}]`, 1)
        : node(request),
    { maxRange: 1 },
  )
  t.match(reply, { kind: 'tooLarge' })
})

t.test('the timeout is for the whole query', async t => {
  const clock = new TestClock()
  const node = limitedNode(evenChain(16, 1), {})
  const timeouts: number[] = []
  const { reply, requests } = await requestLogs(
    { fromBlock: '0x0', toBlock: '0xf' },
    (request, { timeoutMs }) => {
      timeouts.push(timeoutMs)
      clock.advance(Math.min(timeoutMs, 1500))
      return timeoutMs < 1500 ? refuse('timeout', { fault: 'upstream', source: 'node', upstream: 'own' }) : node(request)
    },
    { maxRange: 1, clock },
  )
  t.match(reply, { kind: 'timeout', fault: 'upstream', error: { code: -32005, message: 'query timeout exceeded' } })
  t.same(timeouts, [10_000, 8500, 7000, 5500, 4000, 2500, 1000])
  t.equal(requests.length, 7, 'no chunk is requested after the timeout')
})

t.test('a query whose time is over between two requests is due to the node, as one in a request: another node may be asked', async t => {
  const clock = new TestClock()
  const { reply, requests } = await requestLogs({ fromBlock: '0x0', toBlock: '0xf' }, limitedNode(evenChain(16, 1), {}), {
    ...{ maxRange: 8, clock },
    joinArray(elements) {
      clock.advance(10_000)
      return results.joinArray(elements)
    },
  })
  t.match(reply, { kind: 'timeout', category: 'timeout', fault: 'upstream', retryElsewhere: true, upstream: 'own' })
  t.equal(isCharged(reply), false)
  t.same(requests.at(-1)?.method, 'eth_getLogs', 'whether the last block is canonical is not asked any more')
})

t.test('a chunk that fails ends the query, and cancels the chunks in flight', async t => {
  const node = limitedNode(evenChain(16, 1), {})
  const canceled: string[] = []
  const { reply, requests } = await requestLogs(
    { fromBlock: '0x0', toBlock: '0xf' },
    (request, { signal }) => {
      const { fromBlock } = request.params[0] as Filter
      if (request.method !== 'eth_getLogs') return node(request)
      if (fromBlock === '0x2') return refuse('unavailable', { source: 'node', upstream: 'own', cause: 'HTTP 500' })
      return new Promise(resolve =>
        signal.addEventListener('abort', () => {
          canceled.push(String(fromBlock))
          resolve(refuse('unavailable', { source: 'node', fault: 'caller', cause: 'client disconnected' }))
        }),
      )
    },
    { maxRange: 1 },
  )
  t.match(reply, { kind: 'unavailable', fault: 'upstream', cause: 'HTTP 500' })
  t.same(canceled, ['0x0', '0x1', '0x3'])
  t.equal(filtersOf(requests).length, 4)
})

t.test('a caller who disconnects cancels all chunks', async t => {
  const node = limitedNode(evenChain(16, 1), {})
  const caller = new AbortController()
  let waiting = 0
  const { reply } = await requestLogs(
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

t.test('what a node refuses of a chunk is refused of the query', async t => {
  const { reply } = await requestLogs({ fromBlock: '0x0', toBlock: '0x9' }, limitedNode(evenChain(10, 1), { maxRange: 2 }), { maxRange: 5 })
  t.match(reply, {
    category: 'rangeTooWide',
    retryElsewhere: true,
    error: { code: -32602, message: 'the query is too wide: exceed maximum block range 2' },
  })
})
