import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from '../support/tap.ts'
import { isReply } from '../../src/util/channel.ts'
import { openWorkerPool } from '../../src/cluster/worker-pool.ts'
import type { WorkerPool, WorkerPoolOptions } from '../../src/cluster/worker-pool.ts'
import { quietMs } from '../../src/server/connection-pacing.ts'
import { WorkerSpawnError } from '../../src/cluster/worker-process.ts'
import type { WorkerChannel } from '../../src/cluster/worker-messages.ts'
import { AcceptedConnections } from '../../src/runtime/connection-handover.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { waitUntil } from '../support/wait-until.ts'

const exec = fileURLToPath(new URL('height-ack-worker.js', import.meta.url))

/** Resolves when the workers have been told to stop. */
const beginStop = async (clock: TestClock, ...pools: readonly WorkerPool[]): Promise<{ readonly stopped: Promise<unknown> }> => {
  const stopped = Promise.all(pools.map(pool => pool.stop()))
  clock.advance(0)
  await new Promise(setImmediate)
  clock.advance(quietMs)
  for (let turn = 0; turn < 4; turn++) await new Promise(setImmediate)
  return { stopped }
}

const noHandlers = {} as ReturnType<WorkerPoolOptions['handlersOf']> // these workers send nothing that needs one

/** A pool of one worker, which reads until it gets SIGSTOP. The clock of its primary stands still. */
const openPool = async (env: Record<string, string> = {}) => {
  let acknowledged = 0
  let channel: WorkerChannel | undefined
  let exits = 0
  let closes = 0
  const [clock, log] = [new TestClock(), new TestLog()]
  const connections = new AcceptedConnections({ maxPending: 1, onRefused: () => undefined })
  connections.closeUnused = () => void (closes += 1)
  const workerEnv = { NODE_OPTIONS: '', ...env } // without tap, which would load itself into the worker
  const pool = await openWorkerPool(
    {
      ...{
        exec,
        args: [],
        env: workerEnv,
        size: 1,
        metrics: createMetricsRegistry(),
        configuration: { configId: '', texts: {} },
        stopTimeoutMs: 15_000,
      },
      connections,
      handlersOf(worker) {
        channel = worker
        return noHandlers
      },
      onExit: () => void (exits += 1),
    },
    clock,
    log,
  )
  const tags = { reported: {}, upstreams: {} }
  const sendHeight = (height: number) => {
    const reports = { version: height, height, tags, transactions: 0, changed: { height, tags: 0 } }
    void channel?.call('reports', { network: 'x'.repeat(1000), reports }, 50).then(result => {
      if (isReply(result)) acknowledged = Math.max(acknowledged, height)
    })
  }
  const worker = Object.values(cluster.workers ?? {}).at(-1) // earlier workers may not have exited yet
  if (worker === undefined) throw new Error('there is no worker')
  return {
    pool,
    worker,
    clock,
    log,
    connections,
    sendHeight,
    lastAcknowledged: () => acknowledged,
    exitCount: () => exits,
    closeCount: () => closes,
  }
}

t.test('a worker that does not read', async t => {
  const { pool, worker, clock, log, sendHeight, lastAcknowledged } = await openPool()
  let replyCount = 0
  worker.on('message', () => void (replyCount += 1))
  sendHeight(1)
  await waitUntil(() => lastAcknowledged() === 1)
  worker.process.kill('SIGSTOP')

  t.test('costs no more memory than its pipe holds, and gets the newest height when it reads again', async t => {
    const before = replyCount
    for (let height = 2; height <= 10_000; height++) {
      sendHeight(height)
      if (height % 10 === 0) await new Promise(setImmediate)
    }
    worker.process.kill('SIGCONT')
    await waitUntil(() => lastAcknowledged() === 10_000)
    const readCount = replyCount - before
    t.ok(readCount < 2000, `${readCount} of 9,999 messages of 1 KB were sent`)
    worker.process.kill('SIGSTOP')
  })

  t.test('is left out of the metrics after a second', async t => {
    const metrics = pool.metrics()
    clock.advance(1000)
    t.same((await metrics).flat(), [])
  })

  t.test('is killed when it does not exit in time', async t => {
    const { stopped } = await beginStop(clock, pool)
    clock.advance(14_999)
    t.notOk(worker.isDead())
    clock.advance(1)
    await stopped
    t.ok(worker.isDead())
    t.match(log.lines, [{ level: 'error', message: 'worker did not exit in time; killing it' }])
  })
})

t.test('workers serve on for the grace, then connections wait, listening ends, and workers are told to stop', async t => {
  const { pool, worker, clock, connections } = await openPool()
  const events: string[] = []
  worker.process.send = ({ name }: { readonly name: string }, ...[, , onSent]: readonly unknown[]) => {
    events.push(name)
    if (typeof onSent === 'function') onSent()
    return true
  }
  connections.hold = () => void events.push('hold')
  connections.endListening = () => void events.push('end listening')
  let handOver = (): void => undefined
  connections.whenHandedOver = () => new Promise<void>(resolve => void (handOver = resolve))
  const stopped = pool.stop(60_000)
  clock.advance(59_999)
  await new Promise(setImmediate)
  t.same(events, ['lameDuck'])
  clock.advance(1)
  await new Promise(setImmediate)
  t.same(events, ['lameDuck', 'hold'])
  clock.advance(quietMs)
  for (let turn = 0; turn < 4; turn++) await new Promise(setImmediate)
  t.same(events, ['lameDuck', 'hold', 'end listening'])
  handOver()
  await new Promise(setImmediate)
  t.same(events, ['lameDuck', 'hold', 'end listening', 'stop'])
  worker.process.kill('SIGKILL')
  await stopped
})

