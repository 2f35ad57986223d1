import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import t from '../support/tap.ts'
import { cutJson } from '../../src/util/cut-json.ts'
import { describeReadError } from '../../src/util/files.ts'
import { isJsonObject, parseHexQuantity, toHexQuantity } from '../../src/util/json.ts'
import type { Json } from '../../src/util/json.ts'
import { latencyBucketOf, latencyQuantile } from '../../src/util/latency-buckets.ts'
import { diffLines } from '../../src/util/line-diff.ts'
import { deepFreeze, getOrCreate, memoizeFrozen } from '../../src/util/memoize.ts'
import { RecentMap } from '../../src/util/recent-map.ts'
import { ShortLivedMap } from '../../src/util/short-lived-map.ts'
import { TimeLimitError, callWithTimeLimit } from '../../src/util/time-limit.ts'
import { addVector } from '../../src/util/vectors.ts'

t.test('what is found out about a frozen value is found once, and frozen through and through', t => {
  let times = 0
  const find = memoizeFrozen(([first]: readonly number[]) => ({ times: (times += 1), list: [{ first }] }))
  const params = deepFreeze([7])
  const found = find(params)
  t.equal(find(params), found)
  t.equal(found.times, 1)
  t.ok([found, found.list, found.list[0]].every(Object.isFrozen))
  t.equal(find(deepFreeze([7])).times, 2, 'another value is another question')
  t.end()
})

t.test('about a value that may change, and where nothing was found, it is looked for each time', t => {
  let times = 0
  const find = memoizeFrozen((params: readonly number[]) => ((times += 1), params.find(each => each > 5)))
  for (const params of [[7], deepFreeze([1])]) {
    t.equal(find(params), find(params))
    t.equal(times, 2)
    times = 0
  }
  t.end()
})

t.test('bytes may be found out too, which cannot be frozen', t => {
  t.equal(memoizeFrozen(() => Buffer.from('ü'))(deepFreeze([1, 2])).length, 2)
  t.end()
})

t.test('of many names those asked for lately have their value still, and those in use', t => {
  let created = 0
  const map = new RecentMap(
    10,
    () => ({ number: (created += 1), isInUse: false }),
    ({ isInUse }) => isInUse,
  )
  const [used, recent, idle] = ['used', 'recent', 'idle'].map(name => map.get(name))
  used!.isInUse = true
  for (let i = 0; i < 1_000; i += 1) {
    map.get(`name ${i}`)
    t.equal(map.get('recent'), recent)
  }
  t.equal(map.get('used'), used)
  t.equal(map.get('name 999').number, 1_003)
  t.not(map.get('idle'), idle)
  used!.isInUse = false
  for (let i = 0; i < 40; i += 1) map.get(`other ${i}`)
  t.not(map.get('used'), used)
  t.end()
})

t.test('what is in use stays, however many are', t => {
  const map = new RecentMap(
    10,
    () => ({}),
    () => true,
  )
  const values = Array.from({ length: 1_000 }, (_, i) => map.get(`${i}`))
  t.ok(values.every((value, i) => map.get(`${i}`) === value))
  t.end()
})

t.test('a map for short-lived values keeps what a Map keeps', t => {
  const key = fc.integer({ min: 0, max: 5 })
  const step = fc.oneof(fc.record({ key, value: fc.integer() }), fc.record({ key }))
  fc.assert(
    fc.property(fc.array(step), steps => {
      const map = new Map<number, number>()
      const shortLived = new ShortLivedMap<number, number>()
      for (const { key, ...set } of steps) {
        map.delete(key)
        shortLived.delete(key)
        if (!('value' in set)) continue
        map.set(key, set.value)
        shortLived.set(key, set.value)
      }
      t.same(shortLived.values(), [...map.values()])
      t.equal(shortLived.size, map.size)
      for (let each = 0; each <= 5; each += 1) t.equal(shortLived.get(each), map.get(each))
    }),
  )
  t.end()
})

/** Bytes of the old generation, which only a full collection frees. */
const oldBytes = (): number => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'old_space')?.space_used_size ?? 0

