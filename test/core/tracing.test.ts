import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SpanKind, SpanStatusCode } from '@opentelemetry/api'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node'
import type { ReadableSpan, Sampler } from '@opentelemetry/sdk-trace-node'
import t from '../support/tap.ts'
import { plugins } from '../../plugins/index.ts'
import { loadValidConfig } from '../../src/cli/gateway-process.ts'
import { openGateway } from '../../src/core/gateway.ts'
import { openTracing } from '../../src/core/tracing.ts'
import { systemClock } from '../../src/services/clock.ts'
import { deferred } from '../support/deferred.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import type { FakeNode } from '../support/fake-node.ts'
import { TestLog } from '../support/fakes.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import type { RequestOptions } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const remoteTraceId = '0af7651916cd43dd8448eb211c80319c'
const remoteSpanId = 'b7ad6b7169203331'
const traceparent = `00-${remoteTraceId}-${remoteSpanId}-01`
const secretPath = 'upstream-secret'

let sampler: Sampler = new AlwaysOnSampler()
const currentSampler: Sampler = { shouldSample: (...call) => sampler.shouldSample(...call) }

const above = ['envelope', 'key-auth', 'network-access', 'credits', 'params', 'subscriptions', 'cache']

/** Registers an SDK, and opens a gateway in front of two nodes, the first of which fails eth_gasPrice. */
const openTracedGateway = async () => {
  const exporter = new InMemorySpanExporter()
  const provider = new NodeTracerProvider({ sampler: currentSampler, spanProcessors: [new SimpleSpanProcessor(exporter)] })
  provider.register()
  const responses = {
    eth_chainId: { result: '0x7a69' },
    eth_getBlockByNumber: { result: null },
    eth_getBalance: { result: '0x5' },
    eth_getTransactionCount: { result: '0x1' },
  }
  const first = await startFakeNode({ ...responses, eth_gasPrice: 'close' })
  const second = await startFakeNode({ ...responses, eth_gasPrice: { result: '0x1' } })
  const urls = [first, second].map(({ url }) => `${url}/${secretPath}`)
  const deployment = createDeployment({ networks: { testnet: networkFile('testnet', urls) } })
  const { key } = await deployment.addCaller('alice')
  const config = await loadValidConfig(deployment.dir, plugins, { env: {}, err: line => t.fail(line) })
  const log = new TestLog()
  const gateway = await openGateway(config!, systemClock, log)
  t.teardown(async () => {
    await gateway.stop(0)
    await provider.shutdown()
    await Promise.all([first.stop(), second.stop()])
    await deployment.remove()
  })
  const url = `${gateway.urls.rpc}/v3/${key}`
  return {
    first,
    second,
    key,
    log,
    url,
    ws: url.replace('http', 'ws').replace('/v3/', '/ws/v3/'),
    call: (method: string, params: readonly unknown[] = [], options?: RequestOptions) => call(url, method, params, options),
    /** The spans that have ended since the last look. */
    takeSpans: () => {
      const spans = [...exporter.getFinishedSpans()]
      exporter.reset()
      return spans
    },
  }
}

const spanIdOf = (span: ReadableSpan): string => span.spanContext().spanId

/** `eth_call > envelope > …` for each span without children. */
const pathsOf = (spans: readonly ReadableSpan[]): readonly string[] => {
  const byId = new Map(spans.map(span => [spanIdOf(span), span]))
  const parentOf = ({ parentSpanContext }: ReadableSpan) => byId.get(parentSpanContext?.spanId ?? '')
  const pathOf = (span: ReadableSpan | undefined): string[] => (span === undefined ? [] : [...pathOf(parentOf(span)), span.name])
  const parents = new Set(spans.map(span => parentOf(span)))
  return spans.filter(span => !parents.has(span)).map(span => pathOf(span).join(' > '))
}

const callSpansIn = (spans: readonly ReadableSpan[]) => spans.filter(({ kind }) => kind === SpanKind.SERVER)
const requestSpansIn = (spans: readonly ReadableSpan[]) => spans.filter(({ kind }) => kind === SpanKind.CLIENT)

const traceparentsAt = ({ received }: FakeNode, method: string) =>
  received.filter(each => each.method === method).map(({ headers }) => headers['traceparent'])

const traceparentOf = (span: ReadableSpan) => `00-${span.spanContext().traceId}-${spanIdOf(span)}-01`

const address = `0x${'ab'.repeat(20)}`

t.test('without an SDK of OpenTelemetry there is no tracing', async t => {
  const log = new TestLog()
  t.equal(await openTracing(log), undefined)
  t.same(log.lines, [])
})

