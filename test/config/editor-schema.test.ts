import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Ajv } from 'ajv'
import t from '../support/tap.ts'
import { parse } from 'yaml'
import { plugins } from '../../plugins/index.ts'
import { createSchemaCommand } from '../../src/cli/schema.ts'
import { editorSchemas } from '../../src/config/editor-schema.ts'
import type { SchemaName } from '../../src/config/editor-schema.ts'
import { runCommand } from '../cli/run-command.ts'
import { startLanguageServer } from '../support/language-server.ts'
import { rootDir } from '../tools/source-files.ts'
import { networkYaml, stubPlugins, writeConfig } from './config-fixture.ts'

const filesIn = (folder: string): readonly string[] =>
  readdirSync(join(rootDir, folder))
    .filter(file => file.endsWith('.yaml') && !file.endsWith('.test.yaml'))
    .map(file => join(folder, file))

/** The YAML files that come with the gateway. */
const shippedFiles: Readonly<Record<SchemaName, readonly string[]>> = {
  network: [...filesIn('configs/networks'), ...filesIn('docs/examples/networks')],
  gateway: ['configs/gateway.yaml'],
  methods: filesIn('configs/methods'),
  accounts: ['docs/examples/accounts.yaml'],
}

t.test('every shipped file passes the schema of its kind, which its first line names', t => {
  const schemas = editorSchemas(plugins)
  for (const [name, files] of Object.entries(shippedFiles) as [SchemaName, readonly string[]][]) {
    const validate = new Ajv({ strict: false }).compile(schemas[name])
    for (const file of files) {
      const text = readFileSync(join(rootDir, file), 'utf8')
      t.ok(validate(parse(text)), `${file}: ${JSON.stringify(validate.errors)}`)
      const path = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text)?.[1] ?? ''
      t.equal(join(file, '..', path), `configs/schemas/${name}.json`, file)
    }
  }
  t.end()
})

t.test('a schema accepts variables, empty options, anchors and steps with `use`, and refuses what the loader refuses', t => {
  const validate = new Ajv({ strict: false }).compile(editorSchemas(stubPlugins).network)
  const accepts = (pipeline: string, more = ''): boolean => validate(parse(`${more}${networkYaml('net', pipeline)}`))
  t.ok(accepts('  - shape:\n  - ask: { timeout: "${TIMEOUT}s" }\n'))
  t.ok(accepts('  - shape: { strict: "${STRICT}" }\n  - use: ask\n    name: last\n    with: { timeout: 5s }\n', 'x-common: { a: 1 }\n'))
  for (const wrong of [
    '  - shape: { strickt: true }\n',
    '  - shape: { strict: 5 }\n',
    '  - ask: { timeout: 5 }\n',
    '  - ask: { timeout: 5 s }\n',
    '  - use: ask\n    with: { timeout: 5 }\n',
    '  - shape: {}\n    ask: {}\n',
    '  - shpe: {}\n',
    '  - cache: { keep: nevr }\n',
  ])
    t.notOk(accepts(wrong), wrong)
  t.notOk(accepts('  - shape: {}\n', 'common: 1\n'))
  t.end()
})

t.test('the schema of gateway.yaml knows what an option requires, which of several must be given, and names and least values', t => {
  const validate = new Ajv({ strict: false }).compile(editorSchemas(stubPlugins).gateway)
  const accepts = (text: string, plans = 'core: { dailyCredits: 1 }'): boolean =>
    validate(parse(`store: lmdb:data\nplans: { ${plans} }\n${text}`))
  const jwt = 'issuer: https://a.example.org, audience: [a]'
  const listen = 'listen: { portal: 127.0.0.1:8081 }'
  for (const right of [
    '',
    'portal:',
    `${listen}\nportal: { secret: abc }`,
    `${listen}\nportal: { oidc: { issuer: https://a.example.org, clientId: a, clientSecret: s }, signUp: { plan: core } }`,
    'listen: { proxyProtocol: false }',
    'listen: { proxyProtocol: true, trustedProxies: [10.0.0.0/8] }',
    `jwt: { ${jwt}, keyFile: keys.json }`,
    'workers: auto',
    'memory: "${MEMORY}"',
  ])
    t.ok(accepts(right), `${right}: ${JSON.stringify(validate.errors)}`)
  t.ok(accepts('', 'core: { dailyCredits: 1, rate: 5/s, burst: 9 }'))
  for (const wrong of [
    'portal: { secret: abc }',
    `${listen}\nportal: { signUp: { plan: core } }`,
    'listen: { proxyProtocol: true }',
    'listen: { proxyProtocol: true, trustedProxies: [] }',
    `jwt: { ${jwt} }`,
    `jwt: { ${jwt}, keyFile: keys.json, jwks: https://a.example.org/keys }`,
    'workers: 0',
    'memory: 0B',
  ])
    t.notOk(accepts(wrong), wrong)
  for (const plans of ['', 'Core: { dailyCredits: 1 }', 'core: { dailyCredits: 1, burst: 9 }']) t.notOk(accepts('', plans), plans)
  t.end()
})

