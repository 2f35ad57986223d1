import cluster from 'node:cluster'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openCrew } from '../../src/workers/crew.ts'
import type { Member } from '../../src/workers/crew-news.ts'
import type { FromWorker } from '../../src/workers/messages.ts'
import { TestClock, TestLog } from '../support/fakes.ts'

const exec = fileURLToPath(new URL('reader.js', import.meta.url))

/** A crew of one, that reads until it is stopped with SIGSTOP; time stands still for its primary. */
const open = async () => {
  const heard: FromWorker[] = []
  let member: Member | undefined
  const desk = {
    hear(from: Member, message: FromWorker) {
      member = from
      heard.push(message)
    },
    forget: () => undefined,
  }
  const [clock, log] = [new TestClock(), new TestLog()]
  const env = { NODE_OPTIONS: '' } // else tap loads itself into it
  const crew = await openCrew({ exec, args: [], env, size: 1, patience: 15_000, desk }, clock, log)
  const say = (height: number) => member?.say({ kind: 'height', network: 'x'.repeat(1000), height })
  const newest = () => heard.reduce((most, message) => message.kind === 'seen' ? Math.max(most, message.height) : most, 0)
  const worker = Object.values(cluster.workers ?? {})[0]
  if (worker === undefined) throw new Error('there is no worker')
  return { crew, worker, clock, log, say, heard, newest }
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
