import t from '../../support/tap.ts'
import type { ErrorCategory } from '../../../src/plugin/error-table.ts'
import { createDeployment, networkFile } from '../../support/deployment.ts'
import { startFakeNode } from '../../support/fake-node.ts'
import type { ResponseScript, ReceivedRequest, ScriptedResponse } from '../../support/fake-node.ts'
import { post } from '../../support/rpc-client.ts'
import type { HttpResponse } from '../../support/rpc-client.ts'

// What callers get for each category of error, through the whole gateway: with one node that returns it, and with a second node.

interface NodeErrorCase {
  readonly category: ErrorCategory | 'truncated' | 'requestTooLong' | 'timeoutOverHttp' | 'internalOverHttp'
  readonly method: string
  readonly nodeReply: ResponseScript
  /** With one node. */
  readonly replyAlone: { readonly status?: number; readonly code: number; readonly message: string | RegExp; readonly charged: boolean }
  /** With two nodes: does the result come from the second? */
  readonly isRetriedElsewhere: boolean
}

const error = (code: number, message: string): ScriptedResponse => ({ error: { code, message } })
/** The same with HTTP status 503. */
const errorWith503 =
  (code: number, message: string) =>
  ({ id }: ReceivedRequest): ScriptedResponse => ({ raw: JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }), status: 503 })
/** As Nethermind streams. */
const truncated = ({ id }: ReceivedRequest): ScriptedResponse => ({
  raw: `{"jsonrpc":"2.0","id":${id},"result":[],"_streamStatus":"truncated"}`,
})
const logs = 'eth_getLogs'
const state = 'eth_getStorageAt'
const noUpstream = { status: 503, code: -32002, message: 'no upstream can answer now', charged: false }

const cases: readonly NodeErrorCase[] = [
  {
    category: 'reverted',
    method: 'eth_call',
    nodeReply: error(3, 'execution reverted: rate limit'),
    replyAlone: { code: 3, message: 'execution reverted: rate limit', charged: true },
    isRetriedElsewhere: false,
  },
  {
    category: 'alreadyKnown',
    method: 'eth_sendRawTransaction',
    nodeReply: error(-32000, 'already known'),
    replyAlone: { code: -32000, message: 'already known', charged: true },
    isRetriedElsewhere: false,
  },
  {
    category: 'tooMany',
    method: logs,
    nodeReply: error(-32602, 'query exceeds max results 20000, retry with the range 1-9'),
    replyAlone: { code: -32005, message: 'query returned more than 10000 results', charged: true },
    isRetriedElsewhere: false,
  },
  {
    category: 'truncated',
    method: logs,
    nodeReply: truncated,
    replyAlone: { code: -32005, message: 'query returned more than 10000 results', charged: true },
    isRetriedElsewhere: false,
  },
  {
    category: 'timeout',
    method: logs,
    nodeReply: error(-32016, 'eth_getLogs request was canceled due to enabled timeout.'),
    replyAlone: { code: -32005, message: 'query timeout exceeded', charged: false },
    isRetriedElsewhere: true,
  },
  {
    category: 'timeoutOverHttp',
    method: logs,
    nodeReply: errorWith503(-32000, 'Query timeout exceeded. Consider reducing your block range.'),
    replyAlone: { code: -32005, message: 'query timeout exceeded', charged: false },
    isRetriedElsewhere: true,
  },
  {
    category: 'rangeTooWide',
    method: logs,
    nodeReply: error(-32614, 'eth_getLogs is limited to a 10,000 range'),
    replyAlone: { code: -32602, message: 'the query is too wide: eth_getLogs is limited to a 10,000 range', charged: true },
    isRetriedElsewhere: true,
  },
  {
    category: 'blockNotFound',
    method: state,
    nodeReply: error(-32000, 'header not found'),
    replyAlone: { code: -32000, message: 'header not found', charged: true },
    isRetriedElsewhere: true,
  },
  {
    category: 'stateUnavailable',
    method: state,
    nodeReply: error(4444, 'pruned history unavailable'),
    replyAlone: { code: 4444, message: 'pruned history unavailable', charged: true },
    isRetriedElsewhere: true,
  },
  {
    category: 'invalidParams',
    method: logs,
    nodeReply: error(-32000, 'end (1) < begin (2)'),
    replyAlone: { code: -32602, message: 'end (1) < begin (2)', charged: true },
    isRetriedElsewhere: false,
  },
  {
    category: 'rateLimited',
    method: state,
    nodeReply: error(-32005, 'daily request count exceeded, request rate limited'),
    replyAlone: noUpstream,
    isRetriedElsewhere: true,
  },
  {
    category: 'unauthorized',
    method: state,
    nodeReply: error(-32600, 'Must be authenticated!'),
    replyAlone: noUpstream,
    isRetriedElsewhere: true,
  },
  {
    category: 'noBackend',
    method: state,
    nodeReply: error(-32011, 'no backend is currently healthy to serve traffic'),
    replyAlone: noUpstream,
    isRetriedElsewhere: true,
  },
  {
    category: 'methodNotFound',
    method: state,
    nodeReply: error(-32604, 'Method not enabled'),
    replyAlone: { code: -32601, message: 'Method not enabled', charged: false },
    isRetriedElsewhere: true,
  },
  {
    category: 'requestRejected',
    method: state,
    nodeReply: error(-32600, 'Invalid request'),
    replyAlone: noUpstream,
    isRetriedElsewhere: true,
  },
  {
    category: 'internalOverHttp',
    method: state,
    nodeReply: errorWith503(-32603, 'Internal error'),
    replyAlone: noUpstream,
    isRetriedElsewhere: true,
  },
  {
    category: 'requestTooLong',
    method: state,
    nodeReply: { raw: '<html>no</html>', status: 413 },
    replyAlone: { status: 413, code: -32600, message: 'the message is too large', charged: false },
    isRetriedElsewhere: true,
  },
  {
    category: 'internal',
    method: state,
    nodeReply: error(-32603, 'Internal error'),
    replyAlone: { code: -32000, message: 'Internal error', charged: false },
    isRetriedElsewhere: true,
  },
]

