import cluster from 'node:cluster'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openCrew } from '../../src/workers/crew.ts'
import type { Member } from '../../src/workers/crew-news.ts'
import type { FromWorker } from '../../src/workers/messages.ts'
import { SpawnFault } from '../../src/workers/shift.ts'
import { TestClock, TestLog } from '../support/fakes.ts'

const exec = fileURLToPath(new URL('reader.js', import.meta.url))

/** A crew of one, that reads until it is stopped with SIGSTOP; time stands still for its primary. */
const open = async (env: Record<string, string> = {}) => {
  const heard: FromWorker[] = []
  let member: Member | undefined
  let forgotten = 0
  const desk = {
    hear(from: Member, message: FromWorker) {
      member = from
      heard.push(message)
    },
    forget: () => {
      forgotten += 1
    },
  }
  const [clock, log] = [new TestClock(), new TestLog()]
  const own = { NODE_OPTIONS: '', ...env } // else tap loads itself into it
  const crew = await openCrew({ exec, args: [], env: own, size: 1, patience: 15_000, desk }, clock, log)
  const say = (height: number) => member?.say({ kind: 'height', network: 'x'.repeat(1000), height })
  const newest = () => heard.reduce((most, message) => (message.kind === 'seen' ? Math.max(most, message.height) : most), 0)
  const worker = Object.values(cluster.workers ?? {}).at(-1) // those before it may not be gone yet
  if (worker === undefined) throw new Error('there is no worker')
  return { crew, worker, clock, log, say, heard, newest, forgotten: () => forgotten }
}

const until = async (isSo: () => boolean) => {
  while (!isSo()) await new Promise(setImmediate)
}

t.test('a worker that is stopped', async t => {
  const { crew, worker, clock, log, say, heard, newest } = await open()
  say(1)
  await until(() => newest() === 1)
  worker.process.kill('SIGSTOP')

  t.test('costs no more than its pipe holds, and gets the newest when it goes on', async t => {
    const before = heard.length
    for (let height = 2; height <= 10_000; height++) {
      say(height)
      if (height % 10 === 0) await new Promise(setImmediate)
    }
    worker.process.kill('SIGCONT')
    await until(() => newest() === 10_000)
    const read = heard.length - before
    t.ok(read < 2000, `of 9,999 messages of 1 KB ${read} were sent`)
    worker.process.kill('SIGSTOP')
  })

  t.test('is left out of the metrics after a second', async t => {
    const metrics = crew.metrics()
    clock.turn(1000)
    t.same(await metrics, [])
  })

  t.test('is killed when it does not end in time', async t => {
    const stopped = crew.stop()
    clock.turn(14_999)
    t.notOk(worker.isDead())
    clock.turn(1)
    await stopped
    t.ok(worker.isDead())
    t.match(log.lines, [{ level: 'error', message: 'a worker did not end and is killed' }])
  })
})

t.test('a worker that the system gives no process for', async t => {
  // Nothing can be spawned in a directory that is gone.
  const lose = (cwd: string) => cluster.setupPrimary({ cwd })
  t.teardown(() => lose(process.cwd()))

  t.test('is tried again after a second, while the primary lives on', async t => {
    const { crew, worker, clock, log, forgotten } = await open()
    const failures = () => log.lines.filter(line => line.level === 'error')
    lose('/nowhere')
    worker.process.kill('SIGKILL')
    await until(() => log.lines.length === 1)
    t.match(log.lines, [{ level: 'warn', message: 'a worker ended and is replaced', fields: { signal: 'SIGKILL' } }])
    clock.turn(100)
    await until(() => failures().length === 1)
    t.match(failures(), [
      { message: /^a worker could not be replaced/, fields: { err: { message: /could not be started: spawn .*ENOENT/ } } },
    ])
    t.equal(crew.ready, 0)
    t.equal(forgotten(), 2, 'nobody goes on telling it heights')
    clock.turn(999)
    await new Promise(setImmediate)
    t.equal(failures().length, 1, 'not in a hot loop')
    clock.turn(1)
    await until(() => failures().length === 2)
    lose(process.cwd())
    clock.turn(1000)
    await until(() => crew.ready === 1)
    const stopped = crew.stop()
    clock.turn(15_000)
    await stopped
  })

  t.test('does not hold up the end of the others', async t => {
    const { crew, worker, clock, log } = await open()
    lose('/nowhere')
    worker.process.kill('SIGKILL')
    await until(() => log.lines.length === 1)
    clock.turn(100) // it is spawned, and what came of that is not known yet
    await crew.stop()
    t.equal(log.lines.length, 2, 'nobody was killed for it')
  })

  t.test('ends the start with a message for the operator, whether the system says so at once or later', async t => {
    lose('/nowhere')
    await t.rejects(open(), { constructor: SpawnFault, message: /^a worker could not be started: spawn .*ENOENT$/ })
    lose(process.cwd())
    await t.rejects(open({ LONG: 'x'.repeat(1 << 18) }), {
      constructor: SpawnFault,
      message: /^a worker could not be started: spawn E2BIG$/,
    })
  })
})
