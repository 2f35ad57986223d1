import type { Test } from 'tap'
import { neverExpires } from '../../src/store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../src/store/record-store.ts'
import { TestClock } from '../support/fakes.ts'

type OpenStore = (t: Test, clock: TestClock) => RecordStore | Promise<RecordStore>

/** Every engine keeps records of the portal in this way. */
export const recordStoreContract = async (t: Test, open: OpenStore): Promise<void> => {
  const record = (id: string, over: Partial<StoredRecord> = {}): StoredRecord => ({
    id,
    account: 'acc_1',
    value: { name: 'é"\n', list: [1, null] },
    expires: neverExpires,
    ...over,
  })

  t.test('a record is found by its kind and id, and replaced as a whole', async t => {
    const store = await open(t, new TestClock())
    await store.putRecord('token', record('a'))
    t.same(await store.findRecord('token', 'a'), record('a'))
    t.equal(await store.findRecord('session', 'a'), undefined)
    t.equal(await store.findRecord('token', 'b'), undefined)
    await store.putRecord('token', record('a', { value: 2 }))
    t.same(await store.findRecord('token', 'a'), record('a', { value: 2 }))
  })

  t.test('an expired record does not exist', async t => {
    const clock = new TestClock()
    const store = await open(t, clock)
    const expires = clock.now() + 5_000
    await store.putRecord('session', record('a', { expires }))
    t.same(await store.findRecord('session', 'a'), record('a', { expires }))
    clock.advance(5_000)
    t.equal(await store.findRecord('session', 'a'), undefined)
    t.same(await store.records('session', 'acc_1'), [])
    t.equal(await store.takeRecord('session', 'a'), undefined)
    t.equal(await store.addRecord('session', record('a')), true, 'its id is free again')
    t.same(await store.records('session', 'acc_1'), [record('a')])
  })

  t.test('a record is taken once, by one of several callers', async t => {
    const store = await open(t, new TestClock())
    await store.putRecord('sign-in-link', record('a'))
    const taken = await Promise.all([1, 2, 3].map(() => store.takeRecord('sign-in-link', 'a')))
    t.same(
      taken.filter(each => each !== undefined),
      [record('a')],
    )
    t.equal(await store.findRecord('sign-in-link', 'a'), undefined)
    t.same(await store.records('sign-in-link', 'acc_1'), [])
  })

  t.test('a record is replaced only as it was found: of two changes at once one is made, and none brings it back', async t => {
    const clock = new TestClock()
    const store = await open(t, clock)
    const found = record('a', { value: { count: 0 }, expires: clock.now() + 5_000 })
    await store.putRecord('person', found)
    const replaced = await Promise.all([1, 2].map(count => store.replaceRecord('person', found, { count })))
    t.same([...replaced].sort(), [false, true])
    const changed = { ...found, value: { count: replaced[0] ? 1 : 2 } }
    t.same(await store.findRecord('person', 'a'), changed)
    t.equal(await store.replaceRecord('person', changed, 'later', clock.now() + 9_000), true)
    clock.advance(8_000)
    const later = { ...found, value: 'later', expires: found.expires + 4_000 }
    t.same(await store.records('person', 'acc_1'), [later])
    clock.advance(1_000)
    t.equal(await store.replaceRecord('person', later, 'expired'), false)
    await store.putRecord('person', found)
    await store.takeRecord('person', 'a')
    t.equal(await store.replaceRecord('person', found, 'removed'), false)
    t.same([await store.findRecord('person', 'a'), await store.records('person', 'acc_1')], [undefined, []])
  })

  t.test('a record is added once', async t => {
    const store = await open(t, new TestClock())
    const added = await Promise.all([1, 2].map(value => store.addRecord('secret', record('a', { value }))))
    t.same([...added].sort(), [false, true])
    t.equal((await store.findRecord('secret', 'a'))?.value, added[0] ? 1 : 2)
  })

  t.test('several records are changed in one step: all of them, or none where one is not as it was found', async t => {
    const clock = new TestClock()
    const store = await open(t, clock)
    const [kept, removed, ending] = [record('kept'), record('removed'), record('ending', { expires: clock.now() + 1_000 })]
    for (const each of [kept, removed, ending]) await store.putRecord('person', each)
    const changes = (id: string) =>
      [
        { kind: 'email', id, record: record(id) },
        { kind: 'person', id: 'kept', found: kept, record: { ...kept, value: id } },
        { kind: 'person', id: 'removed', found: removed },
      ] as const
    const areMade = await Promise.all(['one', 'other'].map(id => store.changeRecords(changes(id))))
    t.same([...areMade].sort(), [false, true])
    const id = areMade[0] ? 'one' : 'other'
    t.same(await store.records('person', 'acc_1'), [ending, { ...kept, value: id }])
    t.same(await store.records('email', 'acc_1'), [record(id)])
    const last = { kind: 'person', id: 'kept', found: { ...kept, value: id }, record: kept } as const
    t.equal(await store.changeRecords([last, { kind: 'email', id, record: record(id) }]), false, 'one is there')
    t.equal(await store.changeRecords([last, { kind: 'person', id: 'removed', found: removed }]), false, 'one was removed')
    clock.advance(1_000)
    t.equal(await store.changeRecords([last, { kind: 'person', id: 'ending', found: ending }]), false, 'one has expired')
    const same = { kind: 'person', id: 'kept', found: { ...kept, value: id }, record: { ...kept, value: id } } as const
    t.equal(await store.changeRecords([last, { kind: 'email', id }]), false, 'there is one by now')
    t.equal(
      await store.changeRecords([
        { ...same, found: kept, record: kept },
        { kind: 'email', id: 'none' },
      ]),
      false,
      'one has changed',
    )
    t.equal(await store.changeRecords([same, { kind: 'email', id: 'none' }]), true, 'nothing has changed')
    t.same(await store.records('person', 'acc_1'), [{ ...kept, value: id }])
    t.equal(await store.changeRecords([last, { kind: 'person', id: 'ending', record: { ...ending, expires: neverExpires } }]), true)
    t.same(await store.records('person', 'acc_1'), [{ ...ending, expires: neverExpires }, kept])
  })

  t.test('the records of an account are listed by id', async t => {
    const store = await open(t, new TestClock())
    await store.putRecord('person', record('b'))
    await store.putRecord('person', record('a'))
    await store.putRecord('person', record('c', { account: 'acc_2' }))
    await store.putRecord('token', record('d'))
    t.same(await store.records('person', 'acc_1'), [record('a'), record('b')])
    t.same(await store.records('person', 'acc_2'), [record('c', { account: 'acc_2' })])
    t.same(await store.records('person', 'acc_9'), [])
  })

  t.test('many expired records do not stay behind', async t => {
    const clock = new TestClock()
    const store = await open(t, clock)
    for (let i = 0; i < 120; i += 1) await store.putRecord('session', record(`s${i}`, { expires: clock.now() + 1_000 }))
    clock.advance(1_000)
    await store.putRecord('session', record('last'))
    t.same(await store.records('session', 'acc_1'), [record('last')])
  })
}