t.test('schema --write adds the options of the external plugins that the networks use', async t => {
  const plugin = `export default { name: 'mine', summary: 'Does it.', create: () => () => undefined,
    options: { type: 'object', properties: { calls: { type: 'integer', description: 'Most calls.' } } } }`
  const pipeline = '  - shape:\n  - use: ../mine.js\n    with: { calls: 5 }\n  - ask:\n'
  const dir = writeConfig(t.testdir(), { 'mine.js': plugin, 'networks/net.yaml': networkYaml('net', pipeline) })
  const run = (...args: readonly string[]) => runCommand(createSchemaCommand(stubPlugins), [...args, '--config', dir])
  t.match((await run('--write')).out, [
    /schemas\/network.json$/,
    /schemas\/gateway.json$/,
    /schemas\/methods.json$/,
    /schemas\/accounts.json$/,
  ])
  const written: unknown = JSON.parse(readFileSync(join(dir, 'schemas/network.json'), 'utf8'))
  t.same(JSON.parse((await run('network')).out.join('')), written)
  const validate = new Ajv({ strict: false }).compile(written as object) // JSON that was just written from an object
  t.ok(validate(parse(networkYaml('net', pipeline))))
  t.notOk(validate(parse(networkYaml('net', pipeline.replace('calls: 5', 'calls: x')))))
  for (const args of [[], ['networks'], ['network', '--write']]) t.equal((await run(...args)).code, 64, args.join(' '))
})

t.test('a YAML language server finds no fault with shipped files, underlines mistakes, and shows help and plugins', async t => {
  const server = await startLanguageServer()
  t.teardown(() => server.stop())
  const uriOf = (file: string) => pathToFileURL(join(rootDir, file)).href
  for (const file of [...shippedFiles.network.slice(0, 2), ...shippedFiles.gateway, ...shippedFiles.methods]) {
    t.same(await server.diagnose(uriOf(file), readFileSync(join(rootDir, file), 'utf8')), [], file)
  }
  const file = shippedFiles.network[0] ?? ''
  const text = readFileSync(join(rootDir, file), 'utf8')
  const uri = uriOf(file.replace('.yaml', '-edited.yaml'))
  const broken = text.replace('chainId:', 'chainID:').replace('timeout: 10s', 'timeout: 10')
  const lineOf = (part: string) => broken.split('\n').findIndex(line => line.includes(part))
  const lines = (await server.diagnose(uri, broken)).map(({ range }) => range.start.line)
  t.ok(lines.includes(lineOf('chainID')) && lines.includes(lineOf('timeout: 10')), `lines ${lines}`)
  const line = lineOf('maxBytes')
  const character = (broken.split('\n')[line] ?? '').indexOf('maxBytes') + 1
  t.match(JSON.stringify(await server.request('textDocument/hover', uri, { line, character })), "Maximum memory for this network's results")

  const started = `${text.slice(0, text.indexOf('pipeline:'))}pipeline:\n  - \n`
  const startedUri = uriOf(file.replace('.yaml', '-started.yaml'))
  await server.diagnose(startedUri, started)
  const end = { line: started.split('\n').length - 2, character: 4 }
  const offered = JSON.stringify(await server.request('textDocument/completion', startedUri, end))
  for (const { name } of plugins) t.match(offered, `"${name}"`)
})
