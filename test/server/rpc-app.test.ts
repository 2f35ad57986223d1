import { randomBytes } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { connect } from 'node:net'
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { openGcHints } from '../../src/runtime/gc-hints.ts'
import { openSingleWrite, sentBytesOf } from '../../src/runtime/http-internals.ts'
import { createClientAddressReader } from '../../src/server/client-address.ts'
import { keepAliveTimeoutMs } from '../../src/server/http-server.ts'
import { ReadPacing } from '../../src/server/read-pacing.ts'
import { createRpcServer } from '../../src/server/http-server.ts'
import { createRpcApp } from '../../src/server/rpc-app.ts'
import type { AccessLog } from '../../src/services/access-log.ts'
import { nextRequestId } from '../../src/server/request-origin.ts'
import { ResponseCompressor, maxConcurrentCompressions } from '../../src/server/response-compressor.ts'
import { ActiveRequests } from '../../src/server/rpc-services.ts'
import type { RpcServices } from '../../src/server/rpc-services.ts'
import { setSendTimeout } from '../../src/server/stream-response.ts'
import { MemoryBudget } from '../../src/services/memory-budget.ts'
import { createMessageParser } from '../../src/json-rpc/parse-message.ts'
import type { RawJson } from '../../src/json/chunked-bytes.ts'
import { refuse } from '../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../src/plugin/reply.ts'
import type { ResultMemory } from '../../src/json/result-memory.ts'
import { deferred } from '../support/deferred.ts'
import { TestClock, TestLog, fakeAccessLog, fakeCharge, fakeResult, openTestAccessLog } from '../support/fakes.ts'
import { HeldScheduler } from '../support/held-scheduler.ts'
import { createLongResult } from '../support/long-result.ts'
import { passTimeBySpeed } from '../support/pass-time.ts'
import { waitUntil } from '../support/wait-until.ts'

// The Koa application, in front of a network whose responses are long.

const mib = 1 << 20
const defaultResultBytes = 21 * mib

interface ServerOptions extends Partial<Pick<RpcServices, 'sendTimeoutMs' | 'memoryBudget' | 'hintGc'>> {
  readonly upstream?: string
  readonly accessLog?: AccessLog
  /** Of each result, in bytes. */
  readonly resultBytes?: number
  /** In place of zeros. */
  readonly result?: Buffer
  /** In place of all other results. */
  readonly newResult?: () => RawJson
  readonly onSettled?: Reply['onSettled']
  /** Calls are answered when it resolves. */
  readonly whenAnswered?: Promise<void>
  readonly admit?: () => Failure | undefined
}

const callText = (more = '', body = '{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"}'): string =>
  `POST /v3/key HTTP/1.1\r\nHost: a\r\n${more}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`

