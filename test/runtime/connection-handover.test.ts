import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import { EventEmitter, once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { AcceptedConnections, reassignConnections } from '../../src/runtime/connection-handover.ts'

t.test('this version of Node names its messages so that connections of a dead worker go to another', async t => {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('pid-server.js', import.meta.url)) })
  const start = async (): Promise<{ worker: Worker; port: number }> => {
    const worker = cluster.fork({ NODE_OPTIONS: '' }) // without tap, which would load itself into the worker
    reassignConnections(worker, () => Object.values(cluster.workers ?? {}).flatMap(other => other ?? []))
    t.teardown(() => worker.process.kill('SIGKILL'))
    const [port] = (await once(worker, 'message')) as [number]
    return { worker, port }
  }
  const [dead, alive] = [await start(), await start()]
  t.equal(dead.port, alive.port)
  dead.worker.process.kill('SIGSTOP')
  // Handed out in turn: the stopped worker gets one of these, and no more before it has acknowledged that.
  const responses = [1, 2, 3].map(() => text(connect(alive.port, '127.0.0.1')))
  await Promise.race(responses)
  dead.worker.process.kill('SIGKILL')
  t.same(
    await Promise.all(responses),
    [1, 2, 3].map(() => String(alive.worker.process.pid)),
  )
})

t.test('connections are closed when all workers are killed, whether a worker was handed them or they are queued', async t => {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('pid-server.js', import.meta.url)) })
  for (let round = 1; round <= 10; round++) {
    const workers = [1, 2].map(() => cluster.fork({ NODE_OPTIONS: '' })) // without tap, which would load itself into the worker
    for (const worker of workers) reassignConnections(worker, () => workers)
    const ports = await Promise.all(workers.map(async worker => (await once(worker, 'message'))[0] as number))
    for (const worker of workers) worker.process.kill('SIGSTOP')
    const sockets = Array.from({ length: 5 }, () => connect(ports[0] ?? 0, '127.0.0.1'))
    const responses = sockets.map(socket => text(socket).catch(() => 'reset'))
    await Promise.all(sockets.map(socket => once(socket, 'connect')))
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate) // the primary accepts one in each turn of the event loop
    const exits = workers.map(worker => once(worker, 'exit'))
    for (const worker of workers) worker.process.kill('SIGKILL')
    await Promise.all(exits)
    const received = await Promise.all(responses)
    t.ok(
      received.every(response => response === '' || response === 'reset'),
      `round ${round}: ${received}`,
    )
  }
})

t.test('in this version of Node, accepted connections wait within a limit, and listening ends when workers have them', async t => {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('pid-server.js', import.meta.url)) })
  const refused: unknown[] = []
  const connections = new AcceptedConnections({ maxPending: 3, onRefused: reason => refused.push(reason) })
  const worker = cluster.fork({ NODE_OPTIONS: '' }) // without tap, which would load itself into the worker
  t.teardown(() => worker.process.kill('SIGKILL'))
  connections.addWorker(worker)
  const [port] = (await once(worker, 'message')) as [number]
  const pid = String(worker.process.pid)
  const open = () => text(connect(port, '127.0.0.1')).catch((error: NodeJS.ErrnoException) => error.code)
  t.same(await Promise.all([open(), open()]), [pid, pid])
  worker.process.kill('SIGSTOP')
  const responses = [open(), open(), open(), open(), open()]
  while (refused.length < 2) await new Promise(setImmediate)
  t.same(refused, ['limit', 'limit'])
  let hasEnded = false
  connections.endListening()
  const ended = connections.whenHandedOver().then(() => (hasEnded = true))
  t.equal(connections.acceptedCount, 7)
  t.equal(await open(), 'ECONNREFUSED')
  t.notOk(hasEnded, 'the worker has not taken them')
  worker.process.kill('SIGCONT')
  await ended
  t.equal((await Promise.all(responses)).filter(response => response === pid).length, 3)
})

const kill = async (worker: Worker): Promise<void> => {
  const exited = once(worker, 'exit')
  worker.process.kill('SIGKILL')
  await exited
}

/** Starts a worker whose listening socket is found: its port may be known before. */
const startFound = async (t: Test, connections: AcceptedConnections) => {
  const worker = cluster.fork({ NODE_OPTIONS: '' }) // without tap, which would load itself into the worker
  reassignConnections(worker, () => [])
  t.teardown(async () => {
    if (!worker.isDead()) await kill(worker)
    connections.closeUnused()
  })
  connections.addWorker(worker)
  const [[port]] = (await Promise.all([once(worker, 'message'), once(worker, 'listening')])) as [[number], unknown]
  return { worker, pid: String(worker.process.pid), port }
}

