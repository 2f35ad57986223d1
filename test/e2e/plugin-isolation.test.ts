import { mkdirSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from '../support/tap.ts'
import { createDeployment, mainPath, networkFile, startGateway } from '../support/deployment.ts'
import type { LogLine } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

/** External plugins in JavaScript: what their authors may get wrong, and what they should do. */
const plugins = {
  // Declares nothing, and answers with everything that it can reach.
  'inspecting.mjs': `import { inspect } from 'node:util'
    const reachable = call => inspect(call, { depth: null, getters: true, showHidden: true }) + String(call.context['account']?.name)
    export default { name: 'inspecting', summary: 'Looks.', options: { type: 'object' },
      create: () => async (call, next) => ({ ...(await next(call)), result: Buffer.from(JSON.stringify(reachable(call))) }) }`,
  // Answers with what its vary() says of the caller.
  'varying.mjs': `export default { name: 'varying', summary: 'Greets.', options: { type: 'object' },
      reads: ['account'], vary: ({ account }, _options, origin) => account.name + ' from ' + origin.headers['x-user'],
      create: () => async (call, next) => ({ ...(await next(call)), result: Buffer.from(JSON.stringify(call.variant)) }) }`,
  // Varies too, and passes on all that it got.
  'passing.mjs': `export default { name: 'passing', summary: 'Varies.', options: { type: 'object' }, vary: (_context, _options, origin) =>
      origin.headers['x-user'], create: () => (call, next) => next({ ...call }) }`,
  // Each method meets another bug of the plugin.
  'failing.mjs': `import { breakDown } from './helper.mjs'
    import { Cancellation, onAbort } from 'tollgate/plugin'
    const cancellation = new Cancellation()
    const bugsWith = ({ clock, metrics }) => ({
      eth_gasPrice: () => undefined.method,
      eth_maxPriorityFeePerGas: async (call, next) => { await next(call); throw 'no error' },
      eth_syncing: () => ({ result: 'no bytes' }),
      eth_sendRawTransaction: (_call, next) => next(),
      eth_getTransactionByHash: () => ({ error: 'wrong', source: 'local' }),
      eth_getTransactionReceipt: () => breakDown(),
      eth_blockNumber: (call, next) => next({ ...call, context: {} }),
      eth_getTransactionCount: async () => {
        setTimeout(() => { throw new Error('in a timer') })
        void Promise.reject(new Error('not awaited'))
        const refresh = async () => { await fetch('http://127.0.0.1:1/') }
        void refresh()
        clock.after(1, () => { throw new Error('in a timer of the clock') })
        clock.after(2, async () => { throw new Error('in an async timer of the clock') })
        metrics.collect(() => { throw new Error('while metrics are read') })
        onAbort(cancellation, () => { throw new Error('in a listener') })
        cancellation.abort()
        return { result: Buffer.from('1'), source: 'local' }
      },
    })
    const bugOf = ({ context }, services) => bugsWith(services)[context.request.method]
    export default { name: 'failing', summary: 'Fails.', options: { type: 'object' },
      vary: (context, _options, origin) => origin.headers['x-user'] === 'bob' ? { name: 'bob' } : 'alice',
      create: (_options, services) => (call, next) => bugOf(call, services)(call, next) }`,
  // Answers in place of what the call came to, in each way that is free.
  'replacing.mjs': `import { refuse } from 'tollgate/plugin'
    let unawaited
    const replacements = {
      eth_gasPrice: async (call, next) => { await next(call); throw new Error('after next()') },
      eth_maxPriorityFeePerGas: async (call, next) => { await next(call); return refuse('unavailable') },
      eth_chainId: (call, next) => { unawaited = next(call); return refuse('unavailable') },
      eth_blockNumber: async (call, next) => { await unawaited; return next(call) },
    }
    export default { name: 'replacing', summary: 'Replaces.', options: { type: 'object' }, reads: ['request'],
      create: () => (call, next) => replacements[call.context.request.method](call, next) }`,
  // Never answers, or keeps the event loop to itself.
  'stuck.mjs': `const block = ms => { for (const end = Date.now() + ms; Date.now() < end; ); }
    export default { name: 'stuck', summary: 'Is stuck.', options: { type: 'object' }, reads: ['request'],
      create: () => (call, next) => call.context.request.method === 'eth_gasPrice' ? new Promise(() => {}) : next(call, block(1100)) }`,
  'helper.mjs': `export const breakDown = () => {
      throw new RangeError('in the helper') }`,
} as const

/** The external plugins above `failover`, and so below `cache`, by network. */
const networks: Readonly<Record<string, readonly string[]>> = {
  inspecting: ['../inspecting.mjs'],
  varying: ['../passing.mjs', '../varying.mjs'],
  failing: ['../failing.mjs', '../passing.mjs'],
}

const node = await startFakeNode({
  eth_gasPrice: { result: '0x1' },
  eth_maxPriorityFeePerGas: { result: '0x1' },
  eth_sendRawTransaction: { result: `0x${'1'.repeat(64)}` },
  eth_blockNumber: { result: '0x10' },
  eth_chainId: { result: '0x7a69' },
})

/** The plugins stand above the step `below`. */
const networkWith = (name: string, uses: readonly string[], below = 'failover', step: object = {}) => {
  const { pipeline, ...network } = networkFile(name, [node.url]) as { pipeline: object[] }
  const position = pipeline.findIndex(step => below in step)
  const steps = [...pipeline.slice(0, position), ...uses.map(use => ({ use, ...step })), ...pipeline.slice(position)]
  return { ...network, hosts: [`${name}.test`], pipeline: steps }
}

t.teardown(() => node.stop())
const { deployment, gateway, ...alice } = await startGateway(t, {
  files: plugins,
  networks: {
    ...Object.fromEntries(Object.entries(networks).map(([name, uses]) => [name, networkWith(name, uses)])),
    replacing: networkWith('replacing', ['../replacing.mjs'], 'credits'),
    stuck: networkWith('stuck', ['../stuck.mjs'], 'credits', { timeout: '1s' }),
  },
})
const keys = { alice, bob: await deployment.addCaller('bob') }

const paramsOf = (method: string): readonly string[] =>
  method === 'eth_getTransactionCount'
    ? [`0x${'1'.repeat(40)}`]
    : method.includes('Transaction')
      ? [method === 'eth_sendRawTransaction' ? '0x02f8' : `0x${'1'.repeat(64)}`]
      : []

/** What the caller gets, who says who it is in each way that HTTP and JSON-RPC have. */
const resultFor = async (name: 'alice' | 'bob', network: string, method: string): Promise<unknown> => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: `id of ${name}`, method, params: paramsOf(method) })
  const headers = { 'x-user': name, origin: `https://${name}.example` }
  const { result, error } = (await post(gateway.http(keys[name].key), body, { host: `${network}.test`, headers })).json()
  return result ?? error
}

