import { dirname } from 'node:path'
import { Ajv } from 'ajv'
import type { ErrorObject, ValidateFunction } from 'ajv'
import type { Infer, ObjectSchema, Schema } from '../plugin/options-schema.ts'
import { formats } from './formats.ts'
import { childSchema, toJsonSchema } from './json-schema.ts'
import { omitUnsetOptionals } from './optional-variables.ts'
import { mapItems, jsonPointer } from './path.ts'
import type { Problem } from './problem.ts'
import { problemsOfAjvErrors } from './ajv-errors.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { hasUnresolvedVariables } from './yaml-file.ts'

/** What came of one map of options. */
export interface CheckedOptions<Options> {
  /** With defaults and converted; undefined when there are problems or something is missing. */
  readonly options: Options | undefined
  readonly problems: readonly Problem[]
  /** Only in an optional network: pointers of what was left out, and the variables without which too little is left. */
  readonly omitted: readonly string[]
  readonly missingVariables: readonly string[]
}

/**
 * Checks the map at the site against its schema. Variables that are not set are no problem here: whoever knows the
 * whole file reports them.
 */
export const checkOptions = <const S extends ObjectSchema>(
  location: OptionsLocation<S>,
  { optional }: { readonly optional: boolean } = { optional: false },
): CheckedOptions<Infer<S>> => {
  const { source, namePath, schema } = location
  const prefix = jsonPointer(namePath)
  const value = coerceVariables(
    source.valueAt(namePath),
    schema,
    place => source.expandedTexts.get(prefix + place)?.isBareVariable === true,
  )
  // That a text whose variables are missing is no number, say, follows from its own problem.
  const errors = validate(schema, value).filter(error => !hasUnresolvedVariables(source.expandedTexts.get(prefix + error.instancePath)))
  const omission = optional ? omitUnsetOptionals(value, schema, source, namePath) : { value, omitted: [], missingVariables: [] }
  const isValid = errors.length === 0 && omission.missingVariables.length === 0
  return {
    // The one cast: Ajv has just held the value against the schema that the type is inferred from.
    options: isValid ? (convertFormats(omission.value, schema, dirname(source.path)) as Infer<S>) : undefined,
    problems: problemsOfAjvErrors(errors, location),
    omitted: omission.omitted,
    missingVariables: omission.missingVariables,
  }
}

/** Why Ajv does not take the schema; undefined when it does. */
export const schemaError = (schema: ObjectSchema): string | undefined => {
  try {
    validatorOf(schema)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

const ajv = new Ajv({
  strict: true,
  allErrors: true,
  useDefaults: true,
  // The meta schema would take 30 ms of each start, and types have proved the schemas. Each is used only a few times.
  meta: false,
  validateSchema: false,
  code: { optimize: false },
})
for (const [name, { accepts }] of Object.entries(formats)) ajv.addFormat(name, accepts)

const validators = new WeakMap<ObjectSchema, ValidateFunction>()

const validatorOf = (schema: ObjectSchema): ValidateFunction => {
  const known = validators.get(schema) ?? ajv.compile(toJsonSchema(schema))
  validators.set(schema, known)
  return known
}

/** Fills the defaults into the value. */
const validate = (schema: ObjectSchema, value: unknown): readonly ErrorObject[] => {
  const validator = validatorOf(schema)
  return validator(value) ? [] : (validator.errors ?? [])
}

/** A copy in which a map without entries may be written as nothing, and whole variables became what is wanted. */
const coerceVariables = (value: unknown, schema: Schema, isBare: (place: string) => boolean): unknown => {
  const visit = (value: unknown, schema: Schema | undefined, place: string): unknown => {
    if (schema?.type === 'object' && (value === null || value === undefined)) return {}
    if (typeof value === 'string') return isBare(place) ? coerceText(value, schema) : value
    return mapItems(value, (item, part) => visit(item, childSchema(schema, part), place + jsonPointer([part])))
  }
  return visit(value, schema, '')
}

const coerceText = (text: string, schema: Schema | undefined): unknown => {
  if (schema?.type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true'
  const isNumber = (schema?.type === 'integer' || schema?.type === 'number') && /^-?\d+(\.\d+)?$/.test(text)
  return isNumber ? Number(text) : text
}

/** Durations, sizes, URLs and paths become what plugins get. */
const convertFormats = (value: unknown, schema: Schema | undefined, directory: string): unknown => {
  const format = schema?.type === 'string' ? schema.format : undefined
  if (typeof value === 'string') return format ? formats[format].convert(value, directory) : value
  return mapItems(value, (item, part) => convertFormats(item, childSchema(schema, part), directory))
}
