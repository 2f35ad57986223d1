import t from 'tap'
import { buildNetwork } from '../../src/core/network.ts'
import type { HostServices } from '../../src/core/network.ts'
import { definePlugin } from '../../src/plugin/plugin.ts'
import type { AnyPlugin, Origin, Stage } from '../../src/plugin/plugin.ts'
import { refuse } from '../../src/plugin/reply.ts'
import { openHeadsSource } from '../../src/services/chain-heads/index.ts'
import { openSingletons } from '../../src/core/singletons.ts'
import { formatMetrics, createMetricsRegistry } from '../../src/services/metrics.ts'
import { results } from '../../src/services/results.ts'
import { shippedTable } from '../services/method-table/shipped-table.ts'
import { TestClock, TestLog, fakeCall, fakeOrigin, fakeResult, valueOrErrorCode } from '../support/fakes.ts'

/** A network of these plugins, without options. */
const networkOf = (...plugins: readonly AnyPlugin[]) => {
  const [log, metrics] = [new TestLog(), createMetricsRegistry()]
  const steps = plugins.map(plugin => ({
    name: plugin.name,
    plugin,
    options: {},
    problemAt: () => {
      throw new Error('a problem')
    },
  }))
  const config = { name: 'net', chainId: 1, blockTime: 1000, hosts: [], methods: shippedTable, steps, file: 'net.yaml' }
  const unused = () => {
    throw new Error('asked of the world')
  }
  const lent: HostServices = {
    clock: new TestClock(),
    log,
    metrics,
    singletons: openSingletons(),
    headsSource: openHeadsSource(),
    results,
    version: '1',
    cacheBytes: 1,
    accounts: { find: unused },
    ledger: { charge: unused },
    usage: { count: unused },
    upstreamClient: { request: unused, disconnects: unused },
    sharedCaches: { open: unused },
  }
  const { network } = buildNetwork(config, lent)
  if (network === undefined) throw new Error('the network cannot be built')
  return { network, log, metrics }
}

const options = { type: 'object', properties: {} } as const

const last = definePlugin({ name: 'last', summary: 'Answers.', terminal: true, options, create: () => async () => fakeResult('0x1') })

t.test('a stage may be an instance of a class: each of its methods is called as its own', async t => {
  class Doorman implements Stage {
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
  const doorman = new Doorman()
  const { network, log } = networkOf(definePlugin({ name: 'doorman', summary: 'Opens the door.', options, create: () => doorman }), last)
  t.match(network.admit(fakeOrigin()), { kind: 'unavailable' })
  await network.start()
  t.equal(network.admit(fakeOrigin()), undefined)
  t.equal(valueOrErrorCode(await network.run(fakeCall('eth_chainId'))), '0x1')
  await network.stop()
  t.match(network.admit(fakeOrigin()), { kind: 'unavailable' })
  t.same(doorman.done, ['admit http', 'admit http', 'handle', 'admit http'])
  t.same(log.lines, [])
})

t.test('a plugin is lent its services, and nothing that only the host needs', async t => {
  const names: string[] = []
  const curious = definePlugin({
    name: 'curious',
    summary: 'Looks.',
    options,
    create(_options, services) {
      names.push(...Object.keys(services))
      return (call, next) => next(call)
    },
  })
  networkOf(curious, last)
  t.same(names.sort(), [
    'accounts',
    'cacheBytes',
    'clock',
    'heads',
    'ledger',
    'log',
    'methods',
    'metrics',
    'network',
    'results',
    'sharedCaches',
    'singleton',
    'upstreamClient',
    'usage',
    'vary',
  ])
})

t.test('what a plugin returns that is no reply is a bug, and counted as one', async t => {
  const wrong = [undefined, null, {}, 'no', { result: '0x1', source: 'local' }]
  for (const [i, reply] of wrong.entries()) {
    const { network, metrics } = networkOf(
      definePlugin({ name: 'odd', summary: 'Is odd.', terminal: true, options, create: () => async () => reply as never }),
    )
    await t.rejects(
      Promise.resolve(network.run(fakeCall('eth_chainId'))),
      { name: 'TypeError', message: /^a plugin returned neither/ },
      `${i}`,
    )
    t.match(formatMetrics(metrics.families()), 'tollgate_calls_total{network="net",method="eth_chainId",outcome="internal"} 1\n')
  }
})
