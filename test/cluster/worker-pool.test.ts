import cluster from 'node:cluster'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ListeningEnd } from '../../src/cluster/listening-end.ts'
import { SharedAccessLog } from '../../src/cluster/shared-logs.ts'
import { openWorkerPool } from '../../src/cluster/worker-pool.ts'
import type { WorkerPool } from '../../src/cluster/worker-pool.ts'
import { WorkerSpawnError } from '../../src/cluster/worker-process.ts'
import { Channel } from '../../src/cluster/channel.ts'
import type { PrimaryMessage, WorkerChannel, WorkerMessage, WorkerSetting } from '../../src/cluster/worker-messages.ts'
import { WorkerReload } from '../../src/cluster/shared-reload.ts'
import { AcceptedConnections } from '../../src/runtime/connection-handover.ts'
import { configId } from '../../src/core/config-changes.ts'
import type { ValidConfig } from '../../src/core/reloader.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { waitUntil } from '../support/wait-until.ts'

const exec = fileURLToPath(new URL('height-ack-worker.js', import.meta.url))

/** A pool of one worker, which reads until it gets SIGSTOP. The clock of its primary stands still. */
const openPool = async (env: Record<string, string> = {}) => {
  const received: WorkerMessage[] = []
  let channel: WorkerChannel | undefined
  let removedWorkers = 0
  const sharedHeads = {
    handleMessage(from: WorkerChannel, message: WorkerMessage) {
      channel = from
      received.push(message)
    },
    removeWorker: () => {
      removedWorkers += 1
    },
  }
  const [clock, log] = [new TestClock(), new TestLog()]
  const workerEnv = { NODE_OPTIONS: '', ...env } // without tap, which would load itself into the worker
  const pool = await openWorkerPool(
    {
      ...{ exec, args: [], env: workerEnv, size: 1, metrics: createMetricsRegistry(), configId: '', stopTimeoutMs: 15_000, sharedHeads },
      connections: new AcceptedConnections({ maxPending: 1, onRefused: () => undefined }),
    },
    clock,
    log,
  )
  const sendHeight = (height: number) => channel?.send({ kind: 'height', network: 'x'.repeat(1000), height })
  const lastAcknowledged = () =>
    received.reduce((highest, message) => (message.kind === 'heightAck' ? Math.max(highest, message.height) : highest), 0)
  const worker = Object.values(cluster.workers ?? {}).at(-1) // earlier workers may not have exited yet
  if (worker === undefined) throw new Error('there is no worker')
  return { pool, worker, clock, log, sendHeight, received, lastAcknowledged, removedWorkerCount: () => removedWorkers }
}

t.test('a worker that does not read', async t => {
  const { pool, worker, clock, log, sendHeight, received, lastAcknowledged } = await openPool()
  sendHeight(1)
  await waitUntil(() => lastAcknowledged() === 1)
  worker.process.kill('SIGSTOP')

  t.test('costs no more memory than its pipe holds, and gets the newest height when it reads again', async t => {
    const before = received.length
    for (let height = 2; height <= 10_000; height++) {
      sendHeight(height)
      if (height % 10 === 0) await new Promise(setImmediate)
    }
    worker.process.kill('SIGCONT')
    await waitUntil(() => lastAcknowledged() === 10_000)
    const readCount = received.length - before
    t.ok(readCount < 2000, `${readCount} of 9,999 messages of 1 KB were sent`)
    worker.process.kill('SIGSTOP')
  })

  t.test('is left out of the metrics after a second', async t => {
    const metrics = pool.metrics()
    clock.advance(1000)
    t.same(await metrics, [])
  })

  t.test('is killed when it does not exit in time', async t => {
    const stopped = pool.stop()
    clock.advance(14_999)
    t.notOk(worker.isDead())
    clock.advance(1)
    await stopped
    t.ok(worker.isDead())
    t.match(log.lines, [{ level: 'error', message: 'worker did not exit in time; killing it' }])
  })
})

t.test('a worker whose process cannot be started', async t => {
  // No process can be started in a directory that does not exist.
  const setWorkingDirectory = (cwd: string) => cluster.setupPrimary({ cwd })
  t.teardown(() => setWorkingDirectory(process.cwd()))

  t.test('is tried again after a second; the primary goes on', async t => {
    const { pool, worker, clock, log, removedWorkerCount } = await openPool()
    const failures = () => log.lines.filter(line => line.level === 'error')
    setWorkingDirectory('/nowhere')
    worker.process.kill('SIGKILL')
    await waitUntil(() => log.lines.length === 1)
    t.match(log.lines, [{ level: 'warn', message: 'worker exited; restarting it', fields: { signal: 'SIGKILL' } }])
    clock.advance(100)
    await waitUntil(() => failures().length === 1)
    t.match(failures(), [{ message: /^worker restart failed/, fields: { err: { message: /could not be started: spawn .*ENOENT/ } } }])
    t.equal(pool.readyCount, 0)
    t.equal(removedWorkerCount(), 2, 'no height is sent to it any more')
    clock.advance(999)
    await new Promise(setImmediate)
    t.equal(failures().length, 1, 'no busy loop')
    clock.advance(1)
    await waitUntil(() => failures().length === 2)
    setWorkingDirectory(process.cwd())
    clock.advance(1000)
    await waitUntil(() => pool.readyCount === 1)
    const stopped = pool.stop()
    clock.advance(15_000)
    await stopped
  })

  t.test('does not delay the stop of the others', async t => {
    const { pool, worker, clock, log } = await openPool()
    setWorkingDirectory('/nowhere')
    worker.process.kill('SIGKILL')
    await waitUntil(() => log.lines.length === 1)
    clock.advance(100) // the process is being started, and its error has not come yet
    await pool.stop()
    t.equal(log.lines.length, 2, 'no worker was killed')
  })

  t.test('fails the start with a message for the operator, whether the error comes at once or later', async t => {
    setWorkingDirectory('/nowhere')
    await t.rejects(openPool(), { constructor: WorkerSpawnError, message: /^worker could not be started: spawn .*ENOENT$/ })
    setWorkingDirectory(process.cwd())
    await t.rejects(openPool({ LONG: 'x'.repeat(1 << 18) }), {
      constructor: WorkerSpawnError,
      message: /^worker could not be started: spawn E2BIG$/,
    })
  })
})

