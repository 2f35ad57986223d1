import type { Test } from 'tap'
import { maxFoundRequests, maxReadRequests, maxRequestsPerAccount, requestSpanMs } from '../../src/store/request-log-store.ts'
import type { LoggedRequest, RequestLogStore, StoredRequest } from '../../src/store/request-log-store.ts'
import { hourMs } from '../../src/util/dates.ts'
import { TestClock, fakeLoggedRequest } from '../support/fakes.ts'

type OpenStore = (t: Test, clock: TestClock) => RequestLogStore | Promise<RequestLogStore>

/** Every engine keeps the log of requests in this way. */
export const requestLogContract = async (t: Test, open: OpenStore): Promise<void> => {
  const limits = { retentionMs: 24 * hourMs, maxBytes: 1_000_000 }
  const request = (requestId: string, over: Partial<LoggedRequest> = {}): LoggedRequest => ({ ...fakeLoggedRequest, requestId, ...over })
  const setUp = async (t: Test) => {
    const clock = new TestClock(Date.UTC(2026, 0, 15, 12))
    const store = await open(t, clock)
    let batches = 0
    const add = (account: string, requests: readonly LoggedRequest[], over: object = {}) =>
      store.addRequests({ id: `p1-${(batches += 1)}`, accounts: [{ account, requests }] }, { ...limits, ...over })
    const idsOf = async (account = 'acc_1') => (await store.requests(account)).map(({ requestId }) => requestId)
    return { clock, store, add, idsOf }
  }

  t.test('the requests of an account are read as they were written, the newest first, those of others apart', async t => {
    const { clock, store, add, idsOf } = await setUp(t)
    const second = request('b', {
      time: 3_000,
      isSlow: true,
      isCut: true,
      cache: 'miss',
      attempts: 2,
      upstream: 'own',
      category: 'reverted',
    })
    await add('acc_1', [request('a'), second])
    await add('acc_2', [request('x')])
    clock.advance(requestSpanMs)
    await add('acc_1', [request('c', { time: 2_000 })])
    t.same(await idsOf(), ['b', 'c', 'a'])
    const found = await store.requests('acc_1')
    t.same(found[0], { ...second, id: found[0]?.id })
    t.equal(new Set(found.map(({ id }) => id)).size, 3)
    t.same(await idsOf('acc_2'), ['x'])
    t.same(await idsOf('acc_3'), [])
  })

  t.test('requests are found by their id among those of all accounts, the newest first, and by no part of it', async t => {
    const { clock, store, add } = await setUp(t)
    const find = async (requestId: string) => (await store.findRequests(requestId)).map(({ account, time }) => [account, time])
    await add('acc_1', [request('trace/1', { time: 1_000 }), request('other', { time: 1_500 })])
    clock.advance(requestSpanMs)
    // An id in other members is none.
    await add('acc_2', [request('b', { params: '["trace/1"]' }), request('trace/1', { time: 3_000 })])
    for (let i = 3; i < 60; i += 1) await add(`acc_${i}`, [request('c')])
    await add('acc_3', [request('trace/1', { time: 2_000 })])
    t.same(await find('trace/1'), [
      ['acc_2', 3_000],
      ['acc_3', 2_000],
      ['acc_1', 1_000],
    ])
    t.same(await find('trace'), [])
    t.equal((await find('c')).length, 57)
    await store.dropRequests('acc_2')
    t.equal((await find('trace/1')).length, 2)
  })

  t.test('the latest requests of all accounts are read from the newest on, and no more of them than is needed', async t => {
    const { clock, store } = await setUp(t)
    const looked: number[] = []
    const latest = async (limit: number, { since = 0, until = Infinity, outcome = 'ok' } = {}) => {
      looked.length = 0
      const isWanted = (each: StoredRequest): boolean => looked.push(each.time) > 0 && each.outcome === outcome
      const { requests, readFrom } = await store.latestRequests({ since, until, limit, isWanted })
      return { found: requests.map(({ account, requestId }) => `${account} ${requestId}`), readFrom }
    }
    t.same(await latest(5), { found: [], readFrom: 0 })
    let time = clock.now()
    const send = (writer: string, number: number, ...accounts: readonly string[]) =>
      store.addRequests(
        {
          id: `${writer}-${number}`,
          accounts: accounts.map(account => ({
            account,
            requests: [request(`${writer}${number}`, { time: (time += 100), outcome: number === 1 ? 'params' : 'ok' })],
          })),
        },
        limits,
      )
    for (let i = 1; i <= 60; i += 1) await send('p', i, 'acc_1', 'acc_2')
    await send('q', 2, 'acc_3')
    await send('p', 61, 'acc_1')
    clock.advance(requestSpanMs)
    time = clock.now()
    await send('q', 9, 'acc_3')
    await send('q', 10, 'acc_2')
    t.same((await latest(3)).found, ['acc_2 q10', 'acc_3 q9', 'acc_1 p61'])
    t.ok(looked.length < 60, `${looked.length} of 124`)
    t.same((await latest(5)).found, ['acc_2 q10', 'acc_3 q9', 'acc_1 p61', 'acc_3 q2', 'acc_2 p60'])
    t.same(await latest(5, { outcome: 'params' }), { found: ['acc_2 p1', 'acc_1 p1'], readFrom: 0 })
    t.equal(looked.length, 124, 'once each')
    t.same(await latest(5, { since: clock.now() }), { found: ['acc_2 q10', 'acc_3 q9'], readFrom: clock.now() })
    await store.dropRequests('acc_2')
    t.same((await latest(2)).found, ['acc_3 q9', 'acc_1 p61'])
    const until = clock.now() + 100
    clock.advance(2 * requestSpanMs)
    time = clock.now()
    for (let i = 2; i <= 4; i += 1) await send('r', i, 'acc_4')
    t.same((await latest(2, { until })).found, ['acc_1 p61', 'acc_3 q2'], 'before a time')
    t.ok(
      looked.every(each => each <= until),
      'what was logged later is not looked at',
    )
  })

  t.test('the latest requests are read also where a process has written older ones later than others, as after an outage', async t => {
    const { clock, store } = await setUp(t)
    const start = clock.now()
    const timesOf: Record<string, readonly number[]> = {
      prompt: Array.from({ length: 60 }, (_, i) => start + 1 + i * 10_000),
      late: Array.from({ length: 100 }, (_, i) => start - 120_000 + i * 8_000),
    }
    const write = async (writer: string): Promise<void> => {
      for (const [i, time] of (timesOf[writer] ?? []).entries()) {
        const requests = [request(`${time}`, { time })]
        await store.addRequests({ id: `${writer}-${i}`, accounts: [{ account: `acc_${writer}`, requests }] }, limits)
      }
    }
    await write('prompt')
    clock.advance(requestSpanMs)
    await write('late')
    const newestFirst = Object.values(timesOf)
      .flat()
      .sort((a, b) => b - a)
    for (const [limit, since] of [
      [20, 0],
      [60, 0],
      [500, start + 100_000],
    ] as const) {
      const looked = new Set<number>()
      const isWanted = ({ time }: StoredRequest): boolean => looked.add(time).size > 0
      const { requests, readFrom } = await store.latestRequests({ since, limit, isWanted })
      const expected = newestFirst.filter(time => time >= since).slice(0, limit)
      t.same(
        requests.map(({ time }) => time),
        expected,
      )
      t.ok(
        readFrom <= (expected.at(-1) ?? 0) && newestFirst.every(time => time <= readFrom || looked.has(time)),
        'all since then were read',
      )
      if (limit < 500) t.ok(looked.size < 2 * limit + 50, `${looked.size} are read for ${limit}`)
    }
  })

  t.test('of many logged requests a bounded number is looked at', async t => {
    const { clock, store, add } = await setUp(t)
    const time = clock.now()
    const perBatch = 500
    const batches = maxReadRequests / perBatch + 60
    const start = time - batches * perBatch
    for (let i = 0; i < batches; i += 1)
      await add(
        `acc_${i % 7}`,
        Array.from({ length: perBatch }, (_, at) => ({ ...request('a'), time: start + i * perBatch + at })),
        { maxBytes: 1e9 },
      )
    let looked = 0
    const { requests, readFrom } = await store.latestRequests({ since: 0, limit: 1, isWanted: () => (looked += 1) < 0 })
    t.same(requests, [])
    t.ok(looked >= maxReadRequests && looked < 1.5 * maxReadRequests, `${looked}`)
    t.equal(readFrom, time - looked, 'all from then on')
  })

  t.test('of many requests with one id, as of a WebSocket, the newest are found', async t => {
    const { store, add } = await setUp(t)
    await add(
      'acc_1',
      Array.from({ length: maxFoundRequests + 20 }, (_, time) => request('ws', { time })),
    )
    const found = await store.findRequests('ws')
    t.equal(found.length, maxFoundRequests)
    t.equal(found[0]?.time, maxFoundRequests + 19)
  })

  t.test('a batch that is sent again is read once, also where it is in the next span', async t => {
    const { clock, store, idsOf } = await setUp(t)
    const batch = { id: 'p1-1', accounts: ['acc_1', 'acc_2'].map(account => ({ account, requests: [request('a')] })) }
    await Promise.all([1, 2, 3].map(() => store.addRequests(batch, limits)))
    clock.advance(requestSpanMs)
    await store.addRequests(batch, limits)
    t.same(await idsOf(), ['a'])
    t.same(await idsOf('acc_2'), ['a'])
    t.same((await store.findRequests('a')).map(({ account }) => account).sort(), ['acc_1', 'acc_2'])
  })

  t.test('requests are dropped after the retention', async t => {
    const { clock, store, add, idsOf } = await setUp(t)
    await add('acc_1', [request('a')])
    clock.advance(hourMs)
    await add('acc_1', [request('b')])
    clock.advance(23 * hourMs)
    await store.sweepRequests(limits, [])
    t.equal((await idsOf()).length, 2)
    clock.advance(requestSpanMs)
    await store.sweepRequests(limits, [])
    t.same(await idsOf(), ['b'])
  })

  t.test('the log of all accounts stays below its limit of bytes: the oldest make room, and a span that is full takes no more', async t => {
    const { clock, add, idsOf } = await setUp(t)
    const large = (requestId: string) => [request(requestId, { params: 'x'.repeat(1_000) })]
    const maxBytes = 5_500
    for (const id of ['a', 'b', 'c']) await add(`acc_${id}`, large(id), { maxBytes })
    clock.advance(requestSpanMs)
    await add('acc_1', large('d'), { maxBytes })
    t.same(await idsOf('acc_a'), ['a'])
    await add('acc_1', large('e'), { maxBytes })
    t.same([...(await idsOf('acc_a')), ...(await idsOf('acc_b')), ...(await idsOf('acc_c'))], [])
    for (const id of ['f', 'g', 'h', 'i']) await add('acc_1', large(id), { maxBytes })
    t.same((await idsOf()).sort(), ['d', 'e', 'f', 'g'])
    clock.advance(requestSpanMs)
    await add('acc_1', large('j'), { maxBytes })
    t.same(await idsOf(), ['j'])
  })

  t.test('of an account with too many requests the oldest are dropped, and those of others stay', async t => {
    const { clock, store, add, idsOf } = await setUp(t)
    const many = Array.from({ length: maxRequestsPerAccount / 2 }, () => request('old'))
    await add('acc_2', [request('other')])
    await add('acc_1', many, { maxBytes: 1e9 })
    clock.advance(requestSpanMs)
    await add('acc_1', many, { maxBytes: 1e9 })
    await store.sweepRequests({ ...limits, maxBytes: 1e9 }, ['acc_1'])
    t.equal((await idsOf()).length, maxRequestsPerAccount)
    await add('acc_1', [request('new')], { maxBytes: 1e9 })
    await store.sweepRequests({ ...limits, maxBytes: 1e9 }, ['acc_1', 'acc_9'])
    t.equal((await idsOf()).length, maxRequestsPerAccount / 2 + 1)
    t.same(await idsOf('acc_2'), ['other'])
  })

  t.test('a request is amended where it is, and those beside it stay', async t => {
    const { clock, store, add, idsOf } = await setUp(t)
    const [first, second, third] = [request('a', { time: 2 }), request('b', { time: 1, params: '[]' }), request('c', { time: 3 })]
    await add('acc_1', [first, { ...second, category: 'reverted' }])
    await add('acc_2', [first])
    clock.advance(requestSpanMs)
    await add('acc_1', [third])
    const change = { outcome: 'tooLarge', code: -32003, message: 'x'.repeat(200), credits: 7 }
    await store.amendRequests([
      { account: 'acc_1', batch: 'p1-1', position: 1, ...change },
      { account: 'acc_1', batch: 'p1-9', position: 0, ...change },
      { account: 'acc_9', batch: 'p1-1', position: 0, ...change },
    ])
    const [c, a, b] = await store.requests('acc_1')
    t.match([c, a], [third, first])
    t.same(b, { ...second, ...change, id: b?.id })
    t.match(await store.requests('acc_2'), [first])
    // With the account, and 6 characters for each id.
    const bytesOf = (requests: readonly LoggedRequest[]) => JSON.stringify(requests).length + 'acc_1 '.length + 6 * requests.length
    const added = bytesOf([request('d')])
    const maxBytes = [[first, { ...second, ...change }], [first], [third]].reduce((sum, each) => sum + bytesOf(each), 2 * added - 1)
    await add('acc_1', [request('d')], { maxBytes })
    t.equal((await idsOf()).length, 4)
    await add('acc_1', [request('e')], { maxBytes })
    t.same((await idsOf()).sort(), ['c', 'd', 'e'], 'the bytes of the amendment count')
  })

  t.test('two amendments of one batch at once are both kept', async t => {
    const { store, add } = await setUp(t)
    await add('acc_1', [request('a', { time: 1 }), request('b', { time: 2 })])
    const amend = (position: number) =>
      store.amendRequests([{ account: 'acc_1', batch: 'p1-1', position, outcome: 'internal', code: -32603, credits: 0 }])
    await Promise.all([amend(0), amend(1)])
    t.match(await store.requests('acc_1'), [{ outcome: 'internal' }, { outcome: 'internal' }])
  })

  t.test('what was logged before an account has less logged is not stored afterwards, whatever a process knew', async t => {
    const { store, add } = await setUp(t)
    const logged = request('a', { params: '["0x1"]', isCut: true, outcome: 'params', message: 'params[0] is 0x1' })
    const { params: _params, isCut: _isCut, message: _message, ...rest } = logged
    const stored = async () => (await store.requests('acc_1')).map(({ id: _, ...found }) => found)
    await add('acc_1', [logged])
    await store.limitRequests('acc_1', 'withoutParams')
    t.same(await stored(), [], 'what was stored before is dropped')
    const late = { id: 'p2-1', accounts: ['acc_1', 'acc_2'].map(account => ({ account, requests: [logged] })) }
    await store.addRequests(late, limits)
    await store.addRequests(late, limits)
    t.same(await stored(), [{ ...rest, paramsOmitted: 'setting' }])
    t.match(await store.requests('acc_2'), [logged], 'of others all is stored')
    await store.limitRequests('acc_1', 'off')
    await add('acc_1', [logged])
    await store.addRequests({ ...late, id: 'p2-2' }, limits)
    t.same([await stored(), (await store.requests('acc_2')).length], [[], 2])
    await store.limitRequests('acc_1', undefined)
    await add('acc_1', [logged])
    t.same(await stored(), [logged])
    await store.limitRequests('acc_1', 'off')
    await store.dropRequests('acc_1')
    await add('acc_1', [logged])
    t.same(await stored(), [logged], 'an account that is removed leaves nothing behind')
  })

  t.test('the requests of an account can be dropped, which makes room', async t => {
    const { clock, store, add, idsOf } = await setUp(t)
    const large = [request('a', { params: 'x'.repeat(1_000) })]
    const maxBytes = 2_600
    await add('acc_1', large, { maxBytes })
    await add('acc_2', large, { maxBytes })
    await store.dropRequests('acc_1')
    t.same(await idsOf(), [])
    clock.advance(requestSpanMs)
    await add('acc_3', large, { maxBytes })
    t.same([await idsOf('acc_2'), await idsOf('acc_3')], [['a'], ['a']])
    await store.dropRequests('acc_1')
    await store.dropRequests('acc_2')
    await add('acc_1', large, { maxBytes })
    t.same([await idsOf(), await idsOf('acc_3')], [['a'], ['a']])
  })
}
