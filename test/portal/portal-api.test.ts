import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import Koa from 'koa'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { operatorRoutes } from '../../src/portal/operator/operator-app.ts'
import { operatorOpenApi } from '../../src/portal/operator/operator-openapi.ts'
import { portalOpenApi } from '../../src/portal/portal-openapi.ts'
import { routes } from '../../src/portal/portal-app.ts'
import { NodeIncidents } from '../../src/portal/operator/node-incidents.ts'
import { openPortal } from '../../src/portal/index.ts'
import { refuseCrossSite } from '../../src/portal/security.ts'
import { sessionOf, signIn } from '../../src/portal/people/sessions.ts'
import { systemClock } from '../../src/services/clock.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { openStore } from '../../src/store/open-store.ts'
import { dayMs, isoDate } from '../../src/util/dates.ts'
import { hourMs } from '../../src/util/dates.ts'
import { tempFolder, tempStore } from '../store/temp-store.ts'
import { childrenOf } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { TestClock, TestLog, fakeLoggedRequest, testRequestLog } from '../support/fakes.ts'
import { openApiChecker } from '../support/openapi-checker.ts'
import { createPortalClient, createPortalDeployment, printSignInToken, signInToPortal } from '../support/portal-client.ts'
import type { PortalClient } from '../support/portal-client.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import type { TokenJson } from '../../src/portal/routes/tokens.ts'
import { startSessionApp } from '../support/session-app.ts'
import { waitUntil } from '../support/wait-until.ts'

const word = `0x${'ab'.repeat(32)}`

const failingCall = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getStorageAt', params: ['0x1'] })

const listen = { rpc: '127.0.0.1:0', admin: '127.0.0.1:0', portal: '127.0.0.1:0' }

const portalGateway = (workers: number) => ({
  listen: { ...listen, trustedProxies: ['127.0.0.1'] },
  portal: { publicStatus: true, url: 'http://127.0.0.1', brand: { support: 'mailto:help@example.org' } },
  workers,
})

const startPortal = async (t: Test, workers = 1): Promise<{ deployment: Deployment; gateway: GatewayProcess }> => {
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_blockNumber: { result: '0x10' },
    eth_getStorageAt: { result: word },
  })
  const deployment = createPortalDeployment(node.url, { gateway: portalGateway(workers) })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  for (const name of ['alice', 'bob']) await deployment.addAccount(name)
  return { deployment, gateway: await deployment.start() }
}

const isRefused = async (gateway: GatewayProcess, key: string): Promise<boolean> =>
  (await call(gateway.http(key), 'eth_chainId')).error?.code === -32090

t.test('a session', async t => {
  // The cookie and the store have the clock of the system: of a session, only the age is over.
  const clock = new TestClock(systemClock.now())
  let person: string | undefined
  const request = await startSessionApp(t, { store: await tempStore(t, systemClock), clock }, async ctx => {
    if (ctx.path === '/sign-in') await signIn(ctx, { id: 'usr_1', account: 'acc_1' }, clock)
    person = sessionOf(ctx)?.person
  })
  const personOf = async (cookie: string) => {
    await request('/', cookie)
    return person
  }

  t.test('has a new id after each sign-in, and the id from before is worth nothing', async t => {
    const planted = await request('/sign-in')
    const cookie = await request('/sign-in', planted)
    t.same([await personOf(cookie), await personOf(planted)], ['usr_1', undefined])
  })

  t.test('in use ends 12 hours after the sign-in', async t => {
    const cookie = await request('/sign-in')
    clock.advance(12 * hourMs - 1)
    t.equal(await personOf(cookie), 'usr_1')
    clock.advance(1)
    t.equal(await personOf(cookie), undefined)
  })
})

