import { hexFormatPattern } from './rule-keywords.ts'

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