t.test('a worker that does not take its last connection delays the stop by a second', async t => {
  const { pool, worker, clock, log, connections } = await openPool()
  connections.whenHandedOver = () => new Promise(() => undefined)
  const { stopped } = await beginStop(clock, pool)
  clock.advance(1000)
  await new Promise(setImmediate)
  clock.advance(15_000)
  await stopped
  t.ok(worker.isDead())
  t.match(log.lines, [{ message: 'worker did not exit in time; killing it' }])
})

t.test('connections are held until all workers are ready, or the later ones take 5 s', async t => {
  const open = (size: number, clock: TestClock) => {
    const events: string[] = []
    const connections = new AcceptedConnections({ maxPending: 1, onRefused: () => undefined })
    connections.hold = () => void events.push('hold')
    connections.release = () => void events.push(`release to ${readyCount}`)
    let readyCount = 0
    const options = {
      ...{
        exec,
        args: [],
        env: { NODE_OPTIONS: '' },
        size,
        metrics: createMetricsRegistry(),
        configuration: { configId: '', texts: {} },
        stopTimeoutMs: 15_000,
      },
      ...{ connections, handlersOf: () => noHandlers, onExit: () => undefined },
    }
    const opening = openWorkerPool(options, clock, new TestLog())
    const onReady = (_worker: Worker, { name }: { readonly name?: string }) => void (name === 'ready' && (readyCount += 1))
    cluster.on('message', onReady)
    return { events, opening, end: () => cluster.off('message', onReady) }
  }
  const clock = new TestClock()
  const together = open(3, clock)
  const pool = await together.opening
  together.end()
  t.same(together.events, ['hold', 'release to 3'])

  const slow = open(2, clock)
  const [first] = (await once(cluster, 'fork')) as [Worker]
  const [second] = (await once(cluster, 'fork')) as [Worker] // the first is ready
  second.process.kill('SIGSTOP')
  clock.advance(4999)
  t.same(slow.events, ['hold'])
  clock.advance(1)
  t.same(slow.events, ['hold', 'release to 1'])
  second.process.kill('SIGCONT')
  const slowPool = await slow.opening
  slow.end()
  t.ok(first.isConnected())
  const { stopped } = await beginStop(clock, pool, slowPool)
  clock.advance(15_000)
  await stopped
})

t.test('a worker whose process cannot be started', async t => {
  // No process can be started in a directory that does not exist.
  const setWorkingDirectory = (cwd: string) => cluster.setupPrimary({ cwd })
  t.teardown(() => setWorkingDirectory(process.cwd()))

  t.test('is tried again after a second, and then after twice as long; the primary goes on', async t => {
    const { pool, worker, clock, log, exitCount } = await openPool()
    const failures = () => log.lines.filter(line => line.level === 'error')
    setWorkingDirectory('/nowhere')
    worker.process.kill('SIGKILL')
    await waitUntil(() => log.lines.length === 1)
    t.match(log.lines, [{ level: 'warn', message: 'worker exited; restarting it', fields: { signal: 'SIGKILL' } }])
    clock.advance(100)
    await waitUntil(() => failures().length === 1)
    t.match(failures(), [{ message: /^worker restart failed/, fields: { err: { message: /could not be started: spawn .*ENOENT/ } } }])
    t.equal(pool.readyCount, 0)
    t.equal(exitCount(), 2, 'no height is sent to it any more')
    clock.advance(999)
    await new Promise(setImmediate)
    t.equal(failures().length, 1, 'no busy loop')
    clock.advance(1)
    await waitUntil(() => failures().length === 2)
    t.match(failures()[1]?.message, 'next attempt in 2000 ms: worker could not be started')
    clock.advance(1999)
    await new Promise(setImmediate)
    t.equal(failures().length, 2)
    setWorkingDirectory(process.cwd())
    clock.advance(1)
    await waitUntil(() => pool.readyCount === 1)
    const { stopped } = await beginStop(clock, pool)
    clock.advance(15_000)
    await stopped
  })

  t.test('has the port stay open for 15 s after the last one has exited', async t => {
    const { pool, worker, clock, log, closeCount } = await openPool()
    worker.process.kill('SIGKILL')
    await waitUntil(() => log.lines.length === 1)
    clock.advance(100)
    await waitUntil(() => pool.readyCount === 1)
    clock.advance(15_000)
    t.equal(closeCount(), 0, 'it was replaced')
    setWorkingDirectory('/nowhere')
    Object.values(cluster.workers ?? {})
      .at(-1)
      ?.process.kill('SIGKILL')
    await waitUntil(() => pool.readyCount === 0)
    clock.advance(14_999)
    t.equal(closeCount(), 0)
    clock.advance(1)
    t.equal(closeCount(), 1)
    await (await beginStop(clock, pool)).stopped
    setWorkingDirectory(process.cwd())
  })

  t.test('does not delay the stop of the others', async t => {
    const { pool, worker, clock, log } = await openPool()
    setWorkingDirectory('/nowhere')
    worker.process.kill('SIGKILL')
    await waitUntil(() => log.lines.length === 1)
    clock.advance(100) // the process is being started, and its error has not come yet
    await (await beginStop(clock, pool)).stopped
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

  t.test('or is killed before it is ready fails the start with a message too: it has written none', async t => {
    cluster.once('fork', worker => worker.process.kill('SIGKILL'))
    await t.rejects(openPool(), { constructor: WorkerSpawnError, message: /^worker was killed by SIGKILL before it was ready$/ })
  })
})
