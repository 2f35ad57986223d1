import { readFile } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'
import t from '../support/tap.ts'
import { definePlugin, misconfigured, onAbort, refuse } from '../../src/plugin/plugin.ts'
import type { AnyPlugin, Call, Next, Reply } from '../../src/plugin/plugin.ts'
import { TestClock, harness } from '../../src/testing/index.ts'
import { networkFile } from '../support/deployment.ts'

const examples = new URL('../../../docs/examples/', import.meta.url)

const wholePipeline = JSON.stringify(networkFile('any', ['http://a.test', 'http://b.test'])['pipeline'])

const storageParams = [`0x${'1'.repeat(40)}`, '0x0', 'latest']
const word = `0x${'0'.repeat(63)}1`

t.test('a plugin is tested in three lines, without the plugins that it stands between', async t => {
  const gateway = await harness({ pipeline: '- { use: ./call-limit.js, with: { calls: 1 } }', folder: examples })
  t.match(await gateway.call('eth_chainId'), { status: 200, result: '0x7a69', source: 'node' })
  t.match(await gateway.call('eth_chainId'), { status: 429, outcome: 'rate', error: { code: -32005 } })
  await gateway.advance('1s')
  t.match(await gateway.call('eth_chainId'), { outcome: 'ok' })
  t.same(
    gateway.requests.map(({ method }) => method),
    ['eth_chainId', 'eth_chainId'],
  )
})

t.test('accounts are told apart by their keys, with and without key-auth', async t => {
  for (const above of ['', '- key-auth: {}']) {
    const pipeline = `${above}\n- { use: ./call-limit.js, with: { calls: 1 } }`
    const gateway = await harness({ pipeline, folder: examples, keys: { alice: {}, bob: {} } })
    const outcomes = []
    for (const key of ['alice', 'alice', 'bob']) outcomes.push((await gateway.call('eth_chainId', [], { key })).outcome)
    t.same(outcomes, ['ok', 'rate', 'ok'])
  }
})

t.test('a whole pipeline runs with the real services: keys, credits, cache and failover', async t => {
  const gateway = await harness({
    pipeline: wholePipeline,
    keys: { alice: { plan: 'small' }, old: { revoked: true } },
    plans: { small: { dailyCredits: 165 } },
    upstream: { eth_getStorageAt: { result: word } },
    upstreams: { 'node-1': 'down' },
  })
  const read = (key: string | null) => gateway.call('eth_getStorageAt', storageParams, { key })
  t.match(await read('alice'), { result: word, source: 'node', upstream: 'node-2', cache: 'miss', credits: 80 })
  t.match(await read('alice'), { result: word, source: 'cache', cache: 'hit', credits: 80 })
  t.match(await read('alice'), { status: 402, outcome: 'spent', error: { code: -33000 } })
  t.match(await read('old'), { status: 401, error: { message: 'the API key has been revoked' } })
  t.match(await read(null), { status: 401, error: { message: /missing/ } })
  t.match(await read('nonsense'), { status: 401, error: { message: /malformed/ } })
  t.same(new Set(gateway.requests.map(({ upstream }) => upstream)), new Set(['node-2']), 'the one that is down has no head')
  t.equal(gateway.metric('tollgate_calls_total', { outcome: 'ok' }), 2)
  t.throws(() => gateway.metric('tollgate_call_total'), {
    message: 'no metric is named tollgate_call_total: did you mean `tollgate_calls_total`?',
  })
  await gateway.stop()
})

