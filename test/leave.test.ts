import t from 'tap'
import { Leave, toAbortSignal } from '../src/leave.ts'

t.test('each listener hears once that nobody waits any more, and one that was taken away does not', t => {
  const leave = new Leave()
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
  const leave = new Leave()
  const signal = toAbortSignal(leave)
  t.equal(signal.aborted, false)
  leave.abort()
  t.equal(signal.aborted, true)
  t.equal(toAbortSignal(leave).aborted, true)
  const real = AbortSignal.abort()
  t.equal(toAbortSignal(real), real)
  t.end()
})
