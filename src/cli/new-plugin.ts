import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { displayPath } from '../config/config-files.ts'
import { isKebabCase } from '../config/formats.ts'
import { stripsTypes } from '../config/plugin-loader.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { readArguments } from './args.ts'
import type { Subcommand } from './args.ts'
import { UsageError, exitCodes } from './command.ts'
import { formatTable } from './table-output.ts'

const minTypeScriptNode = '22.18'

export const newPluginOptions = {
  typescript: { type: 'boolean', default: false, description: `With new: writes TypeScript, for Node.js ${minTypeScriptNode} and later.` },
} as const

/** `plugins new`: writes a plugin with its tests to a folder of its name. */
export const createNewPlugin =
  (builtIn: readonly AnyPlugin[]): Subcommand =>
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
    const linkTarget = linkGateway(folder)
    const language = typescript ? 'ts' : 'js'
    const files = pluginFiles(name, { language, ...(linkTarget !== undefined && { gatewayPath: linkTarget }) })
    for (const [file, { text }] of Object.entries(files)) writeFileSync(join(folder, file), text)
    for (const line of formatTable(
      ['FILE', ''],
      Object.entries(files).map(([file, { purpose }]) => [join(name, file), purpose]),
      styleOut,
    ))
      out(line)
    nextSteps(name, language).forEach(out)
    return exitCodes.ok
  }

const gatewayFolder = fileURLToPath(new URL('../../../', import.meta.url))

/**
 * Lets the folder import this installation where no node_modules above it has one, as below a checkout or with a global
 * installation. Returns the path of the link's target for package.json.
 */
const linkGateway = (folder: string): string | undefined => {
  const searched = createRequire(join(folder, 'file')).resolve.paths('tollgate') ?? []
  if (searched.some(modules => existsSync(join(modules, 'tollgate', 'package.json')))) return undefined
  const link = join(folder, 'node_modules', 'tollgate')
  mkdirSync(dirname(link))
  symlinkSync(gatewayFolder, link, 'junction')
  return relative(folder, gatewayFolder)
}

const missingTypeScript = `Node.js ${process.versions.node} does not strip types: the plugin and its tests need Node.js ${minTypeScriptNode} or later.`

const nextSteps = (name: string, language: 'js' | 'ts'): readonly string[] => [
  '',
  ...(language === 'ts' && !stripsTypes ? [missingTypeScript, ''] : []),
  `Run its tests:      cd ${name} && ${testCommand(name, { language })}`,
  'Load it:            put this step into the pipeline of a network, below `envelope`, then run `npx tollgate check`',
  '',
  ...pluginStep(`../../${name}/${name}.${language}`).map(line => `  ${line}`),
]

/** A file of a new plugin. */
interface TemplateFile {
  readonly purpose: string
  readonly text: string
}

interface TemplateOptions {
  readonly language: 'js' | 'ts'
  /** Where the new folder finds the gateway, if not in a node_modules above it. */
  readonly gatewayPath?: string
}

/** The files of a plugin that refuses listed methods: small, complete, and passing its tests. */
const pluginFiles = (name: string, options: TemplateOptions): Readonly<Record<string, TemplateFile>> => {
  const { language } = options
  return {
    [`${name}.${language}`]: { purpose: 'the plugin', text: pluginText(name, options) },
    [`${name}.test.${language}`]: { purpose: `its tests: ${testCommand(name, options)}`, text: testText(name, options) },
    'README.md': { purpose: 'what operators read', text: readmeText(name, options) },
    'package.json': { purpose: 'npm install, then npm run typecheck', text: packageText(name, options) },
    'tsconfig.json': { purpose: 'how types are checked', text: tsconfigText(options) },
  }
}

/** Tests in TypeScript are named: a Node.js that does not strip types then fails, where it would find no test by itself, and pass. */
const testCommand = (name: string, { language }: Pick<TemplateOptions, 'language'>): string =>
  language === 'ts' ? `node --test ${name}.test.ts` : 'node --test'

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

const readmeText = (name: string, options: TemplateOptions): string => `# ${name}

Refuses the listed methods.

\`\`\`yaml
pipeline:
  - envelope: {}
${pluginStep(`./${name}.${options.language}`)
  .map(line => `  ${line}`)
  .join('\n')}
\`\`\`

The path of \`use\` is relative to the network file: \`../../${name}/${name}.${options.language}\` where this folder is beside \`configs\`. \`npx tollgate check\` says whether the plugin stands where it may stand.

| option | description |
|---|---|
| \`methods\` | The methods to refuse. |

\`${testCommand(name, options)}\` runs the tests${options.language === 'ts' ? `, with Node.js ${minTypeScriptNode} or later` : ''}. \`npm install\`, once, and then \`npm run typecheck\` check the types.
`

const packageText = (name: string, { language, gatewayPath }: TemplateOptions): string =>
  `${JSON.stringify(
    {
      name: `tollgate-plugin-${name}`,
      version: '0.1.0',
      private: true,
      type: 'module',
      keywords: ['tollgate-plugin'],
      ...(language === 'ts' && { engines: { node: `>=${minTypeScriptNode}` } }),
      scripts: { test: testCommand(name, { language }), typecheck: 'tsc' },
      devDependencies: { '@types/node': '^20.19.43', ...(gatewayPath && { tollgate: `file:${gatewayPath}` }), typescript: '^7.0.2' },
    },
    undefined,
    2,
  )}\n`

const tsconfigText = ({ language }: TemplateOptions): string => {
  const shared = { target: 'es2023', module: 'nodenext', strict: true, noEmit: true, skipLibCheck: true, types: ['node'] }
  const ofLanguage =
    language === 'js'
      ? { allowJs: true, checkJs: true }
      : { allowImportingTsExtensions: true, erasableSyntaxOnly: true, verbatimModuleSyntax: true }
  return `${JSON.stringify({ compilerOptions: { ...shared, ...ofLanguage }, include: [`*.${language}`] }, undefined, 2)}\n`
}
