import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { plugins } from '../../plugins/index.ts'
import { commandLoaders } from '../../src/cli/commands.ts'
import { formatExamples, formatOption } from '../../src/cli/command.ts'
import type { Command } from '../../src/cli/command.ts'
import { gatewaySchema } from '../../src/config/gateway-options.ts'
import { networkSchema } from '../../src/config/network-options.ts'
import { operatorRoutes } from '../../src/portal/operator/operator-app.ts'
import { metricDefinitions } from '../../src/services/metric-definitions.ts'
import { verifyMetrics } from '../../plugins/verify/metrics.ts'
import { methodTableKeywords } from '../../src/services/method-table/table-schema.ts'
import type { MethodEntry, TableFile } from '../../src/services/method-table/table-types.ts'
import { describeOptions } from '../../src/config/describe-options.ts'
import { getOrCreate } from '../../src/util/memoize.ts'
import { formatOptionsTable } from './reference-options.ts'
import { code, formatTable, page } from './markdown-tables.ts'
import { exportsOf, findDeclaration } from './declarations.ts'
import type { Declaration } from './declarations.ts'
import { rootDir } from './source-files.ts'

/** The pages of docs/reference/ by file name, made of the schemas and tables that the gateway itself uses. */
export const createReferencePages = async (): Promise<ReadonlyMap<string, string>> =>
  new Map([
    ['plugins.md', createPluginsPage()],
    ['plugin-api.md', createPluginApiPage()],
    ['gateway.md', createGatewayPage()],
    ['methods.md', createMethodsPage()],
    ['metrics.md', createMetricsPage()],
    ['operator-api.md', createOperatorApiPage()],
    ['commands.md', createCommandsPage(await Promise.all(Object.values(commandLoaders).map(load => load())))],
  ])

const createPluginsPage = (): string =>
  page('Plugins and their options', [
    'The plugins that come with the gateway, in the order in which a call passes them. A network file names them in its `pipeline`.',
    ...plugins.flatMap(({ name, summary, options }) => [
      `## ${name}`,
      summary,
      Object.keys(options.properties ?? {}).length === 0 ? 'No options.' : formatOptionsTable(describeOptions(options)),
    ]),
  ])

/** Services that plugins of others use, of which each member is shown. */
const detailedServices = [
  'network',
  'clock',
  'log',
  'metrics',
  'methods',
  'heads',
  'upstreamClient',
  'nodes',
  'evidence',
  'results',
  'rateLimits',
  'records',
  'problems',
  'events',
]

/** Types that have a section of their own. */
const typesWithSection = ['Stage', 'Services']

/** Types that `tollgate/plugin` does not export, by file: members of those that it does, and arguments and results of services. */
const furtherTypes: readonly (readonly [file: string, name: string, description?: string])[] = [
  ['src/plugin/call.ts', 'Plan'],
  ['src/plugin/reply.ts', 'ReplyMetadata', 'What `Result` and `Failure` have too.'],
  ['src/services/upstream-client/request-deadline.ts', 'RequestOptions'],
  ['src/services/rate-limits.ts', 'TokenRequest'],
  ['src/services/rate-limits.ts', 'Rate'],
  ['src/services/rate-limits.ts', 'TooFewTokens'],
  ['src/services/chain-heads/heads-types.ts', 'ChainSnapshot'],
  ['src/services/plugin-problems.ts', 'ReportedProblem'],
]

