import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { plugins } from '../../plugins/index.ts'
import { createTestCommand } from '../../src/cli/test.ts'
import { definePlugin } from '../../src/plugin/plugin.ts'
import { networkNames } from '../../src/config/load.ts'
import { networkFile } from '../support/deployment.ts'
import { runCommand } from '../cli/run-command.ts'

const command = createTestCommand(plugins)

/** Runs `tollgate test` on a network with these cases. Paths in its messages are relative to the configuration. */
const runTest = async (t: Test, cases: string, args: readonly string[] = []) => {
  const dir = t.testdir({ networks: {} })
  cpSync('configs/methods', join(dir, 'methods'), { recursive: true })
  writeFileSync(join(dir, 'gateway.yaml'), 'store: lmdb:data\nplans: { core: { dailyCredits: 160 }, large: { dailyCredits: 1000 } }\n')
  writeFileSync(join(dir, 'networks/net.yaml'), JSON.stringify(networkFile('net', ['http://a.test', '${URL}'])))
  writeFileSync(join(dir, 'networks/net.test.yaml'), cases)
  const { code, out, err } = await runCommand(command, [...args, '--config', dir])
  return { code, out, err: err.map(text => text.replaceAll(`${dir.slice(process.cwd().length + 1)}/`, '')).join('\n') }
}

t.test('cases of a network that has no file fail: a network that was renamed is not left untested', async t => {
  const dir = t.testdir({ networks: { 'old-name.test.yaml': 'cases:\n  - { name: a, steps: [{ send: eth_chainId }] }\n' } })
  writeFileSync(join(dir, 'networks/new-name.yaml'), JSON.stringify(networkFile('new-name', ['http://a.test'])))
  const { code, out, err } = await runCommand(command, ['--config', dir])
  t.equal(code, 1)
  t.match(err.join('\n'), /old-name\.test\.yaml:1:1: there is no network file old-name\.yaml beside this file/)
  t.same(out, ['new-name  no cases', 'old-name  not run: 1 problem'])
})

t.test('every shipped network has its cases, and passes them', async t => {
  const { code, out, err } = await runCommand(command, ['--json', '--config', 'configs'])
  const reports = JSON.parse(out.join('')) as readonly { readonly network: string; readonly passed?: number; readonly failed?: number }[]
  t.equal(code, 0, err.join('\n'))
  t.same(
    reports.map(({ network }) => network),
    networkNames('configs'),
  )
  for (const { network, passed = 0, failed } of reports) t.ok(passed >= 2 && failed === 0, network)
})

