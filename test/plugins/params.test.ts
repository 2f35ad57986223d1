import t from '../support/tap.ts'
import params from '../../plugins/params.ts'
import type { Json } from '../../src/plugin/call.ts'
import { Misconfigured } from '../../src/plugin/define-plugin.ts'
import { isCharged, isFailure } from '../../src/plugin/reply.ts'
import type { Reply } from '../../src/plugin/reply.ts'
import { hex, shippedMethods as methods } from '../services/method-table/shipped-table.ts'
import { fakeCall, unreachableNext, fakeResult, valueOrErrorCode, createStage } from '../support/fakes.ts'

const address = hex(20)
const defaults = { strict: false, methods: {}, tags: {}, offer: [] }

/** The reply of the plugin over a node that returns the parameters it got. */
const request = (method: string, list: readonly Json[], options: object = {}): Promise<Reply> =>
  createStage(params, { ...defaults, ...options }, { methods }).handle(fakeCall(method, list), async call =>
    fakeResult(call.context.request.params),
  )

const messageOf = (reply: Reply): string => (isFailure(reply) ? reply.error.message : 'a result')

t.test('passes normalized parameters on, with the rest of the context', async t => {
  t.same(valueOrErrorCode(await request('eth_getStorageAt', [hex(20, 'AB'), '0x0'])), [address, '0x0', 'latest'])
  t.same(valueOrErrorCode(await request('eth_getLogs', [{ blockhash: hex(32, 'AB') }])), [{ blockHash: hex(32) }])
  const call = fakeCall('eth_getBalance', [address])
  await createStage(params, defaults, { methods }).handle(call, async ({ context }) => {
    t.same(context, { ...call.context, request: { method: 'eth_getBalance', params: [address, 'latest'] } })
    return fakeResult(null)
  })
  t.same(call.context.request.params, [address], 'the call itself is unchanged')
})

t.test('refuses an unknown method with the message that clients search for', async t => {
  const reply = await request('eth_coinbase', [])
  t.match(reply, { kind: 'method', source: 'gateway', error: { code: -32601 } })
  t.equal(messageOf(reply), 'the method eth_coinbase does not exist/is not available')
  t.notOk(isCharged(reply))
})

t.test('names the method that was probably meant, if it is offered', async t => {
  const messageFor = async (name: string, ...more: readonly object[]) => messageOf(await request(name, [], ...more))
  const refusal = (name: string, hint = '') => `the method ${name} does not exist/is not available${hint}`
  t.match(await request('eth_blokNumber', []), { meant: 'eth_blockNumber' })
  t.equal(await messageFor('eth_blokNumber'), refusal('eth_blokNumber', '; did you mean `eth_blockNumber`?'))
  t.equal(await messageFor('eth_GetBlockByNumber'), refusal('eth_GetBlockByNumber', '; did you mean `eth_getBlockByNumber`?'))
  t.equal(await messageFor('eth_getBlocks'), refusal('eth_getBlocks'), 'more than two edits')
  t.equal(await messageFor('eth_gasPric', { methods: { eth_gasPrice: false } }), refusal('eth_gasPric'))
})

t.test('shortens the name of an unknown method, and makes it printable', async t => {
  t.equal(messageOf(await request('\u001b[31m\u202e\n', [])), 'the method ?[31m?? does not exist/is not available')
  t.equal(messageOf(await request('x'.repeat(1e6), [])), `the method ${'x'.repeat(37)}... does not exist/is not available`)
  for (const name of ['', '__proto__', 'constructor', 'toString']) t.equal(valueOrErrorCode(await request(name, [])), -32601)
})

t.test('refuses parameters that break a rule before a node is requested', async t => {
  const stage = createStage(params, defaults, { methods })
  const reply = await stage.handle(fakeCall('eth_getLogs', [{ address: '0x12' }]), unreachableNext)
  t.match(reply, { kind: 'params', source: 'gateway', error: { code: -32602 } })
  t.equal(messageOf(reply), 'params[0].address must be an address (20 bytes of hex with 0x), not "0x12" (1 byte)')
  t.notOk(isCharged(reply))
})

