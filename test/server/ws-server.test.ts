import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { refuse } from '../../src/plugin/reply.ts'
import type { Call, Signal } from '../../src/plugin/call.ts'
import type { Failure } from '../../src/plugin/reply.ts'
import { createClientAddressReader } from '../../src/server/client-address.ts'
import { ReadPacing } from '../../src/server/read-pacing.ts'
import { createRpcApp } from '../../src/server/rpc-app.ts'
import { createRpcServer } from '../../src/server/http-server.ts'
import { ResponseCompressor } from '../../src/server/response-compressor.ts'
import { ActiveRequests } from '../../src/server/rpc-services.ts'
import type { RpcServices } from '../../src/server/rpc-services.ts'
import { WsServer } from '../../src/server/ws-server.ts'
import { MemoryBudget } from '../../src/services/memory-budget.ts'
import { createMessageParser } from '../../src/json-rpc/parse-message.ts'
import { TestClock, TestLog, fakeResult, fakeAccessLog } from '../support/fakes.ts'
import { HeldScheduler } from '../support/held-scheduler.ts'
import { waitUntil } from '../support/wait-until.ts'

// The WebSocket listener, in front of a network with responses of a length that each test sets.

const mib = 1 << 20

interface ScriptedNetwork {
  /** Length of each result. */
  resultBytes: number
  /** What `admit` returns for every key, and how often it was called. */
  refusal: Failure | Promise<Failure> | undefined
  admitCount: number
  /** The signals of all calls so far. */
  readonly signals: Signal[]
}

