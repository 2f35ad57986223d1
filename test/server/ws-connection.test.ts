import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import * as ws from 'ws'
import { WebSocket, WebSocketServer } from 'ws'
import { serializeResponse } from '../../src/json-rpc/serialize-response.ts'
import type { ResultMemory } from '../../src/json/result-memory.ts'
import type { Reply } from '../../src/plugin/reply.ts'
import { ArrivingMessage } from '../../src/server/ws-memory.ts'
import { sentBytesOf } from '../../src/runtime/http-internals.ts'
import { WsConnection } from '../../src/server/ws-connection.ts'
import type { RoutedRequest } from '../../src/server/request-routing.ts'
import { ActiveRequests } from '../../src/server/rpc-services.ts'
import type { AccessLog } from '../../src/services/access-log.ts'
import { systemClock } from '../../src/services/clock.ts'
import type { Clock } from '../../src/services/clock.ts'
import { CallerMemory, MemoryBudget } from '../../src/services/memory-budget.ts'
import { createMessageParser } from '../../src/json-rpc/parse-message.ts'
import { deferred } from '../support/deferred.ts'
import { TestClock, TestLog, fakeAccessLog, fakeCharge, fakeResult, openTestAccessLog } from '../support/fakes.ts'
import { HeldScheduler } from '../support/held-scheduler.ts'
import { createLongResult } from '../support/long-result.ts'
import { passTimeBySpeed } from '../support/pass-time.ts'
import { waitUntil } from '../support/wait-until.ts'

// One real WebSocket, and a caller that reads as much as a test sets.

const mib = 1 << 20

interface OpenOptions {
  readonly memoryBudget?: MemoryBudget
  /** Of each call. */
  readonly result?: string
  /** No call is answered before. */
  readonly whenAnswered?: Promise<void>
  readonly accessLog?: AccessLog
  /** Counts the send timeout. */
  readonly clock?: Clock
}

const open = async (
  test: Test,
  sendTimeoutMs: number,
  {
    memoryBudget = new MemoryBudget(512 * mib),
    result = '0x1',
    whenAnswered = Promise.resolve(),
    accessLog = fakeAccessLog,
    clock = systemClock,
  }: OpenOptions = {},
) => {
  const server = http.createServer().listen(0, '127.0.0.1')
  const accept = new WebSocketServer({ noServer: true, perMessageDeflate: false, autoPong: false })
  const arrived = new Promise<{ socket: WebSocket; stream: Socket }>(resolve =>
    server.on('upgrade', (request, stream, head) =>
      accept.handleUpgrade(request, stream, head, socket => resolve({ socket, stream: request.socket })),
    ),
  )
  await once(server, 'listening')
  const caller = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, { maxPayload: 0 })
  const [{ socket, stream }] = await Promise.all([arrived, once(caller, 'open')])
  const [log, scheduler, calls] = [new TestLog(), new HeldScheduler(), { run: 0, aborted: 0 }]
  const parse = createMessageParser({ batch: 1, depth: 9 })
  const messageHandler = {
    parse,
    run: () => {
      calls.run += 1
      return whenAnswered.then(() => fakeResult(result))
    },
    limits: { batchReply: mib, batchConcurrency: 9, batchTimeout: 9000 },
    clock: new TestClock(),
    log,
    accessLog,
  }
  const routedRequest = {
    endpoint: { messageHandler },
    origin: {
      requestId: 'r-1',
      network: 'net',
      transport: 'websocket',
      ip: '127.0.0.1',
      state: {},
      abort: () => void (calls.aborted += 1),
    },
  } as unknown as RoutedRequest // all that it reads
  const activeRequests = new ActiveRequests()
  const connection = new WsConnection(socket, stream, routedRequest, {
    activeRequests,
    scheduler,
    clock,
    log,
    accessLog,
    memoryBudget,
    hintGc: () => undefined,
    sendTimeoutMs,
  })
  const closed = once(socket, 'close')
  test.teardown(() => {
    caller.terminate()
    socket.terminate()
    server.close()
  })
  caller.pause()
  const deliver = (size: number, reply: Reply = fakeResult('0x1'), id = '1') =>
    connection.sendResponse({
      id,
      status: 200,
      body: { chunks: [Buffer.alloc(size, 0x30)], byteLength: size },
      replies: [reply],
      retryAfter: undefined,
    })
  return { log, scheduler, calls, activeRequests, memoryBudget, socket, stream, caller, closed, deliver, connection }
}

/** The TCP socket of a caller: ws emits a message only when it is whole. */
const tcpSocketOf = (caller: WebSocket) => (caller as unknown as { _socket: Socket })._socket

/** The caller reads `bytes`, then nothing for `pause` ms, and so on. */
const readSlowly = (caller: WebSocket, bytes: number, pause: number) => {
  const tcpSocket = tcpSocketOf(caller)
  let readBytes = 0
  tcpSocket.on('data', read => {
    readBytes += read.length
    if (readBytes < bytes) return
    readBytes = 0
    tcpSocket.pause()
    setTimeout(() => tcpSocket.resume(), pause)
  })
  caller.resume()
}

