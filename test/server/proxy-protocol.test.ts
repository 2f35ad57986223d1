import { deepStrictEqual, equal, match, notEqual, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createServer as createTcpServer, isIP } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import fc from 'fast-check'
import { Agent, request } from 'undici'
import { createClientAddressReader, createConnectionAddressReader } from '../../src/server/client-address.ts'
import { paceConnections } from '../../src/server/connection-pacing.ts'
import { FairScheduler } from '../../src/server/fair-scheduler.ts'
import { createRpcServer } from '../../src/server/http-server.ts'
import { OpenConnections } from '../../src/server/open-connections.ts'
import { parseProxyHeader, ProxyProtocol } from '../../src/server/proxy-protocol.ts'
import { TlsCertificate } from '../../src/server/tls-certificate.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { TestClock, TestLog, fakeAccessLog } from '../support/fakes.ts'
import { HeldScheduler } from '../support/held-scheduler.ts'
import { waitUntil } from '../support/wait-until.ts'

/** The body in hex. */
const v2 = (command: number, family: number, body: string, byteLength = body.length / 2): Buffer => {
  const head = Buffer.from('0d0a0d0a000d0a515549540a00000000', 'hex')
  head.writeUInt8(command, 12)
  head.writeUInt8(family, 13)
  head.writeUInt16BE(byteLength, 14)
  return Buffer.concat([head, Buffer.from(body, 'hex')])
}
const tcp4 = 'cb0071070a000001303901bb'
const tcp6 = (address: string) => `${address}20010db8000000000000000000000001303901bb`

t.test('a header of version 1 or 2 has the address of the caller', async t => {
  for (const [bytes, address] of [
    ['PROXY TCP4 203.0.113.7 10.0.0.1 12345 443\r\n', '203.0.113.7'],
    ['PROXY TCP6 2001:db8::7 ::1 12345 443\r\n', '2001:db8::7'],
    ['PROXY TCP6 ::ffff:203.0.113.7 ::1 1 443\r\n', '203.0.113.7'],
    ['PROXY UNKNOWN\r\n', ''],
    ['PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n', ''],
    [v2(0x21, 0x11, tcp4), '203.0.113.7'],
    [v2(0x21, 0x21, tcp6('20010db8000000000000000000000007')), '2001:db8::7'],
    [v2(0x21, 0x21, tcp6('00000000000000000000ffffcb007107')), '203.0.113.7'],
    [v2(0x21, 0x11, `${tcp4}030004aabbccdd`), '203.0.113.7'],
    [v2(0x20, 0x00, ''), undefined],
    [v2(0x21, 0x00, '0102'), ''],
    [v2(0x21, 0x31, '00'.repeat(216)), ''],
  ] as const) {
    const header = Buffer.from(bytes as string, 'latin1')
    t.same(
      parseProxyHeader(Buffer.concat([header, Buffer.from('POST /')])),
      { kind: 'header', byteLength: header.length, address },
      String(bytes),
    )
    for (let length = 0; length < header.length; length++) t.same(parseProxyHeader(header.subarray(0, length)), { kind: 'incomplete' })
  }
})

t.test('what is no header is missing, and what begins like one and is none is malformed', async t => {
  for (const text of ['GET / HTTP/1.1\r\n', 'PROX', 'POST', '\x16\x03\x01', '\r\n\r\nGET', 'proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n'])
    t.same(parseProxyHeader(Buffer.from(text, 'latin1')), { kind: text === 'PROX' ? 'incomplete' : 'missing' }, text)
  for (const bytes of [
    'PROXY TCP4 203.0.113.7 10.0.0.1 12345\r\n',
    'PROXY TCP4 203.0.113.7 10.0.0.1 12345 65536\r\n',
    'PROXY TCP4 2001:db8::7 10.0.0.1 1 2\r\n',
    'PROXY TCP6 203.0.113.7 10.0.0.1 1 2\r\n',
    'PROXY TCP4 203.0.113.256 10.0.0.1 1 2\r\n',
    'PROXY UDP4 203.0.113.7 10.0.0.1 1 2\r\n',
    'PROXY TCP4 203.0.113.7  10.0.0.1 1 2\r\n',
    'PROXY \r\n',
    `PROXY UNKNOWN ${'x'.repeat(100)}`,
    v2(0x11, 0x11, tcp4),
    v2(0x22, 0x11, tcp4),
    v2(0x21, 0x11, tcp4.slice(0, 22)),
    v2(0x21, 0x21, tcp4),
    v2(0x21, 0x11, '', 5_000),
  ])
    t.same(parseProxyHeader(Buffer.from(bytes as string, 'latin1')), { kind: 'malformed' }, String(bytes))
})