t.test('portal', async t => {
  const { deployment, gateway } = await startPortal(t)
  const portalUrl = gateway.portal ?? ''
  const alice = await signInToPortal(deployment, gateway, 'alice')
  const bob = await signInToPortal(deployment, gateway, 'bob')

  t.test('a sign-in link works once', async t => {
    const token = await printSignInToken(deployment, 'alice')
    t.equal((await createPortalClient(portalUrl).post('/session', { token })).status, 201)
    t.match(await createPortalClient(portalUrl).post('/session', { token }), { status: 401, json: { error: { code: 'link-invalid' } } })
  })

  t.test('without a session every route but signing in is refused with 401', async t => {
    const nobody = createPortalClient(portalUrl)
    for (const { method, path, role } of routes) {
      if (role === 'anyone') continue
      const { status, json } = await nobody.request(method.toUpperCase(), path, method === 'get' ? undefined : {})
      t.match({ status, json }, { status: 401, json: { error: { code: 'not-signed-in' } } }, `${method} ${path}`)
    }
  })

  t.test('signing out ends this session, and signing out everywhere ends all of the person', async t => {
    const [one, other] = [await signInToPortal(deployment, gateway, 'alice'), await signInToPortal(deployment, gateway, 'alice')]
    t.equal((await one.delete('/session')).status, 204)
    t.equal((await one.get('/session')).status, 401)
    t.equal((await other.get('/session')).status, 200)
    const third = await signInToPortal(deployment, gateway, 'alice', '--person', 'carol')
    const fourth = await signInToPortal(deployment, gateway, 'alice', '--person', 'carol')
    t.equal((await third.delete('/sessions')).status, 204)
    t.equal((await fourth.get('/session')).status, 401)
    t.equal((await other.get('/session')).status, 200, 'another person stays signed in')
  })

  t.test('the stream of figures ends with its session, and with its person', async t => {
    const stream = async (client: PortalClient): Promise<Promise<string>[]> => {
      const response = await fetch(`${portalUrl}/api/v1/events`, { headers: { cookie: client.cookies() } })
      t.equal(response.status, 200)
      return [response.text()]
    }
    const page = new AbortController()
    const closed = await fetch(`${portalUrl}/api/v1/events`, { headers: { cookie: alice.cookies() }, signal: page.signal })
    t.match(Buffer.from((await closed.body?.getReader().read())?.value ?? []).toString(), /^event: account\ndata: \{"account":/)
    page.abort()
    const { status, headers } = await fetch(`${portalUrl}/api/v1/events`, { method: 'HEAD', headers: { cookie: alice.cookies() } })
    t.same([status, headers.get('content-type')], [200, 'text/event-stream'], 'HEAD has no stream')
    const leaving = await signInToPortal(deployment, gateway, 'alice', '--person', 'leo')
    const [ofSession] = await stream(leaving)
    t.equal((await leaving.delete('/session')).status, 204)
    t.match(await ofSession, /^event: account\ndata: \{"account":/)
    const removed = await signInToPortal(deployment, gateway, 'alice', '--person', 'ray')
    const [ofPerson] = await stream(removed)
    const { json: people } = await alice.get('/people')
    const { id } = people.find(({ name }: { name: string }) => name === 'ray')
    t.equal((await alice.delete(`/people/${id}`)).status, 204)
    t.match(await ofPerson, /^event: account/)
    t.equal((await fetch(`${portalUrl}/api/v1/events`)).status, 401)
    const aborted = gateway.log.filter(({ msg }) => /aborted/.test(String(msg)))
    t.same(aborted, [], 'a page that is closed is nothing to report')
  })

  t.test('a person has twenty streams of events at most', async t => {
    const pages = Array.from({ length: 22 }, () => new AbortController())
    const open = async ({ signal }: AbortController, person = alice, method = 'GET') =>
      (await fetch(`${portalUrl}/api/v1/events`, { method, headers: { cookie: person.cookies() }, signal })).status
    const another = new AbortController()
    for (let i = 0; i < 25; i += 1) t.equal(await open(another, alice, 'HEAD'), 200, 'what has ended is not counted')
    const colleague = await signInToPortal(deployment, gateway, 'alice', '--person', 'bea')
    const statuses = await Promise.all(pages.map(page => open(page)))
    t.same([statuses.filter(status => status === 200).length, statuses.filter(status => status === 429).length], [20, 2])
    t.equal(await open(another, colleague), 200, 'another person of the account has streams of their own')
    pages.forEach(page => page.abort())
    await waitUntil(async () => (await open(another)) === 200)
    another.abort()
  })

  t.test('a reload changes plans, also in a stream that is open; and those that are offered', async t => {
    const { body } = await fetch(`${portalUrl}/api/v1/events`, {
      headers: { cookie: alice.cookies() },
      signal: AbortSignal.timeout(20_000),
    })
    t.match(
      (await alice.get('/account')).json,
      { plan: { name: 'core', price: null, url: null }, billingUrl: null, hasOwnCredits: false, offeredPlans: { length: 0 } },
      'none is offered',
    )
    const growth = { dailyCredits: 200_000_000, forwarding: true, rate: '6000/m', burst: 200, offered: true, price: '$49 a month' }
    const url = 'https://shop.example.org/growth?account={account}'
    const plans = { growth: { ...growth, url }, core: { dailyCredits: 4_000_000 }, custom: { dailyCredits: 1_000_000_000 } }
    deployment.writeGateway({ ...portalGateway(1), plans })
    process.kill(gateway.pid, 'SIGHUP')
    let received = ''
    for await (const bytes of body ?? []) {
      received += Buffer.from(bytes).toString()
      if (received.includes('"limit":4000000')) break
    }
    t.match(received, /"limit":3000000[^]*"limit":4000000/)
    const offered = { name: 'growth', dailyCredits: 200_000_000, forwarding: true, rate: 100, burst: 200, price: '$49 a month' }
    const { account, offeredPlans } = (await alice.get('/account')).json
    t.same(offeredPlans, [{ ...offered, url: `https://shop.example.org/growth?account=${account.id}` }])
    await deployment.run('accounts', 'set', 'bob', '--plan', 'growth', '--credits', '5')
    t.match(
      (await bob.get('/account')).json,
      { plan: { ...offered, dailyCredits: 5 }, hasOwnCredits: true, offeredPlans: { length: 0 } },
      'not beside itself',
    )
    await deployment.run('accounts', 'set', 'bob', '--plan', 'core', '--credits', 'plan')
    deployment.writeGateway(portalGateway(1))
    process.kill(gateway.pid, 'SIGHUP')
    await waitUntil(async () => (await alice.get('/account')).json.balance.limit === 3_000_000)
  })

  t.test('a session id that was planted before is not the one that is signed in', async t => {
    const token = await printSignInToken(deployment, 'alice')
    const { headers } = await createPortalClient(portalUrl).request(
      'POST',
      '/session',
      { token },
      { cookie: 'tollgate=planted; tollgate.sig=x' },
    )
    t.notMatch(headers.getSetCookie().join(), /planted/)
    t.match(headers.getSetCookie().join(), /httponly/i)
    t.match(headers.getSetCookie().join(), /samesite=lax/i)
  })

  t.test('a key made in the portal opens the gateway within a second, and a revoked key no longer', async t => {
    const { status, json: key } = await alice.post('/keys', { name: 'my dApp', networks: ['devnet'], methods: ['eth_chainId'] })
    t.equal(status, 201)
    await waitUntil(async () => !(await isRefused(gateway, key.key)))
    t.match((await alice.get('/keys')).json, [
      { id: key.id, name: 'my dApp', hint: key.key.slice(-4), networks: ['devnet'], revoked: null },
    ])
    t.notMatch(JSON.stringify((await alice.get('/keys')).json), key.key)
    t.match((await call(gateway.http(key.key), 'eth_blockNumber')).error, { code: -32091 }, 'its list of methods holds')
    const changed = await alice.request('PATCH', `/keys/${key.id}`, { methods: [], name: 'renamed' })
    t.match(changed.json, { name: 'renamed', methods: [], networks: ['devnet'] })
    t.match((await alice.post(`/keys/${key.id}/revoke`)).json, { revoked: /^20/ })
    await waitUntil(async () => isRefused(gateway, key.key))
  })

  t.test('a key that is rotated or suspended is refused when it should be', async t => {
    const { json: old } = await alice.post('/keys', { name: 'old', methods: ['eth_chainId'], days: 30 })
    t.match(old, { state: 'active', expires: /^20/ })
    const { status, json: rotated } = await alice.post(`/keys/${old.id}/rotate`, { overlapHours: 1 })
    t.equal(status, 201)
    t.match(rotated, { name: 'old', methods: ['eth_chainId'], expires: null })
    await waitUntil(async () => !(await isRefused(gateway, rotated.key)))
    t.notOk(await isRefused(gateway, old.key), 'both are accepted for the overlap')
    t.match((await alice.post(`/keys/${rotated.id}/suspend`)).json, { state: 'suspended' })
    await waitUntil(async () => isRefused(gateway, rotated.key))
    t.match(await alice.post(`/keys/${rotated.id}/rotate`), { status: 409 })
    t.match((await alice.post(`/keys/${rotated.id}/resume`)).json, { state: 'active', suspended: null })
    await waitUntil(async () => !(await isRefused(gateway, rotated.key)))
    await alice.post(`/keys/${rotated.id}/revoke`)
    t.match(await alice.post(`/keys/${rotated.id}/resume`), { status: 409, json: { error: { code: 'not-active', message: /revoked/ } } })
  })

  t.test('a key with a list of IP addresses is accepted from those only, as a trusted proxy names them', async t => {
    const { status, json: key } = await alice.post('/keys', { name: 'server', ips: ['203.0.113.0/24', '2001:db8::7'] })
    t.equal(status, 201)
    t.match(key, { ips: ['203.0.113.0/24', '2001:db8::7'] })
    await waitUntil(async () => !(await isRefused(gateway, key.key)))
    const codeFrom = async (headers: Readonly<Record<string, string>>) =>
      (await call(gateway.http(key.key), 'eth_chainId', [], { headers })).error?.code
    t.equal(await codeFrom({ 'x-forwarded-for': '198.51.100.1, 203.0.113.9' }), undefined)
    t.equal(await codeFrom({ forwarded: 'for="[2001:db8::7]:1234"' }), undefined)
    t.equal(await codeFrom({ 'x-forwarded-for': '203.0.113.9, 198.51.100.1' }), -32091)
    t.equal(await codeFrom({}), -32091, 'the proxy itself')
    const ws = await connectWs(gateway.ws(key.key), { headers: { 'x-forwarded-for': '203.0.113.10' } })
    t.equal((await ws.call('eth_chainId')).error, undefined)
    await ws.close()
    t.match(await alice.post('/keys', { name: 'x', ips: ['203.0.113.0/33'] }), {
      status: 400,
      json: { error: { field: 'ips', message: /^invalid IP address "203.0.113.0\/33"; expected an address or a subnet, such as / } },
    })
    t.match((await alice.post(`/keys/${key.id}/rotate`, {})).json, { ips: key.ips })
  })

  t.test('a key with a daily limit serves calls up to it, shows what is used, and is unlimited again when it is 0', async t => {
    const { json: key } = await alice.post('/keys', { name: 'limited', dailyCredits: 14 })
    t.match(key, { dailyCredits: 14, usedToday: 0 })
    await waitUntil(async () => !(await isRefused(gateway, key.key)))
    const codes = async () => [(await call(gateway.http(key.key), 'eth_chainId')).error?.code]
    t.same([...(await codes()), ...(await codes())], [undefined, -33000], 'three calls of 5 credits are too many')
    const shown = async () => (await alice.get('/keys')).json.find(({ id }: { id: string }) => id === key.id)
    await waitUntil(async () => (await shown()).usedToday === 10)
    t.match((await alice.request('PATCH', `/keys/${key.id}`, { dailyCredits: 0 })).json, { dailyCredits: null, usedToday: null })
    await waitUntil(async () => (await codes())[0] === undefined)
    t.match(await alice.post('/keys', { name: 'x', dailyCredits: -1 }), { status: 400, json: { error: { field: 'dailyCredits' } } })
    await alice.post(`/keys/${key.id}/revoke`)
  })

  t.test('a key has a rate and a burst, which are set together', async t => {
    const { json: key } = await alice.post('/keys', { name: 'slow', rate: '600/m', burst: 5 })
    t.match(key, { rate: '10/s', burst: 5 })
    const change = (settings: object) => alice.request('PATCH', `/keys/${key.id}`, settings)
    t.match((await change({ name: 'slower' })).json, { rate: '10/s', burst: 5 })
    t.match((await change({ rate: '2/s' })).json, { rate: '2/s', burst: null })
    t.match((await change({ rate: 'none' })).json, { rate: null, burst: null })
    for (const [settings, field] of [
      [{ burst: 5 }, 'burst'],
      [{ rate: 'none', burst: 5 }, 'burst'],
      [{ rate: '0/s' }, 'rate'],
      [{ rate: '5' }, 'rate'],
    ] as const) {
      t.match(await change(settings), { status: 400, json: { error: { field } } })
    }
    await alice.post(`/keys/${key.id}/revoke`)
  })

  t.test('the credits and the usage of calls appear', async t => {
    const { json: key } = await bob.post('/keys', { name: 'k' })
    await waitUntil(async () => !(await isRefused(gateway, key.key)))
    await call(gateway.http(key.key), 'eth_getStorageAt', [`0x${'11'.repeat(20)}`, '0x0', 'latest'])
    await call(gateway.http(key.key), 'eth_getStorageAt', ['0x1', '0x0', 'latest'])
    await waitUntil(async () => (await bob.get('/account')).json.balance.used >= 80)
    await waitUntil(async () => (await bob.get('/usage?by=outcome')).json.groups.length >= 2)
    t.match((await bob.get('/usage?range=7d&by=method')).json, {
      step: 'hour',
      groups: [{ name: 'eth_getStorageAt', calls: 2, credits: 80 }],
    })
    const callsOfHours = async (): Promise<number> =>
      (await bob.get('/account')).json.hours.reduce((sum: number, hour: { calls: number }) => sum + hour.calls, 0)
    await waitUntil(async () => (await callsOfHours()) >= 2 && (await callsOfHours()) === (await bob.get('/usage')).json.total.calls)
    await waitUntil(async () => (await bob.get('/requests?outcome=params')).json.requests.length === 1)
    const counted = [{ name: key.id, requests: 1 }]
    t.match((await bob.get('/errors')).json, {
      calls: 3,
      errors: [
        {
          ...{ outcome: 'params', calls: 1, code: -32602 },
          methods: [{ method: 'eth_getStorageAt', calls: 1 }],
          messages: [
            { message: /address/, method: 'eth_getStorageAt', requests: 1, networks: [{ name: 'devnet' }], keys: counted, lastSeen: /^20/ },
          ],
          ...{ messageCount: 1, loggedRequests: 1 },
        },
      ],
      ...{ methods: ['eth_getStorageAt'], networks: ['devnet'], keys: [key.id] },
    })
    t.match((await bob.get('/errors?messages=0')).json.errors, [{ messages: [], messageCount: 1 }])
    t.match((await bob.get('/errors?outcome=params')).json, { calls: 3, errors: [{ calls: 1 }] })
    t.match((await bob.get('/errors?network=none')).json, { calls: 0, errors: [], networks: ['devnet'] })
    t.match((await bob.get('/errors?method=eth_call')).json, { calls: 0, errors: [] })
    t.match((await bob.get('/usage?outcome=ok&method=eth_getStorageAt')).json.total, { calls: 1, failed: 0, p50Ms: Number, p95Ms: Number })
    t.match((await bob.get('/usage?by=key&series=0&outcome=failed')).json, {
      groups: [{ name: key.id, points: { calls: [] } }],
      total: { failed: 1 },
    })
    t.equal((await bob.get(`/usage?key=${key.id}&method=eth_call`)).json.total.calls, 0)
    t.match((await bob.get('/keys')).json, [{ id: key.id, lastUsed: /^20/ }])
  })

  t.test('a range has points of 5 minutes, hours or days, up to the one that is not over', async t => {
    const pointsOf = async (query: string) => {
      const { step, times, end, total } = (await bob.get(`/usage?${query}`)).json
      t.equal(total.points.failed.length, times.length, query)
      t.equal(total.points.p50Ms.length, times.length, query)
      t.ok(Date.parse(end) > Date.parse(times.at(-1)), query)
      return [step, times.length]
    }
    t.same(await pointsOf('range=1h'), ['fiveMinutes', 12])
    t.same(await pointsOf('range=6h'), ['fiveMinutes', 72])
    t.same(await pointsOf('range=24h'), ['hour', 24])
    t.same(await pointsOf('range=7d'), ['hour', 168])
    t.same(await pointsOf('range=30d'), ['day', 30])
    t.same(await pointsOf('range=90d'), ['day', 90])
    t.same(await pointsOf('range=today'), ['day', 1])
    const daysAgo = (days: number, time: string) => `${isoDate(systemClock.now() - days * dayMs)}T${time}:00Z`
    t.same(await pointsOf(`from=${daysAgo(3, '10:30')}&to=${daysAgo(3, '12:00')}`), ['hour', 2])
    t.same(await pointsOf(`from=${daysAgo(30, '10:30')}&to=${daysAgo(30, '12:00')}`), ['day', 1], 'hours are kept for 14 days')
    t.same(await pointsOf('from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z'), ['day', 31])
    t.equal((await bob.get('/usage?range=1h')).json.total.calls, (await bob.get('/usage?range=30d')).json.total.calls)
    const { json: month } = await bob.get('/usage?range=thisMonth&by=key&and=network&series=0')
    const today = isoDate(systemClock.now())
    t.equal((await bob.get('/usage?range=today')).json.times[0], `${today}T00:00:00.000Z`)
    t.same([month.step, month.times[0], month.times.length], ['day', `${today.slice(0, 7)}-01T00:00:00.000Z`, Number(today.slice(8))])
    t.match(month.groups[0].parts, [{ name: 'devnet', calls: month.groups[0].calls, credits: month.groups[0].credits }])
    const { json: before } = await bob.get('/usage?range=lastMonth')
    t.same([before.step, before.end, before.total.calls], ['day', month.times[0], 0])
    t.match(before.times[0], /-01T00:00:00.000Z$/)
    t.equal(Date.parse(before.times.at(-1)) + dayMs, Date.parse(month.times[0]))
    const keptDays = (systemClock.now() - Date.parse(month.keptFrom)) / dayMs
    t.ok(keptDays > 88.9 && keptDays <= 90, 'the first day that is kept as a whole')
    for (const [query, field] of [
      ['from=tomorrow', 'from'],
      ['from=2026-01-15T10:00:00Z&to=2026-01-15T09:00:00Z', 'from'],
      ['from=2020-01-01T00:00:00Z', 'from'],
      ['from=2026-01-01T00:00:00Z&to=x', 'to'],
    ] as const)
      t.match(await bob.get(`/usage?${query}`), { status: 400, json: { error: { field } } }, query)
  })

  t.test(
    'a failed call is logged for its account within seconds: what it was, why it failed, and where; found by its request id',
    async t => {
      const { json: key } = await bob.post('/keys', { name: 'of logged calls' })
      await waitUntil(async () => !(await isRefused(gateway, key.key)))
      const params = ['0x1', '0x0', 'latest']
      const response = await post(gateway.http(key.key), JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getStorageAt', params }))
      await call(gateway.http(key.key), 'eth_getStorageAt', [`0x${'22'.repeat(20)}`, '0x0', 'latest'])
      const requestId = response.headers['x-request-id']
      const found = async (query = '') => (await bob.get(`/requests?key=${key.id}${query}`)).json
      await waitUntil(async () => (await found('&method=eth_getStorageAt')).requests.length >= 2)
      const { log, requests } = await found(`&search=${requestId}`)
      t.match(log, { setting: 'on', isOffered: true, offersParams: true, slowMs: 1_000, retentionHours: 24 })
      t.match(requests, [
        {
          ...{ requestId, transport: 'http', key: key.id, network: 'devnet', method: 'eth_getStorageAt', params: JSON.stringify(params) },
          ...{
            outcome: 'params',
            code: -32602,
            message: /0x1|address/,
            advice: /Correct the parameter that the message names/,
            credits: 0,
            isCut: false,
          },
        },
      ])
      t.equal(requests.length, 1)
      const good = (await found('&outcome=ok&method=eth_getStorageAt')).requests
      t.match(good, [{ upstream: 'node-1', attempts: 1, credits: 80, code: null, advice: null, cache: 'miss' }])
      t.notMatch(JSON.stringify(await found()), word, 'nothing of a result')
      t.equal((await found('&outcome=failed')).requests.length, 1)
      await waitUntil(async () => (await found('&method=eth_getStorageAt')).calls === 2)
      t.match(await found('&method=eth_getStorageAt&outcome=failed'), { requestCount: 1, offset: 0, calls: 1 })
      t.match(await found('&search=MUST%20be%20an%20address'), { requests: [{ requestId }], requestCount: 1, calls: null })
      t.match(await found('&outcome=slow'), { requestCount: 0, calls: null }, 'nothing counts slow calls')
      t.equal((await found('&outcome=slow')).requests.length, 0)
      t.equal((await found('&method=eth_call')).requests.length, 0)
      const others = await found('&method=eth_call')
      t.ok(others.methods.includes('eth_getStorageAt') && others.keys.includes(key.id), 'what else could be asked for')
      t.same(others.networks, ['devnet'])
      t.equal((await found('&range=1h')).requests.length, (await found()).requests.length)
      t.equal((await found('&from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z')).requests.length, 0)
      t.match(await alice.get('/requests?from=never'), { status: 400, json: { error: { field: 'from' } } })
      const first = await found('&method=eth_getStorageAt&limit=1')
      const second = await found(`&method=eth_getStorageAt&limit=1&after=${first.next}`)
      t.equal(second.next, null)
      t.match(
        [first, second],
        [
          { requestCount: 2, offset: 0 },
          { requestCount: 2, offset: 1 },
        ],
      )
      t.equal(new Set([...first.requests, ...second.requests].map(({ id }) => id)).size, 2)
      t.equal(
        (await alice.get('/requests')).json.requests.some((request: { key: string }) => request.key === key.id),
        false,
      )
    },
  )

  t.test('owners rename their account, which the operator finds by both names', async t => {
    await deployment.addAccount('old-name')
    const owner = await signInToPortal(deployment, gateway, 'old-name')
    const rename = (name: string, by = owner) => by.request('PATCH', '/account', { name })
    const viewer = await signInToPortal(deployment, gateway, 'old-name', '--person', 'vera', '--role', 'viewer')
    t.equal((await rename('acme', viewer)).status, 403)
    t.match(await rename('bob'), { status: 409, json: { error: { code: 'exists', field: 'name' } } })
    t.match(await rename('two words'), { status: 400, json: { error: { field: 'name' } } })
    const { id } = (await owner.get('/account')).json.account
    t.same((await rename('acme')).json, { id, name: 'acme' })
    t.same((await owner.get('/session')).json.account, { id, name: 'acme' })
    t.match((await deployment.run('accounts', 'set', 'old-name', '--label', 'found')).stdout, /acme/)
    const changes = JSON.parse((await deployment.run('changes', '--from', '2020-01-01', '--account', 'acme', '--json')).stdout)
    t.match(
      changes.find(({ after }: { after?: { name?: string } }) => after?.name === 'acme'),
      { action: 'account-changed', before: { name: 'old-name' }, by: { kind: 'person' } },
    )
    for (let i = 0; i < 9; i += 1) await rename(`name-${i}`)
    t.match(await rename('name-9'), { status: 409, json: { error: { code: 'too-many', field: 'name' } } })
    for (let i = 0; i < 9; i += 1) t.equal((await rename(i % 2 === 0 ? 'acme' : 'old-name')).status, 200)
    t.match(await rename('name-1'), { status: 429, json: { error: { code: 'too-many-attempts' } } })
  })

  t.test('owners say what is logged of requests, and what was logged before is removed', async t => {
    const { json: key } = await alice.post('/keys', { name: 'of calls to log' })
    await waitUntil(async () => !(await isRefused(gateway, key.key)))
    const callAndFind = async (params: readonly unknown[]) => {
      await call(gateway.http(key.key), 'eth_getStorageAt', params)
      let found: { params: string | null; message: string }[] = []
      await waitUntil(async () => (found = (await alice.get(`/requests?key=${key.id}&outcome=params`)).json.requests).length > 0)
      return found
    }
    const told = await callAndFind(['0x1'])
    t.match(told, [{ params: '["0x1"]' }])
    const developer = await signInToPortal(deployment, gateway, 'alice', '--person', 'della', '--role', 'developer')
    const set = (setting: string, by = alice) => by.request('PATCH', '/requests', { setting })
    t.equal((await set('off', developer)).status, 403)
    t.match(await set('withoutParams'), { status: 200, json: { setting: 'withoutParams' } })
    t.same((await alice.get('/requests')).json.requests, [])
    // A process that has not learned of it yet writes what it has logged.
    const store = await openStore({ kind: 'lmdb', path: join(deployment.dir, '../data') }, systemClock)
    t.teardown(() => store.close())
    const account: string = (await alice.get('/account')).json.account.id
    const writeLate = async (id: string) => {
      const late = { ...fakeLoggedRequest, requestId: id, params: '["late"]' }
      await store.addRequests({ id, accounts: [{ account, requests: [late] }] }, { retentionMs: dayMs, maxBytes: 1e9 })
      return (await store.requests(account)).filter(({ requestId }) => requestId === id)
    }
    t.match(await writeLate('late-1'), [{ params: undefined }])
    // From now on, although each process knows within a second only.
    t.match(await callAndFind(['0x3']), [{ params: null, message: 'invalid params' }])
    const search = encodeURIComponent(told[0]?.message ?? '')
    t.same((await alice.get(`/requests?search=${search}`)).json.requests, [], 'nor is a message searched that is not shown')
    t.match(await set('off'), { status: 200, json: { setting: 'off' } })
    t.same(await writeLate('late-2'), [])
    t.match((await alice.get('/requests')).json, { log: { setting: 'off' }, requests: [], next: null })
    t.match(await set('sometimes'), { status: 400, json: { error: { field: 'setting' } } })
    const changes = JSON.parse((await deployment.run('changes', '--from', '2020-01-01', '--account', 'alice', '--json')).stdout)
    t.match(changes.at(-1), { action: 'account-changed', before: { requestLog: 'withoutParams' }, after: { requestLog: 'off' } })
    t.match(await set('on'), { status: 200, json: { setting: 'on' } })
    t.match(await writeLate('late-3'), [{ params: '["late"]' }])
  })

  t.test('the keys of a suspended account are refused within a second, until it is resumed', async t => {
    const { json: key } = await bob.post('/keys', { name: 'of a suspended account' })
    await waitUntil(async () => !(await isRefused(gateway, key.key)))
    t.equal((await deployment.run('accounts', 'suspend', 'bob', '--reason', 'Unpaid')).code, 0)
    await waitUntil(async () => isRefused(gateway, key.key))
    t.match((await call(gateway.http(key.key), 'eth_chainId')).error, { message: 'the account of this API key is suspended' })
    t.match((await bob.get('/account')).json, { suspended: /^20/, suspensionReason: 'Unpaid' })
    t.equal((await deployment.run('accounts', 'resume', 'bob')).code, 0)
    await waitUntil(async () => !(await isRefused(gateway, key.key)))
    t.match((await bob.get('/account')).json, { suspended: null, suspensionReason: null })
  })

  t.test('what people change is in the log of changes', async t => {
    const { json: key } = await bob.post('/keys', { name: 'logged', networks: ['devnet'] })
    await bob.request('PATCH', `/keys/${key.id}`, { networks: [] })
    const { json: added } = await bob.post('/people', { name: 'lou', role: 'viewer' })
    await bob.delete(`/people/${added.person.id}`)
    const changes = JSON.parse((await deployment.run('changes', '--from', '2020-01-01', '--account', 'bob', '--json')).stdout)
    const by = { kind: 'person', name: /^owner \(usr_/ }
    t.match(changes.slice(-4), [
      { by, action: 'key-created', target: key.id, after: { name: 'logged', networks: ['devnet'] } },
      { by, action: 'key-changed', target: key.id, after: { networks: null } },
      { by, action: 'person-added', target: added.person.id, after: { name: 'lou', role: 'viewer' } },
      { by, action: 'person-removed', before: { name: 'lou' } },
    ])
    t.notMatch(JSON.stringify(changes), key.key)
  })

  t.test('when the process that reads usage is killed, another one reads it', async t => {
    t.equal((await bob.get('/usage')).status, 200)
    const children = childrenOf(gateway.pid)
    t.equal(children.length, 1)
    for (const pid of children) process.kill(pid, 'SIGKILL')
    await waitUntil(async () => (await bob.get('/usage')).status === 200 && childrenOf(gateway.pid)[0] !== children[0])
    t.equal(childrenOf(gateway.pid).length, 1)
  })

  t.test('an id that no store can look for is not found', async t => {
    t.match(await bob.request('DELETE', `/people/${'x'.repeat(10_000)}`), { status: 404 })
  })

  t.test('a role may do what it says, and no more', async t => {
    const viewer = await signInToPortal(deployment, gateway, 'alice', '--person', 'vera', '--role', 'viewer')
    const developer = await signInToPortal(deployment, gateway, 'alice', '--person', 'dan', '--role', 'developer')
    t.match(await viewer.post('/keys', { name: 'k' }), { status: 403, json: { error: { code: 'role' } } })
    t.equal((await viewer.get('/keys')).status, 200)
    t.equal((await developer.post('/keys', { name: 'of dan' })).status, 201)
    t.equal((await developer.post('/people', { name: 'eve' })).status, 403)
    const { json } = await alice.post('/people', { name: 'eve', role: 'viewer' })
    const eve = createPortalClient(portalUrl)
    t.equal((await eve.post('/session', { token: new URL(json.link).hash.slice(1) })).json.person.role, 'viewer')
    t.equal((await alice.delete(`/people/${json.person.id}`)).status, 204)
    t.equal((await eve.get('/session')).status, 401, 'who was removed is signed out')
  })

  t.test('a personal access token has the rights of its person until it is removed', async t => {
    const { json: token } = await alice.post('/tokens', { name: 'ci', days: 30 })
    const script = createPortalClient(portalUrl, token.token)
    t.equal((await script.get('/account')).json.account.name, 'alice')
    t.notMatch(JSON.stringify((await alice.get('/tokens')).json), token.token)
    const colleague = await signInToPortal(deployment, gateway, 'alice', '--person', 'tom', '--role', 'owner')
    t.same((await colleague.get('/tokens')).json, [], 'another person of the account does not see it')
    t.equal((await colleague.delete(`/tokens/${token.id}`)).status, 404)
    t.equal((await alice.delete(`/tokens/${token.id}`)).status, 204)
    t.equal((await script.get('/account')).status, 401)
    t.equal((await createPortalClient(portalUrl, 'tgt_guess').get('/account')).status, 401)
  })

  t.test('a read-only token reads and changes nothing, not even what a viewer may; when a token was last used is shown', async t => {
    const [unused, { json: token }] = [
      (await alice.post('/tokens', { name: 'unused' })).json,
      await alice.post('/tokens', { name: 'reads', readOnly: true }),
    ]
    const script = createPortalClient(portalUrl, token.token)
    const began = Date.now()
    t.equal((await script.get('/account')).json.account.name, 'alice')
    t.equal((await script.get('/alerts')).status, 200, 'what its person may read')
    const refused = { status: 403, json: { error: { code: 'role', message: 'this token is read-only: it changes nothing' } } }
    t.match(await script.post('/keys', { name: 'k' }), refused)
    t.match(await script.post('/tokens', { name: 'more' }), refused, 'it makes no token that may more')
    t.match(await script.delete(`/tokens/${unused.id}`), refused)
    const tokens: readonly TokenJson[] = (await alice.get('/tokens')).json
    const shown = Object.fromEntries(tokens.map(each => [each.name, each]))
    t.match(shown['unused'], { readOnly: false, lastUsed: null })
    t.match(shown['reads'], { readOnly: true })
    t.ok(Math.abs(Date.parse(shown['reads']?.lastUsed ?? '') - began) < 60_000)
    for (const { id } of [unused, token]) t.equal((await alice.delete(`/tokens/${id}`)).status, 204)
    t.equal((await script.get('/account')).status, 401)
  })

  t.test('failed attempts with links and tokens are limited by network, each by itself', async t => {
    const from = (address: string) => ({ 'x-forwarded-for': address })
    const nobody = createPortalClient(portalUrl)
    const signIn = (address: string, token: string) => nobody.request('POST', '/session', { token }, from(address))
    for (let i = 0; i < 10; i += 1) t.equal((await signIn(`2001:db8::${i}`, `guess-${i}`)).status, 401)
    const refused = await signIn('2001:db8::ffff', await printSignInToken(deployment, 'alice'))
    t.match(refused, {
      status: 429,
      json: { error: { code: 'too-many-attempts', message: /^too many failed sign-ins: try again in \d+ s$/ } },
    })
    const retryAfter = Number(refused.headers.get('retry-after'))
    t.ok(retryAfter >= 1 && retryAfter <= 60, `${retryAfter} s`)
    t.equal((await signIn('2001:db8:0:1::1', await printSignInToken(deployment, 'alice'))).status, 201, 'another network')
    const { json: token } = await alice.post('/tokens', { name: 'limited' })
    const read = (bearer: string) => createPortalClient(portalUrl, bearer).request('GET', '/account', undefined, from('2001:db8::1'))
    t.equal((await read(token.token)).status, 200, 'failed sign-ins do not stop tokens')
    for (let i = 0; i < 10; i += 1) t.equal((await read('tgt_guess')).status, 401)
    t.equal((await read(token.token)).status, 429)
    t.equal((await alice.request('GET', '/account', undefined, from('2001:db8::1'))).status, 200, 'nor sessions')
  })

  t.test('the token (JWT) that a proxy adds is no failed attempt, and a session is valid beside it', async t => {
    const proxied = { 'x-forwarded-for': '2001:db8:0:2::1', authorization: 'Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl' }
    for (let i = 0; i < 11; i += 1)
      t.equal((await createPortalClient(portalUrl).request('GET', '/account', undefined, proxied)).status, 401)
    t.equal((await alice.request('GET', '/account', undefined, proxied)).status, 200)
    const crossSite = { ...proxied, origin: 'https://evil.example' }
    t.match(await alice.request('POST', '/keys', { name: 'x' }, crossSite), { status: 403, json: { error: { code: 'cross-site' } } })
  })

  t.test('a wrong body names the field and what it must be', async t => {
    const cases: readonly (readonly [body: unknown, error: object])[] = [
      [{}, { field: 'name', message: 'name is missing' }],
      ...[
        '',
        'a\u001b[2J',
        'a\u0000b',
        'a\u009bb',
        'a\nb',
        'half \ud83d',
        '\u202egpj.a',
        'a\u2066b',
        '\u200b',
        '\u200d\ufe0f',
        '\u3164',
        '\u2800',
        ' a',
        'a ',
        'x'.repeat(65),
      ].map(name => [{ name }, { field: 'name', message: /must be 1 to 64 printable characters/ }] as const),
      [
        { name: 'k', plan: 'custom' },
        { field: 'plan', message: /not known/ },
      ],
      [
        { name: 'k', networks: 'devnet' },
        { field: 'networks', message: 'networks must be a list' },
      ],
      [
        { name: 'k', networks: ['devnt'] },
        { field: 'networks', message: /did you mean `devnet`/ },
      ],
      [
        { name: 'k', networks: ['mainnet-of-mars'] },
        { field: 'networks', message: /^unknown network "mainnet-of-mars"; expected devnet$/ },
      ],
      [
        { name: 'k', origins: ['dapp.example'] },
        { field: 'origins', message: /https:\/\/dapp\.example/ },
      ],
      ['{', { code: 'malformed' }],
    ]
    for (const [body, error] of cases) t.match(await alice.post('/keys', body), { status: 400, json: { error } }, JSON.stringify(body))
    t.match(await alice.get('/usage?range=1y'), { status: 400, json: { error: { field: 'range', message: /one of 1h, 6h, 24h, 7d/ } } })
    t.equal((await alice.post('/keys', { name: 'x'.repeat(100_000) })).status, 413)
    for (const name of ['Zoë 👩‍💻', 'מפתח\u200f 7', '鍵']) t.equal((await alice.post('/keys', { name })).status, 201)
  })

  t.test('a body that is not sent as JSON is refused, and is not taken for an empty one', async t => {
    const { json: key } = await alice.post('/keys', { name: 'to rotate' })
    for (const type of ['application/x-www-form-urlencoded', 'text/plain']) {
      const answer = await alice.request('POST', `/keys/${key.id}/rotate`, { overlapHours: 1 }, { 'content-type': type })
      t.match(answer, { status: 415, json: { error: { code: 'not-json', message: /Content-Type: application\/json/ } } }, type)
    }
    const chunked = http.request(`${portalUrl}/api/v1/keys/${key.id}`, {
      ...{ method: 'PATCH', headers: { cookie: alice.cookies(), 'content-type': 'text/plain', 'transfer-encoding': 'chunked' } },
    })
    chunked.end('{"name":"changed"}')
    const [refused] = (await once(chunked, 'response')) as [http.IncomingMessage]
    refused.destroy()
    t.equal(refused.statusCode, 415, 'of unknown length')
    t.equal(
      (await alice.request('POST', `/keys/${key.id}/rotate`, undefined, { 'content-type': 'text/plain' })).status,
      201,
      'without a body',
    )
  })

  t.test('a body may be nested as deep as its length allows', async t => {
    const nested = `${'['.repeat(30_000)}${']'.repeat(30_000)}`
    for (const [path, body, error] of [
      ['/session', `{"token":${nested}}`, { field: 'token', message: 'token must be a string' }],
      ['/session', nested, { message: 'the body must be a map' }],
      ['/keys', `{"name":"k","more":${nested}}`, { field: 'more', message: 'more is not known here' }],
    ] as const) {
      t.match(await alice.post(path, body), { status: 400, json: { error: { code: 'invalid', ...error } } }, path)
    }
  })

  t.test('the body of a request that is refused before is not read: the connection closes', async t => {
    const request = http.request(`${portalUrl}/api/v1/keys`, {
      ...{ method: 'POST', headers: { origin: 'https://evil.example', 'content-length': 1_000_000 }, agent: false },
    })
    request.on('error', () => undefined).flushHeaders()
    const [refused] = (await once(request, 'response')) as [http.IncomingMessage]
    t.match([refused.statusCode, refused.headers.connection], [403, 'close'])
    refused.destroy()
  })

  t.test('requests from pages of other sites change nothing', async t => {
    const before = (await alice.get('/keys')).json.length
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: portalUrl.replace('http:', 'https:') },
      // Browsers send the password of a proxy in front of the dashboard with every request.
      { origin: 'https://evil.example', authorization: 'Basic dXNlcjpwYXNzd29yZA==' },
    ]) {
      t.match(await alice.request('POST', '/keys', { name: 'x' }, headers), { status: 403, json: { error: { code: 'cross-site' } } })
    }
    t.equal((await alice.get('/keys')).json.length, before)
    t.equal((await alice.request('POST', '/keys', { name: 'own' }, { origin: portalUrl })).status, 201)
  })

  t.test('a host that is not the portal’s gets 421 on each path: of the page, its files and the API, and with an upgrade', async t => {
    const { hostname, port, host } = new URL(portalUrl)
    const send = async (
      method: string,
      path: string,
      headers: http.OutgoingHttpHeaders | readonly string[],
    ): Promise<number | undefined> => {
      const request = http.request({ hostname, port, method, path, headers })
      request.end()
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      response.destroy()
      return response.statusCode
    }
    const page = await (await fetch(portalUrl)).text()
    const asset = /\/assets\/[^"]+\.js/.exec(page)?.[0] ?? t.fail('the page has no script')
    const paths = routes.map(route => [route.method.toUpperCase(), `/api/v1${route.path.replaceAll(/\{\w+\}/g, 'x')}`] as const)
    const pages = ['/', '/keys', String(asset), '/assets/none.js', '/api/v1/openapi.json', '/api/v1/events', '/api/v1/none']
    for (const [method, path] of [...pages.map(each => ['GET', each] as const), ...paths]) {
      t.equal(await send(method, path, { host: 'rebound.example' }), 421, `${method} ${path}`)
    }
    for (const path of ['/', '/api/v1/events']) {
      const upgrade = {
        connection: 'upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      }
      t.equal(await send('GET', path, { host: 'rebound.example', ...upgrade }), 421, `an upgrade of ${path}`)
    }
    t.equal(await send('GET', `http://rebound.example${asset}`, { host }), 421, 'the host of the request target counts')
    t.equal(await send('GET', '/', ['host', host, 'host', 'rebound.example']), 421, 'two hosts')
    for (const known of [host, 'LOCALHOST', `localhost:${port}`, '[::1]']) t.equal(await send('GET', '/', { host: known }), 200, known)
  })

  t.test('the page is served with a policy that allows no code but its own', async t => {
    const response = await fetch(`${portalUrl}/keys`)
    t.match(response.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'/)
    t.match(await response.text(), '<div id="app">')
    t.equal((await fetch(`${portalUrl}/assets/nothing.js`)).status, 404)
    const posted = await fetch(`${portalUrl}/`, { method: 'POST' })
    t.same([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD'])
  })

  t.test('a browser that has the page gets 304, and one without gzip gets other bytes with another ETag', async t => {
    // fetch() would add `Cache-Control: no-cache`.
    const read = async (path: string, headers: Readonly<Record<string, string>> = {}, method = 'GET') => {
      const request = http.request(`${portalUrl}${path}`, { method, headers: { 'accept-encoding': 'gzip', ...headers } }).end()
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      const bytes = await buffer(response)
      const header = (name: string) => response.headers[name] ?? ''
      return {
        status: response.statusCode,
        bytes,
        text: String(bytes.length > 0 && header('content-encoding') === 'gzip' ? gunzipSync(bytes) : bytes),
        header,
      }
    }
    const asset = /src="([^"]+)"/.exec((await read('/keys')).text)?.[1] ?? ''
    for (const [path, cacheControl, vary] of [
      ['/keys', 'no-cache', 'Accept-Encoding, Cookie'],
      [asset, 'public, max-age=31536000, immutable', 'Accept-Encoding'],
    ] as const) {
      const compressed = await read(path)
      const plain = await read(path, { 'accept-encoding': 'gzip;q=0' })
      t.same(
        [compressed, plain].map(each => [each.header('content-encoding'), each.header('cache-control'), each.header('vary')]),
        [
          ['gzip', cacheControl, vary],
          ['', cacheControl, vary],
        ],
      )
      t.ok(compressed.text === plain.text && plain.text !== '', path)
      const etag = String(compressed.header('etag'))
      t.match(etag, /^"[^"]+"$/)
      t.not(plain.header('etag'), etag)
      const known = await read(path, { 'if-none-match': etag })
      t.same([known.status, known.bytes.length, known.header('etag'), known.header('content-length')], [304, 0, etag, ''])
      t.equal((await read(path, { 'if-none-match': String(plain.header('etag')) })).status, 200)
      const head = await read(path, {}, 'HEAD')
      t.same([head.status, head.bytes.length, head.header('content-length')], [200, 0, compressed.header('content-length')])
    }
  })

  t.test('a long response to GET is compressed for whoever takes gzip, and none that may have a secret', async t => {
    const read = async (path: string, encoding: string, method = 'GET', body?: object) => {
      const headers = { cookie: bob.cookies(), 'accept-encoding': encoding, 'content-type': 'application/json' }
      const request = http.request(`${portalUrl}/api/v1${path}`, { method, headers }).end(body && JSON.stringify(body))
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      return { bytes: await buffer(response), ...response.headers }
    }
    const [compressed, plain] = [await read('/openapi.json', 'gzip, br'), await read('/openapi.json', 'identity')]
    t.match(compressed, { 'content-encoding': 'gzip', vary: /Accept-Encoding/, 'content-type': /^application\/json/ })
    t.ok(compressed.bytes.length < plain.bytes.length / 4)
    t.match(plain, { 'content-encoding': undefined, vary: /Accept-Encoding/ })
    t.same(gunzipSync(compressed.bytes), plain.bytes)
    t.match(await read('/session', 'gzip'), { 'content-encoding': undefined })
    const methods = Array.from({ length: 300 }, () => 'eth_chainId')
    const created = await read('/keys', 'gzip', 'POST', { name: 'long', methods })
    t.match(created, { 'content-encoding': undefined })
    t.ok(created.bytes.length > 4_096)
  })

  t.test('every response is as the OpenAPI document says, and every route is in it', async t => {
    const document = (await alice.get('/openapi.json')).json
    t.same(document, JSON.parse(JSON.stringify(portalOpenApi(routes, { url: 'http://127.0.0.1', version: document.info.version }))))
    const checkResponse = openApiChecker(document)
    const check = (path: string, method: string, status: number, json: unknown) =>
      t.same(checkResponse(path, method, { status, json }), undefined, `${method} ${path}`)
    for (const { path, method } of routes.filter(route => route.method === 'get')) {
      const { status, json } = await bob.get(path.replace('{name}', 'devnet'))
      t.equal(status, 200, path)
      check(path, method, status, json)
    }
    check('/keys', 'post', 201, (await bob.post('/keys', { name: 'k' })).json)
    check('/tokens', 'post', 201, (await bob.post('/tokens', { name: 'k' })).json)
    check('/people', 'post', 201, (await bob.post('/people', { name: 'k' })).json)
    check('/requests', 'patch', 200, (await bob.request('PATCH', '/requests', { setting: 'on' })).json)
    check('/alerts/webhook', 'post', 201, (await bob.post('/alerts/webhook', { url: 'http://127.0.0.1:1/' })).json)
    check('/alerts', 'get', 200, (await bob.get('/alerts')).json)
    check('/alerts/test', 'post', 200, (await bob.post('/alerts/test')).json)
  })

  t.test('the OpenAPI documents name each request as clients call functions, once, and list its errors', t => {
    const documents = [
      portalOpenApi(routes, { url: 'http://127.0.0.1', version: '0' }),
      operatorOpenApi(operatorRoutes, { version: '0' }),
    ] as unknown as readonly {
      readonly paths: Readonly<Record<string, Readonly<Record<string, { operationId: string; responses: Record<string, object> }>>>>
    }[]
    for (const { paths } of documents) {
      const requests = Object.entries(paths).flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, { operationId, responses }]) => ({ name: `${method} ${path}`, operationId, responses })),
      )
      const ids = requests.map(({ operationId }) => operationId)
      t.equal(new Set(ids).size, ids.length, ids.join())
      for (const { name, operationId, responses } of requests) {
        t.match(operationId, /^[a-z]+([A-Z][a-z]+)*$/, name)
        t.ok(responses['503'], name)
        if (name.includes('{')) t.ok(responses['404'], name)
        if (!name.startsWith('get')) t.ok(responses['429'], name)
      }
      const idOf = new Map(requests.map(({ name, operationId }) => [name, operationId]))
      for (const [name, id] of [
        ['post /keys/{id}/revoke', 'revokeKey'],
        ['patch /people/{id}', 'updatePerson'],
        ['get /changes', 'listChanges'],
        ['get /session', 'getSession'],
      ] as const)
        t.equal(idOf.get(name), id)
    }
    t.end()
  })

  t.test('no key, token or link is in the log', async t => {
    const { json: key } = await alice.post('/keys', { name: 'canary' })
    const token = await printSignInToken(deployment, 'alice')
    await createPortalClient(portalUrl).post('/session', { token })
    const log = JSON.stringify(gateway.log) + gateway.stderr()
    for (const secret of [key.key, token]) t.notOk(log.includes(secret))
    t.match(log, /key-created/)
  })
})

