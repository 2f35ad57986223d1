import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import type { Reply } from '../../src/reply.ts'
import { Conversation } from '../../src/server/conversation.ts'
import { Traffic } from '../../src/server/door.ts'
import type { Visit } from '../../src/server/door.ts'
import { openRoom } from '../../src/services/agents/room.ts'
import type { Answer } from '../../src/wire/answer.ts'
import { TestLog, result } from '../support/fakes.ts'

// One real WebSocket, and a caller who reads as much as a test wants.

const mib = 1 << 20

const open = async (test: Test, patience: number, room = openRoom(512 * mib)) => {
  const server = http.createServer().listen(0, '127.0.0.1')
  const accept = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  const arrived = new Promise<{ socket: WebSocket, stream: Socket }>(resolve => server.on('upgrade', (request, stream, head) =>
    accept.handleUpgrade(request, stream, head, socket => resolve({ socket, stream: request.socket }))))
  await once(server, 'listening')
  const caller = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, { maxPayload: 0 })
  const [{ socket, stream }] = await Promise.all([arrived, once(caller, 'open')])
  const log = new TestLog()
  const visit = { network: {}, caller: { requestId: 'r-1', network: 'net', leave: () => undefined } } as unknown as Visit // all that it reads
  const conversation = new Conversation(socket, stream, visit, { traffic: new Traffic(), log, room, tidy: () => undefined, patience })
  const closed = once(socket, 'close')
  test.teardown(() => {
    caller.terminate()
    socket.terminate()
    server.close()
  })
  caller.pause()
  const deliver = (size: number, reply: Reply = result('0x1')) =>
    conversation.deliver({ status: 200, body: { pieces: [Buffer.alloc(size, 0x30)], length: size }, replies: [reply], retryAfter: undefined } as Answer)
  return { log, room, socket, caller, closed, deliver }
}

t.test('a caller who reads nothing', async t => {
  t.test('is given up after a while when more than 8 MiB wait', async t => {
    const { deliver, closed, log, room } = await open(t, 100)
    deliver(21 * mib)
    t.equal(room.taken, 21 * mib)
    await closed
    t.match(log.lines, [{ fields: { event: 'slow-caller' } }])
    t.equal(room.taken, 0)
  })

  t.test('is given up at once at 40 MiB', async t => {
    const { deliver, closed, socket, room } = await open(t, 60_000)
    deliver(21 * mib)
    t.equal(socket.readyState, WebSocket.OPEN)
    deliver(21 * mib)
    t.equal(socket.readyState, WebSocket.CLOSING)
    await closed
    t.equal(room.taken, 0)
  })

  t.test('is left alone while less waits', async t => {
    const { deliver, socket } = await open(t, 50)
    deliver(7 * mib)
    await wait(300)
    t.equal(socket.readyState, WebSocket.OPEN)
  })
})

t.test('a caller who reads slowly gets the longest answer, though it takes longer than anybody has patience', async t => {
  const patience = 400
  const { deliver, caller, room } = await open(t, patience)
  const stream = (caller as unknown as { _socket: Socket })._socket // ws tells of a message only when it is whole
  deliver(32 * mib)
  const begun = performance.now()
  const whole = once(caller, 'message')
  let got = 0
  stream.on('data', bytes => {
    got += bytes.length
    if (got < 2 * mib) return
    got = 0
    stream.pause()
    setTimeout(() => stream.resume(), 60)
  })
  caller.resume()
  const [message] = await whole as [Buffer]
  t.equal(message.length, 32 * mib)
  t.ok(performance.now() - begun > 2 * patience)
  t.equal(room.taken, 0)
})

t.test('what waits for all callers is bounded; who comes on top of it is closed and pays nothing', async t => {
  const room = openRoom(10 * mib)
  const [one, other] = [await open(t, 60_000, room), await open(t, 60_000, room)]
  one.deliver(9 * mib)
  let refunds = 0
  other.deliver(2 * mib, { ...result('0x1'), charge: { refund: () => { refunds += 1 } } })
  t.equal(refunds, 1)
  other.caller.resume()
  t.equal((await once(other.caller, 'close'))[0], 1013)
  one.socket.terminate()
  await one.closed
  t.equal(room.taken, 0)
})