/** A header as a proxy sends it, and the address that it names. */
const sentHeader: fc.Arbitrary<{ readonly bytes: Buffer; readonly address: string | undefined }> = fc.oneof(
  fc.tuple(fc.ipV4(), fc.nat(65_535)).map(([address, port]) => ({
    bytes: Buffer.from(`PROXY TCP4 ${address} 10.0.0.1 ${port} 443\r\n`),
    address,
  })),
  fc.uint8Array({ minLength: 12, maxLength: 40 }).map(body => ({
    bytes: v2(0x21, 0x11, Buffer.from(body).toString('hex')),
    address: body.slice(0, 4).join('.'),
  })),
  fc.uint8Array({ minLength: 15, maxLength: 40 }).map(rest => {
    const groups = Array.from({ length: 8 }, (_, i) => (i === 0 ? 0x2001 : rest[i]!).toString(16).padStart(4, '0'))
    const body = groups.join('') + Buffer.from(rest).toString('hex').padEnd(40, '0')
    return { bytes: v2(0x21, 0x21, body), address: new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1) }
  }),
  fc.constantFrom({ bytes: Buffer.from('PROXY UNKNOWN\r\n'), address: '' }, { bytes: v2(0x20, 0x00, ''), address: undefined }),
)

/** A header of which a part is replaced, or which ends early. */
const brokenHeader = fc
  .tuple(
    sentHeader,
    fc.nat(60),
    fc.nat(6),
    fc.oneof(fc.uint8Array({ maxLength: 6 }), fc.constantFrom(Buffer.from('\r\n'), Buffer.alloc(200, 0x39))),
  )
  .map(([{ bytes }, at, removed, inserted]) => Buffer.concat([bytes.subarray(0, at), inserted, bytes.subarray(at + removed)]))

const garbage = fc
  .tuple(fc.constantFrom('', 'PROXY ', 'PROXY TCP4 ', 'PROXY UNKNOWN ', '\r\n\r\n\0\r\nQUIT\n'), fc.uint8Array({ maxLength: 150 }))
  .map(([start, rest]) => Buffer.concat([Buffer.from(start, 'latin1'), rest]))

t.test('whatever bytes come: a header is read the same in whatever parts, and what is none is refused within 4 KiB', async () => {
  const check = (bytes: Buffer, sent?: { readonly address: string | undefined }) => {
    const header = parseProxyHeader(Buffer.concat([bytes, Buffer.alloc(4_096)]))
    notEqual(header.kind, 'incomplete')
    if (sent !== undefined) deepStrictEqual(header, { kind: 'header', byteLength: bytes.length, address: sent.address })
    if (header.kind === 'header') ok(header.byteLength <= 4_096 && (!header.address || isIP(header.address) > 0), bytes.toString('latin1'))
    let isComplete = false
    for (let length = 0; length <= bytes.length; length++) {
      const read = parseProxyHeader(bytes.subarray(0, length))
      isComplete ||= read.kind !== 'incomplete'
      if (isComplete) deepStrictEqual(read, header)
    }
  }
  fc.assert(
    fc.property(fc.oneof(sentHeader, brokenHeader, garbage), input => ('bytes' in input ? check(input.bytes, input) : check(input))),
    { numRuns: 700 },
  )
})

