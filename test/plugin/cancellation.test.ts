import { getMaxListeners } from 'node:events'
import t from 'tap'
import { Cancellation, toAbortSignal } from '../../src/plugin/cancellation.ts'

t.test('each listener hears once that nobody waits any more, and one that was taken away does not', t => {
  const leave = new Cancellation()
  const heard: string[] = []
  const listeners = ['a', 'b', 'c', 'd'].map(name => () => void heard.push(name))
  for (const listener of listeners) leave.addEventListener('abort', listener)
  leave.removeEventListener('abort', listeners[0]!)
  leave.removeEventListener('abort', listeners[2]!)
  t.equal(leave.aborted, false)
  leave.abort()
  leave.abort()
  t.equal(leave.aborted, true)
  t.same(heard.sort(), ['b', 'd'])
  t.end()
})

t.test('for libraries it becomes an AbortSignal, also when it has been aborted before', t => {
  const leave = new Cancellation()
  const signal = toAbortSignal(leave)
  t.equal(signal.aborted, false)
  leave.abort()
  t.equal(signal.aborted, true)
  t.equal(toAbortSignal(leave).aborted, true)
  const real = AbortSignal.abort()
  t.equal(toAbortSignal(real), real)
  t.end()
})

t.test('a signal becomes one AbortSignal however often it is asked for, as that of a socket is by all of its calls', t => {
  let listeners = 0
  class Counted extends Cancellation {
    override addEventListener(type: 'abort', listener: () => void): void {
      listeners += 1
      super.addEventListener(type, listener)
    }
  }
  const leave = new Counted()
  const signals = new Set(Array.from({ length: 1000 }, () => toAbortSignal(leave)))
  t.same([signals.size, listeners], [1, 1])
  const [signal] = signals
  t.equal(getMaxListeners(signal!), Infinity, 'Node does not warn of many calls that listen at once')
  leave.abort()
  t.equal(signal?.aborted, true)
  t.not(toAbortSignal(new Cancellation()), signal)
  t.end()
})
