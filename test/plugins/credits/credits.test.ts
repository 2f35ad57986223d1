import { readFileSync, readdirSync } from 'node:fs'
import t from '../../support/tap.ts'
import { deferred } from '../../support/deferred.ts'
import { parse } from 'yaml'
import credits from '../../../plugins/credits/index.ts'
import { plugins } from '../../../plugins/index.ts'
import type { Account, Call, CallContext, ContextKey } from '../../../src/plugin/call.ts'
import { toLoaded } from '../../../src/plugin/deferred-plugin.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { harness } from '../../../src/testing/index.ts'
import type { ChargeResult, CountedCall, Services } from '../../../src/services/index.ts'
import { createUsage } from '../../../src/services/usage/index.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
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
} from '../../support/fakes.ts'

/** The plugin over a ledger that grants each charge unless `refusalOf` says otherwise, and what it charged, refunded and counted. */
const openCredits = (
  refusalOf: (account: Account) => ChargeResult | undefined = () => undefined,
  options: object = {},
  clock = new TestClock(),
  isRefundable = true,
) => {
  const charges: { readonly id: string; readonly limit: number; readonly cost: number; readonly grace: unknown }[] = []
  const refunded: string[] = []
  const counted: CountedCall[] = []
  const charge: Services['ledger']['charge'] = (account, cost, grace) => {
    const { id, plan } = account
    charges.push({ id, limit: plan.dailyCredits, cost, grace })
    const quota = { limit: 1_000, remaining: id === fakeKey.id ? 500 : 900, resetsInMs: 60_000 }
    return refusalOf(account) ?? { kind: 'charged', day: 20_468, quota, refund: () => refunded.push(id) > 0 && isRefundable }
  }
  const usage = createUsage(call => void counted.push(call), clock)
  const services = { clock, methods: shippedMethods, ledger: { charge }, usage }
  const stage = createStage(credits, { costs: {}, onStoreOutage: 'closed', ...options }, services)
  const request = (reply: Reply, method = 'eth_getLogs', context: Partial<CallContext> = {}) =>
    stage.handle(fakeCall(method, [], context), async () => reply)
  return { stage, request, charges, refunded, counted }
}

const storeUnavailable = (): ChargeResult => ({ kind: 'storeUnavailable' })

