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

export type { CompiledTable } from './compile-method.ts'

/** What is wrong at a place of a methods file. */
export interface TableIssue {
  readonly path: Path
  readonly message: string
  /** What may have been meant. */
  readonly hint?: string
}

/** What a method table must know of its network. */
export interface NetworkIdentity {
  readonly name: string
  readonly chainId: number
  /** The gateway's own, for `clientVersion`. */
  readonly version: string
}

/** Checks and compiles what a methods file says; never throws. Without faults there is a table. */
export const compileTable = (data: unknown): { readonly table: CompiledTable | undefined; readonly faults: readonly TableIssue[] } => {
  const issues: Issue[] = []
  const table = readTable(data, issues)
  const faults = issues.map(({ path, message, hint }) => ({
    path,
    message: `${formatPath('', path)}${message}`.trimStart(),
    ...(hint !== undefined && { hint }),
  }))
  return { table: faults.length > 0 ? undefined : table, faults }
}

/** The methods as one network offers them. */
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

/** In steps, each only when the one before found nothing: the shape, the named types, the methods. */
const readTable = (data: unknown, issues: Issue[]): CompiledTable | undefined => {
  const file = copyPlainData(data)
  const circularData: Issue = { path: [], message: 'the table is not plain data: a part of it holds itself' }
  issues.push(...(file === undefined ? [circularData] : schemaIssues(file, 'table')))
  if (issues.length > 0) return undefined
  const { methods, errors = [], ...defaultsAndTypes } = file as TableFile // its shape has just been checked
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

/** A copy that nobody else can change; undefined when YAML aliases have made it a circle. */
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
      return `0x${chainId.toString(16)}`
    case 'networkId':
      return String(chainId)
    case 'clientVersion':
      return `Tollgate/${version}`
  }
}
