import { join } from 'node:path'
import { inspect } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from '../support/tap.ts'
import type { NetworkConfig } from '../../src/config/types.ts'
import { buildNetwork } from '../../src/core/network.ts'
import { ownerOf } from '../../src/core/shared-calls.ts'
import { RepliesFromBelow } from '../../src/core/guard-stage.ts'
import type { HostServices } from '../../src/core/stage-services.ts'
import { directStage } from '../../src/plugin/internal.ts'
import { Cancellation, definePlugin, toBuffer, withContext } from '../../src/plugin/plugin.ts'
import type { AnyPlugin, Call, Next, Origin, Reply, Result, Services, Stage } from '../../src/plugin/plugin.ts'
import type { Path } from '../../src/util/json.ts'
import { refuse, resultMemoryOf } from '../../src/plugin/reply.ts'
import { openHeadsSource } from '../../src/services/chain-heads/index.ts'
import { openSingletons } from '../../src/core/singletons.ts'
import { formatMetrics, createMetricsRegistry } from '../../src/services/metrics.ts'
import { NodeTrust } from '../../src/services/node-trust.ts'
import { PluginProblems } from '../../src/services/plugin-problems.ts'
import { networkStatuses } from '../../src/server/network-status.ts'
import { NodeIncidents } from '../../src/portal/operator/node-incidents.ts'
import { results } from '../../src/services/results.ts'
import { createLongResult } from '../support/long-result.ts'
import { shippedTable } from '../services/method-table/shipped-table.ts'
import {
  TestClock,
  TestLog,
  fakeAccount,
  fakeCall,
  fakeKey,
  fakeTarget,
  fakeOrigin,
  fakeResult,
  valueOrErrorCode,
} from '../support/fakes.ts'

/** Services of a host without store, files or connections. */
const hostServices = () => {
  const unused = () => {
    throw new Error('a service was used')
  }
  const [clock, metrics] = [new TestClock(), createMetricsRegistry()]
  return {
    clock,
    log: new TestLog(),
    metrics,
    singletons: openSingletons(),
    headsSource: openHeadsSource(),
    results,
    version: '1',
    cacheBytes: 1,
    accounts: { find: unused },
    ledger: { charge: unused },
    usage: { count: unused, record: unused, recordUndelivered: unused },
    upstreamClientOf: () => ({ request: unused, disconnects: unused }),
    sharedCaches: { open: unused },
    filterRecords: { put: unused, replace: unused, find: unused, take: unused },
    nodeStatuses: {
      of: () => ({
        add: () => () => undefined,
        addTurns: () => () => undefined,
        trust: new NodeTrust(),
        drained: new Set<string>(),
        isDrainedKnown: true,
        onDrained: () => () => undefined,
        statusOf: () => undefined,
      }),
    },
    evidenceWriter: { of: () => ({ add: unused, proven: unused }) },
    pluginProblems: new PluginProblems({ clock, metrics }),
    pluginRecords: { of: () => ({ find: unused, put: unused }) },
    rateLimits: { take: unused, stateOf: unused },
  } satisfies HostServices
}

/** A network with these plugins, without options. */
const configOf = (plugins: readonly AnyPlugin[]): NetworkConfig => {
  const steps = plugins.map(plugin => ({
    name: plugin.name,
    plugin,
    options: {},
    problemAt: (_path: Path, message: string) => ({ file: 'net.yaml', line: 1, column: 1, message }),
  }))
  return { name: 'net', chainId: 1, blockTime: 1000, devNode: false, hosts: [], methods: shippedTable, steps, file: 'net.yaml' }
}

const networkOf = async (...plugins: readonly AnyPlugin[]) => {
  const host = hostServices()
  const { network } = await buildNetwork(configOf(plugins), host)
  if (network === undefined) throw new Error('the network cannot be built')
  return { network, log: host.log, metrics: host.metrics }
}

const options = { type: 'object', properties: {} } as const

const last = definePlugin({ name: 'last', summary: 'Answers.', terminal: true, options, create: () => async () => fakeResult('0x1') })

