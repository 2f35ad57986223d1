import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { plugins as builtIn } from '../../plugins/index.ts'
import { accounts } from '../../src/commands/accounts.ts'
import { createCheck } from '../../src/commands/check.ts'
import { exit, Misuse } from '../../src/commands/command.ts'
import type { Config } from '../../src/config/types.ts'
import type { Problem } from '../../src/config/problem.ts'
import { tryNetworks } from '../../src/inert.ts'
import { network, plugins, writeConfig } from '../config/fixture.ts'
import { runCommand, tempConfigs } from './run.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open.ts'
import { noRedis, startRedis } from '../support/redis.ts'

type Build = (config: Config) => Promise<readonly Problem[]>

const noProblems: Build = async () => []

/** Runs `check` on the files of a configuration; `build` is what comes after loading it. */
const check = async (t: Test, files: Readonly<Record<string, string>>, env = {}, build = noProblems) => {
  const dir = writeConfig(t.testdir(), files)
  const [out, err]: [string[], string[]] = [[], []]
  const terminal = { env, out: (line: string) => out.push(line), err: (line: string) => err.push(line) }
  const code = await createCheck(plugins, build).run(['--config', dir], terminal)
  return { code, out, err: err.map(text => text.replaceAll(`${dir.slice(process.cwd().length + 1)}/`, '')) }
}

const route = '  - route: { upstreams: [{ name: own, url: "${SIDE_URL}" }] }\n'
const optional = network('side-chain', `  - shape:\n${route}  - ask:\n`)
  .replace('pipeline:', 'optional: true\npipeline:')

t.test('a good configuration is summed up on stdout', async t => {
  const files = { 'networks/main-chain.yaml': network('main-chain'), 'networks/side-chain.yaml': optional }
  t.same(await check(t, files), {
    code: exit.ok,
    out: [
      'no problems; 1 network served, 1 not served',
      '  main-chain  shape > ask',
      '  side-chain  not served: SIDE_URL is not set',
    ],
    err: [],
  })
  t.same(await check(t, files, { SIDE_URL: 'http://localhost:8545' }), {
    code: exit.ok,
    out: ['no problems; 2 networks served', '  main-chain  shape > ask', '  side-chain  shape > route > ask'],
    err: [],
  })
})

t.test('problems of files and of stages come in one report on stderr, with exit code 78', async t => {
  const mistyped = network('b-net', '  - shap:\n  - ask:\n')
  const files = { 'networks/a-net.yaml': network('a-net'), 'networks/b-net.yaml': mistyped }
  const found = await check(t, files, {}, async ({ networks }) =>
    networks.flatMap(({ steps }) => steps.map(step => step.problem([], `${step.name}: cannot be made`))))
  t.equal(found.code, exit.config)
  t.same(found.out, [])
  t.equal(found.err.join('\n'), `networks/a-net.yaml:7:5: shape: cannot be made
  7 |   - shape:
    |     ^

networks/a-net.yaml:8:5: ask: cannot be made
  8 |   - ask:
    |     ^

networks/b-net.yaml:7:5: there is no plugin \`shap\`
  7 |   - shap:
    |     ^ did you mean \`shape\`?

3 problems in 2 files`)
})

t.test('accounts whose plan is gone are told of, and an existing store stays as it was', async t => {
  const { dir, run } = await tempConfigs(t)
  const file = join(dir, 'gateway.yaml')
  await rm(join(dir, 'networks'), { recursive: true })
  writeConfig(dir, { 'gateway.yaml': await readFile(file, 'utf8'), 'networks/devnet.yaml': network('devnet') })
  const ran = () => run(createCheck(plugins, noProblems))
  t.equal((await ran()).code, exit.ok)
  t.notOk(existsSync(join(dir, '..', 'data')), 'no store is made')
  for (const name of ['alice', 'bo']) await run(accounts, 'add', name, '--plan', 'core')
  t.notMatch((await ran()).out.join('\n'), /warning/)
  await writeFile(file, (await readFile(file, 'utf8')).replace('core:', 'solid:'))
  const data = () => readFile(join(dir, '..', 'data', 'data.mdb'))
  const before = await data()
  t.match(await ran(), {
    code: exit.ok,
    out: { length: 3, 2: '  warning: gateway.yaml has no plan `core`; the calls of 2 accounts that have it are refused: alice, bo' },
  })
  t.same(await data(), before)
  await writeFile(join(dir, '..', 'data', 'data.mdb'), 'no store')
  t.equal((await ran()).out.length, 2)
})

t.test('so are those in a redis, and one that cannot be asked is passed over', { skip: noRedis }, async t => {
  const redis = await startRedis()
  t.teardown(() => redis.remove())
  const files = {
    'gateway.yaml': `store: ${redis.url}\nplans: { solid: { dailyCredits: 1000 } }\n`,
    'networks/main-chain.yaml': network('main-chain'),
  }
  t.equal((await check(t, files)).out.length, 2)
  t.same(await redis.send('KEYS', '*'), [], 'no store is made')
  const store = await openStore(redis.address, systemClock)
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  await store.close()
  t.match(await check(t, files), {
    code: exit.ok,
    out: { length: 3, 2: '  warning: gateway.yaml has no plan `core`; the calls of 1 account that have it are refused: alice' },
  })
  await redis.kill()
  t.match(await check(t, files), { code: exit.ok, out: { length: 2 }, err: [] })
})

t.test('problems of gateway.yaml do not hide behind what the networks need of it', async t => {
  const pipeline = '  - key-auth: {}\n  - cache: {}\n  - failover: { upstreams: [{ name: own, url: http://localhost:8545 }] }\n  - upstream: {}\n'
  const files = { 'gateway.yaml': 'store: nowhere\nplans: {}\n', 'networks/main-chain.yaml': network('main-chain', pipeline) }
  const dir = writeConfig(t.testdir(), files)
  const { code, err } = await runCommand(createCheck(builtIn, tryNetworks), ['--config', dir])
  t.equal(code, exit.config)
  t.match(err.join('\n'), /gateway\.yaml:1:8: store must be lmdb:PATH or redis:/)
})

t.test('other words than --config DIR are misuse', async t => {
  const terminal = { env: {}, out: t.fail, err: t.fail }
  for (const args of [['configs'], ['--dir', 'configs'], ['--config']]) {
    const error: unknown = await createCheck(plugins, noProblems).run(args, terminal).catch((thrown: unknown) => thrown)
    t.ok(error instanceof Misuse, args.join(' '))
  }
})