const params: Readonly<Record<string, readonly unknown[]>> = {
  [logs]: [{ fromBlock: '0x1', toBlock: '0x9' }],
  [state]: [`0x${'0'.repeat(40)}`, '0x0', '0x1'],
  eth_call: [{ to: `0x${'0'.repeat(40)}` }, '0x1'],
  eth_sendRawTransaction: ['0x02'],
}

const hash = `0x${'11'.repeat(32)}`
const chain = {
  eth_chainId: { result: '0x7a69' },
  eth_blockNumber: { result: '0x63' },
  eth_getBlockByNumber: ({ params: [block] }: ReceivedRequest): ScriptedResponse => ({
    result: { number: String(block).startsWith('0x') ? block : '0x63', hash, parentHash: hash },
  }),
}
const word = `0x${'0'.repeat(63)}7`

const first = new Map(
  await Promise.all(
    cases.map(async ({ category, method, nodeReply }) => [category, await startFakeNode({ ...chain, [method]: nodeReply })] as const),
  ),
)
const second = await startFakeNode({
  ...chain,
  [state]: { result: word },
  [logs]: { result: [] },
  eth_call: { result: '0x' },
  eth_sendRawTransaction: { result: hash },
})

/** Accepts 10 blocks, and 2 addresses or topics in a position. */
const limitedNode = await startFakeNode({
  ...chain,
  eth_getLogs: ({ params: [filter] }) => {
    const { fromBlock, toBlock, address = [] } = filter as { fromBlock: string; toBlock: string; address?: string[] }
    if (Number(toBlock) - Number(fromBlock) >= 10) return error(-32602, 'exceed maximum block range 10')
    if (address.length > 2) return error(-32000, 'exceed max addresses or topics per search position')
    const logs = []
    for (let block = Number(fromBlock); block <= Number(toBlock); block++) {
      for (const each of address) logs.push({ address: each, logIndex: `0x${each.at(-1)}`, blockNumber: `0x${block.toString(16)}` })
    }
    return { result: logs }
  },
})

