import { isJsonObject } from '../../util/json.ts'
import type { Path } from '../../util/json.ts'
import type { CompileRule } from './check-params.ts'
import { hintFor } from './issue-messages.ts'
import { objectKeywords, typesOf } from './rule-keywords.ts'
import { keywordTypes } from './table-types.ts'
import type { Issue, ReportIssue, Rule } from './table-types.ts'

/** Replaces each `ref` with the type that it names, in inner rules too, and reports rules that cannot work. */
type ResolveRule = (rule: Rule, path: Path, report: ReportIssue) => Rule

/** Resolves all types at once, so that each is checked whether a method uses it or not. */
export const createRuleResolver = (types: Readonly<Record<string, Rule>>, reportType: ReportIssue): ResolveRule => {
  const resolvedTypes = new Map<string, Rule>()
  const resolving = new Set<string>()

  const lookUp = (name: string, path: Path, report: ReportIssue): Rule => {
    const existing = resolvedTypes.get(name)
    if (existing !== undefined) return existing
    const type = Object.hasOwn(types, name) ? types[name] : undefined
    if (type === undefined || resolving.has(name)) {
      report(type === undefined ? unknownType(name, path, Object.keys(types)) : { path, message: ' refers to itself' })
      return anyRule
    }
    resolving.add(name)
    const resolved = resolve(type, ['types', name], reportType)
    resolving.delete(name)
    resolvedTypes.set(name, resolved)
    return resolved
  }

  const resolve: ResolveRule = (rule, path, report) => {
    const { ref, ...own } = rule
    const inner = (keyword: keyof Rule, innerRule: Rule): Rule => resolve(innerRule, [...path, keyword], report)
    const merged: Rule = {
      ...(own.hex !== undefined && { type: 'string' }),
      ...(ref !== undefined && lookUp(ref, [...path, 'ref'], report)),
      ...own,
      ...(own.items && { items: inner('items', own.items) }),
      ...(isJsonObject(own.additionalProperties) && { additionalProperties: inner('additionalProperties', own.additionalProperties) }),
      ...(own.properties && { properties: resolveEach(own.properties, [...path, 'properties'], report) }),
    }
    inspectRule(merged, path).forEach(report)
    return merged
  }

  const resolveEach = (rules: Readonly<Record<string, Rule>>, path: Path, report: ReportIssue) =>
    Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, resolve(rule, [...path, name], report)]))

  for (const name of Object.keys(types)) lookUp(name, ['types', name], reportType)
  return resolve
}

/** Takes the place of a type that cannot be resolved, so that no more issues are reported about it. */
const anyRule: Rule = { type: ['string', 'number', 'boolean', 'array', 'object'] }

const unknownType = (name: string, path: Path, known: readonly string[]): Issue => ({
  path,
  message: ` refers to "${name}", which is not one of the types`,
  ...hintFor(name, known),
})

/** Why a resolved rule cannot work, although each of its keywords is well formed. Does not check inner rules. */
const inspectRule = (rule: Rule, path: Path): readonly Issue[] => {
  const types = typesOf(rule)
  if (types.length === 0) return [{ path, message: ' needs "type", "hex" or "ref"' }]
  const misplacedKeywords = Object.entries(keywordTypes)
    .filter(([keyword, type]) => Object.hasOwn(rule, keyword) && !types.includes(type))
    .map(([keyword, type]) => ({ path: [...path, keyword], message: ` applies only to ${type}s, not to ${types.join(' or ')}` }))
  const tagsWithoutHex =
    rule.tags === undefined || rule.hex !== undefined
      ? []
      : [{ path: [...path, 'tags'], message: ' applies only beside "hex"; use "enum" instead' }]
  return [
    ...misplacedKeywords,
    ...tagsWithoutHex,
    ...Object.keys(objectKeywords).flatMap(keyword => inspectMemberNames(rule, path, keyword)),
  ]
}

/** Members that a keyword refers to must be among the properties. */
const inspectMemberNames = (rule: Rule, path: Path, keyword: string): readonly Issue[] => {
  const known = Object.keys(rule.properties ?? {})
  const unknownNames = objectKeywords[keyword]?.members(rule).filter(name => !known.includes(name)) ?? []
  return unknownNames.map(name => ({
    path: [...path, keyword],
    message: ` refers to "${name}", which is not one of the properties`,
    ...hintFor(name, known),
  }))
}

/** Defaults are sent to nodes without another check, so each must satisfy its own rule; checks inner rules too. */
export const inspectDefaults = (rule: Rule, path: Path, compile: CompileRule): readonly Issue[] => {
  const issue = rule.default === undefined ? undefined : compile(rule).validate(rule.default)
  return [
    ...(issue === undefined ? [] : [{ ...issue, path: [...path, 'default', ...issue.path] }]),
    ...Object.entries(rule.properties ?? {}).flatMap(([name, member]) => inspectDefaults(member, [...path, 'properties', name], compile)),
  ]
}
