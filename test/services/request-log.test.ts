import t from '../support/tap.ts'
import { refuse, refuseUnknownMethod } from '../../src/plugin/reply.ts'
import type { Reply } from '../../src/plugin/reply.ts'
import type { Json } from '../../src/plugin/call.ts'
import { generateApiKey } from '../../src/services/accounts/api-key.ts'
import { RequestLog } from '../../src/services/request-log.ts'
import type { RequestLogConfig } from '../../src/services/request-log.ts'
import { createUsage } from '../../src/services/usage/index.ts'
import type { Amendment, LoggedRequest, RequestBatch, RequestLogStore } from '../../src/store/request-log-store.ts'
import { TestClock, fakeAccount, fakeCall, fakeResult, testRequestLog } from '../support/fakes.ts'
import { drainEventLoop } from './ledger/ledger-test-cluster.ts'
import { shippedMethods } from './method-table/shipped-table.ts'

interface Ended {
  readonly reply?: Reply
  readonly method?: string
  readonly params?: readonly Json[]
  readonly tookMs?: number
  readonly account?: object
  readonly headers?: Readonly<Record<string, string>>
}

/** A log, what it has written, and the faults of its store. */
const openLog = (config: Partial<RequestLogConfig> = {}) => {
  const clock = new TestClock()
  const batches: RequestBatch[] = []
  const swept: (readonly string[])[] = []
  const amended: Amendment[] = []
  const state: { isDown: boolean; isReady?: Promise<void> | undefined; failures: number } = { isDown: false, failures: 0 }
  const store: RequestLogStore = {
    async addRequests(batch) {
      await state.isReady
      if (state.isDown || (state.failures -= 1) >= 0) throw new Error('connection refused')
      batches.push(structuredClone(batch))
    },
    sweepRequests: async (_limits, accounts) => void swept.push([...accounts]),
    requests: () => [],
    findRequests: async () => [],
    latestRequests: async () => ({ requests: [], readFrom: 0 }),
    dropRequests: async () => undefined,
    limitRequests: async () => undefined,
    async amendRequests(amendments) {
      await state.isReady
      if (state.isDown) throw new Error('connection refused')
      amended.push(...amendments)
    },
  }
  const log = new RequestLog(store, clock, { ...testRequestLog, ...config })
  const usage = createUsage(() => undefined, clock, log)
  log.start()
  const end = ({ reply = refuse('params'), method = 'eth_call', params = [], tookMs = 5, account = {}, headers = {} }: Ended = {}) => {
    const faked = fakeCall(method, params, { account: { ...fakeAccount, ...account } })
    const call = { ...faked, origin: { ...faked.origin, headers }, startedAtMs: clock.monotonic() - tookMs }
    return usage.record({ call, reply, method: shippedMethods.get(method), network: 'devnet', credits: 80, day: 1 })
  }
  const advance = async (ms = 1_000) => {
    clock.advance(ms)
    await drainEventLoop()
  }
  const written = (account = fakeAccount.id): readonly LoggedRequest[] =>
    batches.flatMap(({ accounts }) => accounts.filter(each => each.account === account).flatMap(({ requests }) => requests))
  return { clock, log, usage, state, batches, amended, swept, end, advance, written }
}

t.test('a failed call is logged with what its caller knows of it, and nothing of a result', async t => {
  const { clock, end, advance, written } = openLog()
  const time = clock.now()
  end({
    params: [{ to: '0x11' }, 'latest'],
    reply: { ...refuse('params', { message: 'params[1] is no block' }), upstream: 'own', cache: 'miss' },
  })
  end({
    tookMs: 1_000,
    reply: fakeResult('secret', { cache: 'hit', upstreamRequest: { id: 'u', attempts: 3, durationMs: 1 } }),
  })
  await advance()
  const common = { time, requestId: 'r-1', transport: 'http', key: 'key_1', network: 'devnet', method: 'eth_call', credits: 80 }
  t.same(written(), [
    {
      ...{ ...common, durationMs: 5, outcome: 'params', code: -32602, message: 'params[1] is no block' },
      ...{ params: '[{"to":"0x11"},"latest"]', upstream: 'own', cache: 'miss' },
    },
    { ...common, durationMs: 1_000, isSlow: true, outcome: 'ok', params: '[]', cache: 'hit', attempts: 3 },
  ])
})

t.test('of each outcome of an account so many are logged, then a part; a flood of one hides no other, and no other account', async t => {
  const { end, advance, written } = openLog()
  for (let i = 0; i < 1_000; i += 1) {
    end({ reply: refuse('rate') })
    end({ reply: fakeResult('ok') })
  }
  end({ reply: refuse('timeout') })
  end({ reply: refuse('rate'), account: { id: 'acc_2' } })
  const countOf = (outcome: string) => written().filter(request => request.outcome === outcome).length
  for (let i = 0; i < 10; i += 1) await advance()
  t.same([countOf('rate'), countOf('ok'), countOf('timeout'), written('acc_2').length], [200, 10, 1, 1])
  await advance(60_000)
  for (let i = 0; i < 100; i += 1) {
    end({ reply: refuse('rate') })
    end({ reply: fakeResult('ok') })
  }
  await advance()
  t.same([countOf('rate'), countOf('ok')], [203, 11])
})

