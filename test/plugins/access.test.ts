import t from 'tap'
import credits from '../../plugins/credits.ts'
import envelope from '../../plugins/envelope.ts'
import keyAuth from '../../plugins/key-auth.ts'
import networkAccess from '../../plugins/network-access.ts'
import type { Json, Origin } from '../../src/plugin/call.ts'
import { isFailure, refuse } from '../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../src/plugin/reply.ts'
import { Secret } from '../../src/plugin/secret.ts'
import type { CountedCall, Lookup, MethodTable, ChargeResult } from '../../src/services/index.ts'
import {
  TestClock,
  account,
  fakeCall,
  key,
  unreachableNext,
  fakeOrigin,
  fakeResult,
  valueOrErrorCode,
  createStage,
} from '../support/fakes.ts'

const failure = (reply: Reply): Failure => {
  if (!isFailure(reply)) throw new Error('expected a failure')
  return reply
}

t.test('envelope', async t => {
  const good = { jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] }
  const ask = (message: Json, strict = false): Promise<Reply> =>
    createStage(envelope, { strict }).handle({ ...fakeCall('x'), message }, async c => fakeResult(c.context.request.params as Json))

  t.test('passes method and params on as a note', async t => {
    t.same(valueOrErrorCode(await ask({ ...good, params: ['0x1'] })), ['0x1'])
  })

  for (const [what, change, plain, strict] of [
    ['jsonrpc is missing', { jsonrpc: undefined }, -32600, -32600],
    ['jsonrpc is the number 2', { jsonrpc: 2 }, -32600, -32600],
    ['jsonrpc is 1.0', { jsonrpc: '1.0' }, -32600, -32600],
    ['method is missing', { method: undefined }, -32600, -32600],
    ['method is a number', { method: 1 }, -32600, -32600],
    ['params is missing', { params: undefined }, [], -32600],
    ['params is null', { params: null }, [], -32600],
    ['params is an object', { params: {} }, -32602, -32600],
    ['params is a string', { params: 'a' }, -32602, -32600],
    ['id is 0', { id: 0 }, [], []],
    ['id is a string', { id: 'a' }, [], -32600],
    ['id is null', { id: null }, [], -32600],
    ['id is missing', { id: undefined }, [], -32600],
    ['id is true', { id: true }, -32600, -32600],
    ['id is an object', { id: {} }, -32600, -32600],
    ['id is an array', { id: [] }, -32600, -32600],
    ['there is another member', { extra: 1 }, [], []],
  ] as const) {
    t.test(`when ${what}: by default ${JSON.stringify(plain)}, strictly ${JSON.stringify(strict)}`, async t => {
      const message = JSON.parse(JSON.stringify({ ...good, ...change })) as Json // undefined members fall out
      t.same(valueOrErrorCode(await ask(message)), plain)
      t.same(valueOrErrorCode(await ask(message, true)), strict)
    })
  }

  t.test('refuses what is not an object, naming what it must be', async t => {
    for (const junk of [1, 'a', null, true, []]) {
      const reply = failure(await ask(junk))
      t.equal(reply.error.code, -32600)
      t.match(reply.error.message, /^invalid request: it must be an object/)
    }
  })
})

