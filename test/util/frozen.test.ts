import t from 'tap'
import { deepFreeze, memoizeFrozen } from '../../src/util/frozen.ts'

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