t.test('a test asks what a caller is offered, and what becomes of a call at each stage', async t => {
  const gateway = await harness({
    pipeline: wholePipeline,
    keys: { alice: { methods: ['eth_chainId'] }, old: { revoked: true } },
    plans: { small: { dailyCredits: 165 } },
  })
  const explain = async (method: string, key?: string | null) =>
    (await gateway.explain(method, key === undefined ? {} : { key })).map(({ plugin, ends }) => [plugin, ends])
  t.same(
    [await gateway.offers('eth_chainId'), await gateway.offers('eth_call'), await gateway.offers('eth_call', { key: null })],
    [true, false, true],
  )
  t.same((await explain('eth_call')).at(-1), ['network-access', 'refused'])
  t.same((await explain('eth_call', 'old')).at(-1), ['key-auth', 'refused'])
  t.same((await explain('eth_call', null)).at(-1)?.[0], 'upstream')
  await gateway.call('eth_chainId')
  const stages = await gateway.explain('eth_chainId')
  t.match(stages.find(({ plugin }) => plugin === 'key-auth')?.text, ['the key key_alice is valid: account alice, plan small'])
  const credits = stages.find(({ plugin }) => plugin === 'credits')
  t.match(credits?.text.join(), /the account has (85|160) credits left today/)
  const supplied = await harness({ pipeline: '- network-access: {}', context: { key: { id: 'any', networks: ['other'] } } })
  t.match((await supplied.explain('eth_call')).at(-1), { plugin: 'network-access', ends: 'refused' })
  for (const each of [gateway, supplied]) await each.stop()
})

t.test('the clock jumps while a call waits: timeouts need no real time', async t => {
  const pipeline = '- failover: { upstreams: [{ name: own, url: "http://own.test" }] }\n- upstream: { timeout: 10s }'
  const upstream = { eth_getLogs: 'hang', eth_call: { result: '0x', after: '3s' } } as const
  const gateway = await harness({ pipeline, upstream })
  const startedAtMs = gateway.clock.monotonic()
  t.match(await gateway.call('eth_call', [{}]), { result: '0x' })
  t.ok(gateway.clock.monotonic() - startedAtMs >= 3_000)
  t.match(await gateway.call('eth_getLogs', [{}]), { error: { code: -32005, message: 'query timeout exceeded' } })
  t.ok(gateway.clock.monotonic() - startedAtMs >= 13_000)
})

t.test('an upstream answers by script: in turn, by function, with HTTP errors, or not at all', async t => {
  const gateway = await harness({
    pipeline: '- envelope: {}',
    upstream: {
      eth_gasPrice: [{ error: { code: -32000, message: 'busy' } }, { result: '0x1' }],
      eth_call: ({ params }) => ({ result: params }),
      eth_syncing: { status: 429, headers: { 'retry-after': '7' } },
      '*': { result: 'any' },
    },
    upstreams: { other: 'down' },
  })
  t.match(await gateway.call('eth_gasPrice'), { outcome: 'node', error: { message: 'busy' } })
  t.match([await gateway.call('eth_gasPrice'), await gateway.call('eth_gasPrice')], [{ result: '0x1' }, { result: '0x1' }])
  t.same((await gateway.call('eth_call', ['a', 1])).result, ['a', 1])
  t.match(await gateway.call('eth_syncing'), { status: 503, retryAfter: 7 })
  t.equal((await gateway.call('eth_accounts')).result, 'any')
  const strict = await harness({ pipeline: '- envelope: {}' })
  t.match(await strict.call('eth_accounts'), { error: { message: /the fake upstream has no response to eth_accounts/ } })
})

t.test('messages are handled as the server handles them: batches, notifications, and what is no JSON', async t => {
  const gateway = await harness({ pipeline: '- envelope: {}' })
  const request = { jsonrpc: '2.0', method: 'eth_chainId', params: [] }
  const batch = await gateway.send([{ ...request, id: 'a' }, { ...request, id: 2 }, request])
  t.same(
    batch.body,
    ['a', 2].map(id => ({ jsonrpc: '2.0', id, result: '0x7a69' })),
  )
  t.match(await gateway.send(request), { status: 204, body: undefined })
  t.match(await gateway.send('{'), { status: 200, body: { id: null, error: { code: -32700 } } })
})

