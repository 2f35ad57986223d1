import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import timeBudget from './time-budget.js'

const pipeline = `
  - time-budget: { limit: 2s }
  - failover: { upstreams: [{ name: own, url: "http://own.test" }, { name: second, url: "http://second.test" }] }
  - upstream: { timeout: 1s }
`

test('a call that has no answer after the limit is refused, and costs nothing', async () => {
  const upstream = { eth_gasPrice: { result: '0x1', after: '3s' } }
  const gateway = await harness({ pipeline: '- credits: {}\n- time-budget: { limit: 2s }', plugins: [timeBudget], upstream })
  const startedAtMs = gateway.clock.monotonic()
  const { error, source, credits } = await gateway.call('eth_gasPrice')
  assert.equal(error.message, 'no answer within 2000 ms')
  assert.deepEqual([source, credits], ['gateway', 0])
  assert.equal(gateway.clock.monotonic() - startedAtMs, 2_000)
  assert.equal(gateway.metric('tollgate_late_calls_total'), 1)
  await gateway.stop()
})

test('there is time for a second node: a node that hangs ends no call', async () => {
  const upstreams = { own: { eth_gasPrice: 'hang' }, second: { eth_gasPrice: { result: '0x2' } } }
  const gateway = await harness({ pipeline, plugins: [timeBudget], upstreams })
  for (let i = 0; i < 5; i++) assert.equal((await gateway.call('eth_gasPrice')).result, '0x2')
  await gateway.stop()
})

test('a limit that leaves no time for a second node is a problem of the configuration', async () => {
  const short = pipeline.replace('2s', '1999ms')
  await assert.rejects(harness({ pipeline: short, plugins: [timeBudget] }), /time-budget: must be at least twice the `timeout` of upstream/)
})

for (const { name, run } of contractTests(timeBudget, { options: { limit: '2s' } })) test(name, run)
