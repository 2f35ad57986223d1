import type { NumberSchema, Schema, StringSchema } from '../plugin/options-schema.ts'
import type { Path } from '../plugin/plugin.ts'
import { formats } from './formats.ts'
import { countNoun } from './problem.ts'

/** Plain JSON Schema, as validators and editors know it. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** The schema without the keywords that only the loader knows, and with every object closed. */
export const toJsonSchema = ({ whenOthersHaveIt, ...schema }: Schema): JsonSchema => {
  if (schema.type === 'array') return { ...schema, items: toJsonSchema(schema.items) }
  if (schema.type === 'string') {
    const { omitWhenUnset, label, usual, ...rest } = schema
    return rest
  }
  if (schema.type !== 'object') return { ...schema }
  const { omitWhenUnset, properties = {}, additionalProperties, ...rest } = schema
  const described = Object.entries(properties).map(([name, property]) => [name, toJsonSchema(property)])
  return {
    ...rest,
    properties: Object.fromEntries(described),
    additionalProperties: additionalProperties ? toJsonSchema(additionalProperties) : false,
  }
}

/** The schema of a property or of a list's items; undefined where the schema has none. */
export const childSchema = (schema: Schema | undefined, part: string | number): Schema | undefined => {
  if (schema?.type === 'array') return schema.items
  if (schema?.type !== 'object') return undefined
  const { properties = {}, additionalProperties } = schema
  return Object.hasOwn(properties, part) ? properties[part] : additionalProperties
}

export const schemaAt = (schema: Schema, path: Path): Schema | undefined => path.reduce<Schema | undefined>(childSchema, schema)

/** What a schema accepts, to follow "must be". */
export const describeSchema = (schema: Schema): string => {
  switch (schema.type) {
    case 'string':
      return describeString(schema)
    case 'integer':
      return `an integer${describeBounds(schema)}`
    case 'number':
      return `a number${describeBounds(schema)}`
    case 'boolean':
      return 'true or false'
    case 'array':
      return `a list${describeCount('item', schema.minItems, schema.maxItems)}`
    case 'object':
      return 'a map'
    default:
      return 'a value'
  }
}

const describeString = ({ format, enum: values, pattern, label, minLength = 0, maxLength }: StringSchema): string => {
  if (values) return values.length === 1 ? `\`${values[0]}\`` : `one of ${values.join(', ')}`
  if (label !== undefined) return label
  if (format) return formats[format].description
  if (pattern !== undefined) return `a string that matches ${pattern}`
  if (minLength === 1 && maxLength === undefined) return 'a string that is not empty'
  return `a string${describeCount('character', minLength, maxLength)}`
}

const describeCount = (noun: string, min = 0, max?: number): string => {
  if (max === undefined) return min === 0 ? '' : ` of at least ${countNoun(min, noun)}`
  return min === 0 ? ` of at most ${countNoun(max, noun)}` : ` of ${min} to ${countNoun(max, noun)}`
}

const describeBounds = ({ minimum, maximum, exclusiveMinimum }: NumberSchema): string => {
  const upperBound = maximum === Number.MAX_SAFE_INTEGER ? '2^53-1' : maximum
  if (minimum !== undefined && upperBound !== undefined) return ` from ${minimum} to ${upperBound}`
  const lowerBound =
    exclusiveMinimum !== undefined ? ` greater than ${exclusiveMinimum}` : minimum !== undefined ? `, at least ${minimum}` : ''
  return upperBound === undefined ? lowerBound : `${lowerBound}, at most ${upperBound}`
}
