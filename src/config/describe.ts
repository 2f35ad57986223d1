import type { Path } from '../plugin/plugin.ts'
import type { NumberSchema, Schema, StringSchema } from '../plugin/options-schema.ts'
import { formats } from './formats.ts'
import { jsonPointer } from './path.ts'
import { countNoun } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

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
      return schema.minItems ? `a list of at least ${schema.minItems}` : 'a list'
    case 'object':
      return 'a map'
    default:
      return 'a value'
  }
}

/** What stands at the path, to follow "not"; of a text from the environment only the variable's name. */
export const describeValue = (source: YamlFile, path: Path): string => {
  const text = source.expandedTexts.get(jsonPointer(path))
  if (text && text.values.length > 0) return `what ${text.variables.map(name => `\${${name}}`).join(' and ')} holds`
  const value = source.valueAt(path)
  if (typeof value === 'string') return JSON.stringify(value.length > maxShownChars ? `${value.slice(0, maxShownChars)}…` : value)
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`
  return value === null || value === undefined ? 'nothing' : typeof value === 'object' ? 'a map' : String(value)
}

/** `failover.upstreams[0].url`: a place inside the options of `owner`, or inside a file when `owner` is empty. */
export const formatOptionPath = (owner: string, path: Path): string =>
  path.reduce<string>(
    (text, part) => (/^\d+$/.test(String(part)) ? `${text}[${part}]` : text === '' ? String(part) : `${text}.${part}`),
    owner,
  )

const maxShownChars = 60

const describeString = ({ format, enum: values, pattern, label, minLength = 0 }: StringSchema): string => {
  if (values) return values.length === 1 ? `\`${values[0]}\`` : `one of ${values.join(', ')}`
  if (format) return formats[format].description
  if (pattern !== undefined) return label ?? `a text that matches ${pattern}`
  if (minLength === 1) return 'a text that is not empty'
  return minLength > 1 ? `a text of at least ${countNoun(minLength, 'character')}` : 'a text'
}

const describeBounds = ({ minimum, maximum, exclusiveMinimum }: NumberSchema): string => {
  const upperBound = maximum === Number.MAX_SAFE_INTEGER ? '2^53-1' : maximum
  if (minimum !== undefined && upperBound !== undefined) return ` from ${minimum} to ${upperBound}`
  const lowerBound = exclusiveMinimum !== undefined ? ` above ${exclusiveMinimum}` : minimum !== undefined ? `, at least ${minimum}` : ''
  return upperBound === undefined ? lowerBound : `${lowerBound}, at most ${upperBound}`
}