/** The lengths of the next so many messages. */
const nextLengths = async (caller: WebSocket, count: number): Promise<readonly number[]> => {
  const found: number[] = []
  return new Promise(resolve =>
    caller.on('message', (message: Buffer) => {
      if (found.push(message.length) === count) resolve(found)
    }),
  )
}

t.test('each call over a WebSocket is a line of the access log, without a status', async t => {
  const { accessLog, lines } = openTestAccessLog(new TestClock())
  const { caller } = await open(t, 1_000, { accessLog })
  caller.resume()
  caller.send('{"jsonrpc":"2.0","id":1,"method":"eth_call"}')
  await once(caller, 'message')
  t.match(lines, [{ requestId: 'r-1', network: 'net', transport: 'websocket', method: 'eth_call', outcome: 'ok', durationMs: 0 }])
  t.notOk('status' in lines[0]!)
})

t.test('the memory of a long result is freed once, when the system reads it no more', async t => {
  const openWithMemory = async (test: Test, sendTimeoutMs = 60_000) => {
    const opened = await open(test, sendTimeoutMs)
    const memories: ResultMemory[] = []
    const send = (count: number) => {
      for (let i = 0; i < count; i++) {
        const { result, memory } = createLongResult(2 * mib, String(i))
        memories.push(memory)
        const body = serializeResponse('1', { ...fakeResult('0'), result } as Reply)
        opened.connection.sendResponse({ id: '1', status: 200, body, replies: [], retryAfter: undefined })
      }
    }
    const whenFreed = () => waitUntil(() => memories.every(({ isFreed }) => isFreed))
    return { ...opened, memories, send, whenFreed }
  }

  t.test('of responses that were read, byte for byte', async t => {
    const { caller, send, whenFreed } = await openWithMemory(t)
    const messages: string[] = []
    caller.on('message', (message: Buffer) => messages.push(message.toString('latin1')))
    caller.resume()
    send(4)
    await whenFreed()
    await waitUntil(() => messages.length === 4)
    t.ok(messages.every((text, i) => text === `{"jsonrpc":"2.0","id":1,"result":${String(i).repeat(2 * mib)}}`))
  })

  t.test('of a caller who leaves in the middle', async t => {
    const { caller, memories, send, whenFreed } = await openWithMemory(t)
    send(4)
    t.notOk(memories[0]?.isFreed)
    caller.terminate()
    await whenFreed()
  })

  t.test('of responses that are discarded while the system still reads the first of them: once the connection is closed', async t => {
    const { connection, memories, send, whenFreed, closed, memoryBudget, socket } = await openWithMemory(t)
    send(4)
    connection.abort()
    t.equal(memoryBudget.reservedBytes, 0)
    t.notOk(memories[0]?.isFreed)
    socket.terminate()
    await closed
    await whenFreed()
  })

  t.test('of responses that are not queued, or come after the close', async t => {
    const { caller, memories, send, whenFreed, connection, closed } = await openWithMemory(t)
    send(1)
    connection.close()
    send(1)
    t.ok(memories[1]?.isFreed)
    caller.resume()
    await closed
    send(1)
    await whenFreed()
  })
})

