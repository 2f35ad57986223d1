import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import planMethods from './plan-methods.js'

const options = { excluded: { core: ['debug_*', 'eth_getBlockReceipts'] } }

const open = () =>
  harness({
    pipeline: `- plan-methods: ${JSON.stringify(options)}`,
    plugins: [planMethods],
    plans: { core: {}, growth: {} },
    keys: { alice: { plan: 'core' }, bob: { plan: 'growth' } },
    upstream: { '*': { result: '0x1' } },
  })

test('a method that the plan does not include is refused', async () => {
  const gateway = await open()
  const { outcome, error } = await gateway.call('debug_getRawBlock', ['latest'], { key: 'alice' })
  assert.equal(outcome, 'forbidden')
  assert.equal(error.message, 'the plan core does not include debug_getRawBlock')
  assert.equal((await gateway.call('eth_gasPrice', [], { key: 'alice' })).outcome, 'ok')
  assert.equal((await gateway.call('debug_getRawBlock', ['latest'], { key: 'bob' })).outcome, 'ok')
})

test('it is offered to the other plans alone, and to nobody in particular', async () => {
  const gateway = await open()
  const offers = await Promise.all(['alice', 'bob', null].map(key => gateway.offers('eth_getBlockReceipts', { key })))
  assert.deepEqual(offers, [false, true, true])
})

test('explain tells a caller of each plan what becomes of the call', async () => {
  const gateway = await open()
  const ofPlugin = async key => (await gateway.explain('debug_getRawBlock', { key })).find(({ plugin }) => plugin === 'plan-methods')
  assert.equal((await ofPlugin('alice')).ends, 'refused')
  assert.deepEqual((await ofPlugin('bob')).text, ['the plan growth includes the method'])
  assert.equal((await ofPlugin(null)).ends, undefined)
})

test('a misspelled method is a problem of the configuration', async () => {
  const pipeline = '- plan-methods: { excluded: { core: [eth_getBlockReceipt] } }'
  await assert.rejects(harness({ pipeline, plugins: [planMethods] }), /did you mean `eth_getBlockReceipts`/)
})

for (const { name, run } of contractTests(planMethods, { options })) test(name, run)
