import { once } from 'node:events'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import net from 'node:net'
import { text } from 'node:stream/consumers'
import { WebSocket } from 'ws'
import t from '../support/tap.ts'
import { deferred } from '../support/deferred.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, connectWs, openRawConnection, post as send } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// What unusual clients, proxies and scanners send to the listener, byte by byte.

const node = await startFakeNode({
  eth_blockNumber: { result: '0x10' },
  eth_chainId: ({ path }) => ({ result: path === '/7' ? '0x7' : '0x7a69' }),
})
t.teardown(() => node.stop())
const { deployment, gateway, key } = await startGateway(t, {
  networks: {
    // However long a busy machine takes, the node counts as responsive.
    testnet: networkFile('testnet', [node.url], { upstream: { timeout: '60s', probeAfter: '30s' } }),
    othernet: { ...networkFile('othernet', [`${node.url}/7`]), chainId: 7, hosts: ['other.test', '::1'] },
  },
})

const body = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'
const json = ['Host: 127.0.0.1', 'Content-Type: application/json', `Content-Length: ${body.length}`]
const requestText = (line: string, headers: readonly string[], rest = body) => `${line} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n${rest}`
const post = (target: string, ...more: readonly string[]) => requestText(`POST ${target}`, [...json, ...more])
const validRequest = post(`/v3/${key}`)

/** Everything that comes back until the pattern does, or until the gateway closes. */
const exchangeBytes = async (bytes: string, pattern?: RegExp): Promise<string> => {
  const raw = await openRawConnection(gateway.rpc)
  raw.write(bytes)
  const text = pattern === undefined ? await raw.received : await raw.waitFor(pattern)
  raw.close()
  return text
}

const handshake = (...changes: readonly string[]) =>
  [
    'Host: 127.0.0.1',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Version: 13',
  ].map(line => changes.find(change => change.split(':')[0] === line.split(':')[0]) ?? line)

t.test('a WebSocket that comes the moment the gateway listens is opened, with the call that came behind its handshake', async t => {
  const frame = Buffer.concat([Buffer.from([0x81, 0x80 | body.length, 0, 0, 0, 0]), Buffer.from(body)]) // masked with zeros
  const raw = await openRawConnection(gateway.rpc)
  raw.write(Buffer.concat([Buffer.from(requestText(`GET /ws/v3/${key}`, handshake(), '')), frame]))
  t.match(await raw.waitFor(/0x7a69/), /^HTTP\/1.1 101 .*"result":"0x7a69"/s)
  raw.close()
})

t.test('the API key may be in a header; a request with two different keys is refused', async t => {
  const other = (await deployment.addKey('alice')).key
  const statusOf = async (target: string, headers: Record<string, string>) =>
    (await send(`${gateway.rpc}${target}`, body, { headers })).status
  for (const target of ['/v3', '/v3/', `/v3/${key}`]) {
    t.equal(await statusOf(target, { authorization: `Bearer ${key}` }), 200)
    t.equal(await statusOf(target, { authorization: `bearer  ${key}`, 'x-api-key': key }), 200)
    t.equal(await statusOf(target, { 'x-api-key': key, authorization: 'Basic YTpi' }), 200)
  }
  t.equal(await statusOf(`/v3/${key}`, { authorization: 'Basic YTpi', 'x-api-key': '' }), 200)
  t.equal(await statusOf(`/v3/${key}`, { authorization: 'Bearer token-of-another-service' }), 200, 'beside a key in the path')
  t.equal(await statusOf(`/v3/${key}`, { authorization: `Bearer ${other}` }), 401)
  t.equal(await statusOf('/v3', { authorization: 'Basic YTpi' }), 401)
  const refused = await send(`${gateway.rpc}/v3/${key}`, body, { headers: { 'x-api-key': other } })
  t.match(refused.json(), { error: { code: -32090, message: /two different API keys/ } })
  t.equal(refused.status, 401)
  t.equal(await statusOf('/v3', { authorization: `Bearer ${key}`, 'x-api-key': other }), 401)
  const twoHeaders = (first: string, second: string) =>
    exchangeBytes(post('/v3', `Authorization: Bearer ${first}`, `authorization: bearer ${second}`), /\}\}?$/)
  t.match(await twoHeaders(key, other), /^HTTP\/1.1 401 .*two different API keys/s)
  t.match(await twoHeaders(key, key), /"result":"0x7a69"/)
  t.match(await exchangeBytes(post('/v3', `X-Api-Key: ${key}`, `X-Api-Key: ${key}`), /\}\}?$/), /"result":"0x7a69"/)
  const socket = await connectWs(`${gateway.rpc.replace('http', 'ws')}/ws/v3`, { headers: { authorization: `Bearer ${key}` } })
  t.equal((await socket.call('eth_chainId')).result, '0x7a69')
  await socket.close()
  t.notOk(gateway.log.some(line => JSON.stringify(line).includes(key)))
})

