import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import blockRange from './block-range.js'

// The chain of a test begins at block 1,000.
const open = () =>
  harness({
    pipeline: `
      - block-range: { maxBlocks: 100 }
      - failover: { upstreams: [{ name: own, url: "http://own.test" }] }
      - upstream: {}`,
    plugins: [blockRange],
    upstream: { eth_getLogs: { result: [] } },
  })

test('a range of as many blocks as allowed goes upstream, and one block more does not', async () => {
  const gateway = await open()
  assert.deepEqual((await gateway.call('eth_getLogs', [{ fromBlock: '0x64', toBlock: '0xc7' }])).result, [])
  const { error } = await gateway.call('eth_getLogs', [{ fromBlock: '0x64', toBlock: '0xc8' }])
  assert.equal(error.message, 'eth_getLogs asks for 101 blocks, and at most 100 are allowed')
  assert.deepEqual(error.data, { from: '0x64', to: '0xc7', limit: 100 })
  assert.equal(gateway.requests.length, 1)
})

test('tags count as the block that they stand for', async () => {
  const gateway = await open()
  const outcomeOf = async filter => (await gateway.call('eth_getLogs', [filter])).outcome
  assert.equal(await outcomeOf({ fromBlock: 'earliest', toBlock: '0x1' }), 'ok')
  assert.equal(await outcomeOf({ fromBlock: 'earliest' }), 'params')
  assert.equal(await outcomeOf({ fromBlock: '0x3e0' }), 'ok')
})

test('one block by its hash, and other methods, are not limited', async () => {
  const gateway = await open()
  assert.equal((await gateway.call('eth_getLogs', [{ blockHash: `0x${'1'.repeat(64)}` }])).outcome, 'ok')
  assert.equal((await gateway.call('eth_chainId')).outcome, 'ok')
})

for (const { name, run } of contractTests(blockRange, { options: { maxBlocks: 1 } })) test(name, run)
