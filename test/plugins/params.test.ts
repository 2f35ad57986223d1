import t from 'tap'
import params from '../../plugins/params.ts'
import type { Json } from '../../src/plugin/call.ts'
import { Misconfigured } from '../../src/plugin/plugin.ts'
import { isCharged, isFailure } from '../../src/plugin/reply.ts'
import type { Reply } from '../../src/plugin/reply.ts'
import { openMethodTable } from '../../src/services/method-table/compile-table.ts'
import { devnet, hex, shippedTable } from '../services/method-table/shipped-table.ts'
import { fakeCall, unreachableNext, fakeResult, valueOrErrorCode, createStage } from '../support/fakes.ts'

const address = hex(20)
const methods = openMethodTable(shippedTable, devnet)
const defaults = { strict: false, methods: {}, tags: {} }

/** What the plugin says, with a node that answers with the parameters it got. */
const ask = (method: string, list: readonly Json[], options: object = {}): Promise<Reply> =>
  createStage(params, { ...defaults, ...options }, { methods }).handle(fakeCall(method, list), async asked =>
    fakeResult(asked.context.request.params),
  )

const messageOf = (reply: Reply): string => (isFailure(reply) ? reply.error.message : 'a result')

t.test('passes parameters on in their normal form, with the other notes', async t => {
  t.same(valueOrErrorCode(await ask('eth_getStorageAt', [hex(20, 'AB'), '0x0'])), [address, '0x0', 'latest'])
  t.same(valueOrErrorCode(await ask('eth_getLogs', [{ blockhash: hex(32, 'AB') }])), [{ blockHash: hex(32) }])
  const asked = fakeCall('eth_getBalance', [address])
  await createStage(params, defaults, { methods }).handle(asked, async ({ context: notes }) => {
    t.same(notes, { ...asked.context, request: { method: 'eth_getBalance', params: [address, 'latest'] } })
    return fakeResult(null)
  })
  t.same(asked.context.request.params, [address], 'the call itself is as it was')
})

t.test('refuses a method that is not offered, in the words that clients look for', async t => {
  const reply = await ask('eth_coinbase', [])
  t.match(reply, { kind: 'method', source: 'gateway', error: { code: -32601 } })
  t.equal(messageOf(reply), 'the method eth_coinbase does not exist/is not available')
  t.notOk(isCharged(reply))
})

t.test('shows of a strange method name only what is short and printable', async t => {
  t.equal(messageOf(await ask('\u001b[31m\u202e\n', [])), 'the method ?[31m?? does not exist/is not available')
  t.equal(messageOf(await ask('x'.repeat(1e6), [])), `the method ${'x'.repeat(37)}... does not exist/is not available`)
  for (const name of ['', '__proto__', 'constructor', 'toString']) t.equal(valueOrErrorCode(await ask(name, [])), -32601)
})

t.test('refuses parameters that break a rule before anything else is asked', async t => {
  const stage = createStage(params, defaults, { methods })
  const reply = await stage.handle(fakeCall('eth_getLogs', [{ address: '0x12' }]), unreachableNext)
  t.match(reply, { kind: 'params', source: 'gateway', error: { code: -32602 } })
  t.equal(messageOf(reply), 'params[0].address must be an address (20 bytes of hex with 0x), not "0x12" (1 byte)')
  t.notOk(isCharged(reply))
})

t.test('answers what needs no node, after a look at the parameters', async t => {
  const stage = createStage(params, defaults, { methods })
  const reply = await stage.handle(fakeCall('eth_chainId'), unreachableNext)
  t.match(reply, { source: 'local' })
  t.equal(valueOrErrorCode(reply), '0x7a69')
  t.ok(isCharged(reply))
  t.equal(valueOrErrorCode(await stage.handle(fakeCall('eth_chainId', [1]), unreachableNext)), -32602)
})

t.test('with strict, the block of eth_getStorageAt is required', async t => {
  const reply = await ask('eth_getStorageAt', [address, '0x0'], { strict: true })
  t.match(messageOf(reply), /^eth_getStorageAt needs params\[2\], the block parameter/)
  t.same(valueOrErrorCode(await ask('eth_getStorageAt', [address, '0x0', '0x1'], { strict: true })), [address, '0x0', '0x1'])
})

t.test('a network offers other methods, and other rules', async t => {
  const eth_new = { params: [{ title: 'x', hex: 'number' }] }
  const options = { methods: { eth_call: false, eth_chainId: { answer: { value: '0x1' } }, eth_new } }
  t.equal(valueOrErrorCode(await ask('eth_call', [{}], options)), -32601)
  t.equal(valueOrErrorCode(await ask('eth_chainId', [], options)), '0x1')
  t.same(valueOrErrorCode(await ask('eth_new', ['0x01'], options)), ['0x1'])
})

t.test('a network that takes fewer tags names the one to use', async t => {
  const tags = { eth_getLogs: ['latest', 'earliest', 'pending', 'finalized'] }
  t.equal(
    messageOf(await ask('eth_getLogs', [{ fromBlock: 'safe' }], { tags })),
    'params[0].fromBlock: the tag "safe" is not supported for eth_getLogs on devnet; use "finalized" instead',
  )
  const taken = await ask('eth_getLogs', [{ fromBlock: 'finalized' }], { tags })
  t.same(valueOrErrorCode(taken), [{ fromBlock: 'finalized', toBlock: 'latest' }])
})

t.test('options that cannot work are placed', async t => {
  const faults = (options: object) => {
    try {
      createStage(params, { ...defaults, ...options }, { methods })
    } catch (error) {
      return error instanceof Misconfigured ? error.issues : []
    }
    return []
  }
  t.same(faults({ methods: { eth_cal: false } }), [
    { path: ['methods', 'eth_cal'], message: 'methods.eth_cal is not in the method table; did you mean `eth_call`?' },
  ])
  t.same(faults({ methods: { eth_call: 5 } }), [
    { path: ['methods', 'eth_call'], message: 'methods.eth_call must be false or the fields to change, not 5' },
  ])
  t.same(faults({ methods: { eth_call: { params: [{ hex: 'number' }] } } }), [
    { path: ['methods', 'eth_call', 'params', 0], message: 'methods.eth_call.params[0] needs "title"' },
  ])
  t.same(faults({ tags: { eth_getLogs: ['latest', 'save'] } }), [
    {
      path: ['tags', 'eth_getLogs', 1],
      message: 'tags.eth_getLogs[1] is "save", which is no tag of eth_getLogs; did you mean `safe`?',
    },
  ])
})

t.test('a field that other plugins read is not changed here', async t => {
  const reports: Json[] = []
  const options = { ...defaults, methods: { eth_call: { cost: 1, params: [] }, eth_new: false } }
  params.check?.(options as never, (path, message) => void reports.push([...path, message])) // of the plugin's own type
  const message = 'methods.eth_call.cost has no effect here: it belongs in the method table'
  t.same(reports, [['methods', 'eth_call', 'cost', message]])
})
