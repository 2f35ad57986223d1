import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import blockMethods from './block-methods.js'

test('a listed method is refused, another one goes upstream', async () => {
  const pipeline = '- block-methods: { methods: [eth_accounts] }'
  const gateway = await harness({ pipeline, plugins: [blockMethods], upstream: { eth_gasPrice: { result: '0x1' } } })
  const { outcome, error } = await gateway.call('eth_accounts')
  assert.equal(outcome, 'forbidden')
  assert.equal(error.message, 'the method eth_accounts is not allowed here')
  assert.equal((await gateway.call('eth_gasPrice')).result, '0x1')
  assert.equal(gateway.requests.length, 1)
})

for (const { name, run } of contractTests(blockMethods, { options: { methods: [] } })) test(name, run)
