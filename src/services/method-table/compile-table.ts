import type { Path } from '../../plugin/plugin.ts'
import { overrideTable } from './override-table.ts'
import { createMethodCompiler } from './compile-method.ts'
import type { CompiledMethod, CompiledTable } from './compile-method.ts'
import { errorPatternIssues, createErrorClassifier } from './error-patterns.ts'
import type { Method, MethodTable } from './index.ts'
import type { MethodEntry, TableFile } from './table-types.ts'
import { formatPath } from './issue-messages.ts'
import type { Issue } from './issue-messages.ts'
import { schemaIssues } from './table-schema.ts'
import { toHexQuantity } from '../../util/hex-quantity.ts'

export type { CompiledTable } from './compile-method.ts'

/** A problem at a path of a methods file. */
export interface TableIssue {
  readonly path: Path
  readonly message: string
  /** What was probably meant. */
  readonly hint?: string
}

/** The network of a method table. */
export interface NetworkIdentity {
  readonly name: string
  readonly chainId: number
  /** The version of the gateway, for `clientVersion`. */
  readonly version: string
}

/** Checks and compiles the content of a methods file; never throws. Without issues there is a table. */
export const compileTable = (data: unknown): { readonly table: CompiledTable | undefined; readonly issues: readonly TableIssue[] } => {
  const found: Issue[] = []
  const table = readTable(data, found)
  const issues = found.map(({ path, message, hint }) => ({
    path,
    message: `${formatPath('', path)}${message}`.trimStart(),
    ...(hint !== undefined && { hint }),
  }))
  return { table: issues.length > 0 ? undefined : table, issues }
}

/** The methods that one network offers. */
export const openMethodTable = (table: CompiledTable, network: NetworkIdentity): MethodTable => {
  const methods = new Map([...table.entries].map(([name, compiled]) => [name, toMethod(name, compiled, network)]))
  return {
    get: name => methods.get(name),
    names: table.names,
    defaultCost: table.defaultCost,
    errorCategory: table.errorCategory,
    with: (overrides, tags) => openMethodTable(overrideTable(table, { overrides, tags }, network.name), network),
  }
}

/** Checks the schema, then the types, then the methods; each only when the check before found no issues. */
const readTable = (data: unknown, issues: Issue[]): CompiledTable | undefined => {
  const file = copyPlainData(data)
  const circularData: Issue = { path: [], message: 'the table must not contain itself: an alias refers to a node around it' }
  issues.push(...(file === undefined ? [circularData] : schemaIssues(file, 'table')))
  if (issues.length > 0) return undefined
  const { methods, errors = [], ...defaultsAndTypes } = file as TableFile // the schema has just been checked
  const report = (issue: Issue) => void issues.push(issue)
  const compiler = createMethodCompiler(defaultsAndTypes, report)
  if (issues.length > 0) return undefined
  const entries = new Map<string, CompiledMethod>()
  for (const [name, entry] of Object.entries(methods)) {
    const compiled = compiler.compile(name, entry, ['methods', name], report)
    if (compiled !== undefined) entries.set(name, compiled)
  }
  errorPatternIssues(errors, Object.keys(methods)).forEach(report)
  const names = [...entries.keys()]
  return { names, defaultCost: defaultsAndTypes.defaults.cost, entries, errorCategory: createErrorClassifier(errors), compiler }
}

/** A copy that nobody else can change; undefined when YAML aliases make the data contain itself. */
const copyPlainData = (data: unknown): unknown => {
  try {
    return JSON.parse(JSON.stringify(data) ?? 'null')
  } catch {
    return undefined
  }
}

const toMethod = (name: string, { settings, entry, check }: CompiledMethod, network: NetworkIdentity): Method => ({
  name,
  ...settings,
  ...(entry.answer && { answer: Buffer.from(JSON.stringify(answerOf(entry.answer, network))) }),
  check,
})

const answerOf = (answer: NonNullable<MethodEntry['answer']>, { chainId, version }: NetworkIdentity): unknown => {
  if ('value' in answer) return answer.value
  switch (answer.from) {
    case 'chainId':
      return toHexQuantity(chainId)
    case 'networkId':
      return String(chainId)
    case 'clientVersion':
      return `Tollgate/${version}`
  }
}