/** The first is shared, the second never. */
const methods = ['eth_gasPrice', 'eth_sendRawTransaction']

t.test('a plugin below one that shares reaches nothing of a caller, whether or not the answer is shared', async t => {
  const ofCallers = [
    ...Object.entries(keys).flatMap(([name, { id, key }]) => [name, id, key, key.slice(-4)]),
    'x-user',
    '127.0.0.1',
    'account',
  ]
  for (const method of methods) {
    for (const name of ['alice', 'bob'] as const) {
      const seen = String(await resultFor(name, 'inspecting', method))
      t.match(seen, method, 'the plugin looked')
      t.same(
        ofCallers.filter(text => seen.toLowerCase().includes(text.toLowerCase())),
        [],
        `${method} for ${name}`,
      )
    }
  }
})

t.test('each plugin gets what its own vary() returned, and callers with different texts never share', async t => {
  const names = Array.from({ length: 40 }, (_, i) => (i % 3 === 0 ? 'alice' : 'bob'))
  for (const method of methods) {
    const results = await Promise.all(names.map(name => resultFor(name, 'varying', method)))
    t.same(
      results,
      names.map(name => `${name} from ${name}`),
      method,
    )
  }
})

/** The log line of the newest bug in a call of this method, once it is there. */
const waitForBug = async (method: string, count = 1): Promise<LogLine> => {
  const lines = () => gateway.log.filter(({ msg, method: logged }) => msg === 'internal error' && logged === method)
  await waitUntil(() => lines().length === count)
  return lines().at(-1) ?? {}
}

