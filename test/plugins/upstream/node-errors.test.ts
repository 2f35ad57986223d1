import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { harness } from '../../../src/testing/index.ts'
import type { FakeResponse, FakeUpstream } from '../../../src/testing/index.ts'
import { networkFile } from '../../support/deployment.ts'

// What callers get for what a node says, through the whole pipeline: over that node alone, and with a second node behind it.

const [logs, state, send] = ['eth_getLogs', 'eth_getStorageAt', 'eth_sendRawTransaction'] as const
const params: Readonly<Record<string, Json>> = {
  [logs]: [{ fromBlock: '0x1', toBlock: '0xffff' }],
  [state]: [`0x${'0'.repeat(40)}`, '0x0', '0x1'],
  eth_call: [{ to: `0x${'0'.repeat(40)}` }, '0x1'],
  [send]: ['0x02'],
}
const second: FakeUpstream = {
  [logs]: { result: [] },
  [state]: { result: `0x${'0'.repeat(63)}7` },
  eth_call: { result: '0x' },
  [send]: { result: `0x${'11'.repeat(32)}` },
}

const error = (code: number, message: string, data?: Json) => ({ error: { code, message, ...(data !== undefined && { data }) } })
const tooMany = (data: Json) => error(-32005, 'query returned more than 10000 results', data)
const noUpstream = { status: 503, ...error(-32002, 'no upstream can answer now') }

type Case = readonly [method: string, said: FakeResponse, got: { readonly status?: number; readonly error: object }]

const [charged, free] = ['charged', 'free'] as const
const [final, retried] = ['no other node is asked', 'the next node is asked'] as const

