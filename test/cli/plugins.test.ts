import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'
import t from '../support/tap.ts'
import { plugins } from '../../plugins/index.ts'
import { createPluginsCommand } from '../../src/cli/plugins.ts'
import { mainPath } from '../support/deployment.ts'
import { tempFolder } from '../store/temp-store.ts'
import { runCommand } from './run-command.ts'

/** `env -u`: tap would load itself into the process. Scripts of npm find the Node.js of the test, and the compiler. */
const runProgram = (cwd: string, ...command: readonly string[]) => {
  const path = [dirname(process.execPath), resolve('node_modules/.bin'), process.env['PATH']].join(delimiter)
  const environment = ['-u', 'NODE_OPTIONS', '-u', 'NODE_TEST_CONTEXT', `PATH=${path}`]
  const { status, stdout, stderr } = spawnSync('env', [...environment, ...command], { cwd, encoding: 'utf8', timeout: 60_000 })
  return { status, stdout, stderr }
}

const run = (cwd: string, ...args: readonly string[]) => runProgram(cwd, process.execPath, ...args)

const runInProcess = (...args: readonly string[]) => runCommand(createPluginsCommand(plugins), args)

/** The compiler finds the types of Node.js where `npm install` would put them. */
const linkTypes = (folder: string): void => symlinkSync(resolve('node_modules/@types'), join(folder, 'node_modules/@types'))

