import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from '../support/tap.ts'
import { plugins } from '../../plugins/index.ts'
import { stripsTypes } from '../../src/config/plugin-loader.ts'
import { createPluginsCommand } from '../../src/cli/plugins.ts'
import { mainPath } from '../support/deployment.ts'
import { tempFolder } from '../store/temp-store.ts'
import { runCommand } from './run-command.ts'

/** `env -u`: tap would load itself into the process. */
const run = (cwd: string, ...args: readonly string[]) => {
  const command = ['-u', 'NODE_OPTIONS', '-u', 'NODE_TEST_CONTEXT', process.execPath, ...args]
  const { status, stdout, stderr } = spawnSync('env', command, { cwd, encoding: 'utf8', timeout: 60_000 })
  return { status, stdout, stderr }
}

const runInProcess = (...args: readonly string[]) => runCommand(createPluginsCommand(plugins), args)

/** The compiler finds the types of Node.js where `npm install` would put them. */
const typecheck = (folder: string) => {
  symlinkSync(resolve('node_modules/@types'), join(folder, 'node_modules/@types'))
  return run(folder, resolve('node_modules/typescript/bin/tsc'))
}

t.test('a new plugin passes its tests and its type check at once, and is loaded by the step that the command prints', async t => {
  const home = await tempFolder(t)
  const created = run(home, mainPath, 'plugins', 'new', 'block-methods')
  t.equal(created.status, 0, created.stderr)
  const folder = join(home, 'block-methods')
  const tests = run(folder, '--test', '--test-reporter=tap')
  t.equal(tests.status, 0, tests.stdout)
  t.match(tests.stdout, /# pass 1[5-9]\n# fail 0/)
  const types = typecheck(folder)
  t.equal(types.status, 0, types.stdout)
  const [, step = ''] = /(- use: [^]*)$/.exec(created.stdout) ?? []
  writeConfigWith(home, step)
  const checked = run(home, mainPath, 'check')
  t.equal(checked.status, 0, checked.stderr)
  t.match(checked.stdout, /net  envelope > key-auth > block-methods > failover > upstream/)
})

const writeConfigWith = (home: string, step: string): void => {
  const dir = join(home, 'configs')
  mkdirSync(join(dir, 'networks'), { recursive: true })
  symlinkSync(resolve('configs/methods'), join(dir, 'methods'))
  writeFileSync(join(dir, 'gateway.yaml'), 'store: lmdb:data\nplans: { core: { dailyCredits: 1000 } }\n')
  const nodes = '- failover: { upstreams: [{ name: own, url: "http://127.0.0.1:1" }] }\n- upstream: {}\n'
  const head = 'network: net\nchainId: 1\nblockTime: 12s\nmethods: ethereum\nhosts: [a.test]\npipeline:\n'
  writeFileSync(join(dir, 'networks/net.yaml'), `${head}- envelope: {}\n- key-auth: {}\n${step.replaceAll('\n  ', '\n')}${nodes}`)
}

t.test('a new plugin in TypeScript passes its type check, and its tests where Node.js strips types', async t => {
  const home = await tempFolder(t)
  const created = run(home, mainPath, 'plugins', 'new', 'typed-plugin', '--typescript')
  t.equal(created.status, 0)
  const folder = join(home, 'typed-plugin')
  const types = typecheck(folder)
  t.equal(types.status, 0, types.stdout)
  t.match(created.stdout, /^Run its tests: +cd typed-plugin && node --test typed-plugin.test.ts$/m)
  const tests = run(folder, '--test', '--test-reporter=tap', 'typed-plugin.test.ts')
  t.match(tests.stdout, /^1\.\.[1-9]/m, 'tests are found')
  t.equal(tests.status, stripsTypes ? 0 : 1, 'where types are not stripped, the tests fail')
  t.equal(/does not strip types: the plugin and its tests need Node.js 22.18/.test(created.stdout), !stripsTypes)
})

t.test('the gateway of a node_modules above is used, and nothing is linked', async t => {
  const home = await tempFolder(t)
  mkdirSync(join(home, 'node_modules'))
  symlinkSync(resolve('.'), join(home, 'node_modules/tollgate'))
  t.equal(run(home, mainPath, 'plugins', 'new', 'my-plugin').status, 0)
  t.notOk(readdirSync(join(home, 'my-plugin')).includes('node_modules'))
  const again = run(home, mainPath, 'plugins', 'new', 'my-plugin')
  t.equal(again.status, 1)
  t.match(again.stderr, /my-plugin exists already/)
  rmSync(join(home, 'my-plugin'), { recursive: true })
})

t.test('a name that no plugin may have is refused', async t => {
  t.match(await runInProcess('new', 'MyPlugin'), { code: 64, err: ['the name must be kebab-case, not "MyPlugin"'] })
  t.match(await runInProcess('new', 'cache'), { code: 64, err: ['a built-in plugin is named cache'] })
})

t.test('describe prints context, options and the step of a built-in plugin, or of a file', async t => {
  const { out } = await runInProcess('describe', 'credits')
  t.match(out, ['credits: Charges the cost', 'Reads the context request, key, account.', 'Writes the context account.'])
  t.ok(out.includes('  grace: integer (>= 1)'))
  t.equal(out.at(-1), '  - credits: {}')
  const external = await runInProcess('describe', './docs/examples/region-access.js')
  t.ok(external.out.includes('  allowed: list of string, required'))
  t.match(external.out.slice(-2), ['  - use: ./docs/examples/region-access.js', /^ {4}with: \{ allowed: /])
  const [json = ''] = (await runInProcess('describe', 'cache', '--json')).out
  t.match(JSON.parse(json), { name: 'cache', shares: true, file: 'built in', options: { properties: { maxBytes: { default: '64MiB' } } } })
  t.match(await runInProcess('describe', 'failovr'), {
    code: 1,
    err: [/no plugin of `plugins list` is named failovr.*did you mean `failover`\?/],
  })
})

t.test('list has the built-in plugins and those of the networks, also those that cannot be loaded', async t => {
  const dir = t.testdir({
    'sound.js': "export default { name: 'sound', summary: 'Sounds.', options: { type: 'object' }, create() {} }",
    'broken.js': 'export default {',
    networks: {
      'one.yaml': 'pipeline: [{ use: ../sound.js }, { cache: {} }]',
      'other.yaml': 'pipeline: [{ use: ../sound.js }, { use: ../broken.js }]',
    },
  })
  const [json = ''] = (await runInProcess('list', '--json', '--config', dir)).out
  const rows = JSON.parse(json) as readonly { readonly name: string; readonly file: string; readonly summary: string }[]
  t.same(
    rows.slice(0, plugins.length).map(({ name, file }) => [name, file]),
    plugins.map(({ name }) => [name, 'built in']),
  )
  t.match(rows.slice(plugins.length), [
    { name: 'sound', file: /sound\.js$/, summary: 'Sounds.' },
    { name: '../broken.js', summary: /^cannot load/ },
  ])
  t.match((await runInProcess('list', '--config', dir)).out[0], /^PLUGIN +FROM +SUMMARY$/)
  const described = await runInProcess('describe', 'sound', '--config', dir)
  t.match(described, { code: 0, out: ['sound: Sounds.'] }, 'describe takes each name of the list')
  t.equal(described.out.at(-1), '  - use: ../sound.js', 'with the step as the network has it')
})

t.test('describe loads no other plugin for one that is built in', async t => {
  const dir = t.testdir({
    'loaded.js': 'globalThis.wasPluginLoaded = true; export default {}',
    networks: { 'one.yaml': 'pipeline: [{ use: ../loaded.js }]' },
  })
  await runInProcess('describe', 'cache', '--config', dir)
  t.notOk('wasPluginLoaded' in globalThis)
  await runInProcess('describe', 'sound', '--config', dir)
  t.ok('wasPluginLoaded' in globalThis)
})
