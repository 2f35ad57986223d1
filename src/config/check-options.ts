import { dirname } from 'node:path'
import type { ErrorObject } from 'ajv'
import type { Infer, ObjectSchema, Schema } from '../plugin/options-schema.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { Validator } from '../util/schema-compiler.ts'
import { isJsonObject } from '../util/json.ts'
import { formatValue, jsonPointer } from '../util/json-path.ts'
import { maskSecrets } from './effective-file.ts'
import { formats, parseDuration, parseQuantity, parseSize } from './formats.ts'
import { optionsCompiler } from './options-compiler.ts'
import { omitUnsetOptionals } from './optional-variables.ts'
import type { Problem } from './problem.ts'
import { findBrokenRules, findUnusualOptions } from './option-rules.ts'
import { coerceText, formatOptionPath, secrecyOf, mapOptions, toJsonSchema, walkOptions, walkSchema } from './schema.ts'
import type { SchemaNode } from './schema.ts'
import { problemsOfAjvErrors } from './ajv-errors.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { hasUnresolvedVariables } from './yaml-file.ts'

/** The result for one map of options. */
interface CheckedOptions<Options> {
  /** With defaults, and converted; undefined when there are problems or missing variables. */
  readonly options: Options | undefined
  /** The same as an operator would write it, with secrets masked: for the few commands that show it. */
  effective(): unknown
  readonly problems: readonly Problem[]
  /** Options that are valid, but probably not meant. */
  readonly warnings: readonly Problem[]
  /** Only in an optional network: pointers of omitted options, and the variables without which too little is left. */
  readonly omitted: readonly string[]
  readonly missingVariables: readonly string[]
}

/** Checks the map at the location against its schema. Unset variables are reported elsewhere, for the whole file. */
export const checkOptions = <const S extends ObjectSchema>(
  location: OptionsLocation<S>,
  { optional }: { readonly optional: boolean } = { optional: false },
): CheckedOptions<Infer<S>> => {
  const { source, namePath, schema } = location
  const prefix = jsonPointer(namePath)
  const secrets = [...walkOptions(source.valueAt(namePath), schema, namePath)].filter(node => secrecyOf(node.schema) === 'hidden')
  source.hideValues(secrets.map(({ path }) => path))
  const value = coerceVariables(
    source.valueAt(namePath),
    schema,
    pointer => source.expandedTexts.get(prefix + pointer)?.isBareVariable === true,
  )
  // An unset variable is a problem of its own; that its text is no number, say, follows from that.
  const errors = validate(schema, value).filter(error => !hasUnresolvedVariables(source.expandedTexts.get(prefix + error.instancePath)))
  const omission = optional ? omitUnsetOptionals(value, schema, source, namePath) : { value, omitted: [], missingVariables: [] }
  const brokenRules = findBrokenRules(location)
  const isValid = errors.length === 0 && brokenRules.length === 0 && omission.missingVariables.length === 0
  return {
    // The one cast: Ajv has just checked the value against the schema that the type is inferred from.
    options: isValid ? (convertFormats(omission.value, schema, dirname(source.path)) as Infer<S>) : undefined,
    effective: () => maskSecrets(omission.value, schema),
    problems: [...problemsOfAjvErrors(errors, location), ...brokenRules],
    warnings: findUnusualOptions(location),
    omitted: omission.omitted,
    missingVariables: omission.missingVariables,
  }
}

/** Why the schema is invalid; undefined when it is valid. */
export const schemaError = (schema: ObjectSchema): string | undefined => {
  try {
    const shapeError = missingSchemaError(schema, [])
    if (shapeError !== undefined) return shapeError
    validatorOf(schema)
    return [...walkSchema(schema)].map(quantityError).find(error => error !== undefined)
  } catch (error) {
    return describeSchemaError(error instanceof Error ? error.message : String(error))
  }
}

