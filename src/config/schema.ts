import type { ObjectSchema, Schema } from '../plugin/options-schema.ts'
import type { Path } from '../util/json.ts'
import { isJsonObject } from '../util/json.ts'
import { mapItems } from '../util/json-path.ts'
import { formats } from './formats.ts'

/** Plain JSON Schema, as validators and editors know it. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** The schema without the keywords that only the loader knows, and with every object closed. */
export const toJsonSchema = ({ whenOthersHaveIt, requires, ...schema }: Schema): JsonSchema => {
  if (schema.type === 'array') return { ...schema, items: toJsonSchema(schema.items) }
  if (schema.type === 'string') {
    const { omitWhenUnset, label, usual, usualMinLength, minimum, ...rest } = schema
    return rest
  }
  if (schema.type === 'integer' || schema.type === 'number') {
    const { orAuto, ...rest } = schema
    const { default: defaultValue, ...number } = rest
    return orAuto ? { anyOf: [number, { const: 'auto' }], ...(defaultValue !== undefined && { default: defaultValue }) } : rest
  }
  if (schema.type !== 'object') return { ...schema }
  const { omitWhenUnset, exactlyOneOf, entries, properties = {}, additionalProperties, ...rest } = schema
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

/** A schema below another: in its path `[]` stands for any item of a list, NAME for any name of a map. */
export interface SchemaNode {
  readonly path: readonly string[]
  readonly schema: Schema
  readonly isRequired: boolean
}

/** The schema, and all below it, each after the one that contains it. */
export const walkSchema = function* (schema: Schema, path: readonly string[] = [], isRequired = false): Generator<SchemaNode> {
  yield { path, schema, isRequired }
  if (schema.type === 'array') yield* walkSchema(schema.items, [...path, '[]'])
  if (schema.type !== 'object') return
  const { properties = {}, required = [], additionalProperties } = schema
  for (const [name, property] of Object.entries(properties)) yield* walkSchema(property, [...path, name], required.includes(name))
  if (additionalProperties !== undefined) yield* walkSchema(additionalProperties, [...path, 'NAME'])
}

/** Of an option that each file can have once. */
export const isFixedPath = (path: readonly string[]): boolean => !path.includes('[]') && !path.includes('NAME')

/**
 * `failover.upstreams[0].url`: a place inside the options of `owner`, or inside a file when `owner` is empty. Of a schema, too:
 * `upstreams[].url`, `plans.NAME.rate`.
 */
export const formatOptionPath = (owner: string, path: Path): string =>
  path.reduce<string>((text, part) => {
    if (part === '[]') return `${text}[]`
    return typeof part === 'number' ? `${text}[${part}]` : text === '' ? part : `${text}.${part}`
  }, owner)

/** A value with its schema, and its path below the value that was walked. */
export interface OptionNode {
  readonly value: unknown
  readonly schema: Schema | undefined
  readonly path: Path
}

/** The value, and all that its maps and lists contain. */
export const walkOptions = function* (value: unknown, schema: Schema | undefined, path: Path = []): Generator<OptionNode> {
  yield { value, schema, path }
  const entries = Array.isArray(value) ? value.entries() : isJsonObject(value) ? Object.entries(value) : []
  for (const [part, item] of entries) yield* walkOptions(item, childSchema(schema, part), [...path, part])
}

/** A copy with what `change` makes of each value that is neither map nor list. */
export const mapOptions = (value: unknown, schema: Schema | undefined, change: (node: OptionNode) => unknown, path: Path = []): unknown =>
  Array.isArray(value) || isJsonObject(value)
    ? mapItems(value, (item, part) => mapOptions(item, childSchema(schema, part), change, [...path, part]))
    : change({ value, schema, path })

/** How a text of this schema is kept from view; undefined where it holds no secret. */
export const secrecyOf = (schema: Schema | undefined): 'hidden' | 'masked URL' | undefined =>
  schema?.type === 'string' && schema.format !== undefined ? formats[schema.format].secret : undefined

/** What the names of entries must be. */
export const entryNameOf = ({ name }: NonNullable<ObjectSchema['entries']>) => {
  const { pattern, description } = formats['kebab-case']
  return name ?? { pattern: pattern ?? '', label: description }
}

/** The options of which the one at the path requires any. */
export const requiredPaths = (path: Path, { requires }: Schema): readonly Path[] =>
  (requires?.options ?? []).map(option => (option.includes('.') ? option.split('.') : [...path.slice(0, -1), option]))

export const schemaAt = (schema: Schema, path: Path): Schema | undefined => path.reduce<Schema | undefined>(childSchema, schema)

/** What a text stands for where the schema wants a number or a boolean: that of an unquoted variable, or of a query. */
export const coerceText = (text: string, schema: Schema | undefined): unknown => {
  if (schema?.type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true'
  const isNumber = (schema?.type === 'integer' || schema?.type === 'number') && /^-?\d+(\.\d+)?$/.test(text)
  return isNumber ? Number(text) : text
}
