import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import rewriteResult from './rewrite-result.js'

const open = upstream => harness({ pipeline: '- rewrite-result: { percent: 150 }', plugins: [rewriteResult], upstream })

test('a price is raised, and rounded up', async () => {
  const gateway = await open({ eth_gasPrice: [{ result: '0x64' }, { result: '0x1' }, { result: '0x0' }] })
  const prices = []
  for (let i = 0; i < 3; i += 1) prices.push((await gateway.call('eth_gasPrice')).result)
  assert.deepEqual(prices, ['0x96', '0x2', '0x0'])
})

test('errors, results that are no price, and other methods are left as they are', async () => {
  const error = { code: -32000, message: 'busy' }
  const gateway = await open({ eth_gasPrice: [{ error }, { result: null }], eth_blobBaseFee: { result: '0x64' } })
  assert.deepEqual((await gateway.call('eth_gasPrice')).error, error)
  assert.equal((await gateway.call('eth_gasPrice')).result, null)
  assert.equal((await gateway.call('eth_blobBaseFee')).result, '0x64')
})

for (const { name, run } of contractTests(rewriteResult)) test(name, run)