t.test('what a map for short-lived values has lost is collected with the young generation', t => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void // V8's own
  setFlagsFromString('--no-expose-gc')
  const oldBytesAfter = (map: Map<number, object> | ShortLivedMap<number, object>): number => {
    for (let i = 0; i < 32; i += 1) map.set(i, {})
    collect()
    collect()
    const before = oldBytes()
    for (let i = 32; i < 20_000; i += 1) {
      map.set(
        i,
        Array.from({ length: 100 }, () => i),
      )
      map.delete(i - 32)
    }
    return oldBytes() - before
  }
  const bytes = oldBytesAfter(new ShortLivedMap())
  t.ok(bytes < 4e6, `${bytes} of 16 MB are old`)
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

t.test('a file that may not be read names the user who needs the permission', t => {
  t.match(
    describeReadError(Object.assign(new Error('x'), { code: 'EACCES' })),
    /^the file cannot be read: permission denied; let (user \S+|uid \d+) read it$/,
  )
  t.equal(describeReadError(Object.assign(new Error('x'), { code: 'ENOENT' })), 'no such file')
  t.end()
})

t.test('JSON is cut where it is too long: its text is the beginning of the whole one, in ASCII', t => {
  const toAscii = (text: string) => text.replace(/[^ -~]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.nat(200), (value, maxChars) => {
      const whole = toAscii(JSON.stringify(value))
      const { text, isCut } = cutJson(value as Json, maxChars)
      t.equal(isCut, whole.length > maxChars, whole)
      t.equal(text, whole.slice(0, maxChars))
    }),
    { numRuns: 2_000 },
  )
  t.end()
})

t.test('a quantile of latencies is at most 19 % off, also of merged ones', t => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0.2, max: 80_000, noNaN: true }), { minLength: 1 }),
      fc.constantFrom(0.5, 0.95),
      (latencies, quantile) => {
        const halves = [latencies.slice(0, latencies.length / 2), latencies.slice(latencies.length / 2)]
        const merged: number[] = []
        for (const half of halves) {
          const buckets: number[] = []
          for (const latency of half) {
            while (buckets.length <= latencyBucketOf(latency)) buckets.push(0)
            buckets[latencyBucketOf(latency)]! += 1
          }
          addVector(merged, buckets)
        }
        const exact = [...latencies].sort((a, b) => a - b)[Math.ceil(quantile * latencies.length) - 1] ?? 0
        const estimated = latencyQuantile(merged, quantile) ?? 0
        t.ok(estimated / exact < 1.1893 && exact / estimated < 1.1893, `${estimated} for ${exact}`)
      },
    ),
  )
  t.equal(latencyQuantile([], 0.5), null)
  t.ok((latencyQuantile([3], 0.5) ?? 1) <= 0.1)
  t.equal(latencyBucketOf(1e9), 79)
  t.end()
})

const linesOf = (before: string, after: string, context = Infinity) =>
  diffLines(before, after, context).map(line => line && `${line.kind[0]} ${line.text}`)

t.test('lines that both texts have in the same order are the same', async t => {
  t.same(linesOf('a\nb\nc\n', 'a\nx\nc\n'), ['s a', 'r b', 'a x', 's c'])
  t.same(linesOf('a\nb\nc\nd', 'b\nd\ne'), ['r a', 's b', 'r c', 'r d', 'a d', 'a e'], 'the last line has no line break')
})

t.test('each text is what the other has not, and what is the same', async () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 12 }).map(lines => lines.map(line => `${line}\n`).join(''))
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after, Infinity)
      const of = (kind: string) => lines.map(each => (each?.kind === 'same' || each?.kind === kind ? `${each.text}\n` : '')).join('')
      return before === after ? lines.length === 0 : of('removed') === before && of('added') === after
    }),
  )
})

t.test('where thousands of lines differ, one text follows the other', async t => {
  const text = (of: string) => Array.from({ length: 1_000 }, (_, i) => `${of}${i}\n`).join('')
  const lines = linesOf(text('before'), text('after'))
  t.same([lines.length, lines[0], lines[999], lines[1_000], lines[1_999]], [2_000, 'r before0', 'r before999', 'a after0', 'a after999'])
  t.same(linesOf('', text('new')).length, 1_000)
})

t.test('what is far from a difference is left out, once between two', async t => {
  const before = 'a\nb\nc\nd\ne\nf\ng\n'
  const shown = (after: string) => diffLines(before, after, 1).map(line => line?.text ?? null)
  t.same(shown(before), [])
  t.same(shown('a\nb\nc\nd\ne\nf\nx\n'), ['f', 'g', 'x'])
  t.same(shown('x\nb\nc\nd\ne\nf\ny\n'), ['a', 'x', 'b', null, 'f', 'g', 'y'])
})

t.test('a function that never returns is ended, and can neither catch that nor clean up', t => {
  let isCleanedUp = false
  const loop = (): void => {
    try {
      while (!isCleanedUp) {}
    } finally {
      isCleanedUp = true
    }
  }
  t.throws(() => callWithTimeLimit(10, loop), new TimeLimitError('has not returned after 0.01 s'))
  t.equal(isCleanedUp, false)
  t.equal(
    callWithTimeLimit(1_000, () => 7),
    7,
  )
  t.end()
})
