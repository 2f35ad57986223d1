import t from '../support/tap.ts'
import { ListeningEnd } from '../../src/cluster/listening-end.ts'
import type { PrimaryMessage, WorkerChannel } from '../../src/cluster/worker-messages.ts'
import { TestClock } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'

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