const openServer = async (test: Test) => {
  const [clock, log, activeRequests, memoryBudget] = [new TestClock(), new TestLog(), new ActiveRequests(), new MemoryBudget(512 * mib)]
  const scheduler = new HeldScheduler()
  const network: ScriptedNetwork = { resultBytes: 21 * mib, refusal: undefined, admitCount: 0, signals: [] }
  const limits = {
    body: 1_000,
    depth: 9,
    batch: 9,
    batchReply: 64 * mib,
    connections: 100,
    batchConcurrency: 9,
    batchTimeout: 9000,
    inFlight: 512 * mib,
  }
  const endpoint = {
    name: 'net',
    admit: () => {
      network.admitCount += 1
      return network.refusal
    },
    messageHandler: {
      clock,
      parse: createMessageParser(limits),
      run: ({ origin }: Call) => {
        network.signals.push(origin.signal)
        return Promise.resolve({ ...fakeResult('0'), result: Buffer.alloc(network.resultBytes, '0') })
      },
      limits,
      log,
      accessLog: fakeAccessLog,
    },
  }
  const services: RpcServices = {
    endpointByHost: new Map([['127.0.0.1', endpoint]]),
    readClientAddress: createClientAddressReader([]),
    limits,
    log,
    clock,
    accessLog: fakeAccessLog,
    activeRequests,
    scheduler,
    readPacing: new ReadPacing(scheduler, ({ remoteAddress }) => remoteAddress),
    memoryBudget,
    hintGc: () => undefined,
    sendSingleWrite: () => false,
    compressor: new ResponseCompressor(),
    httpDate: () => '',
    countResponse: () => undefined,
  }
  const wsServer = new WsServer(services, clock)
  const server = createRpcServer(services, createRpcApp(services, wsServer).listener()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  wsServer.start()
  const upgrades: WeakRef<object>[] = []
  server.on('upgrade', request => upgrades.push(new WeakRef(request)))
  test.teardown(() => {
    wsServer.terminate()
    server.close()
  })
  const connect = async (key: string) => {
    const caller = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/ws/v3/${key}`, { maxPayload: 0 })
    const messages: string[] = []
    caller.on('message', message => messages.push(String(message)))
    await once(caller, 'open')
    const closed = once(caller, 'close').then(([code]) => code as number)
    return { caller, messages, closed, call: () => caller.send('{"jsonrpc":"2.0","id":1,"method":"eth_call"}') }
  }
  return { clock, network, memoryBudget, activeRequests, scheduler, wsServer, upgrades, connect }
}

t.test('while the gateway is to stop, WebSockets close with 1001 one after another, the oldest first', async t => {
  const { clock, wsServer, connect } = await openServer(t)
  const callers = [await connect('1'), await connect('2'), await connect('3'), await connect('4')]
  const isClosed: boolean[] = []
  callers.forEach(({ closed }, i) => void closed.then(code => (isClosed[i] = code === 1001)))
  const done = wsServer.closeGradually(1000)
  for (const count of [1, 2, 3]) {
    clock.advance(250)
    await waitUntil(() => isClosed.length === count)
    t.same(isClosed, Array(count).fill(true))
  }
  const late = await connect('5')
  clock.advance(250)
  await done
  await waitUntil(() => isClosed.length === 4)
  t.equal(late.caller.readyState, WebSocket.OPEN)
})

t.test('a process that is held up beyond the grace closes the remaining WebSockets, and goes on', async t => {
  const { clock, wsServer, connect } = await openServer(t)
  const callers = [await connect('1'), await connect('2')]
  const done = wsServer.closeGradually(1000)
  clock.stall(3000)
  await done
  for (const { closed } of callers) t.equal(await closed, 1001)
})

t.test('an upgrade waits for its turn, as the first messages are read with it', async t => {
  const { scheduler, wsServer, connect } = await openServer(t)
  scheduler.hold()
  const connected = connect('one')
  await waitUntil(() => scheduler.waiting.length > 0)
  t.equal(wsServer.count, 0)
  scheduler.release()
  await connected
  t.equal(wsServer.count, 1)
})

t.test('an open WebSocket does not keep the request of its upgrade, of 1 kB', async t => {
  const { upgrades, network, wsServer, connect } = await openServer(t)
  network.resultBytes = 1
  for (const key of ['1', '2', '3', '4', '5']) {
    const { call, caller } = await connect(key)
    call()
    await once(caller, 'message')
  }
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void // V8's, as the flag describes it
  // Node and ws may keep the last one for a moment.
  await waitUntil(() => {
    collect()
    return upgrades.filter(request => request.deref() !== undefined).length <= 1
  })
  t.equal(upgrades.length, 5)
  t.equal(wsServer.count, 5)
})

for (const isStoreAsync of [false, true])
  t.test(
    `the keys of silent WebSockets are checked again and again, once per key, in a store that answers ${isStoreAsync ? 'later' : 'at once'}; a WebSocket with a revoked key gets an error and close 1008`,
    async t => {
      const { clock, network, wsServer, connect } = await openServer(t)
      const callers = [await connect('one'), await connect('one'), await connect('other')]
      const answer = (failure: Failure) => (network.refusal = isStoreAsync ? Promise.resolve(failure) : failure)
      network.admitCount = 0
      clock.advance(250)
      t.equal(network.admitCount, 2)
      answer(refuse('unavailable'))
      clock.advance(250)
      await new Promise(setImmediate)
      t.equal(network.admitCount, 4)
      t.ok(
        callers.every(({ caller }) => caller.readyState === WebSocket.OPEN),
        'a key that cannot be checked closes nothing',
      )
      callers[2]?.caller.close()
      await waitUntil(() => wsServer.count === 2)
      clock.advance(250)
      t.equal(network.admitCount, 5, 'a key without WebSockets is checked no longer')
      answer(refuse('key'))
      clock.advance(250)
      t.same(await Promise.all(callers.map(({ closed }) => closed)), [1008, 1008, 1005])
      t.match(
        callers.map(({ messages }) => messages.map(text => JSON.parse(text))),
        [[{ id: null, error: { code: -32090 } }], [{ id: null, error: { code: -32090 } }], []],
      )
    },
  )

/** A caller with a response of 21 MiB under way, of which it reads nothing yet. */
const openWithPendingResponse = async (test: Test) => {
  const server = await openServer(test)
  const caller = await server.connect('one')
  caller.caller.pause()
  caller.call()
  await waitUntil(() => server.memoryBudget.reservedBytes > 0)
  return { ...server, ...caller }
}

t.test('while a response is under way', async t => {
  for (const [what, send, code, error] of [
    ['a message over the limit', 'x'.repeat(1_001), 1009, -32600],
    ['text that is not UTF-8', Buffer.from([0xff]), 1007, -32700],
  ] as const) {
    t.test(`${what} is refused behind it, and then close ${code}`, async t => {
      const { caller, messages, closed, memoryBudget } = await openWithPendingResponse(t)
      caller.send(send, { binary: false })
      caller.resume()
      t.equal(await closed, code)
      t.equal(messages[0]?.length, 21 * mib + '{"jsonrpc":"2.0","id":1,"result":}'.length)
      t.match(
        messages.slice(1).map(text => JSON.parse(text)),
        [{ id: null, error: { code: error } }],
      )
      t.equal(memoryBudget.reservedBytes, 0)
    })
  }

  t.test('a close frame whose reason is not UTF-8 gets 1007, and neither an error nor the response', async t => {
    const { caller, messages, closed } = await openWithPendingResponse(t)
    caller.close(1000, Buffer.from([0xff]))
    caller.resume()
    t.equal(await closed, 1007)
    t.same(messages, [])
  })

  for (const code of [1000, 1007, 1009]) {
    t.test(`a caller that closes with ${code} gets no error and no more of the response, and its calls are canceled`, async t => {
      const { caller, messages, closed, memoryBudget, network } = await openWithPendingResponse(t)
      caller.close(code)
      await waitUntil(() => memoryBudget.reservedBytes === 0)
      t.ok(
        network.signals.every(({ aborted }) => aborted),
        'before the caller reads the close frame',
      )
      caller.resume()
      t.equal(await closed, code)
      t.same(messages, [])
    })
  }

  t.test('a revoked key gets its error after the response, and then close 1008', async t => {
    const { caller, messages, closed, clock, network } = await openWithPendingResponse(t)
    network.refusal = refuse('key')
    clock.advance(250)
    await wait(0)
    caller.resume()
    t.equal(await closed, 1008)
    t.match(
      messages.slice(1).map(text => JSON.parse(text)),
      [{ error: { code: -32090 } }],
    )
  })

  t.test('a gateway that stops sends the whole response, and then closes with 1001', async t => {
    const { caller, messages, closed, wsServer, activeRequests } = await openWithPendingResponse(t)
    wsServer.drain()
    let isIdle = false
    const idle = activeRequests.whenIdle().then(() => {
      isIdle = true
    })
    await wait(20)
    t.notOk(isIdle)
    caller.resume()
    await idle
    t.equal(await closed, 1001)
    t.equal(messages.length, 1)
  })
})
