import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { displayPath } from '../config/config-files.ts'
import { isKebabCase } from '../config/formats.ts'
import { version } from '../core/version.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { readArguments } from './args.ts'
import type { Subcommand } from './args.ts'
import { UsageError, exitCodes } from './command.ts'
import { formatTable } from './table-output.ts'

export const newPluginOptions = {
  typescript: { type: 'boolean', default: false, description: 'With new: writes TypeScript, which `npm run build` compiles.' },
} as const

/** `plugins new`: writes a plugin with its tests to a folder of its name. */
export const createNewPlugin =
  (builtIn: readonly LoadablePlugin[]): Subcommand =>
  async (args, { out, err, styleOut }) => {
    const {
      positionals: [name],
      values: { typescript },
    } = readArguments(args, ['NAME'], newPluginOptions)
    if (!isKebabCase(name)) throw new UsageError(`the name must be kebab-case, not "${name}"`)
    if (builtIn.some(plugin => plugin.name === name)) throw new UsageError(`a built-in plugin is named ${name}`)
    const folder = resolve(name)
    if (existsSync(folder)) {
      err(`tollgate plugins: ${displayPath(folder)} exists already`)
      return exitCodes.failed
    }
    mkdirSync(folder)
    const options: TemplateOptions = { language: typescript ? 'ts' : 'js', gatewayPath: findGateway(folder) ?? linkGateway(folder) }
    const files = pluginFiles(name, options)
    if (typescript) mkdirSync(join(folder, 'src'))
    for (const [file, { text }] of Object.entries(files)) writeFileSync(join(folder, file), text)
    for (const line of formatTable(
      ['FILE', ''],
      Object.entries(files).map(([file, { purpose }]) => [join(name, file), purpose]),
      styleOut,
    ))
      out(line)
    nextSteps(name, options).forEach(out)
    return exitCodes.ok
  }

const gatewayFolder = fileURLToPath(new URL('../../../', import.meta.url))

/** The installation in a node_modules above, as a path for package.json. */
const findGateway = (folder: string): string | undefined => {
  const searched = createRequire(join(folder, 'file')).resolve.paths('tollgate') ?? []
  const found = searched.map(modules => join(modules, 'tollgate')).find(each => existsSync(join(each, 'package.json')))
  return found && relative(folder, found)
}

/** Lets the folder import this installation, as below a checkout or with a global one. Returns its path for package.json. */
const linkGateway = (folder: string): string => {
  const link = join(folder, 'node_modules', 'tollgate')
  mkdirSync(dirname(link))
  symlinkSync(gatewayFolder, link, 'junction')
  return relative(folder, gatewayFolder)
}

const nextSteps = (name: string, options: TemplateOptions): readonly string[] => [
  '',
  `Run its tests:      cd ${name} && ${options.language === 'ts' ? 'npm install && npm test' : testCommand(name, options)}`,
  'Load it:            put this step into the pipeline of a network, below `envelope`, then run `npx tollgate check`',
  '',
  ...pluginStep(localPath(name, options)).map(line => `  ${line}`),
  '',
  `Publish it:         npm publish; operators then install it, and write \`use: ${packageName(name)}\``,
]

/** A file of a new plugin. */
interface TemplateFile {
  readonly purpose: string
  readonly text: string
}

interface TemplateOptions {
  readonly language: 'js' | 'ts'
  /** From the new folder to the gateway that its tests run in. */
  readonly gatewayPath: string
}

/** The files of a plugin that refuses listed methods: small, complete, and passing its tests. */
const pluginFiles = (name: string, options: TemplateOptions): Readonly<Record<string, TemplateFile>> => {
  const { language } = options
  const source = language === 'ts' ? `src/${name}` : name
  return {
    [`${source}.${language}`]: { purpose: 'the plugin', text: pluginText(name, options) },
    [`${source}.test.${language}`]: { purpose: 'its tests', text: testText(name, options) },
    'README.md': { purpose: 'what operators read', text: readmeText(name, options) },
    'package.json': { purpose: 'what `npm publish` publishes', text: packageText(name, options) },
    'tsconfig.json': { purpose: language === 'ts' ? 'how it is compiled' : 'how types are checked', text: tsconfigText(options) },
  }
}

const packageName = (name: string): string => `tollgate-plugin-${name}`

/** The file that the gateway loads: compiled, as no version of Node.js strips types of a package. */
const loadedFile = (name: string, { language }: TemplateOptions): string => (language === 'ts' ? `dist/${name}.js` : `${name}.js`)

/** Named: a Node.js that strips types would find the tests in TypeScript too. */
const testCommand = (name: string, { language }: TemplateOptions): string =>
  language === 'ts' ? `node --test dist/${name}.test.js` : 'node --test'

/** From the network file, where the folder is beside `configs`. */
const localPath = (name: string, options: TemplateOptions): string => `../../${name}/${loadedFile(name, options)}`