t.test('a misspelled option, and a refusal that does not exist, are named with what was probably meant', async t => {
  const misspelled = { pipeline: '', upstreem: {} }
  await t.rejects(harness(misspelled), { message: 'harness() has no option `upstreem`: did you mean `upstream`?' })
  const refuser = definePlugin({
    name: 'refuser',
    summary: 'Refuses.',
    options: { type: 'object', properties: {} },
    create: () => async () => refuse('forbiden' as 'forbidden'),
  })
  const gateway = await harness({ pipeline: '- refuser: {}', plugins: [refuser] })
  t.match(await gateway.call('eth_chainId'), { outcome: 'internal' })
  t.match(JSON.stringify(gateway.log.lines), "refuse('forbiden'), which is no refusal: did you mean `forbidden`?")
  await gateway.stop()
})

t.test('problems of the pipeline come with line and caret, and a missing context key with the one that was meant', async t => {
  const misspelled = harness({ pipeline: '\n  - use: ./call-limit.js\n    with: { callz: 1 }\n', folder: examples })
  await t.rejects(misspelled, { message: /pipeline\.yaml:3:13: unknown option `callz`[^]*\^ did you mean `calls`\?/ })
  const order = '- { use: ./region-access.js, with: { allowed: [DE] } }\n- { use: ./region.js, with: {} }'
  await t.rejects(harness({ pipeline: order, folder: examples }), {
    message: /region-access reads `region`, which no earlier plugin writes/,
  })
  const reader = definePlugin({
    name: 'reader',
    summary: 'Reads.',
    options: { type: 'object', properties: {} },
    reads: ['acount' as 'account'],
    create: () => (call, next) => next(call),
  })
  await t.rejects(harness({ pipeline: '- reader: {}', plugins: [reader] }), {
    message: /`acount` is read, and no step writes it: did you mean `account`/,
  })
  const region = await harness({
    pipeline: '- { use: ./region-access.js, with: { allowed: [DE] } }',
    folder: examples,
    context: { region: 'FR' },
  })
  t.match(await region.call('eth_chainId'), { outcome: 'forbidden' })
})

t.test('a call that a plugin never answers fails the test', async t => {
  const silent = definePlugin({
    name: 'silent',
    summary: 'Answers other calls.',
    options: { type: 'object', properties: {} },
    reads: ['request'],
    create: () => (call, next) => (call.context.request.method === 'eth_call' ? new Promise(() => undefined) : next(call)),
  })
  const gateway = await harness({
    pipeline: '- silent: {}',
    plugins: [silent],
    upstream: { eth_gasPrice: { result: '0x1', after: '60s' } },
  })
  t.match(await gateway.call('eth_gasPrice'), { error: { code: -32005 } }, 'the upstream is slow, and not the plugin')
  await t.rejects(gateway.call('eth_call'), { message: /never answered[^]*eth_call/ })
})

t.test('a plugin that reads or writes a member of the context and does not declare it fails its call, and the log names both', async t => {
  const base = { summary: 'Is wrong.', options: { type: 'object', properties: {} } } as const
  const behaviors: Readonly<Record<string, (call: Call<'request'>, next: Next<'request'>) => Promise<Reply>>> = {
    reading: (call, next) => (String(Reflect.get(call.context, 'account')) === '' ? next({ ...call }) : next(call)),
    writing: (call, next) => next({ ...call, context: { ...call.context, ...{ account: 'another' } } }),
    honest: (call, next) => next({ ...call, context: { ...call.context } }),
  }
  const below = definePlugin({
    ...base,
    name: 'below',
    reads: ['account'],
    create: () => (call, next) => (call.context.account.id === 'acc_test' ? next(call) : refuse('forbidden')),
  })
  for (const [name, handle] of Object.entries(behaviors)) {
    const plugin = definePlugin({ ...base, name, reads: ['request'], create: () => handle })
    const gateway = await harness({ pipeline: `- ${name}: {}\n- below: {}`, plugins: [plugin, below] })
    const { outcome } = await gateway.call('eth_chainId')
    t.equal(outcome, name === 'honest' ? 'ok' : 'internal', name)
    const [line] = gateway.log.lines.filter(({ message }) => message === 'internal error')
    if (name !== 'honest') t.match(line?.fields, { plugin: name, stack: /`account` of the context, and does not declare it/ })
  }
})