t.test('a request target in absolute form names the network, whatever the Host header says', async t => {
  t.match(await exchangeBytes(post(`http://other.test:80/v3/${key}?a=b`), /\}$/), /^HTTP\/1.1 200 .*"result":"0x7"/s)
  t.match(await exchangeBytes(post(`HTTP://[::1]/v3/${key}`), /\}$/), /"result":"0x7"/)
  t.match(
    await exchangeBytes(post(`http://nobody.test/v3/${key}`), /\}\}$/),
    /^HTTP\/1.1 404 .*no network is served on the host nobody\.test/s,
  )
  t.match(await exchangeBytes(post('http://other.test'), /\}\}$/), /^HTTP\/1.1 404 .*is v3: /s)
})

t.test('a key with escapes in the path is the same key; what cannot be decoded is malformed', async t => {
  t.match(await exchangeBytes(post(`/v3/${key.replace('_', '%5f')}`), /\}$/), /"result":"0x7a69"/)
  t.match(await exchangeBytes(post('/v3/%ff%'), /\}\}$/), /^HTTP\/1.1 401 .*malformed/s)
})

t.test('an offer of another protocol, as Java makes with each call, is ignored and the connection lives on', async t => {
  const offered = post(`/v3/${key}`, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA')
  const keptAlive = await openRawConnection(gateway.rpc)
  for (let i = 1; i <= 16; i++) {
    keptAlive.write(i < 16 ? offered : validRequest)
    t.match(await keptAlive.waitFor(new RegExp(`(0x7a69.*){${i}}`, 's')), new RegExp(`^(HTTP/1.1 200 OK((?!HTTP/1.1).)*){${i}}$`, 's'))
  }
  keptAlive.close()
  t.match(await exchangeBytes(offered.repeat(15) + validRequest, /(0x7a69.*){16}/s), /^(HTTP\/1.1 200 OK((?!HTTP\/1.1).)*){16}$/s)
  const [head, rest] = [offered.slice(0, -20), offered.slice(-20)]
  const raw = await openRawConnection(gateway.rpc)
  raw.write(head)
  await call(gateway.http(key), 'eth_chainId')
  raw.write(rest)
  t.match(await raw.waitFor(/0x7a69/), /^HTTP\/1.1 200 OK/, 'the body may come later')
  raw.close()
  t.match(
    await exchangeBytes(post(`/v3/${key}`, 'Connection: Upgrade', 'Upgrade: websocket'), /\}$/),
    /"result":"0x7a69"/,
    'a WebSocket opens with GET only',
  )
})

t.test('encodings of a body go by their name in any case, and none is none', async t => {
  for (const coding of ['identity', 'Identity', ''])
    t.match(await exchangeBytes(post(`/v3/${key}`, `Content-Encoding: ${coding}`), /\}$/), /"result":"0x7a69"/)
})