t.test('a caller who reads nothing', async t => {
  t.test('is disconnected after the send timeout when more than 8 MiB are queued', async t => {
    const { deliver, closed, log, memoryBudget } = await open(t, 100)
    deliver(21 * mib)
    t.equal(memoryBudget.reservedBytes, 21 * mib)
    await closed
    t.match(log.lines, [{ fields: { event: 'slow-client' } }])
    t.equal(memoryBudget.reservedBytes, 0)
  })

  t.test('gets no more long responses when 40 MiB are queued, and is disconnected at once when it goes on requesting them', async t => {
    const { deliver, closed, socket, memoryBudget } = await open(t, 60_000)
    deliver(21 * mib)
    for (let i = 0; i < 10; i++) deliver(21 * mib)
    t.equal(memoryBudget.reservedBytes, 21 * mib)
    t.equal(socket.readyState, WebSocket.OPEN)
    deliver(21 * mib)
    t.equal(socket.readyState, WebSocket.CLOSING)
    await closed
    t.equal(memoryBudget.reservedBytes, 0)
  })

  t.test('is disconnected though it goes on calling', async t => {
    const { deliver, closed, caller } = await open(t, 300)
    deliver(21 * mib)
    const calling = setInterval(() => caller.ping(), 20)
    await closed
    clearInterval(calling)
  })

  t.test('stays connected while fewer bytes are queued', async t => {
    const { deliver, socket } = await open(t, 50)
    deliver(7 * mib)
    await wait(300)
    t.equal(socket.readyState, WebSocket.OPEN)
  })

  t.test('is disconnected though fewer bytes are queued when it is to be closed', async t => {
    const { deliver, closed, connection, memoryBudget } = await open(t, 50)
    for (let i = 0; i < 8; i += 1) deliver(mib) // more than the system takes
    connection.close()
    await closed
    t.equal(memoryBudget.reservedBytes, 0)
  })

  t.test('is not read from while more than 8 MiB, or 200 responses, are queued behind the current response', async t => {
    const { deliver, socket, caller } = await open(t, 60_000)
    /** Backpressure is applied anew after each message. */
    const isPaused = async () => {
      socket.emit('message', Buffer.from('{"jsonrpc":"2.0","method":"eth_chainId"}'))
      await wait(0)
      return socket.isPaused
    }
    deliver(21 * mib)
    t.notOk(await isPaused(), 'so that pings are answered meanwhile')
    deliver(9 * mib)
    t.ok(await isPaused())
    const two = nextLengths(caller, 2)
    caller.resume()
    t.same(await two, [21 * mib, 9 * mib])
    t.notOk(socket.isPaused)
    caller.pause()
    deliver(21 * mib)
    for (let i = 0; i < 200; i += 1) deliver(10)
    t.ok(await isPaused())
  })

  t.test('has no more than a few hundred KiB in its socket buffer, whatever is queued', async t => {
    const { deliver, stream, memoryBudget } = await open(t, 60_000)
    for (let i = 0; i < 1_000; i += 1) deliver(10_000)
    deliver(21 * mib)
    for (let i = 0; i < 5; i += 1) {
      t.ok(stream.writableLength < 512 * 1024, `${stream.writableLength} bytes`)
      await wait(10)
    }
    t.ok(memoryBudget.reservedBytes >= 21 * mib, 'the short responses in the queue are reserved too')
    t.ok(memoryBudget.reservedBytes <= 21 * mib + 1_000 * 10_512)
  })

  t.test('and sends pings without end makes no memory grow, and gets a pong for the latest ping once it reads', async t => {
    const { caller, stream } = await open(t, 60_000)
    const count = 150_000
    // Masked with 0, and in one write: to write 150,000 frames takes a loaded machine most of the time that the test has.
    const pings = Array.from({ length: count }, (_, i) => `\x89\xfd\0\0\0\0${String(i + 1).padEnd(125)}`)
    tcpSocketOf(caller).write(pings.join(''), 'latin1')
    await waitUntil(() => stream.bytesRead >= count * (125 + 6))
    t.ok(stream.writableLength < 256 * 1024, `${stream.writableLength} bytes`)
    let latestPong = 0
    caller.on('pong', payload => {
      latestPong = Number(String(payload))
    })
    caller.resume()
    await waitUntil(() => latestPong === count)
  })

  t.test('is terminated after two pings without a pong', async t => {
    const { deliver, connection, closed } = await open(t, 60_000)
    deliver(7 * mib)
    const pinging = setInterval(() => connection.ping(), 20)
    await closed
    clearInterval(pinging)
  })
})

