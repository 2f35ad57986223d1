import { createHook } from 'node:async_hooks'
import { channel } from 'node:diagnostics_channel'
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import type { Json, Request, Target } from '../../../src/plugin/call.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import { isFailure } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { describeNetworkError } from '../../../src/services/upstream-client/network-error.ts'
import { sendRequest } from '../../../src/services/upstream-client/http-exchange.ts'
import { ConcurrencyLimit } from '../../../src/services/upstream-client/concurrency-limit.ts'
import type { Waiter } from '../../../src/services/upstream-client/concurrency-limit.ts'
import { openUpstreamClient } from '../../../src/services/upstream-client/index.ts'
import type { RequestOptions } from '../../../src/services/upstream-client/index.ts'
import { createCoalescingLookup } from '../../../src/services/upstream-client/dns-lookup.ts'
import type { ResponseHandler, HttpClient } from '../../../src/services/upstream-client/http-client.ts'
import { parseEndpoint } from '../../../src/services/upstream-client/endpoint.ts'
import { createMemoryBudget } from '../../../src/services/memory-budget.ts'
import type { MemoryBudget } from '../../../src/services/memory-budget.ts'
import { RequestDeadline } from '../../../src/services/upstream-client/request-deadline.ts'
import { systemClock } from '../../../src/services/clock.ts'
import type { Clock } from '../../../src/services/clock.ts'
import { TestClock } from '../../support/fakes.ts'
import { closeKeptAlive, faults, httpResponse, respondCorrectly, compressResponse } from '../../support/node-faults.ts'
import type { NodeFault } from '../../support/node-faults.ts'
import { startFakeNode } from '../../support/fake-node.ts'
import { unreachableUrl, expectedResultOf, startBlackHole, startFaultyNode, startTlsNode } from '../../support/faulty-node.ts'

const request: Request = { method: 'eth_call', params: [{ data: '0x1' }] }
const expectedResult = expectedResultOf(request.method, request.params)
const targetOf = (url: string, over: Partial<Target> = {}): Target => ({ name: 'own', url: new Secret(url), source: 'node', ...over })
const requestOptions = (over: Partial<RequestOptions> = {}): RequestOptions => ({
  timeoutMs: 5000,
  maxBytes: 1 << 20,
  signal: new AbortController().signal,
  idempotent: true,
  ...over,
})
const text = (reply: Reply): string =>
  isFailure(reply) ? `${reply.kind}: ${reply.cause ?? reply.error.message}` : toBuffer(reply.result).toString()

const startUpstream = async (
  test: Test,
  fault: NodeFault = respondCorrectly,
  memoryBudget: MemoryBudget = createMemoryBudget(Infinity),
  clock: Clock = systemClock,
) => {
  const node = await startFaultyNode(fault)
  const upstreamClient = openUpstreamClient(clock, memoryBudget)
  test.teardown(async () => {
    await upstreamClient.close()
    await node.stop()
  })
  const target = targetOf(node.url)
  return {
    node,
    agents: upstreamClient,
    target,
    ask: (over: Partial<RequestOptions> = {}) => upstreamClient.request(target, request, requestOptions(over)),
  }
}

const createWaiter = (): Waiter => ({ isCanceled: false, onCancel: undefined })

/** In ms. */
const elapsedMs = async (run: () => Promise<unknown>): Promise<number> => {
  const begun = performance.now()
  await run()
  return performance.now() - begun
}

