import type { Json } from '../../plugin/call.ts'
import type { Rule } from './table-types.ts'
import { isJsonArray } from '../../util/json.ts'
import type { JsonObject } from '../../util/json.ts'

/** A keyword for objects that JSON Schema lacks. */
export interface ObjectKeyword {
  /** The members that the keyword refers to. */
  members(rule: Rule): readonly string[]
  /** Prepares the check, which returns the message that follows the path, such as ` has ...`; undefined when the object is valid. */
  createCheck(rule: Rule): (object: JsonObject) => string | undefined
}

/** Has a string one of the formats of `hex`, or is it one of the `tags`? */
export const createHexCheck = ({ hex = [], tags = [] }: Rule): ((text: string) => boolean) => {
  const formats = [hex].flat().map(parseHexFormat)
  return text => formats.some(format => format.matches(text)) || tags.includes(text)
}

const required: ObjectKeyword = {
  members: ({ required: names = [] }) => names,
  createCheck(rule) {
    const wanted = (rule.required ?? []).map(name => ({ name, read: createMemberReader(name, rule) }))
    return object => {
      const missing = wanted.find(({ read }) => read(object) === undefined)
      return missing && ` needs "${missing.name}"`
    }
  },
}

const alias: ObjectKeyword = {
  members: ({ alias: names = {} }) => Object.values(names),
  createCheck({ alias: names = {} }) {
    const pairs = Object.entries(names)
    return object => {
      const duplicate = pairs.find(([other, name]) => hasMember(object, other) && hasMember(object, name))
      return duplicate && ` has both "${duplicate[0]}" and "${duplicate[1]}", which mean the same; send one of them`
    }
  },
}

const excludes: ObjectKeyword = {
  members: ({ excludes: names = {} }) => Object.entries(names).flat(2),
  createCheck(rule) {
    const pairs = Object.entries(rule.excludes ?? {}).flatMap(([name, others]) =>
      others.map(other => ({ name, other, read: createMemberReader(name, rule), readOther: createMemberReader(other, rule) })),
    )
    return object => {
      const conflict = pairs.find(pair => pair.read(object) !== undefined && pair.readOther(object) !== undefined)
      return conflict && ` must not have "${conflict.other}" together with "${conflict.name}"`
    }
  },
}

const exactlyOne: ObjectKeyword = {
  members: ({ exactlyOne: names = [] }) => names,
  createCheck(rule) {
    const names = rule.exactlyOne ?? []
    const reads = names.map(name => createMemberReader(name, rule))
    const wanted = ` must have exactly one of ${quoteNames(names)}`
    return object => (reads.filter(read => read(object) !== undefined).length === 1 ? undefined : wanted)
  },
}

const maxTotal: ObjectKeyword = {
  members: ({ maxTotal: total }) => total?.of ?? [],
  createCheck(rule) {
    const { of: names = [], limit = Infinity } = rule.maxTotal ?? {}
    const reads = names.map(name => createMemberReader(name, rule))
    const message = ` has more than the ${limit} values allowed in ${quoteNames(names)} together`
    return object => {
      let remaining = limit
      for (const read of reads) remaining -= countValues(read(object), 2, remaining)
      return remaining < 0 ? message : undefined
    }
  },
}

const ordered: ObjectKeyword = {
  members: ({ ordered: names = {} }) => Object.entries(names).flat(),
  createCheck(rule) {
    const pairs = Object.entries(rule.ordered ?? {}).map(([low, high]) => ({
      low,
      high,
      readLow: createMemberReader(low, rule),
      readHigh: createMemberReader(high, rule),
    }))
    return object => {
      for (const { low, high, readLow, readHigh } of pairs) {
        const [from, to] = [readLow(object), readHigh(object)]
        if (isGreater(from, to)) return ` has "${low}" ${from} above "${high}" ${to}`
      }
      return undefined
    }
  },
}

/** The keywords that are checked before the members, in this order. */
export const beforeMembers = { alias, excludes, exactlyOne, required, maxTotal } as const