/** The types promise a schema in each place, but not for a plugin written in JavaScript. */
const missingSchemaError = (schema: unknown, path: readonly string[]): string | undefined => {
  const place = path.length === 0 ? 'the schema' : `\`${formatOptionPath('', path)}\``
  if (!isJsonObject(schema)) return `${place} must be a schema, not ${formatValue(schema)}`
  if (schema['type'] === 'array')
    return schema['items'] === undefined
      ? `${place} is an array without \`items\`; write items: { type: 'string' }, or items: {} for any value`
      : missingSchemaError(schema['items'], [...path, '[]'])
  if (schema['type'] !== 'object') return undefined
  const { properties = {}, additionalProperties } = schema
  if (!isJsonObject(properties)) return `properties of ${place} must be a map of schemas, not ${formatValue(properties)}`
  const children: readonly [name: string, schema: unknown][] = [
    ...Object.entries(properties),
    ...(isJsonObject(additionalProperties) ? [['NAME', additionalProperties] as [string, unknown]] : []),
  ]
  return children.map(([name, child]) => missingSchemaError(child, [...path, name])).find(error => error !== undefined)
}

/** Ajv names an unknown keyword, but not the one that was meant. */
const describeSchemaError = (message: string): string => {
  const keyword = /unknown keyword: "(\w+)"/.exec(message)?.[1]
  if (keyword === undefined) return message
  const hint = didYouMean(keyword, schemaKeywords.split(' '))
  return `unknown keyword \`${keyword}\`${hint === undefined ? '' : `; ${hint}`}`
}

/** The keywords of the schemas of options. */
const schemaKeywords =
  'type properties required additionalProperties items minItems maxItems enum pattern label minLength maxLength default format usual usualMinLength minimum ' +
  'maximum exclusiveMinimum orAuto description examples omitWhenUnset whenOthersHaveIt requires exactlyOneOf entries'

const validators = new WeakMap<ObjectSchema, Validator>()

const validatorOf = (schema: ObjectSchema): Validator =>
  getOrCreate(validators, schema, () => optionsCompiler.compile(toJsonSchema(schema)))

/** Adds the defaults to the value. */
const validate = (schema: ObjectSchema, value: unknown): readonly ErrorObject[] => {
  const validator = validatorOf(schema)
  return validator(value) ? [] : (validator.errors ?? [])
}

/** A copy in which empty values are maps, and unquoted variables are numbers or booleans, where the schema wants these. */
const coerceVariables = (options: unknown, optionsSchema: Schema, isBare: (pointer: string) => boolean): unknown =>
  mapOptions(options, optionsSchema, ({ value, schema, path }) => {
    if (schema?.type === 'object' && (value === null || value === undefined)) return {}
    return typeof value === 'string' && isBare(jsonPointer(path)) ? coerceText(value, schema) : value
  })

/** Durations, sizes, addresses, URLs and paths become numbers, their parts, secrets and absolute paths. */
const convertFormats = (options: unknown, optionsSchema: Schema, directory: string): unknown =>
  mapOptions(options, optionsSchema, ({ value, schema }) => {
    const convert = schema?.type === 'string' && schema.format !== undefined ? formats[schema.format].convert : undefined
    return convert !== undefined && typeof value === 'string' ? convert(value, directory) : value
  })

/** What is wrong with the quantities of a schema; undefined when nothing is. */
const quantityError = ({ path, schema }: SchemaNode): string | undefined => {
  if (schema.type !== 'string') return undefined
  if (schema.minimum !== undefined && parseQuantity(schema.minimum) === undefined)
    return `minimum of ${formatOptionPath('', path)} must be a duration or a size`
  if (schema.usual === undefined) return undefined
  const parse =
    schema.format === 'duration' || schema.format === 'auto-duration'
      ? parseDuration
      : schema.format === 'size'
        ? parseSize
        : () => undefined
  const [min, max] = [parse(schema.usual.min), parse(schema.usual.max)]
  if (min !== undefined && max !== undefined && min < max) return undefined
  return `usual of ${formatOptionPath('', path)} must be { min, max } of a duration or a size`
}