const pem = join(fileURLToPath(new URL('../../../test/support/certificates/', import.meta.url)), 'valid.pem')

/** A server that answers with the address of the caller. */
const startServer = async (
  t: Test,
  { isSecure = false, trustedProxies = ['127.0.0.1'], scheduler = new FairScheduler(new TestClock()), maxConnections = 1_000 } = {},
) => {
  const [clock, metrics, log] = [new TestClock(), createMetricsRegistry(), new TestLog()]
  const onAddress = (socket: Socket) => open.recordAddress(socket)
  const proxyProtocol = new ProxyProtocol({ trustedProxies, clock, log, onAddress })
  const readClientAddress = createClientAddressReader(trustedProxies, proxyProtocol)
  const tls = isSecure ? new TlsCertificate({ files: { cert: pem, key: pem }, owner: 'listen', clock, log, metrics }) : undefined
  const services = { countResponse: () => undefined, accessLog: fakeAccessLog, httpDate: () => '' }
  const server = createRpcServer(services, (req, res) => void res.end(readClientAddress(req)), tls)
  paceConnections(server, { scheduler, trustedProxies, isTls: isSecure, proxyProtocol })
  server.listen(0, '0.0.0.0')
  await once(server, 'listening')
  const refused: unknown[][] = []
  const recordRefused = (...refusal: unknown[]) => void refused.push(refusal)
  const readAddress = createConnectionAddressReader(trustedProxies, proxyProtocol)
  const open = new OpenConnections(server, { peer: 'caller', maxConnections, recordRefused, readAddress })
  t.teardown(() => {
    tls?.stop()
    server.close()
    open.destroyAll()
  })
  const { port } = server.address() as AddressInfo
  const refusals = () =>
    log.lines
      .map(({ fields }): Record<string, unknown> => ({ ...fields }))
      .flatMap(({ event, reason }) => (event === 'proxy-header-refused' ? [reason] : []))
  return { port, clock, log, open, refusals, refused }
}