t.test('operators see what a plugin reports as long as it lasts, also over a reload, and as an incident', async t => {
  let report: Services['problems'] | undefined
  const watcher = definePlugin({
    name: 'watcher',
    summary: 'Watches something.',
    options,
    create: (_, { problems }) => {
      report ??= problems
      return {
        handle: (call, next) => next(call),
        start: async () => void problems.begin('too-slow', { severity: 'warning', text: 'it is slow' }),
      }
    },
  })
  const host = hostServices()
  const config = configOf([watcher, last])
  const build = async () => (await buildNetwork(config, host)).network
  const statuses = () => networkStatuses([{ name: 'net' }, { name: 'other' }], [], host.pluginProblems.read())
  const incidents = new NodeIncidents({ clock: host.clock, observedNetworks: async () => statuses() })
  const gauges = () => formatMetrics(host.metrics.families()).match(/tollgate_plugin_problem\{.*/g)
  const [first, second] = [await build(), await build()]
  t.same(
    statuses(),
    [{ name: 'net' }, { name: 'other' }].map(each => ({ ...each, state: 'unknown', nodes: 0, usableNodes: 0, upstreams: [] })),
  )
  await first?.start()
  const since = new Date(host.clock.now()).toISOString()
  const reported = { plugin: 'watcher', name: 'too-slow', severity: 'warning', text: 'it is slow', since }
  t.same(statuses()[0]?.problems, [reported])
  t.equal(statuses()[1]?.problems, undefined)
  host.clock.advance(90_000)
  report?.begin('too-slow', { severity: 'critical', text: 'it stands' })
  await first?.stop()
  t.same(statuses()[0]?.problems, [{ ...reported, severity: 'critical', text: 'it stands' }], 'the other pipeline has the plugin')
  t.same(gauges(), [
    'tollgate_plugin_problem{network="net",plugin="watcher",problem="too-slow",severity="warning"} 0',
    'tollgate_plugin_problem{network="net",plugin="watcher",problem="too-slow",severity="critical"} 1',
  ])
  await incidents.record()
  const incident = { network: 'net', node: undefined, kind: 'watcher too-slow', class: 'all', text: 'it stands', began: Date.parse(since) }
  t.match(incidents.list(), [{ ...incident, ended: undefined }])
  report?.end('too-slow')
  report?.end('too-slow')
  await incidents.record()
  t.match(incidents.list(), [{ ...incident, ended: host.clock.now() }])
  report?.begin('another', { severity: 'warning', text: 'x'.repeat(600) })
  t.equal(statuses()[0]?.problems?.[0]?.text.length, 500)
  await second?.stop()
  report?.begin('late', { severity: 'warning', text: 'its plugin has stopped' })
  t.same(host.pluginProblems.read(), [])
})

t.test('problems have names in kebab-case, few of them, and one of two severities', async t => {
  const { pluginProblems } = hostServices()
  const problems = pluginProblems.open('net', 'plugin')
  const begin = (name: string, severity: string) => () => problems.begin(name, { severity: severity as 'warning', text: 'x' })
  for (const name of ['', 'Slow', 'a b', 'x'.repeat(65), '-a']) t.throws(begin(name, 'warning'), RangeError, name)
  t.throws(begin('slow', 'info'), /the severity of a problem is critical or warning/)
  for (let i = 0; i < 20; i++) begin(`n${i}`, 'warning')()
  t.throws(begin('one-more', 'warning'), /at most 20 names/)
})

t.test('calls of other methods than a direct stage names pass it by', async t => {
  const entered: string[] = []
  const picky = definePlugin({
    name: 'picky',
    summary: 'Answers one method.',
    options,
    reads: ['request'],
    create: () =>
      directStage<'request'>({
        passes: ({ request }) => request.method !== 'eth_mine',
        handle(call) {
          entered.push(call.context.request.method)
          return fakeResult('0x2')
        },
      }),
  })
  const { network } = await networkOf(picky, last)
  t.equal(valueOrErrorCode(await network.run(fakeCall('eth_call'))), '0x1')
  t.equal(valueOrErrorCode(await network.run(fakeCall('eth_mine'))), '0x2')
  t.same(entered, ['eth_mine'])
})

t.test('calls that pass a stage do not run its handler, whatever `next` it takes', async t => {
  const entered: unknown[] = []
  const passing = definePlugin({
    name: 'passing',
    summary: 'Handles calls of one variant.',
    options,
    reads: ['request'],
    vary: (_context, _options, { headers }) => String(headers['a']),
    create: () => ({
      passes: ({ request }, variant) => request.method === 'eth_call' && variant === 'off',
      handle(call, next) {
        entered.push([call.context.request.method, call.variant])
        return next(call)
      },
    }),
  })
  const { network } = await networkOf(passing, last)
  for (const [method, a] of [
    ['eth_call', 'off'],
    ['eth_call', 'on'],
    ['eth_mine', 'off'],
  ] as const)
    t.equal(valueOrErrorCode(await network.run({ ...fakeCall(method), origin: fakeOrigin({ headers: { a } }) })), '0x1')
  t.same(entered, [
    ['eth_call', 'on'],
    ['eth_mine', 'off'],
  ])
})

t.test('where a plugin verifies, results of nodes that say nothing else are verified by none', async t => {
  const answering = (reply: Reply): AnyPlugin => ({ ...last, create: () => async () => reply })
  const passOn = { summary: 'Passes calls on.', options, create: () => (call: Call, next: Next) => next(call) }
  const verifying = definePlugin({ ...passOn, name: 'verifying', verifies: true })
  const other = definePlugin({ ...passOn, name: 'other' })
  const verifiedBy = async (plugin: AnyPlugin, reply: Reply): Promise<unknown> => {
    const { network } = await networkOf(plugin, answering(reply))
    return ((await network.run(fakeCall('eth_call'))) as Result).verified
  }
  t.equal(await verifiedBy(verifying, fakeResult('0x1')), 'none')
  t.equal(await verifiedBy(verifying, fakeResult('0x1', { source: 'cache' })), 'none')
  t.equal(await verifiedBy(verifying, fakeResult('0x1', { verified: 'proof' })), 'proof')
  t.equal(await verifiedBy(verifying, fakeResult('0x1', { source: 'local' })), undefined, 'it is of no node')
  t.equal(await verifiedBy(other, fakeResult('0x1')), undefined)
})

t.test('a method is offered as the first stage says that refuses or answers it', async t => {
  const offering = (offers: Stage['offers']) =>
    definePlugin({
      name: 'offering',
      summary: 'Offers.',
      options,
      create: () => ({ handle: (call, next) => next(call), ...(offers && { offers }) }),
    })
  const describedBy = async (...stages: readonly Stage['offers'][]): Promise<number> =>
    (await networkOf(...stages.map(offering), last)).network.describeMethods().length
  t.ok((await describedBy(() => true, undefined)) > 10)
  t.ok(
    (await describedBy(
      () => 'answered',
      () => false,
    )) > 10,
  )
  t.equal(
    await describedBy(
      () => false,
      () => 'answered',
    ),
    0,
  )
  t.equal(
    await describedBy(
      () => true,
      () => false,
    ),
    0,
  )
})

t.test('a call costs what the stages make of the cost of its method, rounded up, for whichever stage asks', async t => {
  const prices: number[] = []
  const asking = definePlugin({
    name: 'asking',
    summary: 'Asks for the price.',
    options,
    reads: ['request'],
    create: (_, { priceOf }) => ({
      handle(call, next) {
        prices.push(priceOf(call))
        return next(call)
      },
    }),
  })
  const pricing = (priceOf: NonNullable<Stage['priceOf']>) =>
    definePlugin({ name: 'pricing', summary: 'Has a price.', options, create: () => ({ handle: (call, next) => next(call), priceOf }) })
  const { network } = await networkOf(
    asking,
    pricing((credits, { request }) => (request.method === 'eth_call' ? 7 : credits)),
    pricing((credits, _, { ip }) => credits * (ip === '' ? 1 : 1.5)),
    last,
  )
  for (const method of ['eth_getLogs', 'eth_call', 'not_known']) await network.run(fakeCall(method))
  t.same(prices, [383, 11, 120])
})

t.test('the parameters of methods are put in words once, however often they are described', async t => {
  const { network } = await networkOf(last)
  const [first, second] = [network.describeMethods(), network.describeMethods()]
  t.ok(first.length > 10)
  t.not(first[0], second[0], 'a plugin may change its copy')
  const params = first.find(({ name }) => name === 'eth_call')?.params
  t.equal(params, second.find(({ name }) => name === 'eth_call')?.params)
  t.throws(() => Object.assign(params?.[0] ?? {}, { title: 'mine' }), TypeError, 'what all callers share cannot be changed')
})

t.test('a stage may be an instance of a class: each of its methods is called as its own', async t => {
  class Gatekeeper implements Stage {
    readonly done: string[] = []
    #isOpen = false

    async start() {
      this.#isOpen = true
    }

    admit({ transport }: Origin) {
      this.done.push(`admit ${transport}`)
      return this.#isOpen ? undefined : refuse('unavailable')
    }

    handle(...[call, next]: Parameters<Stage['handle']>) {
      this.done.push('handle')
      return next(call)
    }

    async stop() {
      this.#isOpen = false
    }
  }
  const gatekeeper = new Gatekeeper()
  const { network, log } = await networkOf(
    definePlugin({ name: 'gatekeeper', summary: 'Admits callers.', options, create: () => gatekeeper }),
    last,
  )
  t.match(network.admit(fakeOrigin()), { kind: 'unavailable' })
  await network.start()
  t.equal(network.admit(fakeOrigin()), undefined)
  t.equal(valueOrErrorCode(await network.run(fakeCall('eth_chainId'))), '0x1')
  await network.stop()
  t.match(network.admit(fakeOrigin()), { kind: 'unavailable' })
  t.same(gatekeeper.done, ['admit http', 'admit http', 'handle', 'admit http'])
  t.same(log.lines, [])
})

t.test('a reply that is known at once comes without a promise to direct stages, and with one to all others', async t => {
  const received: unknown[] = []
  const answerOf = (answer: () => Reply) =>
    definePlugin({ name: 'answer', summary: 'Answers at once.', terminal: true, options, create: () => answer })
  const withoutPromise = definePlugin({
    name: 'without-promise',
    summary: 'Is direct.',
    options,
    create: () =>
      directStage({
        handle(call, next) {
          const reply = next(call)
          received.push(reply)
          return reply
        },
      }),
  })
  const withPromise = definePlugin({
    name: 'with-promise',
    summary: 'Is not direct.',
    options,
    create: () => (call, next) => {
      const reply = next(call)
      received.push(reply)
      return reply.catch(() => refuse('unavailable'))
    },
  })
  const answer = fakeResult('0x1')
  const direct = await networkOf(
    withoutPromise,
    answerOf(() => answer),
  )
  t.equal(direct.network.run(fakeCall('eth_chainId')), answer)
  t.same(received.splice(0), [answer])
  const other = await networkOf(
    withPromise,
    answerOf(() => answer),
  )
  t.equal(await other.network.run(fakeCall('eth_chainId')), answer)
  t.ok(received[0] instanceof Promise)
  const throwing = answerOf(() => {
    throw new Error('bug')
  })
  t.match(await (await networkOf(withPromise, throwing)).network.run(fakeCall('eth_chainId')), { kind: 'unavailable' })
  const failing = await networkOf(withoutPromise, throwing)
  t.throws(() => void failing.network.run(fakeCall('eth_chainId')), { message: 'bug' })
  t.match(formatMetrics(failing.metrics.families()), 'tollgate_calls_total{network="net",method="eth_chainId",outcome="internal"} 1\n')
  await failing.network.whenIdle()
})

t.test('a plugin gets its services, and nothing that only the host needs', async t => {
  const names: string[] = []
  const inspector = definePlugin({
    name: 'inspector',
    summary: 'Looks.',
    options,
    create(_options, services) {
      names.push(...Object.keys(services))
      return (call, next) => next(call)
    },
  })
  await networkOf(inspector, last)
  t.same(names.sort(), [
    'accounts',
    'cacheBytes',
    'clock',
    'currentSpan',
    'describeMethods',
    'events',
    'evidence',
    'filterRecords',
    'heads',
    'isServed',
    'ledger',
    'log',
    'methods',
    'metrics',
    'network',
    'nodes',
    'offers',
    'priceOf',
    'problems',
    'rateLimits',
    'records',
    'results',
    'sharedCaches',
    'singleton',
    'traceparent',
    'upstreamClient',
    'usage',
    'vary',
  ])
})

t.test('what all calls of a network are given cannot be changed', async t => {
  const { network, methods } = await new Promise<Services>(resolve => {
    const curious = { ...last, create: (_options: never, services: Services) => (resolve(services), async () => fakeResult('0x1')) }
    void networkOf(curious)
  })
  for (const each of [network, methods, methods.names, methods.get('eth_call')]) t.ok(Object.isFrozen(each))
})

t.test('a return value that is no reply is a bug, and counted as one', async t => {
  const wrong = [undefined, null, {}, 'no', { result: '0x1', source: 'local' }]
  for (const [i, reply] of wrong.entries()) {
    const { network, metrics } = await networkOf(
      definePlugin({ name: 'invalid', summary: 'Returns no reply.', terminal: true, options, create: () => async () => reply as never }),
    )
    await t.rejects(
      Promise.resolve(network.run(fakeCall('eth_chainId'))),
      { name: 'TypeError', message: /^a plugin returned neither/ },
      `${i}`,
    )
    t.match(formatMetrics(metrics.families()), 'tollgate_calls_total{network="net",method="eth_chainId",outcome="internal"} 1\n')
  }
})

t.test('below a plugin that shares answers', async t => {
  const above = definePlugin({
    name: 'above',
    summary: 'Writes of the caller what it knows.',
    options,
    writes: ['request', 'account', 'key'],
    create: () => (call, next) => {
      const request = { method: 'eth_gasPrice', params: [], of: 'alice' }
      return next(withContext(call, { request, account: fakeAccount, key: fakeKey }))
    },
  })
  /** Shares nothing, but may. */
  const sharing = (passOn: (call: Call<'request'>, text: string) => Call<'request' | 'target'>) =>
    definePlugin({
      name: 'sharing',
      summary: 'May share answers.',
      options,
      reads: ['request'],
      writes: ['target'],
      shares: true,
      create:
        (_options, { vary }) =>
        (call, next) =>
          next(passOn(call, vary(call))),
    })
  const withTarget = (call: Call<'request'>, variant?: string) => ({ ...withContext(call, { target: fakeTarget }), variant })
  const varyingBy = (header: string, seen: Call[]) =>
    definePlugin({
      name: `varying-by-${header}`,
      summary: 'Varies by a header.',
      options,
      vary: (_context, _options, { headers }) => String(headers[header]),
      create: () => (call, next) => {
        seen.push(call)
        return next({ ...call })
      },
    })
  const lastWith = (seen: Call[]) =>
    definePlugin({
      name: 'last',
      summary: 'Answers.',
      terminal: true,
      options,
      create: () => async call => {
        seen.push(call)
        return fakeResult('0x1')
      },
    })
  const callOf = (headers: Record<string, string>) => ({ ...fakeCall('eth_gasPrice'), origin: fakeOrigin({ headers, requestId: 'r-7' }) })

  t.test('a call has the request, what that plugin wrote, and an origin of its own', async t => {
    const seen: Call[] = []
    const { network, log } = await networkOf(above, sharing(withTarget), lastWith(seen))
    const controller = new Cancellation()
    await network.run({ ...callOf({ a: 'x' }), signal: controller })
    const [shared] = seen
    t.same(shared?.context, { request: { method: 'eth_gasPrice', params: [] }, target: fakeTarget })
    t.same(shared?.message, { jsonrpc: '2.0', method: 'eth_gasPrice', params: [] })
    const { requestId, signal, ...rest } = { ...shared?.origin }
    t.same(rest, { transport: 'shared', network: 'devnet', key: undefined, originHeader: undefined, ip: '', headers: {}, state: {} })
    t.equal(signal, controller, 'the signal of the call')
    t.equal(shared?.signal, controller)
    t.same(
      log.lines.map(({ level, fields }) => [level, fields]),
      [['debug', { requestId: 'r-7', sharedRequestId: requestId }]],
      'the log tells which call it is of',
    )
    t.not(requestId, 'r-7')
  })

  t.test('the gateway still knows whose call it is, without a word to the plugins', async t => {
    const seen: Call[] = []
    const { network } = await networkOf(above, sharing(withTarget), lastWith(seen))
    const origin = fakeOrigin({ ip: '10.0.0.1', state: { accountId: 'alice' } })
    await network.run({ ...fakeCall('eth_gasPrice'), origin })
    const shared = seen[0]!.origin
    t.equal(ownerOf(shared), 'alice')
    t.notMatch(inspect(shared, { showHidden: true }), /alice/)
    t.equal(ownerOf(fakeOrigin({ ip: '10.0.0.1' })), '10.0.0.1')
  })

  t.test('each plugin has as its variant what its own vary() returned, for the plugin that shares if that passes it on', async t => {
    for (const passOn of [withTarget, (call: Call<'request'>) => withTarget(call), (call: Call<'request'>) => withTarget(call, '1 11 2')]) {
      const seen: Call[] = []
      const { network } = await networkOf(above, sharing(passOn), varyingBy('a', seen), varyingBy('b', seen), lastWith(seen))
      await network.run(callOf({ a: 'x', b: 'y,"' }))
      t.same(
        seen.map(({ variant }) => variant),
        passOn(fakeCall('')).variant === undefined || passOn === withTarget ? ['x', 'y,"', undefined] : ['1', '2', undefined],
      )
    }
  })

  t.test("a plugin has its variant above too, and where no plugin shares; it is nobody else's", async t => {
    const seen: Call[] = []
    const shared = await networkOf(
      above,
      varyingBy('a', seen),
      sharing(call => ({ ...withTarget(call), variant: call.variant })),
      varyingBy('b', seen),
      lastWith(seen),
    )
    await shared.network.run(callOf({ a: 'x', b: 'y' }))
    const alone = await networkOf(above, varyingBy('a', seen), lastWith(seen))
    await alone.network.run(callOf({ a: 'z' }))
    t.same(
      seen.map(({ variant }) => variant),
      ['x', 'y', undefined, 'z', undefined],
    )
  })

  t.test('a plugin has no admit(), which would know the caller', async t => {
    const admitting = definePlugin({
      name: 'admitting',
      summary: 'Admits callers.',
      options,
      create: () => ({ handle: (call, next) => next(call), admit: () => undefined }),
    })
    const { problems } = await buildNetwork(configOf([above, sharing(withTarget), admitting, last]), hostServices())
    t.match(problems, [{ message: 'admitting: admit() must not be below sharing, which shares answers between callers' }])
    const { problems: none } = await buildNetwork(configOf([above, admitting, sharing(withTarget), last]), hostServices())
    t.same(none, [])
  })

  t.test('the compiler keeps a handler from the context that its vary() reads', async t => {
    const plugin = definePlugin({
      name: 'typed',
      summary: 'Varies by account.',
      options,
      reads: ['request', 'account'],
      vary: ({ account }) => account.name,
      // @ts-expect-error only vary() has the account
      create: () => (call, next) => next(call.context.account === undefined ? call : { ...call, signal: undefined }),
    })
    const fitting = definePlugin({
      name: 'typed',
      summary: 'Varies by account.',
      options,
      reads: ['request', 'account'],
      vary: ({ account }) => account.name,
      create: () => (call, next) => (call.context.request.method === call.variant ? next(call) : next({ ...call, signal: undefined })),
    })
    const split = definePlugin({
      name: 'typed',
      summary: 'Varies by account, and reads the node of the call.',
      options,
      reads: ['request', 'target'],
      variesBy: ['account'],
      vary: ({ account }) => account.name,
      create: () => (call, next) => (call.context.target.name === call.variant ? next(call) : next({ ...call, signal: undefined })),
    })
    t.ok(plugin.vary !== undefined && fitting.vary !== undefined && split.vary !== undefined)
  })
})

t.test('of an external plugin, the operator is told the file and line of what fails', async t => {
  // A file of its own: the stacks of this file are mapped to its source.
  const path = join(t.testdir({ 'outside.mjs': "export const fail = () => {\n  throw new Error('no disk')\n}\n" }), 'outside.mjs')
  const { fail } = (await import(path)) as { fail(): never }
  const build = async (stage: Partial<Stage>) => {
    const plugin = definePlugin({
      name: 'outside',
      summary: 'Fails.',
      terminal: true,
      options,
      create: () => ({ handle: async () => fakeResult('0x1'), ...stage }),
    })
    const config = configOf([plugin])
    const host = hostServices()
    const steps = config.steps.map(step => ({ ...step, file: { path, shownAs: 'plugins/outside.mjs' } }))
    const { network } = await buildNetwork({ ...config, steps }, host)
    if (network === undefined) throw new Error('the network cannot be built')
    return { network, log: host.log }
  }
  const place = /\(plugins\/outside\.mjs:2:9\)$/
  const starting = await build({ start: async () => fail() })
  await t.rejects(starting.network.start(), { message: /^network net: outside did not start: Error: no disk \(plugins/ })
  await t.rejects(starting.network.start(), { message: place })
  const stopping = await build({ stop: async () => fail() })
  await stopping.network.stop()
  t.match(stopping.log.lines, [{ level: 'error', message: 'outside did not stop', fields: { err: { plugin: 'outside', message: place } } }])
  for (const admit of [fail, async () => fail()]) {
    const { network } = await build({ admit })
    t.match(
      await Promise.resolve()
        .then(() => network.admit(fakeOrigin()))
        .catch((bug: unknown) => bug),
      { plugin: 'outside', message: place },
    )
  }
  const { network } = await build({ handle: (call, next) => next(call) })
  await t.rejects(async () => network.run(fakeCall('eth_chainId')), { plugin: 'outside', message: /called next\(\)/ })
  const passing = await build({ passes: () => fail() })
  await t.rejects(async () => passing.network.run(fakeCall('eth_chainId')), { plugin: 'outside', message: place })
  const handling = await build({ passes: () => false })
  t.equal(valueOrErrorCode(await handling.network.run(fakeCall('eth_chainId'))), '0x1')
  const working = await build({ admit: () => undefined, offers: () => false })
  t.same([working.network.admit(fakeOrigin()), valueOrErrorCode(await working.network.run(fakeCall('eth_chainId')))], [undefined, '0x1'])
  t.same(working.network.describeMethods(), [], 'what a plugin refuses is not described')
  const describing = await build({ describeMethods: () => [{ name: 'a_b', credits: 3, params: [] }] })
  t.same(describing.network.describeMethods(), [{ name: 'a_b', credits: 3, params: [] }])
})

t.test('singletons', async t => {
  /** A plugin that takes one singleton and counts how often it is made and closed. */
  const countingPlugin = (over: Partial<Stage> = {}) => {
    const counts = { made: 0, closed: 0 }
    const taken: unknown[] = []
    const make = () => {
      counts.made += 1
      return { close: async () => void (counts.closed += 1) }
    }
    const plugin = definePlugin({
      name: 'counting',
      summary: 'Takes a singleton.',
      options,
      create(_options, { singleton }) {
        taken.push(singleton('thing', { size: 1 }, make))
        return { handle: (call, next) => next(call), ...over }
      },
    })
    return { plugin, counts, taken }
  }
  const build = async (host: HostServices, config: NetworkConfig) => {
    const { network } = await buildNetwork(config, host)
    if (network === undefined) throw new Error('the network cannot be built')
    return network
  }

  t.test('a pipeline that is built before the old one is stopped gets the same object; the last one to stop closes it', async t => {
    const host = hostServices()
    const { plugin, counts, taken } = countingPlugin()
    const old = await build(host, configOf([plugin, last]))
    // A step more above the plugin changes nothing for it.
    const added = definePlugin({ name: 'added', summary: 'Is new.', options, create: () => (call, next) => next(call) })
    const current = await build(host, configOf([added, plugin, last]))
    t.equal(current.heads, old.heads, 'heads too')
    await old.stop()
    t.same(counts, { made: 1, closed: 0 })
    t.equal(taken[0], taken[1])
    await current.stop()
    await current.stop()
    t.same(counts, { made: 1, closed: 1 })
    t.not((await build(host, configOf([plugin, last]))).heads, old.heads)
    t.same(counts, { made: 2, closed: 1 })
  })

  t.test('a network with another chain, block time or kind of node shares nothing with what it was', async t => {
    for (const change of [{ chainId: 2 }, { blockTime: 2_000 }, { devNode: true }]) {
      const host = hostServices()
      const { plugin, counts } = countingPlugin()
      const old = await build(host, configOf([plugin, last]))
      const current = await build(host, { ...configOf([plugin, last]), ...change })
      t.not(current.heads, old.heads)
      t.same(counts, { made: 2, closed: 0 }, JSON.stringify(change))
      await old.stop()
      t.same(counts, { made: 2, closed: 1 })
    }
  })

  t.test('are closed after the stages that use them have stopped, and a failure is logged', async t => {
    const host = hostServices()
    const { plugin, counts } = countingPlugin({
      stop: async () => {
        t.equal(counts.closed, 0)
      },
    })
    const failing = definePlugin({
      name: 'failing',
      summary: 'Takes a singleton that does not close.',
      options,
      create(_options, { singleton }) {
        singleton('thing', null, () => ({ close: () => Promise.reject(new Error('busy')) }))
        return (call, next) => next(call)
      },
    })
    await (await build(host, configOf([plugin, failing, last]))).stop()
    t.equal(counts.closed, 1)
    t.match(host.log.lines, [{ level: 'error', message: 'a singleton did not stop', fields: { err: { errors: [{ message: 'busy' }] } } }])
  })

  t.test('a build that fails stops the stages it created and closes what they took', async t => {
    const host = hostServices()
    const stopped: string[] = []
    const { plugin, counts } = countingPlugin({ stop: async () => void stopped.push('counting') })
    const refusing = definePlugin({
      name: 'refusing',
      summary: 'Refuses its options.',
      options,
      create: () => {
        throw new Error('no')
      },
    })
    const { network, problems } = await buildNetwork(configOf([plugin, refusing, last]), host)
    t.equal(network, undefined)
    t.match(problems, [{ message: 'refusing: cannot be created: Error: no' }])
    t.same([stopped, counts], [['counting'], { made: 1, closed: 1 }])
  })
})

t.test('a network that has stopped leaves nothing behind: no series, and no reference to it', async t => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const host = hostServices()
  // A constant, as an author writes it: it needs no `as const`.
  const seen = { name: 'tollgate_seen_total', help: 'Calls.', labels: ['kind'] }
  const counting = definePlugin({
    name: 'counting',
    summary: 'Counts calls.',
    options,
    create(_options, { metrics, log }) {
      const calls = metrics.counter(seen, { kind: 'any' })
      return async (call, next) => {
        calls.add()
        log.debug({}, 'seen')
        return next(call)
      }
    },
  })
  const stopped: WeakRef<object>[] = []
  const openAndStop = async (overlapping = false) => {
    const { network } = await buildNetwork(configOf([counting, last]), host)
    await network?.start()
    await network?.run(fakeCall('eth_chainId'))
    if (overlapping) await openAndStop()
    t.ok(
      host.metrics.families().some(({ name }) => name === 'tollgate_seen_total'),
      'its series stay while a pipeline of it runs',
    )
    await network?.stop()
    if (network !== undefined) stopped.push(new WeakRef(network))
  }
  await openAndStop(true)
  t.same(host.metrics.families(), [])
  // What a WeakRef has named in a turn of the event loop stays until its end.
  for (let i = 0; i < 100 && stopped.some(ref => ref.deref() !== undefined); i++) {
    await new Promise(setImmediate)
    collectGarbage()
  }
  t.same(
    stopped.map(ref => ref.deref()),
    [undefined, undefined],
  )
})

t.test('what an external plugin makes of a reply settles that reply with its own', async t => {
  const outcomes: string[] = []
  const replyNamed = (name: string) => ({
    ...fakeResult('0x1'),
    onSettled: (isDelivered: boolean) => void outcomes.push(`${name} ${isDelivered}`),
  })
  const made = new RepliesFromBelow()
  made.add(replyNamed('first'))
  const latest = made.add(replyNamed('second'))
  t.equal(made.replaceBy(latest), latest)
  t.equal(made.replaceBy({ ...latest }).onSettled, latest.onSettled)
  made.replaceBy(fakeResult('0x2')).onSettled?.(true)
  t.same(outcomes.splice(0), ['first false', 'second true'], 'of two, the latest counts')
  const [refused, failed, late] = [new RepliesFromBelow(), new RepliesFromBelow(), new RepliesFromBelow()]
  refused.add(replyNamed('refused'))
  refused.replaceBy(refuse('unavailable'))
  failed.add(replyNamed('failed'))
  failed.fail()
  late.replaceBy(fakeResult('0x2'))
  late.add(replyNamed('late'))
  t.same(outcomes, ['refused false', 'failed false', 'late false'])
})

t.test('an external plugin may keep a long result, whose memory is then left to the garbage collector', async t => {
  const { result, memory } = createLongResult(600_000)
  const given = new RepliesFromBelow().add({ source: 'node', result }) as Result
  t.equal(memory.release(), 0)
  t.equal(toBuffer(given.result).length, 600_000)
  t.equal(resultMemoryOf(given), undefined)
})