t.test('time', async t => {
  t.test("a dripping answer is cut at the deadline, and is the node's fault", async t => {
    for (const name of ['drips an answer', 'drips white space', 'hangs mid body'] as const) {
      const { ask, node } = await startUpstream(t, faults[name])
      let reply: Reply | undefined
      const took = await elapsedMs(async () => {
        reply = await ask({ timeoutMs: 500 })
      })
      t.match(reply, { kind: 'unavailable', fault: 'upstream', source: 'node' }, name)
      t.ok(took > 450 && took < 600, `${name}: ${took} ms`)
      await node.whenNoConnections()
    }
  })

  t.test('a long answer that does not end in time is a slow query, as callers may ask for as much as they like', async t => {
    const node = await startFakeNode({ eth_call: { raw: `{"jsonrpc":"2.0","id":1,"result":"0x${'ab'.repeat(600_000)}`, then: 'hang' } })
    const agents = openUpstreamClient(systemClock, createMemoryBudget(Infinity))
    t.teardown(() => Promise.all([agents.close(), node.stop()]))
    t.match(await agents.request(targetOf(node.url), request, requestOptions({ timeoutMs: 500, maxBytes: 1 << 24 })), {
      kind: 'timeout',
      fault: 'upstream',
    })
  })

  t.test('no byte until the deadline is a timeout', async t => {
    const { ask, node } = await startUpstream(t, faults.hangs)
    t.match(await ask({ timeoutMs: 100 }), { kind: 'timeout', fault: 'upstream' })
    await node.whenNoConnections()
  })

  t.test('a silent node without a pulse hangs; with one the query is only slow', async t => {
    const { ask } = await startUpstream(t, faults.hangs)
    t.match(await ask({ livenessProbe: { afterMs: 30, isAlive: async () => false } }), {
      kind: 'unavailable',
      unresponsive: true,
      cause: 'the node hangs',
    })
    t.match(await ask({ timeoutMs: 200, livenessProbe: { afterMs: 30, isAlive: async () => true } }), { kind: 'timeout' })
  })

  t.test('a node that takes connections and reads nothing is found out in the same way', async t => {
    const hole = await startBlackHole()
    const agents = openUpstreamClient(systemClock, createMemoryBudget(Infinity))
    t.teardown(() => Promise.all([agents.close(), hole.stop()]))
    const reply = await agents.request(
      targetOf(hole.url),
      request,
      requestOptions({ livenessProbe: { afterMs: 30, isAlive: async () => false } }),
    )
    t.match(reply, { unresponsive: true })
  })
})

t.test('name and password in a URL go out as HTTP Basic, and nothing does without them', async t => {
  const node = await startFakeNode({ eth_call: { result: '0x1' } })
  const agents = openUpstreamClient(systemClock, createMemoryBudget(Infinity))
  t.teardown(() => Promise.all([agents.close(), node.stop()]))
  const at = (user: string) => node.url.replace('//', `//${user}`)
  for (const user of ['me:s%40cret%', 'me@', '@', '']) {
    t.equal(
      text(await agents.request(targetOf(at(user === '' || user.endsWith('@') ? user : `${user}@`)), request, requestOptions())),
      '"0x1"',
    )
  }
  t.same(
    node.received.map(({ headers }) => headers.authorization),
    [`Basic ${btoa('me:s@cret%')}`, `Basic ${btoa('me:')}`, undefined, undefined],
  )
})

t.test('callers who leave', async t => {
  t.test('take their connection with them within 100 ms', async t => {
    for (const name of ['hangs', 'hangs mid body', 'answers endlessly'] as const) {
      const { ask, node } = await startUpstream(t, faults[name])
      const caller = new AbortController()
      const asked = ask({ signal: caller.signal, maxBytes: 2 ** 40 })
      await node.waitForRequests(1)
      const took = await elapsedMs(async () => {
        caller.abort()
        t.match(await asked, { fault: 'caller', cause: 'the caller left' })
        await node.whenNoConnections()
      })
      t.ok(took < 100, `${name}: ${took} ms`)
    }
  })

  t.test('before anything was sent cost the node nothing', async t => {
    const { ask, node } = await startUpstream(t)
    t.match(await ask({ signal: AbortSignal.abort() }), { fault: 'caller' })
    t.equal(node.requestCount(), 0)
  })
})

