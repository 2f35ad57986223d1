import { hostname } from 'node:os'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { deletionDelayMs } from '../../src/services/accounts/account-deletion.ts'
import { metricDefinitions } from '../../src/services/metric-definitions.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { countTraffic } from '../../src/services/traffic/counters.ts'
import { callFigures } from '../../src/services/traffic/figures.ts'
import { TrafficHistory } from '../../src/services/traffic/history.ts'
import { systemClock } from '../../src/services/clock.ts'
import type { NodeStatus } from '../../src/services/node-status.ts'
import { networkStatuses } from '../../src/server/network-status.ts'
import { RecordedAccounts } from '../../src/services/accounts/recorded-accounts.ts'
import { classesLost } from '../../src/portal/nodes-left.ts'
import type { ListedKeyJson } from '../../src/portal/operations/key-operations.ts'
import type { NodesJson } from '../../src/portal/operations/node-operations.ts'
import type { ActivityJson } from '../../src/portal/operator/overview-routes.ts'
import type { OperatorServices } from '../../src/portal/operator/operator-route.ts'
import { addInvitation } from '../../src/portal/people/invitations.ts'
import { createPageQueries } from '../../src/portal/queries/page-queries.ts'
import { openStore } from '../../src/store/open-store.ts'
import { StoreError } from '../../src/store/store.ts'
import { tempStore } from '../store/temp-store.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { AdminToken } from '../../src/server/admin-token.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { storeEvidence } from '../support/stored-evidence.ts'
import { freePort } from '../support/free-port.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { dayMs } from '../../src/util/dates.ts'
import { describeCapacity } from '../../src/portal/operator/capacity.ts'
import { gatewayHealth, gatewayProblems } from '../../src/portal/operator/gateway-health.ts'
import { operatorAdviceOf } from '../../src/portal/outcome-advice.ts'
import { outcomeLabels } from '../../src/portal/state-labels.ts'
import { GatewayObserver } from '../../src/portal/operator/observe-gateway.ts'
import { describeProblems } from '../../src/portal/operator/problems.ts'
import type { NodeJson } from '../../src/portal/operations/node-operations.ts'
import { NodeIncidents, incidentRetentionMs, maxIncidents } from '../../src/portal/operator/node-incidents.ts'
import { operatorRoutes } from '../../src/portal/operator/operator-app.ts'
import { operatorOpenApi } from '../../src/portal/operator/operator-openapi.ts'
import { findCommandLoader } from '../../src/cli/commands.ts'
import { formatCommandHelp } from '../../src/cli/command.ts'
import { operations } from '../../src/portal/operations/index.ts'
import { pathMembers } from '../../src/portal/operations/operation.ts'
import type { FlagForm, Operation } from '../../src/portal/operations/operation.ts'
import { openApiChecker } from '../support/openapi-checker.ts'
import { createPortalClient, signInToPortal } from '../support/portal-client.ts'
import type { PortalClient } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { startWebhookReceiver } from '../support/webhook-receiver.ts'

const adminToken = 'canary-operator-token'

const receiver = await startWebhookReceiver()
t.teardown(() => receiver.stop())
/** Of what operators are told. */
const pager = await startWebhookReceiver()
t.teardown(() => pager.stop())

const doraToken = 'canary-token-of-dora'

const startGateway = async (t: Test, workers: number) => {
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_getBlockByNumber: { result: { number: '0x10', hash: `0x${'1'.repeat(64)}`, parentHash: `0x${'0'.repeat(64)}`, timestamp: '0x1' } },
    eth_gasPrice: { result: '0x7' },
    eth_maxPriorityFeePerGas: { raw: '', status: 500 },
  })
  const deployment = createDeployment({
    networks: { devnet: networkFile('devnet', [node.url]) },
    gateway: {
      admin: { token: '${ADMIN_TOKEN}', tokens: { dora: '${DORA_TOKEN}' } },
      workers,
      // Commands ask it for the state of nodes.
      listen: { rpc: '127.0.0.1:0', admin: `127.0.0.1:${await freePort()}`, portal: '127.0.0.1:0', trustedProxies: ['127.0.0.1'] },
      portal: {
        ...{ url: 'https://portal.example', webhooks: { allow: ['127.0.0.1'] } },
        operatorAlerts: { webhooks: { pager: { url: '${PAGER_URL}' } } },
      },
    },
    env: { ADMIN_TOKEN: adminToken, DORA_TOKEN: doraToken, PAGER_URL: pager.url },
  })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  keptEvidence = await storeEvidence(deployment, { network: 'devnet', upstream: 'node-2' })
  return { deployment, gateway: await deployment.start() }
}

const codeOf = async (gateway: GatewayProcess, key: string) => (await call(gateway.http(key), 'eth_gasPrice')).error?.code

type Surface = 'api' | 'command'

const keyLists = { networks: ['devnet'], methods: ['eth_call', 'eth_chainId'], origins: ['https://*.dapp.example'], ips: ['10.0.0.0/8'] }

/** As a caller has sent it. */
const loggedRequestId = 'customer-7/a+b=c'

/** The id of the evidence in the store. */
let keptEvidence = ''

const onlyNode = { network: 'devnet', node: 'node-1' }

const addedKey = (outputs: ReadonlyMap<string, unknown>): string => (outputs.get('keys add') as { readonly id: string }).id

const addedPerson = (outputs: ReadonlyMap<string, unknown>): string => {
  const people = outputs.get('people list') as readonly { readonly id: string; readonly name: string }[]
  return people.find(({ name }) => name === 'dan')?.id ?? ''
}

/** Of each operation, for an account of its own on each surface. An operation without an example fails. */
const exampleInputs: Readonly<
  Record<string, (account: string, outputs: ReadonlyMap<string, unknown>) => Readonly<Record<string, unknown>>>
> = {
  'accounts add': name => ({ name, plan: 'core', credits: 7_000, label: 'customer 9', link: true }),
  'accounts list': search => ({ search }),
  'accounts show': id => ({ id }),
  'accounts set': id => ({ id, plan: 'growth', credits: 8_000, label: 'customer 10' }),
  'accounts suspend': id => ({ id, reason: 'Invoice 17 is unpaid' }),
  'accounts delete': id => ({ id }),
  'accounts resume': id => ({ id }),
  'keys add': id => ({
    id,
    name: 'server',
    ...keyLists,
    dailyCredits: 7,
    rate: '10/s',
    burst: 20,
    expires: '30d',
    verify: ['none', 'proof'],
  }),
  'keys find': (_, outputs) => ({ ending: (outputs.get('keys add') as { readonly hint: string }).hint }),
  'keys list': id => ({ id }),
  'keys set': (_, outputs) => ({
    id: addedKey(outputs),
    networks: [],
    methods: [],
    dailyCredits: 0,
    rate: '600/m',
    expires: 'never',
    verify: [],
  }),
  'keys suspend': (_, outputs) => ({ id: addedKey(outputs) }),
  'keys resume': (_, outputs) => ({ id: addedKey(outputs) }),
  'keys rotate': (_, outputs) => ({ id: addedKey(outputs), overlap: '1h' }),
  'keys revoke': (_, outputs) => ({ id: addedKey(outputs) }),
  'alerts show': id => ({ id }),
  'alerts set': id => ({
    ...{ id, daily: [50, 90], monthly: [], email: false, webhook: receiver.url, format: 'slack' },
    ...{ errorRate: 5, latency: 800, window: 30, minCalls: 200 },
  }),
  'alerts test': id => ({ id }),
  'alerts operators': () => ({}),
  'alerts test-operators': () => ({}),
  changes: id => ({
    account: id,
    search: 'alerts-changed',
    by: '',
    action: 'alerts-changed',
    from: '2026-01-01',
    to: '2999-01-01',
    order: 'oldest',
  }),
  usage: id => ({ id, by: 'method', days: 2 }),
  'usage all': () => ({ by: 'method', hours: 48, sort: 'calls' }),
  errors: () => ({ network: 'devnet', hours: 48 }),
  'requests list': id => ({ id, network: 'devnet', outcome: 'failed', limit: 5 }),
  'requests latest': id => ({ account: id, network: 'devnet', method: 'eth_getBalance', outcome: 'failed', limit: 5 }),
  'requests show': () => ({ id: loggedRequestId }),
  'nodes list': () => ({}),
  'nodes drain': () => ({ ...onlyNode, force: true }),
  'nodes undrain': () => onlyNode,
  'nodes incidents': () => ({ network: 'devnet' }),
  'nodes acknowledge': () => ({ ...onlyNode, note: 'OPS-41' }),
  'nodes unacknowledge': () => onlyNode,
  'evidence list': () => ({ network: 'devnet', node: 'node-2', hours: 24 }),
  'evidence show': () => ({ id: keptEvidence }),
  'evidence clear': () => onlyNode,
  'log-level': () => ({}),
  'log-level set': () => ({ level: 'debug' }),
  'people list': id => ({ id }),
  'people set': (_, outputs) => ({ id: addedPerson(outputs), name: 'carl', role: 'developer' }),
  'people remove': (_, outputs) => ({ id: addedPerson(outputs) }),
  'accounts link': id => ({ id, person: 'dan', role: 'viewer', email: `dan@${id}.example` }),
}

const exampleInput = (name: string, surface: Surface, outputs: ReadonlyMap<string, unknown>): Readonly<Record<string, unknown>> => {
  const example = exampleInputs[name]
  if (example === undefined) throw new Error(`${name} has no example`)
  return example(`by-${surface}`, outputs)
}

const requestOperation = (client: PortalClient, { method, path }: Operation, input: Readonly<Record<string, unknown>>) => {
  const inPath = pathMembers({ path })
  const rest = Object.fromEntries(Object.entries(input).filter(([member]) => !inPath.includes(member)))
  const target = path.replaceAll(/\{(\w+)\}/g, (_, member: string) => encodeURIComponent(String(input[member])))
  const query = new URLSearchParams(rest as Record<string, string>).toString()
  return method === 'get' ? client.get(query === '' ? target : `${target}?${query}`) : client.request(method.toUpperCase(), target, rest)
}

/** What is typed for this input. */
const commandArguments = ({ name, command }: Operation, input: Readonly<Record<string, unknown>>): readonly string[] => {
  const { positionals = {}, fixed = {} } = command
  const flags: { readonly [member: string]: FlagForm | undefined } = command.flags ?? {}
  const options = Object.entries(input).filter(([member]) => !(member in positionals || member in fixed))
  return [
    ...name.split(' '),
    ...Object.keys(positionals).map(member => String(input[member])),
    ...options.flatMap(([member, value]) => {
      const { name: option = member, keyword, isSwitch = false } = flags[member] ?? {}
      if (isSwitch) return value === true ? [`--${option}`] : []
      const isKeyword = keyword !== undefined && (value === 0 || (Array.isArray(value) && value.length === 0))
      const text = typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value)
      return [`--${option}`, isKeyword ? keyword : text]
    }),
  ]
}

/** Without what differs each time: ids, times, secrets, the name of the account, and who has asked. */
const withoutChance = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value)
      .replaceAll(/by-(?:api|command)/g, 'NAME')
      .replaceAll(/\b(?:acc|key|usr)_[\w-]+/g, 'ID')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replaceAll(/#[\w-]+/g, '#TOKEN')
      .replaceAll(/\btg_\w+/g, 'KEY')
      .replaceAll(/\bwhsec_[\w+/=]+/g, 'SECRET')
      .replaceAll(/"by":\{[^}]*\}/g, '"by":"AUTHOR"')
      .replaceAll(/"hint":"\w+"/g, '"hint":"HINT"'),
  )

