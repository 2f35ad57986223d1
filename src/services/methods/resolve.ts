import type { Path } from '../../plugin.ts'
import { hintAt } from './hint.ts'
import { inspect } from './inspect.ts'
import type { Rule } from './language.ts'
import { isObject } from './members.ts'
import type { Complaint } from './sentence.ts'

export type ReportComplaint = (complaint: Complaint) => void

/** Puts named types in place of each `is`, inside the rule too, and reports what cannot work. */
export type Resolve = (rule: Rule, path: Path, report: ReportComplaint) => Rule

/** Resolves the named types at once, so that each is looked at whether a method uses it or not. */
export const resolver = (types: Readonly<Record<string, Rule>>, reportType: ReportComplaint): Resolve => {
  const done = new Map<string, Rule>()
  const open = new Set<string>()

  const lookUp = (name: string, path: Path, report: ReportComplaint): Rule => {
    const known = done.get(name)
    if (known !== undefined) return known
    const type = Object.hasOwn(types, name) ? types[name] : undefined
    if (type === undefined || open.has(name)) {
      report(type === undefined ? unknownType(name, path, Object.keys(types)) : { path, said: ' leads back to itself' })
      return anything
    }
    open.add(name)
    const resolved = resolve(type, ['types', name], reportType)
    open.delete(name)
    done.set(name, resolved)
    return resolved
  }

  const resolve: Resolve = (rule, path, report) => {
    const { is, ...own } = rule
    const inner = (part: keyof Rule, its: Rule): Rule => resolve(its, [...path, part], report)
    const whole: Rule = {
      ...(own.hex !== undefined && { type: 'string' }),
      ...(is !== undefined && lookUp(is, [...path, 'is'], report)),
      ...own,
      ...(own.items && { items: inner('items', own.items) }),
      ...(isObject(own.additionalProperties) && { additionalProperties: inner('additionalProperties', own.additionalProperties) }),
      ...(own.properties && { properties: resolveEach(own.properties, [...path, 'properties'], report) }),
    }
    inspect(whole, path).forEach(report)
    return whole
  }

  const resolveEach = (rules: Readonly<Record<string, Rule>>, path: Path, report: ReportComplaint) =>
    Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, resolve(rule, [...path, name], report)]))

  for (const name of Object.keys(types)) lookUp(name, ['types', name], reportType)
  return resolve
}

/** Stands in for a type that could not be had, so that nothing further is said about it. */
const anything: Rule = { type: ['string', 'number', 'boolean', 'array', 'object'] }

const unknownType = (name: string, path: Path, known: readonly string[]): Complaint => ({
  path,
  said: ` is "${name}", which is not among the types`,
  ...hintAt(name, known),
})
