import type { Json } from '../../call.ts'
import { parseForm } from './hex.ts'
import type { Rule } from './language.ts'
import { isGiven, isList, member } from './members.ts'
import type { JsonObject } from './members.ts'

/** A keyword about an object that JSON Schema lacks. */
export interface Keyword {
  /** The members that its setting names. */
  members(rule: Rule): readonly string[]
  /** Prepares the check. What a check returns goes behind the place: ` has ...`; undefined when all is well. */
  judge(rule: Rule): (object: JsonObject) => string | undefined
}

/** Is a text written in one of the forms of `hex`, or one of the `tags`? */
export const judgeHex = ({ hex = [], tags = [] }: Rule): ((text: string) => boolean) => {
  const forms = [hex].flat().map(parseForm)
  return text => forms.some(form => form.fits(text)) || tags.includes(text)
}

const required: Keyword = {
  members: ({ required: names = [] }) => names,
  judge(rule) {
    const wanted = (rule.required ?? []).map(name => ({ name, read: member(name, rule) }))
    return object => {
      const missing = wanted.find(({ read }) => read(object) === undefined)
      return missing && ` needs "${missing.name}"`
    }
  },
}

const alias: Keyword = {
  members: ({ alias: names = {} }) => Object.values(names),
  judge({ alias: names = {} }) {
    const pairs = Object.entries(names)
    return object => {
      const twice = pairs.find(([other, name]) => isGiven(object, other) && isGiven(object, name))
      return twice && ` has both "${twice[0]}" and "${twice[1]}", which mean the same; send one of them`
    }
  },
}

const excludes: Keyword = {
  members: ({ excludes: names = {} }) => Object.entries(names).flat(2),
  judge(rule) {
    const pairs = Object.entries(rule.excludes ?? {}).flatMap(([name, others]) =>
      others.map(other => ({ name, other, read: member(name, rule), readOther: member(other, rule) })),
    )
    return object => {
      const together = pairs.find(pair => pair.read(object) !== undefined && pair.readOther(object) !== undefined)
      return together && ` must not have "${together.other}" together with "${together.name}"`
    }
  },
}

const exactlyOne: Keyword = {
  members: ({ exactlyOne: names = [] }) => names,
  judge(rule) {
    const names = rule.exactlyOne ?? []
    const reads = names.map(name => member(name, rule))
    const wanted = ` must have exactly one of ${inQuotes(names)}`
    return object => (reads.filter(read => read(object) !== undefined).length === 1 ? undefined : wanted)
  },
}

const maxTotal: Keyword = {
  members: ({ maxTotal: total }) => total?.of ?? [],
  judge(rule) {
    const { of: names = [], limit = Infinity } = rule.maxTotal ?? {}
    const reads = names.map(name => member(name, rule))
    const said = ` has more than the ${limit} values allowed in ${inQuotes(names)} together`
    return object => {
      let left = limit
      for (const read of reads) left -= countValues(read(object), 2, left)
      return left < 0 ? said : undefined
    }
  },
}

const notAbove: Keyword = {
  members: ({ notAbove: names = {} }) => Object.entries(names).flat(),
  judge(rule) {
    const pairs = Object.entries(rule.notAbove ?? {}).map(([low, high]) => ({
      low,
      high,
      readLow: member(low, rule),
      readHigh: member(high, rule),
    }))
    return object => {
      for (const { low, high, readLow, readHigh } of pairs) {
        const [from, to] = [readLow(object), readHigh(object)]
        if (isAbove(from, to)) return ` has "${low}" ${from} above "${high}" ${to}`
      }
      return undefined
    }
  },
}

/** Those that must hold before the members are looked at, in this order. */
export const beforeMembers = { alias, excludes, exactlyOne, required, maxTotal } as const

/** Those that compare members which have passed their own rules. */
export const afterMembers = { notAbove } as const

export const objectKeywords: Readonly<Record<string, Keyword>> = { ...beforeMembers, ...afterMembers }

const inQuotes = (names: readonly string[]): string => names.map(name => `"${name}"`).join(' and ')

/** A value counts one, a list as much as its elements, `null` nothing; stops soon after `limit`. */
const countValues = (value: Json | undefined, depth: number, limit: number): number => {
  if (value === undefined || value === null) return 0
  if (!isList(value) || depth === 0) return 1
  let count = 0
  for (const one of value) {
    count += countValues(one, depth - 1, limit - count)
    if (count > limit) break
  }
  return count
}

const isAbove = (low: Json | undefined, high: Json | undefined): boolean =>
  isHexNumber(low) && isHexNumber(high) && BigInt(low) > BigInt(high)

const isHexNumber = (value: Json | undefined): value is string => typeof value === 'string' && /^0x[0-9a-f]+$/i.test(value)