const cases: readonly (readonly [what: string, charge: 'charged' | 'free', next: typeof final | typeof retried, ...Case[]])[] = [
  [
    'a revert, a transaction that is known, and an error of which nothing is known come as they are',
    charged,
    final,
    ['eth_call', error(3, 'execution reverted: rate limit', '0x08c379a0'), error(3, 'execution reverted: rate limit', '0x08c379a0')],
    [send, error(-32000, 'already known'), error(-32000, 'already known')],
    [send, error(-32000, 'nonce too low'), error(-32000, 'nonce too low')],
    ['eth_call', error(7, 'whatever'), error(7, 'whatever')],
  ],
  [
    "too many results are the contract's error, with the range that the node suggests",
    charged,
    final,
    [logs, error(-32005, 'query returned more than 10000 results'), tooMany({ limit: 10_000 })],
    [
      logs,
      error(-32005, 'query returned more than 10000 results. Try with this block range [0xBDE5, 0xBDE6].'),
      tooMany({ from: '0xbde5', to: '0xbde6', limit: 10_000 }),
    ],
    [
      logs,
      error(-32602, 'query exceeds max results 20000, retry with the range 16-4112'),
      tooMany({ from: '0x10', to: '0x1010', limit: 10_000 }),
    ],
  ],
  [
    'a limit of a node that is lower, or one of bytes, may be that of this node alone',
    charged,
    retried,
    [logs, error(-32005, 'query returned more than 5000 results'), tooMany({ limit: 10_000 })],
    [logs, error(-32003, 'response too large'), tooMany({ limit: 10_000 })],
    [
      logs,
      error(-32602, 'Log response size exceeded. Based on your parameters, this block range should work: [0x1, 0x9]'),
      tooMany({ from: '0x1', to: '0x9', limit: 10_000 }),
    ],
    [logs, error(-32005, 'limit exceeded'), tooMany({ limit: 10_000 })],
  ],
  [
    "a timeout is the contract's error",
    free,
    retried,
    [logs, error(-32016, 'eth_getLogs request was canceled due to enabled timeout.'), error(-32005, 'query timeout exceeded')],
    [
      logs,
      error(-32000, 'Query timeout exceeded. This block range should work: [0x1, 0x9]'),
      error(-32005, 'query timeout exceeded', { from: '0x1', to: '0x9' }),
    ],
  ],
  [
    'a timeout of a method without a time of the contract is an outage',
    free,
    retried,
    [state, error(-32002, 'request timed out'), noUpstream],
  ],
  [
    'a range that is too wide is an invalid parameter, with the range that the node suggests',
    charged,
    retried,
    [
      logs,
      error(-32614, 'eth_getLogs is limited to a 10,000 range'),
      error(-32602, 'the query is too wide: eth_getLogs is limited to a 10,000 range'),
    ],
    [
      logs,
      error(-32600, 'up to a 500 block range. This block range should work: [0x10, 0x203]'),
      error(-32602, 'the query is too wide: up to a 500 block range. This block range should work: [0x10, 0x203]', {
        from: '0x10',
        to: '0x203',
      }),
    ],
  ],
  [
    'a block, a state or history that the node lacks comes as it is',
    charged,
    retried,
    [state, error(-32000, 'header not found', 'x'), error(-32000, 'header not found', 'x')],
    [state, error(-32000, 'missing trie node 1f'), error(-32000, 'missing trie node 1f')],
    [state, error(4444, 'pruned history unavailable'), error(4444, 'pruned history unavailable')],
  ],
  ['invalid parameters have one code', charged, final, [logs, error(-32000, 'end (1) < begin (2)'), error(-32602, 'end (1) < begin (2)')]],
  [
    'what concerns the account at a provider, or what is behind it, is an outage',
    free,
    retried,
    [state, error(-32005, 'daily request count exceeded, request rate limited'), noUpstream],
    [state, error(-32005, 'query returned more than 10000 results'), noUpstream], // for a method without a limit it is a rate limit
    [state, error(-32600, 'Must be authenticated!'), noUpstream],
    [state, error(-32011, 'no backend is currently healthy to serve traffic'), noUpstream],
  ],
  [
    'a method that the node lacks is one that does not exist',
    free,
    retried,
    [state, error(-32604, 'Method not enabled'), error(-32601, 'Method not enabled')],
    [
      state,
      error(-32601, 'the method eth_getStorageAt does not exist/is not available'),
      error(-32601, 'the method eth_getStorageAt does not exist/is not available'),
    ],
  ],
  [
    'a request that the node takes for invalid is an outage',
    free,
    retried,
    [state, error(-32600, 'Invalid request'), noUpstream],
    [state, error(-32700, 'parse error'), noUpstream],
  ],
  [
    'a request that is too long for the node is a message that is too large',
    free,
    retried,
    [state, { status: 413, body: '<html>no</html>' }, { status: 413, ...error(-32600, 'the message is too large') }],
  ],
  [
    'an internal error has no code that clients retry',
    free,
    retried,
    [state, error(-32603, 'Internal error'), error(-32000, 'Internal error')],
  ],
]

/** The response to the caller, over so many nodes, of which the first says this. */
const callOver = async (nodeCount: number, method: string, said: FakeResponse) => {
  const urls = ['http://a.test', 'http://b.test'].slice(0, nodeCount)
  const gateway = await harness({
    pipeline: JSON.stringify(networkFile('net', urls)['pipeline']),
    upstreams: { 'node-1': { [method]: said }, 'node-2': second },
  })
  const response = await gateway.call(method, params[method])
  await gateway.stop()
  return response
}

for (const [what, charge, next, ...each] of cases) {
  t.test(`${what}: ${charge}, and ${next}`, async t => {
    for (const [method, said, got] of each) {
      const alone = await callOver(1, method, said)
      t.strictSame([alone.status, alone.error], [got.status ?? 200, got.error], JSON.stringify(said))
      t.equal((alone.credits ?? 0) > 0, charge === charged)
      const behind = await callOver(2, method, said)
      if (next === retried) t.match(behind, { outcome: 'ok', upstream: 'node-2' })
      else t.strictSame(behind, alone)
    }
  })
}
