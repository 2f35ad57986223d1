import t from '../../support/tap.ts'
import { LateCalls } from '../../../plugins/failover/late-calls.ts'
import { LatencyTracker } from '../../../src/plugin/internal.ts'

t.test('late calls', async t => {
  const silentMs = 50

  t.test('make a node suspect when three in a row were late, and none was answered for long', async t => {
    const calls = new LateCalls(new LatencyTracker())
    calls.recordLate(0, 20)
    calls.recordLate(10, 30)
    t.notOk(calls.isSilent(100, silentMs), 'two')
    calls.recordLate(20, 40)
    t.notOk(calls.isSilent(49, silentMs), 'a short silence')
    t.ok(calls.isSilent(50, silentMs))
    calls.recordAnswer(0, 1000)
    t.notOk(calls.isSilent(1000, silentMs), 'an answer, however late')
  })

  t.test('make a node suspect when more than a third of them are late for half a second', async t => {
    const suspectAfterMs = (callsPerLateCall: number) => {
      const latency = new LatencyTracker()
      for (let i = 0; i < 200; i++) latency.record(0, 1)
      const calls = new LateCalls(latency)
      for (let ms = 0; ms < 5000; ms += 10) {
        if ((ms / 10) % callsPerLateCall === 0) calls.recordLate(ms, ms + 20)
        else calls.recordAnswer(ms - 1, ms)
        if (calls.isPartlySilent(ms)) return ms
      }
      return undefined
    }
    const halfMs = suspectAfterMs(2) ?? 0
    t.ok(halfMs > 500 && halfMs < 1000, `${halfMs}`)
    t.equal(suspectAfterMs(4), undefined)
  })

  t.test('make no node suspect whose latency is unknown, as fewer than 100 of its calls have been answered', async t => {
    const afterAnswers = (answerCount: number) => {
      const calls = new LateCalls(new LatencyTracker())
      for (let i = 0; i < answerCount; i++) calls.recordAnswer(0, 1)
      for (let i = 0; i < 32; i++) calls.recordLate(0, 20)
      return calls.isSuspect(10_000, silentMs)
    }
    t.notOk(afterAnswers(99))
    t.ok(afterAnswers(100))
  })
})
