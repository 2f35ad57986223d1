import { Misconfigured } from '../../plugin/define-plugin.ts'
import { isJsonObject } from '../../util/json.ts'
import { formatValue } from '../../util/json-path.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { createNameMatcher } from '../../util/name-pattern.ts'
import type { MethodOverride } from './index.ts'
import { formatIssue, hintFor } from './issue-messages.ts'
import { schemaIssues } from './table-schema.ts'
import type { CompiledMethod, CompiledTable, Issue, MethodEntry, ReportIssue, Rule } from './table-types.ts'

/** The changes of one network to the table. */
interface TableOverrides {
  readonly overrides: Readonly<Record<string, MethodOverride>>
  readonly tags: Readonly<Record<string, readonly string[]>>
}

/** The table with entries changed, then with tags removed. Throws Misconfigured, whose paths begin with a method's name. */
export const overrideTable = (table: CompiledTable, { overrides, tags }: TableOverrides, network: string): CompiledTable => {
  if (Object.keys(overrides).length + Object.keys(tags).length === 0) return table
  const issues: Issue[] = []
  const report = (issue: Issue) => void issues.push(issue)
  const entries = new Map(table.entries)
  const set = (name: string, compiled: CompiledMethod | undefined) => void (compiled && entries.set(name, compiled))

  for (const [name, override] of Object.entries(overrides)) {
    if (override !== false) set(name, overrideEntry(table, name, override, report))
    else if (!entries.delete(name)) report(unknownMethod(name, table))
  }
  for (const [name, allowed] of Object.entries(tags)) {
    const compiled = entries.get(name)
    if (compiled === undefined) report(unknownMethod(name, table))
    else set(name, table.compiler.withPositions(name, compiled, restrictPositions({ name, compiled, allowed, network }, report)))
  }

  if (issues.length > 0) throw new Misconfigured(issues.map(misconfigurationOf))
  return { ...table, entries, names: [...entries.keys()] }
}

/** The methods that are offered, by the table or by a pattern of `offer`. Throws Misconfigured, whose paths are positions in `offer`. */
export const selectOffered = (table: CompiledTable, offer: readonly string[]): CompiledTable =>
  offer.length === 0 ? getOrCreate(offeredByTable, table, () => selectMatching(table, offer)) : selectMatching(table, offer)

/** Most networks of a table share what it offers without `offer`. */
const offeredByTable = new WeakMap<CompiledTable, CompiledTable>()

const selectMatching = (table: CompiledTable, offer: readonly string[]): CompiledTable => {
  const isOfferedByTable = (name: string) => table.entries.get(name)?.entry.offered !== false
  const issues = offer.flatMap((pattern, i): readonly Issue[] => {
    const named = table.names.filter(createNameMatcher([pattern]))
    if (named.some(name => !isOfferedByTable(name))) return []
    if (named.length > 0) return [{ path: [i], message: ` is "${pattern}", which is offered without being listed` }]
    const ownMethod = pattern.includes('*') ? {} : { hint: 'the option `methods` adds a method' }
    return [{ path: [i], message: ` is "${pattern}", which names no method of the table`, ...ownMethod, ...hintFor(pattern, table.names) }]
  })
  if (issues.length > 0) throw new Misconfigured(issues.map(misconfigurationOf))
  const isNamed = createNameMatcher(offer)
  const entries = new Map([...table.entries].filter(([name]) => isOfferedByTable(name) || isNamed(name)))
  return { ...table, names: [...entries.keys()], entries }
}

/** The table without parameters that are optional `unless strict`: they are required. */
export const requireStrictParams = (table: CompiledTable): CompiledTable => {
  const entries = new Map(table.entries)
  for (const [name, compiled] of table.entries) {
    const positions = compiled.positions?.map(position => ({ ...position, optional: position.optional === true }))
    if (compiled.positions?.some(({ optional }) => optional === 'unless strict') === true)
      entries.set(name, table.compiler.withPositions(name, compiled, positions))
  }
  return { ...table, entries }
}