t.test('a kept connection that closes as it is used again', async t => {
  t.test('10,000 calls see no error', async t => {
    const { agents, target, node } = await startUpstream(t, closeKeptAlive)
    let wrong = 0
    for (let round = 0; round < 100; round++) {
      const replies = await Promise.all(Array.from({ length: 100 }, () => agents.request(target, request, requestOptions())))
      wrong += replies.filter(reply => text(reply) !== expectedResult).length
    }
    t.equal(wrong, 0)
    t.ok(node.requestCount() > 10_000, `${node.requestCount()} requests`)
  })

  t.test('what must not be sent twice is not', async t => {
    const { agents, target, node } = await startUpstream(t, closeKeptAlive)
    for (let i = 0; i < 10; i++) {
      t.equal(text(await agents.request(target, request, requestOptions({ idempotent: false }))), expectedResult)
      await turn() // the connection is free again
    }
    t.match(await agents.request(target, request, requestOptions({ idempotent: false })), {
      kind: 'unavailable',
      cause: /the connection was closed/,
    })
    t.equal(node.requestCount(), 11)
  })

  t.test('is counted, unlike one that we close', async t => {
    const { node, agents, target, ask } = await startUpstream(t, closeKeptAlive)
    t.equal(agents.disconnects(target), 0)
    for (let i = 0; i < 11; i++) t.equal(text(await ask()), expectedResult)
    t.equal(agents.disconnects(target), 1)
    node.setFault(respondCorrectly)
    await ask()
    const before = agents.disconnects(target)
    const end = new AbortController()
    node.setFault(faults.hangs)
    const left = ask({ signal: end.signal })
    end.abort()
    await left
    t.equal(agents.disconnects(target), before)
  })

  t.test('a new connection that closes is not tried again', async t => {
    const { ask, node } = await startUpstream(t, faults['resets at once'])
    t.match(await ask(), { fault: 'upstream' })
    t.equal(node.requestCount(), 1)
  })

  t.test('connections are replaced after 30 s, so that a node which moves is found', async t => {
    let later = 0
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + later }
    const { ask, node } = await startUpstream(t, respondCorrectly, createMemoryBudget(Infinity), clock)
    const opened: unknown[] = []
    const note = (message: unknown) => opened.push(message)
    channel('undici:client:connected').subscribe(note)
    t.teardown(() => channel('undici:client:connected').unsubscribe(note))
    await ask()
    await turn()
    await ask()
    await turn()
    t.equal(opened.length, 1)
    later = 31_000
    await ask()
    t.equal(opened.length, 2)
    t.equal(node.requestCount(), 3)
  })
})

t.test('compressed answers', async t => {
  t.test('are not asked for, but inflated when they come', async t => {
    for (const encoding of ['gzip', 'deflate', 'br'] as const) {
      const { ask } = await startUpstream(t, compressResponse(encoding))
      t.equal(text(await ask()), expectedResult, encoding)
    }
  })

  t.test('are plain when the header says no more than that', async t => {
    for (const encoding of ['', 'identity', 'Identity']) {
      const { ask } = await startUpstream(t, (socket, asked) => {
        const body = JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: JSON.parse(asked.expectedResult) as Json })
        socket.write(httpResponse(body, { headers: { 'content-encoding': encoding } }))
      })
      t.equal(text(await ask()), expectedResult, `"${encoding}"`)
    }
  })

  t.test('that take long keep nobody waiting', async t => {
    const held: (() => void)[] = []
    const { ask } = await startUpstream(t, (socket, asked) => {
      const bytes = gzipSync(JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: JSON.parse(asked.expectedResult) as Json }))
      socket.write(httpResponse('', { headers: { 'content-encoding': 'gzip', 'content-length': bytes.length } }))
      socket.write(bytes.subarray(0, 12))
      held.push(() => void socket.write(bytes.subarray(12)))
      if (held.length === 5) for (const finish of held) finish()
    })
    for (const reply of await Promise.all(Array.from({ length: 5 }, () => ask()))) t.equal(text(reply), expectedResult)
  })

  t.test('are cut at the cap on inflated bytes', async t => {
    for (const name of ['sends a gzip bomb', 'sends a deflate bomb', 'sends a brotli bomb'] as const) {
      const room = createMemoryBudget(Infinity)
      const { ask, node } = await startUpstream(t, faults[name], room)
      t.match(await ask(), { kind: 'tooLarge', retryElsewhere: true }, name)
      t.equal(room.reservedBytes, 0)
      await node.whenNoConnections()
    }
  })

  t.test('that are chained, unknown or broken are no answers', async t => {
    for (const name of ['packs twice', 'packs in an unknown way', 'breaks off a gzip', 'lies about gzip'] as const) {
      const { ask } = await startUpstream(t, faults[name])
      t.match(await ask(), { kind: 'unavailable', fault: 'upstream', cause: /compressed/ }, name)
    }
  })
})

