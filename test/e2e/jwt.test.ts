import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SignJWT } from 'jose'
import t from '../support/tap.ts'
import { WebSocket } from 'ws'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { post } from '../support/rpc-client.ts'

// Callers with tokens (JWT) in place of API keys, over HTTP and WebSocket.

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const node = await startFakeNode({ eth_gasPrice: { result: '0x9' } })
const jwt = { issuer: 'https://login.test', audience: ['tollgate'], keyFile: 'jwt.json' }
t.teardown(() => node.stop())
const { deployment, gateway, ...first } = await startGateway(t, {
  gateway: { jwt },
  networks: { testnet: networkFile('testnet', [node.url]) },
  files: { 'jwt.json': JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] }) },
})
const second = await deployment.addKey('alice')

const sign = (keyId: string, lifetimeSeconds = 600, claims: Record<string, unknown> = {}): Promise<string> =>
  new SignJWT({ iss: jwt.issuer, aud: 'tollgate', sub: keyId, exp: Math.floor(Date.now() / 1_000) + lifetimeSeconds, ...claims })
    .setProtectedHeader({ alg: 'EdDSA' })
    .sign(privateKey)

const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_gasPrice', params: [] })
const callWith = async (headers: Readonly<Record<string, string>>, path = '/v3') => {
  const { status, text } = await post(`${gateway.rpc}${path}`, body, { headers })
  return { status, ...JSON.parse(text) }
}
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

t.test('a token in a header, or in the path, is accepted for the key that it names', async t => {
  const token = await sign(first.id)
  t.match(await callWith(bearer(token)), { status: 200, result: '0x9' })
  t.match(await callWith({}, `/v3/${token}`), { status: 200, result: '0x9' })
  const beside = await callWith(bearer(await sign('key_none')), `/v3/${first.key}`)
  t.match(beside, { status: 200, result: '0x9' }, 'beside a key in the path, a token is for a proxy')
})

t.test('a wrong token and one that has expired get the same answer, of the row of unknown keys', async t => {
  const message = 'the token is not valid: it has expired, or it is not accepted here'
  for (const token of [await sign(first.id, -31), await sign('key_none'), await sign(first.id, 600, { aud: 'shop' }), 'eyJh.e30.']) {
    t.match(await callWith(bearer(token)), { status: 401, error: { code: -32090, message } })
    t.ok(!JSON.stringify(gateway.log).includes(token.slice(-20)), 'no token is logged')
  }
})

t.test('explain tells whether a token would pass', async t => {
  const { stdout } = await deployment.run('explain', 'testnet', 'eth_gasPrice', '--key', await sign(first.id))
  t.match(stdout, `the key ${first.id} is valid: account alice`)
})

const openWebSocket = async (token: string): Promise<WebSocket> => {
  const socket = new WebSocket(`${gateway.rpc.replace('http', 'ws')}/ws/v3`, { headers: bearer(token) })
  await once(socket, 'open')
  return socket
}

t.test('a WebSocket closes when its token expires, also a silent one', async t => {
  const socket = await openWebSocket(await sign(first.id, -26))
  socket.send(body)
  const [reply] = await once(socket, 'message')
  t.match(JSON.parse(String(reply)), { result: '0x9' })
  const [[last], [code, reason]] = await Promise.all([once(socket, 'message'), once(socket, 'close')])
  t.match(JSON.parse(String(last)), { error: { code: -32090 } })
  t.same([code, String(reason)], [1008, 'the API key is no longer valid'])
})

t.test('the revocation of a key ends its tokens, and their WebSockets', async t => {
  const token = await sign(second.id)
  const socket = await openWebSocket(token)
  const closed = once(socket, 'close')
  await deployment.run('keys', 'revoke', second.id)
  t.equal((await closed)[0], 1008)
  t.match(await callWith(bearer(token)), { status: 401, error: { code: -32090, message: 'the API key has been revoked' } })
})

t.test('check --online fetches the keys of the issuer', async t => {
  const issuer = createServer((_req, res) => res.writeHead(404).end()).listen(0, '127.0.0.1')
  t.teardown(() => issuer.close())
  await once(issuer, 'listening')
  const jwks = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}/keys` // the address of a TCP server
  deployment.writeGateway({ jwt: { issuer: jwt.issuer, audience: jwt.audience, jwks } })
  const { code, stdout, stderr } = await deployment.run('check', '--online')
  t.equal(code, 1)
  t.match(stdout + stderr, 'gateway.yaml: the keys of jwt.jwks cannot be fetched: HTTP 404')
})
