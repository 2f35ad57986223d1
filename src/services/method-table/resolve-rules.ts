import type { Path } from '../../plugin/plugin.ts'
import { hintFor } from './did-you-mean-hint.ts'
import { inspectRule } from './inspect-rules.ts'
import type { Rule } from './table-types.ts'
import { isObject } from './object-members.ts'
import type { Issue } from './issue-messages.ts'

export type ReportIssue = (complaint: Issue) => void

/** Puts named types in place of each `ref`, inside the rule too, and reports what cannot work. */
export type ResolveRule = (rule: Rule, path: Path, report: ReportIssue) => Rule

/** Resolves the named types at once, so that each is looked at whether a method uses it or not. */
export const createRuleResolver = (types: Readonly<Record<string, Rule>>, reportType: ReportIssue): ResolveRule => {
  const resolvedTypes = new Map<string, Rule>()
  const resolving = new Set<string>()

  const lookUp = (name: string, path: Path, report: ReportIssue): Rule => {
    const known = resolvedTypes.get(name)
    if (known !== undefined) return known
    const type = Object.hasOwn(types, name) ? types[name] : undefined
    if (type === undefined || resolving.has(name)) {
      report(type === undefined ? unknownType(name, path, Object.keys(types)) : { path, message: ' leads back to itself' })
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
    const inner = (part: keyof Rule, its: Rule): Rule => resolve(its, [...path, part], report)
    const merged: Rule = {
      ...(own.hex !== undefined && { type: 'string' }),
      ...(ref !== undefined && lookUp(ref, [...path, 'ref'], report)),
      ...own,
      ...(own.items && { items: inner('items', own.items) }),
      ...(isObject(own.additionalProperties) && { additionalProperties: inner('additionalProperties', own.additionalProperties) }),
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

/** Stands in for a type that could not be had, so that nothing further is said about it. */
const anyRule: Rule = { type: ['string', 'number', 'boolean', 'array', 'object'] }

const unknownType = (name: string, path: Path, known: readonly string[]): Issue => ({
  path,
  message: ` is "${name}", which is not among the types`,
  ...hintFor(name, known),
})
