import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { keccak_256 } from '@noble/hashes/sha3.js'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { refusals } from '../../src/plugin/error-table.ts'
import { isCharged, refuse } from '../../src/plugin/reply.ts'
import type { RefusalKind } from '../../src/plugin/error-table.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { UpgradeRefused, call, connectWs, post } from '../support/rpc-client.ts'
import type { HttpResponse, RequestOptions, RpcMessage } from '../support/rpc-client.ts'
import { generateApiKey } from '../../src/services/accounts/api-key.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { fastestMs } from '../support/fastest-ms.ts'
import { waitUntil } from '../support/wait-until.ts'

// One gateway, scripted nodes, and every row of the table of answers, as callers meet it.

const logs = (count: number) => Array.from({ length: count }, (_, i) => ({ blockNumber: `0x${(i >> 8).toString(16)}`, topics: [] }))
const block = '0x0000000000000000000000000000000000000000000000000000000000000001'
const node = await startFakeNode({
  eth_blockNumber: { result: '0x10' },
  eth_getStorageAt: { result: block },
  eth_call: { error: { code: 3, message: 'execution reverted', data: '0x08c379a0' } },
  eth_getLogs: ({ params }) => ({ result: logs(Number((params[0] as { toBlock: string }).toBlock)) }),
  eth_getBalance: 'close',
})
const oversizedNode = await startFakeNode({
  eth_getLogs: ({ id }) => ({ raw: `{"jsonrpc":"2.0","id":${String(id)},"result":["${'0'.repeat(33 << 20)}"]}` }),
})
/** Of the transaction 0x12. */
const acceptedHash = `0x${Buffer.from(keccak_256(Buffer.from([0x12]))).toString('hex')}`
const silentNode = await startFakeNode({
  eth_getLogs: ({ params }) => ((params[0] as { toBlock: string }).toBlock === '0x0' ? { result: [] } : 'hang'),
  eth_call: 'hang',
  eth_sendRawTransactionSync: 'hang',
  eth_getTransactionReceipt: { result: null },
  eth_getTransactionByHash: ({ params: [hash] }) => ({ result: hash === acceptedHash ? { hash } : null }),
  eth_blockNumber: { result: '0x1' },
})
const withHost = (host: string, network: object) => ({ ...network, hosts: [host] })
t.teardown(() => Promise.all([node, oversizedNode, silentNode].map(each => each.stop())))
const { deployment, gateway, key, url } = await startGateway(t, {
  gateway: {
    plans: { core: { dailyCredits: 100_000_000 }, tiny: { dailyCredits: 100 } },
    limits: { body: '16KiB', batchReply: '10KiB' },
  },
  networks: {
    testnet: networkFile('testnet', [node.url], { cache: { methods: { eth_getStorageAt: 'never' } } }),
    hugenet: withHost('huge.test', networkFile('hugenet', [oversizedNode.url])),
    slownet: withHost('slow.test', networkFile('slownet', [silentNode.url], { upstream: { timeout: '300ms', probeAfter: '50ms' } })),
    lonenet: withHost('lone.test', networkFile('lonenet', [node.url])),
    ratednet: withHost('rated.test', withRateLimit(networkFile('ratednet', [node.url]))),
  },
  files: { 'call-limit.js': readFileSync('docs/examples/call-limit.js', 'utf8') },
})
const errorsPage = readFileSync('docs/errors.md', 'utf8')

/** With an example plugin, between key-auth and cache as its page says. */
function withRateLimit(network: Readonly<Record<string, unknown>>): object {
  const [envelope, auth, ...rest] = network['pipeline'] as object[]
  return { ...network, pipeline: [envelope, auth, { use: '../call-limit.js', with: { calls: 1 } }, ...rest] }
}

/** What the store knows. */
const usedCredits = async (account: string): Promise<number> =>
  JSON.parse((await deployment.run('usage', account, '--json')).stdout).used as number

const postCall = (body: unknown, asking: RequestOptions = {}): Promise<HttpResponse> =>
  post(url, typeof body === 'string' ? body : JSON.stringify(body), asking)
