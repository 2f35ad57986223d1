import t from '../support/tap.ts'
import keyAuth from '../../plugins/key-auth.ts'
import type { Origin } from '../../src/plugin/call.ts'
import { isFailure } from '../../src/plugin/reply.ts'
import { Secret } from '../../src/plugin/secret.ts'
import type { Lookup } from '../../src/services/index.ts'
import {
  TestClock,
  createStage,
  failureOf,
  fakeAccount,
  fakeCall,
  fakeKey,
  fakeOrigin,
  fakeResult,
  unreachableNext,
  valueOrErrorCode,
} from '../support/fakes.ts'

t.test('key-auth', async t => {
  const createKeyAuth = (lookup: Lookup | Promise<Lookup>) => createStage(keyAuth, {}, { accounts: { find: () => lookup } })
  const originWithKey = (over: Partial<Origin> = {}) => fakeOrigin({ key: new Secret('tg_x'), ...over })

  t.test('writes the key and the account into the context', async t => {
    const reply = await createKeyAuth({ kind: 'granted', key: fakeKey, account: fakeAccount }).handle(
      { ...fakeCall('m'), origin: originWithKey() },
      async call => fakeResult([call.context.key.id, call.context.account.id]),
    )
    t.same(valueOrErrorCode(reply), ['key_1', 'acc_1'])
  })

  for (const [kind, message] of [
    ['malformed', /malformed/],
    ['unknown', /unknown/],
    ['revoked', /revoked/],
    ['suspended', /suspended/],
    ['expired', /expired/],
  ] as const) {
    t.test(`refuses a ${kind} key with 401 -32090 and the reason, before the body and for each message`, async t => {
      const { admit, handle } = createKeyAuth({ kind })
      const origin = originWithKey()
      for (const reply of [await admit?.(origin), failureOf(await handle({ ...fakeCall('m'), origin }, unreachableNext))]) {
        t.match(reply, { status: 401, error: { code: -32090, message }, source: 'gateway' })
      }
    })
  }

  t.test('refuses a missing key with 401', async t => {
    t.match(await createKeyAuth({ kind: 'unknown' }).admit?.(fakeOrigin()), { status: 401, error: { message: /missing/ } })
  })

  t.test('refuses with 503, not 401, when the store is unreachable', async t => {
    t.match(await createKeyAuth(Promise.resolve({ kind: 'storeUnavailable' } as const)).admit?.(originWithKey()), {
      status: 503,
      error: { code: -32002 },
    })
  })

  t.test('looks a key up once per HTTP request, and for each message of a WebSocket', async t => {
    const openRequest = (transport: Origin['transport'], result: (lookups: number) => Lookup | Promise<Lookup>) => {
      let lookups = 0
      const clock = new TestClock()
      const { admit, handle } = createStage(keyAuth, {}, { clock, accounts: { find: () => result(++lookups) } })
      const origin = originWithKey({ transport })
      const call = async () => {
        const reply = await handle({ ...fakeCall('m'), origin }, async () => fakeResult('ok'))
        return isFailure(reply) ? reply.kind : 'ok'
      }
      return { clock, call, admit: async () => (await admit?.(origin))?.kind, lookups: () => lookups }
    }
    const granted: Lookup = { kind: 'granted', key: fakeKey, account: fakeAccount }
    const revokedLater = (lookups: number): Lookup => (lookups === 1 ? granted : { kind: 'revoked' })

    t.test('one call', async t => {
      for (const result of [() => granted, async () => granted]) {
        const { admit, call, lookups } = openRequest('http', result)
        t.equal(await admit(), undefined)
        t.equal(await call(), 'ok')
        t.equal(lookups(), 1)
      }
    })

    t.test('a batch', async t => {
      const { admit, call, lookups } = openRequest('http', () => granted)
      await admit()
      t.same(await Promise.all([call(), call(), call()]), ['ok', 'ok', 'ok'])
      t.equal(lookups(), 1)
    })

    t.test('again when the body takes longer than 400 ms: a key revoked meanwhile is refused', async t => {
      const { admit, call, clock, lookups } = openRequest('http', revokedLater)
      await admit()
      clock.advance(399)
      t.equal(await call(), 'ok')
      clock.advance(1)
      t.equal(await call(), 'key')
      t.equal(lookups(), 2)
    })

    t.test('a WebSocket', async t => {
      const { admit, call, lookups } = openRequest('websocket', revokedLater)
      t.equal(await admit(), undefined)
      t.equal(await call(), 'key')
      t.equal(await call(), 'key')
      t.equal(lookups(), 3)
    })
  })
})
