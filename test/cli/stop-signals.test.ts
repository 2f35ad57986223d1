import t from '../support/tap.ts'
import { runUntilSignal } from '../../src/cli/stop-signals.ts'
import type { StopSignal } from '../../src/cli/stop-signals.ts'
import { TestClock } from '../support/fakes.ts'

const signals = ['SIGINT', 'SIGTERM'] as const

/** As the kernel does it, for this process alone: those who were there `before` are not told. */
const listenersSince = (before: ReadonlySet<unknown>, signal: StopSignal) =>
  process.listeners(signal).filter(listener => !before.has(listener))

const listenersOf = (signal: StopSignal): ReadonlySet<unknown> => new Set(process.listeners(signal))

t.test('signals are handled as before once a run has ended without one', async t => {
  const before = signals.map(listenersOf)
  const countNew = () => signals.map((signal, i) => listenersSince(before[i]!, signal).length)
  const run = async () => {
    t.same(countNew(), [1, 1])
    return 7
  }
  t.equal(await runUntilSignal(signals, run), 7)
  t.same(countNew(), [0, 0])
  await t.rejects(
    runUntilSignal(signals, () => Promise.reject(new Error('cannot serve'))),
    { message: 'cannot serve' },
  )
  t.same(countNew(), [0, 0])
})

t.test('a duplicate of the signal that has ended a run does not end the process, also when it comes after the run', async t => {
  const before = listenersOf('SIGINT')
  const send = () => listenersSince(before, 'SIGINT').forEach(listener => listener('SIGINT'))
  const clock = new TestClock()
  const run = async (stopRequested: Promise<StopSignal>) => {
    send()
    return (await stopRequested) === 'SIGINT' ? 0 : 1
  }
  t.equal(await runUntilSignal(['SIGINT'], run, clock), 0)
  const handlers = listenersSince(before, 'SIGINT')
  t.teardown(() => handlers.forEach(handler => process.off('SIGINT', handler)))
  t.equal(handlers.length, 1, 'without a handler it would end the process with another exit code')
  clock.advance(999)
  send()
})