t.test('a caller who reads', async t => {
  t.test('gets responses of every length whole and in order, short ones behind long ones', async t => {
    const { deliver, caller, memoryBudget } = await open(t, 60_000)
    const sizes = [125, 126, 16_384, 16_385, 65_535, 65_536, 131_072, 131_073, 3 * mib + 1].flatMap(size => [size, 2, size - 1])
    const found = nextLengths(caller, sizes.length)
    for (const size of sizes) deliver(size)
    caller.resume()
    t.same(await found, sizes)
    await wait(0)
    t.equal(memoryBudget.reservedBytes, 0)
  })

  t.test('gets a batch chunk by chunk, nothing of it lost or twice', async t => {
    const { caller, connection } = await open(t, 60_000)
    const chunks = ['[', Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i % 95) + 32)), ',', Buffer.alloc(20_000, 'b'), ']']
    const whole = Buffer.concat(chunks.map(chunk => Buffer.from(chunk)))
    const message = once(caller, 'message')
    connection.sendResponse({
      id: 'null',
      status: 200,
      body: { chunks: chunks, byteLength: whole.length },
      replies: [fakeResult('[]')],
      retryAfter: undefined,
    })
    caller.resume()
    t.ok(((await message)[0] as Buffer).equals(whole))
  })

  t.test('gets several long responses at once, though much more than 8 MiB are queued for a time', async t => {
    const { deliver, caller, memoryBudget } = await open(t, 2_000)
    const found = nextLengths(caller, 6)
    caller.resume()
    for (let i = 0; i < 6; i += 1) deliver(6 * mib)
    t.same(
      await found,
      Array.from({ length: 6 }, () => 6 * mib),
    )
    await wait(0)
    t.equal(memoryBudget.reservedBytes, 0)
  })

  t.test('gets its pings answered between the frames of a long response', async t => {
    const { deliver, caller } = await open(t, 60_000)
    deliver(21 * mib)
    let isWhole = false
    caller.on('message', () => {
      isWhole = true
    })
    const pong = once(caller, 'pong')
    caller.ping()
    await wait(20)
    readSlowly(caller, mib, 10)
    await pong
    t.notOk(isWhole)
  })

  t.test('gets a pong for each of 60 pings at once', async t => {
    const { caller, stream } = await open(t, 60_000)
    const payloads = Array.from({ length: 60 }, (_, i) => String(i))
    const pongs: string[] = []
    const all = new Promise<void>(resolve =>
      caller.on('pong', payload => {
        if (pongs.push(String(payload)) === payloads.length) resolve()
      }),
    )
    stream.pause() // so that all pings are there at once
    for (const payload of payloads) caller.ping(payload)
    caller.resume()
    stream.resume()
    await all
    t.same(pongs, payloads)
  })

  t.test('is not terminated, though the pong to a ping is queued far behind', async t => {
    const { deliver, caller, connection, socket, stream, closed } = await open(t, 60_000)
    socket.removeAllListeners('pong')
    let pings = 0
    // Before the connection learns that its caller has read.
    stream.prependListener('drain', () => {
      pings += 1
      connection.ping()
    })
    deliver(21 * mib)
    const whole = once(caller, 'message')
    caller.resume()
    await Promise.race([whole, closed])
    t.equal(socket.readyState, WebSocket.OPEN)
    t.ok(pings > 2, `${pings} pings without a pong`)
  })

  t.test('is not disconnected for what it could not read while the process was stopped', async t => {
    const sendTimeoutMs = 300
    const { deliver, caller, log, closed, stream } = await open(t, sendTimeoutMs)
    const lengths = nextLengths(caller, 2)
    deliver(7 * mib)
    // Until the system takes nothing more.
    let waitingBytes = -1
    while (stream.writableLength !== waitingBytes) {
      waitingBytes = stream.writableLength
      await wait(10)
    }
    deliver(21 * mib)
    caller.resume()
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * sendTimeoutMs)
    await Promise.race([lengths, closed])
    t.same(log.lines, [])
  })

  t.test('gets all queued responses before the close', async t => {
    const { deliver, caller, connection } = await open(t, 60_000)
    const found = nextLengths(caller, 2)
    deliver(9 * mib)
    deliver(3)
    connection.close()
    deliver(4)
    caller.resume()
    const [code] = await once(caller, 'close')
    t.equal(code, 1001)
    t.same(await found, [9 * mib, 3])
  })

  t.test('gets what fits of the reason of a close, whole characters', async t => {
    for (const isQueued of [true, false]) {
      const { deliver, caller, connection } = await open(t, 60_000)
      if (isQueued) deliver(9 * mib)
      connection.close(4000, 'é'.repeat(100))
      caller.resume()
      const [code, reason] = await once(caller, 'close')
      t.same([code, String(reason)], [4000, 'é'.repeat(61)])
    }
  })

  t.test('stays connected after a close with a code that cannot be sent, which is an error', async t => {
    const { deliver, caller, connection } = await open(t, 60_000)
    const found = nextLengths(caller, 2)
    deliver(9 * mib)
    for (const code of [0, 999, 1005, 1006, 1015, 2999, 5000, 1000.5, Number.NaN]) t.throws(() => connection.close(code, ''), RangeError)
    deliver(3)
    caller.resume()
    t.same(await found, [9 * mib, 3])
  })

  t.test('and closes in the middle of a response gets no more, and its memory is released', async t => {
    const { deliver, caller, closed, memoryBudget, stream } = await open(t, 60_000)
    deliver(21 * mib)
    deliver(7 * mib)
    caller.close(1000)
    await wait(20) // the close arrives before anything is read
    caller.resume()
    t.equal((await once(caller, 'close'))[0], 1000)
    await closed
    t.ok(stream.bytesWritten < 21 * mib, `${stream.bytesWritten} bytes`)
    t.equal(memoryBudget.reservedBytes, 0)
  })
})

t.test('the outcome of a response is told once', async t => {
  const openWithOutcomes = async () => {
    const outcomes: string[] = []
    const opened = await open(t, 60_000)
    const deliver = (name: string, size: number) =>
      opened.deliver(size, { ...fakeResult('0x1'), onSettled: isDelivered => void outcomes.push(`${name} ${isDelivered}`) })
    return { ...opened, deliver, outcomes }
  }

  t.test('delivered, once the system has taken all of it', async t => {
    const { deliver, caller, outcomes } = await openWithOutcomes()
    for (const [name, size] of Object.entries({ short: 10, frame: 16_000, long: 20 * mib, last: 3 })) deliver(name, size)
    await waitUntil(() => outcomes.length === 2)
    t.same(outcomes, ['short true', 'frame true'])
    caller.resume()
    await waitUntil(() => outcomes.length === 4)
    t.same(outcomes, ['short true', 'frame true', 'long true', 'last true'])
  })

  t.test('not delivered, where it does not fit: the caller gets an error', async t => {
    const { deliver, caller, outcomes, memoryBudget } = await openWithOutcomes()
    memoryBudget.reserve(memoryBudget.freeBytes)
    deliver('long', 20_000)
    t.same(outcomes, ['long false'])
    caller.resume()
    t.match(JSON.parse(String((await once(caller, 'message'))[0])), { id: 1, error: { code: -32002 } })
  })

  t.test('not delivered, where the caller leaves, or has left', async t => {
    const { deliver, caller, outcomes, closed, connection } = await openWithOutcomes()
    deliver('begun', 20 * mib)
    deliver('queued', 3)
    connection.close(1001)
    deliver('behind the close', 20 * mib)
    caller.terminate()
    await closed
    deliver('late', 3)
    t.same(outcomes, ['behind the close false', 'begun false', 'queued false', 'late false'])
  })
})

