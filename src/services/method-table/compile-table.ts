import { hash } from 'node:crypto'
import { parseHexQuantity, toHexQuantity } from '../../util/json.ts'
import type { Json, Path } from '../../util/json.ts'
import { formatPath } from '../../util/json-path.ts'
import { deepFreeze, getOrCreate, memoizeFrozen } from '../../util/memoize.ts'
import { acceptAnyParams, createParamsCheck, createRuleCompiler } from './check-params.ts'
import { errorPatternIssues, createErrorClassifier } from './error-patterns.ts'
import type { Method, MethodTable } from './index.ts'
import { exampleOf } from './example-values.ts'
import { describeRule, describeRuleWithMembers } from './issue-messages.ts'
import { overrideTable, requireStrictParams, selectOffered } from './network-overrides.ts'
import { openRpcDocument } from './open-rpc.ts'
import { createRuleResolver, inspectDefaults } from './resolve-rules.ts'
import { schemaIssues } from './table-schema.ts'
import type {
  Rule,
  CompiledMethod,
  CompiledTable,
  Issue,
  MethodCompiler,
  MethodEntry,
  NetworkIdentity,
  PositionEntry,
  ReportIssue,
  ResolvedPosition,
  TableFile,
} from './table-types.ts'

interface CompiledOrIssues {
  /** Present without issues. */
  readonly table: CompiledTable | undefined
  readonly issues: readonly Issue[]
}

/** Checks and compiles the content of a methods file; never throws. */
export const compileTable = (data: unknown): CompiledOrIssues => {
  const found: Issue[] = []
  return toResult(checkTable(data, found), found)
}

/** The same for JSON that compileTable() had no issues with when Tollgate was built: its schema alone takes a sixth of a start. */
export const compileCheckedTable = (data: unknown): CompiledOrIssues => {
  const found: Issue[] = []
  return toResult(readTable(deepFreeze(data as TableFile), found, { isChecked: true }), found) // as it was checked
}

const toResult = (table: CompiledTable | undefined, found: readonly Issue[]): CompiledOrIssues => {
  const issues = found.map(({ path, message, hint }) => ({
    path,
    message: `${formatPath('', path)}${message}`.trimStart(),
    ...(hint !== undefined && { hint }),
  }))
  return { table: issues.length > 0 ? undefined : table, issues }
}

/** The methods that one network offers. */
export const openMethodTable = (table: CompiledTable, network: NetworkIdentity): MethodTable => openTable(table, network, new Map())

/** `opened`: the methods of the tables that this table was made from. */
const openTable = (table: CompiledTable, network: NetworkIdentity, opened: Map<CompiledMethod, Method>): MethodTable => {
  const methods = new Map<string, Method>()
  const openMethod = (name: string): Method | undefined => {
    const compiled = table.entries.get(name)
    if (compiled === undefined) return undefined
    const method = getOrCreate(opened, compiled, () => toMethod(name, compiled, network))
    methods.set(name, method)
    return method
  }
  const reopen = (changed: CompiledTable): MethodTable => (changed === table ? openedTable : openTable(changed, network, opened))
  const openedTable = Object.freeze<MethodTable>({
    // Most networks use few of the methods.
    get: name => methods.get(name) ?? openMethod(name),
    names: Object.freeze(table.names),
    rulesId: rulesIdOf(table.source),
    defaultCost: table.defaultCost,
    heavyClasses: table.heavyClasses,
    isHedgedClass: table.isHedgedClass,
    errorCategory: table.errorCategory,
    with: (overrides, tags) => reopen(overrideTable(table, { overrides, tags }, network.name)),
    offering: offer => reopen(selectOffered(table, offer)),
    strict: () => reopen(requireStrictParams(table)),
    toOpenRpc: described => openRpcDocument(described, table.entries, network),
  })
  return openedTable
}

/** Checks the schema, then the types, then the methods; each only when the check before found no issues. */
const checkTable = (data: unknown, issues: Issue[]): CompiledTable | undefined => {
  const file = copyPlainData(data)
  const circularData: Issue = { path: [], message: 'the table must not contain itself: an alias refers to a node around it' }
  issues.push(...(file === undefined ? [circularData] : schemaIssues(file, 'table')))
  return issues.length > 0 ? undefined : readTable(deepFreeze(file as TableFile), issues) // the schema has just been checked
}

const readTable = (source: TableFile, issues: Issue[], { isChecked = false } = {}): CompiledTable | undefined => {
  const { methods, errors = [], heavyClasses = [], hedgedClasses, ...defaultsAndTypes } = source
  const report = (issue: Issue) => void issues.push(issue)
  const compiler = createMethodCompiler(defaultsAndTypes, isChecked, report)
  if (issues.length > 0) return undefined
  const entries = new Map<string, CompiledMethod>()
  for (const [name, entry] of Object.entries(methods)) {
    const compiled = compiler.compile(name, entry, ['methods', name], report)
    if (compiled !== undefined) entries.set(name, compiled)
  }
  errorPatternIssues(errors, Object.keys(methods)).forEach(report)
  const names = [...entries.keys()]
  const { cost: defaultCost } = defaultsAndTypes.defaults
  return {
    source,
    names,
    defaultCost,
    entries,
    heavyClasses: new Set(heavyClasses),
    isHedgedClass: name => hedgedClasses?.includes(name) ?? !heavyClasses.includes(name),
    errorCategory: createErrorClassifier(errors),
    compiler,
  }
}

/** Without the costs. */
const rulesIdOf = memoizeFrozen(({ defaults, methods, ...rest }: TableFile): string => {
  const withoutCost = ({ cost: _cost, ...entry }: MethodEntry) => entry
  const entries = Object.entries(methods).map(([name, entry]) => [name, withoutCost(entry)])
  return hash('sha256', JSON.stringify([withoutCost(defaults), entries, rest]), 'base64url')
})