t.test('a failed expectation is a problem at its place, with the whole response', async t => {
  const cases = `env: { URL: "http://b.test" }
cases:
  - name: the price is one
    upstream: { eth_gasPrice: { result: "0x2" } }
    steps:
      - { send: eth_gasPrice, expect: { result: "0x2" }, reached: [eth_gasPrice] }
      - send: eth_gasPrice
        expect: { result: "0x1", status: 200 }
      - { send: eth_chainId, expect: { result: never compared } }
  - name: nothing goes upstream
    upstream: { eth_gasPrice: { error: { code: -32000, message: busy } } }
    steps:
      - send: eth_gasPrice
        expect:
          error: { code: -32000, message: /quiet/ }
        reached: []
`
  const { code, out, err } = await runTest(t, cases)
  t.equal(code, 1)
  t.match(
    err,
    /^networks\/net\.test\.yaml:8:27: the price is one: expected "0x1", got "0x2"\n {2}8 \| {9}expect: .*\n.*\^ the whole response was \{"id":1,"status":200,"result":"0x2"/m,
  )
  t.match(err, /15:43: nothing goes upstream: expected "\/quiet\/", got "busy"/)
  t.match(
    err,
    /16:18: nothing goes upstream: expected \[\], got .*"method":"eth_gasPrice".*\n.*\n.*what went upstream was \["eth_gasPrice"\]/,
  )
  t.match(err, /3 problems in 1 file/)
  t.same(out, ['net  0 cases passed, 2 failed'])
})

/** Runs cases on a network whose first step is this plugin. */
const runWithPlugin = async (t: Test, plugin: string, cases: string) => {
  const dir = t.testdir({
    methods: {},
    networks: { 'first.js': `export default ${plugin}`, 'net.test.yaml': `cases:\n${cases}\n` },
    'gateway.yaml': 'store: lmdb:data\nplans: { core: { dailyCredits: 160 } }\n',
  })
  cpSync('configs/methods', join(dir, 'methods'), { recursive: true })
  const { pipeline, ...network } = networkFile('net', ['http://a.test'])
  const steps = [{ use: './first.js' }, ...(pipeline as readonly object[])] // networkFile() makes a list
  writeFileSync(join(dir, 'networks/net.yaml'), JSON.stringify({ ...network, pipeline: steps }))
  return runCommand(command, ['--config', dir])
}

t.test('the plugins of a case are stopped, also of one that fails', async t => {
  const stops: unknown[] = []
  Object.assign(globalThis, { stops })
  t.teardown(() => Reflect.deleteProperty(globalThis, 'stops'))
  const plugin = `{ name: 'stopped', apiVersion: 1, summary: 'Records that it is stopped.', options: { type: 'object', properties: {} },
    create: () => ({ handle: (call, next) => next(call), stop: async () => void globalThis.stops.push('stopped') }) }`
  const cases = `  - { name: passes, upstream: { eth_gasPrice: { result: "0x1" } }, steps: [{ send: eth_gasPrice, expect: { result: "0x1" } }] }
  - { name: fails, upstream: { eth_gasPrice: { result: "0x1" } }, steps: [{ send: eth_gasPrice, expect: { result: "0x2" } }] }`
  const { out } = await runWithPlugin(t, plugin, cases)
  t.same(out, ['net  1 case passed, 1 failed'])
  t.same(stops, ['stopped', 'stopped'])
})

t.test('a plugin that throws is named beside `internal error`, with what it threw and where', async t => {
  const plugin = `{ name: 'throwing', apiVersion: 1, summary: 'Throws.', options: { type: 'object', properties: {} },
    create: () => () => { throw new Error('no such table') } }`
  const { err } = await runWithPlugin(t, plugin, '  - { name: fails, steps: [{ send: eth_gasPrice, expect: { result: "0x1" } }] }')
  t.match(err.join('\n'), /internal error.*; the log has: .*plugin throwing: Error: no such table.*first\.js/)
})

t.test('time, keys, plans and upstreams are those of the case', async t => {
  const cases = `env: { URL: "http://b.test" }
cases:
  - name: each plan has a key, and the first is the default
    upstreams: { node-1: down, node-2: { eth_gasPrice: [{ result: "0x1" }, { result: "0x2" }] } }
    steps:
      - { send: eth_gasPrice, expect: { result: "0x1", upstream: node-2 } }
      - { wait: 1h, send: eth_gasPrice, expect: { result: "0x2" } }
      - { send: eth_gasPrice, expect: { status: 402 } }
      - { send: eth_gasPrice, key: large, expect: { status: 200 } }
      - { wait: 1s }
      - { key: large, send: [{ method: eth_gasPrice }, { method: eth_chainId, id: null }], expect: [{ id: 1 }, { id: null, result: "0x7a69" }] }
`
  t.match(await runTest(t, cases), { code: 0, err: '', out: ['net  1 case passed'] })
})

t.test('mistakes in the file are shown as those of any other file, and nothing is run', async t => {
  const cases = `env: { URL: "http://b.test" }
cases:
  - name: mistaken
    upstream: { eth_gasPrice: { resutl: "0x1" }, eth_call: { error: { code: x } }, eth_syncing: { result: 1, aftr: 1s } }
    steps:
      - { sned: eth_gasPrice }
`
  const misspelled = await runTest(t, cases)
  t.match(misspelled, { code: 1, out: ['net  not run: 1 problem'], err: /6:11: unknown key `sned`[^]*did you mean `send`\?/ })
  const { err } = await runTest(t, cases.replace('sned', 'send'))
  t.match(err, /4:31: a response must be \{ result \}/)
  t.match(err, /4:69: an error must have a code/)
  t.match(err, /4:116: unknown key of a response; did you mean `after`\?/)
  const indented = await runTest(t, cases.replace('sned: eth_gasPrice', 'send: eth_gasPrice, keys: {}'))
  t.match(indented.err, /6:31: unknown key `keys` of cases\[0\]\.steps\[0\][^]*`keys` belongs at the top of the file/)
  const nothing = await runTest(t, 'env: { URL: "http://b.test" }\ncases: [{ name: empty, steps: [{ expect: {} }] }]')
  t.match(nothing.err, /2:32: empty: the step sends nothing/)
})

t.test('variables come from the file alone; a problem of the network is shown in place of its cases', async t => {
  const cases = 'cases: [{ name: any, steps: [{ send: eth_chainId }] }]'
  process.env['URL'] = 'http://environment.test'
  t.teardown(() => delete process.env['URL'])
  t.match(await runTest(t, cases), { code: 1, err: /net\.yaml:1:\d+: .*URL/ })
})

t.test('a network without cases is named, and one network can be chosen', async t => {
  const dir = t.testdir({ networks: {} })
  mkdirSync(join(dir, 'methods'))
  for (const name of ['one', 'other']) writeFileSync(join(dir, 'networks', `${name}.yaml`), readFileSync('configs/networks/devnet.yaml'))
  t.match(await runCommand(command, ['--config', dir]), { code: 0, out: ['one    no cases', 'other  no cases'] })
  t.match(await runCommand(command, ['--network', 'other', '--config', dir]), { out: ['other  no cases'] })
  t.match(await runCommand(command, ['--network', 'oter', '--config', dir]), {
    code: 64,
    err: ['there is no network oter; did you mean `other`?'],
  })
  t.match(await runCommand(command, ['--config', join(dir, 'nowhere')]), { code: 64 })
})

t.test('the plugins of a case are stopped, also when a call of the case is never answered', async t => {
  const stopped: string[] = []
  const silent = definePlugin({
    name: 'silent',
    summary: 'Answers no call of eth_call.',
    options: { type: 'object', properties: {} },
    reads: ['request'],
    create: () => ({
      handle: (call, next) => (call.context.request.method === 'eth_call' ? new Promise(() => undefined) : next(call)),
      stop: async () => void stopped.push('silent'),
    }),
  })
  const dir = t.testdir({ networks: {} })
  cpSync('configs/methods', join(dir, 'methods'), { recursive: true })
  writeFileSync(join(dir, 'gateway.yaml'), 'store: lmdb:data\nplans: { core: { dailyCredits: 1000 } }\n')
  const network = networkFile('net', ['http://a.test']) as { readonly pipeline: readonly object[] }
  const [envelope, ...others] = network.pipeline
  writeFileSync(join(dir, 'networks/net.yaml'), JSON.stringify({ ...network, pipeline: [envelope, { silent: {} }, ...others] }))
  const cases = `cases:
  - { name: answered, steps: [{ send: eth_chainId, expect: { result: "0x7a69" } }] }
  - { name: stuck, steps: [{ send: eth_call, params: [{}, latest] }] }
`
  writeFileSync(join(dir, 'networks/net.test.yaml'), cases)
  const { code, err } = await runCommand(createTestCommand([...plugins, silent]), ['--config', dir])
  t.equal(code, 1)
  t.match(err.join('\n'), /stuck: a call was never answered/)
  t.same(stopped, ['silent', 'silent'])
})
