import { test } from 'tap'
import type { ErrorCategory } from '../../../src/plugin/reply.ts'
import { compileTable, openMethodTable } from '../../../src/services/method-table/compile-table.ts'
import { devnet, shippedMethods, shippedData, tableOf } from './shipped-table.ts'

const logs = 'eth_getLogs'
const state = 'eth_getStorageAt'

/** Messages of nodes and providers, as they were seen: the method asked, the code, the message, what it means. */
const rows: readonly (readonly [string, number, string, ErrorCategory | undefined])[] = [
  // Infura
  [logs, -32005, 'query returned more than 10000 results', 'tooMany'],
  [logs, -32005, 'query returned more than 10000 results. Try with this block range [0xBDE5F8, 0x102DBCC].', 'tooMany'],
  [logs, -32602, 'range 1000000 exceeds limit of 10000', 'tooWide'],
  [logs, -32602, 'range 19000000 - 19100000 exceeds limit of 10000', 'tooWide'],
  [logs, -32005, 'query timeout exceeded', 'timeout'],
  [logs, -32603, 'query timeout of 10 seconds exceeded', 'timeout'],
  [state, -32005, 'daily request count exceeded, request rate limited', 'limited'],
  [logs, -32005, 'daily request count exceeded, request rate limited', 'limited'],
  [state, -32005, 'project ID request rate exceeded', 'limited'],
  [state, 429, 'Too Many Requests', 'limited'],
  [state, 402, 'Payment Required', 'limited'],
  [state, -32002, 'rejected due to project ID settings', 'denied'],
  [state, -32002, 'project ID does not have access to polygon l2', 'denied'],
  // Alchemy
  [
    logs,
    -32602,
    'Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the response size, or you can request any block range with a cap of 10K logs in the response. Based on your parameters and the response size limit, this block range should work: [0x0, 0xd043b8]',
    'tooMany',
  ],
  [
    logs,
    -32600,
    'You can make eth_getLogs requests with up to a 500 block range. Based on your parameters, this block range should work: [0x10, 0x203]',
    'tooWide',
  ],
  [logs, -32000, 'Query timeout exceeded. Consider reducing your block range.', 'timeout'],
  [
    logs,
    -32000,
    'Query timeout exceeded. Consider reducing your block range. Based on your parameters, this block range should work: [0x1, 0x9]',
    'timeout',
  ],
  [state, 429, 'Your app has exceeded its compute units per second capacity.', 'limited'],
  [state, -32600, 'Must be authenticated!', 'denied'],
  // QuickNode
  [logs, -32614, 'eth_getLogs is limited to a 10,000 range', 'tooWide'],
  [logs, -32614, 'eth_getLogs is limited to a 5 range', 'tooWide'],
  [logs, -32007, '50/second request limit reached', 'limited'],
  [state, 429, '15/second request limit reached - reduce calls per second or upgrade your account', 'limited'],
  // geth
  [logs, -32602, 'exceed maximum block range 5000', 'tooWide'],
  [logs, -32000, 'exceed maximum block range: 50000', 'tooWide'],
  [logs, -32602, 'invalid block range params', 'badParams'],
  [logs, -32602, 'block range extends beyond current head block', 'unknown'],
  [logs, -32602, 'pending logs are not supported', 'badParams'],
  [logs, -32602, "can't specify fromBlock/toBlock with blockHash", 'badParams'],
  [logs, -32000, 'exceed max addresses or topics per search position', 'tooWide'],
  [logs, -32602, 'invalid argument 0: exceed max topics', 'tooWide'],
  [logs, -32003, 'response too large', 'tooMany'],
  [logs, -32002, 'request timed out', 'timeout'],
  [logs, -32000, 'context canceled', 'timeout'],
  [state, -32602, 'invalid argument 0: hex string has length 4, want 40 for common.Address', 'badParams'],
  [state, -32602, 'invalid hex in storage key: "0xasdf"', 'badParams'],
  [state, -32602, 'storage key too long (want at most 32 bytes)', 'badParams'],
  [state, -32602, 'missing value for required argument 0', 'badParams'],
  [state, -32601, 'the method eth_foo does not exist/is not available', 'noMethod'],
  [logs, -32000, 'unknown block', 'unknown'],
  [state, -39001, 'Unknown block', 'unknown'],
  [state, -32000, 'header for hash not found', 'unknown'],
  [state, -32000, 'required historical state unavailable (reexec=128)', 'unknown'],
  ['eth_getProof', -32000, 'distance to target block exceeds maximum proof window', 'unknown'],
  [state, -32801, 'no historical RPC is available for this historical (pre-bedrock) execution request', 'unknown'],
  [state, -32000, 'header not found', 'unknown'],
  [state, -32000, 'missing trie node 3a9f8e (path ) state 0x3a9f8e is not available, not found', 'unknown'],
  [state, 4444, 'pruned history unavailable', 'pruned'],
  ['eth_getTransactionReceipt', -32000, 'transaction indexing is in progress', 'unknown'],
  ['eth_call', 3, 'execution reverted: rate limit exceeded', 'reverted'],
  ['eth_call', -32000, 'execution reverted', 'reverted'],
  ['eth_call', -32000, 'execution aborted (timeout = 5s)', undefined],
  ['eth_sendRawTransaction', -32000, 'already known', 'known'],
  ['eth_sendRawTransaction', -32000, 'known transaction: 0x5d2f', 'known'],
  ['eth_sendRawTransaction', -32000, 'nonce too low', undefined],
  ['eth_sendRawTransaction', -32000, 'insufficient funds for gas * price + value', undefined],
  // reth
  [logs, -32602, 'query exceeds max results 20000, retry with the range 18000000-18000420', 'tooMany'],
  [logs, -32602, 'query exceeds max block range 100000', 'tooWide'],
  [logs, -32602, 'block range extends beyond current head block: requested 21000001, head 21000000', 'unknown'],
  [state, -32001, 'resource not found', 'unknown'],
  // Erigon
  [logs, -32602, 'query returns too many logs, narrow your filter: 20000', 'tooMany'],
  [logs, -32602, 'query block range exceeds server limit, narrow your filter: 1000', 'tooWide'],
  [logs, -32602, 'query exceeds the maximum of 1000 addresses or topics per search position', 'tooWide'],
  [logs, -32000, 'end (16) < begin (32)', 'badParams'],
  [logs, -32000, 'block not found: 0x88e96d', 'unknown'],
  ['eth_sendRawTransaction', -32000, 'INTERNAL_ERROR: existing tx with same hash', 'known'],
  // Nethermind
  [logs, -32005, 'Too many logs requested. Max logs per response is 20000.', 'tooMany'],
  [logs, -32602, 'requested block range is in the future', 'unknown'],
  [logs, -32602, 'Block range 5001 exceeds the maximum of 1000 blocks per logs request. Narrow the range.', 'tooWide'],
  [logs, -32016, 'eth_getLogs request was canceled due to enabled timeout.', 'timeout'],
  [state, -32017, 'Module timeout', 'timeout'],
  [state, -32002, 'No state available for block 0x1234', 'unknown'],
  [state, -32602, 'Invalid params', 'badParams'],
  [state, -32005, 'Too many concurrent requests', 'limited'],
  ['eth_sendRawTransaction', -32010, 'AlreadyKnown', 'known'],
  // Besu
  [logs, -32005, 'Requested range exceeds maximum RPC range limit', 'tooWide'],
  [logs, -32602, 'Invalid filter params', 'badParams'],
  [logs, -32603, 'Timeout expired', 'timeout'],
  [logs, -32000, 'Block not found', 'unknown'],
  [state, -32602, 'Invalid address params', 'badParams'],
  [state, -32602, 'Invalid position params', 'badParams'],
  [state, -32602, 'Invalid number of params', 'badParams'],
  [state, -32602, 'Invalid block param (block not found)', 'unknown'],
  [state, -32000, 'World state unavailable', 'unknown'],
  [state, 4444, 'Pruned history unavailable', 'pruned'],
  [state, -32604, 'Method not enabled', 'noMethod'],
  ['eth_sendRawTransaction', -32000, 'Known transaction', 'known'],
  // anvil
  [state, -32602, 'BlockOutOfRangeError: block height is 0 but requested was 50', 'unknown'],
  [state, -32602, 'invalid string length', 'badParams'],
  [logs, -32602, 'Invalid variadic value or array type', 'badParams'],
  [state, -32600, 'Invalid request', 'misread'],
  // Ankr, Arbitrum, Base, Optimism and others
  [logs, -32600, 'block range is too wide', 'tooWide'],
  [logs, -32000, 'Block range is too large', 'tooWide'],
  [logs, -32000, 'logs matched by query exceeds limit of 10000', 'tooMany'],
  [logs, -32000, 'Max range: 800', 'tooWide'],
  [logs, -32602, 'eth_getLogs is limited to 1024 block range', 'tooWide'],
  [logs, -32020, 'backend response too large', 'tooMany'],
  [logs, -32011, 'no backend is currently healthy to serve traffic', 'away'],
  [state, -32016, 'over rate limit', 'limited'],
  [state, -32001, 'rpc method is not whitelisted', 'noMethod'],
  [logs, -32005, 'Maximum allowed number of requested blocks is 1000', 'tooWide'],
  [logs, -32005, 'please limit the query to at most 1000 blocks', 'tooWide'],
  [logs, 35, 'ranges over 10000 blocks are not supported on freetier', 'tooWide'],
  [logs, -32000, 'requested too many blocks from 1 to 9999, maximum is set to 2048', 'tooWide'],
  [logs, -32602, 'Block range limit exceeded. See more details at https://docs.example.org', 'tooWide'],
  [logs, -32000, 'block range greater than 1024 max, requested: 2000', 'tooWide'],
  [logs, -32005, 'limit exceeded', 'tooMany'],
  [state, -32005, 'limit exceeded', 'limited'],
  // Codes alone
  [state, -32700, 'parse error', 'misread'],
  [state, -32603, 'Internal error', 'internal'],
  ['eth_call', -32603, 'VM Exception while processing transaction: reverted with reason string "x"', 'reverted'],
  [state, -32004, 'not supported', 'noMethod'],
  [state, -32000, 'something else', undefined],
]