t.test('in this version of Node, connections that were held are handed out in turn to the workers of that moment', async t => {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('pid-server.js', import.meta.url)) })
  const connections = new AcceptedConnections({ maxPending: 10, onRefused: reason => t.fail(String(reason)) })
  connections.hold()
  const first = await startFound(t, connections)
  const sockets = Array.from({ length: 4 }, () => connect(first.port, '127.0.0.1'))
  const responses = Promise.all(sockets.map(socket => text(socket)))
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  const second = await startFound(t, connections)
  connections.release()
  const received = await responses
  t.same(new Set(received), new Set([first.pid, second.pid]))
  t.match(await text(connect(first.port, '127.0.0.1')), /^\d+$/, 'later ones do not wait')
})

t.test('in this version of Node, a free port is kept from the moment that it was taken until the workers listen on it', async t => {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('pid-server.js', import.meta.url)) })
  const connections = new AcceptedConnections({ maxPending: 10, onRefused: reason => t.fail(String(reason)) })
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port: reserved } = server.address() as AddressInfo
  connections.reserve(server)
  const isTaken = async () => {
    const [error] = (await once(createServer().listen(reserved, '127.0.0.1'), 'error')) as [NodeJS.ErrnoException]
    return error.code === 'EADDRINUSE'
  }
  t.ok(await isTaken())
  t.equal(await text(connect(reserved, '127.0.0.1')), '', 'nobody has been told of it: what connects is closed')
  const [first, second] = [await startFound(t, connections), await startFound(t, connections)]
  t.same([first.port, second.port], [reserved, reserved])
  t.ok(await isTaken())
  const responses = await Promise.all([1, 2].map(() => text(connect(reserved, '127.0.0.1'))))
  t.same(new Set(responses), new Set([first.pid, second.pid]))
  connections.endListening()
  t.equal(await text(connect(reserved, '127.0.0.1')).catch((error: NodeJS.ErrnoException) => error.code), 'ECONNREFUSED')
})

t.test('in this version of Node, the port stays open while all workers are dead, and the next worker gets who has connected', async t => {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('pid-server.js', import.meta.url)) })
  const connections = new AcceptedConnections({ maxPending: 10, onRefused: reason => t.fail(String(reason)) })
  const open = async (port: number) => {
    const socket = connect(port, '127.0.0.1')
    const response = text(socket).catch(() => 'reset')
    await once(socket, 'connect')
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate) // the primary accepts it
    return { response }
  }
  let { worker, port } = await startFound(t, connections)
  for (let round = 1; round <= 3; round++) {
    await kill(worker)
    const early = [await open(port), await open(port)]
    const next = await startFound(t, connections)
    t.equal(next.port, port)
    const received = await Promise.all([...early, await open(port)].map(({ response }) => response))
    t.same(received, [next.pid, next.pid, next.pid], `round ${round}`)
    worker = next.worker
  }

  connections.hold()
  const held = await open(port)
  await kill(worker)
  const last = await startFound(t, connections)
  connections.release()
  t.equal(await held.response, last.pid, 'what was held too')

  await kill(last.worker)
  const late = await open(port)
  connections.closeUnused()
  t.match(await late.response, /^(reset)?$/)
  t.match(await once(connect(port, '127.0.0.1'), 'error'), [{ code: 'ECONNREFUSED' }])
  const after = await startFound(t, connections)
  t.equal(await (await open(after.port)).response, after.pid, 'the next worker listens anew')
  connections.closeUnused()
  t.equal(await (await open(after.port)).response, after.pid, 'a port that is used stays open')
})

/** The part of a worker that is used, and the messages that it would be sent. */
const fakeWorker = () => {
  const sent: unknown[] = []
  const send = (message: unknown) => sent.push(message) > 0
  const child = Object.assign(new EventEmitter(), { send })
  const internalMessages: unknown[] = []
  child.on('internalMessage', message => internalMessages.push(message))
  const disconnect = () => child.send({ act: 'disconnect' })
  const worker = { process: child, disconnect, isConnected: () => true, isDead: () => false } as unknown as Worker
  return { worker, child, send, sent, internalMessages }
}

t.test('connections that a dead worker has not acknowledged are reported to Node as not accepted', async t => {
  const { worker, child, sent, internalMessages } = fakeWorker()
  reassignConnections(worker, () => [fakeWorker().worker])
  for (let seq = 1; seq <= 3; seq++) child.send({ act: 'newconn', seq })
  child.emit('internalMessage', { ack: 2 })
  internalMessages.length = 0
  child.emit('exit')
  t.match(internalMessages, [
    { ack: 1, accepted: false },
    { ack: 3, accepted: false },
  ])
  t.equal(sent.length, 3, 'nothing is written into the pipe of the dead worker')
})

t.test('where a worker never acknowledges, as Node names its messages anew, Node is left to itself', async t => {
  const { worker, child, send, sent, internalMessages } = fakeWorker()
  reassignConnections(worker, () => [fakeWorker().worker])
  for (let seq = 1; seq <= 17; seq++) child.send({ act: 'newconn', seq })
  t.equal(sent.length, 17)
  t.equal(child.send, send)
  child.emit('exit')
  t.same(internalMessages, [])
})