t.test('a response that the gateway gives up, begun or queued, is not charged; where the caller leaves it is', async t => {
  const leaveUnread = async (isGivenUp: boolean) => {
    const { activeRequests, closed, connection, ...opened } = await open(t, 60_000)
    const refunds: string[] = []
    const deliver = (name: string, size: number) =>
      opened.deliver(size, { ...fakeResult('0x1'), charge: fakeCharge(outcome => void refunds.push(`${name} ${outcome}`)) })
    deliver('taken', 3)
    deliver('begun', 20 * mib)
    deliver('queued', 3)
    connection.close(1001)
    activeRequests.isGivenUp = isGivenUp
    deliver('behind the close', 3)
    connection.terminate()
    await closed
    return refunds
  }
  t.same(await leaveUnread(true), ['behind the close unavailable', 'begun unavailable', 'queued unavailable'])
  t.same(await leaveUnread(false), [])
})

t.test('a slow reader gets the longest response, though it takes longer than the send timeout', async t => {
  const [sendTimeoutMs, clock] = [1_000, new TestClock()]
  const { deliver, caller, memoryBudget, stream } = await open(t, sendTimeoutMs, { clock })
  const whole = once(caller, 'message')
  deliver(32 * mib)
  const begunAt = clock.monotonic()
  tcpSocketOf(caller).on(
    'data',
    passTimeBySpeed(clock, sendTimeoutMs, () => sentBytesOf(stream)),
  )
  caller.resume()
  const [message] = (await whole) as [Buffer]
  t.equal(message.length, 32 * mib)
  t.ok(clock.monotonic() - begunAt > 2 * sendTimeoutMs)
  t.equal(memoryBudget.reservedBytes, 0)
})

t.test('a caller who does not read events is disconnected when one does not fit, as it would miss that', async t => {
  const { connection, caller } = await open(t, 60_000, { memoryBudget: new MemoryBudget(mib) })
  while (connection.push(['x'.repeat(16_000)]));
  t.notOk(connection.push(['x']), 'nothing follows the one that is missing')
  caller.resume()
  const [code, reason] = await once(caller, 'close')
  t.same([code, String(reason)], [1013, 'too many messages are waiting to be read'])
})

