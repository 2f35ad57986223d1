import type { Path } from '../../plugin/plugin.ts'
import { hintFor } from './did-you-mean-hint.ts'
import { objectKeywords } from './object-keywords.ts'
import { keywordTypes } from './table-types.ts'
import type { Rule } from './table-types.ts'
import { typesOf } from './object-members.ts'
import type { CompileRule } from './compile-rule.ts'
import type { Issue } from './issue-messages.ts'

/** What in a resolved rule cannot work, although each keyword by itself is well formed. Does not look inside. */
export const inspectRule = (rule: Rule, path: Path): readonly Issue[] => {
  const types = typesOf(rule)
  if (types.length === 0) return [{ path, message: ' needs "type", "hex" or "ref"' }]
  const misplacedKeywords = Object.entries(keywordTypes)
    .filter(([keyword, type]) => Object.hasOwn(rule, keyword) && !types.includes(type))
    .map(([keyword, type]) => ({ path: [...path, keyword], message: ` is about ${type}s, not ${types.join(' or ')}` }))
  const tagsWithoutHex =
    rule.tags === undefined || rule.hex !== undefined
      ? []
      : [{ path: [...path, 'tags'], message: ' stands beside "hex" only; without it, "enum" does the same' }]
  return [
    ...misplacedKeywords,
    ...tagsWithoutHex,
    ...Object.keys(objectKeywords).flatMap(keyword => inspectMemberNames(rule, path, keyword)),
  ]
}

/** Keywords that name members must name members that there are. */
const inspectMemberNames = (rule: Rule, path: Path, keyword: string): readonly Issue[] => {
  const known = Object.keys(rule.properties ?? {})
  const unknownNames = objectKeywords[keyword]?.members(rule).filter(name => !known.includes(name)) ?? []
  return unknownNames.map(name => ({
    path: [...path, keyword],
    message: ` names "${name}", which is not among the properties`,
    ...hintFor(name, known),
  }))
}

/** A default is sent to nodes without another check, so it must satisfy its own rule; checks inner rules too. */
export const inspectDefaults = (rule: Rule, path: Path, compile: CompileRule): readonly Issue[] => {
  const issue = rule.default === undefined ? undefined : compile(rule).validate(rule.default)
  return [
    ...(issue === undefined ? [] : [{ ...issue, path: [...path, 'default', ...issue.path] }]),
    ...Object.entries(rule.properties ?? {}).flatMap(([name, its]) => inspectDefaults(its, [...path, 'properties', name], compile)),
  ]
}
