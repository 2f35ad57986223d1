import t from 'tap'
import { Backoff } from '../../src/util/backoff.ts'
import { getOrCreate } from '../../src/util/get-or-create.ts'
import { parseHexQuantity, toHexQuantity } from '../../src/util/hex-quantity.ts'
import { isJsonObject } from '../../src/util/json.ts'
import { thenMaybe } from '../../src/util/maybe-promise.ts'
import { onAbort } from '../../src/util/on-abort.ts'
import { createSemaphore } from '../../src/util/semaphore.ts'
import { singleFlight } from '../../src/util/single-flight.ts'

t.test('a backoff doubles up to its maximum, and starts over after a reset', t => {
  const backoff = new Backoff({ minMs: 100, maxMs: 350 })
  t.same([backoff.next(), backoff.next(), backoff.next(), backoff.next()], [100, 200, 350, 350])
  backoff.reset()
  t.equal(backoff.next(), 100)
  t.end()
})

t.test('getOrCreate creates a value once per key', t => {
  const map = new Map<string, { key: string }>()
  const first = getOrCreate(map, 'a', key => ({ key }))
  t.equal(
    getOrCreate(map, 'a', () => ({ key: 'other' })),
    first,
  )
  t.same([...map], [['a', { key: 'a' }]])
  t.end()
})

t.test('hex quantities are written without leading zeros and read up to 2^53 - 1', t => {
  t.same([toHexQuantity(0), toHexQuantity(255), toHexQuantity(2n ** 64n)], ['0x0', '0xff', '0x10000000000000000'])
  t.same(['0x0', '0xFF', '0x00ff', '0x1fffffffffffff'].map(parseHexQuantity), [0, 255, 255, Number.MAX_SAFE_INTEGER])
  t.same(['', '0x', 'ff', '0xg', '0x20000000000000', 255, null].map(parseHexQuantity), Array(7).fill(undefined))
  t.end()
})

t.test('only {...} is a JSON object', t => {
  t.same([{}, { a: 1 }, [], null, 'x', 1, undefined].map(isJsonObject), [true, true, false, false, false, false, false])
  t.end()
})

t.test('thenMaybe is synchronous for a known value', async t => {
  t.equal(
    thenMaybe(1, value => value + 1),
    2,
  )
  const later = thenMaybe(Promise.resolve(1), value => value + 1)
  t.ok(later instanceof Promise)
  t.equal(await later, 2)
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

t.test('a semaphore runs so many at once, in order of arrival, and goes on after a failure', async t => {
  const semaphore = createSemaphore(2)
  const started: number[] = []
  const finish: (() => void)[] = []
  const run = (id: number) => {
    started.push(id)
    return new Promise<void>((resolve, reject) => finish.push(id === 0 ? () => reject(new Error('failed')) : resolve))
  }
  const runs = [0, 1, 2, 3].map(id => semaphore(() => run(id)).catch(() => id))
  t.same(started, [0, 1])
  finish[0]?.()
  t.equal(await runs[0], 0)
  await Promise.resolve()
  t.same(started, [0, 1, 2])
  finish[1]?.()
  finish[2]?.()
  await Promise.all([runs[1], runs[2]])
  await Promise.resolve()
  finish[3]?.()
  await runs[3]
  t.same(started, [0, 1, 2, 3])
})

t.test('calls during a flight share it, and the next call starts a new one', async t => {
  let runs = 0
  const shared = singleFlight(async () => (runs += 1))
  t.same(await Promise.all([shared(), shared()]), [1, 1])
  t.equal(await shared(), 2)
})