t.test("the operator's API", async t => {
  const { deployment, gateway } = await startGateway(t, 1)
  const operator = createPortalClient(gateway.admin, adminToken)

  t.test('nobody but the operator gets in', async t => {
    let address = 0
    for (const token of ['', 'guess', `${adminToken}x`]) {
      for (const path of ['/accounts', '/usage', '/changes', '/none']) {
        // 5 wrong tokens an address are answered.
        const headers = { authorization: `Bearer ${token}`, 'x-forwarded-for': `192.0.2.${(address += 1)}` }
        t.equal((await fetch(`${gateway.admin}/api/v1${path}`, { headers })).status, 401, path)
        t.equal((await fetch(`${gateway.admin}/api/v1${path}`)).status, 401, path)
      }
    }
    t.equal((await fetch(`${gateway.admin}/api/v1/plans`, { headers: { authorization: `Bearer ${adminToken}` } })).status, 200)
  })

  t.test('accounts are created, listed by pages, searched and changed', async t => {
    const { status, json: alice } = await operator.post('/accounts', { name: 'alice', plan: 'core', label: 'customer 7', credits: 5_000 })
    t.equal(status, 201)
    t.match(alice, { id: /^acc_/, name: 'alice', plan: 'core', credits: 5_000, label: 'customer 7', suspended: null })
    await operator.post('/accounts', { name: 'bob', plan: 'growth' })
    await operator.post('/accounts', { name: 'carol', plan: 'core' })
    const { json: page } = await operator.get('/accounts?limit=2')
    t.match(page, { accounts: [{ name: 'alice' }, { name: 'bob' }], next: 'bob' })
    t.match((await operator.get(`/accounts?after=${page.next}`)).json, { accounts: [{ name: 'carol' }], next: null })
    t.match((await operator.get('/accounts?search=CUSTOMER')).json.accounts, [{ name: 'alice', used: 0 }])
    t.match(await operator.get('/accounts?sort=used&after=bob'), { status: 400, json: { error: { field: 'after' } } })
    t.match((await operator.get('/accounts/alice')).json, { id: alice.id, balance: { limit: 5_000, used: 0, left: 5_000 } })
    t.match((await operator.request('PATCH', `/accounts/${alice.id}`, { plan: 'growth', credits: 0, label: '' })).json, {
      plan: 'growth',
      credits: null,
      label: null,
    })
    t.match((await operator.get('/plans')).json, [{ name: 'core', dailyCredits: 3_000_000 }, { name: 'growth' }, { name: 'custom' }])
  })

  t.test('a suspended account and a revoked key are refused within a second', async t => {
    const { id, key } = await deployment.addKey('bob')
    await waitUntil(async () => (await codeOf(gateway, key)) === undefined)
    t.match((await operator.request('PATCH', '/accounts/bob', { suspended: true })).json, { suspended: /^20/ })
    await waitUntil(async () => (await codeOf(gateway, key)) === -32090)
    t.match((await operator.request('PATCH', '/accounts/bob', { suspended: false })).json, { suspended: null })
    await waitUntil(async () => (await codeOf(gateway, key)) === undefined)
    t.match((await operator.get('/accounts/bob/keys')).json, [{ id, account: { name: 'bob' }, hint: key.slice(-4), state: 'active' }])
    t.match((await operator.post(`/keys/${id}/suspend`)).json, { state: 'suspended' })
    t.match((await operator.post(`/keys/${id}/resume`)).json, { state: 'active' })
    t.match((await operator.post(`/keys/${id}/revoke`)).json, { state: 'revoked', revoked: /^20/ })
    await waitUntil(async () => (await codeOf(gateway, key)) === -32090)
    t.match(await operator.post(`/keys/${id}/resume`), { status: 409, json: { error: { code: 'not-active' } } })
    t.notMatch(JSON.stringify((await operator.get('/accounts/bob/keys')).json), key)
  })

  t.test('usage of all accounts is counted by any dimension, by pages, with the names of accounts', async t => {
    const { key } = await deployment.addKey('carol')
    for (let i = 0; i < 2; i += 1) await call(gateway.http(key), 'eth_chainId')
    const callsOf = async (name: string) =>
      (await operator.get('/usage')).json.groups.find(({ account }: { account: string }) => account === name)?.calls
    await waitUntil(async () => (await callsOf('carol')) === 2 && (await callsOf('bob')) > 0)
    t.ok((await operator.get('/usage?by=network')).json.groups[0]?.calls >= 3)
    const { json } = await operator.get('/usage')
    t.match(json, { by: 'account', groupCount: 2, from: /^20/ })
    t.match(json.groups.map(({ account }: { account: string }) => account).sort(), ['bob', 'carol'])
    await call(gateway.http(key), 'eth_noSuchMethod')
    await waitUntil(async () => (await operator.get('/usage?by=outcome')).json.groups.length >= 2)
    const byOutcome = (await operator.get('/usage?by=outcome')).json.groups
    t.match(
      byOutcome.find(({ name }: { name: string }) => name === 'ok'),
      { failed: 0, p50Ms: Number, p95Ms: Number, p99Ms: Number },
    )
    t.match(
      byOutcome.find(({ failed }: { failed: number }) => failed === 1),
      { calls: 1, p50Ms: null, p95Ms: null, p99Ms: null },
    )
    t.match((await operator.get('/usage?limit=1&offset=1')).json.groups, [{ name: json.groups[1].name }])
    t.match((await operator.get('/usage?by=method&hours=744')).json.groups.map(({ name }: { name: string }) => name).sort(), [
      'eth_chainId',
      'eth_gasPrice',
      'other',
    ])
  })

  t.test('errors of all accounts, or of one, are counted by network and outcome, with who has the most', async t => {
    const { json } = await operator.get('/errors?hours=1')
    const method = json.groups.find(({ outcome }: { outcome: string }) => outcome === 'method')
    t.match(method, {
      ...{ network: 'devnet', code: -32601, message: 'the method does not exist/is not available', byGateway: false },
      ...{ calls: 1, callsOfNetwork: Number, accounts: 1, most: { account: /^acc_/, name: 'carol', calls: 1 } },
      ...{ firstHour: /^20.*:00:00/, lastHour: /^20.*:00:00/, methods: [{ method: 'other', calls: 1 }], methodCount: 1 },
    })
    t.ok(method.firstHour <= method.lastHour && Math.abs(Date.now() - Date.parse(method.lastHour)) < 2 * 3_600_000)
    t.ok(method.callsOfNetwork >= 5)
    t.match((await operator.get('/errors?account=carol&hours=744')).json.groups, [{ outcome: 'method', calls: 1, callsOfNetwork: 3 }])
    t.same((await operator.get('/errors?account=bob')).json.groups, [])
    t.same((await operator.get('/errors?network=none')).json.groups, [])
    t.equal((await operator.get('/errors?account=none')).status, 404)
  })

  t.test('errors by the fault of nodes come first, and the command says whose fault they are', async t => {
    const { key } = await deployment.addKey('carol')
    await call(gateway.http(key), 'eth_noSuchMethod')
    t.match(await call(gateway.http(key), 'eth_maxPriorityFeePerGas'), { error: { code: -32002 } })
    const errors = async () => (await operator.get('/errors?account=carol')).json.groups
    await waitUntil(async () => (await errors())[0]?.outcome === 'unavailable')
    t.match(await errors(), [
      { outcome: 'unavailable', code: -32002, message: 'no upstream can answer now', byGateway: true, calls: 1 },
      { outcome: 'method', byGateway: false, calls: 2 },
    ])
    const { stdout } = await deployment.run('errors', '--account', 'carol')
    t.match(
      stdout,
      /^devnet +unavailable +-32002 +yes +1 +\d+ +1 +carol +20\S+:00Z +20\S+:00Z +eth_maxPriorityFeePerGas 1\ndevnet +method +-32601 +no +2 +\d+ +1 +carol +20\S+Z +20\S+Z +other 2$/m,
    )
  })

  t.test('a request is found by the id that a customer quotes: whose it is and why it failed, without its parameters', async t => {
    const { id: keyId, key } = await deployment.addKey('carol')
    const body = { jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: [`0x${'c0ffee'.repeat(6)}abcd`, 'nowhere'] }
    const headers = { 'content-type': 'application/json', 'x-request-id': loggedRequestId }
    const send = () =>
      fetch(gateway.http(key), { method: 'POST', headers, body: JSON.stringify([body, { ...body, method: 'eth_gasPrice', params: [] }]) })
    const find = async (id: string) => (await operator.get(`/requests/${encodeURIComponent(id)}`)).json.requests
    await send()
    await waitUntil(async () => (await find(loggedRequestId)).length === 2)
    const found = await find(` ${loggedRequestId}`)
    t.match(
      found.find(({ outcome }: { outcome: string }) => outcome !== 'ok'),
      {
        account: { id: /^acc_/, name: 'carol' },
        key: { id: keyId, hint: key.slice(-4) },
        ...{ requestId: loggedRequestId, network: 'devnet', method: 'eth_getBalance', outcome: 'params', code: -32602, credits: 0 },
        ...{
          message: /nowhere/,
          advice: /^The caller has to correct the parameter that the message names/,
          durationMs: Number,
          attempts: null,
          upstream: null,
        },
      },
    )
    t.match(
      found.find(({ outcome }: { outcome: string }) => outcome === 'ok'),
      { attempts: 1, upstream: 'node-1', advice: null },
    )
    t.notMatch(JSON.stringify(found), /c0ffee|"params":|isCut/)
    t.same(await find(loggedRequestId.slice(0, -1)), [])
    const { stdout } = await deployment.run('requests', 'show', loggedRequestId)
    t.match(stdout, /^account +carol$/m)
    t.match(stdout, new RegExp(`^key +${keyId} .*…${key.slice(-4)}$`, 'm'))
    t.match(stdout, /^code +-32602$/m)
    t.match(await deployment.run('requests', 'show', 'none'), { code: 1, stderr: /no logged request has this id: .* kept for 24 h/ })

    t.test('and among the latest of all accounts, by account, network, method and outcome', async t => {
      const latest = async (query: string) => (await operator.get(`/requests?${query}`)).json
      const ofCarol = await latest('account=carol&method=eth_getBalance&network=devnet&outcome=params')
      t.match(ofCarol, { isLogged: true, retentionHours: 24, requests: [{ account: { name: 'carol' }, code: -32602 }], searchedFrom: null })
      const ofAll = await latest('limit=200')
      t.ok(new Set(ofAll.requests.map(({ account }: { account: { name: string } }) => account.name)).size > 1)
      const times = ofAll.requests.map(({ time }: { time: string }) => time)
      t.same(times, times.toSorted().reverse())
      t.notMatch(JSON.stringify(ofAll), /c0ffee|"params":|isCut/)
      t.equal((await latest('limit=1')).requests.length, 1)
      t.same((await latest('method=eth_getBalance&outcome=ok&account=carol')).requests, [])
      for (const of of ['', '&account=carol']) {
        const codes = (await latest(`code=-32602${of}`)).requests.map(({ code }: { code: number }) => code)
        t.ok(codes.length > 0 && codes.every((code: number) => code === -32602), `of one error code${of}`)
        const answered = (await latest(`node=node${of}`)).requests.map(({ upstream }: { upstream: string }) => upstream)
        t.ok(
          answered.every((node: string) => node === 'node'),
          `of one node${of}`,
        )
        t.same((await latest(`node=nowhere${of}`)).requests, [])
        const [newest] = (await latest(`limit=1${of}`)).requests
        const until = new Date(Date.parse(newest.time) + 1).toISOString()
        t.same((await latest(`limit=1&hours=1&to=${until}${of}`)).requests, [newest], `up to a time${of}`)
        t.same((await latest(`limit=1&from=${newest.time}&to=${until}${of}`)).requests, [newest], `between two times${of}`)
        const [older] = (await latest(`limit=1&to=${newest.time}${of}`)).requests
        t.ok(older === undefined || older.time < newest.time, `before a time${of}`)
        t.same((await latest(`from=${until}&code=-1${of}`)).requests, [])
      }
      t.match((await operator.get('/requests?from=yesterday')).json, { error: { field: 'from' } })
      t.equal((await operator.get('/requests?account=nobody')).status, 404)
      t.equal((await operator.get('/requests?limit=201')).status, 400)
      const { stdout } = await deployment.run('requests', 'latest', '--method', 'eth_getBalance', '--outcome', 'failed')
      t.match(stdout, /^TIME +ACCOUNT +KEY.*\n20\S+ +carol +…\w{4} +devnet +eth_getBalance +params +-32602 /)
    })
  })

  t.test(
    'of an account that leaves out parameters and messages, the operator sees no message; with the log turned off, nothing',
    async t => {
      const { key } = await deployment.addKey('bob')
      const owner = await signInToPortal(deployment, gateway, 'bob')
      const headers = { 'content-type': 'application/json', 'x-request-id': 'of-bob' }
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: ['0xcanary', 'latest'] })
      const find = async () => (await operator.get('/requests/of-bob')).json.requests
      await owner.request('PATCH', '/requests', { setting: 'withoutParams' })
      await waitUntil(async () => {
        await fetch(gateway.http(key), { method: 'POST', headers, body })
        return (await find()).at(0)?.message === 'invalid params'
      })
      await owner.request('PATCH', '/requests', { setting: 'off' })
      t.same(await find(), [])
    },
  )

  t.test('every change is in the log of changes, which names the operator', async t => {
    const { json } = await operator.get('/changes?limit=1000&from=2020-01-01')
    const oldestFirst = json.changes.toReversed()
    const ofOperator = oldestFirst.filter(({ by }: { by: { kind: string } }) => by.kind === 'operator')
    t.match(ofOperator.slice(0, 4), [
      { action: 'account-added', account: { name: 'alice' }, by: { name: 'admin token' } },
      { action: 'account-added', account: { name: 'bob' } },
      { action: 'account-added', account: { name: 'carol' } },
      { action: 'account-changed', before: { plan: 'core', credits: 5_000 }, after: { plan: 'growth', credits: null } },
    ])
    t.match(ofOperator.at(-1), { action: 'key-revoked', account: { name: 'bob' } })
    t.equal(json.changeCount, json.changes.length)
    t.same(
      (await operator.get('/changes?limit=2&offset=1&from=2020-01-01')).json,
      { ...json, changes: json.changes.slice(1, 3) },
      'in parts',
    )
    const { changes, changeCount } = (await operator.get('/changes?search=ACCOUNT-ADDED&from=2020-01-01')).json
    t.same([changeCount, ...changes], [3, ...json.changes.filter(({ action }: { action: string }) => action === 'account-added')])
    t.same((await operator.get('/changes?month=2020-01')).json, { month: '2020-01', changeCount: 0, changes: [] })
    const today = json.changes[0].time.slice(0, 10)
    const countOf = async (query: string) => (await operator.get(`/changes?${query}`)).json.changeCount
    t.equal(await countOf(`from=2000-01-01&to=${today}`), json.changeCount, 'over months')
    t.equal(await countOf('from=2000-01-01&to=2020-01-31'), 0)
    t.equal(await countOf('by=OPERATOR&from=2020-01-01'), ofOperator.length)
    t.equal(await countOf('action=key-revoked&by=admin+token&account=bob&from=2020-01-01'), 1)
    t.equal(await countOf('action=key-revoked&by=nobody&from=2020-01-01'), 0)
  })

  t.test('keys are listed with what each has used of its limit today, and when it was used last', async t => {
    const { key, ...limited } = (await operator.post('/accounts/bob/keys', { name: 'limited', dailyCredits: 800 })).json
    await waitUntil(async () => (await codeOf(gateway, key)) === undefined)
    const listed = async () => {
      const keys: readonly ListedKeyJson[] = (await operator.get('/accounts/bob/keys')).json
      return keys.find(({ id }) => id === limited.id)
    }
    await waitUntil(async () => (await listed())?.lastUsed !== null)
    const { usedToday, lastUsed } = (await listed()) ?? {}
    t.ok(usedToday !== null && usedToday !== undefined && usedToday > 0 && usedToday <= 800, `${usedToday}`)
    t.match(lastUsed, /^20.*:00:00.000Z$/)
    t.match((await operator.post('/accounts/bob/keys', { name: 'unlimited' })).json, { dailyCredits: null })
    t.match((await operator.get('/accounts/bob/keys')).json.at(-1), { name: 'unlimited', usedToday: null, lastUsed: null })
  })

  t.test('an account is found by its id, the id of a key, and the address of a person or of somebody who was invited', async t => {
    const { id } = (await operator.get('/accounts/carol')).json
    const [key] = (await operator.get('/accounts/carol/keys')).json
    await operator.post('/accounts/carol/sign-in-links', { person: 'erin', role: 'viewer', email: 'erin@carol.example' })
    const invited = 'frank@carol.example'
    const store = await openStore({ kind: 'lmdb', path: join(deployment.dir, '../data') }, systemClock)
    const inviter = { id: 'usr_erin', account: id, name: 'erin', role: 'owner' } as const
    await addInvitation(store, systemClock, inviter, { name: 'frank', role: 'viewer', email: invited })
    await store.close()
    for (const search of [id, id.slice(0, -3), key.id, 'Erin@carol.example', invited]) {
      const { accounts } = (await operator.get(`/accounts?${new URLSearchParams({ search })}`)).json
      t.match(accounts, [{ name: 'carol' }], search)
      t.equal(accounts.length, 1, search)
    }
    for (const search of ['key_000000000000', 'nobody@carol.example', key.id.slice(0, -1)])
      t.same((await operator.get(`/accounts?${new URLSearchParams({ search })}`)).json.accounts, [], search)
  })

  t.test('an account says what came of its last calls, by whose fault, and what its plan has', async t => {
    const { lastCalls, ofPlan } = (await operator.get('/accounts/carol')).json
    t.match(lastCalls, { from: /:00:00.000Z$/, failures: [{ outcome: 'unavailable', byGateway: true, calls: 1 }] })
    t.match(
      lastCalls.failures.find(({ outcome }: { readonly outcome: string }) => outcome === 'method'),
      { byGateway: false, calls: Number },
    )
    t.ok(lastCalls.calls > lastCalls.failures.reduce((sum: number, { calls }: { readonly calls: number }) => sum + calls, 0))
    t.same(ofPlan, { dailyCredits: 3_000_000, rate: null, burst: null })
    t.match(
      (await deployment.run('accounts', 'show', 'carol')).stdout,
      /calls +\d+ since \S+:00Z\n *gateway errors +unavailable 1\n *caller errors +.*method \d/,
    )
  })

  t.test('the log of changes names keys as operators and customers know them', async t => {
    const { changes } = (await operator.get('/changes?account=bob&action=key-created')).json
    const keys: readonly ListedKeyJson[] = (await operator.get('/accounts/bob/keys')).json
    for (const { id, name, hint } of keys)
      t.match(
        changes.find(({ target }: { readonly target: string }) => target === id),
        { targetName: `${name} …${hint}`.trim() },
      )
    t.ok(keys.some(({ name }) => name === 'limited'))
  })

  t.test('a wrong request says which field and why', async t => {
    for (const [path, body, field] of [
      ['/accounts', { name: 'x' }, 'plan'],
      ['/accounts', { name: 'a b', plan: 'core' }, 'name'],
      ['/accounts', { name: 'x', plan: 'coer' }, 'plan'],
      ...['two\nlines', 'two\u2028lines', 'half \ud83d', '\u202egpj.a'].map(
        label => ['/accounts', { name: 'x', plan: 'core', label }, 'label'] as const,
      ),
      ['/accounts', { name: 'x', plan: 'core', admin: true }, 'admin'],
      ['/accounts/bob/keys', { networks: ['devnt'] }, 'networks'],
      ['/accounts/bob/keys', { methods: ['eth_cal'] }, 'methods'],
      ['/accounts/bob/keys', { burst: 5 }, 'burst'],
      ['/accounts/bob/keys', { rate: '10' }, 'rate'],
      ['/accounts/bob/keys', { expires: 'soon' }, 'expires'],
      ['/keys/key_none/rotate', { overlap: '0s' }, 'overlap'],
    ] as const) {
      t.match(await operator.post(path, body), { status: 400, json: { error: { field } } }, `${path} ${field}`)
    }
    t.match(await operator.post('/accounts', { name: 'bob', plan: 'core' }), { status: 409, json: { error: { field: 'name' } } })
    t.match(await operator.get('/usage?by=minute'), { status: 400, json: { error: { field: 'by' } } })
    for (const [query, field] of [
      ['from=2026-02-31x', 'from'],
      ['from=2026-13-01', 'from'],
      ['to=2026-01-01', 'to'],
      ['from=2026-02-01&to=2026-01-01', 'from'],
      ['action=none', 'action'],
    ] as const)
      t.match(await operator.get(`/changes?${query}`), { status: 400, json: { error: { field } } }, query)
    t.match(await operator.get('/changes?month=May'), { status: 400, json: { error: { field: 'month' } } })
    t.equal((await operator.get('/accounts/nobody')).status, 404)
    t.equal((await operator.post('/keys/key_none/revoke')).status, 404)
    t.match(await operator.get('/overview/activity?range=1d'), { status: 400, json: { error: { field: 'range' } } })
    t.match(await operator.get('/nothing'), { status: 404, json: { error: { code: 'not-found' } } })
    t.match(await operator.get(`/accounts/${'x'.repeat(10_000)}`), { status: 404, json: { error: { code: 'not-found' } } })
    t.match(await operator.post('/accounts', '{'), { status: 400, json: { error: { code: 'malformed' } } })
  })

  t.test('an operator with a token of their own has their name in the log of changes, by token and by session', async t => {
    const lastChange = async () => (await operator.get('/changes?from=2020-01-01')).json.changes[0]
    const byToken = createPortalClient(gateway.admin, doraToken)
    t.match((await byToken.get('/session')).json, { by: 'token', name: 'dora' })
    await byToken.post('/accounts', { name: 'by-dora', plan: 'core' })
    t.match(await lastChange(), { by: { kind: 'operator', name: 'dora' }, account: { name: 'by-dora' } })
    const browser = createPortalClient(gateway.admin)
    t.equal((await browser.post('/login', { token: doraToken })).status, 204)
    t.match((await browser.get('/session')).json, { by: 'session', name: 'dora' })
    await browser.request('PATCH', '/accounts/by-dora', { label: 'customer 3' })
    t.match(await lastChange(), { by: { kind: 'operator', name: 'dora' }, account: { name: 'by-dora' }, action: 'account-changed' })
    t.match((await operator.get('/session')).json, { by: 'token', name: null })
    t.match((await deployment.run('changes', '--by', 'dora')).stdout, /dora/)
    t.ok(gateway.log.some(line => line['event'] === 'operator-signed-in' && line['operator'] === 'dora'))
    t.notMatch(JSON.stringify(gateway.log), doraToken)
    const clock = new TestClock()
    const tokensOf = (tokens: Readonly<Record<string, Secret>>) =>
      new AdminToken({ token: new Secret(adminToken), tokens, clock, log: new TestLog(), readClientAddress: () => '127.0.0.1' })
    const [id] = ['dora'].map(name => {
      const check = tokensOf({ [name]: new Secret(doraToken) }).check({} as never, doraToken) // the address is read above
      return 'holder' in check ? check.holder.id : ''
    })
    t.match(tokensOf({ dora: new Secret(doraToken) }).holder(id ?? ''), { name: 'dora' })
    t.equal(tokensOf({ dora: new Secret('another token') }).holder(id ?? ''), undefined, 'another token ends the sessions of its operator')
    t.equal(tokensOf({}).holder(id ?? ''), undefined)
    t.equal(tokensOf({}).holder(''), undefined)
  })

  t.test('a session by POST /login opens the API until it is signed out of', async t => {
    const browser = createPortalClient(gateway.admin)
    t.equal((await browser.get('/plans')).status, 401)
    const { status, headers } = await browser.post('/login', { token: adminToken })
    t.same([status, headers.get('connection')], [204, 'keep-alive'])
    t.match(headers.getSetCookie()[0], /^tollgate-operator=[\w-]+; .*samesite=strict; httponly$/i)
    t.equal((await browser.get('/plans')).status, 200)
    await browser.post('/accounts', { name: 'by-session', plan: 'core' })
    t.match((await browser.get('/changes?from=2020-01-01')).json.changes[0], {
      by: { kind: 'operator', name: 'admin session' },
      account: { name: 'by-session' },
    })
    for (const headers of [{ 'sec-fetch-site': 'same-site' }, { origin: 'http://evil.example' }]) {
      t.equal((await browser.request('POST', '/accounts', { name: 'x', plan: 'core' }, headers)).status, 403)
      t.equal((await browser.request('POST', '/login', { token: adminToken }, headers)).status, 403)
    }
    const stolen = browser.cookies()
    const thief = createPortalClient(gateway.admin)
    t.equal(
      (await thief.request('GET', '/plans', undefined, { cookie: stolen.replace(/=./, first => (first === '=x' ? '=y' : '=x')) })).status,
      401,
      'the cookie is signed',
    )
    t.equal(
      (await browser.request('GET', '/plans', undefined, { authorization: 'Bearer x' })).status,
      401,
      'a token is not replaced by a session',
    )
    t.equal((await browser.post('/logout')).status, 204)
    t.equal(
      (await thief.request('GET', '/plans', undefined, { cookie: stolen })).status,
      401,
      'the session has ended, not the cookie alone',
    )
  })

  t.test('the password or the token (JWT) of a proxy is no guess: it keeps nobody from signing in, and opens nothing', async t => {
    const spacedJwt = `${Buffer.from('{ "alg": "RS256" }').toString('base64url')}.eyJzdWIiOiJ4In0.c2lnbmF0dXJl`
    for (const authorization of [
      'Basic dXNlcjpwYXNzd29yZA==',
      'Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl',
      `Bearer ${spacedJwt}`,
    ]) {
      const proxied = { 'x-forwarded-for': '198.51.100.2', authorization }
      const browser = createPortalClient(gateway.admin)
      for (let i = 0; i < 6; i += 1) t.equal((await browser.request('GET', '/session', undefined, proxied)).status, 401)
      t.equal((await browser.request('POST', '/login', { token: adminToken }, proxied)).status, 204)
      t.match(await browser.request('GET', '/session', undefined, proxied), { status: 200, json: { by: 'session', host: hostname() } })
      const crossSite = { ...proxied, origin: 'http://evil.example' }
      t.equal((await browser.request('POST', '/accounts', { name: 'x', plan: 'core' }, crossSite)).status, 403)
      t.equal((await fetch(`${gateway.admin}/reload`, { method: 'POST', headers: proxied })).status, 401)
      t.equal(
        (await operator.request('GET', '/session', undefined, { ...proxied, authorization: `bearer ${adminToken}` })).status,
        200,
        'the name of a scheme has any case',
      )
    }
  })

  t.test('guesses at POST /login count with those in Authorization; sessions go on', async t => {
    const address = { 'x-forwarded-for': '198.51.100.1' }
    const browser = createPortalClient(gateway.admin)
    await browser.post('/login', { token: adminToken })
    for (const body of [{}, { token: 1 }, { token: '' }, '{']) t.equal((await browser.request('POST', '/login', body, address)).status, 400)
    for (let i = 0; i < 3; i += 1) {
      t.match(await browser.request('POST', '/login', { token: 'guess' }, address), { status: 401, json: { error: { field: 'token' } } })
    }
    for (let i = 0; i < 2; i += 1)
      t.equal((await browser.request('GET', '/plans', undefined, { ...address, authorization: 'Bearer x' })).status, 401)
    const { status, headers, json } = await browser.request('POST', '/login', { token: adminToken }, address)
    t.match(
      { status, json },
      { status: 429, json: { error: { code: 'too-many-attempts', message: /^too many wrong tokens: try again in \d+ s$/ } } },
    )
    t.ok(Number(headers.get('retry-after')) > 0)
    t.equal((await browser.request('GET', '/plans', undefined, address)).status, 200)
  })

  t.test('an account is deleted after a week: its keys are refused at once, until it is resumed', async t => {
    const { key } = await deployment.addKey('bob')
    await waitUntil(async () => (await codeOf(gateway, key)) === undefined)
    const { status, json } = await operator.post('/accounts/bob/delete')
    t.match({ status, json }, { status: 200, json: { name: 'bob', suspended: /^20/, deleteAt: /^20/ } })
    t.equal(Date.parse(json.deleteAt) - Date.parse(json.suspended), deletionDelayMs)
    await waitUntil(async () => (await codeOf(gateway, key)) === -32090)
    t.match((await operator.request('PATCH', '/accounts/bob', { suspended: false })).json, { suspended: null, deleteAt: null })
    await waitUntil(async () => (await codeOf(gateway, key)) === undefined)
  })

  t.test('a sign-in link is made for the owner or a new person, once the gateway has a dashboard', async t => {
    t.match(await operator.post('/accounts/bob/sign-in-links', {}), {
      status: 201,
      json: { person: 'owner', link: /^https:\/\/portal\.example\/sign-in#\S+$/ },
    })
    t.match((await operator.get('/changes?from=2020-01-01')).json.changes[0], {
      action: 'link-created',
      account: { name: 'bob' },
      by: { name: 'admin token' },
    })
    t.match(await operator.post('/accounts/bob/sign-in-links', { person: 'a b' }), { status: 400, json: { error: { field: 'person' } } })
    t.equal((await operator.post('/accounts/nobody/sign-in-links', {})).status, 404)
  })

  t.test('nodes are shown with head, state, share and latency', async t => {
    t.match((await operator.get('/nodes')).json.networks, [
      {
        ...{ name: 'devnet', nodes: 1, usableNodes: 1, head: 16, lastHead: { number: 16, since: /Z$/, checkedAt: /Z$/ } },
        upstreams: [{ condition: 'usable', usable: true, because: null, head: 16, lagBlocks: 0, inFlight: 0, reasons: [] }],
      },
    ])
    const { json } = await operator.get('/overview')
    t.match(json, {
      gateway: { store: { usable: true, outage: null, reason: null }, workers: { ready: null, missing: null }, started: /Z$/ },
    })
    t.ok(json.seconds > 0 && json.gateway.cpu > 0 && json.gateway.residentBytes > 1e6)
    const [{ name, calls, upstreams }] = json.networks
    t.ok(calls >= 4, `${calls} calls in ${json.seconds} s`)
    t.match({ name, upstreams }, { name: 'devnet', upstreams: [{ name: 'node-1', share: 1, failures: Number }] })
    t.ok(upstreams[0].requests > 0 && upstreams[0].p50Ms > 0 && upstreams[0].p99Ms >= upstreams[0].p50Ms)
    t.match((await operator.get('/overview/activity?range=24h&network=devnet')).json, { times: [], calls: { p95Ms: [] }, nodes: [] })
  })

  t.test('of each resource, what is used of what there is; the store says how full its disk is', async t => {
    const { since, resources, growth } = (await operator.get('/overview/capacity')).json
    t.match(since, /Z$/)
    t.same(growth, { days: 0, perWeek: null, reachedAt: null })
    const of = (name: string) => resources.find(({ resource }: { readonly resource: string }) => resource === name)
    for (const name of ['callsPerSecond', 'cpu', 'memory', 'callerMemory', 'connections', 'openFiles'])
      t.ok(of(name).used >= 0 && of(name).limit > of(name).used, `${name}: ${JSON.stringify(of(name))}`)
    t.match(of('memory'), { peak: Number, peakAt: /Z$/ })
    t.match(of('connections'), { limit: 10_000, peak: null, peakAt: null })
  })

  t.test('incidents agree with the states that were shown last; the command lists them too', async t => {
    t.equal((await operator.post('/nodes/devnet/node-1/drain', { force: true })).status, 200)
    const [ongoing] = (await operator.get('/overview/incidents?network=devnet')).json.incidents
    t.match(ongoing, { network: 'devnet', ended: null }, 'at once')
    const { problems, nodesWithProblems } = (await operator.get('/overview/problems')).json
    t.same(nodesWithProblems, [{ network: 'devnet', node: 'node-1' }])
    t.match(
      problems.filter(
        ({ network, node }: { readonly network: string; readonly node: string | null }) => network === 'devnet' && node !== null,
      ),
      [{ node: 'node-1', kind: 'drained', severity: 'critical', text: 'an operator has drained it', wrongResults: null }],
    )
    const printed = await deployment.run('nodes', 'incidents', '--network', 'devnet')
    t.match(printed.stdout, /ongoing +1 +devnet +node-1 +drained +an operator has drained it/)
    t.equal((await operator.post('/nodes/devnet/node-1/undrain')).status, 200)
    const { incidents } = (await operator.get('/overview/incidents?network=devnet')).json
    t.ok(
      incidents.every(({ ended }: { readonly ended: string | null }) => ended !== null),
      'all have ended',
    )
    const printedJson = (await deployment.run('nodes', 'incidents', '--network', 'devnet', '--json')).stdout
    t.same(JSON.parse(printedJson).incidents.length, incidents.length)
    const left = (await operator.get('/overview/problems')).json.problems
    t.notOk(left.some(({ node, kind }: { readonly node: string; readonly kind: string }) => node === 'node-1' && kind === 'drained'))
  })

  t.test('receivers of operators get a test message, and the overview has what they were sent', async t => {
    t.match(await operator.post('/operator-alerts/test'), {
      status: 200,
      json: { tests: [{ channel: 'webhook', receiver: 'pager', isDelivered: true, status: 'HTTP 204' }] },
    })
    t.ok(pager.received.some(({ body }) => /"type":"test".*"data":\{\}/.test(body)))
    t.match((await deployment.run('alerts', 'test-operators')).stdout, /webhook +pager +HTTP 204/)
    const pagerOf = async () => (await operator.get('/operator-alerts')).json.receivers[0]
    t.match(await pagerOf(), { channel: 'webhook', receiver: 'pager', severity: 'warning' })
    await operator.post('/nodes/devnet/node-1/drain', { force: true })
    const sent = async () => (await operator.get('/overview/accounts')).json.operatorAlerts
    await waitUntil(async () => (await sent()).some(({ state }: { readonly state: string }) => state === 'delivered'))
    await operator.post('/nodes/devnet/node-1/undrain')
    const began = { type: 'incident.began', text: 'Tollgate: critical: devnet: down', channel: 'webhook', receiver: 'pager' }
    t.match((await sent()).at(-1), { ...began, state: 'delivered' })
    await waitUntil(async () => (await pagerOf()).last?.state === 'delivered')
    const { text, created } = (await pagerOf()).last
    t.match(text, /^Tollgate: .*devnet/)
    t.notMatch(JSON.stringify((await operator.get('/operator-alerts')).json), /http/, 'URLs of webhooks may hold keys')
    const printed = (await deployment.run('alerts', 'operators')).stdout
    t.match(printed, new RegExp(`webhook +pager +warning +${text} +delivered: HTTP 204 +${created.slice(0, 19)}`))
  })

  t.test('a drain has a reason and an end, which other operators see; at the end the node is put back', async t => {
    const drainFor = (time: string) => operator.post('/nodes/devnet/node-1/drain', { force: true, reason: ' disk swap ', for: time })
    t.match((await drainFor('2 weeks')).json.error, { field: 'for' })
    t.match(await drainFor('1h'), {
      status: 200,
      json: { drained: true, drainReason: 'disk swap', drainedUntil: /Z$/ },
    })
    t.match((await deployment.run('nodes', 'list')).stdout, /devnet +node-1 +drained .* disk swap; until 20\d\d-/)
    const changes = JSON.parse((await deployment.run('changes', '--json')).stdout)
    t.match(
      changes.findLast(({ action }: { readonly action: string }) => action === 'node-drained'),
      {
        after: { reason: 'disk swap', until: /Z$/ },
      },
    )
    await operator.post('/nodes/devnet/node-1/undrain')
    t.equal((await drainFor('1s')).status, 200)
    const isDrained = async () => (await operator.get('/nodes')).json.networks[0].upstreams[0].drained
    await waitUntil(async () => !(await isDrained()))
    t.match((await deployment.run('nodes', 'list')).stdout, /devnet +node-1 +up/)
  })

  t.test('every response is as the OpenAPI document says, and every route is in it', async t => {
    const document = (await operator.get('/openapi.json')).json
    t.same(document, JSON.parse(JSON.stringify(operatorOpenApi(operatorRoutes, { version: document.info.version }))))
    const checkResponse = openApiChecker(document)
    const { id, key } = await deployment.addKey('carol')
    await deployment.run('accounts', 'link', 'carol')
    await deployment.run('accounts', 'link', 'carol', '--person', 'pat', '--role', 'viewer')
    const { json: people } = await operator.get('/accounts/carol/people')
    const personId = people.find(({ name }: { name: string }) => name === 'pat').id
    const bodies: Readonly<Record<string, object>> = {
      '/accounts': { name: 'dave', plan: 'core' },
      '/accounts/{id}/alerts': { webhook: receiver.url },
      '/nodes/{network}/{node}/drain': { force: true },
      '/overview/incidents/acknowledge': { network: 'devnet' },
      '/overview/incidents/unacknowledge': { network: 'devnet' },
      '/log-level': { level: 'debug' },
    }
    for (const { path, method, status = 200 } of operatorRoutes) {
      const target = path.startsWith('/keys')
        ? id
        : path.startsWith('/people')
          ? personId
          : path.startsWith('/evidence')
            ? keptEvidence
            : path.startsWith('/requests')
              ? encodeURIComponent(loggedRequestId)
              : path === '/accounts/{id}' && method === 'patch'
                ? 'bob'
                : 'carol'
      const body = method === 'get' ? undefined : (bodies[path] ?? {})
      const response = await operator.request(
        method.toUpperCase(),
        path.replace('{id}', target).replace('{network}/{node}', 'devnet/node-1') + (path === '/keys' ? `?ending=${key.slice(-4)}` : ''),
        body,
      )
      t.equal(response.status, status, `${method} ${path}`)
      t.same(checkResponse(path, method, response), undefined, `${method} ${path}`)
    }
    t.equal((await fetch(`${gateway.admin}/api/v1/openapi.json`)).status, 401)
  })

  t.test('an operation is a route, in the OpenAPI document, and a command with help: both return the same JSON', async t => {
    const document = (await operator.get('/openapi.json')).json
    const outputs = { api: new Map<string, unknown>(), command: new Map<string, unknown>() }
    for (const operation of operations) {
      const { name, method, path, status = 200 } = operation
      t.ok(document.paths[path]?.[method], `${name} is in the OpenAPI document`)
      const load = findCommandLoader(name.replace(/ .*/, ''))
      const help = load === undefined ? [] : formatCommandHelp(await load())
      t.ok(
        help.some(line => line.startsWith(`  tollgate ${name} `)),
        `${name} is in the help`,
      )
      const response = await requestOperation(operator, operation, exampleInput(name, 'api', outputs.api))
      t.equal(response.status, status, name)
      const [commandName = '', ...args] = commandArguments(operation, exampleInput(name, 'command', outputs.command))
      const { stdout, stderr } = await deployment.run(commandName, ...args, '--json')
      t.equal(stderr, '', args.join(' '))
      const shown = { api: operation.command.json?.(response.json) ?? response.json, command: JSON.parse(stdout) }
      t.same(withoutChance(shown.command), withoutChance(shown.api), name)
      for (const surface of ['api', 'command'] as const) outputs[surface].set(name, shown[surface])
    }
  })

  t.test('the token is not in the log, and the gateway stops in order', async t => {
    t.equal(await gateway.stop(), 0)
    t.notOk((JSON.stringify(gateway.log) + gateway.stderr()).includes(adminToken))
  })
})