const unknownMethod = (name: string, { names }: CompiledTable): Issue => ({
  path: [name],
  message: ' is not in the method table',
  ...hintFor(name, names),
})

const misconfigurationOf = (issue: Issue) => ({ path: issue.path, message: formatIssue('', issue) })

/** The fields replace those of the entry, and `null` removes one; a method that is not in the table is added. */
const overrideEntry = (
  { entries, compiler }: CompiledTable,
  name: string,
  fields: Exclude<MethodOverride, false>,
  report: ReportIssue,
): CompiledMethod | undefined => {
  const notAnObject = ` must be false or the fields to change, not ${formatValue(fields)}`
  if (!isJsonObject(fields)) return void report({ path: [name], message: notAnObject })
  const mergedFields = Object.entries({ ...entries.get(name)?.entry, ...fields }).filter(([, value]) => value !== null)
  const entry: MethodEntry = Object.fromEntries(mergedFields) // schemaIssues() checks whether it is one
  const issues = schemaIssues(entry, 'method')
  issues.forEach(issue => report({ ...issue, path: [name, ...issue.path] }))
  return issues.length > 0 ? undefined : compiler.compile(name, entry, [name], report)
}

interface TagRestriction {
  readonly name: string
  readonly compiled: CompiledMethod
  readonly allowed: readonly string[]
  readonly network: string
}

const restrictPositions = ({ name, compiled, allowed, network }: TagRestriction, report: ReportIssue): CompiledMethod['positions'] => {
  tagIssues(name, compiled.positions?.map(position => position.rule) ?? [], allowed).forEach(report)
  return compiled.positions?.map(position => ({ ...position, rule: restrictTags(position.rule, allowed, `${name} on ${network}`) }))
}

const tagIssues = (name: string, rules: readonly Rule[], allowed: readonly string[]): readonly Issue[] => {
  const known = [...new Set(rules.flatMap(tagsOf))]
  if (known.length === 0) return [{ path: [name], message: ' takes no block tag' }]
  const unknownTags = allowed.flatMap((tag, i) =>
    known.includes(tag) ? [] : [{ path: [name, i], message: ` is "${tag}", which is not a block tag of ${name}`, ...hintFor(tag, known) }],
  )
  const lostDefault = rules.flatMap(defaultTextsOf).find(text => known.includes(text) && !allowed.includes(text))
  return lostDefault === undefined
    ? unknownTags
    : [...unknownTags, { path: [name], message: ` must include "${lostDefault}", the default of a missing block` }]
}

/** The block tags that a rule and its inner rules accept. */
const tagsOf = (rule: Rule): readonly string[] => [...(rule.tags ?? []), ...innerRules(rule).flatMap(tagsOf)]

/** The defaults of a rule and its inner rules that are strings. */
const defaultTextsOf = (rule: Rule): readonly string[] => [
  ...(typeof rule.default === 'string' ? [rule.default] : []),
  ...innerRules(rule).flatMap(defaultTextsOf),
]

/** The same rule with only the `allowed` tags; messages about the others name `where`. */
const restrictTags = (rule: Rule, allowed: readonly string[], where: string): Rule => ({
  ...rule,
  ...(rule.tags && {
    tags: rule.tags.filter(tag => allowed.includes(tag)),
    unsupportedTags: { tags: rule.tags.filter(tag => !allowed.includes(tag)), where },
  }),
  ...(rule.items && { items: restrictTags(rule.items, allowed, where) }),
  ...(rule.properties && { properties: restrictTagsOfEach(rule.properties, allowed, where) }),
})

const restrictTagsOfEach = (rules: Readonly<Record<string, Rule>>, allowed: readonly string[], where: string) =>
  Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, restrictTags(rule, allowed, where)]))

const innerRules = ({ items, properties = {} }: Rule): readonly Rule[] => [
  ...(items === undefined ? [] : [items]),
  ...Object.values(properties),
]