/** The step of the plugin in a network file. */
const pluginStep = (use: string): readonly string[] => [`- use: ${use}`, '  with: { methods: [eth_accounts] }']

const checkLine = ({ language }: TemplateOptions): string => (language === 'js' ? '// @ts-check\n' : '')

const pluginText = (
  name: string,
  options: TemplateOptions,
): string => `${checkLine(options)}import { definePlugin, refuse } from 'tollgate/plugin'

export default definePlugin({
  name: '${name}',
  apiVersion: 1,
  summary: 'Refuses the listed methods.',
  options: {
    type: 'object',
    properties: {
      methods: { type: 'array', items: { type: 'string' }, minItems: 1, description: 'The methods to refuse.', examples: [['eth_accounts']] },
    },
    required: ['methods'],
  },
  reads: ['request'],
  create({ methods }, { log }) {
    const refused = new Set(methods)
    return async (call, next) => {
      const { method } = call.context.request
      if (!refused.has(method)) return next(call)
      log.info({ requestId: call.origin.requestId, method }, 'method refused')
      return refuse('forbidden', { message: \`the method \${method} is not allowed here\` })
    }
  },
})
`

const testText = (name: string, options: TemplateOptions): string => `${checkLine(options)}import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractTests, harness } from 'tollgate/testing'
import plugin from './${name}.${options.language}'

const pipeline = '- ${name}: { methods: [eth_accounts] }'

test('a listed method is refused, and nothing goes upstream', async () => {
  const gateway = await harness({ pipeline, plugins: [plugin] })
  const { outcome, error } = await gateway.call('eth_accounts')
  assert.equal(outcome, 'forbidden')
  assert.equal(error?.message, 'the method eth_accounts is not allowed here')
  assert.deepEqual(gateway.requests, [])
})

test('another method goes upstream', async () => {
  const gateway = await harness({ pipeline, plugins: [plugin], upstream: { eth_gasPrice: { result: '0x1' } } })
  assert.equal((await gateway.call('eth_gasPrice')).result, '0x1')
})

for (const { name, run } of contractTests(plugin, { options: { methods: ['eth_accounts'] } })) test(name, run)
`

const readmeText = (name: string, options: TemplateOptions): string => `# ${packageName(name)}

A plugin of Tollgate that refuses the listed methods.

Install it beside the configuration, with \`npm install ${packageName(name)}\`, and add a step to the pipeline of a network:

\`\`\`yaml
pipeline:
  - envelope: {}
${pluginStep(packageName(name))
  .map(line => `  ${line}`)
  .join('\n')}
\`\`\`

\`npx tollgate check\` says whether the plugin stands where it may stand.

| option | description |
|---|---|
| \`methods\` | The methods to refuse. |

## Change it

\`npm install\`, once; then ${
  options.language === 'ts'
    ? '`npm test` compiles it and runs its tests'
    : '`npm test` runs its tests, and `npm run typecheck` checks its types'
}. It may use what Node.js 20 has: \`target\` of tsconfig.json and \`engines\` of package.json say so. A network beside this folder loads it from here with \`use: ${localPath(name, options)}\`, a path relative to the network file.
`

const packageText = (name: string, options: TemplateOptions): string => {
  const { language, gatewayPath } = options
  const file = loadedFile(name, options)
  const ofLanguage =
    language === 'ts'
      ? {
          exports: { types: `./dist/${name}.d.ts`, default: `./${file}` },
          files: ['dist', '!dist/*.test.*'],
          scripts: { build: 'tsc', test: `npm run build && ${testCommand(name, options)}`, prepack: 'npm run build' },
        }
      : { exports: `./${file}`, files: [file], scripts: { test: testCommand(name, options), typecheck: 'tsc' } }
  const text = {
    name: packageName(name),
    version: '0.1.0',
    description: 'A plugin of Tollgate that refuses the listed methods.',
    type: 'module',
    keywords: ['tollgate-plugin'],
    engines: { node: '>=20.19' },
    ...ofLanguage,
    peerDependencies: { tollgate: `>=${version}` },
    devDependencies: { '@types/node': '^20.19.43', tollgate: `file:${gatewayPath}`, typescript: '^7.0.2' },
  }
  return `${JSON.stringify(text, undefined, 2)}\n`
}

const tsconfigText = ({ language }: TemplateOptions): string => {
  const shared = { target: 'es2023', module: 'nodenext', strict: true, skipLibCheck: true, types: ['node'] }
  const ofLanguage =
    language === 'js'
      ? { allowJs: true, checkJs: true, noEmit: true }
      : {
          rootDir: 'src',
          outDir: 'dist',
          declaration: true,
          rewriteRelativeImportExtensions: true,
          erasableSyntaxOnly: true,
          verbatimModuleSyntax: true,
        }
  const include = language === 'js' ? ['*.js'] : ['src']
  return `${JSON.stringify({ compilerOptions: { ...shared, ...ofLanguage }, include }, undefined, 2)}\n`
}
