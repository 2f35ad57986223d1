import { stringify } from 'yaml'
import type { NumberSchema, ObjectSchema, Schema, StringSchema } from '../plugin/options-schema.ts'
import { formats } from './formats.ts'
import { countNoun } from './problem.ts'
import { formatOptionPath, isFixedPath, requiredPaths, walkSchema } from './schema.ts'
import type { SchemaNode } from './schema.ts'

/** What a schema accepts, to follow "must be". */
export const describeSchema = (schema: Schema): string => {
  switch (schema.type) {
    case 'string':
      return describeString(schema)
    case 'integer':
    case 'number':
      return `${schema.orAuto ? 'auto, or ' : ''}${schema.type === 'integer' ? 'an integer' : 'a number'}${describeBounds(schema)}`
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

/** An option as the reference and `plugins describe` show it. */
export interface OptionDescription {
  /** `breaker.openFor`, `upstreams[].url`, `plans.NAME.dailyCredits`. */
  readonly path: string
  readonly type: string
  readonly schema: Schema
  readonly required: boolean
  /** The options of which it requires one. */
  readonly requires: readonly string[]
  readonly default: unknown
  readonly examples: readonly unknown[]
  readonly description: string
  /** Its own options follow: it needs no default and no example. */
  readonly hasChildren: boolean
}

/** All options below this schema, each after the option that contains it. */
export const describeOptions = (schema: Schema): readonly OptionDescription[] => optionsBelow(schema).map(describeOption)

/** Those with a name of their own. */
const optionsBelow = (schema: Schema): readonly SchemaNode[] =>
  [...walkSchema(schema)].filter(({ path }) => path.length > 0 && isFixedPath(path.slice(-1)))

const describeOption = ({ path, schema, isRequired }: SchemaNode): OptionDescription => ({
  path: formatOptionPath('', path),
  type: typeOf(schema),
  schema,
  required: isRequired,
  requires: requiredPaths(path, schema).map(each => formatOptionPath('', each)),
  default: 'default' in schema ? schema.default : undefined,
  examples: schema.examples ?? [],
  description: schema.description ?? '',
  hasChildren: optionsBelow(schema).length > 0,
})

const typeOf = (schema: Schema): string => {
  switch (schema.type) {
    case 'string':
      return stringTypeOf(schema)
    case 'integer':
    case 'number':
      return `${schema.type}${boundsOf(schema)}${schema.orAuto ? ' or `auto`' : ''}`
    case 'boolean':
      return 'boolean'
    case 'array':
      return `list of ${typeOf(schema.items)}`
    case 'object':
      return mapTypeOf(schema)
    default:
      return 'value'
  }
}

const mapTypeOf = ({ additionalProperties, exactlyOneOf }: ObjectSchema): string => {
  if (additionalProperties !== undefined) return `map of ${typeOf(additionalProperties)}`
  return exactlyOneOf === undefined ? 'map' : `map with ${exactlyOneOf.options.map(option => `\`${option}\``).join(' or ')}`
}

const stringTypeOf = ({ enum: values, format, minimum, usual, usualMinLength }: StringSchema): string => {
  if (values !== undefined) return values.map(value => `\`${value}\``).join(', ')
  const name = format === undefined ? 'string' : formats[format].name
  const bounds = [
    ...(usualMinLength === undefined ? [] : [`usually at least ${countNoun(usualMinLength, 'character')}`]),
    ...(minimum === undefined ? [] : [`>= ${minimum}`]),
    ...(usual === undefined ? [] : [`usually ${usual.min} to ${usual.max}`]),
  ]
  return bounds.length === 0 ? name : `${name} (${bounds.join(', ')})`
}

const boundsOf = ({ minimum, maximum, exclusiveMinimum }: NumberSchema): string => {
  const lower = exclusiveMinimum !== undefined ? `> ${exclusiveMinimum}` : minimum !== undefined ? `>= ${minimum}` : undefined
  const upper = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? undefined : `<= ${maximum}`
  const bounds = [lower, upper].filter(bound => bound !== undefined)
  return bounds.length === 0 ? '' : ` (${bounds.join(', ')})`
}

/** YAML on one line. */
export const formatOptionValue = (value: unknown): string => stringify(value, { collectionStyle: 'flow', lineWidth: 0 }).trim()
