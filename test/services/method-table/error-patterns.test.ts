import t from '../../support/tap.ts'
import type { ErrorCategory } from '../../../src/plugin/error-table.ts'
import { compileTable, openMethodTable } from '../../../src/services/method-table/compile-table.ts'
import { devnet, shippedMethods, shippedData, tableOf } from './shipped-table.ts'

const logs = 'eth_getLogs'
const state = 'eth_getStorageAt'

/** Errors of nodes and providers as observed: method, code, message and category. */
const rows: readonly (readonly [string, number, string, ErrorCategory | undefined])[] = [
  // Infura
  [logs, -32005, 'query returned more than 10000 results', 'tooMany'],
  [logs, -32005, 'query returned more than 10000 results. Try with this block range [0xBDE5F8, 0x102DBCC].', 'tooMany'],
  [logs, -32602, 'range 1000000 exceeds limit of 10000', 'rangeTooWide'],
  [logs, -32602, 'range 19000000 - 19100000 exceeds limit of 10000', 'rangeTooWide'],
  [logs, -32005, 'query timeout exceeded', 'timeout'],
  [logs, -32603, 'query timeout of 10 seconds exceeded', 'timeout'],
  [state, -32005, 'daily request count exceeded, request rate limited', 'rateLimited'],
  [logs, -32005, 'daily request count exceeded, request rate limited', 'rateLimited'],
  [state, -32005, 'project ID request rate exceeded', 'rateLimited'],
  [state, 429, 'Too Many Requests', 'rateLimited'],
  [state, 402, 'Payment Required', 'rateLimited'],
  [state, -32002, 'rejected due to project ID settings', 'unauthorized'],
  [state, -32002, 'project ID does not have access to polygon l2', 'unauthorized'],
  // Alchemy
  [
    logs,
    -32602,
    'Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the response size, or you can request any block range with a cap of 10K logs in the response. Based on your parameters and the response size limit, this block range should work: [0x0, 0xd043b8]',
    'tooLarge',
  ],
  [
    logs,
    -32600,
    'You can make eth_getLogs requests with up to a 500 block range. Based on your parameters, this block range should work: [0x10, 0x203]',
    'rangeTooWide',
  ],
  [logs, -32000, 'Query timeout exceeded. Consider reducing your block range.', 'timeout'],
  [
    logs,
    -32000,
    'Query timeout exceeded. Consider reducing your block range. Based on your parameters, this block range should work: [0x1, 0x9]',
    'timeout',
  ],
  [state, 429, 'Your app has exceeded its compute units per second capacity.', 'rateLimited'],
  [state, -32600, 'Must be authenticated!', 'unauthorized'],
  // QuickNode
  [logs, -32614, 'eth_getLogs is limited to a 10,000 range', 'rangeTooWide'],
  [logs, -32614, 'eth_getLogs is limited to a 5 range', 'rangeTooWide'],
  [logs, -32007, '50/second request limit reached', 'rateLimited'],
  [state, 429, '15/second request limit reached - reduce calls per second or upgrade your account', 'rateLimited'],
  // geth
  [logs, -32602, 'exceed maximum block range 5000', 'rangeTooWide'],
  [logs, -32000, 'exceed maximum block range: 50000', 'rangeTooWide'],
  ['trace_filter', -32602, 'Block range too large; currently limited to 100 blocks', 'rangeTooWide'],
  ['trace_filter', -32602, 'block range too large, currently limited to 300', 'rangeTooWide'],
  ['trace_filter', -32005, 'Requested range exceeds maximum RPC range limit', 'rangeTooWide'],
  [logs, -32602, 'invalid block range params', 'invalidParams'],
  [logs, -32602, 'block range extends beyond current head block', 'blockNotFound'],
  [logs, -32602, 'pending logs are not supported', 'invalidParams'],
  [logs, -32602, "can't specify fromBlock/toBlock with blockHash", 'invalidParams'],
  [logs, -32000, 'exceed max addresses or topics per search position', 'rangeTooWide'],
  [logs, -32602, 'invalid argument 0: exceed max topics', 'rangeTooWide'],
  [logs, -32003, 'response too large', 'tooLarge'],
  [logs, -32002, 'request timed out', 'timeout'],
  [logs, -32000, 'context canceled', 'timeout'],
  [state, -32602, 'invalid argument 0: hex string has length 4, want 40 for common.Address', 'invalidParams'],
  [state, -32602, 'invalid hex in storage key: "0xasdf"', 'invalidParams'],
  [state, -32602, 'storage key too long (want at most 32 bytes)', 'invalidParams'],
  [state, -32602, 'missing value for required argument 0', 'invalidParams'],
  [state, -32601, 'the method eth_foo does not exist/is not available', 'methodNotFound'],
  [logs, -32000, 'unknown block', 'blockNotFound'],
  [state, -39001, 'Unknown block', 'blockNotFound'],
  [state, -32000, 'header for hash not found', 'blockNotFound'],
  [state, -32000, 'required historical state unavailable (reexec=128)', 'stateUnavailable'],
  ['eth_getProof', -32000, 'distance to target block exceeds maximum proof window', 'stateUnavailable'],
  [state, -32801, 'no historical RPC is available for this historical (pre-bedrock) execution request', 'stateUnavailable'],
  [state, -32000, 'header not found', 'blockNotFound'],
  ['debug_traceCall', -32000, 'block #68719476735 not found', 'blockNotFound'],
  ['debug_executionWitness', -32000, 'block 0xfffffffff not found', 'blockNotFound'],
  ['debug_traceTransaction', -32000, 'transaction not found', 'blockNotFound'],
  ['debug_executionWitness', -32000, 'pending block has no witness', undefined],
  ['eth_getBlockAccessList', 4445, 'Block access list not available for pre-Amsterdam blocks', undefined],
  [state, -32000, 'missing trie node 3a9f8e (path ) state 0x3a9f8e is not available, not found', 'stateUnavailable'],
  [state, 4444, 'pruned history unavailable', 'stateUnavailable'],
  ['eth_getTransactionReceipt', -32000, 'transaction indexing is in progress', 'blockNotFound'],
  ['eth_call', 3, 'execution reverted: rate limit exceeded', 'reverted'],
  ['eth_call', -32000, 'execution reverted', 'reverted'],
  ['eth_call', -32000, 'execution aborted (timeout = 5s)', undefined],
  ['eth_sendRawTransaction', -32000, 'already known', 'alreadyKnown'],
  ['eth_sendRawTransactionSync', -32000, 'already known', 'alreadyKnown'],
  // geth, reth
  ['eth_sendRawTransactionSync', 4, "The transaction was added to the transaction pool but wasn't processed in 2s", 'alreadyKnown'],
  ['eth_sendRawTransactionSync', 4, 'Transaction 0x12 was added to the mempool but timed out before being confirmed', 'alreadyKnown'],
  ['eth_sendRawTransaction', -32000, 'known transaction: 0x5d2f', 'alreadyKnown'],
  ['eth_sendRawTransaction', -32000, 'nonce too low', undefined],
  ['eth_sendRawTransaction', -32000, 'insufficient funds for gas * price + value', undefined],
  // reth
  [logs, -32602, 'query exceeds max results 20000, retry with the range 18000000-18000420', 'tooMany'],
  [logs, -32602, 'query exceeds max block range 100000', 'rangeTooWide'],
  [logs, -32602, 'block range extends beyond current head block: requested 21000001, head 21000000', 'blockNotFound'],
  [state, -32001, 'resource not found', 'blockNotFound'],
  // Erigon
  [logs, -32602, 'query returns too many logs, narrow your filter: 20000', 'tooMany'],
  [logs, -32602, 'query block range exceeds server limit, narrow your filter: 1000', 'rangeTooWide'],
  [logs, -32602, 'query exceeds the maximum of 1000 addresses or topics per search position', 'rangeTooWide'],
  [logs, -32000, 'end (16) < begin (32)', 'invalidParams'],
  [logs, -32000, 'block not found: 0x88e96d', 'blockNotFound'],
  ['eth_sendRawTransaction', -32000, 'INTERNAL_ERROR: existing tx with same hash', 'alreadyKnown'],
  // Nethermind
  [logs, -32005, 'Too many logs requested. Max logs per response is 20000.', 'tooMany'],
  [logs, -32602, 'requested block range is in the future', 'blockNotFound'],
  [logs, -32602, 'Block range 5001 exceeds the maximum of 1000 blocks per logs request. Narrow the range.', 'rangeTooWide'],
  [logs, -32016, 'eth_getLogs request was canceled due to enabled timeout.', 'timeout'],
  [state, -32017, 'Module timeout', 'timeout'],
  [state, -32002, 'No state available for block 0x1234', 'stateUnavailable'],
  [state, -32602, 'Invalid params', 'invalidParams'],
  [state, -32005, 'Too many concurrent requests', 'rateLimited'],
  ['eth_sendRawTransaction', -32010, 'AlreadyKnown', 'alreadyKnown'],
  // Besu
  [logs, -32005, 'Requested range exceeds maximum RPC range limit', 'rangeTooWide'],
  [logs, -32602, 'Invalid filter params', 'invalidParams'],
  [logs, -32603, 'Timeout expired', 'timeout'],
  [logs, -32000, 'Block not found', 'blockNotFound'],
  [state, -32602, 'Invalid address params', 'invalidParams'],
  [state, -32602, 'Invalid position params', 'invalidParams'],
  [state, -32602, 'Invalid number of params', 'invalidParams'],
  [state, -32602, 'Invalid block param (block not found)', 'blockNotFound'],
  [state, -32000, 'World state unavailable', 'stateUnavailable'],
  [state, 4444, 'Pruned history unavailable', 'stateUnavailable'],
  [state, -32604, 'Method not enabled', 'methodNotFound'],
  ['eth_sendRawTransaction', -32000, 'Known transaction', 'alreadyKnown'],
  // anvil
  [state, -32602, 'BlockOutOfRangeError: block height is 0 but requested was 50', 'blockNotFound'],
  [state, -32602, 'invalid string length', 'invalidParams'],
  [logs, -32602, 'Invalid variadic value or array type', 'invalidParams'],
  [state, -32600, 'Invalid request', 'requestRejected'],
  // Hardhat
  ['eth_call', -32603, 'Error: VM Exception while processing transaction: invalid opcode', 'reverted'],
  ['eth_call', -32603, 'Error: Transaction reverted without a reason string', 'reverted'],
  // Ganache
  ['eth_sendTransaction', -32700, 'sender account not recognized', undefined],
  ['eth_sendRawTransaction', -32700, 'Could not decode transaction: invalid RLP: remainder must be zero', undefined],
  [state, -32700, 'header not found', 'blockNotFound'],
  [state, -32700, 'The method eth_foo does not exist/is not available', 'methodNotFound'],
  // Ankr, Arbitrum, Base, Optimism and others
  [logs, -32600, 'block range is too wide', 'rangeTooWide'],
  [logs, -32000, 'Block range is too large', 'rangeTooWide'],
  [logs, -32000, 'logs matched by query exceeds limit of 10000', 'tooMany'],
  [logs, -32000, 'Max range: 800', 'rangeTooWide'],
  [logs, -32602, 'eth_getLogs is limited to 1024 block range', 'rangeTooWide'],
  [logs, -32020, 'backend response too large', 'tooLarge'],
  [logs, -32011, 'no backend is currently healthy to serve traffic', 'noBackend'],
  [state, -32016, 'over rate limit', 'rateLimited'],
  [state, -32001, 'rpc method is not whitelisted', 'methodNotFound'],
  [logs, -32005, 'Maximum allowed number of requested blocks is 1000', 'rangeTooWide'],
  [logs, -32005, 'please limit the query to at most 1000 blocks', 'rangeTooWide'],
  [logs, 35, 'ranges over 10000 blocks are not supported on freetier', 'rangeTooWide'],
  [logs, -32000, 'requested too many blocks from 1 to 9999, maximum is set to 2048', 'rangeTooWide'],
  [logs, -32602, 'Block range limit exceeded. See more details at https://docs.example.org', 'rangeTooWide'],
  [logs, -32000, 'block range greater than 1024 max, requested: 2000', 'rangeTooWide'],
  [logs, -32005, 'limit exceeded', 'tooLarge'],
  [state, -32005, 'limit exceeded', 'rateLimited'],
  // Recognized by code alone
  [state, -32700, 'parse error', 'requestRejected'],
  [state, -32700, 'Parsing error', 'requestRejected'],
  [state, -32700, 'Invalid JSON was received by the server.', 'requestRejected'],
  [state, -32700, 'Unexpected token < in JSON at position 0', 'requestRejected'],
  [state, -32603, 'Internal error', 'internal'],
  ['eth_call', -32603, 'VM Exception while processing transaction: reverted with reason string "x"', 'reverted'],
  ['eth_call', -32603, 'EVM error OutOfGas', 'reverted'],
  ['eth_call', -32603, 'EVM error FatalExternalError', 'internal'],
  ['eth_call', -32603, 'EVM error; database error: missing trie node 0x1', 'stateUnavailable'],
  [state, -32004, 'not supported', 'methodNotFound'],
  [state, -32000, 'something else', undefined],
]