t.test('answers methods that need no node, after checking the parameters', async t => {
  const stage = createStage(params, defaults, { methods })
  const reply = await stage.handle(fakeCall('eth_chainId'), unreachableNext)
  t.match(reply, { source: 'local' })
  t.equal(valueOrErrorCode(reply), '0x7a69')
  t.ok(isCharged(reply))
  t.equal(valueOrErrorCode(await stage.handle(fakeCall('eth_chainId', [1]), unreachableNext)), -32602)
})

t.test('rpc.discover answers what the caller may call here, with the costs of the network', async t => {
  const described = [
    { name: 'eth_chainId', credits: 7, params: [] },
    { name: 'eth_getProof', credits: 9, params: [] },
  ]
  const contexts: object[] = []
  const describeMethods = (context: object = {}) => (contexts.push(context), described)
  const stage = createStage(params, defaults, { methods, describeMethods })
  const call = fakeCall('rpc.discover')
  const reply = await stage.handle(call, unreachableNext)
  t.match(reply, { source: 'local' })
  const { methods: found } = JSON.parse(JSON.stringify(valueOrErrorCode(reply)))
  t.match(found, [
    { name: 'eth_chainId', 'x-credits': 7 },
    {
      name: 'eth_getProof',
      'x-credits': 9,
      params: [{ name: 'address' }, { name: 'storage positions' }, { name: 'block parameter', required: false }],
    },
  ])
  t.same(contexts, [call.context], 'the plugins above know the caller')
  t.equal(methods.get('rpc.discover')?.cost, 5)
  t.equal(valueOrErrorCode(await stage.handle(fakeCall('rpc.discover', [1]), unreachableNext)), -32602)
})

t.test('with strict, the block of eth_getStorageAt is required', async t => {
  const reply = await request('eth_getStorageAt', [address, '0x0'], { strict: true })
  t.match(messageOf(reply), /^eth_getStorageAt needs params\[2\], the block parameter/)
  t.same(valueOrErrorCode(await request('eth_getStorageAt', [address, '0x0', '0x1'], { strict: true })), [address, '0x0', '0x1'])
})

t.test('with strict, descriptions of a method say which parameters are required', async t => {
  const strict = createStage(params, { ...defaults, strict: true }, { methods })
  const described = strict.describeMethods?.([]) ?? []
  const optionalOf = (name: string) => described.find(method => method.name === name)?.params.map(({ optional }) => optional)
  t.same(optionalOf('eth_getStorageAt'), [false, false, false])
  t.same(optionalOf('eth_getBalance'), [false, true])
  const textOf = (method: string) => strict.explain?.({ method, credits: 80, lookup: undefined, creditsLeft: undefined })?.text.at(-1)
  t.notMatch(textOf('eth_getStorageAt'), /optional/)
  t.match(textOf('eth_getBalance'), /^params\[1\], the .*, optional: "latest" by default$/)
})

t.test('the options remove, change and add methods', async t => {
  const eth_new = { params: [{ title: 'x', hex: 'number' }] }
  const options = { methods: { eth_call: false, eth_chainId: { answer: { value: '0x1' } }, eth_new } }
  t.equal(valueOrErrorCode(await request('eth_call', [{}], options)), -32601)
  t.equal(valueOrErrorCode(await request('eth_chainId', [], options)), '0x1')
  t.same(valueOrErrorCode(await request('eth_new', ['0x01'], options)), ['0x1'])
})

t.test('methods that the table does not offer are those that the network names, by name or pattern', async t => {
  const offer = ['eth_coinbase', 'debug_*']
  t.equal(valueOrErrorCode(await request('eth_coinbase', [])), -32601)
  t.same(valueOrErrorCode(await request('eth_coinbase', [], { offer })), [])
  t.same(valueOrErrorCode(await request('debug_getBadBlocks', [], { offer })), [])
  t.equal(valueOrErrorCode(await request('debug_getBadBlocks', [1], { offer })), -32602)
  for (const name of ['debug_setHead', 'trace_block', 'eth_sign'])
    t.equal(valueOrErrorCode(await request(name, [], { offer })), -32601, name)
  t.same(valueOrErrorCode(await request('eth_getBalance', [address], { offer })), [address, 'latest'])
})

