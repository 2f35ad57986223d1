import type { Json } from '../../plugin/call.ts'
import { parseHexFormat } from './hex-format.ts'
import type { Rule } from './table-types.ts'
import { isJsonObject } from '../../util/json.ts'
import type { JsonObject } from '../../util/json.ts'
import { createMemberReader, isJsonArray } from './object-keywords.ts'

/** Gives all values that mean the same one spelling; only for values that have passed their rule. */
export type Normalize = (value: Json) => Json

/**
 * Hex in lower case, numbers without leading zeros, aliases under their name, `null` members removed, defaults added,
 * members in the order of the rule. The value itself is not changed; parts without a rule are passed on as they are.
 */
export const createNormalizer = (rule: Rule): Normalize => {
  const text = rule.hex === undefined ? undefined : hexNormalizer(rule)
  const list = rule.items === undefined ? undefined : listNormalizer(rule.items)
  const object = rule.properties === undefined && !isJsonObject(rule.additionalProperties) ? undefined : objectNormalizer(rule)
  if (text === undefined && list === undefined && object === undefined) return unchanged
  return value =>
    typeof value === 'string'
      ? (text?.(value) ?? value)
      : isJsonArray(value)
        ? (list?.(value) ?? value)
        : isJsonObject(value)
          ? (object?.(value) ?? value)
          : value
}

const unchanged: Normalize = value => value

const hexNormalizer = ({ hex = [], tags = [] }: Rule): ((text: string) => string) => {
  const formats = [hex].flat().map(parseHexFormat)
  const [only] = formats
  // The string has passed the rule, so it has the only format.
  if (only !== undefined && formats.length === 1 && tags.length === 0) return text => only.normalize(text)
  return text => formats.find(format => format.matches(text))?.normalize(text) ?? text
}

const listNormalizer = (items: Rule): ((list: readonly Json[]) => Json) => {
  const normalizeElement = createNormalizer(items)
  return normalizeElement === unchanged ? list => list : list => list.map(normalizeElement)
}

const objectNormalizer = (rule: Rule): ((object: JsonObject) => Json) => {
  const members = Object.entries(rule.properties ?? {}).map(([name, memberRule]) => ({
    name,
    read: normalizedMemberReader(name, memberRule, rule),
  }))
  const known = new Set([...Object.keys(rule.properties ?? {}), ...Object.keys(rule.alias ?? {})])
  const normalizeOther = isJsonObject(rule.additionalProperties) ? createNormalizer(rule.additionalProperties) : unchanged
  return object => {
    const normalized: [name: string, value: Json][] = []
    for (const { name, read } of members) {
      const value = read(object)
      if (value !== undefined) normalized.push([name, value])
    }
    if (rule.additionalProperties !== false) {
      for (const name of Object.keys(object)) if (!known.has(name)) normalized.push([name, normalizeOther(object[name] ?? null)])
    }
    return Object.fromEntries(normalized) // defines members, so that `__proto__` is one like any other
  }
}

/** The normalized member, or its default; undefined when the result has no such member. */
const normalizedMemberReader = (name: string, memberRule: Rule, rule: Rule): ((object: JsonObject) => Json | undefined) => {
  const read = createMemberReader(name, rule)
  const normalize = createNormalizer(memberRule)
  const defaultValue = memberRule.default === undefined ? undefined : normalize(memberRule.default)
  const excludingMembers = Object.entries(rule.excludes ?? {})
    .filter(([, others]) => others.includes(name))
    .map(([other]) => createMemberReader(other, rule))
  return object => {
    const value = read(object)
    if (value !== undefined) return normalize(value)
    return excludingMembers.some(excluder => excluder(object) !== undefined) ? undefined : defaultValue
  }
}
