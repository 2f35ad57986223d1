import t from '../support/tap.ts'
import { openSingletons } from '../../src/core/singletons.ts'
import { Secret } from '../../src/plugin/secret.ts'

/** Makes objects that write down when they are closed. */
const openRecorder = () => {
  const closed: string[] = []
  const make = (name: string) => () => ({ name, close: async () => void closed.push(name) })
  return { closed, make }
}

t.test('another text of a secret is another setting', async t => {
  const references = openSingletons().newReferences()
  const get = (url: string) => references.get('node', { url: new Secret(url), weight: undefined }, () => ({ url }))
  t.equal(get('http://a'), get('http://a'))
  t.not(get('http://b'), get('http://a'))
})

t.test('the same name and settings give the same object, in one pipeline and in two', t => {
  const singletons = openSingletons()
  const [one, other] = [singletons.newReferences(), singletons.newReferences()]
  const made = one.get('cache', { size: 1 }, () => ({}))
  for (const references of [one, other]) {
    const again = references.get('cache', { size: 1 }, () => t.fail('it is there'))
    t.equal(again, made)
  }
  t.end()
})

t.test('other settings or another name give another object', t => {
  const references = openSingletons().newReferences()
  const made = [
    references.get('cache', { size: 1 }, () => ({})),
    references.get('cache', { size: 2 }, () => ({})),
    references.get('cache', null, () => ({})),
    references.get('breaker', { size: 1 }, () => ({})),
  ]
  t.equal(new Set(made).size, made.length)
  t.end()
})

t.test('any value is made once, undefined too', t => {
  const references = openSingletons().newReferences()
  let made = 0
  for (let i = 0; i < 3; i += 1) references.get('nothing', null, () => void (made += 1))
  t.equal(made, 1)
  t.end()
})

t.test('an object that could not be made is made by the next who asks', t => {
  const references = openSingletons().newReferences()
  const fail = () => {
    throw new Error('no memory')
  }
  t.throws(() => references.get('cache', null, fail), /no memory/)
  t.equal(
    references.get('cache', null, () => 1),
    1,
  )
  t.end()
})

t.test('release', async t => {
  t.test('closes what no other pipeline refers to, once, and makes it anew next time', async t => {
    const singletons = openSingletons()
    const { closed, make } = openRecorder()
    const [one, other] = [singletons.newReferences(), singletons.newReferences()]
    const shared = one.get('shared', null, make('shared'))
    other.get('shared', null, make('shared'))
    one.get('own', null, make('own'))
    await one.release()
    await one.release()
    t.same(closed, ['own'])
    t.equal(singletons.newReferences().get('shared', null, make('second')), shared, 'it is still in use')
    await other.release()
    t.same(closed, ['own'], 'the third pipeline uses it')
  })

  t.test('closes the object made last first, and waits for each', async t => {
    const references = openSingletons().newReferences()
    const events: string[] = []
    const make = (name: string) => () => ({
      close: async () => {
        events.push(`${name} closes`)
        await null
        events.push(`${name} closed`)
      },
    })
    references.get('first', null, make('first'))
    references.get('second', null, make('second'))
    await references.release()
    t.same(events, ['second closes', 'second closed', 'first closes', 'first closed'])
  })

  t.test('calls stop() of an object without close(), and leaves the others alone', async t => {
    const references = openSingletons().newReferences()
    const calls: string[] = []
    references.get('both', null, () => ({ close: () => calls.push('close'), stop: () => calls.push('stop') }))
    references.get('stops', null, () => ({ stop: () => calls.push('stop') }))
    references.get('neither', null, () => new Map())
    references.get('null', null, () => null)
    references.get('text', null, () => 'text')
    await references.release()
    t.same(calls, ['stop', 'close'])
  })

  t.test('closes the rest when an object fails, and says so', async t => {
    const references = openSingletons().newReferences()
    const { closed, make } = openRecorder()
    references.get('fine', null, make('fine'))
    references.get('rejects', null, () => ({ close: () => Promise.reject(new Error('busy')) }))
    references.get('throws', null, () => ({
      close: () => {
        throw new Error('bug')
      },
    }))
    await t.rejects(references.release(), { errors: [{ message: 'bug' }, { message: 'busy' }] })
    t.same(closed, ['fine'])
  })

  t.test('an object that is being closed is not handed out', async t => {
    const singletons = openSingletons()
    const { make } = openRecorder()
    const references = singletons.newReferences()
    const old = references.get('cache', null, make('old'))
    const released = references.release()
    t.not(singletons.newReferences().get('cache', null, make('new')), old)
    await released
  })

  t.test('ends the references: a stage that asks after that has a bug', async t => {
    const references = openSingletons().newReferences()
    await references.release()
    t.throws(() => references.get('cache', null, () => ({})), /cache was requested by a pipeline that has been stopped/)
  })
})
