import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { deferred } from '../support/deferred.ts'
import { createDeployment, networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import type { FakeNode, ScriptedResponse } from '../support/fake-node.ts'
import { freePort } from '../support/free-port.ts'
import { createPortalClient } from '../support/portal-client.ts'
import { call, connectWs } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const adminToken = 'canary-drain-token'

const block = (number: number) => ({
  result: { number: `0x${number.toString(16)}`, hash: `0x${'a'.repeat(64)}`, parentHash: `0x${'b'.repeat(64)}` },
})
const responses = (number: number) => ({
  eth_chainId: { result: '0x7a69' },
  eth_getBlockByNumber: block(number),
  eth_getBalance: { result: '0x1' },
})

t.test('what operators are told about nodes is what calls meet', async t => {
  const [first, second] = [await startFakeNode(responses(32)), await startFakeNode(responses(30))]
  const notFound = { raw: '<html>', status: 404 }
  const wrong = await startFakeNode({ eth_chainId: notFound, eth_getBlockByNumber: notFound, eth_getBalance: notFound })
  const urls = [first.url, second.url, `${wrong.url}/mistyped`]
  t.teardown(() => Promise.all([first.stop(), second.stop(), wrong.stop()]))
  const { deployment, gateway, key } = await startGateway(t, {
    gateway: { workers: 2 },
    networks: { testnet: networkFile('testnet', urls) },
  })
  const metric = (name: string, upstream: string, labels = {}) => gateway.metric(`tollgate_upstream_${name}`, { upstream, ...labels })
  const isLimited = async (upstream: string) => (await metric('reduced', upstream, { class: 'all', reason: 'rateLimited' })) === 1
  const upstreams = async () =>
    ((await gateway.get('/readyz?verbose')).json() as unknown as { networks: [{ upstreams: object[] }] }).networks[0].upstreams
  let address = 0
  const callNode = () => call(gateway.http(key), 'eth_getBalance', [`0x${(address += 1).toString(16).padStart(40, '0')}`, '0x1'])

  t.test('a wrong URL is logged at the start, without the URL', async t => {
    const warnings = gateway.log.filter(({ level }) => Number(level) >= 40)
    t.match(warnings, [
      { upstream: 'node-3', msg: /^upstream does not answer/, cause: /404/ },
      { upstream: 'node-3', msg: 'upstream excluded: it has not returned its chain ID', cause: /404/ },
    ])
    t.equal(warnings.length, 2)
    t.notOk(JSON.stringify(gateway.log).includes('mistyped'))
  })

  t.test('heads and reachability are in one view, and in the metrics', async t => {
    t.match(await upstreams(), [
      { name: 'node-1', head: 32, usable: true },
      { name: 'node-2', head: 30, usable: true },
      { name: 'node-3', usable: false, because: /^it has not returned its chain ID: .*404/ },
    ])
    t.same([await metric('up', 'node-1'), await metric('up', 'node-3')], [1, 0])
    t.same([await metric('head', 'node-1'), await metric('head', 'node-2')], [32, 30])
  })

  t.test('attempts and their latency are counted for each node', async t => {
    const attempts = await metric('request_duration_seconds_count', 'node-1')
    for (let i = 0; i < 5; i++) t.equal((await callNode()).result, '0x1')
    t.equal(await metric('request_duration_seconds_count', 'node-1'), attempts + 5)
  })

  t.test('a node that limits the rate is not usable until its rest is over', async t => {
    first.setResponse('eth_getBalance', { raw: '', status: 429, headers: { 'retry-after': '2' } })
    t.equal((await callNode()).result, '0x1')
    t.match(await upstreams(), [{ name: 'node-1', usable: false, reasons: [{ class: 'all', reason: 'rateLimited' }] }, { usable: true }])
    t.ok(await isLimited('node-1'))
    first.setResponse('eth_getBalance', { result: '0x1' })
    await waitUntil(async () => !(await isLimited('node-1')))
    t.match(await upstreams(), [{ name: 'node-1', usable: true }])
  })

  t.test('a dead node is not usable, and its breaker is in the same view', async t => {
    await second.stop()
    await first.stop()
    for (let i = 0; i < 12; i++) t.match(await callNode(), { error: { code: -32002 } })
    await waitUntil(() => gateway.log.filter(({ msg }) => String(msg).startsWith('upstream does not answer')).length >= 3)
    t.match(await upstreams(), [
      { name: 'node-1', usable: false, because: /^it does not answer/, reasons: [{ reason: 'breaker' }] },
      { name: 'node-2', usable: false, because: /^it does not answer/ },
      { name: 'node-3', usable: false },
    ])
  })

  t.test('a store whose folder is removed under the gateway is named, and no credits are leased of it until it is back', async t => {
    const data = join(deployment.dir, '../data')
    const store = async () => (await gateway.get('/readyz?verbose')).json()['store']
    const isRemoved = async () => (await gateway.metric('tollgate_store_unavailable', { reason: 'removed' })) === 1
    t.same(await store(), { usable: true })
    await rename(data, `${data}-moved`)
    await waitUntil(isRemoved)
    t.match(await store(), { usable: false, reason: /removed or replaced while it was in use: put its files back|put them back/ })
    await waitUntil(() => gateway.log.some(({ cause }) => /^the store in .* was removed or replaced/.test(String(cause))))
    const callUntilRefused = async () => {
      const responses = await Promise.all(Array.from({ length: 50 }, () => call(gateway.http(key), 'eth_chainId')))
      return responses.find(({ error }) => error !== undefined)?.error?.code
    }
    let code: unknown
    await waitUntil(async () => (code = await callUntilRefused()) !== undefined) // what is leased is used up first
    t.equal(code, -32002)
    await rename(`${data}-moved`, data)
    await waitUntil(async () => !(await isRemoved()))
    t.same(await store(), { usable: true })
    await waitUntil(async () => (await call(gateway.http(key), 'eth_chainId')).error === undefined)
  })
})

t.test('a node is drained and put back while calls go on: none is lost, and it stays drained over reloads and restarts', async t => {
  const slow = deferred<ScriptedResponse>()
  const answers = { ...responses(32), eth_getBalance: { result: '0x1' } }
  const nodes = [await startFakeNode({ ...answers, eth_call: () => slow.promise }), await startFakeNode(answers)] as const
  const [first, second] = nodes
  t.teardown(() => Promise.all(nodes.map(node => node.stop())))
  const network = networkFile(
    'testnet',
    nodes.map(({ url }) => url),
  )
  const { deployment, gateway, key } = await startGateway(t, {
    gateway: { workers: 2, admin: { token: adminToken }, listen: { rpc: '127.0.0.1:0', admin: `127.0.0.1:${await freePort()}` } },
    networks: { testnet: network },
  })
  const operator = createPortalClient(gateway.admin, adminToken)
  let address = 0
  const failed: unknown[] = []
  const callOnce = async (url: string) => {
    const { result, error } = await call(url, 'eth_getBalance', [`0x${(address += 1).toString(16).padStart(40, '0')}`, '0x1'])
    if (result !== '0x1') failed.push(error)
  }
  const callsAt = (node: FakeNode, method = 'eth_getBalance') => node.received.filter(each => each.method === method).length
  const stateOf = async (name: string) => {
    const { networks } = (await operator.get('/nodes')).json
    return networks[0].upstreams.find((each: { readonly name: string }) => each.name === name)
  }
  /** 16 calls at a time, until the returned function is called, which resolves with their number. */
  const keepCalling = (url: string) => {
    let isEnding = false
    const callers = Array.from({ length: 16 }, async () => {
      let count = 0
      for (; !isEnding; count += 1) await callOnce(url)
      return count
    })
    return async () => {
      isEnding = true
      return (await Promise.all(callers)).reduce((sum, count) => sum + count)
    }
  }

  await t.test('it gets no new calls from any worker, and answers those that it has', async t => {
    const stop = keepCalling(gateway.http(key))
    const waiting = call(gateway.http(key), 'eth_call', [{ to: `0x${'1'.repeat(40)}` }, '0x1'])
    await first.waitForRequests('eth_call', 1)
    t.ok(callsAt(first) > 0)
    const { status, json } = await operator.post('/nodes/testnet/node-1/drain', {})
    t.match(
      { status, json },
      {
        status: 200,
        json: {
          network: 'testnet',
          name: 'node-1',
          drained: true,
          drainedSince: /^20/,
          drainedBy: { kind: 'operator', name: 'admin token' },
          usable: false,
        },
      },
    )
    t.ok(json.inFlight >= 1, `${json.inFlight} in flight`)
    await waitUntil(async () => (await stateOf('node-1')).inFlight === 1)
    const before = callsAt(first)
    const served = callsAt(second)
    await waitUntil(() => callsAt(second) > served + 100)
    t.equal(callsAt(first), before)
    t.match(await stateOf('node-1'), { inFlight: 1, reasons: [{ class: 'all', reason: 'drained' }] })
    slow.resolve({ result: '0x2' })
    t.equal((await waiting).result, '0x2')
    t.equal(callsAt(second, 'eth_call'), 0)
    t.match(await stateOf('node-1'), { inFlight: 0 })
    t.ok((await stop()) > 100)
    t.same(failed, [])
  })

  t.test('its polls go on, and the metrics, /readyz and the log say that it is drained', async t => {
    const polls = callsAt(first, 'eth_getBlockByNumber')
    await waitUntil(async () => {
      await callOnce(gateway.http(key))
      return callsAt(first, 'eth_getBlockByNumber') > polls
    })
    t.equal(await gateway.metric('tollgate_upstream_reduced', { upstream: 'node-1', class: 'all', reason: 'drained' }), 1)
    t.equal(await gateway.metric('tollgate_upstream_reduced', { upstream: 'node-2', class: 'all', reason: 'drained' }), 0)
    t.match((await gateway.get('/readyz?verbose')).json()['networks'], [
      {
        upstreams: [{ name: 'node-1', usable: false, head: 32, reasons: [{ reason: 'drained', text: /^an operator has drained it/ }] }, {}],
      },
    ])
    const countDrained = () => gateway.log.filter(({ event, upstream }) => event === 'node-drained' && upstream === 'node-1').length
    await waitUntil(() => countDrained() >= 2)
    t.equal(countDrained(), 2, 'by each worker')
  })

  await t.test('it gets nothing else, also of the feed that subscribers have', async t => {
    const socket = await connectWs(gateway.ws(key))
    t.teardown(() => socket.close())
    t.type((await socket.call('eth_subscribe', ['logs'])).result, 'string')
    const since = first.received.length
    const next = { number: '0x21', hash: `0x${'c'.repeat(64)}`, parentHash: `0x${'a'.repeat(64)}` }
    for (const node of nodes) node.setResponse('eth_getBlockByNumber', { result: next })
    const polls = callsAt(first, 'eth_getBlockByNumber')
    await waitUntil(() => callsAt(second, 'eth_getLogs') > 1 && callsAt(first, 'eth_getBlockByNumber') > polls + 2)
    const polled = ['eth_chainId', 'eth_getBlockByNumber latest']
    const asked = first.received.slice(since).map(({ method, params }) => [method, ...params.slice(0, 1)].join(' '))
    t.same(
      asked.filter(each => !polled.includes(each)),
      [],
    )
  })

  t.test('the last node that gets calls is drained by force alone', async t => {
    t.match(await operator.post('/nodes/testnet/node-2/drain', {}), {
      status: 409,
      json: { error: { code: 'last-node', message: /^no other node of testnet is usable: without node-2 calls would fail/ } },
    })
    const { code, stderr } = await deployment.run('nodes', 'drain', 'testnet', 'node-2')
    t.match({ code, stderr }, { code: 1, stderr: /no other node of testnet is usable/ })
    t.match(await operator.post('/nodes/testnet/node-2/drain', { force: true }), { status: 200, json: { drained: true } })
    t.match(await call(gateway.http(key), 'eth_getBalance', [`0x${'f'.repeat(40)}`, '0x1']), { error: { code: -32002 } })
    t.match(await deployment.run('nodes', 'undrain', 'testnet', 'node-2'), { code: 0, stdout: 'testnet/node-2 gets calls again\n' })
    await callOnce(gateway.http(key))
    t.same(failed, [])
    t.equal(
      (await operator.post('/nodes/testnet/node-3/drain', {})).json.error.message,
      'unknown node "node-3" of testnet; did you mean `node-1`?',
    )
    t.equal((await operator.post('/nodes/testnt/node-1/drain', {})).json.error.message, 'unknown network "testnt"; did you mean `testnet`?')
  })

  t.test('it stays drained after a reload, on a second gateway, and after a restart; without a gateway, too', async t => {
    deployment.writeNetwork('testnet', { ...network, blockTime: '200ms' })
    await gateway.waitForEvent('reloaded')
    const other = createDeployment({ networks: { testnet: network }, gateway: { store: `lmdb:${join(deployment.dir, '../data')}` } })
    t.teardown(other.remove)
    const restarted = await other.start()
    const before = callsAt(first)
    for (const { http } of [gateway, restarted]) for (let i = 0; i < 20; i += 1) await callOnce(http(key))
    t.equal(callsAt(first), before)
    t.equal(await gateway.stop(), 0)
    const { stdout } = await deployment.run('nodes', 'list')
    t.match(stdout, /testnet +node-1 +drained +\S+ +- +- +-/)
    t.match(stdout, /testnet +node-2 +unknown/)
    t.match(await deployment.run('nodes', 'undrain', 'testnet', 'node-1'), { code: 0 })
    await waitUntil(async () => {
      await callOnce(restarted.http(key))
      return callsAt(first) > before
    })
    t.same(failed, [])
    t.equal(restarted.log.filter(({ event }) => event === 'node-undrained').length, 1)
    t.equal(await restarted.stop(), 0)
  })

  t.test('a drained node that has left the configuration is still listed, and can be put back', async t => {
    t.equal((await deployment.run('nodes', 'drain', 'testnet', 'node-1')).code, 0)
    deployment.writeNetwork('testnet', networkFile('testnet', [], { failover: { upstreams: [{ name: 'node-2', url: second.url }] } }))
    const restarted = await deployment.start()
    const list = async () => JSON.parse((await deployment.run('nodes', 'list', '--json')).stdout)
    t.match(await list(), {
      unconfigured: [{ network: 'testnet', name: 'node-1', condition: 'drained', drained: true, drainedBy: { kind: 'command' } }],
    })
    t.match((await deployment.run('nodes', 'list')).stdout, /testnet +node-1 +drained +\S+ +- +- +- +- +- +not in the configuration/)
    const { stdout, code } = await deployment.run('nodes', 'undrain', 'testnet', 'node-1')
    t.match({ stdout, code }, { code: 0, stdout: 'testnet/node-1 is no longer drained; it is not in the configuration\n' })
    t.match((await list()).unconfigured, [])
    t.match(await deployment.run('nodes', 'undrain', 'testnet', 'node-1'), { code: 1, stderr: /unknown node "node-1" of testnet/ })
    t.equal(await restarted.stop(), 0)
  })

  t.test('who has drained it and put it back is in the log of changes', async t => {
    const { stdout } = await deployment.run('changes', '--from', '2020-01-01', '--json')
    t.match(
      (JSON.parse(stdout) as readonly { readonly action: string }[]).filter(({ action }) => action.startsWith('node-')),
      [
        { action: 'node-drained', target: 'testnet/node-1', by: { kind: 'operator', name: 'admin token' } },
        { action: 'node-drained', target: 'testnet/node-2' },
        { action: 'node-undrained', target: 'testnet/node-2', by: { kind: 'command' } },
        { action: 'node-undrained', target: 'testnet/node-1' },
        { action: 'node-drained', target: 'testnet/node-1' },
        { action: 'node-undrained', target: 'testnet/node-1' },
      ],
    )
  })
})
