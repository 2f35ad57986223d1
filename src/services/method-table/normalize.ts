import type { Json } from '../../plugin/call.ts'
import { parseHexFormat } from './hex-format.ts'
import type { Rule } from './table-types.ts'
import { isJsonArray, isObject, createMemberReader } from './object-members.ts'
import type { JsonObject } from './object-members.ts'

/** Gives a value that has passed its rule one spelling for all that mean the same. */
export type Normalize = (value: Json) => Json

/**
 * Hex in lower case, numbers without leading zeros, aliases under their proper name, `null` members left out, defaults
 * filled in, members in the order of the rule. What came in is not changed, and what no rule is about is passed on as it is.
 */
export const createNormalizer = (rule: Rule): Normalize => {
  const text = rule.hex === undefined ? undefined : hexNormalizer(rule)
  const list = rule.items === undefined ? undefined : listNormalizer(rule.items)
  const object = rule.properties === undefined && !isObject(rule.additionalProperties) ? undefined : objectNormalizer(rule)
  if (text === undefined && list === undefined && object === undefined) return unchanged
  return value =>
    typeof value === 'string'
      ? (text?.(value) ?? value)
      : isJsonArray(value)
        ? (list?.(value) ?? value)
        : isObject(value)
          ? (object?.(value) ?? value)
          : value
}

const unchanged: Normalize = value => value

const hexNormalizer = ({ hex = [], tags = [] }: Rule): ((text: string) => string) => {
  const forms = [hex].flat().map(parseHexFormat)
  const [only] = forms
  // It has passed the rule: then it fits the only form.
  if (only !== undefined && forms.length === 1 && tags.length === 0) return text => only.normalize(text)
  return text => forms.find(form => form.matches(text))?.normalize(text) ?? text
}

const listNormalizer = (items: Rule): ((list: readonly Json[]) => Json) => {
  const normalizeElement = createNormalizer(items)
  return normalizeElement === unchanged ? list => list : list => list.map(normalizeElement)
}

const objectNormalizer = (rule: Rule): ((object: JsonObject) => Json) => {
  const members = Object.entries(rule.properties ?? {}).map(([name, its]) => ({ name, read: normalizedMemberReader(name, its, rule) }))
  const known = new Set([...Object.keys(rule.properties ?? {}), ...Object.keys(rule.alias ?? {})])
  const normalizeOther = isObject(rule.additionalProperties) ? createNormalizer(rule.additionalProperties) : unchanged
  return object => {
    const normalized: [name: string, value: Json][] = []
    for (const { name, read } of members) {
      const value = read(object)
      if (value !== undefined) normalized.push([name, value])
    }
    if (rule.additionalProperties !== false) {
      for (const name of Object.keys(object)) if (!known.has(name)) normalized.push([name, normalizeOther(object[name] ?? null)])
    }
    return Object.fromEntries(normalized) // it defines members, so that `__proto__` is one like any other
  }
}

/** The normal form of a member, or its default; undefined when it is left out. */
const normalizedMemberReader = (name: string, its: Rule, rule: Rule): ((object: JsonObject) => Json | undefined) => {
  const read = createMemberReader(name, rule)
  const normal = createNormalizer(its)
  const defaultValue = its.default === undefined ? undefined : normal(its.default)
  const excludingMembers = Object.entries(rule.excludes ?? {})
    .filter(([, others]) => others.includes(name))
    .map(([other]) => createMemberReader(other, rule))
  return object => {
    const value = read(object)
    if (value !== undefined) return normal(value)
    return excludingMembers.some(excluder => excluder(object) !== undefined) ? undefined : defaultValue
  }
}
