import t from '../support/tap.ts'
import { ListeningEnd } from '../../src/cluster/listening-end.ts'
import type { WorkerChannel } from '../../src/cluster/worker-messages.ts'
import { TestClock } from '../support/fakes.ts'
import { connectWorker } from '../support/worker-channel.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('listening ends when all workers hold new connections, and after a second without one that does not', async t => {
  const clock = new TestClock()
  const fakeWorkers = ['one', 'two', 'stopped'].map(name => ({ name, replyCount: 0, channel: connectWorker(clock).worker }))
  const [one, two, stopped] = fakeWorkers as [(typeof fakeWorkers)[0], (typeof fakeWorkers)[0], (typeof fakeWorkers)[0]]
  const answered = () => fakeWorkers.filter(({ replyCount }) => replyCount > 0).map(({ name }) => name)
  const open = (workers: readonly (typeof one)[]) => {
    for (const worker of fakeWorkers) worker.replyCount = 0
    let endCount = 0
    const connections = { endListening: async () => void (endCount += 1) }
    const channels = (): readonly WorkerChannel[] => workers.map(({ channel }) => channel)
    const end = new ListeningEnd({ connections, workers: channels, clock })
    const add = (worker: typeof one) => end.add(worker.channel, () => void (worker.replyCount += 1))
    return { add, checkWorkers: () => end.checkWorkers(), endCount: () => endCount }
  }
  const both = open([one, two])
  both.add(one)
  clock.advance(900)
  t.same([both.endCount(), answered()], [0, []])
  both.add(two)
  await waitUntil(() => two.replyCount > 0)
  t.same([both.endCount(), answered()], [1, ['one', 'two']])
  t.equal(one.replyCount, 1)

  const late = open([one, two, stopped])
  late.add(one)
  late.add(two)
  clock.advance(1_000)
  await waitUntil(() => two.replyCount > 0)
  t.same([late.endCount(), answered()], [1, ['one', 'two']])
  late.add(stopped)
  await waitUntil(() => stopped.replyCount > 0)
  t.same([late.endCount(), answered()], [1, ['one', 'two', 'stopped']], 'it is answered when it asks')

  const serving = [one, two]
  const exited = open(serving)
  exited.add(one)
  serving.pop()
  exited.checkWorkers()
  await waitUntil(() => one.replyCount > 0)
  t.same([exited.endCount(), answered()], [1, ['one']], 'nobody waits for a worker that has exited')
})