t.test('bytes', async t => {
  t.test('an answer is cut at its cap', async t => {
    for (const name of ['answers endlessly', 'answers hugely'] as const) {
      const { ask, node } = await startUpstream(t, faults[name])
      t.match(await ask(), { kind: 'tooLarge', source: 'node', retryElsewhere: true }, name)
      await node.whenNoConnections()
    }
  })

  t.test('all answers together stay within their room, and give it back', async t => {
    const room = createMemoryBudget(1000)
    const { ask } = await startUpstream(
      t,
      socket => void socket.write(httpResponse('{"jsonrpc":"2.0",', { headers: { 'content-length': 10_000 } })),
      room,
    )
    const callers = Array.from({ length: 100 }, () => new AbortController())
    const replies = callers.map(caller => ask({ signal: caller.signal }))
    const refused = await Promise.race(replies)
    t.match(refused, {
      kind: 'unavailable',
      status: 503,
      source: 'gateway',
      fault: 'gateway',
      retryAfter: 1,
      error: { message: 'too many answers wait to be read now' },
    })
    t.ok(room.reservedBytes <= 1000)
    for (const caller of callers) caller.abort()
    await Promise.all(replies)
    t.equal(room.reservedBytes, 0)
  })
})

t.test('others get their turn while a long answer comes in', async t => {
  const clock = new TestClock()
  let paused = 0
  let hearer: ResponseHandler | undefined
  const trip = {
    abort: () => undefined,
    pause: () => {
      paused += 1
    },
    resume: () => {
      paused -= 1
    },
  }
  const lines: HttpClient = {
    post: (_place, _body, hears) => {
      hearer = hears
      return trip
    },
    disconnects: () => 0,
    close: async () => undefined,
  }
  const target = targetOf('http://127.0.0.1:9')
  const reply = sendRequest(lines, parseEndpoint(target.url), {
    id: 1,
    request,
    target,
    maxBytes: 1 << 22,
    idempotent: true,
    clock,
    memoryBudget: createMemoryBudget(Infinity),
    decompressionLimits: { zlib: new ConcurrencyLimit(clock, 1), brotli: new ConcurrencyLimit(clock, 1) },
    deadline: new RequestDeadline(clock, requestOptions()),
    onSettled: () => undefined,
  })
  const answer = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":"${'0'.repeat(1 << 20)}"}`)
  hearer?.onHeaders(200, {})
  hearer?.onData(answer.subarray(0, 700_000))
  t.equal(paused, 0)
  hearer?.onData(answer.subarray(700_000, 800_000))
  t.equal(paused, 1)
  await turn()
  t.equal(paused, 0)
  hearer?.onData(answer.subarray(800_000))
  hearer?.onEnd()
  t.equal(text(await reply).length, (1 << 20) + 2)
})

t.test('calls at once', async t => {
  t.test('as many as the limit are under way, as many wait, and the rest go elsewhere at once', async t => {
    const held: (() => void)[] = []
    const { node, agents } = await startUpstream(t, (socket, asked) => void held.push(() => respondCorrectly(socket, asked)))
    const target = targetOf(node.url, { concurrency: 2 })
    const ask = (over = {}) => agents.request(target, request, requestOptions(over))
    const first = [ask(), ask(), ask(), ask()]
    t.match(await ask(), { kind: 'unavailable', source: 'gateway', fault: 'upstream', upstream: 'own' })
    await node.waitForRequests(2)
    const health = ask({ bypassConcurrencyLimit: true })
    await node.waitForRequests(3)
    t.pass('what asks after the health of the node does not wait')
    for (const answer of held.splice(0)) answer()
    await node.waitForRequests(5)
    for (const answer of held.splice(0)) answer()
    t.same((await Promise.all([...first, health])).map(text), Array(5).fill(expectedResult))
  })

  t.test('a place is waited for no longer than a second', async t => {
    const clock = new TestClock()
    const gate = new ConcurrencyLimit(clock, 1)
    t.equal(gate.acquire(createWaiter()), true)
    const second = gate.acquire(createWaiter())
    clock.advance(1000)
    t.equal(await second, false)
    gate.release()
    t.equal(gate.acquire(createWaiter()), true)
  })

  t.test('who leaves while waiting gives up the wait', async t => {
    const gate = new ConcurrencyLimit(new TestClock(), 1)
    gate.acquire(createWaiter())
    const second = createWaiter()
    const waiting = gate.acquire(second)
    second.onCancel?.()
    t.equal(await waiting, false)
  })
})

t.test('a user and a password in the URL become an Authorization header', async t => {
  const { headers } = parseEndpoint(new Secret('https://us%40er:pass@node.test/path?key=1'))
  t.equal(headers[headers.indexOf('authorization') + 1], `Basic ${Buffer.from('us@er:pass').toString('base64')}`)
  t.match(parseEndpoint(new Secret('http://node.test:8545/path?key=1')), { origin: 'http://node.test:8545', path: '/path?key=1' })
  t.notOk(parseEndpoint(new Secret('http://node.test')).headers.includes('authorization'))
})