/** The keywords that compare members which have passed their own rules. */
export const afterMembers = { ordered } as const

export const objectKeywords: Readonly<Record<string, ObjectKeyword>> = { ...beforeMembers, ...afterMembers }

const quoteNames = (names: readonly string[]): string => names.map(name => `"${name}"`).join(' and ')

/** A value counts as one, a list as its elements, `null` as none; stops soon after `limit`. */
const countValues = (value: Json | undefined, depth: number, limit: number): number => {
  if (value === undefined || value === null) return 0
  if (!isJsonArray(value) || depth === 0) return 1
  let count = 0
  for (const one of value) {
    count += countValues(one, depth - 1, limit - count)
    if (count > limit) break
  }
  return count
}

const isGreater = (low: Json | undefined, high: Json | undefined): boolean =>
  isHexNumber(low) && isHexNumber(high) && BigInt(low) > BigInt(high)

const isHexNumber = (value: Json | undefined): value is string => typeof value === 'string' && /^0x[0-9a-f]+$/i.test(value)

/** Reads a member by its name or one of its aliases; `null` counts as missing. */
export const createMemberReader = (name: string, rule: Rule): ((object: JsonObject) => Json | undefined) => {
  const aliases = aliasesOf(name, rule)
  if (aliases.length === 0) return object => object[name] ?? undefined
  return object => object[[name, ...aliases].find(spelling => hasMember(object, spelling)) ?? name] ?? undefined
}

export const aliasesOf = (name: string, { alias: names = {} }: Rule): readonly string[] =>
  Object.keys(names).filter(spelling => names[spelling] === name)

const hasMember = (object: JsonObject, spelling: string): boolean => (object[spelling] ?? null) !== null

/** The types of a rule, without the `null` that stands for a missing member. */
export const typesOf = ({ type = [] }: Rule): readonly string[] => [type].flat().filter(name => name !== 'null')

/** A format of bytes or of a number as a hex string, in upper or lower case. */
interface HexFormat {
  /** For error messages. */
  readonly description: string
  /** For JSON Schema; the format accepts more spellings. */
  readonly pattern: string
  matches(text: string): boolean
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
    matches: matcher(new RegExp(`^0x[0-9a-f]${digits}$`, 'i')),
    normalize: text => text.toLowerCase(),
  }
}

const matcher =
  (pattern: RegExp) =>
  (text: string): boolean =>
    pattern.test(text)

const hexPattern = /^0x[0-9a-f]*$/i

/** An empty text counts as `0x`, as nodes take it. */
const wholeBytesFormat: HexFormat = {
  description: 'whole bytes of hex with 0x',
  pattern: '^0x([0-9a-fA-F]{2})*$',
  matches: text => text === '' || (text.length % 2 === 0 && hexPattern.test(text)),
  normalize: text => (text === '' ? '0x' : text.toLowerCase()),
}

/** Leading zeros are accepted, up to 64 digits in all, and removed by normalize(). */
const numberFormat = (bits: number): HexFormat => ({
  description: 'a hex number with 0x',
  pattern: `^0x(0|[1-9a-fA-F][0-9a-fA-F]{0,${Math.ceil(bits / 4) - 1}})$`,
  matches: matcher(new RegExp(`^0x(?=[0-9a-f]{1,64}$)0*[0-9a-f]{1,${Math.ceil(bits / 4)}}$`, 'i')),
  normalize: text => text.toLowerCase().replace(/^0x0+(?=.)/, '0x'),
})

/** The size of a text that should have had a hex format: ` (1 byte)`; empty when the size does not help. */
export const describeHexSize = (text: string): string => {
  if (!hexPattern.test(text)) return /^[0-9a-f]+$/i.test(text) ? ' (without 0x)' : ''
  const digits = text.length - 2
  const [count, unit] = digits % 2 === 0 ? [digits / 2, 'byte'] : [digits, 'digit']
  return ` (${count} ${unit}${count === 1 ? '' : 's'})`
}