t.test('an SDK that was registered with an API that is too old is named in the log', async t => {
  const key = Symbol.for('opentelemetry.js.api.1')
  const globals = globalThis as { [key]?: unknown }
  const before = globals[key]
  t.teardown(() => void (globals[key] = before))
  globals[key] = { version: '1.4.0', trace: {} }
  const log = new TestLog()
  t.equal(await openTracing(log), undefined)
  t.match(log.lines, [{ level: 'warn', fields: { event: 'tracing-unavailable', version: '1.4.0' } }])
})

const gateway = await openTracedGateway()
// Until the chain ID of the first node is known, calls go to the second.
let nonceCalls = 0
await waitUntil(async () => {
  await gateway.call('eth_getTransactionCount', [`0x${String((nonceCalls += 1)).padStart(40, '0')}`, 'latest'])
  return gateway.first.received.some(({ method }) => method === 'eth_getTransactionCount')
})
gateway.takeSpans()

t.test('a call is a span, each plugin a span in it, and each request to a node a span whose context the node gets', async t => {
  await gateway.call('eth_gasPrice', [], { headers: { traceparent, 'x-request-id': 'slow-1' } })
  const spans = gateway.takeSpans()
  const toUpstream = ['eth_gasPrice', ...above, 'failover', 'upstream', 'eth_gasPrice'].join(' > ')
  t.same(pathsOf(spans), [toUpstream, toUpstream], 'one attempt failed, the next one succeeded')
  t.same([...new Set(spans.map(span => span.spanContext().traceId))], [remoteTraceId])
  const [root] = callSpansIn(spans)
  t.equal(root?.parentSpanContext?.spanId, remoteSpanId)
  t.match(root?.attributes, {
    'rpc.system.name': 'jsonrpc',
    'rpc.method': 'eth_gasPrice',
    'jsonrpc.protocol.version': '2.0',
    'network.protocol.name': 'http',
    'tollgate.network': 'testnet',
    'tollgate.request_id': 'slow-1',
    'tollgate.source': 'node',
    'tollgate.upstream': 'node-2',
    'tollgate.cache': 'miss',
    'tollgate.credits': 80,
  })
  t.equal(root?.status.code, SpanStatusCode.UNSET)
  const [failed, succeeded] = requestSpansIn(spans)
  t.match(failed, {
    attributes: {
      'tollgate.upstream': 'node-1',
      'error.type': 'unavailable',
      'rpc.response.status_code': '-32002',
      'tollgate.fault': 'upstream',
    },
    status: { code: SpanStatusCode.ERROR, message: /./ },
  })
  t.match(succeeded, {
    attributes: { 'tollgate.upstream': 'node-2', 'rpc.method': 'eth_gasPrice' },
    status: { code: SpanStatusCode.UNSET },
  })
  t.same(traceparentsAt(gateway.second, 'eth_gasPrice'), [traceparentOf(succeeded!)])
  t.same([...new Set(traceparentsAt(gateway.first, 'eth_gasPrice'))], [traceparentOf(failed!)], 'also when the request was sent again')
  t.match(gateway.log.lines[0], { level: 'info', fields: { event: 'tracing' } })

  await gateway.call('eth_chainId')
  t.same(pathsOf(gateway.takeSpans()), ['eth_chainId > envelope > key-auth > network-access > credits > params'], 'no node was needed')

  await gateway.call('eth_noSuchMethod')
  const [unknown] = callSpansIn(gateway.takeSpans())
  t.match(unknown, { name: 'jsonrpc', attributes: { 'rpc.method': '_OTHER', 'error.type': 'method', 'tollgate.fault': 'caller' } })
})

t.test('each call of a batch, and each over a WebSocket, is a span of the trace that its caller sent', async t => {
  const batch = ['eth_chainId', 'eth_gasPrice'].map((method, id) => ({ jsonrpc: '2.0', id, method }))
  await post(gateway.url, JSON.stringify(batch), { headers: { traceparent } })
  const ofBatch = callSpansIn(gateway.takeSpans())
  t.same(ofBatch.map(({ name }) => name).sort(), ['eth_chainId', 'eth_gasPrice'])
  t.same([...new Set(ofBatch.map(({ parentSpanContext }) => parentSpanContext?.spanId))], [remoteSpanId])

  const socket = await connectWs(gateway.ws, { headers: { traceparent } })
  await socket.call('eth_chainId')
  socket.send(JSON.stringify(batch))
  await socket.nextMessage()
  await socket.close()
  const spans = gateway.takeSpans()
  const ofSocket = callSpansIn(spans)
  t.equal(ofSocket.length, 3)
  t.same([...new Set(ofSocket.map(({ parentSpanContext }) => parentSpanContext?.spanId))], [remoteSpanId])
  t.same([...new Set(ofSocket.map(({ attributes }) => attributes['network.protocol.name']))], ['websocket'])
  t.ok(pathsOf(spans).every(path => path.startsWith('eth_')))

  await Promise.all([gateway.call('eth_chainId'), gateway.call('eth_chainId')])
  const roots = callSpansIn(gateway.takeSpans())
  t.same(
    roots.map(({ parentSpanContext }) => parentSpanContext),
    [undefined, undefined],
  )
  t.equal(new Set(roots.map(span => span.spanContext().traceId)).size, 2, 'without a trace of the caller, each call is a trace of its own')
})