/** A copy that nobody else can change; undefined when YAML aliases make the data contain itself. */
const copyPlainData = (data: unknown): unknown => {
  try {
    return JSON.parse(JSON.stringify(data) ?? 'null')
  } catch {
    return undefined
  }
}

const toMethod = (name: string, { settings, entry, positions = [], check }: CompiledMethod, network: NetworkIdentity): Method =>
  Object.freeze({
    name,
    ...settings,
    ...answerOf(entry.answer, network),
    check,
    waitMs: waitReaderOf(settings),
    describeParams: createParamsDescriber(positions),
  })

const waitReaderOf = ({ maxWait, waitParam }: Pick<Method, 'maxWait' | 'waitParam'>): Method['waitMs'] => {
  if (maxWait === undefined) return noWait
  return params => {
    const asked = waitParam === undefined ? undefined : params[waitParam]
    const askedMs = typeof asked === 'string' ? parseHexQuantity(asked) : Number(asked ?? 0)
    // 0: the node takes its default.
    return Math.min(maxWait, askedMs || maxWait)
  }
}

const noWait = (): number => 0

/** All callers get the same description: to put the parameters of a table in words takes 0.8 ms. */
const createParamsDescriber = (positions: readonly ResolvedPosition[]): Method['describeParams'] => {
  let described: ReturnType<Method['describeParams']> | undefined
  const describe = ({ title, optional, rule }: ResolvedPosition) => ({
    title,
    optional: optional !== false,
    accepts: describeRuleWithMembers(rule),
    example: exampleOf(rule),
    ...(rule.default !== undefined && { default: rule.default }),
    // What may be hex too is one text to people: a block.
    ...(rule.properties !== undefined && rule.hex === undefined && { members: Object.entries(rule.properties).map(describeMember) }),
  })
  return () => (described ??= deepFreeze(positions.map(describe)))
}

const describeMember = ([title, rule]: readonly [string, Rule]) => ({ title, accepts: describeRule(rule), example: exampleOf(rule) })

const answerOf = (answer: MethodEntry['answer'], network: NetworkIdentity): Pick<Method, 'answer' | 'discovers'> => {
  if (answer === undefined) return {}
  if ('value' in answer) return { answer: toBytes(answer.value) }
  return answer.from === 'openRpc' ? { discovers: true } : { answer: toBytes(networkValues[answer.from](network)) }
}

const toBytes = (value: Json): Uint8Array => Buffer.from(JSON.stringify(value))

const networkValues = {
  chainId: ({ chainId }: NetworkIdentity) => toHexQuantity(chainId),
  networkId: ({ chainId }: NetworkIdentity) => String(chainId),
  clientVersion: ({ version }: NetworkIdentity) => `Tollgate/${version}`,
} as const

/** Reports the issues of the types of the file. Defaults that have been checked are not compiled again. */
const createMethodCompiler = (
  file: Omit<TableFile, 'methods' | 'errors' | 'heavyClasses' | 'hedgedClasses'>,
  isChecked: boolean,
  reportTypeIssue: ReportIssue,
): MethodCompiler => {
  const resolve = createRuleResolver(file.types ?? {}, reportTypeIssue)
  const compileRule = createRuleCompiler()

  const resolvePosition = ({ title, optional, ...own }: PositionEntry, path: Path, report: ReportIssue): ResolvedPosition => {
    const rule = resolve(own, path, report)
    return { title, rule, optional: optional ?? rule.default !== undefined }
  }

  /** Undefined after a report. */
  const resolvePositions = (params: readonly PositionEntry[], path: Path, report: ReportIssue): CompiledMethod['positions'] => {
    const issues: Issue[] = []
    const positions = params.map((position, i) => resolvePosition(position, [...path, i], issue => issues.push(issue)))
    if (issues.length === 0 && !isChecked)
      issues.push(...positions.flatMap(({ rule }, i) => inspectDefaults(rule, [...path, i], compileRule)))
    issues.forEach(report)
    return issues.length > 0 ? undefined : positions
  }

  return {
    compile(name, entry, path, report) {
      const settings = { ...file.defaults, ...settingsOf(entry) }
      if (settings.splittable === true && settings.maxBlocks !== undefined) return void report(splittableWithMaxBlocks(path))
      if (entry.params === undefined) return { entry, settings, positions: undefined, check: acceptAnyParams }
      const positions = resolvePositions(entry.params, [...path, 'params'], report)
      return positions && { entry, settings, positions, check: createParamsCheck(name, positions, compileRule) }
    },
    withPositions: (name, compiled, positions) =>
      positions === undefined ? compiled : { ...compiled, positions, check: createParamsCheck(name, positions, compileRule) },
  }
}

const splittableWithMaxBlocks = (path: Path): Issue => ({
  path: [...path, 'maxBlocks'],
  message: ' is for methods without `splittable: true`, whose queries are sent whole; set `splittable: false`, or remove `maxBlocks`',
})

const settingsOf = ({ params: _params, answer: _answer, maxTime, maxWait, ...rest }: MethodEntry) => ({
  ...((rest.splittable === true || rest.maxBlocks !== undefined) && { blockParam: 0 }),
  ...rest,
  ...(maxTime !== undefined && { maxTime: parseDurationMs(maxTime) }),
  ...(maxWait !== undefined && { maxWait: parseDurationMs(maxWait) }),
})

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 }

const parseDurationMs = (text: string): number => Number.parseInt(text, 10) * (unitMs[text.replace(/^\d+/, '')] ?? 1)