t.test('an account changes things 200 times an hour; removals, and what viewers create, are counted apart, by person', async t => {
  const { deployment, gateway } = await startPortal(t)
  const alice = await signInToPortal(deployment, gateway, 'alice')
  const { json: key } = await alice.post('/keys', { name: 'k' })
  const statuses = []
  for (let i = 0; i < 201; i += 1) statuses.push((await alice.request('PATCH', '/alerts', { daily: [50 + (i % 2)] })).status)
  t.same([statuses.filter(status => status === 200).length, statuses.indexOf(429)], [199, 199])
  const limited = { status: 429, json: { error: { message: /^too many changes in one hour: try again in \d+ s$/ } } }
  t.match(await alice.request('PATCH', `/keys/${key.id}`, { name: 'x' }), limited)
  const dan = await signInToPortal(deployment, gateway, 'alice', '--person', 'dan')
  t.match(await dan.post('/keys', { name: 'x' }), limited)
  const tokens = []
  for (let i = 0; i < 101; i += 1) tokens.push(await dan.post('/tokens', { name: `t${i}` }))
  t.ok(tokens.slice(0, 100).every(({ status }) => status === 201))
  t.match(tokens[100], { status: 409, json: { error: { code: 'too-many', message: /at most 100 tokens/ } } })
  t.match(await alice.post(`/keys/${key.id}/suspend`), { status: 200, json: { state: 'suspended' } })
  t.match(await alice.post(`/keys/${key.id}/revoke`), { status: 200, json: { state: 'revoked' } })
})