t.test('an operator acknowledges a problem for all gateways on the store, by API and command, and takes it back', async t => {
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_getBlockByNumber: { result: { number: '0x10', hash: `0x${'1'.repeat(64)}`, parentHash: `0x${'0'.repeat(64)}`, timestamp: '0x1' } },
    eth_gasPrice: { result: '0x7' },
  })
  const deployment = createDeployment({
    networks: { devnet: networkFile('devnet', [`http://127.0.0.1:${await freePort()}`, node.url]) },
    gateway: {
      admin: { token: '${ADMIN_TOKEN}', tokens: { dora: '${DORA_TOKEN}' } },
      listen: { rpc: '127.0.0.1:0', admin: '127.0.0.1:${ADMIN_PORT}', portal: '127.0.0.1:0' },
    },
    env: { ADMIN_TOKEN: adminToken, DORA_TOKEN: doraToken, ADMIN_PORT: String(await freePort()) },
  })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  const { key } = await deployment.addCaller('alice')
  const gateways = [await deployment.start(), await deployment.start({ env: { ADMIN_PORT: '0' } })] as const
  const [dora, other] = [createPortalClient(gateways[0].admin, doraToken), createPortalClient(gateways[1].admin, adminToken)]
  type Incident = { readonly node: string | null; readonly ended: string | null; readonly severity: string; readonly acknowledged: unknown }
  const lasting = async (client: PortalClient): Promise<readonly Incident[]> =>
    (await client.get('/overview/incidents?network=devnet')).json.incidents.filter(
      ({ node, ended, severity }: Incident) => node === 'node-1' && ended === null && severity !== 'info',
    )
  for (const [i, client] of [dora, other].entries())
    await waitUntil(async () => {
      await call(gateways[i]!.http(key), 'eth_gasPrice')
      return (await lasting(client)).length > 0
    })
  const problemsOf = async (client: PortalClient) => (await client.get('/overview/problems')).json
  const problemOf = async (client: PortalClient) =>
    (await problemsOf(client)).problems.find((each: { readonly node: string | null }) => each.node === 'node-1')
  const before = await problemsOf(other)
  t.match(await problemOf(other), { acknowledged: null, acknowledgeable: true })

  const path = '/overview/incidents/acknowledge'
  t.match(await dora.post(path, { network: 'devnet', note: 'x'.repeat(201) }), { status: 400, json: { error: { field: 'note' } } })
  t.equal((await dora.post(path, { network: 'nowhere' })).status, 404)
  t.equal((await dora.post(path, { network: 'devnet', node: 'nowhere' })).status, 404)
  t.match(await dora.post(path, { network: 'devnet', node: 'node-2' }), { status: 200, json: { incidents: 0 } }, 'it has no problem')
  const by = { kind: 'operator', name: 'dora' }
  const { status, json } = await dora.post(path, { network: 'devnet', node: 'node-1', note: ' OPS-41 ' })
  t.match({ status, json }, { status: 200, json: { by, note: 'OPS-41', at: /Z$/ } })
  t.ok(json.incidents > 0)
  const acknowledged = { by, note: 'OPS-41', at: json.at }
  for (const client of [dora, other]) {
    t.ok((await lasting(client)).length > 0)
    t.same((await problemOf(client)).acknowledged, acknowledged, 'at once, on both gateways')
    const [incident] = (await lasting(client)).filter(each => each.acknowledged !== null)
    t.same(incident?.acknowledged, acknowledged, 'the incident says so too')
  }
  const after = await problemsOf(other)
  t.same(after.nodesWithProblems, before.nodesWithProblems, 'it still counts')
  t.match((await deployment.run('nodes', 'incidents', '--network', 'devnet')).stdout, /ongoing +\d+ +devnet +node-1 .* dora: OPS-41$/m)
  const changes = JSON.parse((await deployment.run('changes', '--json')).stdout)
  t.match(changes.at(-1), { by, action: 'problem-acknowledged', target: 'devnet/node-1', after: { note: 'OPS-41' } })
  t.equal(
    changes.filter(({ action }: { readonly action: string }) => action === 'problem-acknowledged').length,
    1,
    'that there was nothing to acknowledge is no change',
  )

  t.match(
    (await deployment.run('nodes', 'unacknowledge', 'devnet', '--node', 'node-1')).stdout,
    /nobody looks after devnet\/node-1 any more/,
  )
  t.equal((await problemOf(dora)).acknowledged, null)
  t.equal((await problemOf(other)).acknowledged, null)
  t.match(JSON.parse((await deployment.run('changes', '--json')).stdout).at(-1), {
    action: 'problem-unacknowledged',
    target: 'devnet/node-1',
  })
  t.match((await other.post('/overview/incidents/unacknowledge', { network: 'devnet' })).json, { incidents: 0 })
  t.match((await deployment.run('nodes', 'acknowledge', 'devnet')).stdout, /other operators see that you look after devnet, until/)
  t.match((await problemOf(other)).acknowledged, { by: { kind: 'command' }, note: null }, 'the network is acknowledged with its nodes')
  t.match((await deployment.run('nodes', 'acknowledge', 'devnet', '--node', 'node-2')).stdout, /devnet\/node-2 has no problem now/)
})

