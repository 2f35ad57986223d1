import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import mirror from './mirror.js'

const open = (upstreams, percent = 100) =>
  harness({
    pipeline: `
      - mirror: { url: "http://mirror.test", percent: ${percent} }
      - failover: { upstreams: [{ name: own, url: "http://own.test" }] }
      - upstream: {}`,
    plugins: [mirror],
    upstreams,
  })

const answersOf = gateway =>
  Object.fromEntries(['same', 'different', 'failed'].map(answer => [answer, gateway.metric('tollgate_mirrored_calls_total', { answer })]))

const mirroredOf = gateway => gateway.requests.filter(({ upstream }) => upstream === 'mirror').map(({ method }) => method)

test('answers are compared as values, and callers get those of their own node', async () => {
  const gateway = await open({
    own: { eth_config: { result: { a: 1, b: 2 } }, eth_gasPrice: { result: '0x1' } },
    mirror: { eth_config: { result: { b: 2, a: 1 } }, eth_gasPrice: { result: '0x2' } },
  })
  assert.deepEqual((await gateway.call('eth_config')).result, { a: 1, b: 2 })
  assert.equal((await gateway.call('eth_gasPrice')).result, '0x1')
  await gateway.advance(0)
  assert.deepEqual(answersOf(gateway), { same: 1, different: 1, failed: 0 })
})

test('callers do not wait for the second node, and see nothing of its failures', async () => {
  const gateway = await open({ own: { eth_call: { result: '0x' } }, mirror: 'hang' })
  const startedAt = gateway.clock.monotonic()
  assert.equal((await gateway.call('eth_call', [{}])).result, '0x')
  assert.equal(gateway.clock.monotonic(), startedAt)
  await gateway.advance('10s')
  assert.deepEqual(answersOf(gateway), { same: 0, different: 0, failed: 1 })
})

test('the share of the calls is exact, and transactions are never among them', async () => {
  const gateway = await open({ own: { '*': { result: '0x1' } }, mirror: { '*': { result: '0x1' } } }, 25)
  for (let i = 0; i < 8; i += 1) await gateway.call('eth_gasPrice')
  assert.deepEqual(mirroredOf(gateway), ['eth_gasPrice', 'eth_gasPrice'])
  const all = await open({ own: { '*': { result: '0x1' } } })
  await all.call('eth_sendRawTransaction', ['0x01'])
  assert.deepEqual(mirroredOf(all), [])
})

for (const { name, run } of contractTests(mirror, { options: { url: 'http://mirror.test' } })) test(name, run)