t.test('with workers the primary serves the portal', async t => {
  const { deployment, gateway } = await startPortal(t, 2)
  const alice: PortalClient = await signInToPortal(deployment, gateway, 'alice')
  const { json: key } = await alice.post('/keys', { name: 'k' })
  await waitUntil(async () => !(await isRefused(gateway, key.key)))
  await call(gateway.http(key.key), 'eth_getStorageAt', [`0x${'11'.repeat(20)}`, '0x0', 'latest'])
  await waitUntil(async () => (await alice.get('/account')).json.balance.used >= 80)
  // Each call on a connection of its own: the workers take turns.
  for (let i = 0; i < 10; i += 1) await post(gateway.http(key.key), failingCall)
  await waitUntil(async () => (await alice.get('/requests?outcome=params')).json.requests.length === 10)
  t.match(
    (await alice.get('/networks/devnet/methods')).json.find((method: { name: string }) => method.name === 'eth_getStorageAt'),
    {
      credits: 80,
      params: [{ title: 'contract address' }, {}, { optional: true, default: 'latest' }],
    },
  )
  const logs = (await alice.get('/networks/devnet/methods')).json.find((method: { name: string }) => method.name === 'eth_getLogs')
  t.same(logs.limits, { results: 10_000, blocks: null, ms: 10_000 })
  t.equal(logs.forwarded, undefined, 'without a partner')
  t.equal(await gateway.stop(), 0)
})

