import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

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
