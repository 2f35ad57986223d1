import type { Path } from '../plugin.ts'
import type { NumberSchema, Schema, StringSchema } from '../schema.ts'
import { formats } from './formats.ts'
import { pointer } from './path.ts'
import { count } from './problem.ts'
import type { Source } from './source.ts'

/** What a schema accepts, to follow "must be". */
export const describeType = (schema: Schema): string => {
  switch (schema.type) {
    case 'string':
      return describeText(schema)
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
export const describeFound = (source: Source, path: Path): string => {
  const text = source.texts.get(pointer(path))
  if (text && text.values.length > 0) return `what ${text.names.map(name => `\${${name}}`).join(' and ')} holds`
  const value = source.at(path)
  if (typeof value === 'string') return JSON.stringify(value.length > longest ? `${value.slice(0, longest)}…` : value)
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`
  return value === null || value === undefined ? 'nothing' : typeof value === 'object' ? 'a map' : String(value)
}

/** `failover.upstreams[0].url`: a place inside the options of `owner`, or inside a file when `owner` is empty. */
export const nameOf = (owner: string, path: Path): string =>
  path.reduce<string>(
    (said, part) => (/^\d+$/.test(String(part)) ? `${said}[${part}]` : said === '' ? String(part) : `${said}.${part}`),
    owner,
  )

const longest = 60

const describeText = ({ format, enum: words, pattern, called, minLength = 0 }: StringSchema): string => {
  if (words) return words.length === 1 ? `\`${words[0]}\`` : `one of ${words.join(', ')}`
  if (format) return formats[format].description
  if (pattern !== undefined) return called ?? `a text that matches ${pattern}`
  if (minLength === 1) return 'a text that is not empty'
  return minLength > 1 ? `a text of at least ${count(minLength, 'character')}` : 'a text'
}

const describeBounds = ({ minimum, maximum, exclusiveMinimum }: NumberSchema): string => {
  const most = maximum === Number.MAX_SAFE_INTEGER ? '2^53-1' : maximum
  if (minimum !== undefined && most !== undefined) return ` from ${minimum} to ${most}`
  const least = exclusiveMinimum !== undefined ? ` above ${exclusiveMinimum}` : minimum !== undefined ? `, at least ${minimum}` : ''
  return most === undefined ? least : `${least}, at most ${most}`
}