t.test('a call that joins another in flight links to the span in which the node is requested', async t => {
  const { promise: asked, resolve: answer } = deferred()
  for (const node of [gateway.first, gateway.second])
    node.setResponse('eth_getBalance', async () => {
      await asked
      return { result: '0x7' }
    })
  const balance = (requestId: string) => gateway.call('eth_getBalance', [address, '0x1'], { headers: { 'x-request-id': requestId } })
  const starting = balance('starts')
  await gateway.first.waitForRequests('eth_getBalance', 1)
  const joining = balance('joins')
  // Debug lines say when the second has joined.
  while (!gateway.log.lines.some(({ message }) => message === 'call joined an identical call in flight')) await new Promise(setImmediate)
  answer()
  await Promise.all([starting, joining])
  const spans = gateway.takeSpans()
  const rootOf = (id: string) => callSpansIn(spans).find(({ attributes }) => attributes['tollgate.request_id'] === id)
  const cacheSpanOf = (id: string) =>
    spans.find(span => span.name === 'cache' && span.spanContext().traceId === rootOf(id)?.spanContext().traceId)
  t.same(
    cacheSpanOf('joins')?.links.map(link => link.context.spanId),
    [spanIdOf(cacheSpanOf('starts')!)],
  )
  t.same(cacheSpanOf('starts')?.links, [])
  t.same(
    requestSpansIn(spans).map(span => span.spanContext().traceId),
    [rootOf('starts')?.spanContext().traceId],
  )
})

t.test('a call that the SDK does not sample has no spans, and tells the node so', async t => {
  sampler = new AlwaysOffSampler()
  t.teardown(() => void (sampler = new AlwaysOnSampler()))
  await gateway.call('eth_getBalance', [address, '0x3'], { headers: { traceparent } })
  t.same(gateway.takeSpans(), [])
  const [passedOn] = traceparentsAt(gateway.first, 'eth_getBalance').slice(-1)
  t.match(passedOn, new RegExp(`^00-${remoteTraceId}-[0-9a-f]{16}-00$`))
})

t.test('no key and no URL of a node gets into a span', async t => {
  await gateway.first.stop()
  await gateway.call('eth_getBalance', [address, '0x2'])
  await gateway.call('eth_gasPrice')
  const text = JSON.stringify(
    gateway
      .takeSpans()
      .map(({ name, attributes, status, events, resource }) => ({ name, attributes, status, events, resource: resource.attributes })),
  )
  t.match(text, 'node-1')
  for (const secret of [gateway.key, secretPath, address, new URL(gateway.first.url).port, new URL(gateway.second.url).port])
    t.notMatch(text, secret)
})

t.test('workers record spans too, and export them before they exit', async t => {
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_getBlockByNumber: { result: null },
    eth_gasPrice: { result: '0x1' },
  })
  const preload = fileURLToPath(new URL('../support/tracing-sdk.js', import.meta.url))
  const env: Record<string, string> = {}
  const deployment = createDeployment({
    gateway: { workers: 2 },
    networks: { testnet: networkFile('testnet', [node.url]) },
    env,
    nodeOptions: ['--import', preload],
  })
  const file = join(deployment.dir, 'spans.jsonl')
  env['SPANS_FILE'] = file
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  const { key } = await deployment.addCaller('alice')
  const gateway = await deployment.start()
  await call(gateway.http(key), 'eth_gasPrice', [], { headers: { traceparent } })
  t.equal(await gateway.stop(), 0)
  const spans = readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { pid: number; name: string })
  t.same(spans.map(({ name }) => name).sort(), [...above, 'failover', 'upstream', 'eth_gasPrice', 'eth_gasPrice'].sort())
  t.not(spans[0]?.pid, gateway.pid)
})