t.test('host names', async t => {
  t.test('are looked up once for all connections that open at once', async t => {
    const { node } = await startUpstream(t)
    const agents = openUpstreamClient(systemClock, createMemoryBudget(Infinity))
    t.teardown(() => agents.close())
    const target = targetOf(node.url.replace('127.0.0.1', 'localhost'))
    let asked = 0
    const hook = createHook({
      init: (_id, type) => {
        asked += Number(type === 'GETADDRINFOREQWRAP')
      },
    }).enable()
    const replies = await Promise.all(Array.from({ length: 50 }, () => agents.request(target, request, requestOptions())))
    hook.disable()
    t.same(new Set(replies.map(text)), new Set([expectedResult]))
    t.equal(node.openConnectionCount, 50)
    t.equal(asked, 1)
  })

  t.test('are looked up anew by the next, also after an error, and apart from others', async t => {
    const asked: { readonly host: string; tell(...found: LookupResult): void }[] = []
    const look = createCoalescingLookup((host, _options, tell) => void asked.push({ host, tell }))
    const found: LookupResult[] = []
    const ask = (host: string) => look(host, { all: true }, (...all) => void found.push(all))
    for (const host of ['a.test', 'b.test', 'a.test']) ask(host)
    t.same(
      asked.map(({ host }) => host),
      ['a.test', 'b.test'],
    )
    const error = new Error('ENOTFOUND')
    asked[0]?.tell(error, [])
    t.same(found, [
      [error, []],
      [error, []],
    ])
    ask('a.test')
    asked[2]?.tell(null, [{ address: '127.0.0.1', family: 4 }])
    t.same(found.at(-1), [null, [{ address: '127.0.0.1', family: 4 }]])
    t.equal(asked.length, 3)
  })
})

type LookupResult = Parameters<Parameters<ReturnType<typeof createCoalescingLookup>>[2]>

t.test('what went wrong is said without the URL', async t => {
  const agents = openUpstreamClient(systemClock, createMemoryBudget(Infinity))
  const untrusted = await startTlsNode('self-signed')
  t.teardown(() => Promise.all([agents.close(), untrusted.stop()]))
  const causeAt = async (url: string) => {
    const reply = await agents.request(targetOf(`${url}/v3/secret-key`), request, requestOptions())
    t.match(reply, { kind: 'unavailable', fault: 'upstream', source: 'node' })
    t.notMatch(JSON.stringify(reply), /secret-key/)
    return isFailure(reply) ? reply.cause : undefined
  }
  t.match(await causeAt(await unreachableUrl()), /nothing listens there/)
  t.match(await causeAt(untrusted.url), /TLS failed \(DEPTH_ZERO_SELF_SIGNED_CERT\)/)
  t.match(await causeAt('http://no-such-host.invalid'), /the host name cannot be resolved/)
})

t.test("what is not an answer is the node's fault, whatever it is", async t => {
  const { node, ask } = await startUpstream(t)
  // Of these some take long, and some are well-formed: what they mean is for `upstream` to say.
  const others = [
    'hangs',
    'drips',
    'again',
    'bomb',
    'endlessly',
    'hugely',
    'internal',
    'behind',
    'promises more',
    'in JSON',
    'for none',
    'lacks',
    '413',
  ]
  for (const [name, fault] of Object.entries(faults)) {
    if (others.some(word => name.includes(word))) continue
    node.setFault(fault)
    t.match(await ask({ timeoutMs: 1000 }), { kind: 'unavailable', fault: 'upstream', source: 'node' }, name)
  }
  node.setFault(respondCorrectly)
  t.equal(text(await ask()), expectedResult)
})

t.test('an answer that nobody asked for never becomes the answer to the next call', async t => {
  const { ask } = await startUpstream(t, faults['sends another answer behind'])
  for (let i = 0; i < 50; i++) t.not(text(await ask()), '"0xbad"')
})

t.test('a limit says how long it holds', async t => {
  const { node, ask } = await startUpstream(t, faults['limits us'])
  t.same(rateLimitOf(await ask()), ['rateLimited', undefined])
  node.setFault(faults['limits us for a second'])
  t.same(rateLimitOf(await ask()), ['rateLimited', 1])
  const date = new Date(systemClock.now() + 90_000).toUTCString()
  node.setFault(socket => void socket.write(httpResponse('', { status: 429, headers: { 'retry-after': date } })))
  const [, seconds] = rateLimitOf(await ask())
  t.ok(Number(seconds) > 80 && Number(seconds) <= 90)
})