t.test('two gateways on one redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer('--appendonly', 'yes')
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' } })
  const deployment = createPortalDeployment(node.url, {
    gateway: { store: redis.url, admin: { token: '${ADMIN_TOKEN}' } },
    env: { ADMIN_TOKEN: 'operator-token' },
  })
  const operator = (gateway: GatewayProcess, token?: string) => createPortalClient(gateway.admin, token)
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), redis.remove()])
  })
  await deployment.addAccount('alice')
  const [one, other] = [await deployment.start(), await deployment.start()]
  const alice = await signInToPortal(deployment, one, 'alice')
  const { json: key } = await alice.post('/keys', { name: 'k' })
  await waitUntil(async () => !(await isRefused(other, key.key)))

  t.test('the requests of both gateways are in one log', async () => {
    for (const gateway of [one, other]) await call(gateway.http(key.key), 'eth_getStorageAt', ['0x1'])
    await waitUntil(async () => (await alice.get('/requests?outcome=params')).json.requests.length === 2)
  })

  t.test('a session that was opened on one is known to the other', async t => {
    const moved = createPortalClient(other.portal ?? '')
    const { status, json } = await moved.request('GET', '/session', undefined, { cookie: alice.cookies() })
    t.match({ status, json }, { status: 200, json: { account: { name: 'alice' } } })
    const signedIn = operator(one)
    await signedIn.post('/login', { token: 'operator-token' })
    t.equal(
      (await operator(other).request('GET', '/accounts', undefined, { cookie: signedIn.cookies() })).status,
      200,
      "the operator's too",
    )
  })

  t.test('while the store is unreachable, sessions are refused in words, the page is served, and calls go on', async t => {
    const signedIn = operator(one)
    await signedIn.post('/login', { token: 'operator-token' })
    await signedIn.get('/session')
    // The gateway has credits of the account: those of an account that makes no calls go back to the store.
    t.equal((await call(other.http(key.key), 'eth_chainId')).result, '0x7a69')
    await redis.kill()
    t.equal((await call(other.http(key.key), 'eth_chainId')).result, '0x7a69')
    t.match(await alice.get('/session'), {
      status: 503,
      json: {
        error: {
          code: 'store-unavailable',
          message: /Calls are served from credits that were reserved before; then they get HTTP 503$/,
        },
      },
    })
    t.equal((await fetch(`${one.portal}/`)).status, 200)
    const unavailable = { status: 503, json: { error: { code: 'store-unavailable' } } }
    t.match(await operator(one, 'operator-token').get('/accounts'), unavailable)
    t.equal((await operator(one, 'operator-token').get('/nodes')).status, 200, 'nodes are shown to scripts with the token')
    t.equal((await fetch(`${one.admin}/operator`)).status, 200)
    t.match(await signedIn.get('/accounts'), { ...unavailable, json: { error: { message: /^the database of the gateway \(its store\)/ } } })
    t.equal((await signedIn.get('/nodes')).status, 200, 'and to who has signed in')
    const outage = { network: null, node: null, severity: 'critical', text: /^the store does not answer or fails/ }
    await waitUntil(async () => (await signedIn.get('/overview/nodes')).json.problems.length > 0)
    const { problems, networks } = (await signedIn.get('/overview/nodes')).json
    t.match(problems, [{ ...outage, kind: 'TollgateStoreFails' }])
    t.equal(networks.length > 0, true)
    const ofStore = async () =>
      (await signedIn.get('/overview/incidents')).json.incidents.filter(({ kind }: { kind: string }) => kind === 'store unreachable')
    t.match(await ofStore(), [{ ...outage, ended: null }])
    for (const path of ['/session', '/overview', '/overview/problems', '/overview/activity'])
      t.equal((await signedIn.get(path)).status, 200, `Home has ${path} without the store`)
    t.equal((await signedIn.request('PATCH', '/log-level', { level: 'debug' })).status, 200, 'the log level is no part of the store')
    t.match(await one.waitForEvent('change-unrecorded'), { action: 'log-level-changed', after: { level: 'debug' } })
    t.match(await signedIn.post('/configuration/reload'), { status: 200, json: { applied: true } })
    const late = operator(one)
    t.equal((await late.post('/login', { token: 'operator-token' })).status, 204, 'also now')
    t.equal((await late.get('/nodes')).status, 200)
    const left = operator(one)
    await left.post('/login', { token: 'operator-token' })
    const leftCookie = left.cookies()
    t.equal((await left.post('/logout')).status, 204)
    t.equal((await operator(one).request('GET', '/nodes', undefined, { cookie: leftCookie })).status, 401)
    await redis.restart()
    await waitUntil(async () => (await alice.get('/session')).status === 200)
    await waitUntil(async () =>
      (await signedIn.get('/overview/problems')).json.problems?.every(({ kind }: { kind: string }) => kind !== 'TollgateStoreFails'),
    )
    t.notMatch(await ofStore(), [{ ended: null }], 'the outage is over')
    await waitUntil(async () => (await late.get('/accounts')).status === 200) // a session that began without the store goes on with it
    // The other gateway connects to Redis in its own time.
    const moved = { cookie: alice.cookies() }
    await waitUntil(async () => (await createPortalClient(other.portal ?? '').request('GET', '/session', undefined, moved)).status === 200)
    t.equal((await operator(other).request('GET', '/nodes', undefined, { cookie: late.cookies() })).status, 200, 'on each gateway')
    t.equal((await operator(other).request('GET', '/nodes', undefined, { cookie: leftCookie })).status, 401)
  })
})