t.test('a gateway that shares no incidents acknowledges none', async t => {
  const services = { config: configOf({}, {}) } as unknown as OperatorServices
  for (const name of ['nodes acknowledge', 'nodes unacknowledge'])
    await t.rejects(operations.find(each => each.name === name)!.run({ network: 'devnet' } as never, services), { code: 'no-dashboard' })
})

t.test('with workers the primary serves the API', async t => {
  const { gateway } = await startGateway(t, 2)
  const operator = createPortalClient(gateway.admin, adminToken)
  t.equal((await operator.post('/accounts', { name: 'alice', plan: 'core' })).status, 201)
  t.match((await operator.get('/accounts')).json, { accounts: [{ name: 'alice' }] })
  t.match((await operator.get('/nodes')).json, { networks: [{ name: 'devnet', upstreams: [{ name: 'node-1' }] }] })
  const browser = createPortalClient(gateway.admin)
  t.equal((await browser.post('/login', { token: adminToken })).status, 204)
  t.equal((await browser.get('/accounts')).status, 200)
  t.equal(await gateway.stop(), 0)
})

t.test('the figures of the last minute, or since the start, and those over time', async t => {
  const clock = new TestClock()
  const metrics = createMetricsRegistry()
  const of = { network: 'devnet', upstream: 'a' }
  const open = (registry: ReturnType<typeof createMetricsRegistry>) => ({
    ok: registry.counter(metricDefinitions.calls, { network: 'devnet', method: 'eth_call', outcome: 'ok' }),
    failed: registry.counter(metricDefinitions.calls, { network: 'devnet', method: 'eth_getLogs', outcome: 'timeout' }),
    duration: registry.histogram(metricDefinitions.callDuration, { network: 'devnet' }),
    hits: registry.counter(metricDefinitions.cacheLookups, { network: 'devnet', method: 'eth_call', result: 'joined' }),
    attempt: registry.histogram(metricDefinitions.upstreamRequestDuration, of),
    failure: registry.counter(metricDefinitions.upstreamFailures, { ...of, error: 'HTTP 503' }),
    credits: registry.counter(metricDefinitions.credits, { network: 'devnet' }),
  })
  const workers = new Map([['1', metrics]])
  const { ok, failed, duration, hits, attempt, failure, credits } = open(metrics)
  const read = async () => Array.from(workers, ([id, registry]) => ({ id, counters: countTraffic(registry.families()) }))
  const history = new TrafficHistory({ clock, read })
  /** Of 15 s, with a point at its end. */
  const pass = async (calls = 0) => {
    ok.add(calls)
    clock.advance(15_000)
    await history.record()
  }
  const recent = async () => {
    const { seconds, counters } = await history.recent()
    return [seconds, callFigures(Object.values(counters.networks)).calls]
  }
  t.same((await recent())[1], 0)
  for (const calls of [32, 0, 15]) await pass(calls)
  t.same(await recent(), [46, 47], 'since the start')
  for (const calls of [15, 15, 15]) await pass(calls)
  t.same(await recent(), [60, 60], 'the last minute')
  failed.add(15)
  for (let i = 0; i < 15; i += 1) duration.observe(0.2)
  hits.add(3)
  credits.add(30)
  for (let i = 0; i < 30; i += 1) attempt.observe(0.02)
  failure.add(15)
  await pass()
  const { times, calls, gateway } = await history.activity('1h')
  t.equal(times.length, 7)
  t.same(calls.callsPerSecond, [2, 0, 1, 1, 1, 1, 1])
  t.same([calls.failedPerSecond.at(-1), calls.creditsPerSecond.at(-1), calls.cacheHits], [1, 2, [null, null, null, null, null, null, 1]])
  t.ok((calls.p95Ms.at(-1) ?? 0) > 200 && calls.p95Ms[0] === null)
  t.equal(gateway.residentBytes.length, 7)
  const [node] = (await history.activity('1h', 'devnet')).nodes
  t.match(node, { name: 'a', requestsPerSecond: { 6: 2 }, failuresPerSecond: { 6: 1 } })
  t.same(node?.errors, [{ error: 'HTTP 503', failuresPerSecond: [null, null, null, null, null, null, 1] }])
  t.same((await history.activity('1h', 'other')).calls.callsPerSecond, [null, null, null, null, null, null, null])
  const failuresOf = async (range: '1h' | '24h') => {
    const { since, nodes } = await history.attempts(range)
    return [clock.now() - since, nodes]
  }
  const node1 = { network: 'devnet', node: 'a', requests: 30, failures: { 'HTTP 503': 15 } }
  t.same(await failuresOf('1h'), [106_000, [node1]])
  failure.add(1)
  attempt.observe(0.02)
  const node2 = { ...node1, requests: 31, failures: { 'HTTP 503': 16 } }
  for (const range of ['1h', '24h'] as const) t.same(await failuresOf(range), [106_000, [node2]], 'up to now, whichever points there are')

  t.test('a worker that is replaced has done all that it has done since; one that is late has done nothing meanwhile', async t => {
    workers.delete('1')
    await pass()
    workers.set('1', metrics)
    await pass(15)
    t.same((await history.activity('1h')).calls.callsPerSecond.slice(-2), [0, 1], 'it was late')
    workers.delete('1')
    const replaced = createMetricsRegistry()
    workers.set('2', replaced)
    open(replaced).ok.add(30)
    await pass()
    t.equal((await history.activity('1h')).calls.callsPerSecond.at(-1), 2)
  })

  t.test('an hour and a day are kept, and nothing of a network that is no longer configured', async t => {
    for (let i = 0; i < 20 * 300; i += 1) await pass()
    t.same(
      [(await history.activity('1h')).times.length, (await history.activity('24h')).times.length],
      [240, 289],
      'and the interval that is not over yet',
    )
    const { times } = await history.activity('24h')
    t.equal(times[1]! - times[0]!, 300_000)
    t.match(await failuresOf('1h'), [3_600_000, [{ node: 'a', failures: {} }]], 'of the last hour alone')
    workers.set('2', createMetricsRegistry())
    await pass()
    t.same((await history.activity('1h', 'devnet')).nodes, [])
  })

  t.test('a page that asks for figures and for problems at once has the metrics of all processes read once', async t => {
    let reads = 0
    const readMetrics = () => {
      reads += 1
      return metrics.families()
    }
    const none = { recordGateway: () => undefined }
    const { observe } = new GatewayObserver({
      ...{ history: async () => history, metrics: readMetrics, incidents: async () => none, hasOwnPlugins: () => false, clock },
    })
    const [one, other] = await Promise.all([observe(), observe()])
    t.equal(one, other, 'of one moment')
    t.equal(reads, 1)
    t.match(one, { health: { store: { usable: true } } })
    clock.advance(1_000)
    await observe()
    t.equal(reads, 2)
    clock.advance(-1_000)
  })

  t.test('a warning of a figure that comes and goes is one incident, and no problem while it is gone', async t => {
    const clock = new TestClock()
    const registry = createMetricsRegistry()
    const incidents = new NodeIncidents({ clock, observedNetworks: async () => [] })
    const observed = { history: async () => new TrafficHistory({ clock, read: async () => [] }), incidents: async () => incidents, clock }
    let hasOwnPlugins = false
    const observer = new GatewayObserver({ ...observed, metrics: registry.families, hasOwnPlugins: () => hasOwnPlugins })
    const lag = registry.gauge(metricDefinitions.eventLoopDelayP99, {})
    const read = async (seconds: number, afterMs = 5_000) => {
      clock.advance(afterMs)
      lag.set(seconds)
      return (await observer.problems()).map(({ alert, severity, text }) => `${alert} ${severity}: ${text}`)
    }
    t.same(await read(0.05), [])
    const isLate = /^TollgateEventLoopLag warning: the event loop was 200 ms late without much load: by a pause of the machine$/
    t.match(await read(0.2), [isLate])
    t.match(incidents.list(), [{ network: undefined, kind: 'TollgateEventLoopLag', text: /200 ms late/, ended: undefined, times: 1 }])
    t.same(await read(0.05), [], 'what is over is an incident')
    t.match(await read(0.2), [isLate])
    t.same(await read(0.05), [])
    t.match(incidents.list(), [{ kind: 'TollgateEventLoopLag', ended: clock.now(), times: 2 }])
    t.equal(incidents.list().length, 1)
    hasOwnPlugins = true
    t.match(await read(0.2), [/by a plugin that computes for long, or a pause of the machine$/], 'where there are plugins of others')
    await read(0.05)
    registry.gauge(metricDefinitions.workers, { state: 'missing' }).set(1)
    t.match(await read(0.05), [/^TollgateWorkersMissing/])
    registry.gauge(metricDefinitions.workers, { state: 'missing' }).set(0)
    await observer.record()
    t.same(await read(0.05), [], 'what is mended is no problem any more')
  })

  t.test('the interval that is not over yet is the last point, of nodes that have just been called too', async t => {
    const registry = createMetricsRegistry()
    const { ok, failed, attempt, failure } = open(registry)
    const running = new TrafficHistory({ clock, read: async () => [{ id: '1', counters: countTraffic(registry.families()) }] })
    clock.advance(15_000)
    await running.record()
    t.match(await running.activity('1h'), { isLastRunning: false, times: { length: 1 } })
    clock.advance(5_000)
    ok.add(10)
    failed.add(5)
    attempt.observe(0.02)
    failure.add(5)
    for (const range of ['1h', '24h'] as const) {
      const { times, isLastRunning, calls, gateway } = await running.activity(range)
      t.match([isLastRunning, times.at(-1)], [true, clock.now()])
      t.same(
        [times, calls.callsPerSecond, gateway.cpu].map(({ length }) => length),
        range === '1h' ? [2, 2, 2] : [1, 1, 1],
      )
      t.ok((calls.failedPerSecond.at(-1) ?? 0) > 0)
    }
    t.match((await running.activity('1h')).calls, { callsPerSecond: { 1: 3 }, failedPerSecond: { 1: 1 } })
    const [node] = (await running.activity('1h', 'devnet')).nodes
    t.match(node, { requestsPerSecond: { 1: 0.2 }, errors: [{ error: 'HTTP 503', failuresPerSecond: { 1: 1 } }] })
    clock.advance(10_000)
    await running.record()
    t.match((await running.activity('1h')).calls.callsPerSecond.length, 2, 'it is kept once it is over')
  })

  t.test('calls of a network without a usable node are counted from when that was noticed', async t => {
    const inOutages = async () =>
      Array.from((await history.recent()).outages, ([name, { since, counters }]) => [
        name,
        clock.now() - since,
        callFigures(counters === undefined ? [] : [counters]).calls,
      ])
    t.same(await inOutages(), [])
    const registry = createMetricsRegistry()
    workers.set('3', registry)
    const { ok, failed } = open(registry)
    await history.followOutages(['devnet', 'idle'])
    ok.add(4)
    clock.advance(2_000)
    await history.followOutages(['devnet', 'idle'])
    t.same(
      await inOutages(),
      [
        ['devnet', 2_000, 4],
        ['idle', 2_000, 0],
      ],
      'calls of an outage are those since it was noticed, once',
    )
    await history.followOutages([])
    ok.add(8)
    failed.add(3)
    await history.followOutages(['devnet'])
    failed.add(2)
    t.same((await inOutages())[0], ['devnet', 0, 2], 'some of those before were answered')
    await history.record()
    await history.followOutages([])
    failed.add(3)
    await history.followOutages(['devnet'])
    failed.add(2)
    t.same(
      (await inOutages())[0],
      ['devnet', 0, 5],
      'with those whose failures had it noticed, as no other ones came since the reading before',
    )
    await history.followOutages([])
    t.same(await inOutages(), [], 'those of one that has ended are counted no more')
  })

  t.test('of a network that has a usable node again before its counters were read, no calls are counted', async t => {
    let respond = (): void => undefined
    const late = new TrafficHistory({ clock, read: () => new Promise(resolve => (respond = () => resolve([]))) })
    const followed = late.followOutages(['devnet'])
    await late.followOutages([])
    respond()
    await followed
    const recent = late.recent()
    respond()
    t.same([...(await recent).outages], [])
  })
})