/** How often the node was asked this; polls for its head come and go. */
const requestCount = (method: string): number => node.received.filter(each => each.method === method).length
const request = (method: string, params: unknown = [], id: unknown = 1) => ({ jsonrpc: '2.0', id, method, params })
/** The node answers as many logs as `toBlock` says, 256 to a block. */
const logsRequest = (count: number) => request('eth_getLogs', [{ fromBlock: '0x0', toBlock: `0x${count.toString(16)}` }])

const assertError = (t: Test, answer: HttpResponse, status: number, code: number, message: RegExp | string, credits?: number) => {
  t.equal(answer.status, status)
  t.match(answer.json().error, { code, message })
  t.equal(answer.headers['access-control-allow-origin'], '*')
  t.equal(answer.headers['content-type'], 'application/json')
  t.ok(answer.headers['x-request-id'])
  t.equal(answer.headers['x-tollgate-credits'], String(credits ?? 0), 'each refusal says what it cost')
  t.match(answer.headers['retry-after'], [429, 503].includes(status) ? /^[1-5]$/ : undefined)
  t.match(answer.headers.allow, status === 405 ? 'POST, OPTIONS' : undefined)
  t.match(
    answer.headers['www-authenticate'],
    status === 401 ? /^Bearer realm=/ : undefined,
    'a 401 says how to authenticate (RFC 9110, 15.5.2)',
  )
  t.notOk(answer.text.includes(key))
}

interface ErrorCase extends RequestOptions {
  /** In place of that with the key. */
  readonly path?: string
  readonly credits?: number
}

const cases: readonly (readonly [what: string, body: unknown, status: number, code: number, message: string | RegExp, ErrorCase?])[] = [
  ['what is not JSON', '{', 200, -32700, 'parse error'],
  ['what is not a request', { id: 7 }, 200, -32600, /^invalid request: ./],
  ['a batch over 1,000, too short for an error each', Array.from({ length: 1001 }, () => 1), 200, -32600, /1000/],
  ['nesting over 64', '['.repeat(16_000), 200, -32600, /64/],
  ['a method that is not offered', request('eth_foo'), 200, -32601, 'the method eth_foo does not exist/is not available'],
  ['a bad parameter', request('eth_getStorageAt', ['0x12', '0x0', 'latest']), 200, -32602, /params\[0\].*20 bytes.*"0x12"/],
  ['a call that a node does not finish in time', request('eth_call', [{}]), 503, -32002, /no upstream/, { host: 'slow.test' }],
  ["a node's own error", request('eth_call', [{}]), 200, 3, 'execution reverted', { credits: 80 }],
  ["a node's answer over 32 MiB", logsRequest(1), 200, -32003, 'response too large', { host: 'huge.test', credits: 255 }],
  ['a call that no upstream can answer', request('eth_getBalance', [`0x${'0'.repeat(40)}`]), 503, -32002, /no upstream/],
  ['a missing key', '{', 401, -32090, /missing/, { path: '/v3' }],
  ['a key in the query', '{', 401, -32090, /missing: put it in the path, .*a query is not read/, { path: `/v3?key=${key}` }],
  ['a malformed key', '{', 401, -32090, /malformed/, { path: '/v3/tg_' }],
  ['an unknown key', '{', 401, -32090, /unknown/, { path: `/v3/${generateApiKey().reveal()}` }],
  ['an unlisted host', '{', 404, -32090, /host other\.test/, { host: 'other.test' }],
  ['an unknown path', '{', 404, -32090, /v3/, { path: `/v3/a/${key}` }],
  ['another version', '{', 404, -32090, /version v2 is not served.*v3/, { path: `/v2/${key}` }],
  ['another HTTP method', '', 405, -32600, /POST/, { method: 'GET' }],
  ['a body that is too large', 'x'.repeat(17_000), 413, -32600, /16384/],
  [
    'a body that is too large and does not say so',
    'x'.repeat(17_000),
    413,
    -32600,
    /16384/,
    { headers: { 'transfer-encoding': 'chunked' } },
  ],
  ['another content type', '{}', 415, -32600, /application\/json/, { headers: { 'content-type': 'text/plain' } }],
  ['a compressed body', '{}', 415, -32600, /compressed/, { headers: { 'content-encoding': 'gzip' } }],
]