t.test('what is no HTTP gets the JSON of the table and its CORS headers, and the connection ends', async t => {
  const headers = (count: number) => Array.from({ length: count }, (_, i) => `X-${i}: ${'a'.repeat(1000)}`)
  const [malformed, tooLarge] = ['the HTTP message is malformed', 'the headers are too large']
  for (const [bytes, status, code, message = ''] of [
    ['\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n', 400, -32600, malformed],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, -32600, malformed],
    [requestText('FOO /', json), 405, -32600],
    [post(`/v3/${key}`, 'Transfer-Encoding: chunked'), 400, -32600],
    [requestText(`POST /v3/${key}`, ['Host: 127.0.0.1', 'Content-Type: application/json', 'Content-Length: x']), 400, -32600],
    [post(`/v3/${key}`, ...headers(20)), 431, -32600, tooLarge],
    ['CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n', 405, -32600],
  ] as const) {
    const text = await exchangeBytes(bytes)
    t.match(
      text,
      new RegExp(
        `^HTTP/1.1 ${status} [^]*access-control-allow-origin: \\*[^]*"id":null,"error":\\{"code":${code},"message":"${message}`,
        'i',
      ),
    )
    t.match(text, /content-type: application\/json\r\n/i)
  }
  t.match(
    await exchangeBytes(`${validRequest}garbage\r\n\r\n`),
    /^HTTP\/1.1 200 .*0x7a69.*HTTP\/1.1 400 /s,
    'what came before it was answered',
  )
})

t.test('a WebSocket handshake that is malformed gets 400, one of another version 426, and the message says what is wrong', async t => {
  for (const [change, status, problem] of [
    ['Sec-WebSocket-Version: 12', 426, /version/],
    ['Sec-WebSocket-Key: x', 400, /Key/],
    ['X: y\r\nSec-WebSocket-Protocol: a,,b', 400, /Protocol/],
  ] as const) {
    const headers = change.startsWith('X') ? [...handshake(), change] : handshake(change)
    const text = await exchangeBytes(requestText(`GET /ws/v3/${key}`, headers, ''))
    t.match(text, new RegExp(`^HTTP/1.1 ${status} `))
    t.match(text, /access-control-allow-origin: \*[^]*sec-websocket-version: 13\r\n[^]*"code":-32600/i)
    t.match(JSON.parse(text.slice(text.indexOf('{'))).error.message, problem)
  }
})

t.test('a refused upgrade takes its connection along, even if the caller keeps its side open', async t => {
  const { hostname, port } = new URL(gateway.rpc)
  const socket = net.connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  socket.write(requestText('GET /ws/v3/nobody', handshake(), ''))
  socket.resume()
  await once(socket, 'end')
  const gone = new Promise<string>(resolve => socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? '')))
  const knock = setInterval(() => socket.write('x'), 20)
  t.match(await gone, /^(ECONNRESET|EPIPE)$/)
  clearInterval(knock)
})

/** A connection whose reading side stays open when the caller closes its writing side. */
const openHalf = () => {
  const { hostname, port } = new URL(gateway.rpc)
  return net.connect({ host: hostname, port: Number(port), allowHalfOpen: true })
}

t.test('a caller that closes its side before the response has left: its calls are canceled, and it gets nothing', async t => {
  node.setResponse('eth_syncing', 'hang')
  const callText = '{"jsonrpc":"2.0","id":1,"method":"eth_syncing"}'
  const posted = requestText(`POST /v3/${key}`, [...json.slice(0, 2), `Content-Length: ${callText.length}`], callText)
  const frame = Buffer.concat([Buffer.from([0x81, 0x80 | callText.length, 0, 0, 0, 0]), Buffer.from(callText)])
  const upgradeText = Buffer.from(requestText(`GET /ws/v3/${key}`, handshake(), ''))
  const count499 = async () => (await gateway.metric('tollgate_http_responses_total', { status: '499' })) || 0
  const before = await count499()
  for (const [i, [bytes, received]] of (
    [
      [Buffer.from(posted), /^$/],
      [Buffer.from(posted.repeat(2)), /^$/],
      [Buffer.concat([upgradeText, frame]), /^HTTP\/1.1 101 (?!.*eth_syncing)/],
    ] as const
  ).entries()) {
    const socket = openHalf()
    const chunks: Buffer[] = []
    socket.on('data', chunk => chunks.push(chunk)).write(bytes)
    await node.waitForRequests('eth_syncing', i + 1)
    socket.end()
    await once(socket, 'close')
    t.match(String(Buffer.concat(chunks)), received)
  }
  t.equal((await count499()) - before, 3, 'each HTTP request is counted as 499')
})

