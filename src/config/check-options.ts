import { dirname } from 'node:path'
import type { ErrorObject } from 'ajv'
import type { Infer, ObjectSchema, Schema, UsualRange } from '../plugin/options-schema.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { getOrCreate } from '../util/memoize.ts'
import { jsonPointer, mapItems } from '../util/json-path.ts'
import { maskSecrets } from './effective-file.ts'
import { formats, parseDuration, parseSize } from './formats.ts'
import { createValidator } from './option-validators.ts'
import type { Validator } from './option-validators.ts'
import { omitUnsetOptionals } from './optional-variables.ts'
import type { Problem } from './problem.ts'
import { childSchema, coerceText, toJsonSchema } from './schema.ts'
import { secretPaths } from './secret-ranges.ts'
import { problemsOfAjvErrors, formatOptionPath } from './ajv-errors.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { hasUnresolvedVariables } from './yaml-file.ts'
import type { Path } from '../plugin/plugin.ts'
import { isJsonObject } from '../util/json.ts'

/** The result for one map of options. */
interface CheckedOptions<Options> {
  /** With defaults, and converted; undefined when there are problems or missing variables. */
  readonly options: Options | undefined
  /** The same as an operator would write it, with secrets masked. */
  readonly effective: unknown
  readonly problems: readonly Problem[]
  /** Values outside their usual range, and items that lack what others have. */
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
  source.hideValues(secretPaths(source.valueAt(namePath), schema, namePath))
  const value = coerceVariables(
    source.valueAt(namePath),
    schema,
    pointer => source.expandedTexts.get(prefix + pointer)?.isBareVariable === true,
  )
  // An unset variable is a problem of its own; that its text is no number, say, follows from that.
  const errors = validate(schema, value).filter(error => !hasUnresolvedVariables(source.expandedTexts.get(prefix + error.instancePath)))
  const omission = optional ? omitUnsetOptionals(value, schema, source, namePath) : { value, omitted: [], missingVariables: [] }
  const isValid = errors.length === 0 && omission.missingVariables.length === 0
  return {
    // The one cast: Ajv has just checked the value against the schema that the type is inferred from.
    options: isValid ? (convertFormats(omission.value, schema, dirname(source.path)) as Infer<S>) : undefined,
    effective: maskSecrets(omission.value, schema),
    problems: problemsOfAjvErrors(errors, location),
    warnings: [...findUnusualValues(location), ...findUnevenItems(location)],
    omitted: omission.omitted,
    missingVariables: omission.missingVariables,
  }
}