test('what nodes say is understood whatever their words', async t => {
  t.ok(rows.length > 100)
  for (const [method, code, message, meaning] of rows) {
    t.equal(shippedMethods.errorCategory({ code, message }, method), meaning, `${method} ${code} ${message}`)
  }
})

test('case and what stands around a piece make no difference', async t => {
  for (const [method, code, message, meaning] of rows.filter(row => row[3] !== undefined)) {
    t.equal(shippedMethods.errorCategory({ code, message: `upstream said: ${message.toUpperCase()} (id 7)` }, method), meaning, message)
  }
})

test('no words of a contract, and none that a node quotes from a caller, pass for words about the node itself', async t => {
  const about: readonly (ErrorCategory | undefined)[] = ['limited', 'denied', 'away', 'timeout']
  for (const words of ['rate limit', 'too many requests', 'unauthorized', 'service unavailable', 'project id', 'query timeout']) {
    for (const [code, message] of [
      [3, words],
      [-32000, `execution reverted: ${words}`],
      [-32603, `reverted with ${words}`],
    ] as const) {
      t.equal(shippedMethods.errorCategory({ code, message }, 'eth_call'), 'reverted')
    }
    t.notOk(
      about.includes(shippedMethods.errorCategory({ code: -32602, message: `invalid argument 0: unknown field "${words}"` }, 'eth_call')),
      words,
    )
  }
})