for (const [what, body, status, code, message, { path, credits, ...asking } = {}] of cases) {
  t.test(`${what} gets ${status} ${code}`, async t => {
    const answer = await (path === undefined ? postCall(body, asking) : post(`${gateway.rpc}${path}`, String(body), asking))
    assertError(t, answer, status, code, message, credits)
  })
}

t.test("10,000 logs pass; one more gets the contract's words, a range that fits, and is charged", async t => {
  t.equal(((await postCall(logsRequest(10_000))).json().result as unknown[]).length, 10_000)
  const answer = await postCall(logsRequest(10_001))
  assertError(t, answer, 200, -32005, 'query returned more than 10000 results', 255)
  t.same(answer.json().error?.data, { from: '0x0', to: '0x26', limit: 10_000 })
  t.match(answer.headers, { 'x-tollgate-cache': 'miss', 'x-tollgate-upstream': 'node-1' })
})

t.test('the same query repeated within seconds is answered from memory, with the same words, and not charged', async t => {
  const before = requestCount('eth_getLogs')
  const answer = await postCall(logsRequest(10_001))
  assertError(t, answer, 200, -32005, 'query returned more than 10000 results', 0)
  t.equal(answer.headers['x-tollgate-credits'], '0')
  t.same(answer.json().error?.data, { from: '0x0', to: '0x26', limit: 10_000 })
  t.equal(answer.headers['x-tollgate-cache'], 'hit')
  t.equal(requestCount('eth_getLogs'), before)
})

t.test(
  "a query that a living node cannot finish in time gets the contract's words, charged if the node answered others meanwhile",
  async t => {
    assertError(t, await postCall(logsRequest(1), { host: 'slow.test' }), 200, -32005, 'query timeout exceeded', 0)
    const requests = silentNode.received.length
    const slow = postCall(logsRequest(3), { host: 'slow.test' })
    while (silentNode.received.length === requests) await new Promise(setImmediate)
    t.same((await postCall(logsRequest(0), { host: 'slow.test' })).json().result, [])
    assertError(t, await slow, 200, -32005, 'query timeout exceeded', 255)
  },
)

t.test(
  'a transaction that a node has accepted, and whose receipt it does not return in time, gets the error of EIP-7966 with its hash',
  async t => {
    const answer = await postCall(request('eth_sendRawTransactionSync', ['0x12', 1]), { host: 'slow.test' })
    assertError(t, answer, 200, 4, 'the transaction was sent, and no block has it yet', 160)
    t.equal(answer.json().error?.data, acceptedHash)
    assertError(t, await postCall(request('eth_sendRawTransactionSync', ['0x13', 1]), { host: 'slow.test' }), 503, -32002, /no upstream/, 0)
  },
)

t.test('members of a batch that do not fit into its reply get response too large; those that a node answered are charged', async t => {
  const { key: own } = await deployment.addCaller('bert')
  const batch = Array.from({ length: 100 }, (_, i) => request('eth_getStorageAt', [`0x${'0'.repeat(40)}`, '0x0', 'latest'], i))
  const before = requestCount('eth_getStorageAt')
  const answer = await post(gateway.http(own), JSON.stringify(batch))
  const answered = requestCount('eth_getStorageAt') - before
  const members = answer.json() as unknown as RpcMessage[]
  const fitting = members.filter(member => member.result === block).length
  t.equal(answer.status, 200)
  t.ok(fitting > 20 && fitting < 100, `${fitting} fit`)
  t.equal(members.filter(member => member.error?.code === -32003).length, 100 - fitting)
  t.same(
    members.map(member => member.id),
    Array.from({ length: 100 }, (_, i) => i),
  )
  t.ok(answered > fitting && answered <= 100, `${answered} answered`)
  t.equal(answer.headers['x-tollgate-credits'], String(answered * 80))
  await waitUntil(async () => (await usedCredits('bert')) >= answered * 80)
  t.equal(await usedCredits('bert'), answered * 80)
})

t.test('a network that is not enabled for the key gets -32091, the rule and what is allowed', async t => {
  const { key: bound } = await deployment.addKey('alice', 'lonenet')
  const answer = await post(gateway.http(bound), JSON.stringify(request('eth_blockNumber')))
  assertError(t, answer, 200, -32091, /testnet/)
  t.same(answer.json().error?.data, { reason: 'network', allowed: ['lonenet'] })
  t.equal((await call(gateway.http(bound), 'eth_blockNumber', [], { host: 'lone.test' })).result, '0x10')
})

