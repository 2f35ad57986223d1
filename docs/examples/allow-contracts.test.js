import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import allowContracts from './allow-contracts.js'

const mine = `0x${'aA'.repeat(20)}`
const other = `0x${'bb'.repeat(20)}`

const open = () =>
  harness({
    pipeline: `- allow-contracts: { accounts: { alice: ["${mine}"] } }`,
    plugins: [allowContracts],
    keys: { alice: {}, bob: {} },
    upstream: { '*': { result: '0x1' } },
  })

/** Outcomes of calls of a key. */
const outcomesOf = async (key, ...calls) => {
  const gateway = await open()
  const outcomes = []
  for (const [method, ...params] of calls) outcomes.push((await gateway.call(method, params, { key })).outcome)
  return outcomes
}

test('a listed account reaches its contracts, in whatever case the address is written', async () => {
  const outcomes = await outcomesOf(
    'alice',
    ['eth_call', { to: mine.toLowerCase() }, 'latest'],
    ['eth_getStorageAt', mine, '0x0', 'latest'],
    ['eth_getLogs', { address: [mine] }],
    ['eth_gasPrice'],
  )
  assert.deepEqual(outcomes, ['ok', 'ok', 'ok', 'ok'])
})

test('it reaches no other contract, and no logs of all contracts', async () => {
  const outcomes = await outcomesOf(
    'alice',
    ['eth_call', { to: other }, 'latest'],
    ['eth_call', { data: '0x' }, 'latest'],
    ['eth_getBalance', other, 'latest'],
    ['eth_getLogs', { address: [mine, other] }],
    ['eth_getLogs', {}],
  )
  assert.deepEqual(outcomes, Array(5).fill('forbidden'))
})

test('an account that is not listed reaches every contract', async () => {
  assert.deepEqual(await outcomesOf('bob', ['eth_call', { to: other }, 'latest'], ['eth_getLogs', {}]), ['ok', 'ok'])
})

for (const { name, run } of contractTests(allowContracts, { options: { accounts: { alice: [mine] } } })) test(name, run)