t.test('a bug of a plugin is logged with the plugin, its file and line; callers are told the id of their request alone', async t => {
  const bugs = [
    ['eth_gasPrice', 'failing.mjs:5:37', "TypeError: Cannot read properties of undefined (reading 'method')"],
    ['eth_maxPriorityFeePerGas', 'failing.mjs', "'no error'"],
    ['eth_syncing', 'failing.mjs', 'TypeError: the handler returned neither a result in bytes with its source'],
    ['eth_sendRawTransaction', 'failing.mjs:8:48', 'TypeError: next() needs the call, or a changed copy of it'],
    ['eth_getTransactionByHash', 'failing.mjs', 'nor a failure as refuse() makes it'],
    ['eth_getTransactionReceipt', 'helper.mjs:2:13', 'RangeError: in the helper'],
  ] as const
  for (const [method, location, text] of bugs) {
    const response = await resultFor('alice', 'failing', method)
    const line = await waitForBug(method)
    t.same(response, { code: -32603, message: 'internal error', data: { requestId: line['requestId'] } }, method)
    t.match(line, { plugin: 'failing', location: join(deployment.dir, location), stack: text })
  }
  t.match(await resultFor('bob', 'failing', 'eth_gasPrice'), { code: -32603 })
  t.match(await waitForBug('eth_gasPrice', 2), { plugin: 'failing', stack: 'TypeError: vary() must return a text' })
  t.match(await resultFor('alice', 'failing', 'eth_blockNumber'), { code: -32603 })
  t.notOk('plugin' in (await waitForBug('eth_blockNumber')), 'not a plugin above the one that threw')
})

t.test('a call costs nothing if a plugin above `credits` fails or refuses it after next()', async t => {
  const { key } = await deployment.addCaller('carol')
  const call = async (method: string): Promise<string | undefined> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [] })
    return (await post(gateway.http(key), body, { host: 'replacing.test' })).headers.ratelimit?.toString()
  }
  const remaining = async (): Promise<number> => Number(/r=(\d+)/.exec((await call('eth_blockNumber')) ?? '')?.[1])
  const first = await remaining()
  const cost = first - (await remaining())
  t.ok(cost > 0)
  for (const method of ['eth_gasPrice', 'eth_maxPriorityFeePerGas', 'eth_chainId']) await call(method)
  t.equal(await remaining(), first - 2 * cost)
})

t.test('what a plugin throws outside of a call is logged, and the gateway serves on', async t => {
  t.equal(await resultFor('alice', 'failing', 'eth_getTransactionCount'), 1)
  await gateway.get('/metrics')
  const texts = [
    'in a timer',
    'not awaited',
    'fetch failed',
    'in a timer of the clock',
    'in an async timer',
    'while metrics are read',
    'in a listener',
  ]
  const lineWith = (text: string) =>
    gateway.log.find(({ msg, stack }) => msg === 'plugin threw outside of a call' && String(stack).includes(text))
  for (const text of texts) {
    await waitUntil(() => lineWith(text) !== undefined)
    const line = lineWith(text)
    const isNamed = text !== 'fetch failed' // the stack of fetch() ends in Node
    t.match(line, isNamed ? { network: 'failing', plugin: 'failing', location: join(deployment.dir, 'failing.mjs:') } : {}, text)
  }
  t.equal(await resultFor('alice', 'varying', 'eth_gasPrice'), 'alice from alice')
})

t.test('a plugin has the classes of the gateway itself: an option that it refuses is reported at its place', async t => {
  const text = `export default { name: 'refusing', summary: 'Refuses.', options: { type: 'object' },
      create() { throw misconfigured([], 'cannot work on this network') } }`
  const files = {
    'refusing.mjs': `import { misconfigured } from 'tollgate/plugin'\n${text}`,
    'refusing.cjs': `const { misconfigured } = require('tollgate/plugin')\n${text.replace('export default', 'module.exports =')}`,
  }
  for (const [file, plugin] of Object.entries(files)) {
    const refusing = createDeployment({ networks: { refusing: networkWith('refusing', [`../${file}`]) }, files: { [file]: plugin } })
    t.teardown(refusing.remove)
    // As npm installs the gateway: require() finds it there.
    mkdirSync(join(refusing.dir, 'node_modules'))
    symlinkSync(dirname(dirname(dirname(mainPath))), join(refusing.dir, 'node_modules/tollgate'))
    const { code, stderr } = await refusing.runProgram('start')
    t.equal(code, 78, file)
    t.match(stderr, /refusing\.yaml:\d+:\d+: .*refusing: cannot work on this network/, file)
  }
})

t.test('a plugin that does not answer costs its call an internal error, and one that blocks the event loop is named', async t => {
  const unanswered = await resultFor('alice', 'stuck', 'eth_gasPrice')
  t.match(unanswered, { code: -32603 })
  const lines = () => gateway.log.filter(({ network, plugin }) => network === 'stuck' && plugin === 'stuck')
  await waitUntil(() => lines().length === 1)
  t.match(lines()[0], { msg: 'internal error', location: join(deployment.dir, 'stuck.mjs'), stack: 'no answer for 1 s' })
  t.equal(await resultFor('alice', 'stuck', 'eth_chainId'), '0x7a69')
  await waitUntil(() => lines().length === 2)
  t.match(lines()[1], { event: 'event-loop-blocked', location: join(deployment.dir, 'stuck.mjs') })
})
