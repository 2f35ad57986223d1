import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { isFailure } from '../../src/plugin/reply.ts'
import type { AnyPlugin, Call, Next, Reply, Stage } from '../../src/plugin/plugin.ts'
import type { ContextKey } from '../../src/plugin/call.ts'
import { TestClock, createStage, fakeCall, fakeOrigin, fakeResult, unreachableNext } from '../support/fakes.ts'
import { TokenBuckets } from '../../src/services/rate-limits.ts'
import { checkConfig, exampleNetworks, examplePlugins, exampleTests } from './check-config.ts'

// The compiler does not look into JavaScript that it did not compile.
const loadPlugin = async (file: string): Promise<AnyPlugin> =>
  ((await import(pathToFileURL(resolve('docs/examples', file)).href)) as { readonly default: AnyPlugin }).default

const readNetwork = (file: string): string => readFileSync(join('docs/examples/networks', file), 'utf8')

const openStage = async (file: string, options: object, services = {}): Promise<Stage<ContextKey, ContextKey>> =>
  createStage(await loadPlugin(file), options, services)

const withRegionHeader = (region?: string): Call<ContextKey> => ({
  ...fakeCall('eth_blockNumber'),
  origin: fakeOrigin({ headers: region === undefined ? {} : { 'cf-ipcountry': region } }),
})

const kindOf = (reply: Reply): string => (isFailure(reply) ? reply.kind : 'result')

t.test('each network passes check, with all its variables set', async t => {
  t.ok(exampleNetworks.length >= 2)
  for (const file of exampleNetworks) {
    const checked = await checkConfig(t.testdir(), { [`networks/${file}`]: readNetwork(file) })
    t.same(checked, { code: 0, problems: '' }, file)
  }
})

t.test('the shipped gateway.yaml and networks pass check without a warning, with all variables set', async t => {
  const files = ['gateway.yaml', ...readdirSync('configs/networks').map(name => `networks/${name}`)]
  const contents = Object.fromEntries(files.map(file => [file, readFileSync(join('configs', file), 'utf8')]))
  t.same(await checkConfig(t.testdir(), contents), { code: 0, problems: '' })
})

t.test('each plugin is used by a network, and is called like its file', async t => {
  const used = exampleNetworks.map(readNetwork).join()
  t.ok(examplePlugins.length >= 3)
  for (const file of examplePlugins) {
    t.ok(used.includes(`use: ../${file}`), file)
    t.equal(`${(await loadPlugin(file)).name}.js`, file)
  }
})

t.test('each plugin has fewer than 100 lines, and the tests beside plugins pass', async t => {
  for (const file of examplePlugins) t.ok(readFileSync(join('docs/examples', file), 'utf8').split('\n').length < 100, file)
  t.ok(exampleTests.length >= 5)
  const imports = exampleTests.map(file => `await import(${JSON.stringify(pathToFileURL(resolve('docs/examples', file)).href)})`)
  // One process for all: each would take a second. Without the options that tap sets for its own processes.
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...env } = process.env
  const args = ['--test-reporter=tap', '--input-type=module', '--eval', imports.join('\n')]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8', timeout: 100_000 })
  t.equal(status, 0, stdout.match(/^not ok[^]*?\.\.\.$/gm)?.join('\n') ?? stderr)
  t.match(stdout, /^# pass (?:[6-9]\d|1\d\d)$/m)
})

t.test('the rate limit passes as many calls as an account may make, and more as time passes', async t => {
  const clock = new TestClock()
  const { handle } = await openStage('call-limit.js', { calls: 2 }, { rateLimits: new TokenBuckets(clock) })
  const next: Next = async () => fakeResult('0x1')
  const call = async (id: string) => kindOf(await handle(fakeCall('eth_blockNumber', [], { account: { id, name: id, plan } }), next))
  t.same([await call('a'), await call('a'), await call('a'), await call('b')], ['result', 'result', 'rate', 'result'])
  clock.advance(500)
  t.same([await call('a'), await call('a')], ['result', 'rate'])
})

const plan = { name: 'core', dailyCredits: 1000, forwarding: false }

t.test('the region of a call is what the header says, in upper case', async t => {
  const { handle } = await openStage('region.js', { header: 'CF-IPCountry' })
  const regions: unknown[] = []
  const next: Next<ContextKey> = async ({ context }) => {
    regions.push({ ...context }['region' as ContextKey])
    return fakeResult('0x1')
  }
  for (const region of ['de', undefined]) await handle(withRegionHeader(region), next)
  t.same(regions, ['DE', 'UNKNOWN'])
})

t.test('a region that is not listed is rejected, with the regions that are', async t => {
  const { handle } = await openStage('region-access.js', { allowed: ['de', 'US'] })
  const from = (region: string): Call<ContextKey> => fakeCall('eth_blockNumber', [], { region } as object)
  t.equal(kindOf(await handle(from('DE'), async () => fakeResult('0x1'))), 'result')
  const refusal = await handle(from('FR'), unreachableNext)
  t.match(refusal, { kind: 'forbidden', error: { code: -32091, data: { reason: 'region', allowed: ['de', 'US'] } } })
})

t.test('a plugin that reads a context key is refused above the plugin that writes it, and below one that shares answers', async t => {
  const region = '  - use: ../region.js\n    with: { header: cf-ipcountry }\n'
  const access = '  - use: ../region-access.js\n    with: { allowed: [DE, FR, US] }\n'
  const network = readNetwork('scroll-mainnet.yaml')
  const checkWith = (t: Test, yaml: string) => checkConfig(t.testdir(), { 'networks/scroll-mainnet.yaml': yaml })
  t.ok(network.includes(region + access))
  t.match(await checkWith(t, network.replace(region + access, access + region)), {
    code: 78,
    problems: /region-access reads `region`, which no earlier plugin writes/,
  })
  const below = network.replace(access, '').replace('  - failover:', `${access}  - failover:`)
  t.match(await checkWith(t, below), { code: 78, problems: /region-access reads `region` and has no vary\(\)/ })
})