/** A proxy that passes bytes on behind a header, as HAProxy and load balancers of networks do. */
const startProxy = async (t: Test, port: number, header: string | Buffer): Promise<number> => {
  const sockets = new Set<Socket>()
  const server = createTcpServer(socket => {
    const upstream = connect(port, '127.0.0.1')
    upstream.write(header)
    for (const each of [socket, upstream]) sockets.add(each.on('error', () => undefined))
    socket.pipe(upstream).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}

for (const isSecure of [false, true]) {
  t.test(`behind a proxy, the address is that of the header${isSecure ? ', with TLS too' : ''}`, async t => {
    const { port, refusals } = await startServer(t, { isSecure })
    for (const [header, address] of [
      ['PROXY TCP4 203.0.113.7 10.0.0.1 12345 443\r\n', '203.0.113.7'],
      [v2(0x21, 0x21, tcp6('20010db8000000000000000000000007')), '2001:db8::7'],
      ['PROXY UNKNOWN\r\n', ''],
      [v2(0x20, 0x00, ''), '127.0.0.1'],
    ] as const) {
      const agent = new Agent({ connections: 1, connect: { ca: readFileSync(pem), rejectUnauthorized: false } })
      t.teardown(() => agent.destroy())
      const origin = `${isSecure ? 'https' : 'http'}://127.0.0.1:${await startProxy(t, port, header)}`
      // Several requests of one connection; what a caller says of itself is ignored.
      for (let i = 0; i < 3; i++) {
        const { body } = await request(origin, {
          dispatcher: agent,
          headers: address === '127.0.0.1' ? {} : { 'x-forwarded-for': '192.0.2.9' },
        })
        t.equal(await body.text(), address)
      }
    }
    t.same(refusals(), [])
  })
}

t.test('behind a proxy, a connection waits for the turn of the address of its header, and not where that has none', async t => {
  const scheduler = new HeldScheduler()
  const { port } = await startServer(t, { scheduler })
  scheduler.hold()
  const call = async (header: string) =>
    (await request(`http://127.0.0.1:${await startProxy(t, port, header)}`, { reset: true })).body.text()
  const response = call('PROXY TCP4 203.0.113.7 10.0.0.1 12345 443\r\n')
  await waitUntil(() => scheduler.waiting.length === 1)
  t.match(scheduler.waiting, [{ owner: '203.0.113.7', units: 2 }])
  t.equal(await call('PROXY UNKNOWN\r\n'), '')
  scheduler.release()
  t.equal(await response, '203.0.113.7')
})

t.test('connections from one port of a proxy to two addresses of the gateway have an address each', async t => {
  const { port } = await startServer(t)
  const connectTo = async (host: string, address: string, localPort?: number) => {
    const socket = connect({ port, host, localAddress: '127.0.0.1', ...(localPort !== undefined && { localPort }) })
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    socket.write(`PROXY TCP4 ${address} 10.0.0.1 1 2\r\n`)
    return socket
  }
  const addressOf = async (socket: Socket) => {
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    return /[\d.]+$/.exec(String((await once(socket, 'data'))[0]))?.[0]
  }
  const first = await connectTo('127.0.0.1', '203.0.113.7')
  t.equal(await addressOf(first), '203.0.113.7')
  const second = await connectTo('127.0.0.2', '203.0.113.8', first.localPort)
  t.equal(await addressOf(second), '203.0.113.8')
  t.equal(await addressOf(first), '203.0.113.7')
})

/** Sends the bytes one after the other; resolves with what is received until the connection is closed. */
const exchange = async (port: number, parts: readonly (string | Buffer)[]): Promise<string> => {
  const socket = connect(port, '127.0.0.1')
    .on('error', () => undefined)
    .setNoDelay()
    .setEncoding('latin1')
  const closed = new Promise(resolve => socket.once('close', resolve)) // once() of node:events would reject when the connection is reset
  let received = ''
  socket.on('data', text => {
    received += text
  })
  for (const part of parts) {
    socket.write(part)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  await closed
  return received
}

const get = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
const upgrade = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n'

t.test('the header may arrive byte by byte, and with the first request; an upgrade that is ignored needs no other', async t => {
  const { port } = await startServer(t)
  const header = 'PROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\n'
  t.match(await exchange(port, [...header, get]), /203\.0\.113\.7$/)
  t.match(await exchange(port, [header + get]), /203\.0\.113\.7$/)
  for (const parts of [[header + upgrade, get], [header + upgrade + get]])
    t.match(await exchange(port, parts), /203\.0\.113\.7HTTP[^]*203\.0\.113\.7$/)
})

t.test('a proxy that sends no header, or a malformed one, or none in time, is disconnected; the log has one reason in 10 s', async t => {
  const { port, clock, refusals, log, open } = await startServer(t)
  t.equal(await exchange(port, [get]), '')
  t.equal(await exchange(port, ['PROXY TCP4 nobody\r\n', get]), '')
  t.match(log.lines, [{ fields: { event: 'proxy-header-refused', reason: 'missing', address: '127.0.0.1' } }])
  t.equal(log.lines.length, 1)
  clock.advance(10_000)
  t.equal(await exchange(port, ['PROXY TCP4 nobody\r\n', get]), '')
  clock.advance(10_000)
  const silent = exchange(port, ['PROXY '])
  await waitUntil(() => open.count === 1)
  clock.advance(5_000)
  t.equal(await silent, '')
  const check = connect(port, '127.0.0.1')
  await once(check, 'connect')
  check.end()
  await waitUntil(() => open.count === 0)
  t.same(refusals(), ['missing', 'malformed', 'timeout'])
})

t.test('a connection that is reset at once is nobody’s, and not counted as untrusted', async t => {
  const { port, open, refusals } = await startServer(t)
  await Promise.all(
    Array.from({ length: 50 }, async () => {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined)
      await once(socket, 'connect')
      socket.write('PROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\n', () => socket.resetAndDestroy())
      await once(socket, 'close')
    }),
  )
  t.equal((await exchange(port, [`PROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\n${get}`])).slice(-11), '203.0.113.7')
  await waitUntil(() => open.count === 0)
  t.same(refusals(), [])
})

t.test('from elsewhere there must be no header; a connection without one is that of a caller', async t => {
  const { port, clock, open, refusals } = await startServer(t, { trustedProxies: ['192.0.2.1'] })
  t.match(await exchange(port, [get]), /127\.0\.0\.1$/)
  t.equal(await exchange(port, [`PROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\n${get}`]), '')
  t.equal(await exchange(port, [v2(0x21, 0x11, tcp4)]), '')
  await waitUntil(() => open.count === 0)
  const silent = exchange(port, [])
  await waitUntil(() => open.count === 1)
  clock.advance(5_000)
  t.equal(await silent, '')
  t.same(refusals(), ['untrusted'])
})

t.test('whatever bytes a proxy sends, the connection closes, and a request is answered for the address of its header alone', async t => {
  const { port, open, refused } = await startServer(t)
  const send = (bytes: Buffer, at: number): Promise<string> =>
    new Promise(resolve => {
      let received = ''
      const socket = connect(port, '127.0.0.1').setEncoding('latin1')
      socket.on('error', () => undefined).on('close', () => resolve(received))
      socket.on('data', text => void (received += text))
      socket.write(bytes.subarray(0, at))
      setImmediate(() => socket.end(bytes.subarray(at)))
    })
  const check = async (header: Buffer, at: number): Promise<void> => {
    const bytes = Buffer.concat([header, Buffer.from(get)])
    const read = parseProxyHeader(bytes)
    const received = await send(bytes, at)
    if (read.kind !== 'header') equal(received, '')
    else if (received.startsWith('HTTP/1.1 200')) equal(received.slice(received.indexOf('\r\n\r\n') + 4), read.address ?? '127.0.0.1')
    else match(received, /^$|^HTTP\/1.1 4/)
    if (read.kind === 'header' && read.byteLength === header.length) match(received, /^HTTP\/1.1 200/)
  }
  const input = fc.tuple(
    fc.oneof(
      sentHeader.map(({ bytes }) => bytes),
      brokenHeader,
      garbage,
    ),
    fc.nat(60),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(input, { minLength: 20, maxLength: 20 }), async inputs => {
      await Promise.all(inputs.map(([header, at]) => check(header, at)))
    }),
    { numRuns: 20 },
  )
  await waitUntil(() => open.count === 0)
  t.equal(open.holderCount, 0)
  t.same(refused, [])
})

t.test('behind a proxy, connections are shared out among the addresses of their headers', async t => {
  const { port, open, refused } = await startServer(t, { maxConnections: 8 })
  const isServed = (address: string): Promise<boolean> => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined)
    t.teardown(() => socket.destroy())
    socket.write(
      `PROXY TCP${isIP(address)} ${address} ${isIP(address) === 4 ? '10.0.0.1' : '::1'} 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n`,
    )
    return new Promise(resolve => socket.once('data', () => resolve(true)).once('close', () => resolve(false)))
  }
  const servedOf = async (addresses: readonly string[]) => {
    const served: boolean[] = []
    for (const address of addresses) served.push(await isServed(address))
    return served
  }
  const one64 = Array.from({ length: 6 }, (_, i) => `2001:db8::${i + 1}`)
  t.same(await servedOf(one64), [true, true, true, true, false, false])
  t.same(refused, new Array(2).fill(['caller', 'share', '2001:db8:0:0::/64']))
  t.same(await servedOf(['203.0.113.7', '203.0.113.8']), [true, true])
  t.equal(open.count, 6)
})
