import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect as connectTcp, createServer as createTcpServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import type { TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { Agent, fetch } from 'undici'
import { WebSocket } from 'ws'
import { childrenOf, createDeployment, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { waitUntil } from '../support/wait-until.ts'

// `listen.tls`, with the TLS clients that callers use.

const certificates = fileURLToPath(new URL('../../../test/support/certificates/', import.meta.url))
const pem = (name: string) => readFileSync(join(certificates, `${name}.pem`), 'utf8')
const certificateOf = (name: string) => pem(name).slice(pem(name).indexOf('-----BEGIN CERTIFICATE-----'))
const keyOf = (name: string) => pem(name).slice(0, pem(name).indexOf('-----BEGIN CERTIFICATE-----'))
const ca = [pem('authority'), certificateOf('self-signed')]

const longResult = `0x${'6001'.repeat(500_000)}`
const node = await startFakeNode({ eth_getCode: { result: longResult } })
t.teardown(() => node.stop())

/** The files are those of a ConfigMap: links to a directory that is replaced as a whole. */
const writeSecret = (dir: string, version: number, cert: string, key: string): void => {
  mkdirSync(join(dir, `v${version}`))
  writeFileSync(join(dir, `v${version}`, 'tls.crt'), cert)
  writeFileSync(join(dir, `v${version}`, 'tls.key'), key)
  symlinkSync(`v${version}`, join(dir, '..data_tmp'))
  renameSync(join(dir, '..data_tmp'), join(dir, '..data'))
}

const deploy = (t: Test, workers: number, listenOptions: object = {}): { deployment: Deployment; secretDir: string } => {
  const secretDir = mkdtempSync(join(tmpdir(), 'tollgate-tls-'))
  writeSecret(secretDir, 1, certificateOf('valid'), keyOf('valid'))
  for (const file of ['tls.crt', 'tls.key']) symlinkSync(`..data/${file}`, join(secretDir, file))
  const files = { cert: join(secretDir, 'tls.crt'), key: join(secretDir, 'tls.key') }
  const listen = { rpc: '127.0.0.1:0', portal: '127.0.0.1:0', admin: '127.0.0.1:0', tls: files, ...listenOptions }
  const deployment = createDeployment({
    gateway: { listen, admin: { tls: files, token: adminToken }, workers },
    networks: { testnet: networkFile('testnet', [node.url]) },
  })
  t.teardown(async () => {
    await deployment.remove()
    rmSync(secretDir, { recursive: true })
  })
  return { deployment, secretDir }
}

const requestBody = (method: string, params: readonly unknown[] = []) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })

/** A call by undici, which verifies the certificate. */
const callBy = async (agent: Agent, url: string, method: string, params?: readonly unknown[]): Promise<unknown> => {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: requestBody(method, params), dispatcher: agent })
  return ((await response.json()) as { result?: unknown }).result
}

const openWebSocket = async (url: string): Promise<{ socket: WebSocket; call(method: string): Promise<unknown> }> => {
  const socket = new WebSocket(url, { ca })
  await once(socket, 'open')
  return {
    socket,
    async call(method) {
      socket.send(requestBody(method))
      const [data] = (await once(socket, 'message')) as [Buffer]
      return (JSON.parse(String(data)) as { result?: unknown }).result
    },
  }
}

const openTls = (url: string): TLSSocket => connectTls({ host: '127.0.0.1', port: Number(new URL(url).port), ca })

/** The serial number of the certificate that a new connection gets. */
const servedSerial = async (url: string): Promise<string> => {
  const socket = openTls(url)
  await once(socket, 'secureConnect')
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  return serialNumber
}

const adminToken = 'admin-canary-token'

/** The session cookie of the operator, as a browser gets it. */
const signInAsOperator = async (url: string): Promise<string> => {
  const headers = { 'content-type': 'application/json', origin: url }
  const response = await fetch(`${url}/login`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ token: adminToken }),
    dispatcher: adminAgent,
  })
  return response.headers.getSetCookie().find(cookie => !cookie.includes('.sig=')) ?? ''
}

