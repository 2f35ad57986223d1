import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { connect as connectTcp } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect } from 'node:tls'
import type { ConnectionOptions, TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { paceConnections } from '../../src/server/connection-pacing.ts'
import { createConnectionAddressReader } from '../../src/server/client-address.ts'
import { FairScheduler } from '../../src/server/fair-scheduler.ts'
import { ListenError, createRpcServer } from '../../src/server/http-server.ts'
import { OpenConnections } from '../../src/server/open-connections.ts'
import { openAppListener } from '../../src/server/index.ts'
import { TlsCertificate } from '../../src/server/tls-certificate.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { SocketLimits } from '../../src/services/socket-limits.ts'
import { TestClock, TestLog, fakeAccessLog } from '../support/fakes.ts'
import { HeldScheduler } from '../support/held-scheduler.ts'
import { waitUntil } from '../support/wait-until.ts'

// A server with TLS by itself; test/e2e/tls.test.ts has the gateway, and how it replaces the certificate.

const certificates = fileURLToPath(new URL('../../../test/support/certificates/', import.meta.url))
const clock = new TestClock()

interface ServerOptions {
  readonly connections?: number
  readonly handshakeTimeoutMs?: number
  readonly scheduler?: FairScheduler
  readonly trustedProxies?: readonly string[]
}

const startServer = async (t: Test, options: ServerOptions = {}) => {
  const { connections = 100, handshakeTimeoutMs = 10_000, scheduler = new FairScheduler(clock), trustedProxies = [] } = options
  const [metrics, log] = [createMetricsRegistry(), new TestLog()]
  const valid = join(certificates, 'valid.pem')
  const tls = new TlsCertificate({ files: { cert: valid, key: valid }, owner: 'listen', clock, log, metrics, handshakeTimeoutMs })
  const services = { countResponse: (status: number) => t.fail(`a response: ${status}`), accessLog: fakeAccessLog, httpDate: () => '' }
  const server = createRpcServer(services, (req, res) => void res.end(`${req.method} ${req.url}`), tls).listen(0, '127.0.0.1')
  paceConnections(server, { scheduler, trustedProxies, isTls: true })
  await once(server, 'listening')
  const { maxConnections, recordRefused } = new SocketLimits({ connections, clock, log, metrics })
  const open = new OpenConnections(server, {
    peer: 'caller',
    maxConnections,
    recordRefused,
    readAddress: createConnectionAddressReader([]),
  })
  t.teardown(() => {
    tls.stop()
    server.close()
    open.destroyAll()
  })
  const { port } = server.address() as AddressInfo
  const failures = () => log.lines.filter(({ fields }) => 'event' in fields && fields.event === 'tls-handshake-failed').length
  const connectTls = (options: ConnectionOptions = {}): TLSSocket =>
    connect({ port, host: '127.0.0.1', ca: readFileSync(join(certificates, 'authority.pem')), ...options })
  return { port, open, failures, connectTls }
}

t.test('TLS 1.2 and 1.3 are accepted, and HTTP/1.1 within them, or HTTP/1.0 where the client offers nothing else', async t => {
  const { connectTls } = await startServer(t)
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    for (const [offered, accepted] of [
      [['h2', 'http/1.0', 'http/1.1'], 'http/1.1'],
      [['http/1.0'], 'http/1.0'],
      [[], false],
    ] as const) {
      const socket = connectTls({ minVersion: version, maxVersion: version, ALPNProtocols: [...offered] })
      await once(socket, 'secureConnect')
      t.equal(socket.alpnProtocol, accepted)
      socket.destroy()
    }
  }
})