const createPluginApiPage = (): string => {
  const exported = exportsOf(join(rootDir, 'src/plugin/plugin.ts'))
  const pluginFile = join(rootDir, 'src/plugin/define-plugin.ts')
  const callFile = join(rootDir, 'src/plugin/call.ts')
  const isType = ({ kind }: Declaration): boolean => kind === 'type' || kind === 'interface'
  const servicesFile = join(rootDir, 'src/services/index.ts')
  const optionsFile = join(rootDir, 'src/plugin/options-schema.ts')
  const { members } = findDeclaration(servicesFile, 'Services')
  const toRow = ({ name, kind, description }: Declaration) => [code(name), kind === 'const' ? 'value' : kind, description]
  return page('The API of plugins', [
    '[Plugins](../plugins.md) says how to use it. Editors show the types and these descriptions too.',
    '## What tollgate/plugin exports',
    formatTable(['name', 'is a', 'description'], exported.filter(each => !isType(each)).map(toRow)),
    '## Types of tollgate/plugin',
    formatTable(
      ['name', 'description'],
      exported.filter(isType).map(({ name, description }) => [code(name), description]),
    ),
    '## A plugin',
    'What `definePlugin()` takes.',
    formatMembers(findDeclaration(pluginFile, 'Plugin')),
    '## A stage',
    'What `create` returns where a handler is not enough.',
    formatMembers(findDeclaration(pluginFile, 'Stage')),
    '## Options',
    'The keywords of a schema that are not those of JSON Schema, or that do more.',
    ...['DescribedSchema', 'RequiredOption', 'StringSchema', 'ObjectSchema'].flatMap(name => {
      const { members, ...declaration } = findDeclaration(optionsFile, name)
      return [`### ${name}`, formatMembers({ ...declaration, members: members.filter(({ description }) => description !== '') })]
    }),
    '## Messages over a WebSocket',
    'What `origin.push` has.',
    formatMembers(findDeclaration(callFile, 'Push')),
    '## Services',
    'The second argument of `create`.',
    formatTable(
      ['service', 'description'],
      members.map(({ signature, description }) => [code(signature), description]),
    ),
    ...members
      .filter(({ name }) => detailedServices.includes(name))
      .flatMap(({ name, type }) => {
        const service = findDeclaration(servicesFile, type.replace(/<.*/, ''))
        return [`### services.${name}`, service.description, formatMembers(service)]
      }),
    '## Members of types',
    'Those that `tollgate/plugin` exports, and those of their members, and of arguments and results of services.',
    ...[
      ...exported.filter(({ name, members }) => members.length > 0 && !typesWithSection.includes(name)),
      ...furtherTypes.map(([file, name, description]) => {
        const found = findDeclaration(join(rootDir, file), name)
        return { ...found, description: description ?? found.description }
      }),
    ].flatMap(type => [`### ${type.name}`, type.description, formatTypedMembers(type)]),
  ])
}

const formatMembers = ({ members }: Declaration): string =>
  formatTable(
    ['member', 'description'],
    members.map(({ signature, description }) => [code(signature), description]),
  )

const formatTypedMembers = ({ members }: Declaration): string =>
  formatTable(
    ['member', 'type', 'description'],
    members.map(({ name, signature, type, isOptional, description }) =>
      signature === name
        ? [code(name), `${code(type)}${isOptional ? ', or absent' : ''}`, description]
        : [code(signature), '', description],
    ),
  )

const createGatewayPage = (): string =>
  page('Configuration files', [
    'Durations are written as `250ms`, `10s`, `5m`, `2h` or `1d`, sizes as `512B`, `64KiB`, `1MiB` or `2GiB`. A value may be `${VARIABLE}`.',
    '## gateway.yaml',
    gatewaySchema.description,
    formatOptionsTable(describeOptions(gatewaySchema)),
    '## networks/NAME.yaml',
    networkSchema.description,
    formatOptionsTable(describeOptions(networkSchema)),
    'The options of the plugins: [plugins.md](plugins.md).',
  ])

/** What a keyword of the method table is in its schema, as far as the page shows it. */
interface Keyword {
  readonly description: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
}

const keywordTypeOf = ({ type = 'any', enum: values }: Keyword): string =>
  values === undefined ? [type].flat().join(' or ') : values.map(value => code(String(value))).join(', ')

type KeywordSection = keyof typeof methodTableKeywords

/** Those that mean what they mean in JSON Schema. */
const plainKeywords: readonly string[] = [
  'type',
  'enum',
  'items',
  'properties',
  'additionalProperties',
  'required',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'maxProperties',
]

const keywordSections: readonly (readonly [section: KeywordSection, title: string, text: string])[] = [
  ['table', 'The file', 'A method table is a file in `methods/`; a network names it at `methods`.'],
  ['method', 'A method', 'An entry of `methods`.'],
  ['position', 'A position', 'An entry of `params`: a rule, and these keywords.'],
  [
    'rule',
    'A rule',
    `JSON Schema with ${plainKeywords.map(code).join(', ')}, and these keywords. A property that is not \`required\` may be missing or null. \`pattern\` is not supported.`,
  ],
  ['error', 'An error', 'An entry of `errors`.'],
]

/** The loader's tests check the file. */
const shippedTable: TableFile = parse(readFileSync(join(rootDir, 'configs/methods/ethereum.yaml'), 'utf8'))