t.test('a node is drained by force alone where no other one gets calls of some class of methods', async t => {
  const store = await openStore({ kind: 'lmdb', path: t.testdir() }, systemClock)
  t.teardown(() => store.close())
  const status = { network: 'n', isPartner: false, inFlight: 0, usable: true, restrictions: [], lastRestrictions: [], errors: [] } as const
  const keptFrom = (...classes: readonly string[]) => ({
    restrictions: classes.map(each => ({ class: each, reason: each === 'all' ? ('lied' as const) : ('breaker' as const) })),
    usable: !classes.includes('all'),
  })
  const slow = { restrictions: [{ class: 'logs', reason: 'slow' }] } as const
  const operate = async (name: string, input: object, nodes: Readonly<Record<string, Partial<NodeStatus>>>) => {
    const tracked = Object.entries(nodes).filter(([, { isPartner }]) => isPartner !== true)
    const upstreams = tracked.map(([each]) => ({ name: each, usable: true }))
    const reports = Object.entries(nodes).map(([upstream, each]) => ({ ...status, upstream, ...each }))
    const accounts = new RecordedAccounts(store, systemClock, { kind: 'operator', name: 'test' })
    const view = { networks: networkStatuses([{ name: 'n', head: 1, upstreams }], reports), isLive: true }
    const found = operations.find(each => each.name === name)
    // What the operations of nodes read.
    return (await found?.run(input as never, { store, clock: systemClock, accounts, nodes: async () => view } as never)) as NodesJson
  }
  const onlyFor = async (nodes: Parameters<typeof operate>[2]) =>
    (await operate('nodes list', {}, nodes)).networks[0]?.upstreams.map(each => each.onlyFor.join())
  const getCalls = async (nodes: Parameters<typeof operate>[2]) =>
    (await operate('nodes list', {}, nodes)).networks[0]?.upstreams.map(each => each.getsCalls)
  t.same(await getCalls({ a: {} }), [null])
  t.same(await getCalls({ a: { turn: { place: 1 } } }), ['all calls, as the only node'])
  t.same(await getCalls({ a: { turn: { place: 1 } }, b: { turn: { place: 2 } }, p: { isPartner: true } }), [
    'calls first, as the first of 2 in the order',
    'calls that nodes before it do not answer in time, as number 2 of 2 in the order',
    'calls that no own node can answer, of plans with forwarding',
  ])
  const weights = { a: { turn: { place: 1, weight: 2 } }, b: { turn: { place: 2, weight: 1 } }, c: { turn: { place: 3, weight: 0 } } }
  t.same(await getCalls(weights), [
    '66.7 % of the calls by its weight, 2 of 3',
    '33.3 % of the calls by its weight, 1 of 3',
    'calls that no other node can answer, as its weight is 0',
  ])
  const drained = { restrictions: [{ class: 'all', reason: 'drained' as const }], usable: false }
  const [first, second, third] = [{ turn: { place: 1 } }, { turn: { place: 2 } }, { turn: { place: 3 } }]
  const noNewCalls = 'no new calls, as an operator has drained it'
  t.same(await getCalls({ a: { ...first, ...drained }, b: second }), [noNewCalls, 'all calls, as the only usable node'])
  t.same(await getCalls({ a: { ...first, ...keptFrom('all') }, b: second, c: third }), [
    'none while it is down, except calls that no other node can answer',
    'calls first, as the first of 2 usable ones in the order',
    'calls that nodes before it do not answer in time, as number 2 of 2 usable ones in the order',
  ])
  t.same(await getCalls({ a: { ...first, ...keptFrom('logs') }, b: { ...second, ...slow } }), [
    'calls first, as the first of 2 in the order; none of the class logs now',
    'calls that nodes before it do not answer in time, as number 2 of 2 in the order; fewer of them now',
  ])
  t.same(await getCalls({ ...weights, a: { ...weights.a, ...drained } }), [
    noNewCalls,
    '100 % of the calls by its weight, 1 of 1 of the usable nodes',
    'calls that no other node can answer, as its weight is 0',
  ])
  t.match((await operate('nodes list', {}, weights)).networks[0]?.upstreams, [{ place: 1, weight: 2 }, { place: 2, weight: 1 }, {}])
  t.same(await onlyFor({ a: {} }), ['all'])
  t.same(await onlyFor({ a: {}, b: {} }), ['', ''])
  t.same(await onlyFor({ a: {}, b: keptFrom('logs', 'light'), c: keptFrom('logs') }), ['logs', '', ''])
  t.same(await onlyFor({ a: keptFrom('logs'), b: keptFrom('logs') }), ['', ''], 'nobody gets them as it is')
  t.same(await onlyFor({ a: {}, b: slow }), ['', ''], 'a slow node gets some')
  t.same(await onlyFor({ a: {}, b: keptFrom('all') }), ['all', ''])
  t.same(await onlyFor({ a: keptFrom('all'), b: keptFrom('all') }), ['', ''], 'either may come back')
  t.same(await onlyFor({ a: {}, partner: { isPartner: true } }), ['all', ''], 'a partner is not one of the own nodes')
  const logsOnly = { a: {}, b: keptFrom('logs') }
  await t.rejects(operate('nodes drain', { network: 'n', node: 'a', force: false }, logsOnly), {
    code: 'last-node',
    message: 'no other node of n gets calls of class logs: without a those would fail; `force` drains it all the same',
  })
  await operate('nodes drain', { network: 'n', node: 'b', force: false }, logsOnly)
  t.same(await onlyFor({ a: {}, b: {} }), ['all', ''], 'the other one is drained')
  await t.rejects(operate('nodes drain', { network: 'n', node: 'a', force: false }, { a: {}, b: {} }), /^no other node of n is usable/)
})

