import { getMaxListeners } from 'node:events'
import t from '../support/tap.ts'
import { Cancellation, onAbort, toAbortSignal } from '../../src/plugin/call.ts'

t.test('each listener is called once, and a removed listener is not', t => {
  const cancellation = new Cancellation()
  const called: string[] = []
  const listeners = ['a', 'b', 'c', 'd'].map(name => () => void called.push(name))
  for (const listener of listeners) cancellation.addEventListener('abort', listener)
  cancellation.removeEventListener('abort', listeners[0]!)
  cancellation.removeEventListener('abort', listeners[2]!)
  t.equal(cancellation.aborted, false)
  cancellation.abort()
  cancellation.abort()
  t.equal(cancellation.aborted, true)
  t.same(called.sort(), ['b', 'd'])
  t.end()
})

t.test('a listener that throws keeps neither the others nor what aborts from running', async t => {
  const cancellation = new Cancellation()
  let called = 0
  const bug = new Error('in a listener')
  cancellation.addEventListener('abort', () => {
    throw bug
  })
  cancellation.addEventListener('abort', () => void (called += 1))
  const rejection = new Promise(resolve => process.once('unhandledRejection', resolve))
  cancellation.abort()
  t.equal(called, 1)
  t.equal(await rejection, bug)
})

t.test('it becomes an AbortSignal, also when it is aborted already', t => {
  const cancellation = new Cancellation()
  const signal = toAbortSignal(cancellation)
  t.equal(signal.aborted, false)
  cancellation.abort()
  t.equal(signal.aborted, true)
  t.equal(toAbortSignal(cancellation).aborted, true)
  const abortSignal = AbortSignal.abort()
  t.equal(toAbortSignal(abortSignal), abortSignal)
  t.end()
})

t.test('a signal always becomes the same AbortSignal, as all calls of a WebSocket share one', t => {
  let listeners = 0
  class Counted extends Cancellation {
    override addEventListener(type: 'abort', listener: () => void): void {
      listeners += 1
      super.addEventListener(type, listener)
    }
  }
  const cancellation = new Counted()
  const signals = new Set(Array.from({ length: 1000 }, () => toAbortSignal(cancellation)))
  t.same([signals.size, listeners], [1, 1])
  const [signal] = signals
  t.equal(getMaxListeners(signal!), Infinity, 'Node.js does not warn of many listeners')
  cancellation.abort()
  t.equal(signal?.aborted, true)
  t.not(toAbortSignal(new Cancellation()), signal)
  t.end()
})

t.test('onAbort calls once, also for a signal that has aborted already, and never after it was removed', t => {
  let calls = 0
  const count = () => void (calls += 1)
  const controller = new AbortController()
  onAbort(controller.signal, count)
  const remove = onAbort(controller.signal, () => void (calls += 10))
  remove()
  controller.abort()
  t.equal(calls, 1)
  onAbort(controller.signal, count)
  t.equal(calls, 2)
  t.end()
})
