import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { refuse } from '../../src/plugin/reply.ts'
import type { Failure } from '../../src/plugin/reply.ts'
import { createRpcHost } from '../../src/server/rpc-app.ts'
import { createRpcServer } from '../../src/server/rpc-server.ts'
import { ActiveRequests } from '../../src/server/rpc-services.ts'
import type { RpcServices } from '../../src/server/rpc-services.ts'
import { WsConnections } from '../../src/server/websocket.ts'
import { createMemoryBudget } from '../../src/services/memory-budget.ts'
import { createMessageParser } from '../../src/json-rpc/parse-request.ts'
import { TestClock, TestLog, fakeResult } from '../support/fakes.ts'

// The door itself, before a network whose answers a test makes as long as it likes.

const mib = 1 << 20

interface ScriptedNetwork {
  /** Length of each result. */
  resultBytes: number
  /** What `admit` says of a key, and how often it was asked. */
  refusal: Failure | undefined
  admitCount: number
}

const openServer = async (test: Test) => {
  const [clock, log, traffic, room] = [new TestClock(), new TestLog(), new ActiveRequests(), createMemoryBudget(512 * mib)]
  const network: ScriptedNetwork = { resultBytes: 21 * mib, refusal: undefined, admitCount: 0 }
  const limits = { body: mib, frame: 1_000, depth: 9, batch: 9, batchReply: 64 * mib, inFlight: 512 * mib }
  const endpoint = {
    name: 'net',
    admit: () => {
      network.admitCount += 1
      return network.refusal
    },
    messageHandler: {
      parse: createMessageParser(limits),
      run: () => Promise.resolve({ ...fakeResult('0'), result: Buffer.alloc(network.resultBytes, '0') }),
      limits,
      log,
    },
  }
  const services: RpcServices = {
    endpointAt: () => endpoint,
    limits,
    log,
    activeRequests: traffic,
    memoryBudget: room,
    hintGc: () => undefined,
    sendSingleWrite: () => false,
    httpDate: () => '',
    countResponse: () => undefined,
  }
  const wsConnections = new WsConnections(services)
  const server = createRpcServer(services, createRpcHost(services, wsConnections).callback()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  wsConnections.start(clock)
  test.teardown(() => {
    wsConnections.terminate()
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
  return { clock, network, room, traffic, sockets: wsConnections, connect }
}

t.test(
  'keys of silent sockets are asked for again and again, once for all sockets of a key; who lost its key is told, and closed',
  async t => {
    const { clock, network, connect } = await openServer(t)
    const callers = [await connect('one'), await connect('one'), await connect('other')]
    network.admitCount = 0
    clock.advance(400)
    t.equal(network.admitCount, 2)
    network.refusal = refuse('unavailable')
    clock.advance(400)
    t.equal(network.admitCount, 4)
    t.ok(
      callers.every(({ caller }) => caller.readyState === WebSocket.OPEN),
      'that nobody can tell is no reason to close',
    )
    network.refusal = refuse('key')
    clock.advance(400)
    t.same(await Promise.all(callers.map(({ closed }) => closed)), [1008, 1008, 1008])
    t.match(
      callers.map(({ messages }) => messages.map(text => JSON.parse(text))),
      callers.map(() => [{ id: null, error: { code: -32090 } }]),
    )
  },
)

/** A caller with an answer of 21 MiB under way, of which it reads nothing yet. */
const openWithPendingResponse = async (test: Test) => {
  const door = await openServer(test)
  const caller = await door.connect('one')
  caller.caller.pause()
  caller.call()
  while (door.room.reservedBytes === 0) await wait(1)
  return { ...door, ...caller }
}

t.test('while an answer is under way', async t => {
  for (const [what, send, code, error] of [
    ['a message over the limit', 'x'.repeat(1_001), 1009, -32600],
    ['text that is not UTF-8', Buffer.from([0xff]), 1007, -32700],
  ] as const) {
    t.test(`${what} is refused behind it, and then close ${code}`, async t => {
      const { caller, messages, closed, room } = await openWithPendingResponse(t)
      caller.send(send, { binary: false })
      caller.resume()
      t.equal(await closed, code)
      t.equal(messages[0]?.length, 21 * mib + '{"jsonrpc":"2.0","id":1,"result":}'.length)
      t.match(
        messages.slice(1).map(text => JSON.parse(text)),
        [{ id: null, error: { code: error } }],
      )
      t.equal(room.reservedBytes, 0)
    })
  }

  t.test('a key that was revoked is told so behind it, and then close 1008', async t => {
    const { caller, messages, closed, clock, network } = await openWithPendingResponse(t)
    network.refusal = refuse('key')
    clock.advance(400)
    await wait(0)
    caller.resume()
    t.equal(await closed, 1008)
    t.match(
      messages.slice(1).map(text => JSON.parse(text)),
      [{ error: { code: -32090 } }],
    )
  })

  t.test('a gateway that stops waits for it, and then closes with 1001', async t => {
    const { caller, messages, closed, sockets, traffic } = await openWithPendingResponse(t)
    sockets.drain()
    let isQuiet = false
    const quiet = traffic.whenIdle().then(() => {
      isQuiet = true
    })
    await wait(20)
    t.notOk(isQuiet)
    caller.resume()
    await quiet
    t.equal(await closed, 1001)
    t.equal(messages.length, 1)
  })
})
