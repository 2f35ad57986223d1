import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import slowLog from './slow-log.js'

const open = after =>
  harness({ pipeline: '- slow-log: { threshold: 2s }', plugins: [slowLog], upstream: { eth_call: { result: '0x', after } } })

const slowLines = gateway => gateway.log.lines.filter(({ message }) => message === 'slow call')

test('a call that takes as long as the threshold is logged and counted', async () => {
  const gateway = await open('2s')
  assert.equal((await gateway.call('eth_call', [{}])).result, '0x')
  const [line] = slowLines(gateway)
  const labels = { network: 'test-network', plugin: 'slow-log' }
  const expected = { ...labels, requestId: 'test-1', method: 'eth_call', ms: 2000, outcome: 'ok', source: 'node', upstream: 'own' }
  assert.deepEqual(line, { level: 'warn', fields: expected, message: 'slow call' })
  assert.equal(gateway.metric('tollgate_slow_calls_total'), 1)
})

test('a faster call is not', async () => {
  const gateway = await open('1999ms')
  await gateway.call('eth_call', [{}])
  assert.deepEqual(slowLines(gateway), [])
  assert.equal(gateway.metric('tollgate_slow_calls_total'), 0)
})

for (const { name, run } of contractTests(slowLog)) test(name, run)