t.test('credits', async t => {
  t.test('charges the cost of the method before the plugins below run, and reports it in the reply', async t => {
    const { stage, charges, refunded } = openCredits()
    const reply = await stage.handle(fakeCall('eth_getLogs'), async () => {
      t.match(charges, [{ id: fakeAccount.id, cost: 255 }])
      return fakeResult([])
    })
    t.equal(reply.credits, 255)
    t.same(refunded, [])
  })

  t.test('charges the default for a method that is not in the table, and the cost of the options in place of both', async t => {
    const { request, charges } = openCredits(undefined, { costs: { eth_getLogs: 7 } })
    await request(fakeResult(1), 'eth_other')
    await request(fakeResult(1))
    t.same(
      charges.map(({ cost }) => cost),
      [80, 7],
    )
  })

  t.test('a key with a daily limit charges a ledger of its own first, and its account only when that charged', async t => {
    let exhaustedId = ''
    const exhausted: ChargeResult = {
      kind: 'exhausted',
      limit: 1_000,
      used: 990,
      resetAt: 0,
      quota: { limit: 1_000, remaining: 10, resetsInMs: 60_000 },
    }
    const { request, charges, refunded, counted } = openCredits(({ id }) => (id === exhaustedId ? exhausted : undefined))
    const requestWithLimit = (reply: Reply) => request(reply, 'eth_call', { key: { ...fakeKey, dailyCredits: 1_000 } })
    t.match(await requestWithLimit(fakeResult(1)), { credits: 80, quota: { remaining: 500 } }, 'the smaller of both is shown')
    t.match(charges.splice(0), [
      { id: fakeKey.id, limit: 1_000 },
      { id: fakeAccount.id, limit: fakeAccount.plan.dailyCredits },
    ])
    await requestWithLimit(refuse('unavailable'))
    t.same(refunded.splice(0).sort(), [fakeAccount.id, fakeKey.id].sort())
    charges.splice(0)
    exhaustedId = fakeKey.id
    t.match(failureOf(await requestWithLimit(fakeResult(1))).error, {
      message: /limit of this API key/,
      data: { limit: 1_000, used: 990 },
    })
    t.match(charges, [{ id: fakeKey.id, limit: 1_000 }])
    t.equal(charges.length, 1)
    exhaustedId = fakeAccount.id
    t.match(failureOf(await requestWithLimit(fakeResult(1))).error, { message: 'the daily credits are used up' })
    t.same(refunded, [fakeKey.id])
    t.same(
      counted.map(({ account, credits: paid }) => [account, paid]),
      [80, 0, 0, 0].map(paid => [fakeAccount.id, paid]),
    )
  })

  for (const [what, reply, isKept] of [
    ['a result of a node', fakeResult(1), true],
    ['an answer that needs no node', fakeResult(1, { source: 'local' }), true],
    ['a cache hit', fakeResult(1, { source: 'cache' }), true],
    ["a node's own error", { ...refuse('unavailable', { fault: 'caller', source: 'node' }), kind: 'node' }, true],
    ['too many results', refuse('tooMany'), true],
    ['too many results, from the cache', refuse('tooMany', { source: 'cache' }), false],
    ['a query that took too long', refuse('timeout'), true],
    ['invalid parameters', refuse('params'), false],
    ['a result that is too large', refuse('tooLarge'), true],
    ['a response that is too large for its batch', refuse('tooLarge', { source: 'gateway', fault: 'gateway' }), false],
    ['a caller who left', refuse('unavailable', { source: 'node', fault: 'caller' }), true],
    ['a caller who left before a node was requested', refuse('unavailable', { source: 'gateway', fault: 'caller' }), false],
    ['no upstream', refuse('unavailable'), false],
    ['a fault of the gateway', refuse('internal'), false],
  ] as const) {
    t.test(`${isKept ? 'keeps' : 'refunds'} the charge for ${what}`, async t => {
      const { request, refunded } = openCredits()
      t.equal((await request(reply as Reply)).credits, isKept ? 255 : 0)
      t.equal(refunded.length, isKept ? 0 : 1)
    })
  }

  t.test('refunds the charge when a plugin below throws', async t => {
    const { stage, refunded } = openCredits()
    await t.rejects(stage.handle(fakeCall('eth_getLogs'), unreachableNext), { message: /next\(\) was called/ })
    t.equal(refunded.length, 1)
  })

  t.test('counts each call once, by its outcome', async t => {
    const { stage, request, counted } = openCredits()
    const common = { account: 'acc_1', key: 'key_1', network: 'devnet', calls: 1, day: 20_468, durationMs: 0 }
    await request(fakeResult([], { source: 'partner' }))
    await request(refuse('method'), 'eth_made_up')
    await t.rejects(stage.handle(fakeCall('eth_getLogs'), unreachableNext))
    t.same(counted, [
      { ...common, method: 'eth_getLogs', outcome: 'ok', forwarded: true, credits: 255 },
      { ...common, method: 'other', outcome: 'method', forwarded: false, credits: 0 },
      { ...common, method: 'eth_getLogs', outcome: 'internal', forwarded: false, credits: 0 },
    ])
  })

  t.test('refuses with 503 when the store is unreachable, and counts that', async t => {
    const { stage, counted } = openCredits(storeUnavailable)
    const reply = failureOf(await stage.handle(fakeCall('eth_getLogs'), unreachableNext))
    t.match(reply, { status: 503, error: { code: -32002 } })
    t.match(counted, [{ outcome: 'unavailable', day: undefined, credits: 0 }])
  })

  t.test('refunds an answer that the server could not deliver, and counts it as the error that the caller got instead', async t => {
    for (const outcome of ['tooLarge', 'unavailable'] as const) {
      const { request, counted, refunded } = openCredits()
      const reply = await request(fakeResult(1))
      reply.charge?.refund(outcome)
      t.equal(refunded.length, 1)
      t.match(counted, [
        { outcome: 'ok', calls: 1, credits: 255 },
        { outcome: 'ok', calls: -1, credits: -255 },
        { outcome, calls: 1, credits: 0 },
      ])
      reply.charge?.refund('internal')
      t.equal(counted.length, 3, 'once')
    }
  })

  t.test('an answer that is not delivered counts as the error that the caller got, also where its credits stay used', async t => {
    const [paid, ofYesterday] = [openCredits(), openCredits(undefined, {}, new TestClock(), false)]
    ;(await paid.request(fakeResult(1))).charge?.keep('tooLarge')
    ;(await ofYesterday.request(fakeResult(1))).charge?.refund('tooLarge')
    t.equal(paid.refunded.length, 0)
    for (const { counted } of [paid, ofYesterday])
      t.match(counted, [
        { outcome: 'ok', calls: 1, credits: 255 },
        { outcome: 'ok', calls: -1, credits: -255 },
        { outcome: 'tooLarge', calls: 1, credits: 255 },
      ])
  })

  t.test('passes the grace of its options to the ledger', async t => {
    const gracesOf = async (options: object) => {
      const { stage, charges } = openCredits(storeUnavailable, options)
      await stage.handle(fakeCall('eth_getLogs'), unreachableNext)
      return charges.map(({ grace }) => grace)
    }
    t.same(await gracesOf({ onStoreOutage: 'closed' }), [undefined])
    t.same(await gracesOf({ onStoreOutage: 'grace', grace: 500 }), [{ maxCredits: 500, maxDurationMs: Infinity }])
    t.same(await gracesOf({ onStoreOutage: 'open' }), [{ maxCredits: Infinity, maxDurationMs: 300_000 }])
  })

  t.test('`grace` is required with `onStoreOutage: grace`, and only there', async t => {
    const problemsOf = (options: object) => {
      const problems: [unknown, string][] = []
      credits.check?.({ costs: {}, ...options } as never, (path, message) => void problems.push([path, message]))
      return problems
    }
    t.same(problemsOf({ onStoreOutage: 'closed' }), [])
    t.same(problemsOf({ onStoreOutage: 'grace', grace: 1 }), [])
    t.match(problemsOf({ onStoreOutage: 'grace' }), [[[], /requires `grace`/]])
    t.match(problemsOf({ onStoreOutage: 'open', grace: 1 }), [
      [['grace'], /applies only with `onStoreOutage: grace`, not with `onStoreOutage: open`/],
    ])
  })

  t.test('refuses with 402 -33000 and without Retry-After when the credits of the day are used up', async t => {
    const quota = { limit: 100, remaining: 0, resetsInMs: 1 }
    const { stage } = openCredits(() => ({ kind: 'exhausted', limit: 100, used: 90, resetAt: Date.UTC(2026, 0, 16), quota }))
    const reply = failureOf(await stage.handle(fakeCall('eth_getLogs'), unreachableNext))
    t.match(reply, { status: 402, error: { code: -33000, data: { limit: 100, used: 90, resetAt: '2026-01-16T00:00:00.000Z' } } })
    t.equal(reply.retryAfter, undefined)
  })
})