t.test('the handler of a plugin with vary() reads of the context `request` alone, also above a plugin that shares', async t => {
  const plugin: unknown = {
    name: 'varying',
    summary: 'Varies.',
    options: { type: 'object', properties: {} },
    reads: ['request', 'account'],
    vary: ({ account }: Call<'account'>['context']) => account.plan.name,
    create: () => (call: Call<'request' | 'account'>, next: Next<'request'>) =>
      call.context.request.method === 'eth_chainId' ? next(call) : next({ ...call, variant: call.context.account.id }),
  }
  const gateway = await harness({ pipeline: '- varying: {}', plugins: [plugin as AnyPlugin] })
  t.equal((await gateway.call('eth_chainId')).outcome, 'ok')
  t.equal((await gateway.call('eth_gasPrice')).outcome, 'internal')
  const line = gateway.log.lines.find(({ message }) => message === 'internal error')
  t.match(line?.fields, { stack: /reads `account` of the context beside vary\(\)/ })
})

t.test('a test opens a WebSocket, gets what is pushed after the response, and sees it closed', async t => {
  const feed = definePlugin({
    name: 'feed',
    summary: 'Pushes.',
    options: { type: 'object', properties: {} },
    reads: ['request'],
    create:
      (_, { log }) =>
      (call, next) => {
        const { push, signal } = call.origin
        if (call.context.request.method !== 'eth_subscribe' || push === undefined) return next(call)
        onAbort(signal, () => log.info({ feature: 'feed' }, 'disconnected'))
        const onSettled = (isDelivered: boolean) => {
          push.send(['{"delivered":', Buffer.from(`${isDelivered}}`)])
          push.close(1008, 'that is all')
          push.send(['{}'])
        }
        return { source: 'local', result: Buffer.from('"0x1"'), onSettled }
      },
  })
  const gateway = await harness({ pipeline: '- key-auth: {}\n- feed: {}', plugins: [feed] })
  const socket = await gateway.openWebSocket()
  t.match(await socket.call('eth_chainId'), { result: '0x7a69' })
  t.same([socket.messages, socket.closed], [[], undefined])
  t.match(await socket.call('eth_subscribe'), { result: '0x1' })
  t.same([socket.messages, socket.closed], [[{ delivered: true }], { code: 1008, reason: 'that is all' }])
  socket.disconnect()
  t.match(gateway.log.lines.at(-1), { message: 'disconnected', fields: { network: 'test', plugin: 'feed', feature: 'feed' } })
  await t.rejects(gateway.openWebSocket({ key: null }), { message: /API key is missing/ })
})

t.test('buckets of the same name of two plugins are two', async t => {
  const limitOf = (name: string) =>
    definePlugin({
      name,
      summary: 'Limits.',
      options: { type: 'object', properties: {} },
      create:
        (_, { rateLimits }) =>
        async (call, next) => {
          const request = { bucket: 'all', rate: { perSecond: 1, burst: 1 }, tokens: 1 }
          const tooFew = await rateLimits.take([request])
          return tooFew === undefined ? next(call) : refuse('rate', { data: { limit: tooFew.refused.bucket } })
        },
    })
  const gateway = await harness({ pipeline: '- one: {}\n- two: {}', plugins: ['one', 'two'].map(limitOf) })
  t.match(await gateway.call('eth_chainId'), { outcome: 'ok' })
  t.match(await gateway.call('eth_chainId'), { outcome: 'rate', error: { data: { limit: 'all' } } })
})

t.test('the keys of a test have the limits that keys have', async t => {
  const gateway = await harness({
    pipeline: '- key-auth: {}\n- network-access: {}\n- rate-limit: {}',
    keys: { alice: { ips: ['203.0.113.0/24'], rate: 1, name: 'production' }, old: { expires: 1 } },
  })
  t.match(await gateway.call('eth_chainId', [], { key: 'alice' }), { outcome: 'forbidden' })
  const outcomes = []
  for (const _ of [1, 2]) outcomes.push((await gateway.call('eth_chainId', [], { key: 'alice', ip: '203.0.113.7' })).outcome)
  t.same(outcomes, ['ok', 'rate'])
  t.match(await gateway.call('eth_chainId', [], { key: 'old' }), { error: { message: /expired/ } })
})

