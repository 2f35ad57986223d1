import { once } from 'node:events'
import { cpSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promiseHooks } from 'node:v8'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { createTopCommand } from '../../src/cli/top.ts'
import { openAdminFetch } from '../../src/cli/gateway-status.ts'
import { metricDefinitions } from '../../src/services/metric-definitions.ts'
import { formatMetrics, createMetricsRegistry, withLabels } from '../../src/services/metrics.ts'
import { TestClock } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'

/** A gateway's metrics, on a listener; and `tollgate top` with an interval of 10 s of its own clock. */
const open = async (
  test: Test,
  terminalSize?: { readonly rows: number; readonly columns: number },
  { isEndless = false }: { readonly isEndless?: boolean } = {},
) => {
  const registry = createMetricsRegistry()
  const metrics = withLabels(registry, { network: 'net' })
  const server = createServer((_, res) => void res.end(formatMetrics(registry.families()))).listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A command leaves its handlers to the end of the process: a signal of the next test would be their second one.
  const handlers = new Set(process.listeners('SIGINT'))
  test.teardown(() => {
    server.close()
    for (const handler of process.listeners('SIGINT')) if (!handlers.has(handler)) process.off('SIGINT', handler)
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const clock = new TestClock()
  /** Runs between two readings, one after the other. */
  const events: (() => void)[] = []
  /** The intervals that last until the command ends. */
  const waiting: unknown[] = []
  const wait = async (_ms: number, signal?: AbortSignal) => {
    if (isEndless && signal) await new Promise(resolve => waiting.push(signal.addEventListener('abort', resolve)))
    clock.advance(10_000)
    events.shift()?.()
  }
  const lines: string[] = []
  const errors: string[] = []
  const terminal = { out: (line: string) => void lines.push(line), err: (line: string) => void errors.push(line), env: {} }
  const run = (...args: readonly string[]) =>
    createTopCommand({ clock, wait, size: () => terminalSize }).run(['--url', url, ...args], terminal)
  return { registry, metrics, server, events, waiting, lines, errors, run }
}

const openMetrics = (metrics: ReturnType<typeof withLabels<'network'>>) => ({
  ok: metrics.counter(metricDefinitions.calls, { method: 'eth_call', outcome: 'ok' }),
  unavailable: metrics.counter(metricDefinitions.calls, { method: 'eth_call', outcome: 'unavailable' }),
  duration: metrics.histogram(metricDefinitions.callDuration, {}),
  hits: metrics.counter(metricDefinitions.cacheLookups, { method: 'eth_call', result: 'memory' }),
  misses: metrics.counter(metricDefinitions.cacheLookups, { method: 'eth_call', result: 'miss' }),
  credits: metrics.counter(metricDefinitions.credits, {}),
  inFlight: metrics.gauge(metricDefinitions.callsInFlight, {}),
})

t.test('shows the rates of the interval, not those since the start', async t => {
  const { metrics, registry, events, lines, run } = await open(t)
  const { ok, unavailable, duration, hits, misses, credits, inFlight } = openMetrics(metrics)
  const upstream = 'own "a"'
  const requests = metrics.histogram(metricDefinitions.upstreamRequestDuration, { upstream })
  metrics.gauge(metricDefinitions.upstreamUp, { upstream }).set(1)
  metrics.gauge(metricDefinitions.upstreamRequestsInFlight, { upstream }).set(3)
  metrics.gauge(metricDefinitions.upstreamHead, { upstream }).set(90)
  metrics.gauge(metricDefinitions.upstreamReduced, { upstream, class: 'logs', reason: 'breaker' }).set(1)
  metrics.gauge(metricDefinitions.upstreamReduced, { upstream, class: 'cheap', reason: 'breaker' }).set(0)
  metrics.gauge(metricDefinitions.upstreamReduced, { upstream, class: 'all', reason: 'lag' }).set(1)
  metrics.gauge(metricDefinitions.head, {}).set(100)
  registry.gauge(metricDefinitions.connections, {}).set(7)
  ok.add(1_000)
  duration.observe(9)
  events.push(() => {
    ok.add(90)
    unavailable.add(10)
    for (let i = 0; i < 99; i++) duration.observe(0.0009)
    duration.observe(2)
    hits.add(30)
    misses.add(10)
    credits.add(8_000)
    inFlight.set(5)
    for (let i = 0; i < 20; i++) requests.observe(0.02)
  })
  t.equal(await run('--json'), 0)
  const { gateway, networks } = JSON.parse(lines.splice(0).join('\n'))
  t.match(gateway, { connections: 7 })
  t.match(networks, [
    { network: 'net', callsPerSecond: 10, cacheHits: 0.75, failedCalls: 0.1, creditsPerSecond: 800, inFlight: 5, head: 100 },
  ])
  const [{ p50Ms, p99Ms, nodes }] = networks
  t.ok(p50Ms > 0.5 && p50Ms < 1, `the median is in its bucket: ${p50Ms}`)
  t.ok(p99Ms > 0.9 && p99Ms <= 1, `99 of 100 calls took less than 1 ms: ${p99Ms}`)
  t.match(nodes, [{ upstream, requestsPerSecond: 2, inFlight: 3, head: 90, lagBlocks: 10, problems: ['breaker: logs', 'lag'] }])
  t.equal(await run('--once'), 0)
  t.match(
    lines.find(line => line.startsWith('net')),
    /^net +0 +- +- +- +- +0 +5 +100$/,
    'nothing has happened since',
  )
  t.match(
    lines.find(line => line.startsWith('own')),
    /breaker: logs, lag$/,
  )
})

t.test('the head of a network and of a node is unknown until a poll has found it', async t => {
  const { metrics, lines, run } = await open(t)
  openMetrics(metrics)
  metrics.gauge(metricDefinitions.upstreamUp, { upstream: 'own' }).set(1)
  const upstreamHead = metrics.gauge(metricDefinitions.upstreamHead, { upstream: 'own' })
  const head = metrics.gauge(metricDefinitions.head, {})
  t.equal(await run('--once'), 0)
  t.match(
    lines.find(line => line.startsWith('own')),
    / - +- +ok$/,
  )
  t.match(
    lines.splice(0).find(line => line.startsWith('net')),
    / -$/,
  )
  upstreamHead.set(9)
  head.set(10)
  t.equal(await run('--once'), 0)
  t.match(
    lines.find(line => line.startsWith('own')),
    / 9 +1 +ok$/,
  )
})

t.test('counts from 0 after a restart of the gateway', async t => {
  const { metrics, events, lines, run } = await open(t)
  const { ok } = openMetrics(metrics)
  ok.add(500)
  events.push(() => ok.add(-470))
  await run('--json')
  t.equal(JSON.parse(lines[0] ?? '').networks[0].callsPerSecond, 3)
})

t.test('on a terminal redraws the screen until a signal, also while the gateway does not answer', async t => {
  const { metrics, server, events, lines, run } = await open(t, { rows: 4, columns: 30 })
  openMetrics(metrics).ok.add()
  let isEnded = false
  events.push(
    () => undefined,
    () => {
      server.close()
      server.closeAllConnections()
    },
    () => {
      isEnded = true
      process.emit('SIGINT')
    },
  )
  t.equal(await run(), 0)
  t.ok(isEnded)
  t.match(lines[0], '\x1b[?1049h')
  t.match(lines.join('\n'), /NETWORK +CALLS\/S/)
  t.match(lines.join('\n'), /the gateway does not answer: \w/)
  t.match(lines.at(-1), '\x1b[?1049l', 'the terminal is as it was')
  const drawn = lines.map(line => line.replaceAll(/\x1b\[[\d?]*[a-zA-Z]/g, '').split('\n'))
  for (const frame of drawn) t.ok(frame.length <= 3 && frame.every(line => line.length <= 30), 'it fits')
})

t.test('on a terminal leaves nothing behind of a reading', async t => {
  const { events, run } = await open(t, { rows: 4, columns: 30 })
  const reactions = new Map<Promise<unknown>, number>()
  const stopHook = promiseHooks.onInit((_promise: Promise<unknown>, parent: Promise<unknown>) => {
    if (parent !== undefined) reactions.set(parent, (reactions.get(parent) ?? 0) + 1)
  })
  for (let i = 0; i < 20; i++) events.push(() => undefined)
  events.push(() => void process.emit('SIGINT'))
  t.equal(await run(), 0)
  stopHook()
  const most = Math.max(...reactions.values())
  t.ok(most > 0 && most < 10, `no promise has a reaction of each reading: ${most}`)
})

t.test('on a terminal ends at once, however long the interval is', async t => {
  const { waiting, run } = await open(t, { rows: 4, columns: 30 }, { isEndless: true })
  const ended = run()
  await waitUntil(() => waiting.length === 1)
  process.emit('SIGINT')
  t.equal(await ended, 0)
})

t.test('says which listener does not answer', async t => {
  const { server, errors, run } = await open(t)
  server.close()
  t.equal(await run(), 1)
  t.match(errors, [
    /^tollgate top: cannot read the metrics of http:\/\/127.0.0.1:\d+: .*ECONNREFUSED.*; is the gateway running, with this configuration\?$/,
  ])
})

t.test('refuses an interval that is none', async t => {
  const { run } = await open(t)
  for (const interval of ['0s', '5', 'soon', '25d'])
    await t.rejects(run('--interval', interval), /--interval must be a duration such as 2s, and at most 1d/)
})

t.test('a command that runs while the certificate of the admin listener is renewed accepts the new one, and no other', async t => {
  const pemOf = (name: string) => join('test/support/certificates', `${name}.pem`)
  const contextOf = (name: string) => ({ cert: readFileSync(pemOf(name)), key: readFileSync(pemOf(name)) })
  const server = createTlsServer(contextOf('valid'), (_, res) => void res.setHeader('connection', 'close').end('ready')).listen(
    0,
    '127.0.0.1',
  )
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}` // the address of a TCP server
  const cert = join(t.testdir(), 'admin.pem')
  const renew = (name: string) => cpSync(pemOf(name), cert)
  renew('valid')
  const fetchAdmin = openAdminFetch({ admin: { tls: { cert, key: cert } } })
  const request = async () => (await fetchAdmin(url, { signal: AbortSignal.timeout(10_000) })).text()

  t.equal(await request(), 'ready')
  renew('expired')
  await t.rejects(request(), 'the gateway has another certificate still')
  server.setSecureContext(contextOf('expired'))
  t.equal(await request(), 'ready')
  renew('valid')
  await t.rejects(request())
})
