import type { Schema } from '../plugin/options-schema.ts'
import type { Path } from '../plugin/plugin.ts'

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

/** What a text stands for where the schema wants a number or a boolean: that of an unquoted variable, or of a query. */
export const coerceText = (text: string, schema: Schema | undefined): unknown => {
  if (schema?.type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true'
  const isNumber = (schema?.type === 'integer' || schema?.type === 'number') && /^-?\d+(\.\d+)?$/.test(text)
  return isNumber ? Number(text) : text
}