t.test('a response that is there before the gateway sees the end of the connection is sent', async t => {
  for (const bytes of [validRequest, requestText(`GET /ws/v3/${key}`, handshake(), '')]) {
    const socket = openHalf()
    const chunks: Buffer[] = []
    socket.on('data', chunk => chunks.push(chunk)).end(bytes)
    await once(socket, 'close')
    t.match(String(Buffer.concat(chunks)), bytes === validRequest ? /0x7a69/ : /^HTTP\/1.1 101 /)
  }
})

t.test('callers who reset their connections leave no trace', async t => {
  const { hostname, port } = new URL(gateway.rpc)
  for (let i = 0; i < 50; i++) {
    const socket = net.connect({ host: hostname, port: Number(port) })
    await once(socket, 'connect')
    socket.write(
      [
        validRequest,
        requestText(`GET /v3/${key}`, ['Host: 127.0.0.1'], ''),
        validRequest,
        requestText(`GET /ws/v3/${key}`, handshake(), ''),
      ]
        .slice(i % 4)
        .join(''),
    )
    await new Promise(resolve => setImmediate(resolve))
    socket.resetAndDestroy()
  }
  t.equal((await call(gateway.http(key), 'eth_chainId')).result, '0x7a69')
  t.equal(gateway.stderr(), '')
})

t.test('SIGTERM: a socket that never falls silent does not hold the gateway; each call that was taken is answered, then 1001', async t => {
  const other = await deployment.start()
  const { promise: held, resolve: finish } = deferred()
  node.setResponse('eth_gasPrice', async () => {
    await held
    return { result: '0x9' }
  })
  const [idle, waiting, busy] = await Promise.all([connectWs(other.ws(key)), connectWs(other.ws(key)), connectWs(other.ws(key))])
  waiting.send(JSON.stringify({ jsonrpc: '2.0', id: 'held', method: 'eth_gasPrice' }))
  const post = call(other.http(key), 'eth_gasPrice')
  await node.waitForRequests('eth_gasPrice', 1)
  const talking = setInterval(() => busy.socket.readyState === WebSocket.OPEN && busy.send(body), 1)
  await busy.nextMessage()
  const stopped = other.stop()
  t.same([(await idle.closed).code, (await busy.closed).code], [1001, 1001], 'who waits for nothing may go elsewhere at once')
  clearInterval(talking)
  waiting.send(body)
  t.equal(waiting.socket.readyState, WebSocket.OPEN)
  finish()
  t.equal((await post).result, '0x9')
  t.match(await waiting.nextMessage(), { id: 'held', result: '0x9' })
  t.equal((await waiting.closed).code, 1001)
  t.equal(await stopped, 0)
})

t.test('SIGTERM: who reads a long answer slowly gets all of it', async t => {
  const { gateway, url } = await startGateway(t, { networks: { testnet: networkFile('testnet', [node.url]) } })
  const data = `0x${'0'.repeat(20_000_000)}` // more than the system takes off our hands
  node.setResponse('eth_call', { result: data })
  const asking = request(url, { method: 'POST', headers: { 'content-type': 'application/json' } })
  asking.end('{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x1111111111111111111111111111111111111111"},"latest"]}')
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  const stopped = gateway.stop()
  await waitUntil(async () => (await gateway.get('/readyz')).status !== 200)
  t.equal((await text(response)).length, data.length + '{"jsonrpc":"2.0","id":1,"result":""}'.length)
  t.equal(await stopped, 0)
})

t.test('after all that the gateway has written nothing to stderr, and serves', async t => {
  /** But that the disk of a busy machine is slow. */
  const warnings = () => gateway.log.filter(({ level, cause }) => Number(level) >= 40 && !/^no answer for/.test(String(cause)))
  t.equal((await call(gateway.http(key), 'eth_chainId')).result, '0x7a69')
  t.equal(gateway.stderr(), '')
  t.same(warnings(), [])
  t.equal(await gateway.stop(), 0)
  t.same(warnings(), [], 'nothing was thought to be still running')
})
