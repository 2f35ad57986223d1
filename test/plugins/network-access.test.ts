import t from '../support/tap.ts'
import networkAccess from '../../plugins/network-access.ts'
import type { CountedCall } from '../../src/plugin/internal.ts'
import { createUsage } from '../../src/services/usage/index.ts'
import { shippedMethods } from '../services/method-table/shipped-table.ts'
import {
  TestClock,
  createStage,
  failureOf,
  fakeAccount,
  fakeCall,
  fakeOrigin,
  fakeKey,
  fakeResult,
  valueOrErrorCode,
} from '../support/fakes.ts'

t.test('network-access', async t => {
  const counted: CountedCall[] = []
  const usage = createUsage(call => void counted.push(call), new TestClock())
  const { handle } = createStage(networkAccess, {}, { methods: shippedMethods, usage })
  const request = (over: object, originHeader?: string) =>
    handle({ ...fakeCall('eth_call', [], { key: { ...fakeKey, ...over } }), origin: fakeOrigin({ originHeader }) }, async () =>
      fakeResult('ok'),
    )

  t.test('allows every call for a key without lists', async t => {
    t.equal(valueOrErrorCode(await request({})), 'ok')
    t.same(counted, [], 'the plugin that charges counts it')
  })
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
      const call = { account: fakeAccount.id, key: fakeKey.id, network: 'devnet', method: 'eth_call', forwarded: false, calls: 1 }
      t.match(counted.splice(0), [{ ...call, outcome: 'forbidden', day: undefined, credits: 0 }], 'it is counted, uncharged')
    })
  }

  t.test('with the context of a call, offers what its key may call; any key may ask for that list', async t => {
    const { offers } = createStage(networkAccess, {}, { methods: shippedMethods, usage })
    const key = { ...fakeKey, methods: ['eth_blockNumber'] }
    const names = ['eth_blockNumber', 'eth_call', 'rpc.discover']
    t.same(
      names.map(name => offers?.(name, { key })),
      [true, false, true],
    )
    t.ok(names.every(name => offers?.(name)))
    const call = fakeCall('rpc.discover', [], { key })
    t.equal(valueOrErrorCode(await handle(call, async () => fakeResult('ok'))), 'ok')
  })

  t.test('a list of IP addresses allows those and their subnets, and no unknown address', async t => {
    const key = { ...fakeKey, ips: ['203.0.113.7', '10.0.0.0/8', '2001:db8::/32'] }
    const requestFrom = (ip: string) =>
      handle({ ...fakeCall('eth_call', [], { key }), origin: { ...fakeOrigin(), ip } }, async () => fakeResult('ok'))
    for (const ip of ['203.0.113.7', '10.200.0.1', '2001:db8:1::2']) t.equal(valueOrErrorCode(await requestFrom(ip)), 'ok', ip)
    for (const ip of ['203.0.113.8', '2001:db9::', '']) {
      const { error } = failureOf(await requestFrom(ip))
      t.match(error, { code: -32091, data: { reason: 'ip', allowed: key.ips } })
      t.match(error.message, ip === '' ? /not known$/ : ip)
    }
  })

  t.test('an origin list matches origins and subdomains, and refuses calls without an origin', async t => {
    const origins = ['https://a.example', 'https://*.b.example']
    t.equal(valueOrErrorCode(await request({ origins }, 'https://A.example')), 'ok')
    t.equal(valueOrErrorCode(await request({ origins }, 'https://x.y.b.example')), 'ok')
    for (const origin of ['https://b.example', 'http://x.b.example', 'https://a.example.evil', 'https://xb.example', undefined]) {
      t.equal(valueOrErrorCode(await request({ origins }, origin)), -32091)
    }
  })
})