const rateLimitOf = (reply: Reply) => (isFailure(reply) ? [reply.category, reply.retryAfter] : [])

t.test('an HTTP status that is a failure', async t => {
  const error = { code: -32000, message: 'Query timeout exceeded.' }
  const says =
    (status: number, rest: object, headers = {}): NodeFault =>
    (socket, { id }) =>
      void socket.write(httpResponse(JSON.stringify({ jsonrpc: '2.0', id, ...rest }), { status, headers }))
  const heard = async (fault: NodeFault) => {
    const reply = await (await startUpstream(t, fault)).ask()
    return isFailure(reply) ? { kind: reply.kind, fault: reply.fault, cause: reply.cause, said: reply.nodeError } : reply
  }

  t.test('brings along what the node said, if that is a JSON-RPC error', async t => {
    for (const status of [500, 503, 504]) {
      t.same(await heard(says(status, { error })), { kind: 'unavailable', fault: 'upstream', cause: `HTTP ${status}`, said: error })
    }
  })

  t.test('is all there is, whatever else comes', async t => {
    const alone = { kind: 'unavailable', fault: 'upstream', cause: 'HTTP 503', said: undefined }
    for (const fault of [
      says(503, { result: '0xbad' }),
      says(503, { id: 0, error }),
      says(503, { error }, { 'content-type': 'text/html' }),
      says(503, { error }, { 'content-encoding': 'lzma' }),
      says(503, { error: 'no' }),
      ((socket, { id }) =>
        void socket.end(`HTTP/1.1 503 X\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"id":${id}`)) as NodeFault,
    ])
      t.same(await heard(fault), alone)
  })
})

t.test('a node that takes no request of this length', async t => {
  const tooLong: Partial<Failure> = {
    kind: 'bodyTooLarge',
    fault: 'upstream',
    retryElsewhere: true,
    source: 'node',
    upstream: 'own',
    status: 413,
  }

  t.test('says nothing about its health: another one may take it', async t => {
    for (const status of [413, 414, 431]) {
      for (const body of ['', '<html>no</html>', '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too large"}}']) {
        const { ask } = await startUpstream(t, socket => void socket.write(httpResponse(body, { status })))
        t.match(await ask(), { ...tooLong, cause: `HTTP ${status}` }, `${status} ${body}`)
      }
    }
  })

  t.test('and closes the connection before it has said so to the end, is taken at its word', async t => {
    const { ask } = await startUpstream(t, socket => void socket.end('HTTP/1.1 413 X\r\ncontent-length: 10\r\n\r\nno'))
    t.match(await ask(), tooLong)
  })

  t.test('and says why in JSON-RPC, is heard', async t => {
    const error = { code: -32614, message: 'eth_getLogs is limited to a 10,000 range' }
    const { ask } = await startUpstream(
      t,
      (socket, { id }) => void socket.write(httpResponse(JSON.stringify({ jsonrpc: '2.0', id, error }), { status: 413 })),
    )
    t.match(await ask(), { kind: 'node', error, fault: 'caller' })
  })
})

t.test('a bug of ours is not blamed on the node', async t => {
  const { agents, target } = await startUpstream(t)
  const circle: unknown[] = []
  circle.push(circle)
  await t.rejects(agents.request(target, { method: 'eth_call', params: circle as never }, requestOptions()), TypeError)
  const broken: MemoryBudget = {
    reserve: () => {
      throw new RangeError('a bug')
    },
    release: () => undefined,
    reservedBytes: 0,
  }
  const { ask } = await startUpstream(t, respondCorrectly, broken)
  await t.rejects(ask(), RangeError)
  t.equal(describeNetworkError(Object.assign(new Error('x'), { code: 'ERR_INVALID_ARG_TYPE' })), undefined)
})

t.test('redirects are not followed', async t => {
  const trap = await startFaultyNode()
  const { ask } = await startUpstream(t, socket => void socket.write(httpResponse('', { status: 307, headers: { location: trap.url } })))
  t.teardown(() => trap.stop())
  t.match(await ask(), { kind: 'unavailable', cause: 'HTTP 307' })
  t.equal(trap.requestCount(), 0)
})