const openServer = async (
  test: Test,
  {
    sendTimeoutMs = 1000,
    memoryBudget = new MemoryBudget(512 * mib),
    hintGc = () => undefined,
    accessLog = fakeAccessLog,
    upstream = 'own',
    resultBytes = defaultResultBytes,
    result,
    newResult = () => result ?? Buffer.alloc(resultBytes, '0'),
    onSettled,
    whenAnswered,
    admit = () => undefined,
  }: ServerOptions,
) => {
  const [clock, scheduler] = [new TestClock(), new HeldScheduler()]
  const [log, activeRequests, refunds] = [new TestLog(), new ActiveRequests(), [] as string[]]
  const charge = fakeCharge(outcome => void refunds.push(outcome))
  const limits = {
    body: mib,
    depth: 9,
    batch: 9,
    batchReply: 64 * mib,
    connections: 100,
    batchConcurrency: 9,
    batchTimeout: 9000,
    inFlight: 512 * mib,
  }
  const upstreamRequest = { id: 's-1', attempts: 1, durationMs: 1.23 }
  let startedCalls = 0
  const answer = () => ({
    ...fakeResult('0'),
    result: newResult(),
    charge,
    onSettled,
    credits: 255,
    upstream,
    verified: 'proof' as const,
    cache: 'miss' as const,
    upstreamRequest,
  })
  let hasLeft = false
  const run = () => {
    startedCalls += 1
    return whenAnswered?.then(answer) ?? Promise.resolve(answer())
  }
  const endpoint = {
    name: 'net',
    admit,
    messageHandler: { parse: createMessageParser(limits), run, limits, clock, log, accessLog },
  }
  const services: RpcServices = {
    endpointByHost: new Map([['a', endpoint]]),
    readClientAddress: createClientAddressReader([]),
    limits,
    log,
    clock,
    accessLog,
    activeRequests,
    scheduler,
    readPacing: new ReadPacing(scheduler, ({ remoteAddress }) => remoteAddress),
    memoryBudget,
    hintGc,
    sendSingleWrite: openSingleWrite(keepAliveTimeoutMs),
    compressor: new ResponseCompressor(),
    httpDate: () => '',
    countResponse: status => void (hasLeft ||= status === 499),
    sendTimeoutMs,
  }
  const app = createRpcApp(services, { open: () => Promise.reject(new Error('no upgrades')) })
  const server = createRpcServer(services, app.listener()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.teardown(() => void server.close())
  let socket: Socket | undefined
  server.on('connection', (opened: Socket) => (socket = opened))
  const openCaller = (): Socket => {
    const opened = connect((server.address() as AddressInfo).port, '127.0.0.1')
    test.teardown(() => void opened.destroy())
    return opened
  }
  const caller = openCaller()
  const call = (body?: string, more?: string) => caller.write(callText(more, body))
  /** On the latest connection. */
  const sentBytes = () => (socket === undefined ? 0 : sentBytesOf(socket))
  return {
    openCaller,
    clock,
    log,
    activeRequests,
    memoryBudget,
    scheduler,
    caller,
    call,
    sentBytes,
    refunds,
    startedCalls: () => startedCalls,
    /** A caller has left before its response. */
    whenLeft: () => waitUntil(() => hasLeft),
  }
}

t.test('a caller who reads nothing of a long response is disconnected, and the memory reserved for it is released', async t => {
  const sendTimeoutMs = 1_000
  const { clock, log, activeRequests, memoryBudget, caller, call, sentBytes } = await openServer(t, { sendTimeoutMs })
  caller.pause()
  call()
  await waitUntil(() => clock.timerCount === 1)
  const begunAt = clock.monotonic()
  let [lastSent, lastSentAt] = [0, begunAt]
  for (; log.lines.length === 0; await turn()) {
    if (sentBytes() > lastSent) [lastSent, lastSentAt] = [sentBytes(), clock.monotonic()]
    clock.advance(sendTimeoutMs / 10)
  }
  t.match(log.lines, [{ level: 'info', fields: { event: 'slow-client' } }])
  t.ok(clock.monotonic() - begunAt >= sendTimeoutMs, 'not before the send timeout')
  t.ok(clock.monotonic() - lastSentAt <= sendTimeoutMs, 'no longer than the send timeout after the system has taken the last bytes')
  await activeRequests.whenIdle()
  t.ok(memoryBudget.reserve(512 * mib), 'all of it is free')
})

t.test('a slow reader gets the whole response, and the connection takes the next call', async t => {
  const sendTimeoutMs = 1_000
  const { clock, log, caller, call, sentBytes } = await openServer(t, { sendTimeoutMs })
  const total = defaultResultBytes + '{"jsonrpc":"2.0","id":1,"result":}'.length
  const read = (onRead: () => void): Promise<number> =>
    new Promise(resolve => {
      let [seen, expected] = [0, Infinity]
      // One listener for all chunks: several may come at once.
      const take = (chunk: Buffer): void => {
        if (seen === 0) expected = chunk.indexOf('\r\n\r\n') + 4 + total
        seen += chunk.length
        onRead()
        if (seen < expected) return
        caller.off('data', take)
        resolve(seen - expected)
      }
      caller.on('data', take)
      call()
    })
  const begunAt = clock.monotonic()
  t.equal(await read(passTimeBySpeed(clock, sendTimeoutMs, sentBytes)), 0)
  t.ok(clock.monotonic() - begunAt > sendTimeoutMs, 'it took longer than the send timeout')
  t.equal(await read(() => undefined), 0)
  t.same(log.lines, [])
})

t.test(
  'a response that does not fit the memory budget becomes a 503 with the id of its call and the reason, and is not charged',
  async t => {
    const { caller, call, refunds, memoryBudget } = await openServer(t, { memoryBudget: new MemoryBudget(defaultResultBytes) })
    const send = async (body: string) => {
      call(body)
      const [chunk] = (await once(caller, 'data')) as [Buffer]
      const [head = '', text = ''] = chunk.toString().split('\r\n\r\n')
      return { head, text }
    }
    const refusal = async (body: string) => {
      const { head, text } = await send(body)
      t.match(head, /^HTTP\/1.1 503 [^]*Retry-After: 1/)
      t.match(head, /^X-Tollgate-Credits: 0\r$/m)
      return text
    }
    const withId = (id: string) =>
      `{"jsonrpc":"2.0","id":${id},"error":{"code":-32002,"message":"too many bytes are in flight; retry later"}}`
    for (const id of ['18446744073709551616', '"a\\u00e9"', 'null']) {
      t.equal(await refusal(`{"jsonrpc":"2.0","id":${id},"method":"eth_getLogs"}`), withId(id))
      t.same(refunds.splice(0), ['unavailable'])
    }
    const one = '{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"}'
    const { head, text } = await send(`[${one},${one}]`)
    t.match(head, /^HTTP\/1.1 200 [^]*X-Tollgate-Credits: 0/)
    t.match(
      JSON.parse(text),
      Array(2).fill({ id: 1, error: { code: -32002, message: /^too many bytes are in flight/ } }),
      'each call of a batch',
    )
    t.ok(refunds.length > 0 && refunds.every(outcome => outcome === 'unavailable'))
    t.equal(memoryBudget.reservedBytes, 0)
  },
)

/** What the caller gets next, head and body. */
const nextResponse = async (caller: Socket): Promise<string> => String((await once(caller, 'data'))[0])

t.test('the request id is that of the caller where it is well-formed, and no API key', async t => {
  const { caller, call } = await openServer(t, { resultBytes: 100 })
  const idFor = async (header: string): Promise<string | undefined> => {
    call(undefined, header)
    return /^X-Request-Id: (.*)\r$/m.exec(await nextResponse(caller))?.[1]
  }
  for (const id of ['f3b2', '7f0c5a1e-3d57-4d0a-9c1b-1f2e3d4c5b6a', 'Root=1-67891233-abcdef012345678912345678', 'x'.repeat(128)])
    t.equal(await idFor(`X-Request-Id: ${id}\r\n`), id)
  for (const id of ['', 'a b', 'a"b', 'a,b', 'é', 'x'.repeat(129), `a:tg_${'k'.repeat(38)}`])
    t.match(await idFor(`X-Request-Id: ${id}\r\n`), /^[0-9a-f]{24}$/, id)
  t.match(await idFor('X-Request-Id: a\r\nX-Request-Id: b\r\n'), /^[0-9a-f]{24}$/, 'two of them')
  caller.write('POST /nothing HTTP/1.1\r\nHost: a\r\nX-Request-Id: r-1\r\nContent-Length: 0\r\n\r\n')
  t.match(await nextResponse(caller), /^HTTP\/1.1 404 [^]*X-Request-Id: r-1\r\n/, 'of a request without a network')
})

t.test('the request id is that of the caller where a request behind another one finds no room, too', async t => {
  const { promise: whenAnswered, resolve: answer } = deferred()
  const { caller, call, startedCalls } = await openServer(t, { resultBytes: 100, memoryBudget: new MemoryBudget(60_000), whenAnswered })
  call()
  await waitUntil(() => startedCalls() === 1)
  caller.write('GET /nothing HTTP/1.1\r\nHost: a\r\nX-Request-Id: behind\r\n\r\n'.repeat(9))
  await wait(20)
  answer()
  let text = ''
  for await (const piece of caller) text += piece
  t.match(text, /^HTTP\/1.1 200 [^]*HTTP\/1.1 503 [^]*X-Request-Id: behind\r\n/)
})

t.test('each call is a line of the access log, found by the id of its request', async t => {
  const { accessLog, lines } = openTestAccessLog(new TestClock())
  const { caller, call } = await openServer(t, { accessLog, resultBytes: 100 })
  const linesOf = async (body: string, header = ''): Promise<readonly unknown[]> => {
    call(body, `X-Request-Id: r-1\r\n${header}`)
    await nextResponse(caller)
    return lines.splice(0)
  }
  const base = { requestId: 'r-1', network: 'net', transport: 'http', status: 200 }
  const ok = { ...base, outcome: 'ok', credits: 255, upstream: 'own' }
  const request = '{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":["secret"]}'
  const bytesSent = '{"jsonrpc":"2.0","id":1,"result":}'.length + 100
  const single = await linesOf(request)
  t.match(single, [{ ...ok, method: 'eth_getLogs', durationMs: 0, bytesReceived: request.length, bytesSent }])
  t.notMatch(JSON.stringify(single), /secret|key/, 'neither params nor the API key')
  t.match(await linesOf(`[${request},1]`), [
    { ...ok, method: 'eth_getLogs', batchSize: 2, bytesSent },
    { ...base, batchSize: 2 },
  ])
  t.match(await linesOf('{'), [{ ...base, outcome: 'parse', rpcCode: -32700 }])
  caller.write('POST /v3/key HTTP/1.1\r\nHost: b\r\nX-Request-Id: r-2\r\nContent-Length: 0\r\n\r\n')
  await nextResponse(caller)
  t.match(lines.splice(0), [{ requestId: 'r-2', status: 404, outcome: 'notFound', rpcCode: -32090 }])
})

t.test('a caller that leaves is a line with the status 499', async t => {
  const { accessLog, lines } = openTestAccessLog(new TestClock())
  const { promise: whenAnswered, resolve: answer } = deferred()
  const { caller, call, whenLeft, startedCalls } = await openServer(t, { accessLog, whenAnswered })
  call()
  while (startedCalls() === 0) await new Promise(setImmediate)
  caller.destroy()
  await whenLeft()
  answer()
  while (lines.length === 0) await new Promise(setImmediate)
  t.match(lines, [{ status: 499, method: 'eth_getLogs' }])
})

t.test('headers name the upstream and what the result was verified by, whatever the length of the response', async t => {
  for (const resultBytes of [100, 100_000]) {
    const { caller, call } = await openServer(t, { resultBytes })
    call()
    const [chunk] = (await once(caller, 'data')) as [Buffer]
    const [head = ''] = chunk.toString().split('\r\n\r\n')
    t.match(head, /^X-Tollgate-Upstream: own\r?$/m)
    t.match(head, /^X-Tollgate-Verified: proof\r?$/m)
    t.match(head, /^X-Tollgate-Credits: 255\r?$/m)
  }
})

t.test('request ids are random: nobody can tell from them how many requests there are', t => {
  const ids = Array.from({ length: 1_000 }, nextRequestId)
  t.ok(ids.every(id => /^[0-9a-f]{24}$/.test(id)))
  t.equal(new Set(ids.map(id => id.slice(0, 12))).size, ids.length)
  t.equal(new Set(ids.map(id => id.slice(12))).size, ids.length)
  t.end()
})

t.test('a response that cannot be sent because of a bug is an internal error of its call, and is not charged', async t => {
  const { caller, call, refunds, memoryBudget, activeRequests, log } = await openServer(t, { upstream: 'no\nheader' })
  call('{"jsonrpc":"2.0","id":"a","method":"eth_getLogs"}')
  const [chunk] = (await once(caller, 'data')) as [Buffer]
  t.match(chunk.toString(), /^HTTP\/1.1 200 [^]*"id":"a","error":\{"code":-32603,"message":"internal error",/)
  t.same(refunds, ['internal'])
  t.match(log.lines, [{ level: 'error', fields: { network: 'net', stack: /ERR_INVALID_CHAR/ } }])
  await activeRequests.whenIdle()
  t.equal(memoryBudget.reservedBytes, 0)
})

t.test('the memory of long responses is free as soon as they have been sent, compressed ones too', async t => {
  const resultBytes = 6 * mib
  // Without the hint memory changes by 12 and 6 MB from one response to the next. A busy machine sends so slowly that V8 takes
  // some responses for long-lived.
  for (const [headers, last, maxChangeBytes] of [
    ['', '0}', 1.5 * resultBytes],
    ['Accept-Encoding: gzip\r\n', '\r\n0\r\n\r\n', 0.5 * resultBytes],
  ] as const) {
    const { caller, call, activeRequests } = await openServer(t, { hintGc: openGcHints(), resultBytes, sendTimeoutMs: 60_000 })
    let [end, onEnd] = ['', (): void => undefined]
    caller.on('data', (bytes: Buffer) => {
      end = (end + bytes.toString('latin1', Math.max(0, bytes.length - last.length))).slice(-last.length)
      if (end === last) onEnd()
    })
    const memories: number[] = []
    for (let i = 0; i < 16; i++) {
      end = ''
      call(undefined, headers)
      // Not in a loop that looks in each turn: its garbage would let V8 collect twice in a response, and take it for long-lived.
      await new Promise<void>(resolve => (onEnd = resolve))
      await activeRequests.whenIdle()
      await nextTurns()
      memories.push(process.memoryUsage().arrayBuffers)
    }
    const changes = memories.slice(1).map((memory, i) => Math.abs(memory - (memories[i] ?? 0)))
    const medianChange = changes.sort((one, other) => one - other)[7] ?? Infinity
    t.ok(medianChange < maxChangeBytes, `${headers}: ${memories}`)
  }
})

t.test('the memory of a long result is freed once, when the system reads it no more', async t => {
  const resultBytes = 2 * mib
  const openWithMemory = async (test: Test, options: ServerOptions = {}) => {
    const memories: ResultMemory[] = []
    const newResult = () => {
      const { result, memory } = createLongResult(options.resultBytes ?? resultBytes, String(memories.length % 10))
      memories.push(memory)
      return result
    }
    const server = await openServer(test, { newResult, sendTimeoutMs: 60_000, ...options })
    const whenFreed = (count: number) => waitUntil(() => memories.length >= count && memories.every(({ isFreed }) => isFreed))
    return { ...server, whenFreed }
  }
  const bodyText = (fill: string) => `{"jsonrpc":"2.0","id":1,"result":${fill.repeat(resultBytes)}}`
  const batch = `[${Array(3).fill('{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"}').join()}]`

  t.test('over one connection: single, pipelined and in a batch', async t => {
    const { caller, call, whenFreed } = await openWithMemory(t)
    const expected = [bodyText('0'), bodyText('1'), bodyText('2'), `[${['3', '4', '5'].map(bodyText).join()}]`].join('')
    let received = ''
    caller.on('data', (bytes: Buffer) => (received += bytes.toString('latin1')))
    const bodies = () => received.replace(/HTTP\/1\.1 200 OK\r\n[^]*?\r\n\r\n/g, '')
    call()
    await whenFreed(1)
    caller.write(callText() + callText() + callText('', batch))
    await whenFreed(6)
    await waitUntil(() => bodies().length >= expected.length)
    t.ok(bodies() === expected, 'byte for byte')
  })

  t.test('compressed, also of a caller who leaves in the middle', async t => {
    const { caller, call, openCaller, whenFreed } = await openWithMemory(t)
    caller.resume()
    call(undefined, 'Accept-Encoding: gzip\r\n')
    await whenFreed(1)
    const leaving = openCaller()
    leaving.write(callText('Accept-Encoding: gzip\r\n'))
    await once(leaving, 'data')
    leaving.destroy()
    await whenFreed(2)
  })

  t.test('of callers who leave in the middle, or before the answer', async t => {
    const { openCaller, whenFreed } = await openWithMemory(t)
    const leaving = openCaller()
    leaving.write(callText() + callText())
    await once(leaving, 'data')
    leaving.destroy()
    await whenFreed(2)
    let answer = (): void => undefined
    const late = await openWithMemory(t, { whenAnswered: new Promise(resolve => (answer = resolve)) })
    late.call()
    await waitUntil(() => late.startedCalls() === 1)
    late.caller.destroy()
    await late.whenLeft()
    answer()
    await late.whenFreed(1)
  })

  t.test('of a response that does not fit the memory budget, and of a batch that is too long', async t => {
    const small = await openWithMemory(t, { memoryBudget: new MemoryBudget(mib) })
    small.call()
    await small.whenFreed(1)
    const long = await openWithMemory(t, { resultBytes: 8 * mib })
    long.call(`[${Array(9).fill('{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"}').join()}]`)
    long.caller.resume()
    await long.whenFreed(9) // 64 MiB fit
  })
})

t.test('the outcome of a response is told to its calls, once', async t => {
  const openWithOutcomes = async (options: ServerOptions = {}) => {
    const outcomes: boolean[] = []
    const server = await openServer(t, { resultBytes: mib, onSettled: isDelivered => void outcomes.push(isDelivered), ...options })
    return { ...server, outcomes }
  }
  const batchOf = (count: number) => `[${Array(count).fill('{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"}').join()}]`

  t.test('delivered, once the system has taken all of it: short, long, compressed and in a batch', async t => {
    const short = await openWithOutcomes({ resultBytes: 9 })
    short.call()
    await waitUntil(() => short.outcomes.length === 1)
    const long = await openWithOutcomes()
    long.caller.resume()
    long.call()
    long.call(undefined, 'Accept-Encoding: gzip\r\n')
    long.call(batchOf(2))
    await waitUntil(() => long.outcomes.length === 4)
    t.same([short.outcomes, long.outcomes], [[true], [true, true, true, true]])
  })

  t.test('not delivered, where it does not fit the memory budget, and that of a notification', async t => {
    const { call, caller, outcomes, refunds } = await openWithOutcomes({ memoryBudget: new MemoryBudget(mib) })
    caller.resume()
    call()
    await waitUntil(() => outcomes.length === 1)
    t.same([outcomes, refunds], [[false], ['unavailable']])
    call('{"jsonrpc":"2.0","method":"eth_getLogs"}')
    await waitUntil(() => outcomes.length === 2)
    t.same(outcomes, [false, false])
  })

  t.test('not delivered, of those calls of a batch that do not fit it', async t => {
    const { call, caller, outcomes } = await openWithOutcomes({ resultBytes: 20 * mib })
    caller.resume()
    call(batchOf(4))
    await waitUntil(() => outcomes.length === 4)
    t.same(outcomes, [false, true, true, true], '64 MiB fit')
  })

  t.test('not delivered, where the caller leaves in the middle, behind another response, or before the answer', async t => {
    const { caller, outcomes, sentBytes } = await openWithOutcomes({ resultBytes: 20 * mib, sendTimeoutMs: 60_000 })
    caller.pause()
    caller.write(callText() + callText())
    await waitUntil(() => sentBytes() > 0)
    caller.destroy()
    await waitUntil(() => outcomes.length === 2)
    let answer = (): void => undefined
    const late = await openWithOutcomes({ whenAnswered: new Promise(resolve => (answer = resolve)) })
    late.call()
    await waitUntil(() => late.startedCalls() === 1)
    late.caller.destroy()
    await late.whenLeft()
    answer()
    await waitUntil(() => late.outcomes.length === 1)
    t.same([outcomes, late.outcomes], [[false, false], [false]])
  })
})

t.test(
  'a response that the gateway gives up in the middle, or behind another one, is not charged; where the caller leaves it is',
  async t => {
    const leaveUnread = async (isGivenUp: boolean) => {
      const results = [Buffer.alloc(20 * mib, '0'), Buffer.alloc(20 * mib, '0'), Buffer.from('0')]
      const newResult = () => results.shift() ?? Buffer.from('0')
      const { caller, refunds, sentBytes, activeRequests, startedCalls } = await openServer(t, { newResult, sendTimeoutMs: 60_000 })
      caller.pause()
      caller.write(callText().repeat(3))
      await waitUntil(() => sentBytes() > 0 && startedCalls() === 3)
      activeRequests.isGivenUp = isGivenUp
      caller.destroy()
      await activeRequests.whenIdle()
      return refunds
    }
    t.same(await leaveUnread(true), Array(3).fill('unavailable'))
    t.same(await leaveUnread(false), [])
  },
)

t.test('as many responses are compressed at once as there are threads', async t => {
  const compressedHead = /^Content-Encoding: gzip\r$/m
  const requestCompressed = async (caller: Socket) => {
    caller.write(callText('Accept-Encoding: gzip\r\n'))
    return compressedHead.test(await nextResponse(caller))
  }

  t.test('others are sent as they are', async t => {
    const { openCaller } = await openServer(t, {})
    const callers = Array.from({ length: maxConcurrentCompressions + 2 }, openCaller)
    const areCompressed = await Promise.all(callers.map(requestCompressed))
    t.equal(areCompressed.filter(Boolean).length, maxConcurrentCompressions)
  })

  t.test('callers who do not read keep no response of another from being compressed', async t => {
    const { openCaller } = await openServer(t, { result: randomBytes(defaultResultBytes), sendTimeoutMs: 60_000 })
    const openSlowCaller = async (): Promise<void> => {
      const caller = openCaller()
      const isCompressed = await requestCompressed(caller)
      caller.pause()
      if (isCompressed) return
      caller.destroy()
      await wait(20)
      return openSlowCaller()
    }
    for (let i = 0; i < 2 * maxConcurrentCompressions; i++) await openSlowCaller()
    t.pass('each response was compressed once the callers before had stopped reading')
  })

  t.test('where the share of an account has no room for it, its response is sent as it is', async t => {
    const { caller } = await openServer(t, { resultBytes: mib, memoryBudget: new MemoryBudget(2.8 * mib) })
    t.notOk(await requestCompressed(caller))
  })
})

t.test('compressed responses to requests of one connection are no reason for Node to warn of a leak', async t => {
  const warnings: Error[] = []
  const onWarning = (warning: Error): void => void warnings.push(warning)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  const { caller } = await openServer(t, { resultBytes: mib })
  let text = ''
  caller.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
  caller.write(callText('Accept-Encoding: gzip\r\n').repeat(3))
  await waitUntil(() => text.split('\r\n0\r\n\r\n').length === 4)
  t.same(warnings, [])
})

/** The collection runs in the turn after the end of a response. */
const nextTurns = async (): Promise<void> => {
  for (let i = 0; i < 3; i++) await new Promise(setImmediate)
}

t.test('requests in flight', async t => {
  const chunkedHead = 'POST /v3/key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
  const requestOverheadBytes = 16_384
  const statusOf = async (caller: Socket) => String((await once(caller, 'data'))[0]).slice(9, 12)

  t.test('reserve the bytes of a body while it arrives, in chunks of one byte no more than twice as much', async t => {
    const { caller, memoryBudget } = await openServer(t, { resultBytes: 10 })
    const body = `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["${'a'.repeat(900)}"]}`
    caller.write(chunkedHead)
    for (const byte of body) caller.write(`1\r\n${byte}\r\n`)
    await waitUntil(() => memoryBudget.reservedBytes >= requestOverheadBytes + body.length)
    t.ok(memoryBudget.reservedBytes <= requestOverheadBytes + 2 * body.length)
    caller.write('0\r\n\r\n')
    t.equal(await statusOf(caller), '200')
    await waitUntil(() => memoryBudget.reservedBytes === 0)
  })

  t.test('are refused when their body comes in thousands of chunks of one byte, which would keep all others waiting', async t => {
    const { caller, memoryBudget } = await openServer(t, { resultBytes: 10 })
    caller.write(`${chunkedHead}${'1\r\na\r\n'.repeat(2_000)}`)
    t.equal(await statusOf(caller), '400')
    const flood = Buffer.from('1\r\na\r\n'.repeat(10_000))
    const drained = once(caller, 'drain').then(() => 'drained')
    while (caller.write(flood)) {}
    t.equal(await Promise.race([drained, wait(100, 'full')]), 'full', 'nothing more is read from the connection')
    caller.destroy()
    await waitUntil(() => memoryBudget.reservedBytes === 0)
  })

  t.test('are refused before any of their body is read when there is no room for all of it', async t => {
    const { caller, memoryBudget } = await openServer(t, { memoryBudget: new MemoryBudget(mib) })
    caller.write('POST /v3/key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n')
    t.equal(await statusOf(caller), '503')
    caller.destroy()
    await waitUntil(() => memoryBudget.reservedBytes === 0)
  })

  t.test('are read no further while their account has used its share of the time', async t => {
    const { call, caller, memoryBudget, scheduler } = await openServer(t, { resultBytes: 10 })
    scheduler.hold()
    call(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["${'a'.repeat(900_000)}"]}`)
    await waitUntil(() => scheduler.waiting.length > 0)
    t.match(scheduler.waiting[0], { owner: '127.0.0.1' })
    const reservedBytes = () => memoryBudget.reservedBytes
    await wait(20)
    const held = reservedBytes()
    await wait(50)
    t.equal(reservedBytes(), held, 'no more is read')
    t.ok(held < 600_000, `${held} bytes`)
    scheduler.release()
    t.equal(await statusOf(caller), '200')
  })

  t.test('whose caller leaves before their turn are not handled', async t => {
    const { call, caller, whenLeft, scheduler, startedCalls } = await openServer(t, {})
    scheduler.hold()
    call()
    await waitUntil(() => scheduler.waiting.length > 0)
    caller.destroy()
    await whenLeft()
    scheduler.release()
    await nextTurns()
    t.equal(startedCalls(), 0)
  })

  t.test('release what they hold when their caller leaves in the middle of the body', async t => {
    const { caller, memoryBudget } = await openServer(t, {})
    caller.write(`${chunkedHead}3e8\r\n${'a'.repeat(1_000)}`)
    await waitUntil(() => memoryBudget.reservedBytes > requestOverheadBytes)
    caller.destroy()
    await waitUntil(() => memoryBudget.reservedBytes === 0)
  })

  t.test('are refused when the memory budget has no room: the request, its body, or its handling', async t => {
    for (const room of [1_000, requestOverheadBytes + 1_000, requestOverheadBytes + 2_100]) {
      const { call, caller, memoryBudget, startedCalls } = await openServer(t, { memoryBudget: new MemoryBudget(room) })
      call(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["${'a'.repeat(2_000)}"]}`)
      t.equal(await statusOf(caller), '503', String(room))
      await waitUntil(() => memoryBudget.reservedBytes === 0)
      t.equal(startedCalls(), 0)
    }
  })

  t.test('wait for their turn one at a time where they are pipelined, though one read brings hundreds, and refused ones too', async t => {
    const { caller, scheduler, memoryBudget } = await openServer(t, {})
    scheduler.hold()
    const refused = 'GET /v3/key HTTP/1.1\r\nHost: a\r\n\r\n'
    const count = 500
    caller.write(refused.repeat(count))
    let received = ''
    caller.on('data', chunk => (received += String(chunk)))
    await waitUntil(() => scheduler.waiting.length > 0 && received.includes('HTTP/1.1 405'))
    t.equal(scheduler.waiting.length, 1)
    t.ok(memoryBudget.reservedBytes < 100_000, `${memoryBudget.reservedBytes} bytes are reserved`)
    scheduler.release()
    await waitUntil(() => received.split('HTTP/1.1 405').length === count + 1)
    await waitUntil(() => memoryBudget.reservedBytes === 0)
  })

  t.test('are few on one connection, however many are pipelined; all are answered in the end', async t => {
    const { promise: whenAnswered, resolve: answer } = deferred()
    const { caller, call, startedCalls, memoryBudget } = await openServer(t, { resultBytes: 10, whenAnswered })
    const count = 10_000
    for (let i = 0; i < count; i += 1) call()
    await waitUntil(() => startedCalls() >= 64)
    for (let before = 0; startedCalls() > before; await wait(100)) before = startedCalls()
    t.equal(startedCalls(), 64, 'those behind them, which have been read with them, wait')
    answer()
    let received = ''
    caller.on('data', chunk => {
      received = (received + chunk.toString('latin1')).slice(-1_000_000)
    })
    await waitUntil(() => startedCalls() === count)
    await waitUntil(() => memoryBudget.reservedBytes === 0)
    t.match(received, /HTTP\/1.1 200 OK/)
  })
})

