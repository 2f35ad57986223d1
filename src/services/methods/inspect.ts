import type { Path } from '../../plugin.ts'
import { hintAt } from './hint.ts'
import { objectKeywords } from './keywords.ts'
import { keywordTypes } from './language.ts'
import type { Rule } from './language.ts'
import { typesOf } from './members.ts'
import type { Compile } from './rules.ts'
import type { Complaint } from './sentence.ts'

/** What in a resolved rule cannot work, although each keyword by itself is well formed. Does not look inside. */
export const inspect = (rule: Rule, path: Path): readonly Complaint[] => {
  const types = typesOf(rule)
  if (types.length === 0) return [{ path, said: ' needs "type", "hex" or "is"' }]
  const idle = Object.entries(keywordTypes)
    .filter(([keyword, type]) => Object.hasOwn(rule, keyword) && !types.includes(type))
    .map(([keyword, type]) => ({ path: [...path, keyword], said: ` is about ${type}s, not ${types.join(' or ')}` }))
  const alone =
    rule.tags === undefined || rule.hex !== undefined
      ? []
      : [{ path: [...path, 'tags'], said: ' stands beside "hex" only; without it, "enum" does the same' }]
  return [...idle, ...alone, ...Object.keys(objectKeywords).flatMap(keyword => inspectNames(rule, path, keyword))]
}

/** Keywords that name members must name members that there are. */
const inspectNames = (rule: Rule, path: Path, keyword: string): readonly Complaint[] => {
  const known = Object.keys(rule.properties ?? {})
  const strange = objectKeywords[keyword]?.members(rule).filter(name => !known.includes(name)) ?? []
  return strange.map(name => ({
    path: [...path, keyword],
    said: ` names "${name}", which is not among the properties`,
    ...hintAt(name, known),
  }))
}

/** A fill goes to nodes without a further look, so it must pass its own rule; looks inside. */
export const inspectFills = (rule: Rule, path: Path, compile: Compile): readonly Complaint[] => {
  const fault = rule.fill === undefined ? undefined : compile(rule).fault(rule.fill)
  return [
    ...(fault === undefined ? [] : [{ ...fault, path: [...path, 'fill', ...fault.path] }]),
    ...Object.entries(rule.properties ?? {}).flatMap(([name, its]) => inspectFills(its, [...path, 'properties', name], compile)),
  ]
}