t.test('a call that asks for it with a header is logged beside the sample, up to a bound of its own', async t => {
  const { end, advance, written } = openLog()
  const ask = (value: string) => end({ reply: fakeResult('ok'), headers: { 'tollgate-log': value }, method: 'eth_gasPrice' })
  for (let i = 0; i < 100; i += 1) end({ reply: fakeResult('ok') })
  for (let i = 0; i < 300; i += 1) ask('always')
  ask('never')
  for (let i = 0; i < 10; i += 1) await advance()
  t.equal(written().filter(({ method }) => method === 'eth_gasPrice').length, 200)
  t.equal(written().length, 210)
})

t.test('where more accounts call than the store takes requests of, no failure makes room for a sample', async t => {
  const { end, advance, batches, written } = openLog()
  for (let i = 0; i < 100; i += 1) end({ account: { id: 'failing' }, params: [i] })
  for (let i = 0; i < 5_000; i += 1) end({ reply: fakeResult('ok'), account: { id: `acc_${i}` } })
  for (let i = 0; i < 20; i += 1) await advance()
  const { length } = batches.flatMap(({ accounts }) => accounts)
  t.equal(written('failing').length, 100)
  t.ok(length > 200 && length < 500, `of ${length} accounts`)
  end({ reply: fakeResult('ok'), account: { id: 'acc_4999' } })
  await advance()
  t.equal(written('acc_4999').length, 1, 'once there is room again')
})

t.test('nothing is logged where the operator or the account has turned it off', async t => {
  const off = openLog({ enabled: false })
  off.end()
  await off.advance()
  const { log, end, advance, written } = openLog()
  end({ account: { requestLog: 'off' } })
  await advance()
  end()
  log.configure({ ...testRequestLog, enabled: false })
  end()
  await advance()
  t.same([...off.written(), ...written()], [])
  log.configure(testRequestLog)
  end()
  await advance()
  t.equal(written().length, 1)
})

t.test('without parameters, the message of an error, which may name one, is not logged either', async t => {
  for (const [config, account] of [
    [{ params: false }, {}],
    [{}, { requestLog: 'withoutParams' }],
  ] as const) {
    const { end, advance, written } = openLog(config)
    end({ account, params: ['0x1'], reply: refuse('params', { message: 'params[0] is 0x1' }) })
    await advance()
    t.match(written(), [{ outcome: 'params', code: -32602, params: undefined, paramsOmitted: 'setting', message: undefined }])
  }
})

t.test('parameters of methods that send transactions, or that the table does not have, are never logged', async t => {
  const { end, advance, written } = openLog()
  end({ method: 'eth_sendRawTransaction', params: ['0x02'] })
  end({ method: 'personal_unlockAccount', params: ['0x11', 'the password'] })
  await advance()
  t.same(
    written().map(({ method, params, paramsOmitted }) => [method, params, paramsOmitted]),
    [
      ['eth_sendRawTransaction', undefined, 'transaction'],
      ['personal_unlockAccount', undefined, 'unknownMethod'],
    ],
  )
})

