import { existsSync, readFileSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { plugins as builtIn } from '../../plugins/index.ts'
import { accountsCommand } from '../../src/cli/accounts.ts'
import { createCheckCommand } from '../../src/cli/check.ts'
import { exitCodes } from '../../src/cli/command.ts'
import type { Config } from '../../src/config/types.ts'
import type { Problem } from '../../src/config/problem.ts'
import { dryRunNetworks } from '../../src/core/dry-run.ts'
import { networkYaml, stubPlugins, writeConfig } from '../config/config-fixture.ts'
import { runCommand, createTestConfigs } from './run-command.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { renamedKeys } from '../../src/util/renamed-keys.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'

type DryRun = (config: Config) => Promise<readonly Problem[]>

const noProblems: DryRun = async () => []

/** Runs `check` on the files of a configuration; `build` is what comes after loading it. */
const check = async (t: Test, files: Readonly<Record<string, string>>, env = {}, dryRun = noProblems, pluginList = stubPlugins) => {
  const dir = writeConfig(t.testdir(), files)
  const [out, err]: [string[], string[]] = [[], []]
  const terminal = { env, out: (line: string) => out.push(line), err: (line: string) => err.push(line) }
  const code = await createCheckCommand(pluginList, dryRun).run(['--config', dir], terminal)
  return { code, out, err: err.map(text => text.replaceAll(`${dir.slice(process.cwd().length + 1)}/`, '')) }
}

const routeStep = '  - route: { upstreams: [{ name: own, url: "${SIDE_URL}" }] }\n'
const optionalNetwork = networkYaml('side-chain', `  - shape:\n${routeStep}  - ask:\n`).replace('pipeline:', 'optional: true\npipeline:')

t.test('a good configuration is summed up on stdout', async t => {
  const files = { 'networks/main-chain.yaml': networkYaml('main-chain'), 'networks/side-chain.yaml': optionalNetwork }
  t.same(await check(t, files), {
    code: exitCodes.ok,
    out: ['no problems; 1 network served, 1 not served', '  main-chain  shape > ask', '  side-chain  not served: SIDE_URL is not set'],
    err: [],
  })
  t.same(await check(t, files, { SIDE_URL: 'http://localhost:8545' }), {
    code: exitCodes.ok,
    out: ['no problems; 2 networks served', '  main-chain  shape > ask', '  side-chain  shape > route > ask'],
    err: [],
  })
})

t.test('problems of files and of stages come in one report on stderr, with exit code 78', async t => {
  const mistyped = networkYaml('b-net', '  - shap:\n  - ask:\n')
  const files = { 'networks/a-net.yaml': networkYaml('a-net'), 'networks/b-net.yaml': mistyped }
  const found = await check(t, files, {}, async ({ networks }) =>
    networks.flatMap(({ steps }) => steps.map(step => step.problemAt([], `${step.name}: cannot be made`))),
  )
  t.equal(found.code, exitCodes.config)
  t.same(found.out, [])
  t.equal(
    found.err.join('\n'),
    `networks/a-net.yaml:7:5: shape: cannot be made
  7 |   - shape:
    |     ^

networks/a-net.yaml:8:5: ask: cannot be made
  8 |   - ask:
    |     ^

networks/b-net.yaml:7:5: unknown plugin \`shap\`
  7 |   - shap:
    |     ^ did you mean \`shape\`?

3 problems in 2 files`,
  )
})

const table = readFileSync('configs/methods/ethereum.yaml', 'utf8')
/** The steps that networks ship with, with options of their plugins. */
const shippedPluginNames = ['envelope', 'key-auth', 'network-access', 'credits', 'params', 'cache', 'failover', 'upstream']
const shippedSteps = (options: Readonly<Record<string, string>> = {}) =>
  shippedPluginNames.map(
    name => `  - ${name}: ${options[name] ?? (name === 'failover' ? '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }] }' : '{}')}\n`,
  )

const shipped = (options: Readonly<Record<string, string>>) => networkYaml('real-net', shippedSteps(options).join(''))

t.test('with the built-in plugins, a method that is named but not in the table is a problem wherever it is named', async t => {
  const files = {
    'methods/ethereum.yaml': table,
    'networks/real-net.yaml': shipped({
      credits: '{ costs: { eth_getLog: 300 } }',
      cache: '{ methods: { eth_cal: never } }',
      failover:
        '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }], partner: { name: p, url: "http://127.0.0.1:1", methods: [eth_getLogs, eth_getLog] } }',
    }),
  }
  const { code, err } = await check(t, files, {}, dryRunNetworks, builtIn)
  t.equal(code, exitCodes.config)
  t.match(err.join(''), /credits: the method eth_getLog is not in the method table; did you mean `eth_getLogs`\?/)
  t.match(err.join(''), /cache: the method eth_cal is not in the method table; did you mean `eth_call`\?/)
  t.match(err.join(''), /failover: the method eth_getLog is not in the method table; did you mean `eth_getLogs`\?/)
})

t.test('with the built-in plugins, what could never answer is a problem: no time, no bytes, a URL that is not HTTP', async t => {
  const files = {
    'methods/ethereum.yaml': table,
    'networks/real-net.yaml': shipped({
      failover: '{ upstreams: [{ name: own, url: "wss://node.example.org" }], }',
      upstream: '{ timeout: 0s, maxBytes: 0B, probeAfter: 0ms }',
    }),
  }
  const { code, err } = await check(t, files, {}, dryRunNetworks, builtIn)
  t.equal(code, exitCodes.config)
  t.match(err.join(''), /13:47: failover: url must begin with http:\/\/ or https:\/\//)
  for (const name of ['timeout', 'maxBytes', 'probeAfter']) t.match(err.join(''), `${name} must be greater than 0`)
  const idle = shipped({ failover: '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }], breaker: { openFor: 0s } }' })
  t.match(await check(t, { ...files, 'networks/real-net.yaml': idle }, {}, dryRunNetworks, builtIn), {
    err: [/breaker.openFor must be greater than 0/],
  })
})

t.test('with the built-in plugins, a node whose name cannot stand in a header is a problem', async t => {
  const named = (own: string, partner: string) =>
    check(
      t,
      {
        'methods/ethereum.yaml': table,
        'networks/real-net.yaml': shipped({
          failover: `{ upstreams: [{ name: ${own}, url: "http://127.0.0.1:1" }], partner: { name: ${partner}, url: "http://127.0.0.1:1" } }`,
        }),
      },
      {},
      dryRunNetworks,
      builtIn,
    )
  const { code, err } = await named('узел', '"a b"')
  t.equal(code, exitCodes.config)
  t.match(err.join(''), /13:37: failover\.upstreams\[0\]\.name must be a name of ASCII characters without spaces, not "узел"/)
  t.match(err.join(''), /failover\.partner\.name must be a name of ASCII characters without spaces, not "a b"/)
  t.match(await named('""', 'p'), { code: exitCodes.config, err: [/without spaces, not ""/] })
  t.match(await named('own.eu-1:8545', 'P(2)'), { code: exitCodes.ok })
})

t.test('the hint for an old key or value is its current name', async t => {
  const upstreams = 'upstreams: [{ name: own, url: "http://127.0.0.1:1" }]'
  const entries = [
    '{ params: [{ title: a, is: hash, called: a thing, fill: "0x1" }], keep: head, at: 0, resend: false, split: true }',
    '{ word: true, answer: { is: chainId }, cache: head }',
    '{ height: true, cache: found, params: [{ title: b, type: object, notAbove: { a: b } }] }',
  ]
  const categories = ['known', 'tooWide', 'unknown', 'pruned', 'badParams', 'noMethod', 'misread', 'limited', 'denied', 'away']
  const oldTable = [
    'defaults: { cost: 80, cache: never, class: light, idempotent: true }',
    `methods:\n${entries.map((entry, i) => `  m${i}: ${entry}`).join('\n')}`,
    `errors:\n${[...categories.map(name => `  - { category: ${name}, code: 1 }`), '  - { means: reverted, code: 3 }'].join('\n')}`,
  ]
  const files = {
    'gateway.yaml': 'store: lmdb:../data\nplans: { core: { dailyCredits: 1 } }\nusage: { keep: 90d }\n',
    'methods/ethereum.yaml': `${oldTable.join('\n')}\n`,
    'networks/real-net.yaml': shipped({
      credits: '{ away: open }',
      cache: '{ tooMany: 1s, methods: { eth_call: head, eth_getLogs: found } }',
      failover: `{ ${upstreams}, breaker: { calls: 1, errors: 1, streak: 1, pause: 1s } }`,
      upstream: '{ silence: 1s, maxPieces: 1 }',
    }),
  }
  const { code, err } = await check(t, files, {}, dryRunNetworks, builtIn)
  t.equal(code, exitCodes.config)
  const report = err.join('\n')
  const hints = new Set(Array.from(report.matchAll(/\^ did you mean `(\w+)`\?/g), ([, name]) => name))
  t.same([...hints].sort(), [...new Set(Object.values(renamedKeys).flat())].sort(), 'each current name is a hint')
  t.notOk(
    Object.keys(renamedKeys).some(name => hints.has(name)),
    'no old name is',
  )
})

t.test('the plugin in README may stand where README says, and nowhere else', async t => {
  const code = readFileSync('docs/examples/rate-limit.js', 'utf8')
  const networks = [...shippedSteps(), ''].map((_, place) => {
    const steps = shippedSteps().toSpliced(place, 0, '  - { use: ../rate-limit.mjs, with: { calls: 50 } }\n')
    return [`networks/net-${place}.yaml`, networkYaml(`net-${place}`, steps.join(''))]
  })
  const files = { 'methods/ethereum.yaml': table, 'rate-limit.mjs': code, ...(Object.fromEntries(networks) as Record<string, string>) }
  const { err } = await check(t, files, {}, dryRunNetworks, builtIn)
  const refused = new Set(Array.from(err.join('\n').matchAll(/^networks\/net-(\d)/gm), ([, place]) => Number(place)))
  const [auth, cache] = [shippedPluginNames.indexOf('key-auth'), shippedPluginNames.indexOf('cache')]
  t.same(
    [...refused],
    [...networks.keys()].filter(place => place <= auth || place > cache),
  )
  t.match(err.join(''), /rate-limit must run exactly once for a call, but failover above it may repeat calls/)
})

t.test('what is wrong with gateway.yaml hides nothing of the networks, and breaks nothing', async t => {
  const files = { 'methods/ethereum.yaml': table, 'networks/real-net.yaml': shipped({ credits: '{ costs: { eth_getLog: 300 } }' }) }
  const { code, err } = await check(t, { ...files, 'gateway.yaml': 'store: lmdb:../data\nplan: {}\n' }, {}, dryRunNetworks, builtIn)
  t.equal(code, exitCodes.config)
  t.match(err.join(''), /gateway.yaml:2:1: unknown key `plan`[^]*real-net.yaml[^]*eth_getLog is not in the method table/)
  t.match(
    await check(
      t,
      { 'methods/ethereum.yaml': table, 'networks/real-net.yaml': shipped({ cache: '{ maxBytes: 0B }' }) },
      {},
      dryRunNetworks,
      builtIn,
    ),
    { code: exitCodes.ok },
  )
})

t.test('a plugin from outside that throws while it is loaded, checked or created is a problem at its place', async t => {
  const plugin = (name: string, rest: string) =>
    `export default { name: '${name}', summary: 'Breaks.', options: { type: 'object', properties: {} }, ${rest} }`
  const broken = `() => { throw new TypeError('out of order') }`
  const files = {
    'broken/a.mjs': `throw new Error('out of order')`,
    'broken/b.mjs': plugin('b', `create: () => () => undefined, check: ${broken}`),
    'broken/c.mjs': plugin('c', `create: ${broken}`),
    'networks/a-net.yaml': networkYaml(
      'a-net',
      '  - shape:\n  - use: ../broken/a.mjs\n  - use: ../broken/b.mjs\n  - use: ../broken\n  - ask:\n',
    ),
    'broken/d.mjs': plugin('d', `create: async () => { throw new Error('later') }`),
    'broken/e.mjs': plugin('e', `create: () => ({ handles: () => undefined })`),
    'networks/b-net.yaml': networkYaml(
      'b-net',
      '  - use: ../broken/c.mjs\n  - use: ../broken/d.mjs\n  - use: ../broken/e.mjs\n  - shape:\n  - ask:\n',
    ),
  }
  const { code, err } = await check(t, files, {}, dryRunNetworks)
  t.equal(code, exitCodes.config)
  for (const said of [
    /a-net.yaml:8:10: cannot load ..\/broken\/a.mjs: out of order/,
    /a-net.yaml:9:5: b: check\(\) of the plugin failed: TypeError: out of order/,
    /a-net.yaml:10:10: broken is a directory\n.*\n.*\^ name a file in it/,
    /b-net.yaml:7:5: c: cannot be created: TypeError: out of order/,
    /b-net.yaml:8:5: d: create\(\) must not be async/,
    /b-net.yaml:9:5: e: create\(\) must return a handler, or a stage with `handle`/,
  ])
    t.match(err.join(''), said)
})

t.test('accounts whose plan is gone are told of, and an existing store stays as it was', async t => {
  const { dir, run } = await createTestConfigs(t)
  const file = join(dir, 'gateway.yaml')
  await rm(join(dir, 'networks'), { recursive: true })
  writeConfig(dir, { 'gateway.yaml': await readFile(file, 'utf8'), 'networks/devnet.yaml': networkYaml('devnet') })
  const ran = () => run(createCheckCommand(stubPlugins, noProblems))
  t.equal((await ran()).code, exitCodes.ok)
  t.notOk(existsSync(join(dir, '..', 'data')), 'no store is made')
  for (const name of ['alice', 'bo']) await run(accountsCommand, 'add', name, '--plan', 'core')
  t.notMatch((await ran()).out.join('\n'), /warning/)
  await writeFile(file, (await readFile(file, 'utf8')).replace('core:', 'solid:'))
  const data = () => readFile(join(dir, '..', 'data', 'data.mdb'))
  const before = await data()
  t.match(await ran(), {
    code: exitCodes.ok,
    out: { length: 3, 2: '  warning: gateway.yaml has no plan `core`: calls of 2 accounts on this plan are rejected: alice, bo' },
  })
  t.same(await data(), before)
  await writeFile(join(dir, '..', 'data', 'data.mdb'), 'no store')
  t.equal((await ran()).out.length, 2)
})

t.test('so are those in a redis, and one that cannot be asked is passed over', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const files = {
    'gateway.yaml': `store: ${redis.url}\nplans: { solid: { dailyCredits: 1000 } }\n`,
    'networks/main-chain.yaml': networkYaml('main-chain'),
  }
  t.equal((await check(t, files)).out.length, 2)
  t.same(await redis.send('KEYS', '*'), [], 'no store is made')
  const store = await openStore(redis.address, systemClock)
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  await store.close()
  t.match(await check(t, files), {
    code: exitCodes.ok,
    out: { length: 3, 2: '  warning: gateway.yaml has no plan `core`: calls of 1 account on this plan are rejected: alice' },
  })
  await redis.kill()
  t.match(await check(t, files), { code: exitCodes.ok, out: { length: 2 }, err: [] })
})

t.test('problems of gateway.yaml do not hide behind what the networks need of it', async t => {
  const pipeline =
    '  - key-auth: {}\n  - cache: {}\n  - failover: { upstreams: [{ name: own, url: http://localhost:8545 }] }\n  - upstream: {}\n'
  const files = { 'gateway.yaml': 'store: nowhere\nplans: {}\n', 'networks/main-chain.yaml': networkYaml('main-chain', pipeline) }
  const dir = writeConfig(t.testdir(), files)
  const { code, err } = await runCommand(createCheckCommand(builtIn, dryRunNetworks), ['--config', dir])
  t.equal(code, exitCodes.config)
  t.match(err.join('\n'), /gateway\.yaml:1:8: store must be lmdb:PATH or redis:/)
})

t.test('other words than --config DIR are misuse', async t => {
  const misused = async (...words: string[]) => {
    const { code, err } = await runCommand(createCheckCommand(stubPlugins, noProblems), words)
    t.equal(code, exitCodes.usage)
    return err[0]
  }
  t.equal(await misused('configs'), 'unexpected argument "configs"')
  t.equal(await misused('--dir', 'configs'), 'unknown option --dir')
  t.equal(await misused('--config'), '--config requires a value')
})