t.test('a new plugin passes its tests and its type check at once, and is loaded by the step that the command prints', async t => {
  const home = await tempFolder(t)
  const created = run(home, mainPath, 'plugins', 'new', 'block-methods')
  t.equal(created.status, 0, created.stderr)
  const folder = join(home, 'block-methods')
  const tests = run(folder, '--test', '--test-reporter=tap')
  t.equal(tests.status, 0, tests.stdout)
  t.match(tests.stdout, /# pass 1[5-9]\n# fail 0/)
  linkTypes(folder)
  const types = runProgram(folder, 'npm', 'run', 'typecheck')
  t.equal(types.status, 0, types.stdout)
  const [, step = ''] = /(- use: [^]*?)\n\n/.exec(created.stdout) ?? []
  writeConfigWith(home, `${step}\n`)
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

t.test('a new plugin in TypeScript is compiled and tested, and its package is loaded by name where it is installed', async t => {
  const home = await tempFolder(t)
  t.equal(run(home, mainPath, 'plugins', 'new', 'typed-plugin', '--typescript').status, 0)
  const folder = join(home, 'typed-plugin')
  linkTypes(folder)
  const tests = runProgram(folder, 'npm', 'test')
  t.equal(tests.status, 0, tests.stdout + tests.stderr)
  t.match(tests.stdout, /^.*tests 1[6-9]$/m)
  rmSync(join(folder, 'dist'), { recursive: true })
  const packed = runProgram(folder, 'npm', 'pack', '--json')
  t.equal(packed.status, 0, packed.stderr)
  const [, list = ''] = /(\[\n[^]*)$/.exec(packed.stdout) ?? []
  const [{ filename, files }] = JSON.parse(list) as [{ filename: string; files: readonly { readonly path: string }[] }]
  t.same(
    files.map(({ path }) => path),
    ['README.md', 'dist/typed-plugin.d.ts', 'dist/typed-plugin.js', 'package.json'],
  )
  const app = join(home, 'app')
  mkdirSync(app)
  writeFileSync(join(app, 'package.json'), '{ "private": true }')
  const installed = runProgram(app, 'npm', 'install', '--offline', '--no-audit', resolve('.'), join(folder, filename))
  t.equal(installed.status, 0, installed.stderr)
  writeConfigWith(app, '- use: tollgate-plugin-typed-plugin\n    with: { methods: [eth_accounts] }\n')
  const checked = run(app, mainPath, 'check')
  t.equal(checked.status, 0, checked.stderr)
  t.match(checked.stdout, /net  envelope > key-auth > typed-plugin > failover > upstream/)
  const kept = run(app, mainPath, 'plugins', 'test', 'tollgate-plugin-typed-plugin')
  t.equal(kept.status, 0, kept.stdout + kept.stderr)
})

t.test('plugins test runs the contract tests of a file, with the given options, call and context', async t => {
  const passed = await runInProcess('test', 'docs/examples/block-methods.js', '--with', '{ methods: [eth_accounts] }')
  t.equal(passed.code, 0, passed.out.join('\n'))
  t.match(passed.out[0], 'ok      block-methods: the name is kebab-case')
  t.match(passed.out.at(-1), /^1\d tests passed, 0 failed$/)
  const refused = await runInProcess('test', 'docs/examples/block-methods.js', '--with', '{ methods: [eth_blockNumber] }')
  t.equal(refused.code, 1)
  t.match(refused.out.join('\n'), /failed {2}block-methods: the context .*\n.*give a `call` that is passed on/)
  const other = ['--with', '{ methods: [eth_blockNumber] }', '--call', '{ method: eth_chainId, params: [] }']
  t.equal((await runInProcess('test', 'docs/examples/block-methods.js', ...other)).code, 0)
  t.equal((await runInProcess('test', 'docs/examples/region-access.js', '--with', '{ allowed: [DE] }')).code, 1)
  const withRegion = ['--with', '{ allowed: [DE] }', '--context', '{ region: DE }']
  t.equal((await runInProcess('test', 'docs/examples/region-access.js', ...withRegion)).code, 0)
})

t.test('plugins test takes examples for required options, and prints what a plugin breaks once; --json has it too', async t => {
  const dir = t.testdir({
    'twice.js': `export default { name: 'twice', summary: 'Runs all twice.', options: { type: 'object' },
      create: () => async (call, next) => (await next(call), next(call)) }`,
    'throwing.js': `export default { name: 'throwing', summary: 'Throws.', options: { type: 'object' },
      create: () => async () => { throw new Error('it has no lid') } }`,
    'example.js': `export default { name: 'example', summary: 'Has an example.', options: { type: 'object', required: ['level'],
      properties: { level: { type: 'integer', description: 'A level.', examples: [1] } } }, create: () => (call, next) => next(call) }`,
  })
  const file = join(dir, 'twice.js')
  const { code, out } = await runInProcess('test', file)
  t.equal(code, 1)
  t.match(out.join('\n'), /failed {2}twice: next\(\) is called once.*\n +a second next\(\) needs `repeats: true`/)
  const [json = ''] = (await runInProcess('test', file, '--json')).out
  t.match(JSON.parse(json), [{ name: 'twice: the name is kebab-case', problem: undefined }])
  t.match(json, /"problem":"a second next/)
  const throwing = await runInProcess('test', join(dir, 'throwing.js'))
  t.equal(throwing.out.filter(line => line.includes('it has no lid')).length, 1, throwing.out.join('\n'))
  t.match(throwing.out.join('\n'), /: as above/)
  const wrong = await runInProcess('test', 'docs/examples/call-limit.js', '--with', '{ call: 1 }')
  t.match(wrong, { code: 1, out: [/^ok/, /^ok/, /^ok/, /^ok/, /^failed/] })
  t.match(wrong.out.at(-1), /^4 tests passed, 1 failed, 11 not run$/)
  t.equal((await runInProcess('test', join(dir, 'example.js'))).code, 0, 'the example of the required option')
  t.match(await runInProcess('test', file, '--with', '7'), { code: 64, err: ["--with must be a map, such as '{ calls: 1 }'"] })
  t.match(await runInProcess('test', file, '--call', '[]'), { code: 64, err: [/^--call must be a method/] })
  t.match(await runInProcess('test', file, '--with', '{'), { code: 64, err: [/^--with: ./] })
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
  t.match(out, ['credits: Charges the cost', 'Reads of the context: `request`, `key`, `account`.', 'Writes of the context: `account`.'])
  t.ok(out.includes('  grace: integer (>= 1)'))
  t.equal(out.at(-1), '  - credits: {}')
  const external = await runInProcess('describe', './docs/examples/region-access.js')
  t.ok(external.out.includes('  allowed: list of string, required'))
  t.match(
    external.out.slice(-2),
    ['  - use: ../../docs/examples/region-access.js', /^ {4}with: \{ allowed: /],
    'with the path as a network has it',
  )
  const [json = ''] = (await runInProcess('describe', 'cache', '--json')).out
  t.match(JSON.parse(json), { name: 'cache', shares: true, file: 'built in', options: { properties: { maxBytes: { default: '64MiB' } } } })
  t.match(await runInProcess('describe', 'failovr'), {
    code: 1,
    err: [/no plugin of `plugins list` is named failovr.*did you mean `failover`\?/],
  })
  t.match(await runInProcess('describe', './docs/examples/none.js'), {
    code: 1,
    err: [/^tollgate: file docs\/examples\/none\.js not found/],
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