t.test('with the local answer removed, the node answers', async t => {
  t.same(valueOrErrorCode(await request('eth_accounts', [], { methods: { eth_accounts: { answer: null } } })), [])
  const stage = createStage(params, { ...defaults, methods: { eth_accounts: { answer: null } } }, { methods })
  t.match(await stage.handle(fakeCall('eth_accounts'), async () => fakeResult([address])), { source: 'node' })
})

t.test('says which methods it offers, as the options have them', async t => {
  const options = { methods: { eth_call: false, eth_new: { params: [] } } }
  const { offers } = createStage(params, { ...defaults, ...options }, { methods })
  t.same(
    ['eth_getLogs', 'eth_new', 'eth_call', 'eth_nothing', '__proto__', 'eth_chainId', 'rpc.discover'].map(name => offers?.(name)),
    [true, true, false, false, false, 'answered', 'answered'],
  )
})

t.test('a network that supports fewer tags names the tag to use', async t => {
  const tags = { eth_getLogs: ['latest', 'earliest', 'pending', 'finalized'] }
  t.equal(
    messageOf(await request('eth_getLogs', [{ fromBlock: 'safe' }], { tags })),
    'params[0].fromBlock: the tag "safe" is not supported for eth_getLogs on devnet; use "finalized" instead',
  )
  const accepted = await request('eth_getLogs', [{ fromBlock: 'finalized' }], { tags })
  t.same(valueOrErrorCode(accepted), [{ fromBlock: 'finalized', toBlock: 'latest' }])
})

t.test('issues of options have the path of the option', async t => {
  const issuesOf = (options: object) => {
    try {
      createStage(params, { ...defaults, ...options }, { methods })
    } catch (error) {
      return error instanceof Misconfigured ? error.issues : []
    }
    return []
  }
  t.same(issuesOf({ methods: { eth_cal: false } }), [
    { path: ['methods', 'eth_cal'], message: 'methods.eth_cal is not in the method table; did you mean `eth_call`?' },
  ])
  t.same(issuesOf({ methods: { eth_call: 5 } }), [
    { path: ['methods', 'eth_call'], message: 'methods.eth_call must be false or the fields to change, not 5' },
  ])
  t.same(issuesOf({ methods: { eth_call: { params: [{ hex: 'number' }] } } }), [
    { path: ['methods', 'eth_call', 'params', 0], message: 'methods.eth_call.params[0] needs "title"' },
  ])
  t.same(issuesOf({ offer: ['eth_sgn', 'eth_call', 'debug_*', 'admin_*', 'acme_echo'] }), [
    { path: ['offer', 0], message: 'offer[0] is "eth_sgn", which names no method of the table; did you mean `eth_sign`?' },
    { path: ['offer', 1], message: 'offer[1] is "eth_call", which is offered without being listed' },
    { path: ['offer', 3], message: 'offer[3] is "admin_*", which names no method of the table' },
    { path: ['offer', 4], message: 'offer[4] is "acme_echo", which names no method of the table; the option `methods` adds a method' },
  ])
  t.same(issuesOf({ tags: { eth_getLogs: ['latest', 'save'] } }), [
    {
      path: ['tags', 'eth_getLogs', 1],
      message: 'tags.eth_getLogs[1] is "save", which is not a block tag of eth_getLogs; did you mean `safe`?',
    },
  ])
})

t.test('a field that other plugins read cannot be overridden here', async t => {
  const reports: Json[] = []
  const options = { ...defaults, methods: { eth_call: { cost: 1, params: [] }, eth_new: false } }
  params.check?.(options as never, (path, message) => void reports.push([...path, message])) // options of the plugin's own type
  const message = 'methods.eth_call.cost has no effect here: it belongs in the method table'
  t.same(reports, [['methods', 'eth_call', 'cost', message]])
})
