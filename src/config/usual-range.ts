import type { Schema, UsualRange } from '../plugin/options-schema.ts'
import type { Path } from '../plugin/plugin.ts'
import { isJsonObject } from '../util/json.ts'
import { formatOptionPath } from './ajv-errors.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { parseDuration, parseSize } from './formats.ts'
import type { Problem } from './problem.ts'
import { childSchema } from './schema.ts'

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
export const usualRangeError = (schema: Schema, path: Path = []): string | undefined => {
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
