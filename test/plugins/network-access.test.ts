import t from 'tap'
import networkAccess from '../../plugins/network-access.ts'
import { createStage, failureOf, fakeCall, fakeOrigin, fakeKey, fakeResult, valueOrErrorCode } from '../support/fakes.ts'

t.test('network-access', async t => {
  const { handle } = createStage(networkAccess, {})
  const request = (over: object, originHeader?: string) =>
    handle({ ...fakeCall('eth_call', [], { key: { ...fakeKey, ...over } }), origin: fakeOrigin({ originHeader }) }, async () =>
      fakeResult('ok'),
    )

  t.test('allows every call for a key without lists', async t => t.equal(valueOrErrorCode(await request({})), 'ok'))
  t.test('allows the networks that are enabled for the key', async t =>
    t.equal(valueOrErrorCode(await request({ networks: ['devnet'] })), 'ok'),
  )

  for (const [rule, over] of [
    ['network', { networks: ['base-mainnet'] }],
    ['method', { methods: ['eth_blockNumber'] }],
    ['origin', { origins: ['https://a.example'] }],
  ] as const) {
    t.test(`refuses another ${rule} with -32091, and names the rule and what is allowed`, async t => {
      t.match(failureOf(await request(over, 'https://b.example')), {
        status: 200,
        error: { code: -32091, data: { reason: rule, allowed: Object.values(over)[0] } },
      })
    })
  }

  t.test('an origin list matches origins and subdomains, and refuses calls without an origin', async t => {
    const origins = ['https://a.example', 'https://*.b.example']
    t.equal(valueOrErrorCode(await request({ origins }, 'https://A.example')), 'ok')
    t.equal(valueOrErrorCode(await request({ origins }, 'https://x.y.b.example')), 'ok')
    for (const origin of ['https://b.example', 'http://x.b.example', 'https://a.example.evil', 'https://xb.example', undefined]) {
      t.equal(valueOrErrorCode(await request({ origins }, origin)), -32091)
    }
  })
})
