import type { Json } from '../../call.ts'
import { parseForm } from './hex.ts'
import type { Rule } from './language.ts'
import { isList, isObject, member } from './members.ts'
import type { JsonObject } from './members.ts'

/** Gives a value that has passed its rule one spelling for all that mean the same. */
export type Normal = (value: Json) => Json

/**
 * Hex in lower case, numbers without leading zeros, aliases under their proper name, `null` members left out, fills put
 * in, members in the order of the rule. What came in is not changed, and what no rule is about is passed on as it is.
 */
export const normaliser = (rule: Rule): Normal => {
  const text = rule.hex === undefined ? undefined : hexNormal(rule)
  const list = rule.items === undefined ? undefined : listNormal(rule.items)
  const object = rule.properties === undefined && !isObject(rule.additionalProperties) ? undefined : objectNormal(rule)
  if (text === undefined && list === undefined && object === undefined) return asItIs
  return value =>
    typeof value === 'string'
      ? (text?.(value) ?? value)
      : isList(value)
        ? (list?.(value) ?? value)
        : isObject(value)
          ? (object?.(value) ?? value)
          : value
}

const asItIs: Normal = value => value

const hexNormal = ({ hex = [], tags = [] }: Rule): ((text: string) => string) => {
  const forms = [hex].flat().map(parseForm)
  const [only] = forms
  // It has passed the rule: then it fits the only form.
  if (only !== undefined && forms.length === 1 && tags.length === 0) return text => only.normal(text)
  return text => forms.find(form => form.fits(text))?.normal(text) ?? text
}

const listNormal = (items: Rule): ((list: readonly Json[]) => Json) => {
  const one = normaliser(items)
  return one === asItIs ? list => list : list => list.map(one)
}

const objectNormal = (rule: Rule): ((object: JsonObject) => Json) => {
  const members = Object.entries(rule.properties ?? {}).map(([name, its]) => ({ name, read: memberReader(name, its, rule) }))
  const known = new Set([...Object.keys(rule.properties ?? {}), ...Object.keys(rule.alias ?? {})])
  const rest = isObject(rule.additionalProperties) ? normaliser(rule.additionalProperties) : asItIs
  return object => {
    const normal: [name: string, value: Json][] = []
    for (const { name, read } of members) {
      const value = read(object)
      if (value !== undefined) normal.push([name, value])
    }
    if (rule.additionalProperties !== false) {
      for (const name of Object.keys(object)) if (!known.has(name)) normal.push([name, rest(object[name] ?? null)])
    }
    return Object.fromEntries(normal) // it defines members, so that `__proto__` is one like any other
  }
}

/** The normal form of a member, or its fill; undefined when it is left out. */
const memberReader = (name: string, its: Rule, rule: Rule): ((object: JsonObject) => Json | undefined) => {
  const read = member(name, rule)
  const normal = normaliser(its)
  const fill = its.fill === undefined ? undefined : normal(its.fill)
  const excluders = Object.entries(rule.excludes ?? {})
    .filter(([, others]) => others.includes(name))
    .map(([other]) => member(other, rule))
  return object => {
    const value = read(object)
    if (value !== undefined) return normal(value)
    return excluders.some(excluder => excluder(object) !== undefined) ? undefined : fill
  }
}