t.test('of nodes that are drained at once, those calls are lost that none of the others gets', t => {
  const keptFrom = (...classes: readonly string[]) => ({ usable: true, reasons: classes.map(each => ({ class: each, keepsAway: true })) })
  const node = keptFrom()
  const [a, b, noLogs, partner, down] = [
    { ...node },
    { ...node },
    keptFrom('logs', 'all'),
    { ...node, partner: true },
    { ...node, usable: false },
  ]
  const lost = (drained: readonly object[], ...taken: readonly (typeof partner | typeof a)[]) =>
    classesLost([a, b, noLogs, partner, down], taken, each => drained.includes(each))
  t.same(lost([], a), [], 'b gets them')
  t.same(lost([], a, b), ['logs'])
  t.same(lost([b], a), ['logs'])
  t.same(lost([a, b], down), [], 'it got none')
  t.same(lost([a, b], noLogs), ['all'])
  t.same(lost([], a, b, noLogs), ['all'])
  t.same(lost([a, b, noLogs], down), ['all'], 'none is left that may come back')
  t.same(lost([a, b, noLogs, down], partner), [], 'all own nodes are drained')
  t.end()
})

t.test('before the start of the gateway, charts have what usage has counted, up to a gap', async t => {
  const clock = new TestClock(Date.UTC(2_026, 0, 2, 12, 33, 1))
  t.equal(clock.monotonic(), 1_000, 'it was started at 12:33')
  const store = await tempStore(t, clock)
  const hour = Math.floor(clock.now() / 3_600_000)
  const fiveMinutes = Math.floor(clock.now() / 300_000)
  const group = { account: 'acc_1', key: 'key_1', network: 'devnet', method: 'eth_call', forwarded: false, outcome: 'ok', credits: 3_000 }
  const counts = [
    { ...group, hour, fiveMinutes: fiveMinutes - 1, calls: 300 },
    { ...group, hour, fiveMinutes: fiveMinutes - 1, calls: 30, outcome: 'unavailable', credits: 0 },
    { ...group, account: 'acc_2', hour, fiveMinutes: fiveMinutes - 3, calls: 600 },
    { ...group, hour: hour - 30, calls: 9 },
    { ...group, hour: hour - 2, calls: 7_200 },
  ]
  await store.reportUsage({ process: 'p1', seq: 1, counts, retentionHours: 1_000 })
  clock.advance(60_000)
  const ofNow = { callsPerSecond: [5], failedPerSecond: [0], creditsPerSecond: [1], cacheHits: [0.5], p50Ms: [1], p95Ms: [2] }
  const history = { times: [clock.now()], calls: ofNow, nodes: [], gateway: { cpu: [0.1], residentBytes: [7] } }
  const queries = createPageQueries(store, clock)
  const read = async (query: object, over: object = {}) => {
    const route = operatorRoutes.find(({ path }) => path === '/overview/activity')
    const services = { history: async () => ({ activity: () => history }), queries, clock, ...over } as unknown as OperatorServices
    return (await route?.handle({ params: {}, query, body: {} } as never, services)) as ActivityJson
  }
  const { times, earlierPoints, calls, gateway } = await read({ range: '1h' })
  const at = (text: string): string => `2026-01-02T${text}Z`
  // The period that is still running ends with the start; after it nothing is drawn.
  t.same(times, [at('12:20:00.000'), at('12:25:00.000'), at('12:30:00.000'), at('12:33:00.000'), at('12:33:00.001'), at('12:34:01.000')])
  t.equal(earlierPoints, 5)
  t.same(calls.callsPerSecond, [2, 0, 1.1, 0, null, 5], 'calls of all accounts, each period once')
  t.same(calls.failedPerSecond, [0, 0, 0.1, 0, null, 0])
  t.same(gateway.cpu, [null, null, null, null, null, 0.1])
  const day = await read({ range: '24h' })
  t.same(day.times.slice(0, 2), [at('11:00:00.000'), at('12:00:00.000')])
  t.same(day.calls.callsPerSecond.slice(0, 2), [2, 0])
  t.equal((await read({ range: '1h', network: 'devnet' })).earlierPoints, 0, 'usage names no nodes')
  const ofStart = { ...group, hour: hour + 1, fiveMinutes: fiveMinutes + 12, calls: 30 }
  await store.reportUsage({ process: 'p2', seq: 1, counts: [ofStart], retentionHours: 1_000 })
  const fresh = new TestClock(Date.UTC(2_026, 0, 2, 13, 33, 1))
  fresh.advance(240_000)
  const known = await createPageQueries(store, fresh).trafficOverTime({
    period: 'fiveMinutes',
    from: fiveMinutes + 12,
    to: fiveMinutes + 13,
  })
  t.match(known, [{ calls: 30 }])
  const none = await read({ range: '1h' }, { clock: fresh, queries: { trafficOverTime: async () => known } })
  t.equal(none.earlierPoints, 0, 'calls of the period of the start alone may be from after it')
  const away = { queries: { trafficOverTime: () => Promise.reject(new StoreError('it does not answer')) } }
  t.match(await read({ range: '1h' }, away), { times: [at('12:34:01.000')], earlierPoints: 0 }, 'while the store is unreachable')
})