t.test("used-up credits get 402 -33000 with the day's figures and no Retry-After; a socket stays open", async t => {
  const { key: poor } = await deployment.addCaller('tim', 'tiny')
  t.equal((await call(gateway.http(poor), 'eth_blockNumber')).result, '0x10')
  const answer = await post(gateway.http(poor), JSON.stringify(request('eth_blockNumber')))
  assertError(t, answer, 402, -33000, /used up/)
  t.match(answer.json().error?.data, { limit: 100, used: 80, resetAt: /T00:00:00.000Z$/ })
  t.equal((await call(gateway.http(poor), 'eth_chainId')).result, '0x7a69', 'what still fits is served')
  const talker = await connectWs(gateway.ws(poor))
  t.equal((await talker.call('eth_blockNumber')).error?.code, -33000)
  t.equal((await talker.call('net_version')).result, '31337')
  await talker.close()
})

t.test('HTTP answers say how much of the day is left, refusals and batches too; scripts of web pages may read it', async t => {
  const { key: own } = await deployment.addKey('tim')
  const policy = '"daily-credits";q=100;w=86400'
  const refused = await post(gateway.http(own), JSON.stringify(request('eth_blockNumber')))
  t.match(refused.headers, { 'ratelimit-policy': policy, ratelimit: /^"daily-credits";r=10;t=\d+$/ })
  t.ok(Number(/t=(\d+)/.exec(String(refused.headers['ratelimit']))?.[1]) <= 86_400)
  const { key: full } = await deployment.addCaller('una', 'tiny')
  const batch = await post(gateway.http(full), JSON.stringify([request('eth_chainId'), request('net_version')]))
  t.match(batch.headers, { 'ratelimit-policy': policy, ratelimit: /^"daily-credits";r=90;/, 'x-tollgate-credits': '10' })
  t.notOk((await post(gateway.http('nobody'), '{}')).headers['ratelimit'], 'who has no account has no day')
  const talker = await connectWs(gateway.ws(full))
  t.same(
    Object.keys(await talker.call('eth_chainId')).sort(),
    ['id', 'jsonrpc', 'result'],
    'a WebSocket message is as the node would send it',
  )
  t.same(Object.keys(await talker.call('eth_blockNumber')).sort(), ['id', 'jsonrpc', 'result'])
  t.same(Object.keys((await talker.call('eth_blockNumber')).error ?? {}).sort(), ['code', 'data', 'message'])
  await talker.close()
  for (const name of ['ratelimit', 'ratelimit-policy', 'x-tollgate-credits']) {
    t.ok(String(batch.headers['access-control-expose-headers']).toLowerCase().split(', ').includes(name))
  }
})

t.test('an account whose plan is gone gets 401 in plain words, and is served again once it is on another', async t => {
  const store = await openStore({ kind: 'lmdb', path: join(deployment.dir, '../data') }, systemClock)
  await store.addAccount({ id: 'acc_gone', name: 'gus', plan: 'gold', created: 1 })
  await store.close()
  const { key: stranded } = await deployment.addKey('gus')
  const refused = await post(gateway.http(stranded), JSON.stringify(request('eth_blockNumber')))
  assertError(t, refused, 401, -32090, /^the plan of this account no longer exists$/)
  await t.rejects(connectWs(gateway.ws(stranded)), { message: /rejected with 401/ })
  t.match(await deployment.run('check'), { code: 0, stdout: /warning: gateway\.yaml has no plan `gold`: .* are rejected: gus$/m })
  await deployment.run('accounts', 'set', 'gus', '--plan', 'core')
  await waitUntil(async () => (await call(gateway.http(stranded), 'eth_blockNumber')).result === '0x10')
})

t.test('too many calls per second get 429 -32005 with Retry-After, from a plugin', async t => {
  t.equal((await postCall(request('eth_blockNumber'), { host: 'rated.test' })).status, 200)
  const answer = await postCall(request('eth_blockNumber'), { host: 'rated.test' })
  assertError(t, answer, 429, -32005, /per second/)
})

