import t from '../support/tap.ts'
import type { Json } from '../../src/plugin/call.ts'
import { harness } from '../../src/testing/index.ts'
import { valueOrErrorCode } from '../support/fakes.ts'

t.test('envelope', async t => {
  const valid = { jsonrpc: '2.0', id: 1, method: 'eth_gasPrice', params: [] }
  const upstream = { eth_gasPrice: ({ params }: { params: Json }) => ({ result: params }) }
  const open = (step: string) => harness({ pipeline: `- envelope: ${step}`, upstream })
  const [lenient, strict] = await Promise.all([open('{}'), open('{ strict: true }')])

  t.test('writes method and params into the context', async t => {
    t.same((await lenient.call('eth_gasPrice', ['0x1'])).result, ['0x1'])
  })

  for (const [what, change, byDefault, whenStrict] of [
    ['jsonrpc is missing', { jsonrpc: undefined }, -32600, -32600],
    ['jsonrpc is the number 2', { jsonrpc: 2 }, -32600, -32600],
    ['jsonrpc is 1.0', { jsonrpc: '1.0' }, -32600, -32600],
    ['method is missing', { method: undefined }, -32600, -32600],
    ['method is a number', { method: 1 }, -32600, -32600],
    ['params is missing', { params: undefined }, [], -32600],
    ['params is null', { params: null }, [], -32600],
    ['params is an object', { params: {} }, -32602, -32600],
    ['params is a string', { params: 'a' }, -32602, -32600],
    ['id is 0', { id: 0 }, [], []],
    ['id is a string', { id: 'a' }, [], -32600],
    ['id is null', { id: null }, [], -32600],
    ['id is missing', { id: undefined }, [], -32600],
    ['id is true', { id: true }, -32600, -32600],
    ['id is an object', { id: {} }, -32600, -32600],
    ['id is an array', { id: [] }, -32600, -32600],
    ['there is another member', { extra: 1 }, [], []],
  ] as const) {
    t.test(`when ${what}: ${JSON.stringify(byDefault)}, and with strict ${JSON.stringify(whenStrict)}`, async t => {
      for (const [gateway, expected] of [
        [lenient, byDefault],
        [strict, whenStrict],
      ] as const) {
        const { replies } = await gateway.send(JSON.stringify({ ...valid, ...change })) // without undefined members
        t.same(replies.map(valueOrErrorCode), [expected])
      }
    })
  }

  t.test('refuses an unknown method before its params, with strict too', async t => {
    const message = 'the method eth_nothing does not exist/is not available'
    for (const gateway of await Promise.all([open('{}\n- params: {}'), open('{ strict: true }\n- params: {}')]))
      for (const params of [{ a: 1 }, 'a', 1]) t.match(await gateway.call('eth_nothing', params), { error: { code: -32601, message } })
  })

  t.test('refuses a message that is not an object', async t => {
    for (const message of ['1', '"a"', 'null', 'true'])
      t.match((await lenient.send(message)).body, { id: null, error: { code: -32600, message: /^invalid request: it must be an object/ } })
  })
})
