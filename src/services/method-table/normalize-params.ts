import type { Json } from '../../plugin/call.ts'
import { isJsonArray, isJsonObject } from '../../util/json.ts'
import type { JsonObject } from '../../util/json.ts'
import type { Rule } from './table-types.ts'

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
  return text => formats.find(({ accepted }) => accepted.test(text))?.normalize(text) ?? text
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

/** Reads a member by its name or one of its aliases; `null` counts as missing. */
export const createMemberReader = (name: string, rule: Rule): ((object: JsonObject) => Json | undefined) => {
  const aliases = aliasesOf(name, rule)
  if (aliases.length === 0) return object => object[name] ?? undefined
  return object => object[[name, ...aliases].find(spelling => hasMember(object, spelling)) ?? name] ?? undefined
}

export const aliasesOf = (name: string, { alias: names = {} }: Rule): readonly string[] =>
  Object.keys(names).filter(spelling => names[spelling] === name)

export const hasMember = (object: JsonObject, spelling: string): boolean => (object[spelling] ?? null) !== null

/** A format of bytes or of a number as a hex string, in upper or lower case. */
interface HexFormat {
  /** For error messages. */
  readonly description: string
  /** For JSON Schema; the format accepts more spellings. */
  readonly pattern: string
  readonly accepted: Pick<RegExp, 'test'>
  /** One spelling for equal values; only for a text that matches. */
  normalize(text: string): string
}

/** The names that parseHexFormat() accepts. */
export const hexFormatPattern = '^(([1-9]\\d{0,3}|up to [1-9]\\d{0,3}) bytes|bytes|number|number up to [1-9]\\d{0,2} bits)$'

/** The format of this name, which matches `hexFormatPattern`. */
export const parseHexFormat = (name: string): HexFormat => {
  const [, upTo, count] = /^(up to )?(\d+) bytes$/.exec(name) ?? []
  if (name === 'bytes') return wholeBytesFormat
  if (count === undefined) return numberFormat(Number(/\d+/.exec(name)?.[0] ?? 256))
  const digits = upTo === undefined ? `{${2 * Number(count)}}` : `{0,${2 * Number(count)}}`
  return {
    description: `${name} of hex with 0x`,
    pattern: `^0x[0-9a-fA-F]${digits}$`,
    accepted: new RegExp(`^0x[0-9a-f]${digits}$`, 'i'),
    normalize: text => text.toLowerCase(),
  }
}

const hexPattern = /^0x[0-9a-f]*$/i

/** An empty text counts as `0x`, as nodes take it. */
const wholeBytesFormat: HexFormat = {
  description: 'whole bytes of hex with 0x',
  pattern: '^0x([0-9a-fA-F]{2})*$',
  accepted: { test: text => text === '' || (text.length % 2 === 0 && hexPattern.test(text)) },
  normalize: text => (text === '' ? '0x' : text.toLowerCase()),
}

/** Leading zeros are accepted, up to 64 digits in all, and removed by normalize(). */
const numberFormat = (bits: number): HexFormat => ({
  description: 'a hex number with 0x',
  pattern: `^0x(0|[1-9a-fA-F][0-9a-fA-F]{0,${Math.ceil(bits / 4) - 1}})$`,
  accepted: new RegExp(`^0x(?=[0-9a-f]{1,64}$)0*[0-9a-f]{1,${Math.ceil(bits / 4)}}$`, 'i'),
  normalize: text => text.toLowerCase().replace(/^0x0+(?=.)/, '0x'),
})

/** The size of a text that should have had a hex format: ` (1 byte)`; empty when the size does not help. */
export const describeHexSize = (text: string): string => {
  if (!hexPattern.test(text)) return /^[0-9a-f]+$/i.test(text) ? ' (without 0x)' : ''
  const digits = text.length - 2
  const [count, unit] = digits % 2 === 0 ? [digits / 2, 'byte'] : [digits, 'digit']
  return ` (${count} ${unit}${count === 1 ? '' : 's'})`
}

/** Has a string one of the formats of `hex`, or is it one of the `tags`? */
export const createHexCheck = ({ hex = [], tags = [] }: Rule): ((text: string) => boolean) => {
  const formats = [hex].flat().map(parseHexFormat)
  return text => formats.some(({ accepted }) => accepted.test(text)) || tags.includes(text)
}