t.test('a body is JSON, with parameters and as json-rpc too', async t => {
  const good = JSON.stringify(request('eth_chainId'))
  for (const type of ['application/x-www-form-urlencoded', 'application/jsonp', '']) {
    assertError(t, await postCall(good, { headers: { 'content-type': type } }), 415, -32600, /application\/json/)
  }
  for (const type of ['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/json-rpc', 'application/json ;x=y']) {
    const answer = await postCall(good, { headers: { 'content-type': type } })
    t.equal(answer.json().result, '0x7a69')
    t.equal(answer.headers['content-type'], 'application/json')
  }
})

t.test('a preflight is answered before the key is looked at, for any header', async t => {
  const answer = await post(gateway.http('nobody'), '', {
    method: 'OPTIONS',
    headers: { 'access-control-request-headers': 'content-type, x-a' },
  })
  t.equal(answer.status, 204)
  t.match(answer.headers, {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': /POST/,
    'access-control-allow-headers': 'content-type, x-a',
  })
})

t.test('a notification is carried out and gets 204 without a body; so do batches of nothing else', async t => {
  const before = requestCount('eth_getStorageAt')
  const answer = await postCall({ jsonrpc: '2.0', method: 'eth_getStorageAt', params: [`0x${'1'.repeat(40)}`, '0x0', 'latest'] })
  t.equal(answer.status, 204)
  t.equal(answer.text, '')
  t.equal(requestCount('eth_getStorageAt'), before + 1)
  t.equal((await postCall([{ jsonrpc: '2.0', method: 'eth_chainId' }])).status, 204)
})

t.test('in a batch each member has its own answer, in order, and the status is 200', async t => {
  const answer = await postCall([
    request('eth_chainId', [], 'a'),
    1,
    { jsonrpc: '2.0', method: 'eth_chainId' },
    request('eth_foo', [], 2),
    request('eth_blockNumber', [], 'a'),
  ])
  t.equal(answer.status, 200)
  t.equal(answer.headers['x-tollgate-credits'], '90', 'the notification costs too')
  t.match(answer.json(), [
    { id: 'a', result: '0x7a69' },
    { id: null, error: { code: -32600 } },
    { id: 2, error: { code: -32601 } },
    { id: 'a', result: '0x10' },
  ])
  t.equal((answer.json() as unknown as unknown[]).length, 4)
})

t.test('over a WebSocket the same calls get the same answers, as text, whatever frame they came in', async t => {
  const talker = await connectWs(gateway.ws(key))
  talker.send(Buffer.from(JSON.stringify(request('eth_blockNumber', [], 5))))
  t.same(await talker.nextMessage(), { jsonrpc: '2.0', id: 5, result: '0x10' })
  talker.send(JSON.stringify([request('eth_chainId', [], 1), request('eth_foo', [], 2)]))
  t.match(await talker.nextMessage(), [
    { id: 1, result: '0x7a69' },
    { id: 2, error: { code: -32601 } },
  ])
  for (const [frame, code] of [
    ['{', -32700],
    ['[]', -32600],
    ['1', -32600],
    [Buffer.from([0xff]), -32700],
    ['['.repeat(9000), -32600],
  ] as const) {
    talker.send(frame)
    t.match(await talker.nextMessage(), { id: null, error: { code } })
  }
  talker.send(JSON.stringify({ jsonrpc: '2.0', method: 'eth_chainId' }))
  t.equal((await talker.call('eth_blockNumber')).result, '0x10', 'nothing was sent for the notification, and the socket lives')
  await talker.close()
})

t.test('a long answer is compressed for callers who ask for it, and only then', async t => {
  const body = JSON.stringify(logsRequest(9_000))
  // fetch asks for gzip, and inflates.
  const answer = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  t.equal(answer.headers.get('content-encoding'), 'gzip')
  t.equal(((await answer.json()) as { result: unknown[] }).result.length, 9_000)
  for (const accepted of ['', 'br', 'gzip;q=0']) {
    const plain = await post(url, body, { headers: { 'accept-encoding': accepted } })
    t.notOk(plain.headers['content-encoding'])
    t.equal((plain.json().result as unknown[]).length, 9_000)
  }
  t.notOk(
    (
      await fetch(url, { method: 'POST', body: JSON.stringify(request('eth_chainId')), headers: { 'content-type': 'application/json' } })
    ).headers.get('content-encoding'),
  )
})