t.test('each call costs what contract 8 says, from the daily balance of the account that its key has', async t => {
  const gateway = await harness({
    pipeline: '- key-auth: {}\n- credits: {}',
    plans: { core: { dailyCredits: 80 + 255 + 80 } },
    keys: { one: { account: 'alice' }, two: { account: 'alice' }, other: { account: 'bob' } },
    upstream: { '*': { result: null } },
  })
  for (const [key, method, credits] of [
    ['one', 'eth_getStorageAt', 80],
    ['two', 'eth_getLogs', 255],
    ['one', 'eth_getTransactionReceipt', 80],
  ] as const)
    t.match(await gateway.call(method, [], { key }), { outcome: 'ok', credits }, method)
  for (const key of ['one', 'two'])
    t.match(await gateway.call('eth_blockNumber', [], { key }), { status: 402, error: { code: -33000 } }, key)
  t.match(await gateway.call('eth_getLogs', [], { key: 'other' }), { outcome: 'ok', credits: 255 })
  await gateway.stop()
})

t.test('free failures of an account', async t => {
  const failed = refuse('timeout', { source: 'node', upstream: 'own', fault: 'upstream' })
  const openNetwork = async () => {
    const clock = new TestClock()
    const { stage } = openCredits(undefined, { costs: { eth_syncing: 0 } }, clock)
    await stage.start?.()
    t.teardown(() => stage.stop?.())
    /** The accounts of the calls that ran. */
    const ran: Account[] = []
    const request = (reply: Reply | Promise<Reply>, account = fakeAccount, method = 'eth_call') =>
      stage.handle(fakeCall(method, [], { account }), async below => {
        ran.push((below as Call<ContextKey>).context.account) // the stage passes the whole context
        return reply
      })
    const requestMany = async (count: number, reply: Reply) => {
      for (let i = 0; i < count; i++) await request(reply)
    }
    return { request, requestMany, ran, clock, stage }
  }

  t.test('limit it above 5 and 10 % of its calls of the last minute, from 20 calls on', async t => {
    const { request, requestMany, ran, clock } = await openNetwork()
    await requestMany(18, failed)
    t.ok(
      ran.every(account => account.singleAttempt === undefined),
      'too few calls',
    )
    clock.advance(60_000)
    await requestMany(39, fakeResult(1))
    await requestMany(2, failed)
    await request(fakeResult(1))
    t.equal(ran.at(-1)?.singleAttempt, undefined, '2 of 41')
    await request(failed)
    await request(fakeResult(1))
    t.equal(ran.at(-1)?.singleAttempt, true, '3 of 44')
    await requestMany(2, failed)
    t.equal(ran.length, 18 + 46)
    t.match(await request(fakeResult(1)), { kind: 'failing', status: 429, error: { code: -32005 }, retryAfter: 60 }, '5 of 46')
    t.equal(ran.length, 18 + 46)
    t.ok('result' in (await request(fakeResult(1), { ...fakeAccount, id: 'acc_2' })), 'other accounts are not limited')
    clock.advance(50_000)
    t.match(await request(fakeResult(1)), { kind: 'failing', retryAfter: 10 }, 'refused calls do not count as calls')
    clock.advance(10_000)
    t.ok('result' in (await request(fakeResult(1))))
    t.equal(ran.at(-1)?.singleAttempt, undefined)
  })

  t.test('above the limit get 429 -32005 with the words of the table, and when to retry', async t => {
    const gateway = await harness({
      pipeline: '- credits: {}\n- failover: { upstreams: [{ name: own, url: http://own.test }] }\n- upstream: {}',
      upstream: { eth_call: { error: { code: -32603, message: 'internal error' } } },
    })
    for (let i = 0; i < 20; i++) await gateway.call('eth_call', [{}])
    t.match(await gateway.call('eth_call', [{}]), {
      status: 429,
      outcome: 'failing',
      retryAfter: 60,
      error: { code: -32005, message: 'too many of the recent calls failed; retry later' },
    })
    await gateway.stop()
  })

  t.test('count also where the calls end long after they began', async t => {
    const { request, stage, clock } = await openNetwork()
    const { promise: hanging, resolve: fail } = deferred<Reply>()
    const calls = Array.from({ length: 20 }, () => stage.handle(fakeCall('eth_call'), () => hanging))
    clock.advance(30_000)
    fail(failed)
    await Promise.all(calls)
    t.match(await request(fakeResult(1)), { kind: 'failing' })
  })

  t.test('are compared with calls that were paid for: nothing that is free makes room for more of them', async t => {
    for (const [what, method, reply, makesRoom] of [
      ['a result of a node', 'eth_getProof', fakeResult(1), true],
      ['a cheap result of a node', 'net_peerCount', fakeResult(1), true],
      ['changes of a filter', 'eth_getFilterChanges', fakeResult([], { source: 'local' }), true],
      ["a node's own error", 'eth_call', { ...refuse('unavailable', { source: 'node', fault: 'caller' }), kind: 'node' }, true],
      ['an answer that needs no node', 'eth_chainId', fakeResult('0x1', { source: 'local' }), true],
      ['a method that is free', 'eth_syncing', fakeResult({}, { source: 'local' }), false],
      ['invalid parameters', 'eth_call', refuse('params'), false],
      ['an unknown filter', 'eth_getFilterChanges', refuse('unknownSubscription'), false],
      ['a method that the nodes lack', 'eth_call', refuse('unavailable', { source: 'node', category: 'methodNotFound' }), false],
      ['an outage', 'eth_call', refuse('unavailable'), false],
    ] as const) {
      const { request, requestMany, stage } = await openNetwork()
      for (let i = 0; i < 190; i++) await stage.handle(fakeCall(method, []), async () => reply as Reply)
      await requestMany(20, failed)
      t.equal('result' in (await request(fakeResult(1))), makesRoom, what)
    }
  })

  t.test('are failures for which a node was requested, and that are not charged', async t => {
    for (const [what, reply, isLimited] of [
      ['a timeout', failed, true],
      ['an error of a node', { ...refuse('unavailable', { source: 'node' }), kind: 'node' }, true],
      ['an error of the partner, which works in an outage alone', refuse('unavailable', { source: 'partner' }), false],
      ['an outage', refuse('unavailable'), false],
      ['a revert', { ...refuse('unavailable', { source: 'node', fault: 'caller' }), kind: 'node' }, false],
      ['invalid parameters', refuse('params'), false],
      ['a caller who left', refuse('unavailable', { source: 'gateway', fault: 'caller' }), false],
      ['a fault of the gateway', refuse('internal'), false],
      ['a failure that is shared with another caller', { ...failed, cache: 'hit' }, false],
    ] as const) {
      const { request, requestMany } = await openNetwork()
      await requestMany(20, reply as Reply)
      t.equal('kind' in (await request(fakeResult(1))), isLimited, what)
    }
  })

  t.test('are none where the nodes lack a method, for which they are asked once in 10 s after five such calls in a row', async t => {
    const { request, requestMany, ran, clock } = await openNetwork()
    const lacking = { ...refuse('method', { source: 'node', fault: 'upstream', category: 'methodNotFound' }), kind: 'node' as const }
    await requestMany(1_000, lacking)
    t.equal(ran.length, 5)
    t.match(await request(lacking), { kind: 'method', error: { code: -32601, message: /eth_call/ }, source: 'gateway' })
    t.ok('result' in (await request(fakeResult(1), { ...fakeAccount, id: 'acc_2' })), 'what one account is told is not told to others')
    t.ok('result' in (await request(fakeResult(1), fakeAccount, 'eth_getLogs')), 'nor is it told of another method')
    ran.length = 0
    clock.advance(9_999)
    await requestMany(10, lacking)
    t.equal(ran.length, 0)
    clock.advance(1)
    await requestMany(10, lacking)
    t.equal(ran.length, 1)
    clock.advance(10_000)
    let respond = (_reply: Reply) => {}
    const first = request(new Promise(resolve => (respond = resolve)))
    await requestMany(10, lacking)
    t.equal(ran.length, 2, 'nor do others ask while one asks')
    respond(fakeResult(1))
    await first
    await requestMany(9, fakeResult(1))
    t.equal(ran.length, 11, 'a node has the method now')
    for (let i = 0; i < 10; i++) {
      await requestMany(4, lacking)
      await requestMany(1, refuse('params'))
      await request(fakeResult(1))
    }
    t.equal(ran.length, 11 + 60, 'charged calls between them show that a node has it')
    await requestMany(4, lacking)
    await requestMany(4, { ...lacking, cache: 'hit' })
    await requestMany(4, refuse('params'))
    await requestMany(4, lacking)
    t.equal(ran.length, 71 + 13, 'calls that no node was asked for show nothing')
  })

  t.test('are also those of a method that is not in the table, of which callers may invent as many as they like', async t => {
    const { request, ran } = await openNetwork()
    for (let i = 0; i < 100; i++)
      await request(refuse('unavailable', { source: 'node', category: 'methodNotFound' }), fakeAccount, `made_up${i}`)
    t.equal(ran.length, 20)
  })
})

t.test(
  'in the shipped pipelines no plugin above credits replaces the reply of credits, so that what callers get is what is charged',
  async t => {
    const networks = readdirSync('configs/networks').filter(file => !file.endsWith('.test.yaml'))
    const above = new Set(
      networks.flatMap(file => {
        const { pipeline } = parse(readFileSync(`configs/networks/${file}`, 'utf8')) as { pipeline: readonly object[] }
        const names = pipeline.flatMap(step => Object.keys(step))
        return names.slice(0, names.indexOf('credits'))
      }),
    )
    t.ok(above.has('key-auth'))
    const accounts = { find: () => ({ kind: 'granted', key: fakeKey, account: fakeAccount }) as const }
    for (const name of above) {
      const plugin = plugins.find(each => each.name === name)
      if (plugin === undefined) throw new Error(`no plugin ${name}`)
      const { handle } = createStage(await toLoaded(plugin), {}, { accounts, methods: shippedMethods })
      for (const reply of [fakeResult('0x1'), refuse('unavailable')]) {
        const call = { ...fakeCall('eth_blockNumber'), origin: fakeOrigin({ key: new Secret('tg_x') }) }
        t.equal(await handle(call, async () => reply), reply, name)
      }
    }
  },
)