t.test('each message of a node has its category', async t => {
  t.ok(rows.length > 100)
  for (const [method, code, message, category] of rows) {
    t.equal(shippedMethods.errorCategory({ code, message }, method), category, `${method} ${code} ${message}`)
  }
})

t.test('the case of a message and the text around a piece make no difference', async t => {
  for (const [method, code, message, category] of rows.filter(row => row[3] !== undefined)) {
    t.equal(shippedMethods.errorCategory({ code, message: `upstream said: ${message.toUpperCase()} (id 7)` }, method), category, message)
  }
})

t.test('text of a contract, or text that a node quotes from a caller, never counts as an error about the node itself', async t => {
  const about: readonly (ErrorCategory | undefined)[] = ['rateLimited', 'unauthorized', 'noBackend', 'timeout']
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

t.test('the first entry whose code, message and methods all match decides', async t => {
  const { errorCategory: categoryOf } = openMethodTable(
    tableOf({
      ...small,
      errors: [
        { category: 'alreadyKnown', code: [1, 2], message: ['one * two', 'three'], methods: ['a'] },
        { category: 'stateUnavailable', message: 'one' },
        { category: 'noBackend', code: 2 },
      ],
    }),
    devnet,
  )
  t.equal(categoryOf({ code: 1, message: 'ONE more for two: one and TWO' }, 'a'), 'alreadyKnown')
  t.equal(categoryOf({ code: 2, message: 'three' }, 'a'), 'alreadyKnown')
  t.equal(categoryOf({ code: 1, message: 'a two, and one more' }, 'a'), 'stateUnavailable', 'pieces must be in order')
  t.equal(categoryOf({ code: 1, message: 'one two' }, 'b'), 'stateUnavailable')
  t.equal(categoryOf({ code: 3, message: 'three' }, 'a'), undefined)
  t.equal(categoryOf({ code: 2, message: 'four' }, 'a'), 'noBackend')
  t.equal(
    openMethodTable(tableOf(small), devnet).errorCategory({ code: -32601, message: '' }, 'a'),
    undefined,
    'a table may have no patterns',
  )
})

t.test('each issue of an entry has its path', async t => {
  const issues = (...errors: readonly unknown[]) =>
    compileTable({ ...small, errors }).issues.map(
      ({ path, message, hint }) => `${path.join('/')}: ${message}${hint === undefined ? '' : ` [${hint}]`}`,
    )
  t.strictSame(issues({ category: 'toMany', message: 'many' }), [
    'errors/0/category: errors[0].category must be one of reverted, alreadyKnown, tooMany, tooLarge, rangeTooWide, timeout, blockNotFound, stateUnavailable, invalidParams, rateLimited, unauthorized, noBackend, methodNotFound, requestRejected, internal, not "toMany" [did you mean `tooMany`?]',
  ])
  t.strictSame(issues({ code: 1 }), ['errors/0: errors[0] needs "category"'])
  t.strictSame(issues({ category: 'noBackend' }), ['errors/0: errors[0] needs "code" or "message"'])
  t.strictSame(issues({ category: 'noBackend', methods: ['a'] }), ['errors/0: errors[0] needs "code" or "message"'])
  t.strictSame(issues({ category: 'noBackend', code: '1' }), ['errors/0/code: errors[0].code must be a whole number or an array, not "1"'])
  t.strictSame(issues({ category: 'noBackend', message: 'a*b' }), [
    'errors/0/message: errors[0].message must be a piece of a message with at least three characters in a row other than `*`, not "a*b"',
  ])
  t.strictSame(issues({ category: 'noBackend', message: ['fine', '*'] }).length, 1)
  t.strictSame(issues({ category: 'noBackend', mesage: 'busy' }), [
    'errors/0/mesage: errors[0].mesage is unknown [did you mean `message`?]',
  ])
  t.strictSame(issues({ category: 'noBackend', code: 1 }, { category: 'alreadyKnown', code: 1, methods: ['aa'] }), [
    'errors/1/methods/0: errors[1].methods[0] is "aa", which is not in the method table [did you mean `a`?]',
  ])
  t.strictSame(issues('busy'), ['errors/0: errors[0] must be an error pattern, not "busy"'])
})

t.test('no message takes long', async t => {
  const begun = process.cpuUsage()
  for (const message of ['state '.repeat(100_000), 'range '.repeat(100_000), '*'.repeat(100_000), 'end ('.repeat(100_000)]) {
    for (let i = 0; i < 100; i++) shippedMethods.errorCategory({ code: -32000, message }, logs)
  }
  t.ok(process.cpuUsage(begun).user / 400 < 1_000, 'in microseconds of CPU')
})

t.test('each category is used in the table', async t => {
  const { errors } = shippedData() as { errors: { category: string }[] }
  t.same(
    [...new Set(errors.map(entry => entry.category))].sort(),
    [...new Set(rows.map(row => row[3]).filter(one => one !== undefined))].sort(),
  )
})

const small = { defaults: { cost: 80, cache: 'never', class: 'light', idempotent: true }, methods: { a: {}, b: {} } }