const createMethodsPage = (): string =>
  page('The method table', [
    ...keywordSections.flatMap(([section, title, text]) => [`## ${title}`, text, formatKeywords(methodTableKeywords[section])]),
    '## The shipped table',
    'The methods of `configs/methods/ethereum.yaml`, which has the rules of their parameters; `rpc.discover` describes them to callers. ' +
      'The gateway itself answers those of the first row.',
    formatMethods(shippedTable, method => method.offered !== false),
    'These methods are offered where the option `offer` of `params` names them:',
    formatMethods(shippedTable, method => method.offered === false),
  ])

const formatKeywords = (keywords: Readonly<Record<string, Keyword>>): string =>
  formatTable(
    ['keyword', 'type', 'description'],
    Object.entries(keywords)
      .filter(([name]) => !plainKeywords.includes(name))
      .map(([name, keyword]) => [code(name), keywordTypeOf(keyword), keyword.description]),
  )

/** Methods that differ by nothing but their names and parameters share a row. */
const formatMethods = ({ defaults, methods }: TableFile, isShown: (method: MethodEntry) => boolean): string => {
  const rows = new Map<string, { readonly names: string[]; readonly cells: readonly string[] }>()
  for (const [name, method] of Object.entries(methods)) {
    if (!isShown(method)) continue
    const { cost, cache, class: methodClass } = { ...defaults, ...method }
    const cells = [String(cost), cache, methodClass]
    const { names } = getOrCreate(rows, [...cells, method.answer === undefined].join(), () => ({ names: [], cells }))
    names.push(code(name))
  }
  return formatTable(
    ['methods', 'cost', 'cache', 'class'],
    [...rows.values()].map(({ names, cells }) => [names.join(', '), ...cells]),
  )
}

const createMetricsPage = (): string =>
  page('Metrics', [
    'What `/metrics` of the admin listener returns, in the text format of Prometheus.',
    formatTable(
      ['metric', 'type', 'labels', 'description'],
      [...Object.values(metricDefinitions), ...Object.values(verifyMetrics)].map(({ name, type, labels, help }) => [
        code(name),
        type,
        labels.map(code).join(', '),
        help,
      ]),
    ),
  ])

const createOperatorApiPage = (): string =>
  page('The API of accounts', [
    'The requests below `/api/v1` of the admin listener; `{id}` of an account is its id or its name. `/api/v1/openapi.json` describes the ' +
      'members and the responses as OpenAPI 3.1.',
    formatTable(
      ['request', 'query or body', 'does'],
      operatorRoutes.map(({ method, path, query, body, summary }) => [
        code(`${method.toUpperCase()} ${path}`),
        Object.keys((query ?? body)?.properties ?? {})
          .map(code)
          .join(', '),
        summary,
      ]),
    ),
  ])

/** What every command takes, or prints, is said once. */
const commonArguments: ReadonlySet<string> = new Set(['`--config DIR`', '`--json`'])

const createCommandsPage = (commands: readonly Command[]): string =>
  page('Commands', [
    'Exit codes: 0 success, 1 failure, 64 wrong arguments, 78 wrong configuration. `--config DIR` names the configuration directory, `configs` ' +
      'by default. `--json` prints JSON, for programs. Output is in color on a terminal; `NO_COLOR=1` ends that, and `FORCE_COLOR=1` has it in a pipe too.',
    ...commands.flatMap(({ name, summary, usage, positionals, options, examples }) => [
      `## ${name}`,
      summary,
      `\`\`\`\n${usage.map(form => `tollgate ${form.replace(' [--config DIR]', '')}`).join('\n')}\n\`\`\``,
      ...formatArguments([
        ...Object.entries(positionals).map(([placeholder, description]) => [code(placeholder), description]),
        ...Object.entries(options).map(([option, definition]) => [
          code(formatOption(option, definition)),
          typeof definition.default === 'string'
            ? `${definition.description} Default: ${code(definition.default)}.`
            : definition.description,
        ]),
      ]),
      `\`\`\`sh\n${formatExamples(examples).join('\n')}\n\`\`\``,
    ]),
  ])

const formatArguments = (rows: readonly (readonly string[])[]): readonly string[] => {
  const own = rows.filter(([argument = '']) => !commonArguments.has(argument))
  return own.length === 0 ? [] : [formatTable(['argument', 'description'], own)]
}