const adminAgent = new Agent({ connect: { ca }, pipelining: 0 })
t.teardown(() => adminAgent.destroy())

/** The commands that ask the running gateway, with the port that it has got. */
const checkAdminCommands = async (t: Test, { deployment, admin }: { deployment: Deployment; admin: string }): Promise<void> => {
  const config = JSON.parse(readFileSync(join(deployment.dir, 'gateway.yaml'), 'utf8'))
  const listen = { ...config.listen, admin: new URL(admin).host }
  deployment.writeGateway({ ...config, listen })
  t.match(await deployment.run('health'), { code: 0, stdout: 'ready' })
  t.match(JSON.parse((await deployment.run('health', '--json')).stdout), { ready: true, networks: [{ name: 'testnet' }] })
  t.match(await deployment.run('top', '--once', '--json', '--interval', '100ms'), { code: 0 })
  const other = join(certificates, 'other-host.pem')
  deployment.writeGateway({ ...config, listen, admin: { tls: { cert: other, key: other } } })
  t.match(
    await deployment.run('health'),
    { code: 1, stderr: /no gateway answers at https:.*: the certificate is not that of / },
    'another certificate is not trusted',
  )
  deployment.writeGateway(config)
}

/** The value of the first series of a metric. */
const metric = async (gateway: GatewayProcess, name: string): Promise<number> => {
  const response = await fetch(`${gateway.admin}/metrics`, { dispatcher: adminAgent })
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (.*)$`, 'm').exec(await response.text())?.[1])
}

for (const workers of [1, 2]) {
  t.test(`callers reach a gateway of ${workers} by HTTPS and WSS, and stay connected while the certificate is replaced`, async t => {
    const { deployment, secretDir } = deploy(t, workers)
    const { key } = await deployment.addCaller('alice')
    const gateway = await deployment.start()
    t.match(gateway.rpc, /^https:\/\/127\.0\.0\.1:\d+$/)
    t.match(gateway.portal, /^https:/)
    t.match(gateway.admin, /^https:/)
    t.match(await signInAsOperator(gateway.admin), /^__Host-.*; secure/i)
    if (workers === 1) await checkAdminCommands(t, { deployment, admin: gateway.admin })
    const agent = new Agent({ connect: { ca }, connections: 1 })
    t.teardown(() => agent.destroy())
    const call = (method: string, params?: readonly unknown[]) => callBy(agent, gateway.http(key), method, params)
    t.equal(await call('eth_chainId'), '0x7a69')
    t.ok((await call('eth_getCode', [`0x${'ab'.repeat(20)}`, '0x1'])) === longResult, 'a long response')
    const ws = await openWebSocket(gateway.ws(key))
    t.teardown(() => ws.socket.terminate())
    t.equal(await ws.call('eth_chainId'), '0x7a69')
    const keepAlive = openTls(gateway.rpc)
    t.teardown(() => keepAlive.destroy())
    await once(keepAlive, 'secureConnect')
    const first = await servedSerial(gateway.rpc)
    if (workers > 1) t.equal(await servedSerial(gateway.portal ?? ''), first)

    writeSecret(secretDir, 2, certificateOf('self-signed'), keyOf('valid'))
    t.match(await gateway.waitForEvent('tls-reload-failed'), {
      msg: 'TLS certificate not reloaded, the one from before is served: the private key does not match the certificate',
      file: join(secretDir, 'tls.key'),
    })
    t.equal(await servedSerial(gateway.rpc), first)

    writeSecret(secretDir, 3, certificateOf('self-signed'), keyOf('self-signed'))
    // With workers, the primary has the portal's.
    const processCount = workers === 1 ? 1 : workers + 1
    const reloadedPids = () => new Set(gateway.log.flatMap(({ event, pid }) => (event === 'tls-reloaded' ? [pid] : [])))
    await waitUntil(() => reloadedPids().size === processCount)
    for (let i = 0; i < 4; i++) t.not(await servedSerial(gateway.rpc), first)
    if (workers > 1) t.not(await servedSerial(gateway.portal ?? ''), first)
    t.equal(await ws.call('eth_chainId'), '0x7a69', 'the WebSocket from before')
    keepAlive.write(
      `POST /v3/${key} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${requestBody('eth_chainId').length}\r\n\r\n` +
        requestBody('eth_chainId'),
    )
    t.match(String((await once(keepAlive, 'data'))[0]), /0x7a69/, 'the connection from before')
    t.ok((await metric(gateway, 'tollgate_tls_certificate_expiry_timestamp_seconds')) > 4e9)

    const silent = connectTcp(Number(new URL(gateway.rpc).port), '127.0.0.1')
    await once(silent, 'connect')
    await waitUntil(async () => (await metric(gateway, 'tollgate_connections')) === 4)
    const stoppedAt = performance.now()
    t.equal(await gateway.stop(), 0)
    t.ok(
      performance.now() - stoppedAt < 9_000,
      'a client that sends nothing of its handshake, for which it has 10 s, does not delay the stop',
    )
  })
}

t.test('a worker that is replaced serves the certificate that the others serve, also while the files cannot be used', async t => {
  const { deployment, secretDir } = deploy(t, 2, { portal: undefined })
  const gateway = await deployment.start()
  const first = await servedSerial(gateway.rpc)
  writeSecret(secretDir, 2, certificateOf('self-signed'), keyOf('valid'))
  process.kill(childrenOf(gateway.pid)[0] ?? 0, 'SIGKILL')
  await gateway.waitForEvent('worker-restarted')
  for (let i = 0; i < 4; i++) t.equal(await servedSerial(gateway.rpc), first)
  writeSecret(secretDir, 3, certificateOf('self-signed'), keyOf('self-signed'))
  // Two workers and their primary.
  await waitUntil(() => new Set(gateway.log.flatMap(({ event, pid }) => (event === 'tls-reloaded' ? [pid] : []))).size === 3)
  for (let i = 0; i < 4; i++) t.not(await servedSerial(gateway.rpc), first)
})

t.test('behind a proxy that speaks the PROXY protocol, a key sees the address of the caller, over HTTPS and WSS', async t => {
  const { deployment } = deploy(t, 2, { proxyProtocol: true, trustedProxies: ['127.0.0.1'] })
  const { id, key } = await deployment.addCaller('alice')
  await deployment.run('keys', 'set', id, '--ips', '203.0.113.7')
  const gateway = await deployment.start()
  const proxyPort = async (address: string): Promise<number> => {
    const proxy = createTcpServer(socket => {
      const upstream = connectTcp(Number(new URL(gateway.rpc).port), '127.0.0.1')
      upstream.write(`PROXY TCP4 ${address} 127.0.0.1 40000 443\r\n`)
      for (const each of [socket, upstream]) each.on('error', () => undefined)
      socket.pipe(upstream).pipe(socket)
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    t.teardown(() => proxy.close())
    return (proxy.address() as AddressInfo).port
  }
  const agent = new Agent({ connect: { ca } })
  t.teardown(() => agent.destroy())
  const [allowed, other] = [await proxyPort('203.0.113.7'), await proxyPort('203.0.113.8')]
  for (let i = 0; i < 4; i++) t.equal(await callBy(agent, `https://127.0.0.1:${allowed}/v3/${key}`, 'eth_chainId'), '0x7a69')
  t.equal(await callBy(agent, `https://127.0.0.1:${other}/v3/${key}`, 'eth_chainId'), undefined)
  const ws = await openWebSocket(`wss://127.0.0.1:${allowed}/ws/v3/${key}`)
  t.equal(await ws.call('eth_chainId'), '0x7a69')
  ws.socket.terminate()
  await gateway.stop()
})
