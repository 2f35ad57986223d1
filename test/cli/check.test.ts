import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { createCheckCommand } from '../../src/cli/check.ts'
import { exitCodes } from '../../src/cli/command.ts'
import { dryRunNetworks } from '../../src/core/dry-run.ts'
import { networkYaml, stubPlugins, writeConfig } from '../config/config-fixture.ts'
import { accountsCommand, createTestConfigs, keysCommand, noProblems, runCheck, runCommand } from './run-command.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'

const routeStep = '  - route: { upstreams: [{ name: own, url: "${SIDE_URL}" }] }\n'
const optionalNetwork = networkYaml('side-chain', `  - shape:\n${routeStep}  - ask:\n`).replace('pipeline:', 'optional: true\npipeline:')

t.test('a valid configuration is summarized on stdout', async t => {
  const files = { 'networks/main-chain.yaml': networkYaml('main-chain'), 'networks/side-chain.yaml': optionalNetwork }
  t.same(await runCheck(t, files), {
    code: exitCodes.ok,
    out: ['no problems; 1 network served, 1 not served', '  main-chain  shape > ask', '  side-chain  not served: set SIDE_URL'],
    err: [],
  })
  t.same(await runCheck(t, files, { env: { SIDE_URL: 'http://localhost:8545' } }), {
    code: exitCodes.ok,
    out: ['no problems; 2 networks served', '  main-chain  shape > ask', '  side-chain  shape > route > ask'],
    err: [],
  })
})

t.test('a configuration that serves no network fails, as `start` does', async t => {
  const files = { 'networks/side-chain.yaml': optionalNetwork }
  t.same(await runCheck(t, files), {
    code: exitCodes.config,
    out: ['  side-chain  not served: set SIDE_URL'],
    err: ['no network is served: set SIDE_URL for side-chain'],
  })
  const two = { ...files, 'networks/a-chain.yaml': optionalNetwork.replace('SIDE_URL', 'A_URL').replaceAll('side-chain', 'a-chain') }
  t.same(await runCheck(t, two), {
    code: exitCodes.config,
    out: ['  a-chain     not served: set A_URL', '  side-chain  not served: set SIDE_URL'],
    err: ['no network is served: set A_URL for a-chain; `tollgate check` lists the variables of the others'],
  })
  const { code, out } = await runCheck(t, files, { args: ['--json'] })
  t.equal(code, exitCodes.config)
  t.match(JSON.parse(out.join('')), { problems: [], failures: [/^no network is served/], unserved: [{ network: 'side-chain' }] })
})

t.test('--online fails as `start` does: a Redis that is unreachable, or that drops keys', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer()
  t.teardown(() => redis.remove())
  const check = (url: string, ...args: readonly string[]) =>
    runCheck(
      t,
      { 'gateway.yaml': `store: "${url}"\nplans: { core: { dailyCredits: 1 } }\n`, 'networks/main-chain.yaml': networkYaml('main-chain') },
      { args },
    )
  t.equal((await check(redis.url, '--online')).code, exitCodes.ok)
  t.equal((await check('redis://127.0.0.1:1')).code, exitCodes.ok)
  t.match(await check('redis://127.0.0.1:1', '--online'), { code: exitCodes.failed, out: [], err: [/redis/i] })
  await redis.send('CONFIG', 'SET', 'maxmemory', '100mb')
  await redis.send('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
  t.match(await check(redis.url, '--online'), { code: exitCodes.failed, out: [], err: [/allkeys-lru/] })
})

t.test('problems of files and of stages are reported together on stderr, with exit code 78', async t => {
  const mistyped = networkYaml('b-net', '  - shap:\n  - ask:\n')
  const files = { 'networks/a-net.yaml': networkYaml('a-net'), 'networks/b-net.yaml': mistyped }
  const found = await runCheck(t, files, {
    dryRun: async ({ networks }) =>
      networks.flatMap(({ steps }) => steps.map(step => step.problemAt([], `${step.name}: cannot be created`))),
  })
  t.equal(found.code, exitCodes.config)
  t.same(found.out, [])
  t.equal(
    found.err.join('\n'),
    `networks/a-net.yaml:7:5: shape: cannot be created
  7 |   - shape:
    |     ^

networks/a-net.yaml:8:5: ask: cannot be created
  8 |   - ask:
    |     ^

networks/b-net.yaml:7:5: unknown plugin \`shap\`
  7 |   - shap:
    |     ^ did you mean \`shape\`?

3 problems in 2 files`,
  )
})

