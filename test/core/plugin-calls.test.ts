import t from '../support/tap.ts'
import { PluginCalls } from '../../src/core/plugin-calls.ts'
import { TestClock } from '../../src/testing/test-clock.ts'
import { TestLog } from '../../src/testing/test-log.ts'

const file = { path: '/etc/tollgate/slow.js', shownAs: 'plugins/slow.js' }
const slow = { network: 'net', name: 'slow', file, timeoutMs: 60_000 }
const other = { network: 'net', name: 'other', file, timeoutMs: 60_000 }

const openCalls = () => {
  const [clock, log] = [new TestClock(), new TestLog()]
  const calls = new PluginCalls(clock, log)
  const blame = () => log.lines.map(({ fields }) => fields)
  return { clock, calls, blame }
}

const never = new Promise<string>(() => undefined)
const ignore = (): void => undefined

t.test('a plugin that blocks the event loop for a second is named in the log', async t => {
  const { clock, calls, blame } = openCalls()
  calls.run(slow, () => clock.stall(999))
  t.same(blame(), [])
  calls.run(slow, () => clock.stall(8_000))
  t.match(blame(), [{ event: 'event-loop-blocked', network: 'net', plugin: 'slow', location: 'plugins/slow.js', durationMs: 8_000 }])
})

t.test('what blocks below a plugin is not its doing', async t => {
  const { clock, calls, blame } = openCalls()
  calls.run(slow, () => {
    calls.run(undefined, () => clock.stall(5_000))
    calls.run(undefined, () => calls.run(other, () => clock.stall(2_000)))
  })
  t.match(blame(), [{ plugin: 'other', durationMs: 2_000 }])
  calls.run(slow, () => {
    calls.run(undefined, () => undefined)
    clock.stall(3_000)
  })
  t.match(blame()[1], { plugin: 'slow', durationMs: 3_000 }, 'what it does after next() is')
})

t.test('a plugin that blocks once it has the reply from below is named', async t => {
  const { clock, calls, blame } = openCalls()
  const [blocking, innocent] = [calls.newCall(slow), calls.newCall(other)]
  for (const call of [blocking, innocent]) call.beginBelow()
  const reply = Promise.resolve()
  const steps = [() => blocking.endBelow(), () => clock.stall(4_000), () => innocent.endBelow()].map(step => reply.then(step))
  await Promise.all(steps)
  clock.stall(10_000)
  calls.run(other, ignore)
  t.match(blame(), [{ plugin: 'slow', durationMs: 4_000 }], 'an idle process is not blocked')
})

t.test('a call is not waited for when the plugin has not answered for its time', async t => {
  const { clock, calls } = openCalls()
  const late: string[] = []
  let answer: (text: string) => void = ignore
  const waiting = calls.newCall(slow).wait(new Promise<string>(resolve => (answer = resolve)), text => late.push(text))
  waiting.catch(ignore)
  clock.advance(60_000)
  t.equal(await Promise.race([waiting, Promise.resolve('waits')]), 'waits')
  clock.advance(1_000)
  await t.rejects(waiting, { message: 'no answer for 60 s' })
  answer('too late')
  await new Promise(setImmediate)
  t.same(late, ['too late'])
})

t.test('time that the plugins below take is not counted', async t => {
  const { clock, calls } = openCalls()
  const call = calls.newCall(slow)
  const waiting = call.wait(never, ignore)
  waiting.catch(ignore)
  call.beginBelow()
  clock.advance(300_000)
  call.endBelow()
  clock.advance(60_000)
  t.equal(await Promise.race([waiting, Promise.resolve('waits')]), 'waits')
  clock.advance(1_000)
  await t.rejects(waiting, { message: 'no answer for 60 s' })
})

t.test('nothing runs while no call is with a plugin', async t => {
  const { clock, calls } = openCalls()
  t.equal(clock.timerCount, 0)
  t.equal(await calls.newCall(slow).wait(Promise.resolve('answer'), ignore), 'answer')
  t.equal(clock.timerCount, 1)
  clock.advance(1_000)
  t.equal(clock.timerCount, 0)
})