t.test('an incident lasts from when its reason was noticed until it is gone, and is kept for a day', async t => {
  const clock = new TestClock()
  const startedAt = clock.now()
  let nodes: readonly Partial<NodeStatus>[] = []
  const status = { network: 'n', upstream: 'a', isPartner: false, inFlight: 0, usable: true } as const
  const empty = { restrictions: [], lastRestrictions: [], errors: [] } as const
  const heads = { name: 'n', head: 1, upstreams: [{ name: 'a', usable: true }] }
  const read = async () =>
    networkStatuses(
      [heads],
      nodes.map(each => ({ ...status, ...empty, ...each })),
    )
  const incidents = new NodeIncidents({ clock, observedNetworks: read })
  const down: (readonly string[])[] = []
  incidents.onNetworksDown(networks => down.push(networks))
  const pass = async (ms: number, ...after: typeof nodes) => {
    clock.advance(ms)
    nodes = after
    await incidents.record()
  }
  const open = { class: 'logs', reason: 'breaker' } as const
  const breaker = { restrictions: [open, { class: 'logs', reason: 'recovering' }] } as const
  await pass(0)
  t.same(incidents.list(), [])
  await pass(9_000, { ...breaker, lastRestrictions: [{ ...open, at: clock.now(), since: startedAt + 2_000 }] })
  const began = { network: 'n', node: 'a', kind: 'breaker', class: 'logs', began: startedAt + 2_000, times: 1 }
  t.match(incidents.list(), [{ ...began, ended: undefined, text: /^a circuit breaker is open, as too many calls failed/ }])
  await pass(5_000)
  t.match(incidents.list(), [{ ...began, ended: startedAt + 14_000 }])
  await pass(30_000, breaker)
  t.match(incidents.list(), [{ ...began, ended: undefined, times: 2 }], 'it has come back soon')
  await pass(5_000)
  await pass(60_000, breaker)
  t.equal(incidents.list().length, 2, 'much later it is another one')
  await pass(5_000, { restrictions: [{ class: 'all', reason: 'lied' }], usable: false })
  t.match(
    incidents.list('n').map(({ kind, ended }) => [kind, ended === undefined]),
    [
      ['down', true],
      ['lied', true],
      ['breaker', false],
      ['breaker', false],
    ],
  )
  t.same(down, [[], ['n']], 'whoever follows outages is told once of each change')
  const since = new Date(clock.now() - 3_000).toISOString()
  const downSince = new NodeIncidents({ clock, observedNetworks: read })
  const unusable = { name: 'a', usable: false, condition: 'notUsable', because: 'it is down', unusableSince: since } as const
  downSince.recordStates([
    {
      name: 'n',
      state: 'down',
      nodes: 1,
      usableNodes: 0,
      downSince: since,
      upstreams: [unusable, { ...unusable, name: 'p', partner: true }],
    },
  ])
  t.match(
    downSince.list().find(({ node }) => node === undefined),
    { kind: 'down', began: Date.parse(since) },
    'a network is down from when its last node was unusable',
  )
  t.same(incidents.list('other'), [])
  const reason = 'the store does not answer'
  const ofGateway = { severity: 'critical', network: null } as const
  const storeFails = [{ ...ofGateway, alert: 'TollgateStoreFails' as const, incident: 'store unreachable', text: reason }]
  await pass(20_000)
  incidents.recordGateway([...storeFails, { ...storeFails[0]!, alert: 'TollgateCallsFail', incident: 'TollgateCallsFail', network: 'n' }])
  t.notOk(
    incidents.list().some(({ kind }) => kind === 'TollgateCallsFail'),
    'what failing calls come from is an incident',
  )
  const outage = { network: undefined, node: undefined, kind: 'store unreachable', severity: 'critical', text: reason }
  t.match(incidents.list()[0], { ...outage, began: clock.now(), ended: undefined })
  t.match(incidents.read().incidents[0], { network: null, node: null, kind: 'store unreachable' })
  await pass(5_000)
  t.equal(incidents.list()[0]?.ended, undefined, 'until the gateway is looked at again')
  await pass(10_000)
  incidents.recordGateway([])
  t.match(
    incidents.list().find(({ kind }) => kind === outage.kind),
    { ...outage, ended: clock.now() },
  )
  clock.advance(60_000)
  const threeHoursMs = 3 * 3_600_000
  clock.shiftWallClock(-threeHoursMs)
  incidents.recordGateway(storeFails)
  t.match(
    incidents.list().find(({ kind, ended }) => kind === outage.kind && ended === undefined),
    outage,
    'also where the clock went back',
  )
  incidents.recordGateway([])
  clock.shiftWallClock(threeHoursMs)
  const noticed = { class: 'light', reason: 'breaker', at: clock.now() + 1_000, since: clock.now() + 1_000 } as const
  const lied = { restrictions: [{ class: 'all', reason: 'lied' }], usable: false } as const
  await pass(5_000, { ...lied, lastRestrictions: [noticed] })
  const short = { class: 'light', kind: 'breaker', began: noticed.at, ended: noticed.at, times: 1 }
  t.match(
    incidents.list().find(each => each.class === 'light'),
    short,
    'what began and ended between two looks',
  )
  await pass(5_000, { ...lied, lastRestrictions: [noticed] })
  t.match(
    incidents.list().filter(each => each.class === 'light'),
    [short],
    'is there once',
  )
  await pass(incidentRetentionMs + 1)
  t.same(
    incidents.list().map(({ kind }) => kind),
    ['down', 'lied'],
  )
  for (let i = 0; i < maxIncidents; i += 1) {
    await pass(60_000, breaker)
    await pass(1)
  }
  t.equal(incidents.list().length, maxIncidents)
})

/** What problems follow from. */
const configOf = (portal: object, listen: object = { portal: {} }) =>
  ({ listen, portal }) as unknown as Parameters<typeof describeProblems>[0]['config']

t.test('that nobody is told of problems is one, as far as it is no wish', async t => {
  const read = (...config: Parameters<typeof configOf>) =>
    describeProblems({ networks: [], alerts: [], evidence: [], incidents: [], config: configOf(...config) }).problems
  t.match(read({}), [{ network: null, kind: 'noAlertReceivers', severity: 'warning', text: /^nobody is alerted/ }])
  const operatorAlerts = { mail: ['a@b.example'], webhooks: {}, severity: 'warning' }
  t.same(read({ operatorAlerts }), [])
  t.match(read({ operatorAlerts }, {}), [{ network: null, kind: 'alertsNotSent', severity: 'warning', text: /listen\.portal/ }])
  const toNobody = { ...operatorAlerts, mail: [] }
  t.same(read({ operatorAlerts: toNobody }), [], 'as whoever is alerted by Prometheus says')
  t.same(read({ operatorAlerts: toNobody }, {}), [])
})

t.test('a network that is down comes first with all that is part of it, then critical problems, then nodes that get no calls', async t => {
  const alert = { incident: 'x', severity: 'warning', text: 'x', network: null } as const
  const alerts = [
    { ...alert, alert: 'TollgateA', severity: 'critical' },
    { ...alert, alert: 'TollgateB' },
    { ...alert, alert: 'TollgateC', severity: 'critical', network: 'dead' },
  ] as const
  const node = { because: null, reasons: [], partner: false, usable: false }
  const up = { nodes: 3, usableNodes: 2, problems: [] }
  const networks = [
    { ...up, name: 'some', state: 'degraded', upstreams: [{ ...node, name: 'a', condition: 'notUsable' }] },
    { ...up, name: 'none', state: 'stalled', upstreams: [] },
    {
      ...{ ...up, name: 'dead', state: 'down', usableNodes: 0 },
      upstreams: [
        { ...node, name: 'b', condition: 'notUsable' },
        { ...node, name: 'c', condition: 'drained' },
      ],
    },
  ] as unknown as NodesJson['networks']
  const incident = { network: 'dead', node: null, kind: 'down', severity: 'critical', ended: null, acknowledged: null } as const
  const ofNode = { ...incident, node: 'b', kind: 'notUsable' }
  const read = (acknowledged: Parameters<typeof describeProblems>[0]['incidents'][number]['acknowledged'] = null) =>
    describeProblems({ networks, alerts, evidence: [], incidents: [{ ...incident, acknowledged }, ofNode], config: configOf({}) }).problems
  const shown = (...args: Parameters<typeof read>) =>
    read(...args).map(({ network, node: name, kind, partOfOutage }) => `${partOfOutage ? '> ' : ''}${name ?? kind} ${network ?? ''}`.trim())
  const ofDead = ['down dead', '> TollgateC dead', '> b dead', '> c dead']
  const others = ['TollgateA', 'stalled none', 'a some', 'TollgateB', 'noAlertReceivers']
  t.same(shown(), [...ofDead, ...others])
  t.same(
    read().flatMap(({ kind, acknowledgeable }) => (acknowledgeable ? [kind] : [])),
    ['down'],
    'the network is acknowledged once, for its nodes too',
  )
  t.same(shown({ by: { kind: 'operator', name: 'dora' }, at: '2026-01-01T00:00:00.000Z', note: null }), [...others, ...ofDead])
})

t.test('that no usable node gets calls of a class of methods is a problem of its network, which names the class', async t => {
  const reasons = [{ class: 'logs', reason: 'breaker', keepsAway: true, text: 'x' }]
  const nodes = ['a', 'b'].map(name => ({ name, condition: 'reduced', usable: true, partner: false, because: null, reasons }))
  const network = { name: 'n', state: 'degraded', nodes: 2, usableNodes: 2, problems: [], upstreams: nodes }
  const networks = [network] as unknown as Parameters<typeof describeProblems>[0]['networks'] // what the problems follow from
  const read = () => describeProblems({ networks, alerts: [], evidence: [], incidents: [], config: configOf({}) }).problems
  t.match(read()[0], { network: 'n', node: null, kind: 'classUnusable', class: 'logs', severity: 'critical' })
  network.upstreams = nodes.with(1, { ...nodes[1]!, reasons: [] })
  t.notOk(read().some(({ kind }) => kind === 'classUnusable'))
})

t.test('an acknowledged problem stands below those that nobody has taken; one of a network is taken with all nodes behind it', async t => {
  const listen = { portal: {} }
  const node = (name: string) => ({ name, condition: 'notUsable', usable: false, partner: false, because: 'x', reasons: [] })
  const network = { name: 'n', state: 'stalled', nodes: 3, usableNodes: 1, problems: [], upstreams: [node('a'), node('b')] }
  const networks = [network] as unknown as Parameters<typeof describeProblems>[0]['networks'] // what the problems follow from
  const taken = (second: number) =>
    ({ by: { kind: 'operator', name: 'dora' }, at: `2026-01-01T00:00:0${second}.000Z`, note: null }) as const
  type Incidents = Parameters<typeof describeProblems>[0]['incidents']
  const incident = (of: string | null, acknowledged: Incidents[number]['acknowledged'] = null, over: object = {}) => ({
    ...{ network: 'n', node: of, kind: of === null ? 'stalled' : 'notUsable', severity: 'warning' as const, ended: null, acknowledged },
    ...over,
  })
  const read = (incidents: Incidents, has: object = listen) =>
    describeProblems({
      networks,
      alerts: [],
      evidence: [],
      incidents,
      config: configOf({ operatorAlerts: { mail: [], webhooks: {} } }, has),
    }).problems
  const shown = (...args: Parameters<typeof read>) =>
    read(...args).map(({ kind, node: of, acknowledged }) => `${of ?? kind} ${acknowledged?.at.slice(17, 19) ?? '-'}`)
  t.same(shown([incident('a'), incident('b')]), ['stalled -', 'a -', 'b -', 'notRedundant -'])
  t.same(shown([incident('a', taken(1)), incident('b')]), ['stalled -', 'b -', 'notRedundant -', 'a 01'])
  const lied = incident('a', null, { kind: 'lied', severity: 'critical' })
  t.ok(shown([incident('a', taken(1)), lied]).includes('a -'), 'a critical incident that came later is not acknowledged with the node')
  const both = [incident('a', taken(1)), incident('b', taken(2)), incident('a', null, { kind: 'breaker' })]
  t.same(shown(both), ['stalled 02', 'a 01', 'b 02', 'notRedundant 02'])
  t.same(shown([...both, incident(null)]), ['stalled -', 'a 01', 'b 02', 'notRedundant 02'], 'the network itself has one of its own')
  t.same(shown([incident('a', taken(1), { severity: 'info' }), incident('b', taken(2), { ended: '' })])[1], 'a -')
  t.same(
    read(both, {}).filter(({ acknowledgeable }) => acknowledgeable),
    [],
    'without a dashboard it is not shared',
  )
  t.ok(read([]).every(({ acknowledgeable }) => !acknowledgeable))
})

