import t from '../support/tap.ts'
import envelope from '../../plugins/envelope.ts'
import type { Json } from '../../src/plugin/call.ts'
import type { Reply } from '../../src/plugin/reply.ts'
import { createStage, failureOf, fakeCall, fakeResult, unreachableNext, valueOrErrorCode } from '../support/fakes.ts'

t.test('envelope', async t => {
  const valid = { jsonrpc: '2.0', id: 1, method: 'eth_blockNumber', params: [] }
  const request = (message: Json, strict = false): Promise<Reply> =>
    createStage(envelope, { strict }).handle({ ...fakeCall('x'), message }, async call => fakeResult(call.context.request.params as Json))

  t.test('writes method and params into the context', async t => {
    t.same(valueOrErrorCode(await request({ ...valid, params: ['0x1'] })), ['0x1'])
  })

  for (const [what, change, byDefault, strict] of [
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
    t.test(`when ${what}: ${JSON.stringify(byDefault)}, and with strict ${JSON.stringify(strict)}`, async t => {
      const message = JSON.parse(JSON.stringify({ ...valid, ...change })) as Json // without undefined members
      t.same(valueOrErrorCode(await request(message)), byDefault)
      t.same(valueOrErrorCode(await request(message, true)), strict)
    })
  }

  t.test('refuses an unknown method before its params, with strict too', async t => {
    for (const strict of [false, true]) {
      const stage = createStage(envelope, { strict }, { offers: method => method !== 'eth_nothing' })
      for (const params of [{ a: 1 }, 'a', 1]) {
        const reply = failureOf(
          await stage.handle({ ...fakeCall('x'), message: { ...valid, method: 'eth_nothing', params } }, unreachableNext),
        )
        t.match(reply.error, { code: -32601, message: 'the method eth_nothing does not exist/is not available' })
      }
    }
  })

  t.test('refuses a message that is not an object', async t => {
    for (const message of [1, 'a', null, true, []]) {
      const reply = failureOf(await request(message))
      t.equal(reply.error.code, -32600)
      t.match(reply.error.message, /^invalid request: it must be an object/)
    }
  })
})