t.test('a worker that is to prepare two reloads at once runs nothing on that was neither committed nor abandoned', async t => {
  const config = { gateway: {}, networks: [] } as unknown as ValidConfig // no more is read of it here
  const ended: string[] = []
  const replies: WorkerMessage[] = []
  let preparedCount = 0
  const prepareReload = async () => {
    const name = `reload ${(preparedCount += 1)}`
    await new Promise(setImmediate)
    return { commit: () => void ended.push(`${name} committed`), abandon: async () => void ended.push(`${name} abandoned`) }
  }
  const reload = new WorkerReload(
    { prepareReload },
    async () => config,
    message => replies.push(message),
  )
  const prepare = (id: number) => reload.prepare({ kind: 'prepareReload', id, configId: configId(config) })
  await Promise.all([prepare(1), prepare(2)])
  t.match(replies, [
    { id: 1, problems: [] },
    { id: 2, problems: [] },
  ])
  reload.end({ kind: 'endReload', id: 2, isCommitted: true })
  t.same(ended, ['reload 1 abandoned', 'reload 2 committed'])
})

t.test('the ends of two reloads that wait in a full pipe both arrive', async t => {
  const sent: PrimaryMessage[] = []
  let flush = () => {}
  const channel = new Channel<PrimaryMessage>((message, onSent) => {
    sent.push(message)
    flush = onSent
  })
  channel.send({ kind: 'metrics', id: 1 })
  channel.send({ kind: 'endReload', id: 2, isCommitted: true })
  channel.send({ kind: 'endReload', id: 3, isCommitted: false })
  flush()
  t.match(sent.slice(1), [
    { id: 2, isCommitted: true },
    { id: 3, isCommitted: false },
  ])
})

t.test('an access log that one worker cannot open is changed in none, and the primary says that it could not be opened anew', async t => {
  const set: WorkerSetting[] = []
  const pool = {
    newId: () => 1,
    requestAll: async () =>
      [undefined, 'cannot open the log file: EMFILE'].map(problem => ({
        kind: 'accessLogSet',
        id: 1,
        ...(problem !== undefined && { problem }),
      })),
    set: (setting: WorkerSetting) => void set.push(setting),
  } as unknown as WorkerPool // the reply is of the kind that was asked for
  const accessLog = new SharedAccessLog({ sample: 1, always: [], slow: 1000, file: '/access.log' }, pool)
  const before = accessLog.settings
  await t.rejects(accessLog.change({ ...before, target: 'none' }), { message: 'cannot open the log file: EMFILE' })
  t.equal(accessLog.settings, before)
  t.match(set, [{ kind: 'accessLog', settings: before }])
  await t.rejects(accessLog.reopen(), { message: 'cannot open the log file: EMFILE' })
})

t.test('listening ends when all workers hold new connections, and after a second without one that does not', async t => {
  const clock = new TestClock()
  const fakeWorkers = ['one', 'two', 'stopped'].map(name => {
    const received: PrimaryMessage[] = []
    return { name, received, send: (message: PrimaryMessage) => void received.push(message) }
  })
  const [one, two, stopped] = fakeWorkers as [(typeof fakeWorkers)[0], (typeof fakeWorkers)[0], (typeof fakeWorkers)[0]]
  const answered = () => fakeWorkers.filter(({ received }) => received.length > 0).map(({ name }) => name)
  const open = (workers: readonly WorkerChannel[]) => {
    for (const { received } of fakeWorkers) received.length = 0
    let endCount = 0
    const connections = { endListening: async () => void (endCount += 1) }
    return { end: new ListeningEnd({ connections, workers: () => workers, clock }), endCount: () => endCount }
  }
  const both = open([one, two])
  both.end.add(one)
  clock.advance(900)
  t.same([both.endCount(), answered()], [0, []])
  both.end.add(two)
  await waitUntil(() => two.received.length > 0)
  t.same([both.endCount(), answered()], [1, ['one', 'two']])
  t.same(one.received, [{ kind: 'listeningEnded' }])

  const late = open([one, two, stopped])
  late.end.add(one)
  late.end.add(two)
  clock.advance(1_000)
  await waitUntil(() => two.received.length > 0)
  t.same([late.endCount(), answered()], [1, ['one', 'two']])
  late.end.add(stopped)
  await waitUntil(() => stopped.received.length > 0)
  t.same([late.endCount(), answered()], [1, ['one', 'two', 'stopped']], 'it is answered when it asks')

  const serving: WorkerChannel[] = [one, two]
  const exited = open(serving)
  exited.end.add(one)
  serving.pop()
  exited.end.checkWorkers()
  await waitUntil(() => one.received.length > 0)
  t.same([exited.endCount(), answered()], [1, ['one']], 'nobody waits for a worker that has exited')
})
