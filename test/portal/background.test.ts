import t from '../support/tap.ts'
import { openAfterStart } from '../../src/portal/background.ts'
import { deferred } from '../support/deferred.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('a task is opened after the start, and again where that failed', async t => {
  const [clock, log] = [new TestClock(), new TestLog()]
  const events: string[] = []
  const background = openAfterStart({
    ...{ name: 'alerts', clock, log },
    async open() {
      events.push('open')
      if (events.length < 3) throw new Error('EMFILE')
      return { stop: async () => void events.push('stop') }
    },
  })
  t.same(events, [])
  clock.advance(1_000)
  await waitUntil(() => clock.advance(1_000) ?? events.length === 3)
  await background.stop()
  t.same(events, ['open', 'open', 'open', 'stop'])
  t.match(log.lines, [{ level: 'warn', fields: { event: 'background-failed', err: { message: 'EMFILE' } } }])
  t.equal(log.lines.length, 1, 'the second failure is no line')
})

t.test('a task that is needed before is opened once; one that is stopped before never', async t => {
  const [clock, log] = [new TestClock(), new TestLog()]
  let opened = 0
  const open = async () => ({ number: (opened += 1), stop: async () => undefined })
  const needed = openAfterStart({ name: 'alerts', clock, log, open })
  t.equal((await needed.whenOpen()).number, 1)
  clock.advance(1_000)
  t.equal((await needed.whenOpen()).number, 1)
  await needed.stop()
  const stopped = openAfterStart({ name: 'alerts', clock, log, open })
  await stopped.stop()
  clock.advance(1_000)
  t.equal(opened, 1)
})

t.test('a task that is opening while it is stopped is stopped once', async t => {
  const [clock, log] = [new TestClock(), new TestLog()]
  const opening = deferred()
  let stopped = 0
  const open = async () => {
    await opening.promise
    return { stop: async () => void (stopped += 1) }
  }
  const background = openAfterStart({ name: 'alerts', clock, log, open })
  clock.advance(1_000)
  const whenStopped = background.stop()
  opening.resolve()
  await whenStopped
  t.equal(stopped, 1)
})