t.test('older versions, HTTP/2 alone and plain HTTP are refused and logged; a client that only connects is not', async t => {
  const { port, open, failures, connectTls } = await startServer(t)
  for (const [options, code] of [
    [{ minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }, 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION'],
    [{ ALPNProtocols: ['h2'] }, 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL'],
  ] as const) {
    const [error] = await once(connectTls(options as ConnectionOptions), 'error')
    t.match(error, { code })
  }
  const plain = connectTcp(port, '127.0.0.1')
  plain.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(plain, 'close')
  const silent = connectTcp(port, '127.0.0.1')
  await once(silent, 'connect')
  await waitUntil(() => open.count === 1)
  silent.destroy()
  await waitUntil(() => open.count === 0)
  t.equal(failures(), 3)
})

t.test('a client that does not complete its handshake in time is disconnected and logged', async t => {
  const { port, open, failures } = await startServer(t, { handshakeTimeoutMs: 50 })
  const beginOfHandshake = Buffer.from('160301020001000100', 'hex')
  for (const bytes of [Buffer.alloc(0), beginOfHandshake])
    connectTcp(port, '127.0.0.1')
      .on('error', () => undefined)
      .write(bytes)
  await waitUntil(() => failures() === 2)
  await waitUntil(() => open.count === 0)
})

t.test('an upgrade that is no WebSocket is ignored, and the connection takes the next request', async t => {
  const { connectTls } = await startServer(t)
  const socket = connectTls()
  for (const path of ['/one', '/two']) {
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n`)
    t.match(String((await once(socket, 'data'))[0]), new RegExp(`^HTTP/1.1 200 [^]*GET ${path}$`))
  }
  socket.destroy()
})

t.test(
  'connections count before their handshake: those above the share of their address are closed, and idle ones for another address',
  async t => {
    const { port, open, connectTls } = await startServer(t, { connections: 2 })
    const silent = connectTcp(port, '127.0.0.1')
    await once(silent, 'connect')
    await waitUntil(() => open.count === 1)
    await new Promise(resolve =>
      connectTls()
        .on('error', () => undefined)
        .once('close', resolve),
    )
    const sockets = ['127.0.0.2', '127.0.0.3'].map(localAddress => connectTls({ localAddress } as ConnectionOptions))
    await Promise.all([...sockets.map(socket => once(socket, 'secureConnect')), once(silent, 'close')])
    t.equal(open.count, 2)
    for (const socket of sockets) socket.destroy()
    await waitUntil(() => open.count === 0)
  },
)

t.test('a handshake waits for the turn of its address, and then for that of all handshakes', async t => {
  const scheduler = new HeldScheduler()
  const { connectTls, open } = await startServer(t, { scheduler })
  scheduler.hold()
  const socket = connectTls()
  await waitUntil(() => scheduler.waiting.length === 1)
  t.match(scheduler.waiting, [{ owner: '127.0.0.1', units: 8 }])
  scheduler.release()
  scheduler.hold()
  await waitUntil(() => scheduler.waiting.length === 1)
  t.match(scheduler.waiting, [{ owner: 'TLS handshakes', units: 8 }])
  t.notOk(socket.authorized)
  scheduler.release()
  await once(socket, 'secureConnect')
  socket.destroy()
  await waitUntil(() => open.count === 0)
})

t.test('a client that resets its connection while its handshake waits is forgotten', async t => {
  const scheduler = new HeldScheduler()
  const { port, open, failures } = await startServer(t, { scheduler })
  scheduler.hold()
  const client = connectTcp(port, '127.0.0.1')
  await waitUntil(() => scheduler.waiting.length === 1)
  client.resetAndDestroy()
  await waitUntil(() => open.count === 0)
  scheduler.release()
  await new Promise(setImmediate)
  t.equal(failures(), 0)
})

t.test('handshakes of a trusted proxy wait for the turn of all handshakes alone', async t => {
  const scheduler = new HeldScheduler()
  const { connectTls } = await startServer(t, { scheduler, trustedProxies: ['127.0.0.1'] })
  scheduler.hold()
  const socket = connectTls()
  await waitUntil(() => scheduler.waiting.length === 1)
  t.match(scheduler.waiting, [{ owner: 'TLS handshakes' }])
  scheduler.release()
  await once(socket, 'secureConnect')
  socket.destroy()
})

t.test('files that have become unusable since they were checked fail the start in words', async t => {
  const files = { cert: join(certificates, 'valid.pem'), key: join(certificates, 'none.pem') }
  for (const owner of ['listen', 'admin'] as const) {
    const open = () => new TlsCertificate({ files, owner, clock, log: new TestLog(), metrics: createMetricsRegistry() })
    t.throws(open, new ListenError(`cannot serve TLS: ${owner}.tls.key: no such file`))
  }
})

t.test('handshakes with the listeners of the portal and of operators wait for the turn of all handshakes too', async t => {
  const valid = join(certificates, 'valid.pem')
  const files = { cert: valid, key: valid }
  const tls = new TlsCertificate({ files, owner: 'admin', clock, log: new TestLog(), metrics: createMetricsRegistry() })
  const entered = t.capture(FairScheduler.prototype, 'enter', FairScheduler.prototype.enter)
  const serve: RequestListener = (_req, res) => void res.end('served')
  const listener = await openAppListener({ host: '127.0.0.1', port: 0 }, async () => serve, {
    peer: 'admin',
    tls,
    trustedProxies: [],
    clock,
    log: new TestLog(),
    ownMetrics: createMetricsRegistry(),
  })
  t.teardown(async () => {
    tls.stop()
    await listener.stop()
  })
  const socket = connect({
    port: Number(new URL(listener.url).port),
    host: '127.0.0.1',
    ca: readFileSync(join(certificates, 'authority.pem')),
  })
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  t.match(String((await once(socket, 'data'))[0]), /served$/)
  socket.destroy()
  t.match(entered(), [{ args: ['127.0.0.1', 8] }, { args: ['TLS handshakes', 8] }])
})