t.test('while 200 messages are handled, no more are read', async t => {
  const { promise: whenAnswered, resolve: answer } = deferred()
  const { caller, calls, socket } = await open(t, 60_000, { whenAnswered })
  const count = 2_000
  for (let i = 0; i < count; i += 1) caller.send(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["${'a'.repeat(2_000)}"]}`)
  await waitUntil(() => calls.run >= 200)
  for (let before = 0; calls.run > before; await wait(50)) before = calls.run
  t.ok(socket.isPaused && calls.run < 300, `${calls.run}, with those that one read has brought`)
  answer()
  await waitUntil(() => calls.run === count)
})

t.test('a caller that requests more at once than may be queued gets what fits, and an error without a charge for the rest', async t => {
  const { deliver, caller, memoryBudget } = await open(t, 5_000)
  const refunds: string[] = []
  const charged = { ...fakeResult('0x1'), charge: fakeCharge(outcome => void refunds.push(outcome)) }
  for (let i = 0; i < 5; i++) deliver(10 * mib, charged, `"call-${i}"`)
  t.same(refunds, ['unavailable'])
  const messages: Buffer[] = []
  const five = new Promise<void>(resolve =>
    caller.on('message', (message: Buffer) => {
      if (messages.push(message) === 5) resolve()
    }),
  )
  caller.resume()
  await five
  t.same(
    messages.map(({ length }) => length).slice(0, 4),
    Array.from({ length: 4 }, () => 10 * mib),
  )
  t.same(JSON.parse(String(messages[4])), {
    jsonrpc: '2.0',
    id: 'call-4',
    error: { code: -32002, message: 'too many bytes are in flight; retry later' },
  })
  t.equal(memoryBudget.reservedBytes, 0)
  deliver(10 * mib)
  const [next] = (await once(caller, 'message')) as [Buffer]
  t.equal(next.length, 10 * mib)
})

t.test(
  'the queued bytes of all callers are bounded; a call above the bound gets an error, a batch close 1013, and neither is charged',
  async t => {
    const memoryBudget = new MemoryBudget(10 * mib)
    const [one, other] = [await open(t, 60_000, { memoryBudget }), await open(t, 60_000, { memoryBudget })]
    one.deliver(9 * mib)
    const refunds: string[] = []
    const broken = await open(t, 60_000, { memoryBudget })
    broken.deliver(2 * mib, {
      ...fakeResult('0x1'),
      charge: fakeCharge(() => {
        throw new Error('no')
      }),
    })
    t.match(
      broken.log.lines,
      [{ level: 'error', fields: { err: { message: 'no' } } }],
      'a plugin whose refund throws is logged, and nothing else fails',
    )
    other.deliver(2 * mib, { ...fakeResult('0x1'), charge: fakeCharge(outcome => void refunds.push(outcome)) })
    t.same(refunds, ['unavailable'])
    other.caller.resume()
    t.match(JSON.parse(String((await once(other.caller, 'message'))[0])), { id: 1, error: { code: -32002 } })
    other.deliver(2 * mib, fakeResult('0x1'), 'null')
    t.equal((await once(other.caller, 'close'))[0], 1013)
    one.socket.terminate()
    await one.closed
    t.equal(memoryBudget.reservedBytes, 0)
  },
)

/** What ws reads frames with; its types lack it, and what it holds. */
interface WsReceiver extends Writable {
  readonly _buffers: readonly Buffer[]
  readonly _fragments: readonly Buffer[]
}
const { Receiver } = ws as unknown as { readonly Receiver: new (options: object) => WsReceiver }

/** Chunks as they arrive, for the reservations and for ws itself. */
const openReceiver = () => {
  const budget = new MemoryBudget(512 * mib)
  const arriving = new ArrivingMessage(new CallerMemory(budget, 'a'))
  const receiver = new Receiver({ isServer: true, skipUTF8Validation: true })
  for (const event of ['message', 'ping', 'pong']) receiver.on(event, () => arriving.release())
  const chunks = new Set<ArrayBufferLike>()
  const push = (bytes: Uint8Array): void => {
    const chunk = Buffer.from(new Uint8Array(bytes).buffer)
    chunks.add(chunk.buffer)
    arriving.push(chunk)
    receiver.write(chunk)
  }
  /** The bytes of the chunks of which ws holds a part, and of its copies. */
  const heldBytes = (): number => {
    const parts = [...receiver._buffers, ...receiver._fragments]
    const held = new Set(parts.map(part => (chunks.has(part.buffer) ? part.buffer : part)))
    return [...held].reduce((sum, { byteLength }) => sum + byteLength, 0)
  }
  return { budget, receiver, push, heldBytes }
}

const maskedFrame = (firstByte: number, payload: Uint8Array): Buffer => {
  const { length } = payload
  const header =
    length < 126
      ? [length]
      : length < 65_536
        ? [126, length >> 8, length & 255]
        : [127, 0, 0, 0, 0, 0, length >> 16, (length >> 8) & 255, length & 255]
  return Buffer.concat([Buffer.from([firstByte, 0x80 | header[0]!, ...header.slice(1), 0, 0, 0, 0]), payload])
}

/** Up to here what has arrived of a message is not reserved. */
const minReservedBytes = 4_096

t.test('the bytes of frames that are reserved are those that ws holds, however messages, pings and chunks are cut', async t => {
  const payload = fc.oneof(fc.constantFrom(0, 1, 125, 126, 5_000, 65_535, 65_536), fc.nat(2_000))
  const message = fc.array(fc.record({ payload, pings: fc.array(fc.nat(125), { maxLength: 3 }) }), { minLength: 1, maxLength: 5 })
  const cuts = fc.array(fc.oneof(fc.nat(20), fc.nat(70_000)), { minLength: 1, maxLength: 40 })
  const property = fc.property(fc.array(message, { minLength: 1, maxLength: 4 }), cuts, (messages, cutLengths) => {
    const frames = messages.flatMap(fragments =>
      fragments.flatMap(({ payload: length, pings }, i) => [
        ...pings.map(pingLength => maskedFrame(0x89, Buffer.alloc(pingLength))),
        maskedFrame((i === 0 ? 0x01 : 0x00) | (i === fragments.length - 1 ? 0x80 : 0), Buffer.alloc(length)),
      ]),
    )
    const { budget, receiver, push, heldBytes } = openReceiver()
    let messageCount = 0
    receiver.on('message', () => (messageCount += 1))
    const bytes = Buffer.concat(frames)
    for (let at = 0, i = 0; at < bytes.length; i += 1) {
      const end = at + 1 + (cutLengths[i] ?? bytes.length)
      push(bytes.subarray(at, end))
      if (heldBytes() > minReservedBytes && budget.reservedBytes < heldBytes()) return false
      at = end
    }
    return messageCount === messages.length && heldBytes() === 0 && budget.reservedBytes === 0
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 200 }))

  t.test('so that pings without a message keep no chunk but the last two reserved', async t => {
    const { budget, push, heldBytes } = openReceiver()
    const pings = Buffer.concat(Array.from({ length: 5_000 }, () => maskedFrame(0x89, Buffer.alloc(125))))
    let mostBytes = 0
    for (let at = 0; at < pings.length; at += 10_000) {
      push(pings.subarray(at, at + 10_000))
      mostBytes = Math.max(mostBytes, budget.reservedBytes)
      t.ok(heldBytes() <= 10_000)
    }
    t.ok(mostBytes <= 20_000, `${mostBytes} bytes`)
  })
})

t.test('messages that arrive', async t => {
  const reserved = async (budget: MemoryBudget, bytes: number) => waitUntil(() => budget.reservedBytes >= bytes)

  t.test('reserve their bytes until they are complete, and then until they are answered', async t => {
    const { caller, memoryBudget } = await open(t, 60_000)
    caller.resume()
    caller.send(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["${'a'.repeat(200_000)}`, { fin: false })
    await reserved(memoryBudget, 200_000)
    t.ok(memoryBudget.reservedBytes < 210_000)
    caller.send('"]}', { fin: true })
    t.match(JSON.parse(String((await once(caller, 'message'))[0])), { id: 1, result: '0x1' })
    await waitUntil(() => memoryBudget.reservedBytes === 0)
  })

  t.test('and are never completed hold no more than fits, and release it with the connection', async t => {
    const memoryBudget = new MemoryBudget(mib)
    const callers = await Promise.all(Array.from({ length: 8 }, () => open(t, 60_000, { memoryBudget })))
    const closed = callers.map(({ caller }) => once(caller, 'close'))
    for (const { caller } of callers) caller.resume()
    for (const { caller } of callers) caller.send(Buffer.alloc(200_000), { fin: false })
    await Promise.race(closed)
    t.ok(memoryBudget.reservedBytes <= mib)
    for (const { caller } of callers) caller.terminate()
    await waitUntil(() => memoryBudget.reservedBytes === 0)
  })

  t.test('reserve what their frames keep in memory: the chunks that they came in, and what is needed for each of them', async t => {
    const { caller, memoryBudget } = await open(t, 60_000)
    const tcpSocket = tcpSocketOf(caller)
    const frame = (firstByte: number, payload: string) => maskedFrame(firstByte, Buffer.from(payload))
    caller.resume()
    tcpSocket.write(Buffer.concat([frame(0x01, ' '), ...Array.from({ length: 999 }, () => frame(0x00, ' '))]))
    await reserved(memoryBudget, 7_000 + 1_000 * 110)
    t.ok(memoryBudget.reservedBytes < 140_000)
    const pings = Array.from({ length: 100 }, () => frame(0x89, 'x'.repeat(125)))
    for (let i = 0; i < 20; i += 1) {
      tcpSocket.write(Buffer.concat([...pings, frame(0x00, ' '), ...pings]))
      await once(caller, 'pong')
    }
    await reserved(memoryBudget, 20 * 200 * 131)
    tcpSocket.write(frame(0x80, '{"jsonrpc":"2.0","id":1,"method":"eth_call"}'))
    t.match(JSON.parse(String((await once(caller, 'message'))[0])), { id: 1, result: '0x1' })
    await waitUntil(() => memoryBudget.reservedBytes === 0)
    tcpSocket.write(Buffer.concat([...pings, ...pings, Buffer.of(0x89)]))
    await reserved(memoryBudget, 200 * 131)
    tcpSocket.write(Buffer.of(0x80, 0, 0, 0, 0))
    await waitUntil(() => memoryBudget.reservedBytes === 0)
  })

  t.test('get an error with the id of each call when there is no room to handle them; long ones close the connection', async t => {
    const { caller, memoryBudget } = await open(t, 60_000, { memoryBudget: new MemoryBudget(30_000) })
    caller.resume()
    t.ok(memoryBudget.reserve(25_000))
    caller.send('{"jsonrpc":"2.0","id":18446744073709551616,"method":"eth_call"}')
    t.match(String((await once(caller, 'message'))[0]), /"id":18446744073709551616,"error":\{"code":-32002,"message":"too many bytes/)
    memoryBudget.release(25_000)
    caller.send('{"jsonrpc":"2.0","id":2,"method":"eth_call"}')
    t.match(JSON.parse(String((await once(caller, 'message'))[0])), { id: 2, result: '0x1' })
    caller.send(`"${'a'.repeat(17_000)}"`)
    t.equal((await once(caller, 'close'))[0], 1013)
  })

  t.test('of a caller who never reads are read no further once no more fits', async t => {
    const { caller, memoryBudget, stream } = await open(t, 60_000, {
      memoryBudget: new MemoryBudget(mib),
      result: `0x${'a'.repeat(10_000)}`,
    })
    const message = '{"jsonrpc":"2.0","id":1,"method":"eth_call"}'
    const flood = setInterval(() => {
      for (let i = 0; i < 100 && tcpSocketOf(caller).writableLength < mib; i += 1) caller.send(message)
    })
    t.teardown(() => clearInterval(flood))
    let mostBytes = 0
    await waitUntil(() => {
      mostBytes = Math.max(mostBytes, stream.writableLength)
      // Its connection may be closed soon after it was paused.
      return stream.isPaused() || stream.destroyed
    })
    t.ok(memoryBudget.reservedBytes <= mib)
    t.ok(mostBytes <= mib, `${mostBytes} bytes`)
  })
})