/** Why the schema is invalid; undefined when it is valid. */
export const schemaError = (schema: ObjectSchema): string | undefined => {
  try {
    validatorOf(schema)
    return usualRangeError(schema)
  } catch (error) {
    return describeSchemaError(error instanceof Error ? error.message : String(error))
  }
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
  'type properties required additionalProperties items minItems maxItems enum pattern label minLength maxLength default format usual minimum ' +
  'maximum exclusiveMinimum description examples omitWhenUnset whenOthersHaveIt'

const validators = new WeakMap<ObjectSchema, Validator>()

const validatorOf = (schema: ObjectSchema): Validator => getOrCreate(validators, schema, () => createValidator(toJsonSchema(schema)))

/** Adds the defaults to the value. */
const validate = (schema: ObjectSchema, value: unknown): readonly ErrorObject[] => {
  const validator = validatorOf(schema)
  return validator(value) ? [] : (validator.errors ?? [])
}

/** A copy in which empty values are maps, and unquoted variables are numbers or booleans, where the schema wants these. */
const coerceVariables = (value: unknown, schema: Schema, isBare: (pointer: string) => boolean): unknown => {
  const visit = (value: unknown, schema: Schema | undefined, pointer: string): unknown => {
    if (schema?.type === 'object' && (value === null || value === undefined)) return {}
    if (typeof value === 'string') return isBare(pointer) ? coerceText(value, schema) : value
    return mapItems(value, (item, part) => visit(item, childSchema(schema, part), pointer + jsonPointer([part])))
  }
  return visit(value, schema, '')
}

/** Durations, sizes, URLs and paths become numbers, secrets and absolute paths. */
const convertFormats = (value: unknown, schema: Schema | undefined, directory: string): unknown => {
  const format = schema?.type === 'string' ? schema.format : undefined
  if (typeof value === 'string') return format ? formats[format].convert(value, directory) : value
  return mapItems(value, (item, part) => convertFormats(item, childSchema(schema, part), directory))
}

/** A warning for each item of a list that lacks an option which another item has, where the schema says that this matters. */
const findUnevenItems = ({ source, namePath, owner, schema }: OptionsLocation): readonly Problem[] => {
  const visitItems = (items: readonly unknown[], schema: Schema | undefined, inside: Path): readonly Problem[] => {
    const properties = schema?.type === 'object' ? Object.entries(schema.properties ?? {}) : []
    const maps = [...items.entries()].filter(([, item]) => isJsonObject(item))
    return properties.flatMap(([key, { whenOthersHaveIt }]) => {
      const without = maps.filter(([, item]) => isJsonObject(item) && !Object.hasOwn(item, key))
      if (whenOthersHaveIt === undefined || without.length === maps.length) return []
      return without.map(([index]) => {
        const itemPath = [...inside, index]
        const message = `${formatOptionPath(owner, itemPath)} has no \`${key}\`, but another item has: ${whenOthersHaveIt}`
        return source.problemAt([...namePath, ...itemPath], message, `add \`${key}\``)
      })
    })
  }
  const visit = (value: unknown, schema: Schema | undefined, inside: Path): readonly Problem[] => {
    if (Array.isArray(value)) {
      const items = value.flatMap((item, i) => visit(item, childSchema(schema, i), [...inside, i]))
      return [...items, ...visitItems(value, childSchema(schema, 0), inside)]
    }
    return isJsonObject(value)
      ? Object.entries(value).flatMap(([key, item]) => visit(item, childSchema(schema, key), [...inside, key]))
      : []
  }
  return visit(source.valueAt(namePath), schema, [])
}

/** A warning for each duration or size below the location that is outside its usual range. */
export const findUnusualValues = ({ source, namePath, owner, schema }: OptionsLocation): readonly Problem[] => {
  const visit = (value: unknown, schema: Schema | undefined, inside: Path): readonly Problem[] => {
    if (Array.isArray(value)) return value.flatMap((item, i) => visit(item, childSchema(schema, i), [...inside, i]))
    if (isJsonObject(value)) return Object.entries(value).flatMap(([key, item]) => visit(item, childSchema(schema, key), [...inside, key]))
    const path = [...namePath, ...inside]
    const text = source.textAt(path)
    if (schema?.type !== 'string' || schema.usual === undefined || text === undefined || isUsual(text, schema.usual)) return []
    const { min, max } = schema.usual
    const message = `${formatOptionPath(owner, inside)} is usually ${min} to ${max}, not ${source.describeValueAt(path)}`
    return [source.problemAt(path, message, schema.description)]
  }
  return visit(source.valueAt(namePath), schema, [])
}

/** A text that is no quantity is a problem of its own. */
const isUsual = (text: string, { min, max }: UsualRange): boolean => {
  const value = parseQuantity(text)
  return value === undefined || value === 0 || (value >= (parseQuantity(min) ?? 0) && value <= (parseQuantity(max) ?? Infinity))
}

/** The units of durations and of sizes differ. */
const parseQuantity = (text: string): number | undefined => parseDuration(text) ?? parseSize(text)

/** What is wrong with the usual ranges of a schema; undefined when nothing is. */
const usualRangeError = (schema: Schema, path: Path = []): string | undefined => {
  if (schema.type === 'array') return usualRangeError(schema.items, path)
  if (schema.type === 'object') {
    const children = [
      ...Object.entries(schema.properties ?? {}),
      ...(schema.additionalProperties ? [['NAME', schema.additionalProperties] as const] : []),
    ]
    return children.map(([name, child]) => usualRangeError(child, [...path, name])).find(error => error !== undefined)
  }
  if (schema.type !== 'string' || schema.usual === undefined) return undefined
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
