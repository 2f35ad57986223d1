import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import externalPolicy from './external-policy.js'

const options = { url: 'http://policy.test/allow', methods: ['eth_gasPrice'] }

/** The clock of the harness jumps while a call waits, so a real server would always be late: fetch() is replaced. */
const open = async (t, answer, more = {}) => {
  const fetched = t.mock.method(globalThis, 'fetch', answer)
  const pipeline = `- external-policy: ${JSON.stringify({ ...options, ...more })}`
  const gateway = await harness({ pipeline, plugins: [externalPolicy], upstream: { eth_gasPrice: { result: '0x7' } } })
  return { gateway, fetched }
}

const hang = async (_url, { signal }) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))

test('the service is asked once a minute for each method, with account and method', async t => {
  const { gateway, fetched } = await open(t, async () => Response.json({ allowed: true }))
  const { outcome } = await gateway.call('eth_gasPrice')
  await gateway.call('eth_gasPrice')
  assert.equal(outcome, 'ok')
  assert.equal(fetched.mock.callCount(), 1)
  assert.match(String(fetched.mock.calls[0].arguments[0]), /^http:\/\/policy\.test\/allow\?account=[\w-]+&method=eth_gasPrice$/)
  await gateway.advance('1m')
  await gateway.call('eth_gasPrice')
  assert.equal(fetched.mock.callCount(), 2)
  assert.equal(gateway.metric('tollgate_policy_decisions_total', { decision: 'allowed' }), 3)
})

test('a denied call gets an error with a code of its own; other methods pass', async t => {
  const { gateway, fetched } = await open(t, async () => Response.json({ allowed: false }))
  const { outcome, error } = await gateway.call('eth_gasPrice')
  assert.equal(outcome, 'forbidden')
  assert.deepEqual(error, { code: -32050, message: 'your account may not call eth_gasPrice' })
  assert.equal((await gateway.call('eth_blockNumber')).outcome, 'ok')
  assert.equal(fetched.mock.callCount(), 1)
})

test('a service that hangs is given up after the timeout, and asked again a second later', async t => {
  const { gateway, fetched } = await open(t, hang)
  const startedAt = gateway.clock.monotonic()
  const replies = await Promise.all([gateway.call('eth_gasPrice'), gateway.call('eth_gasPrice')])
  assert.deepEqual(
    replies.map(({ status }) => status),
    [503, 503],
  )
  assert.equal(gateway.clock.monotonic() - startedAt, 200)
  assert.equal(fetched.mock.callCount(), 1)
  await gateway.advance('1s')
  await gateway.call('eth_gasPrice')
  assert.equal(fetched.mock.callCount(), 2)
})

test('with passOnFailure, calls pass while the service fails', async t => {
  const { gateway } = await open(t, async () => new Response('', { status: 500 }), { passOnFailure: true })
  assert.equal((await gateway.call('eth_gasPrice')).outcome, 'ok')
  assert.match(JSON.stringify(gateway.log.lines), /HTTP status 500.*policy service failed/)
})

for (const { name, run } of contractTests(externalPolicy, { options })) test(name, run)
