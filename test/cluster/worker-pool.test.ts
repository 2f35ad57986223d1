import cluster from 'node:cluster'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openWorkerPool } from '../../src/cluster/worker-pool.ts'
import type { WorkerChannel, WorkerMessage } from '../../src/cluster/channel.ts'
import { WorkerSpawnError } from '../../src/cluster/worker-supervisor.ts'
import { TestClock, TestLog } from '../support/fakes.ts'

const exec = fileURLToPath(new URL('height-ack-worker.js', import.meta.url))

/** A crew of one, that reads until it is stopped with SIGSTOP; time stands still for its primary. */
const openPool = async (env: Record<string, string> = {}) => {
  const heard: WorkerMessage[] = []
  let channel: WorkerChannel | undefined
  let forgotten = 0
  const sharedHeads = {
    handleMessage(from: WorkerChannel, message: WorkerMessage) {
      channel = from
      heard.push(message)
    },
    removeWorker: () => {
      forgotten += 1
    },
  }
  const [clock, log] = [new TestClock(), new TestLog()]
  const own = { NODE_OPTIONS: '', ...env } // else tap loads itself into it
  const pool = await openWorkerPool({ exec, args: [], env: own, size: 1, stopTimeoutMs: 15_000, sharedHeads }, clock, log)
  const say = (height: number) => channel?.send({ kind: 'height', network: 'x'.repeat(1000), height })
  const lastAcknowledged = () => heard.reduce((most, message) => (message.kind === 'heightAck' ? Math.max(most, message.height) : most), 0)
  const worker = Object.values(cluster.workers ?? {}).at(-1) // those before it may not be gone yet
  if (worker === undefined) throw new Error('there is no worker')
  return { crew: pool, worker, clock, log, say, heard, newest: lastAcknowledged, forgotten: () => forgotten }
}

const waitUntil = async (isSo: () => boolean) => {
  while (!isSo()) await new Promise(setImmediate)
}

t.test('a worker that is stopped', async t => {
  const { crew, worker, clock, log, say, heard, newest } = await openPool()
  say(1)
  await waitUntil(() => newest() === 1)
  worker.process.kill('SIGSTOP')

  t.test('costs no more than its pipe holds, and gets the newest when it goes on', async t => {
    const before = heard.length
    for (let height = 2; height <= 10_000; height++) {
      say(height)
      if (height % 10 === 0) await new Promise(setImmediate)
    }
    worker.process.kill('SIGCONT')
    await waitUntil(() => newest() === 10_000)
    const read = heard.length - before
    t.ok(read < 2000, `of 9,999 messages of 1 KB ${read} were sent`)
    worker.process.kill('SIGSTOP')
  })

  t.test('is left out of the metrics after a second', async t => {
    const metrics = crew.metrics()
    clock.advance(1000)
    t.same(await metrics, [])
  })

  t.test('is killed when it does not end in time', async t => {
    const stopped = crew.stop()
    clock.advance(14_999)
    t.notOk(worker.isDead())
    clock.advance(1)
    await stopped
    t.ok(worker.isDead())
    t.match(log.lines, [{ level: 'error', message: 'worker did not exit in time; killing it' }])
  })
})

t.test('a worker that the system gives no process for', async t => {
  // Nothing can be spawned in a directory that is gone.
  const lose = (cwd: string) => cluster.setupPrimary({ cwd })
  t.teardown(() => lose(process.cwd()))

  t.test('is tried again after a second, while the primary lives on', async t => {
    const { crew, worker, clock, log, forgotten } = await openPool()
    const failures = () => log.lines.filter(line => line.level === 'error')
    lose('/nowhere')
    worker.process.kill('SIGKILL')
    await waitUntil(() => log.lines.length === 1)
    t.match(log.lines, [{ level: 'warn', message: 'worker exited; restarting it', fields: { signal: 'SIGKILL' } }])
    clock.advance(100)
    await waitUntil(() => failures().length === 1)
    t.match(failures(), [{ message: /^worker restart failed/, fields: { err: { message: /could not be started: spawn .*ENOENT/ } } }])
    t.equal(crew.readyCount, 0)
    t.equal(forgotten(), 2, 'nobody goes on telling it heights')
    clock.advance(999)
    await new Promise(setImmediate)
    t.equal(failures().length, 1, 'not in a hot loop')
    clock.advance(1)
    await waitUntil(() => failures().length === 2)
    lose(process.cwd())
    clock.advance(1000)
    await waitUntil(() => crew.readyCount === 1)
    const stopped = crew.stop()
    clock.advance(15_000)
    await stopped
  })

  t.test('does not hold up the end of the others', async t => {
    const { crew, worker, clock, log } = await openPool()
    lose('/nowhere')
    worker.process.kill('SIGKILL')
    await waitUntil(() => log.lines.length === 1)
    clock.advance(100) // it is spawned, and what came of that is not known yet
    await crew.stop()
    t.equal(log.lines.length, 2, 'nobody was killed for it')
  })

  t.test('ends the start with a message for the operator, whether the system says so at once or later', async t => {
    lose('/nowhere')
    await t.rejects(openPool(), { constructor: WorkerSpawnError, message: /^worker could not be started: spawn .*ENOENT$/ })
    lose(process.cwd())
    await t.rejects(openPool({ LONG: 'x'.repeat(1 << 18) }), {
      constructor: WorkerSpawnError,
      message: /^worker could not be started: spawn E2BIG$/,
    })
  })
})