t.test('no time passes while a plugin computes in turns of the event loop, or reads a file, also in several calls at once', async t => {
  const working = definePlugin({
    name: 'working',
    summary: 'Works.',
    options: { type: 'object', properties: {} },
    reads: [],
    create: (_, { clock }) => {
      clock.every(1_000, () => undefined)
      return async (call, next) => {
        for (let turn = 0; turn < 50; turn++) await setImmediate()
        for (let read = 0; read < 5; read++) await readFile(new URL(import.meta.url))
        return next(call)
      }
    },
  })
  const gateway = await harness({ pipeline: '- working: {}', plugins: [working] })
  const before = gateway.clock.monotonic()
  const calls = [gateway.call('eth_chainId'), gateway.call('eth_chainId')]
  for (const call of calls) t.match(await call, { outcome: 'ok' })
  t.equal(gateway.clock.monotonic(), before)
  await gateway.stop()
})

t.test('a plugin that throws fails its own call, and the log names it', async t => {
  const throwing = definePlugin({
    name: 'throwing',
    summary: 'Throws.',
    options: { type: 'object', properties: {} },
    reads: ['request'],
    create: () => async call => {
      if (call.context.request.method === 'eth_call') throw new Error('a bug')
      return refuse('forbidden')
    },
  })
  const gateway = await harness({ pipeline: '- throwing: {}', plugins: [throwing] })
  t.match(await gateway.call('eth_call'), { outcome: 'internal', error: { code: -32603, data: { requestId: 'test-1' } } })
  t.match(await gateway.call('eth_gasPrice'), { outcome: 'forbidden' })
  t.match(gateway.log.lines, [{ level: 'error', fields: { plugin: 'throwing', requestId: 'test-1', stack: /a bug/ } }])
})

t.test('a harness that stops, or that cannot be opened, leaves no timer on the clock and stops what it has started', async t => {
  const clock = new TestClock()
  const stopped: string[] = []
  const define = (name: string, start?: () => Promise<void>) =>
    definePlugin({
      name,
      apiVersion: 1,
      summary: 'Has a timer.',
      options: { type: 'object', properties: { refused: { type: 'boolean', default: false, description: 'Cannot be created.' } } },
      create({ refused }) {
        if (refused) throw misconfigured(['refused'], 'is refused')
        let timer: { cancel(): void } | undefined
        return {
          handle: (call, next) => next(call),
          async start() {
            timer = clock.every(1_000, () => undefined)
            await start?.()
          },
          async stop() {
            timer?.cancel()
            stopped.push(name)
          },
        }
      },
    })
  const plugins = [define('upper'), define('failing', () => Promise.reject(new Error('no'))), define('lower')]
  const whole = { pipeline: wholePipeline, clock }
  const gateway = await harness(whole)
  await gateway.call('eth_chainId')
  t.ok(clock.timerCount > 0)
  await gateway.stop()
  t.equal(clock.timerCount, 0, 'stopped')

  await t.rejects(harness({ ...whole, upstream: { eth_chainId: { after: 'soon' } } as never }), TypeError)
  t.equal(clock.timerCount, 0, 'a script that is wrong')
  await t.rejects(harness({ pipeline: '- upper: {}\n- lower: { refused: true }', plugins, clock }), /lower: .*refused/)
  t.equal(clock.timerCount, 0, 'a plugin that cannot be created')
  t.same(stopped.splice(0), ['upper'])
  await t.rejects(harness({ pipeline: '- upper: {}\n- failing: {}\n- lower: {}', plugins, clock }), /failing did not start/)
  t.equal(clock.timerCount, 0, 'a plugin that does not start')
  t.same(stopped, ['upper', 'failing', 'lower'])
})