const networks = Object.fromEntries(
  cases.flatMap(({ category }) => {
    const name = category.toLowerCase()
    const url = first.get(category)?.url ?? ''
    return [
      [name, { ...networkFile(name, [url]), hosts: [`${name}.test`] }],
      [`${name}-pair`, { ...networkFile(`${name}-pair`, [url, second.url]), hosts: [`${name}-pair.test`] }],
    ]
  }),
)
const networkWithLimits = (name: string, limits: object) => ({
  ...networkFile(name, [], { failover: { upstreams: [{ name: 'limited', url: limitedNode.url, ...limits }] } }),
  hosts: [`${name}.test`],
})
const deployment = createDeployment({
  networks: {
    ...networks,
    chunks: networkWithLimits('chunks', { maxRange: 10, maxParams: 2 }),
    unlimited: networkWithLimits('unlimited', {}),
  },
})
t.teardown(async () => {
  await deployment.remove()
  await Promise.all([...first.values(), second, limitedNode].map(node => node.stop()))
})
await deployment.addAccount('alice')
const { key } = await deployment.addKey('alice')
const gateway = await deployment.start()

const callNetwork = (host: string, method: string, callParams = params[method]): Promise<HttpResponse> =>
  post(gateway.http(key), JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: callParams }), { host })

for (const { category, method, replyAlone, isRetriedElsewhere } of cases) {
  t.test(`${category}: what the caller gets`, async t => {
    const name = category.toLowerCase()
    const one = await callNetwork(`${name}.test`, method)
    t.equal(one.status, replyAlone.status ?? 200)
    t.match(one.json().error, { code: replyAlone.code, message: replyAlone.message })
    t.equal(Number(one.headers['x-tollgate-credits']) > 0, replyAlone.charged)
    const two = await callNetwork(`${name}-pair.test`, method)
    t.equal(two.headers['x-tollgate-upstream'], isRetriedElsewhere ? 'node-2' : 'node-1')
    if (isRetriedElsewhere) t.ok('result' in two.json())
    else t.same(two.json(), one.json())
  })
}

t.test('callers may ask again and again for a method that the nodes lack, which the nodes are rarely asked for', async t => {
  const startedAt = performance.now()
  const replies: HttpResponse[] = []
  for (let i = 0; i < 100; i++) replies.push(await callNetwork('methodnotfound.test', state))
  t.same(new Set(replies.map(reply => reply.json().error?.code)), new Set([-32601]))
  t.same(new Set(replies.map(reply => reply.headers['x-tollgate-credits'])), new Set(['0']))
  const requestCount = first.get('methodNotFound')?.received.filter(({ method }) => method === state).length ?? Infinity
  t.ok(requestCount <= 5 + Math.ceil((performance.now() - startedAt) / 10_000), String(requestCount))
  for (let i = 0; i < 10; i++) t.ok('result' in (await callNetwork('methodnotfound-pair.test', state)).json(), 'another node has it')
})

t.test('a refusal of a node is cached', async t => {
  for (const category of ['tooMany', 'rangeTooWide'] as const) {
    await callNetwork(`${category.toLowerCase()}.test`, logs) // that of the tests above may be too old on a busy machine
    const before = first.get(category)?.received.filter(request => request.method === logs).length
    const again = await callNetwork(`${category.toLowerCase()}.test`, logs)
    t.equal(again.headers['x-tollgate-cache'], 'hit')
    t.ok(again.json().error)
    t.equal(again.headers['x-tollgate-credits'], '0')
    t.equal(first.get(category)?.received.filter(request => request.method === logs).length, before)
  }
})

t.test('a wide query is sent to a limited node in chunks', async t => {
  const addresses = [1, 2, 3, 4, 5].map(n => `0x${String(n).repeat(40)}`)
  const wide = [{ fromBlock: '0x1', toBlock: '0x28', address: addresses }]
  const found = (await callNetwork('chunks.test', logs, wide)).json().result as readonly { blockNumber: string; address: string }[]
  const expected = Array.from({ length: 40 }, (_, i) =>
    addresses.map(address => ({ blockNumber: `0x${(i + 1).toString(16)}`, address })),
  ).flat()
  t.same(
    found.map(({ blockNumber, address }) => ({ blockNumber, address })),
    expected,
  )
  const refused = await callNetwork('chunks.test', logs, [{ fromBlock: '0x1', toBlock: '0x63', address: addresses }])
  t.match(refused.json().error, { code: -32602, message: /^the query is too wide: 99 blocks/, data: { from: '0x1', to: '0x32' } })
  t.equal(Number(refused.headers['x-tollgate-credits'] ?? 0), 0)
  const unlimited = await callNetwork('unlimited.test', logs, wide)
  t.match(unlimited.json().error, { code: -32602, message: 'the query is too wide: exceed maximum block range 10' })
})