t.test('key-auth', async t => {
  const stage = (lookup: Lookup | Promise<Lookup>) => createStage(keyAuth, {}, { accounts: { find: () => lookup } })
  const originWithKey = (over: Partial<Origin> = {}) => fakeOrigin({ key: new Secret('tg_x'), ...over })

  t.test('tells plugins below it the key and the account', async t => {
    const reply = await stage({ kind: 'granted', key, account }).handle({ ...fakeCall('m'), origin: originWithKey() }, async c =>
      fakeResult([c.context.key.id, c.context.account.id]),
    )
    t.same(valueOrErrorCode(reply), ['key_1', 'acc_1'])
  })

  for (const [kind, words] of [
    ['malformed', /malformed/],
    ['unknown', /unknown/],
    ['revoked', /revoked/],
  ] as const) {
    t.test(`refuses a ${kind} key with 401 -32090 and says so, at the door and for each message`, async t => {
      const { admit, handle } = stage({ kind })
      const origin = originWithKey()
      for (const reply of [await admit?.(origin), failure(await handle({ ...fakeCall('m'), origin }, unreachableNext))]) {
        t.match(reply, { status: 401, error: { code: -32090, message: words }, source: 'gateway' })
      }
    })
  }

  t.test('refuses a missing key with 401', async t => {
    t.match(await stage({ kind: 'unknown' }).admit?.(fakeOrigin()), { status: 401, error: { message: /missing/ } })
  })

  t.test('says 503, not 401, when the store cannot tell', async t => {
    t.match(await stage(Promise.resolve({ kind: 'storeUnavailable' } as const)).admit?.(originWithKey()), {
      status: 503,
      error: { code: -32002 },
    })
  })

  t.test('admits a good key', async t => {
    t.equal(await stage({ kind: 'granted', key, account }).admit?.(originWithKey()), undefined)
  })

  t.test('looks a key up once per HTTP request, and for each message of a WebSocket', async t => {
    const open = (transport: Origin['transport'], result: (lookups: number) => Lookup | Promise<Lookup>) => {
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
    const granted: Lookup = { kind: 'granted', key, account }
    const revokedLater = (lookups: number): Lookup => (lookups === 1 ? granted : { kind: 'revoked' })

    t.test('one call', async t => {
      for (const result of [() => granted, async () => granted]) {
        const { admit, call, lookups } = open('http', result)
        t.equal(await admit(), undefined)
        t.equal(await call(), 'ok')
        t.equal(lookups(), 1)
      }
    })

    t.test('a batch', async t => {
      const { admit, call, lookups } = open('http', () => granted)
      await admit()
      t.same(await Promise.all([call(), call(), call()]), ['ok', 'ok', 'ok'])
      t.equal(lookups(), 1)
    })

    t.test('again when the body takes longer than 400 ms: a key revoked meanwhile is refused', async t => {
      const { admit, call, clock, lookups } = open('http', revokedLater)
      await admit()
      clock.advance(399)
      t.equal(await call(), 'ok')
      clock.advance(1)
      t.equal(await call(), 'key')
      t.equal(lookups(), 2)
    })

    t.test('a WebSocket', async t => {
      const { admit, call, lookups } = open('websocket', revokedLater)
      t.equal(await admit(), undefined)
      t.equal(await call(), 'key')
      t.equal(await call(), 'key')
      t.equal(lookups(), 3)
    })
  })
})

t.test('network-access', async t => {
  const { handle } = createStage(networkAccess, {})
  const ask = (over: object, page?: string) =>
    handle({ ...fakeCall('eth_call', [], { key: { ...key, ...over } }), origin: fakeOrigin({ originHeader: page }) }, async () =>
      fakeResult('ok'),
    )

  t.test('lets a key without lists call everything', async t => t.equal(valueOrErrorCode(await ask({})), 'ok'))
  t.test('lets a key call the networks that are enabled for it', async t =>
    t.equal(valueOrErrorCode(await ask({ networks: ['devnet'] })), 'ok'),
  )

  for (const [rule, over] of [
    ['network', { networks: ['base-mainnet'] }],
    ['method', { methods: ['eth_blockNumber'] }],
    ['origin', { origins: ['https://a.example'] }],
  ] as const) {
    t.test(`refuses another ${rule} with -32091 and says which rule it was and what is allowed`, async t => {
      t.match(failure(await ask(over, 'https://b.example')), {
        status: 200,
        error: { code: -32091, data: { reason: rule, allowed: Object.values(over)[0] } },
      })
    })
  }

  t.test('an origin list takes whole origins and sub-domains, and refuses calls that name none', async t => {
    const origins = ['https://a.example', 'https://*.b.example']
    t.equal(valueOrErrorCode(await ask({ origins }, 'https://A.example')), 'ok')
    t.equal(valueOrErrorCode(await ask({ origins }, 'https://x.y.b.example')), 'ok')
    for (const page of ['https://b.example', 'http://x.b.example', 'https://a.example.evil', 'https://xb.example', undefined]) {
      t.equal(valueOrErrorCode(await ask({ origins }, page)), -32091)
    }
  })
})

t.test('credits', async t => {
  const methods = {
    names: ['eth_getLogs'],
    defaultCost: 80,
    get: (name: string) => (name === 'eth_getLogs' ? { name, cost: 255 } : undefined),
  } as unknown as MethodTable // only what credits reads
  const open = (verdict?: ChargeResult, costs = {}) => {
    const drawn: number[] = []
    const quota = { limit: 1_000, remaining: 500, resetsInMs: 60_000 }
    let refunds = 0
    const charged: ChargeResult = {
      kind: 'charged',
      day: 20_468,
      quota,
      refund() {
        refunds += 1
        return true
      },
    }
    const charge = (_account: unknown, cost: number) => {
      drawn.push(cost)
      return verdict ?? charged
    }
    const counted: CountedCall[] = []
    const stage = createStage(
      credits,
      { costs, onStoreOutage: 'closed' },
      { methods, ledger: { charge }, usage: { count: one => void counted.push(one) } },
    )
    return { stage, drawn, counted, refunds: () => refunds }
  }

  t.test('draws the cost of the method before the rest runs, and says it in the reply', async t => {
    const { stage, drawn, refunds } = open()
    const reply = await stage.handle(fakeCall('eth_getLogs'), async () => {
      t.same(drawn, [255])
      return fakeResult([])
    })
    t.equal(reply.credits, 255)
    t.equal(refunds(), 0)
  })

  t.test('draws the default for a method that is not in the table, and what the options say over both', async t => {
    const { stage, drawn } = open(undefined, { eth_getLogs: 7 })
    await stage.handle(fakeCall('eth_other'), async () => fakeResult(1))
    await stage.handle(fakeCall('eth_getLogs'), async () => fakeResult(1))
    t.same(drawn, [80, 7])
  })

  for (const [what, reply, kept] of [
    ['a result of a node', fakeResult(1), true],
    ['an answer that needs no node', fakeResult(1, { source: 'local' }), true],
    ['an answer from memory', fakeResult(1, { source: 'cache' }), true],
    ["a node's own error", { ...refuse('unavailable', { fault: 'caller', source: 'node' }), kind: 'node' }, true],
    ['too many results', refuse('tooMany'), true],
    ['too many results, from memory', refuse('tooMany', { source: 'cache' }), false],
    ['a query that took too long', refuse('timeout'), true],
    ['bad parameters', refuse('params'), false],
    ['an answer that is too large', refuse('tooLarge', { source: 'node' }), false],
    ['no upstream', refuse('unavailable'), false],
    ['a fault of the gateway', refuse('internal'), false],
  ] as const) {
    t.test(`${kept ? 'keeps' : 'gives back'} the charge for ${what}`, async t => {
      const { stage, refunds } = open()
      const given = await stage.handle(fakeCall('eth_getLogs'), async () => reply as Reply)
      t.equal(given.credits, kept ? 255 : 0)
      t.equal(refunds(), kept ? 0 : 1)
    })
  }

  t.test('gives the charge back when the rest throws', async t => {
    const { stage, refunds } = open()
    await t.rejects(
      stage.handle(fakeCall('eth_getLogs'), async () => {
        throw new Error('bug')
      }),
      { message: 'bug' },
    )
    t.equal(refunds(), 1)
  })

  t.test('counts each call once, by what came of it', async t => {
    const { stage, counted } = open()
    const about = { account: 'acc_1', key: 'key_1', network: 'devnet', calls: 1, day: 20_468 }
    await stage.handle(fakeCall('eth_getLogs'), async () => fakeResult([], { source: 'partner' }))
    await stage.handle(fakeCall('eth_made_up'), async () => refuse('method'))
    await t.rejects(
      stage.handle(fakeCall('eth_getLogs'), async () => {
        throw new Error('bug')
      }),
    )
    t.same(counted, [
      { ...about, method: 'eth_getLogs', outcome: 'ok', forwarded: true, credits: 255 },
      { ...about, method: 'other', outcome: 'method', forwarded: false, credits: 0 },
      { ...about, method: 'eth_getLogs', outcome: 'internal', forwarded: false, credits: 0 },
    ])
    const away = open({ kind: 'storeUnavailable' })
    await away.stage.handle(fakeCall('eth_getLogs'), unreachableNext)
    t.match(away.counted, [{ outcome: 'unavailable', day: undefined, credits: 0 }])
  })

  t.test('counts what the door could not deliver as what the caller got instead, and free', async t => {
    for (const outcome of ['tooLarge', 'unavailable'] as const) {
      const { stage, counted } = open()
      const reply = await stage.handle(fakeCall('eth_getLogs'), async () => fakeResult(1))
      reply.charge?.refund(outcome)
      t.match(counted, [
        { outcome: 'ok', calls: 1, credits: 255 },
        { outcome: 'ok', calls: -1, credits: -255 },
        { outcome, calls: 1, credits: 0 },
      ])
    }
  })

  t.test('lends what its options say while the store is away', async t => {
    const graces: unknown[] = []
    const ledger = {
      charge: (_account: unknown, _cost: number, grace: unknown) => (graces.push(grace), { kind: 'storeUnavailable' } as const),
    }
    for (const options of [{ onStoreOutage: 'closed' }, { onStoreOutage: 'grace', grace: 500 }, { onStoreOutage: 'open' }]) {
      await createStage(credits, { costs: {}, ...options }, { methods, ledger }).handle(fakeCall('eth_getLogs'), unreachableNext)
    }
    t.same(graces, [undefined, { maxCredits: 500, maxDurationMs: Infinity }, { maxCredits: Infinity, maxDurationMs: 300_000 }])
  })

  t.test('the options must say how much grace there is, and only then', async t => {
    const faultsOf = (options: object) => {
      const faults: [unknown, string][] = []
      credits.check?.({ costs: {}, ...options } as never, (path, message) => void faults.push([path, message]))
      return faults
    }
    t.same(faultsOf({ onStoreOutage: 'closed' }), [])
    t.same(faultsOf({ onStoreOutage: 'grace', grace: 1 }), [])
    t.match(faultsOf({ onStoreOutage: 'grace' }), [[[], /requires `grace`/]])
    t.match(faultsOf({ onStoreOutage: 'open', grace: 1 }), [
      [['grace'], /applies only with `onStoreOutage: grace`, not with `onStoreOutage: open`/],
    ])
  })

  t.test('the door can take the charge back when it cannot deliver', async t => {
    const { stage, refunds } = open()
    const reply = await stage.handle(fakeCall('eth_getLogs'), async () => fakeResult(1))
    reply.charge?.refund('unavailable')
    t.equal(refunds(), 1)
  })

  t.test('refuses with 402 -33000 and without Retry-After when the day is used up, and asks nobody further', async t => {
    const { stage } = open({
      kind: 'exhausted',
      limit: 100,
      used: 90,
      resetAt: Date.UTC(2026, 0, 16),
      quota: { limit: 100, remaining: 0, resetsInMs: 1 },
    })
    const reply = failure(await stage.handle(fakeCall('eth_getLogs'), unreachableNext))
    t.match(reply, { status: 402, error: { code: -33000, data: { limit: 100, used: 90, resetAt: '2026-01-16T00:00:00.000Z' } } })
    t.equal(reply.retryAfter, undefined)
  })

  t.test('refuses with 503 when the store is away', async t => {
    t.match(failure(await open({ kind: 'storeUnavailable' }).stage.handle(fakeCall('eth_getLogs'), unreachableNext)), {
      status: 503,
      error: { code: -32002 },
    })
  })
})
