import type { Json } from '../../plugin/call.ts'
import { isJsonArray } from '../../util/json.ts'
import type { JsonObject } from '../../util/json.ts'
import { createMemberReader, hasMember, hexFormatPattern } from './normalize-params.ts'
import type { Rule } from './table-types.ts'

/** A keyword for objects that JSON Schema lacks. */
interface ObjectKeyword {
  /** The members that the keyword refers to. */
  members(rule: Rule): readonly string[]
  /** Prepares the check, which returns the message that follows the path, such as ` has ...`; undefined when the object is valid. */
  createCheck(rule: Rule): (object: JsonObject) => string | undefined
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

/** `ordered` compares members which have passed their own rules. */
export const objectKeywords: Readonly<Record<string, ObjectKeyword>> = { ...beforeMembers, ordered }

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

/** The types of a rule, without the `null` that stands for a missing member. */
export const typesOf = ({ type = [] }: Rule): readonly string[] => [type].flat().filter(name => name !== 'null')

export const textSchema = { type: 'string', minLength: 1 }
export const booleanSchema = { type: 'boolean' }
export const countSchema = { type: 'integer', minimum: 0 }
export const limitSchema = { type: 'integer', minimum: 1 }
export const namesSchema = { type: 'array', items: textSchema, minItems: 1 }
export const mapOf = (values: object) => ({ type: 'object', additionalProperties: values })
export const closedObject = <P extends object>(properties: P) => ({ type: 'object', additionalProperties: false, properties })
export const oneOrMany = (label: string, pattern: string) => ({
  type: ['string', 'array'],
  label,
  pattern,
  minItems: 1,
  items: { type: 'string', label, pattern },
})

/** The definition says nothing about the type, which may also be boolean in one place. */
export const ruleOf = (type: string | readonly string[]) => ({ type, label: 'a rule', $ref: '#/definitions/rule' })

const typePattern = '^(string|integer|number|boolean|array|object|null)$'

/** What a keyword means, for the reference. */
export const described = <S extends object>(description: string, schema: S) => ({ ...schema, description })

const hexLabel = 'a format such as "20 bytes", "up to 32 bytes", "bytes" or "number up to 64 bits"'

export const ruleKeywords = {
  ref: described('A rule of `types`; keywords beside `ref` are added to that rule or replace its own.', textSchema),
  title: described('Name of the parameter in error messages; only for a position.', textSchema),
  type: described('JSON type, or a list of types.', oneOrMany('one of string, integer, number, boolean, array, object, null', typePattern)),
  label: described('Name of the value in error messages: `must be an address`.', textSchema),
  hex: described(
    'Format of a hex string with 0x, or a list of formats that are tried in order. `20 bytes`: exactly 20 bytes. `up to 32 bytes`: at most ' +
      '32 bytes, half bytes included. `bytes`: any number of whole bytes. `number up to 64 bits`: a number below 2^64, of at most 64 digits with leading zeros. ' +
      'Upper case is accepted; values are passed on in lower case, numbers without leading zeros.',
    oneOrMany(hexLabel, hexFormatPattern),
  ),
  tags: described('Block tags that are accepted beside `hex`; the option `tags` of `params` removes some on one network.', namesSchema),
  default: described('Value of a missing parameter or property, unless `excludes` forbids it.', {}),
  example: described('A value for people who write a call; one is made by the other keywords unless given.', {}),
  enum: described('Accepted values.', { type: 'array', minItems: 1, items: { type: ['string', 'number', 'boolean'] } }),
  items: described('Rule of each element of an array.', ruleOf('object')),
  properties: described(
    'Rules of the properties of an object, by name; a property that is not `required` may be missing or null.',
    mapOf(ruleOf('object')),
  ),
  additionalProperties: described('Rule of properties that are not listed, or whether they are accepted.', ruleOf(['object', 'boolean'])),
  required: described('Properties that must be present.', namesSchema),
  alias: described(
    'Other spellings of properties: `spelling: name`. Both spellings at once are rejected; the name is passed on.',
    mapOf(textSchema),
  ),
  excludes: described('Properties that must not be present beside a property: `name: [names]`.', mapOf(namesSchema)),
  exactlyOne: described('Properties of which exactly one must be present.', namesSchema),
  ordered: described(
    'Pairs of properties, `lower: higher`: when both are numbers, the lower must not exceed the higher.',
    mapOf(textSchema),
  ),
  maxTotal: described('Maximum number of values of several properties together, elements of lists counted: `{ of: [names], limit }`.', {
    ...closedObject({ of: namesSchema, limit: limitSchema }),
    required: ['of', 'limit'],
  }),
  minimum: described('Minimum of a number.', { type: 'number' }),
  maximum: described('Maximum of a number.', { type: 'number' }),
  minLength: described('Minimum length of a string, in characters.', countSchema),
  maxLength: described('Maximum length of a string, in characters.', countSchema),
  minItems: described('Minimum number of elements of an array.', countSchema),
  maxItems: described('Maximum number of elements of an array.', countSchema),
  maxProperties: described('Maximum number of properties of an object.', countSchema),
}

export const positionKeywords = {
  title: described('Name of the parameter in error messages; required.', textSchema),
  optional: described(
    'Whether the parameter may be missing or null. `unless strict`: it may, unless `params` has `strict: true`. A parameter with `default` ' +
      'may be missing too.',
    { type: ['boolean', 'string'], enum: [true, false, 'unless strict'] },
  ),
}
