import type { ErrorObject } from 'ajv'
import { describeSchema } from '../config/describe-options.ts'
import { optionsCompiler } from '../config/options-compiler.ts'
import { childSchema, coerceText, schemaAt, toJsonSchema } from '../config/schema.ts'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { mapItems, parseJsonPointer } from '../util/json-path.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { Validator } from '../util/schema-compiler.ts'
import { ApiError } from './api-errors.ts'

const validators = new WeakMap<ObjectSchema, Validator>()

/**
 * Checks a body or a query, and adds the defaults to it. Throws ApiError with the field and what it must be. Nothing recurses into what is not
 * known: a caller may nest a body as deep as its length allows.
 */
export const checkInput = (kind: 'body' | 'query', schema: ObjectSchema, value: unknown): unknown => {
  const validate = getOrCreate(validators, schema, () => optionsCompiler.compile(toJsonSchema(schema)))
  const checked = kind === 'query' ? coerceTexts(value, schema) : (value ?? {})
  if (validate(checked)) return checked
  throw toApiError(validate.errors?.[0], schema, kind)
}

/** Members of a query are texts. */
const coerceTexts = (query: unknown, schema: ObjectSchema): unknown =>
  mapItems(query, (member, name) => (typeof member === 'string' ? coerceText(member, childSchema(schema, name)) : member))

const toApiError = (error: ErrorObject | undefined, schema: ObjectSchema, kind: string): ApiError => {
  const path = parseJsonPointer(error?.instancePath ?? '')
  const member = error?.params['missingProperty'] ?? error?.params['additionalProperty']
  const field = [...path, ...(member === undefined ? [] : [String(member)])].join('.')
  if (error?.keyword === 'required') return new ApiError(400, 'invalid', `${field} is missing`, field)
  if (error?.keyword === 'additionalProperties') return new ApiError(400, 'invalid', `${field} is not known here`, field)
  const found = schemaAt(schema, path)
  const expected = found === undefined ? 'valid' : describeSchema(found)
  return new ApiError(400, 'invalid', `${field === '' ? `the ${kind}` : field} must be ${expected}`, field || undefined)
}