t.test('behind a proxy for https, a page of the same host by http is one of another site', async t => {
  const statuses: Record<string, number> = {}
  for (const secure of [true, false]) {
    const app = new Koa().use(refuseCrossSite(secure)).use(ctx => void (ctx.status = 204))
    const server = http.createServer(app.callback()).listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    app.on('error', () => undefined)
    for (const origin of ['http://portal.test', 'https://portal.test', 'https://portal.test:8443'])
      statuses[`${secure ? 'https' : 'http'} ${origin}`] = (await post(url, '', { host: 'portal.test', headers: { origin } })).status
  }
  t.same(statuses, {
    'https http://portal.test': 403,
    'https https://portal.test': 204,
    'https https://portal.test:8443': 403,
    'http http://portal.test': 204,
    'http https://portal.test': 403,
    'http https://portal.test:8443': 403,
  })
})

t.test('everybody is told of outages of a network, and nobody but operators what its nodes and plugins have', async t => {
  const clock = new TestClock(Date.UTC(2026, 0, 16))
  const path = await tempFolder(t)
  const store = await openStore({ kind: 'lmdb', path }, clock)
  const problem = {
    plugin: 'verify',
    name: 'light-client',
    severity: 'critical' as const,
    text: 'node-1 has lied',
    since: '2026-01-15T12:00:00Z',
  }
  const status = {
    ...{ name: 'devnet', state: 'down' as const, nodes: 1, usableNodes: 0, problems: [problem] },
    upstreams: [{ name: 'node-1', usable: false, condition: 'notUsable' as const, because: 'connection refused' }],
  }
  const incidents = new NodeIncidents({ clock, observedNetworks: async () => [status] })
  const portal = await openPortal({
    ...{ address: { host: '127.0.0.1', port: 0 }, store, storeAddress: { kind: 'lmdb', path }, clock, log: new TestLog(), version: '0' },
    ...{
      trustedProxies: [],
      networks: [{ name: 'devnet', chainId: 31337, hosts: ['devnet.test'], steps: [] }],
      plans: {},
      publicStatus: true,
    },
    ...{ usageRetentionMs: dayMs, requestLog: testRequestLog, metrics: createMetricsRegistry(), rpcUrl: 'http://127.0.0.1:1' },
    describeMethods: async () => new Map(),
    networkStatuses: () => [status],
    incidents: async () => incidents,
  })
  t.teardown(async () => {
    await portal.stop()
    await store.close()
  })
  const answer = await (await fetch(`${portal.url}/api/v1/status`)).text()
  t.match(JSON.parse(answer), [{ name: 'devnet', state: 'down', incidents: [{ state: 'down', ended: null }] }])
  t.equal(JSON.parse(answer)[0].incidents.length, 1)
  t.notMatch(answer, /verify|light-client|node-1|refused/)
  t.equal(incidents.list('devnet').length, 3, 'operators see the network, the node and the plugin')
})