t.test('parameters are cut to 1 KiB, and keys and tokens in them, in messages and in methods are masked, a cut one too', async t => {
  const { end, advance, written } = openLog()
  const key = generateApiKey().reveal()
  const token = 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJrZXlfMSJ9.c2lnbmF0dXJl'
  end({ params: [key, `Bearer ${token}`] })
  end({ params: ['a'.repeat(1_000), key] })
  end({ params: ['a'.repeat(990), token, 'b'.repeat(100_000)] })
  end({ params: ['é'] })
  end({ reply: refuse('params', { message: `no address: ${key}` }) })
  end({ method: key })
  end({ reply: refuseUnknownMethod(key) })
  end({ params: [key.replace('_', '%5F')] })
  await advance()
  const [masked, cut, cutToken, ascii, message, method, quoted, escaped] = written()
  t.match(masked, { params: '["***","Bearer ***"]', isCut: undefined })
  for (const each of [cut, cutToken]) {
    t.equal(each?.isCut, true)
    t.ok((each?.params ?? '').length <= 1_024)
    t.match(each?.params, /"\*\*\*$/)
  }
  t.equal(ascii?.params, '["\\u00e9"]')
  t.equal(message?.message, 'no address: ***')
  t.equal(method?.method, '***')
  t.equal(quoted?.message, 'the method ***... does not exist/is not available', 'also where the message has the beginning of the key alone')
  t.equal(escaped?.params, '["***"]')
})

t.test('a call whose response cannot be delivered is logged with what the caller gets', async t => {
  const { usage, end, advance, written } = openLog()
  usage.recordUndelivered(end({ reply: fakeResult('ok') }), 'tooLarge', 0)
  usage.recordUndelivered(end({ reply: { ...refuse('timeout'), category: 'timeout' } }), 'tooLarge', 80)
  await advance()
  t.match(written(), [
    { outcome: 'tooLarge', code: -32003, credits: 0 },
    { outcome: 'tooLarge', credits: 80, category: undefined },
  ])
})

t.test('what is written already of a call whose response cannot be delivered is amended, once the store has it', async t => {
  const { log, usage, state, batches, amended, end, advance } = openLog()
  end({ reply: fakeResult('ok') })
  const record = end({ reply: fakeResult('ok') })
  state.isDown = true
  await advance()
  usage.recordUndelivered(record, 'unavailable', 0)
  await advance()
  state.isDown = false
  await advance()
  const change = { outcome: 'unavailable', code: -32002, credits: 0 }
  t.match(amended, [{ account: fakeAccount.id, batch: batches[0]?.id, position: 1, ...change }])
  const last = end({ account: { id: 'acc_2' } })
  await advance()
  usage.recordUndelivered(last, 'internal', 0)
  await log.stop()
  t.match(amended.slice(1), [{ account: 'acc_2', batch: batches[1]?.id, position: 0, outcome: 'internal' }])
})

t.test('amendments wait in bounded memory while the store is unreachable, and none is lost that comes while others are sent', async t => {
  const { usage, state, amended, end, advance } = openLog()
  const records = Array.from({ length: 1_100 }, (_, i) => end({ account: { id: `acc_${i}` } }))
  const last = end({ account: { id: 'acc_last' } })
  while (last.logged?.written === undefined) await advance()
  state.isDown = true
  for (const record of records) usage.recordUndelivered(record, 'internal', 0)
  await advance()
  state.isDown = false
  let release = (): void => undefined
  state.isReady = new Promise(resolve => (release = resolve))
  await advance()
  usage.recordUndelivered(last, 'internal', 0)
  release()
  await drainEventLoop()
  t.same([amended.length, amended.at(-1)?.account], [1_000, 'acc_1099'])
  await advance()
  t.same([amended.length, amended.at(-1)?.account], [1_001, 'acc_last'])
})

t.test('a log that is turned off and on again takes samples as before, and sends nothing of before', async t => {
  const { log, usage, state, amended, end, advance, written } = openLog()
  const record = end()
  await advance()
  state.isDown = true
  usage.recordUndelivered(record, 'tooLarge', 0)
  for (let i = 0; i < 400; i++) end({ params: ['x'.repeat(900)], account: { id: `acc_${i}` } })
  log.configure({ ...testRequestLog, enabled: false })
  log.configure(testRequestLog)
  state.isDown = false
  end({ account: { id: 'acc_new' }, reply: fakeResult('ok') })
  await advance()
  t.equal(written('acc_new').length, 1)
  t.same([written('acc_7'), amended], [[], []])
})

t.test('from the reload on that turns the log down, nothing more is sent of the calls before', async t => {
  for (const less of [{ enabled: false }, { params: false }]) {
    const { log, usage, state, amended, end, advance, written } = openLog()
    state.isDown = true
    const record = end({ params: ['first'], reply: refuse('params', { message: 'first' }) })
    await advance()
    end({ params: ['second'] })
    log.configure({ ...testRequestLog, ...less })
    usage.recordUndelivered(record, 'tooLarge', 0)
    state.isDown = false
    await advance()
    await advance()
    t.equal(written().length, less.params === undefined ? 0 : 2)
    t.equal(amended.length, less.params === undefined ? 0 : 1)
    t.notMatch(JSON.stringify(written()), /first|second|"message"/)
  }
})

t.test('while the store is unreachable the newest requests wait in bounded memory, and no batch is lost or changed', async t => {
  const { log, state, end, advance, batches } = openLog()
  state.isDown = true
  end({ params: ['first'] })
  await advance()
  for (let i = 0; i < 8_000; i += 1) end({ params: ['x'.repeat(900)], account: { id: `acc_${i}` } })
  await advance()
  state.isDown = false
  await advance()
  t.match(batches, [{ accounts: [{ account: fakeAccount.id, requests: [{ params: '["first"]' }] }] }])
  await log.stop()
  const accounts = batches.slice(1).flatMap(batch => batch.accounts.map(({ account }) => account))
  t.ok(accounts.length > 500 && accounts.length < 2_000, `${accounts.length} requests`)
  t.equal(accounts.at(-1), 'acc_7999')
  t.equal(new Set(batches.map(({ id }) => id)).size, batches.length)
  for (const batch of batches) t.ok(JSON.stringify(batch).length < 100_000)
})

t.test('a stop writes what has come while a batch was being written, and a batch that the store has failed to take', async t => {
  for (const failures of [0, 1]) {
    const { log, state, end, advance, written } = openLog()
    let release = (): void => undefined
    state.isReady = new Promise(resolve => (release = resolve))
    state.failures = failures
    end({ params: ['first'] })
    await advance()
    end({ params: ['second'] })
    const stopped = log.stop()
    release()
    await stopped
    t.same(
      written().map(({ params }) => params),
      ['["first"]', '["second"]'],
    )
  }
})

t.test('every ten minutes what is too old is dropped, and what accounts have too much of', async t => {
  const { swept, end, advance } = openLog()
  end()
  await advance()
  await advance(600_000)
  await advance(600_000)
  t.same(swept, [[fakeAccount.id], []])
})