t.test('an upgrade with a bad key, host or path is refused with the status and the JSON of the table', async t => {
  for (const [address, asking, status, code] of [
    [gateway.ws('tg_x'), {}, 401, -32090],
    [gateway.ws(key), { host: 'other.test' }, 404, -32090],
    [gateway.http(key).replace('http', 'ws'), {}, 404, -32090],
    [gateway.ws(key).replace('v3', 'v2'), {}, 404, -32090],
  ] as const) {
    const refused = await connectWs(address, asking).then(
      () => undefined,
      (error: unknown) => error,
    )
    if (!(refused instanceof UpgradeRefused)) throw refused ?? new Error('the upgrade was accepted')
    assertError(t, refused.response, status, code, /./)
  }
})

t.test('a key revoked while a socket is silent gets -32090 and close 1008 within a second', async t => {
  const tookMs = await fastestMs(1000, async () => {
    const fresh = await deployment.addKey('alice')
    const talker = await connectWs(gateway.ws(fresh.key))
    t.equal((await talker.call('eth_chainId')).result, '0x7a69')
    await deployment.run('keys', 'revoke', fresh.id)
    const revokedAt = performance.now()
    t.match(await talker.nextMessage(), { id: null, error: { code: -32090 } })
    t.equal((await talker.closed).code, 1008)
    return performance.now() - revokedAt
  })
  t.ok(tookMs < 1000, `${tookMs} ms`)
})

t.test('docs/errors.md lists each refusal with its kind, status, code, words and whether it is charged, and no other', async t => {
  const table = errorsPage.slice(errorsPage.indexOf('## Every error'), errorsPage.indexOf('## Errors of nodes'))
  const rows = table
    .split('\n')
    .filter(line => /^\| .*\| \d{3} \|/.test(line))
    .map(line => line.split('|').map(cell => cell.trim()))
  t.ok(rows.length > 15)
  for (const [kind, { status, code, message }] of Object.entries(refusals)) {
    const row = rows.find(cells => cells[6] === `\`${kind}\`` && cells[4]?.includes(`\`${message}\``))
    t.same(row?.slice(2, 4), [String(status), String(code)], kind)
    t.equal(row?.[5], isCharged(refuse(kind as RefusalKind)) ? 'yes' : 'no', kind)
  }
  t.match(
    rows.find(cells => cells[1]?.includes('from memory')),
    ['', /^the same query/, '200', '-32005', 'the same', 'no', '`tooMany`'],
  )
  t.notOk(isCharged(refuse('tooMany', { source: 'cache' })))
  const known = new Set<string>(Object.entries(refusals).map(([kind, row]) => `\`${kind}\` ${row.status} ${row.code}`))
  for (const cells of rows) if (/^-?\d+$/.test(cells[3] ?? '')) t.ok(known.has(`${cells[6]} ${cells[2]} ${cells[3]}`), cells.join('|'))
  const faults = Object.entries(refusals).flatMap(([kind, { fault }]) => (fault === 'caller' ? [] : [`\`${fault}\` for \`${kind}\``]))
  for (const fault of faults) t.match(table, fault)
})

t.test('neither keys nor upstream URLs are in anything the process wrote', async t => {
  const written = JSON.stringify(gateway.log) + gateway.stderr() + (await gateway.get('/metrics')).text
  t.ok(written.length > 1000)
  for (const secret of [key, node.url, oversizedNode.url, silentNode.url]) t.notOk(written.includes(secret))
})

t.test('after all that the books of the day are right, and each call was counted once', async t => {
  t.equal(await gateway.stop(), 0)
  t.equal(gateway.stderr(), '')
  const audit = await deployment.run('audit', '--json')
  t.same([audit.code, audit.stderr], [0, ''])
  t.match(JSON.parse(audit.stdout), [{ account: 'alice' }, { account: 'bert' }, { account: 'gus' }, { account: 'tim' }, { account: 'una' }])
  for (const { used, counted, held, faults } of JSON.parse(audit.stdout)) t.same([counted, held, faults], [used, 0, []])
  const usage = await deployment.run('usage', 'bert', '--by', 'outcome', '--json')
  const { groups, total } = JSON.parse(usage.stdout)
  t.match(groups, [{ name: 'ok' }])
  t.equal(total.credits, total.calls * 80)
})