test('the first entry that fits holds, and all that an entry gives must fit', async t => {
  const { errorCategory: meaning } = openMethodTable(
    tableOf({
      ...small,
      errors: [
        { means: 'known', code: [1, 2], message: ['one * two', 'three'], methods: ['a'] },
        { means: 'pruned', message: 'one' },
        { means: 'away', code: 2 },
      ],
    }),
    devnet,
  )
  t.equal(meaning({ code: 1, message: 'ONE more for two: one and TWO' }, 'a'), 'known')
  t.equal(meaning({ code: 2, message: 'three' }, 'a'), 'known')
  t.equal(meaning({ code: 1, message: 'a two, and one more' }, 'a'), 'pruned', 'pieces stand in order')
  t.equal(meaning({ code: 1, message: 'one two' }, 'b'), 'pruned')
  t.equal(meaning({ code: 3, message: 'three' }, 'a'), undefined)
  t.equal(meaning({ code: 2, message: 'four' }, 'a'), 'away')
  t.equal(openMethodTable(tableOf(small), devnet).errorCategory({ code: -32601, message: '' }, 'a'), undefined, 'a table may have none')
})

test('each fault of an entry is placed', async t => {
  const faults = (...errors: readonly unknown[]) =>
    compileTable({ ...small, errors }).faults.map(
      ({ path, message, hint }) => `${path.join('/')}: ${message}${hint === undefined ? '' : ` [${hint}]`}`,
    )
  t.strictSame(faults({ means: 'toMany', message: 'many' }), [
    'errors/0/means: errors[0].means must be one of reverted, known, tooMany, tooWide, timeout, unknown, pruned, badParams, limited, denied, away, noMethod, misread, internal, not "toMany" [did you mean `tooMany`?]',
  ])
  t.strictSame(faults({ code: 1 }), ['errors/0: errors[0] needs "means"'])
  t.strictSame(faults({ means: 'away' }), ['errors/0: errors[0] needs "code" or "message"'])
  t.strictSame(faults({ means: 'away', methods: ['a'] }), ['errors/0: errors[0] needs "code" or "message"'])
  t.strictSame(faults({ means: 'away', code: '1' }), ['errors/0/code: errors[0].code must be a whole number or an array, not "1"'])
  t.strictSame(faults({ means: 'away', message: 'a*b' }), [
    'errors/0/message: errors[0].message must be a piece of a message, at least three characters on end beside `*`, not "a*b"',
  ])
  t.strictSame(faults({ means: 'away', message: ['fine', '*'] }).length, 1)
  t.strictSame(faults({ means: 'away', mesage: 'busy' }), ['errors/0/mesage: errors[0].mesage is unknown [did you mean `message`?]'])
  t.strictSame(faults({ means: 'away', code: 1 }, { means: 'known', code: 1, methods: ['aa'] }), [
    'errors/1/methods/0: errors[1].methods[0] is "aa", which is not in the method table [did you mean `a`?]',
  ])
  t.strictSame(faults('busy'), ['errors/0: errors[0] must be what an error means, not "busy"'])
})

test('no message takes long', async t => {
  const begun = performance.now()
  for (const message of ['state '.repeat(100_000), 'range '.repeat(100_000), '*'.repeat(100_000), 'end ('.repeat(100_000)]) {
    for (let i = 0; i < 100; i++) shippedMethods.errorCategory({ code: -32000, message }, logs)
  }
  t.ok((performance.now() - begun) / 400 < 1, 'in ms')
})

test('each meaning of the table is explained in it, and used', async t => {
  const { errors } = shippedData() as { errors: { means: string }[] }
  t.same(
    [...new Set(errors.map(entry => entry.means))].sort(),
    [...new Set(rows.map(row => row[3]).filter(one => one !== undefined))].sort(),
  )
})

const small = { defaults: { cost: 80, keep: 'never', class: 'light', resend: true }, methods: { a: {}, b: {} } }