t.test('capacity: calls are limited by the CPU that they took at the peak, and reach that as they grow', async t => {
  const now = Date.parse('2026-03-01T12:00:00Z')
  const day = Math.floor(now / dayMs)
  const weekly = (growth: number, days: number) => Array.from({ length: days }, (_, i) => (i % 7 < 5 ? 1_000 : 800) + growth * i)
  const read = (dailyCalls: readonly number[], { ready = null as number | null, cores = 8 } = {}) =>
    describeCapacity({
      observed: {
        ...{ seconds: 60, cpu: 0.1, families: [] },
        counters: { networks: {}, cpuSeconds: 6, residentBytes: 100, storeErrors: 0, refusedSockets: 0 },
        health: { ...gatewayHealth([]), workers: { ready, missing: ready && 0 }, residentBytes: 100 },
      },
      activities: [
        {
          times: [now - 3_600_000, now - 1_800_000, now],
          isLastRunning: true,
          calls: { callsPerSecond: [50, 200, 9_000] } as never,
          gateway: { cpu: [0.2, 0.4, 3], residentBytes: [300, 200, 900] },
        },
      ],
      ...{ dailyCalls, machine: { cores, memoryBytes: 1_000 }, started: now - 2 * dayMs, now },
    })
  const { since, resources } = read([])
  t.equal(since, '2026-02-28T12:00:00.000Z')
  t.match(resources.slice(0, 3), [
    { resource: 'callsPerSecond', used: 0, peak: 200, peakAt: '2026-03-01T11:30:00.000Z', limit: 500 },
    { resource: 'cpu', used: 0.1, peak: 0.4, limit: 1 },
    { resource: 'memory', used: 100, peak: 300, peakAt: '2026-03-01T11:00:00.000Z', limit: 1_000 },
  ])
  t.match(read([], { ready: 4 }).resources[0], { limit: 2_000 }, 'of each worker')
  t.match(read([], { ready: 4, cores: 2 }).resources[0], { limit: 1_000 }, 'no more than the machine has')
  const none = { perWeek: null, reachedAt: null }
  t.same(read(weekly(10, 13)).growth, { days: 0, ...none }, 'two weeks are needed')
  t.same(read(weekly(0, 28)).growth, { days: 28, ...none }, 'weekends are no trend')
  t.match(read([0, 0, ...weekly(40, 26)]).growth, { days: 21 }, 'of whole weeks, from the first call on')
  const { perWeek, reachedAt } = read(weekly(40, 28)).growth
  t.ok(perWeek !== null && perWeek > 0.12 && perWeek < 0.14, `${perWeek}`)
  // From 200 to 500 by a line: 1.5 times what it is now, at about 1.9 % a day.
  const days = Math.floor(Date.parse(reachedAt ?? '') / dayMs) - day
  t.ok(days > 70 && days < 90, `${days}`)
  t.match(read(weekly(8, 28), { ready: 4 }).growth, { perWeek: Number, reachedAt: null }, 'not within a year')
  const fewer = read(weekly(-20, 28)).growth
  t.ok(fewer.perWeek !== null && fewer.perWeek < -0.2 && fewer.reachedAt === null, `${fewer.perWeek}`)
})

t.test('a store that a page has just found to be down is a critical problem, whether or not calls have met it', async t => {
  const route = operatorRoutes.find(({ path }) => path === '/overview/problems')
  const alerts: readonly object[] = []
  const read = async (evidence: () => Promise<readonly []>, known = alerts) => {
    const services = {
      ...{ nodes: async () => ({ networks: [], isLive: true }), store: { records: async () => [] } },
      ...{ observer: async () => ({ problems: async () => known }), queries: { evidence }, clock: new TestClock() },
      readIncidents: async () => ({ since: '', incidents: [] }),
      config: configOf({ operatorAlerts: {} }),
    } as unknown as OperatorServices
    const found = (await route?.handle({ params: {}, query: {}, body: {} } as never, services)) as
      | ReturnType<typeof describeProblems>
      | undefined
    return found?.problems
  }
  const isDown = () => Promise.reject(new StoreError('it does not answer'))
  t.same(await read(async () => []), [])
  t.match(await read(isDown), [{ kind: 'TollgateStoreFails', severity: 'critical', text: /^the store does not answer or fails/ }])
  const known = { alert: 'TollgateStoreFails', incident: 'store removed', severity: 'critical', text: 'removed', network: null }
  t.match(await read(isDown, [known]), [{ text: 'removed' }])
  t.equal((await read(isDown, [known]))?.length, 1)
})

t.test('nodes with problems are those that a problem names; a drained one is where its network is down', async t => {
  const node = (name: string, condition: NodeJson['condition'] = 'usable', role?: 'partner') => ({
    ...{ name, condition, usable: condition === 'usable', partner: role === 'partner', because: null, reasons: [] },
  })
  const problemsOf = (state: string, ...upstreams: readonly ReturnType<typeof node>[]) => {
    const usableNodes = upstreams.filter(({ usable, partner }) => usable && !partner).length
    const network = { name: 'n', state, nodes: upstreams.filter(({ partner }) => !partner).length, usableNodes, problems: [], upstreams }
    // What the problems follow from.
    const networks = [network] as unknown as Parameters<typeof describeProblems>[0]['networks']
    return describeProblems({ networks, alerts: [], evidence: [], incidents: [], config: configOf({}) }).nodesWithProblems.map(
      each => each.node,
    )
  }
  const partner = node('p', 'usable', 'partner')
  t.same(problemsOf('ok', node('a'), node('b'), partner), [])
  t.same(problemsOf('ok', node('a'), node('b'), node('c', 'drained')), [], 'an operator wants it')
  t.same(problemsOf('ok', node('a'), node('b', 'drained'), partner), [], 'also where no redundancy is left')
  t.same(problemsOf('degraded', node('a'), node('b', 'notUsable'), node('c', 'drained')), ['b'])
  t.same(problemsOf('down', node('a', 'drained'), partner), ['a'])
  t.same(problemsOf('stalled', node('a'), node('b', 'notUsable'), node('c', 'drained')), ['b'])
  t.same(problemsOf('stalled', node('a'), node('b')), ['a', 'b'], 'no node is known to be the cause')
  t.same(problemsOf('stalled'), [null])
})

t.test('of a network without new blocks Home and the list of incidents say the same', async t => {
  const upstreams = ['a', 'b'].map(name => ({ name, usable: true, head: 7 }))
  const networks = networkStatuses([{ name: 'n', head: 7, stalled: true, upstreams }], [])
  const incidents = new NodeIncidents({ clock: new TestClock(), observedNetworks: async () => networks })
  incidents.recordStates(networks)
  // What the problems follow from.
  const listed = networks.map(each => ({ ...each, problems: [], upstreams: [] })) as unknown as Parameters<
    typeof describeProblems
  >[0]['networks']
  const [problem] = describeProblems({ networks: listed, alerts: [], evidence: [], incidents: [], config: configOf({}) }).problems
  const [incident] = incidents.list()
  const said = { kind: 'stalled', severity: 'critical', text: 'nodes answer, but there is no new block' }
  t.match(problem, said)
  t.match(incident, said)
})

t.test('Home names the alert rules whose condition holds now', async t => {
  const calm = createMetricsRegistry()
  calm.gauge(metricDefinitions.configReloadSuccessful, {}).set(1)
  calm.gauge(metricDefinitions.tlsCertificateExpiry, { option: 'listen.tls' }).set(90 * 86_400)
  const figures = { calls: 100, failedCalls: 2, credits: 0, cacheHits: undefined, p50Ms: 1, p95Ms: 1, p99Ms: 4_000 }
  const problemsOf = (
    registry: ReturnType<typeof createMetricsRegistry>,
    network: typeof figures,
    { refusedSockets = 0, internal = 0, cpu = 0, isDown = false } = {},
  ) => {
    const families = registry.families()
    const networks = [{ name: 'devnet', figures: network, outcomes: { unavailable: 1, timeout: 2, internal }, isDown }]
    return gatewayProblems({ health: gatewayHealth(families), families, networks, refusedSockets, cpu, hasOwnPlugins: false, now: 0 })
  }
  t.same(problemsOf(calm, figures), [])
  const bad = createMetricsRegistry()
  bad.gauge(metricDefinitions.configReloadSuccessful, {}).set(0)
  bad.gauge(metricDefinitions.jwtKeysReloadSuccessful, {}).set(0)
  bad.gauge(metricDefinitions.sharedCacheUp, { redis: 'r' }).set(0)
  bad.gauge(metricDefinitions.storeUnavailable, { reason: 'unreachable' }).set(1)
  bad.gauge(metricDefinitions.workers, { state: 'missing' }).set(2)
  bad.gauge(metricDefinitions.tlsCertificateExpiry, { option: 'listen.tls' }).set(2 * 86_400)
  bad.gauge(metricDefinitions.eventLoopDelayP99, {}).set(0.2)
  for (const [used, most] of [
    [metricDefinitions.inFlightBytes, metricDefinitions.inFlightMaxBytes],
    [metricDefinitions.processOpenFiles, metricDefinitions.processMaxFiles],
  ] as const) {
    bad.gauge(used, {}).set(90)
    bad.gauge(most, {}).set(100)
  }
  const problems = problemsOf(bad, { ...figures, failedCalls: 3, p99Ms: 6_000 }, { refusedSockets: 5, internal: 1 })
  t.equal(problems.length, 13)
  t.match(problems[0], { alert: 'TollgateStoreFails', severity: 'critical', text: /^the store does not answer/, network: null })
  const emptied = createMetricsRegistry()
  emptied.gauge(metricDefinitions.storeUnavailable, { reason: 'emptied' }).set(1)
  t.match(problemsOf(emptied, figures), [{ alert: 'TollgateStoreEmptied', text: /^the store answers, but has lost its accounts and keys/ }])
  t.match(gatewayHealth(emptied.families()).store, { usable: false, outage: 'emptied' })
  const callsFail = '3.0 % of the calls of the last minute failed, most often as “Query timeout” (-32005)'
  t.match(problems.at(-3), { alert: 'TollgateCallsFail', text: callsFail, network: 'devnet' })
  t.match(
    problemsOf(calm, { ...figures, failedCalls: 3 }, { isDown: true }),
    [{ text: 'calls fail, most often as “Query timeout” (-32005)' }],
    'the last minute is mostly one from before the outage',
  )
  t.match(problems.at(-2), { alert: 'TollgateInternalErrors', text: /^1 call failed because of a bug: search the log/, network: 'devnet' })
  t.ok(problems.some(({ text }) => text === 'a TLS certificate expires in 2 days'))
  t.ok(problems.some(({ text }) => text.startsWith('the event loop was 200 ms late without much load')))
  t.ok(
    problemsOf(bad, figures, { cpu: 0.9 }).some(({ text }) => text.endsWith('add workers')),
    'more workers help a process that is busy',
  )
  const rules = readFileSync('deploy/prometheus/alerts.yaml', 'utf8')
  for (const { alert, severity } of [...problems, ...problemsOf(emptied, figures)]) {
    const [rule = ''] = new RegExp(`- alert: ${alert}\\n[^]*?severity: \\w+`).exec(rules) ?? []
    t.ok(rule.endsWith(severity), `${alert} is ${severity}`)
  }
  t.same(problemsOf(calm, { ...figures, calls: 10, failedCalls: 9 }), [], 'a share of few calls says little')
})

t.test('advice for operators names no page that they do not have, sends them to nobody, and says what the caller has to do', async t => {
  const imperatives = /the page|to the operator|(^|[.:;,] )(correct|narrow|send|wait|ask|fix|make|end|poll|decode|check)\b/i
  for (const outcome of Object.keys(outcomeLabels)) t.notMatch(operatorAdviceOf(outcome), imperatives, outcome)
  for (const category of ['reverted', 'alreadyKnown', 'blockNotFound', 'stateUnavailable', 'invalidParams'])
    t.notMatch(operatorAdviceOf('node', category), imperatives, category)
})
