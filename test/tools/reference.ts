import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { plugins } from '../../plugins/index.ts'
import { commandLoaders } from '../../src/cli/commands.ts'
import { formatOption } from '../../src/cli/command.ts'
import type { Command } from '../../src/cli/command.ts'
import { gatewaySchema } from '../../src/config/gateway-options.ts'
import { networkSchema } from '../../src/config/network-schema.ts'
import { isCharged, refusals, refuse } from '../../src/plugin/plugin.ts'
import type { RefusalKind } from '../../src/plugin/plugin.ts'
import { operatorRoutes } from '../../src/portal/operator/operator-app.ts'
import { metricDefinitions } from '../../src/services/metric-definitions.ts'
import { methodTableKeywords } from '../../src/services/method-table/table-schema.ts'
import type { MethodEntry, PositionEntry, TableFile } from '../../src/services/method-table/table-types.ts'
import { describeOptions } from '../../src/config/describe-options.ts'
import { formatOptionsTable } from './reference-options.ts'
import { code, formatTable, page } from './markdown-tables.ts'
import { rootDir } from './source-files.ts'

/** The pages of docs/reference/ by file name, made of the schemas and tables that the gateway itself uses. */
export const createReferencePages = async (): Promise<ReadonlyMap<string, string>> =>
  new Map([
    ['plugins.md', createPluginsPage()],
    ['gateway.md', createGatewayPage()],
    ['methods.md', createMethodsPage()],
    ['metrics.md', createMetricsPage()],
    ['errors.md', createErrorsPage()],
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

const keywordSections: readonly (readonly [section: KeywordSection, title: string, text: string])[] = [
  ['table', 'The file', 'A method table is a file in `methods/`; a network names it at `methods`.'],
  ['method', 'A method', 'An entry of `methods`.'],
  ['position', 'A position', 'An entry of `params`: a rule, and these keywords.'],
  ['rule', 'A rule', 'JSON Schema with these keywords. `pattern` is not supported: a slow expression would let callers block the process.'],
  ['error', 'An error', 'An entry of `errors`.'],
]

const createMethodsPage = (): string =>
  page('The method table', [
    ...keywordSections.flatMap(([section, title, text]) => [`## ${title}`, text, formatKeywords(methodTableKeywords[section])]),
    '## The shipped table',
    'The methods of `configs/methods/ethereum.yaml`. `?` marks a parameter that may be missing. Methods that are not offered by default need ' +
      'the option `offer` of `params`.',
    formatMethods(parse(readFileSync(join(rootDir, 'configs/methods/ethereum.yaml'), 'utf8'))), // the loader's tests check the file
  ])

const formatKeywords = (keywords: Readonly<Record<string, Keyword>>): string =>
  formatTable(
    ['keyword', 'type', 'description'],
    Object.entries(keywords).map(([name, keyword]) => [code(name), keywordTypeOf(keyword), keyword.description]),
  )

const formatMethods = ({ defaults, methods }: TableFile): string => {
  const rows: { names: string[]; readonly cells: readonly string[] }[] = []
  for (const [name, method] of Object.entries(methods)) {
    const cells = [formatParams(method), ...formatFields({ ...defaults, ...method }), method.offered === false ? 'if named' : 'yes']
    const last = rows.at(-1)
    // Neighbors that differ by nothing but their names share a row.
    if (last?.cells.join('|') === cells.join('|')) last.names.push(code(name))
    else rows.push({ names: [code(name)], cells })
  }
  return formatTable(
    ['methods', 'params', 'cost', 'cache', 'class', 'offered'],
    rows.map(({ names, cells }) => [names.join(', '), ...cells]),
  )
}

const formatFields = ({ cost, cache, class: methodClass }: TableFile['defaults']): readonly string[] => [String(cost), cache, methodClass]

const formatParams = ({ params, answer }: MethodEntry): string => {
  if (answer !== undefined) return 'answered by the gateway'
  if (params === undefined) return 'unchecked'
  const isOptional = ({ optional = false, default: value }: PositionEntry) => optional !== false || value !== undefined
  return params.map(position => (isOptional(position) ? `${position.title}?` : position.title)).join(', ') || 'none'
}

const createMetricsPage = (): string =>
  page('Metrics', [
    'What `/metrics` of the admin listener returns, in the text format of Prometheus.',
    formatTable(
      ['metric', 'type', 'labels', 'description'],
      Object.values(metricDefinitions).map(({ name, type, labels, help }) => [code(name), type, labels.map(code).join(', '), help]),
    ),
  ])

const createErrorsPage = (): string =>
  page('Errors', [
    'The errors that the gateway itself returns. *Fault* says whose doing the error is, *charged* whether the call costs credits.',
    formatTable(
      ['kind', 'HTTP', 'code', 'message', 'fault', 'charged'],
      Object.entries(refusals).map(([kind, { status, code: errorCode, message, fault }]) => [
        code(kind),
        String(status),
        String(errorCode),
        code(message),
        fault,
        isCharged(refuse(kind as RefusalKind)) ? 'yes' : 'no', // Object.entries gives the keys as strings
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
      'by default. `--json` prints JSON, for programs.',
    ...commands.flatMap(({ name, summary, usage, positionals, options }) => [
      `## ${name}`,
      summary,
      `\`\`\`\n${usage.map(form => `tollgate ${form}`).join('\n')}\n\`\`\``,
      ...formatArguments([
        ...Object.entries(positionals).map(([placeholder, description]) => [code(placeholder), description]),
        ...Object.entries(options).map(([option, definition]) => [
          code(formatOption(option, definition)),
          typeof definition.default === 'string'
            ? `${definition.description} Default: ${code(definition.default)}.`
            : definition.description,
        ]),
      ]),
    ]),
  ])

const formatArguments = (rows: readonly (readonly string[])[]): readonly string[] => {
  const own = rows.filter(([argument = '']) => !commonArguments.has(argument))
  return own.length === 0 ? [] : [formatTable(['argument', 'description'], own)]
}