t.test('an external plugin that throws while it is loaded, checked or created is a problem of its step', async t => {
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
  const { code, err } = await runCheck(t, files, { dryRun: dryRunNetworks })
  t.equal(code, exitCodes.config)
  for (const message of [
    /a-net.yaml:8:10: cannot load ..\/broken\/a.mjs: out of order \(.*broken\/a.mjs:1:7\)/,
    /a-net.yaml:9:5: b: check\(\) of the plugin failed: TypeError: out of order \(.*broken\/b.mjs:1:\d+\)/,
    /a-net.yaml:10:10: broken is a directory\n.*\n.*\^ name a file in it/,
    /b-net.yaml:7:5: c: cannot be created: TypeError: out of order \(.*broken\/c.mjs:1:\d+\)/,
    /b-net.yaml:8:5: d: create\(\) must not be async/,
    /b-net.yaml:9:5: e: create\(\) must return a handler, or a stage with `handle`/,
  ])
    t.match(err.join(''), message)
})

t.test('accounts whose plan no longer exists are a warning, and an existing store is not changed', async t => {
  const { dir, run } = await createTestConfigs(t)
  const file = join(dir, 'gateway.yaml')
  await rm(join(dir, 'networks'), { recursive: true })
  writeConfig(dir, { 'gateway.yaml': await readFile(file, 'utf8'), 'networks/devnet.yaml': networkYaml('devnet') })
  const ran = () => run(createCheckCommand(stubPlugins, noProblems))
  t.equal((await ran()).code, exitCodes.ok)
  t.notOk(existsSync(join(dir, '..', 'data')), 'no store is created')
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

t.test('a rate of a key that a network does not apply is a warning', async t => {
  const { dir, run, json } = await createTestConfigs(t)
  const gateway = await readFile(join(dir, 'gateway.yaml'), 'utf8')
  await rm(join(dir, 'networks'), { recursive: true })
  writeConfig(dir, { 'gateway.yaml': gateway, 'networks/devnet.yaml': networkYaml('devnet') })
  const ran = () => run(createCheckCommand(stubPlugins, noProblems))
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  await json(keysCommand, 'add', 'alice')
  t.notMatch((await ran()).out.join('\n'), /warning/)
  await json(keysCommand, 'add', 'alice', '--rate', '10/s')
  t.match((await ran()).out[0], 'no problems, 1 warning; 1 network served')
  t.match(
    (await ran()).out.join('\n'),
    /warning: rates of API keys have no effect in devnet: add a plugin that limits rates, such as rate-limit,/,
  )
  const limited = stubPlugins.map(plugin => (plugin.name === 'shape' ? { ...plugin, limitsRates: () => ({}) } : plugin))
  t.notMatch((await run(createCheckCommand(limited, noProblems))).out.join('\n'), /warning/)
})

t.test('accounts in a Redis are checked too, and an unreachable Redis is ignored', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer('--appendonly', 'yes')
  t.teardown(() => redis.remove())
  const files = {
    'gateway.yaml': `store: ${redis.url}\nplans: { solid: { dailyCredits: 1000 } }\n`,
    'networks/main-chain.yaml': networkYaml('main-chain'),
  }
  t.equal((await runCheck(t, files)).out.length, 2)
  t.same(await redis.send('KEYS', '*'), [], 'no store is created')
  const store = await openStore(redis.address, systemClock)
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  await store.addKey('hash', { id: 'key_1', account: 'acc_1', created: 1, hint: 'abcd', rate: 10 })
  await store.close()
  t.match(await runCheck(t, files), {
    code: exitCodes.ok,
    out: {
      length: 4,
      3: /^ {2}warning: rates of API keys have no effect in main-chain/,
      2: '  warning: gateway.yaml has no plan `core`: calls of 1 account on this plan are rejected: alice',
    },
  })
  await redis.send('CONFIG', 'SET', 'appendonly', 'no')
  t.match(await runCheck(t, files), { code: exitCodes.ok, out: { length: 5, 2: /^ {2}warning: redis at .* has `appendonly no`/ } })
  await redis.kill()
  t.match(await runCheck(t, files), { code: exitCodes.ok, out: { length: 2 }, err: [] })
})

t.test('arguments other than --config DIR are a usage error', async t => {
  const usageErrorOf = async (...args: string[]) => {
    const { code, err } = await runCommand(createCheckCommand(stubPlugins, noProblems), args)
    t.equal(code, exitCodes.usage)
    return err[0]
  }
  t.equal(await usageErrorOf('configs'), 'unexpected argument "configs"')
  t.equal(await usageErrorOf('--dir', 'configs'), 'unknown option --dir')
  t.equal(await usageErrorOf('--config'), '--config requires a value')
})