t.test('while the account of a caller has used its share of the time', async t => {
  const message = '{"jsonrpc":"2.0","id":1,"method":"eth_call"}'
  const openHeld = async (test: Test, memoryBudget = new MemoryBudget(512 * mib)) => {
    const opened = await open(test, 60_000, { memoryBudget })
    opened.caller.resume()
    opened.scheduler.hold()
    return opened
  }
  /** In one write. */
  const sendMany = (caller: WebSocket, count: number, send: () => void): void => {
    tcpSocketOf(caller).cork()
    for (let i = 0; i < count; i += 1) send()
    tcpSocketOf(caller).uncork()
  }

  t.test('its messages wait, nothing more is read, and all are answered in its turn', async t => {
    const { caller, socket, scheduler, calls } = await openHeld(t)
    sendMany(caller, 20, () => caller.send(message))
    await waitUntil(() => scheduler.waiting.length === 20)
    t.equal(calls.run, 0)
    t.ok(socket.isPaused)
    const answered = nextLengths(caller, 20)
    scheduler.release()
    await answered
    await waitUntil(() => !socket.isPaused)
  })

  t.test('messages of a caller who leaves are not handled, and its calls are canceled in its turn', async t => {
    const { caller, closed, scheduler, calls, memoryBudget, socket } = await openHeld(t)
    caller.send(message)
    await waitUntil(() => scheduler.waiting.length === 1)
    socket.terminate()
    await closed
    t.match(scheduler.waiting[1], { units: 1 })
    t.equal(calls.aborted, 0)
    scheduler.release()
    await waitUntil(() => calls.aborted === 1 && memoryBudget.reservedBytes === 0)
    t.equal(calls.run, 0)
  })

  t.test('messages for which there is no room are refused at once, and nothing more is read', async t => {
    const { caller, scheduler, socket, calls } = await openHeld(t, new MemoryBudget(200_000))
    sendMany(caller, 300, () => caller.send(message))
    await nextLengths(caller, 250)
    t.equal(calls.run, 0, 'those for which there is room wait')
    t.ok(socket.isPaused)
    scheduler.release()
    await waitUntil(() => calls.run > 0 && !socket.isPaused)
  })

  t.test('none of the messages of a chunk that does not fit is handled or refused: the connection is closed', async t => {
    const { caller, closed, calls, scheduler } = await openHeld(t, new MemoryBudget(1_000))
    scheduler.release()
    let messageCount = 0
    caller.on('message', () => {
      messageCount += 1
    })
    sendMany(caller, 300, () => caller.send(message))
    await closed
    t.same([calls.run, messageCount], [0, 0])
  })

  t.test('more than 1,024 messages in one turn for which there is no room close the connection', async t => {
    const { caller, closed, scheduler, socket } = await openHeld(t, new MemoryBudget(200_000))
    sendMany(caller, 1_500, () => caller.send('{}'))
    await waitUntil(() => socket.readyState !== socket.OPEN)
    scheduler.release()
    t.equal((await closed)[0], 1013)
  })

  t.test('parts of a message that is not complete wait too: each 64 KiB count as a call', async t => {
    const { caller, socket, stream, scheduler } = await openHeld(t)
    const isIn = (units: number) => scheduler.waiting.reduce((sum, waiting) => sum + waiting.units, 0) === units
    caller.send(Buffer.alloc(60_000, '"'), { fin: false, binary: false })
    await waitUntil(() => stream.bytesRead >= 60_000)
    t.ok(isIn(0))
    t.notOk(socket.isPaused)
    caller.send(Buffer.alloc(80_000, '"'), { fin: false, binary: false })
    await waitUntil(() => socket.isPaused && isIn(1))
    scheduler.release()
    await waitUntil(() => !socket.isPaused)
  })

  t.test('thousands of messages that come after the close wait too, though they are ignored', async t => {
    const { caller, closed, connection, socket, scheduler, calls } = await openHeld(t)
    tcpSocketOf(caller).pause() // it does not see the close, and goes on
    connection.close(1013, 'closed')
    sendMany(caller, 31, () => caller.send(message))
    caller.ping()
    await waitUntil(() => socket.isPaused && scheduler.waiting.length === 1)
    scheduler.release()
    await waitUntil(() => !socket.isPaused)
    tcpSocketOf(caller).resume()
    t.equal((await closed)[0], 1013)
    t.equal(calls.run, 0)
  })

  t.test('thousands of pings wait too', async t => {
    const { caller, socket, scheduler } = await openHeld(t)
    sendMany(caller, 31, () => caller.ping())
    caller.send(message)
    await waitUntil(() => scheduler.waiting.length === 1)
    scheduler.release()
    await nextLengths(caller, 1)
    scheduler.hold()
    caller.ping()
    await waitUntil(() => socket.isPaused && scheduler.waiting.length === 1)
    scheduler.release()
  })
})