t.test('a caller that reads a few bytes now and then is disconnected, one that reads at the least speed is not', async t => {
  for (const [bytesPerCheck, isDisconnected] of [
    [10, true],
    [500, false],
  ] as const) {
    let sentBytes = 0
    // A connection to a caller whose speed is exact: the kernel takes 64 KiB and more at a time.
    const socket = {
      get bytesWritten() {
        return (sentBytes += bytesPerCheck)
      },
      writableLength: 0,
      _handle: { writeQueueSize: 0 },
    }
    const res = Object.assign(new EventEmitter(), { socket, destroy: () => void res.emit('close') })
    const log = new TestLog()
    let isClosed = false
    res.once('close', () => (isClosed = true))
    const clock = new TestClock()
    setSendTimeout({ clock, log, sendTimeoutMs: 200 }, res as unknown as ServerResponse, 'r-1') // all that it uses
    clock.advance(600)
    t.equal(isClosed, isDisconnected)
    t.equal(log.lines.length, isDisconnected ? 1 : 0)
    res.emit('close')
  }
})

t.test(
  'a plugin that refuses with 200, or throws, before the body has arrived closes the connection where the body may not come',
  async t => {
    const bug = (): never => {
      throw new Error('bug')
    }
    for (const [admit, code] of [[() => refuse('forbidden'), -32091] as const, [bug, -32603] as const]) {
      for (const header of ['Expect: 100-continue\r\nContent-Length: 9', 'Transfer-Encoding: chunked', 'Content-Length: 1000000']) {
        const { caller } = await openServer(t, { admit })
        caller.write(`POST /v3/key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${header}\r\n\r\n`)
        const [response] = (await once(caller, 'data')) as [Buffer]
        t.match(response.toString(), /^HTTP\/1.1 200 [^]*\r\nConnection: close\r\n/, header)
        t.match(response.toString(), `"code":${code}`)
      }
    }
    const { caller } = await openServer(t, { admit: () => refuse('forbidden') })
    caller.write('POST /v3/key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n')
    const [response] = (await once(caller, 'data')) as [Buffer]
    t.match(response.toString(), /^HTTP\/1.1 200 [^]*\r\nConnection: keep-alive\r\n/, 'a short body is waited for')
  },
)
