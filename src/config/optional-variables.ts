import type { Path } from '../plugin/plugin.ts'
import type { Schema } from '../plugin/options-schema.ts'
import { childSchema } from './json-schema.ts'
import { isObject, jsonPointer } from './path.ts'
import type { Problem } from './problem.ts'
import { hasUnresolvedVariables } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'
import { describeUnsetVariable, setVariableHint } from './variables.ts'

/** What an optional network does without because variables are not set. */
export interface OmissionResult {
  readonly value: unknown
  /** Pointers of the objects and texts that were left out. */
  readonly omitted: readonly string[]
  /** Variables without which too little is left: a list too short, a required property gone. */
  readonly missingVariables: readonly string[]
}

/** Takes out the texts, and the objects with such texts, whose schema says `leaveOutWhenUnset` and whose variable is not set. */
export const omitUnsetOptionals = (value: unknown, schema: Schema, source: YamlFile, path: Path): OmissionResult => {
  const omitted: string[] = []
  const missingVariables: string[] = []

  const visit = (value: unknown, schema: Schema | undefined, path: Path): unknown => {
    if (Array.isArray(value)) return visitList(value, schema, path)
    const names = unsetVariablesAt(value, schema, source, path)
    if (names.length === 0) return isObject(value) ? visitMap(value, schema, path) : value
    omitted.push(jsonPointer(path))
    return new Omitted(names)
  }

  const visitList = (list: readonly unknown[], schema: Schema | undefined, path: Path): unknown => {
    const items = list.map((item, index) => visit(item, childSchema(schema, index), [...path, index]))
    const remaining = items.filter(item => !(item instanceof Omitted))
    const minItems = schema?.type === 'array' ? (schema.minItems ?? 0) : 0
    if (remaining.length < minItems) missingVariables.push(...items.flatMap(item => (item instanceof Omitted ? item.variables : [])))
    return remaining
  }

  const visitMap = (map: Readonly<Record<string, unknown>>, schema: Schema | undefined, path: Path): unknown => {
    const required = schema?.type === 'object' ? (schema.required ?? []) : []
    const kept: [key: string, item: unknown][] = []
    for (const [key, value] of Object.entries(map)) {
      const item = visit(value, childSchema(schema, key), [...path, key])
      if (!(item instanceof Omitted)) kept.push([key, item])
      else if (required.includes(key)) missingVariables.push(...item.variables)
    }
    return Object.fromEntries(kept)
  }

  const left = visit(value, schema, path)
  if (left instanceof Omitted) missingVariables.push(...left.variables)
  return { value: left, omitted, missingVariables }
}

/** A problem for each variable that is not set, except inside what was left out. */
export const unsetVariableProblems = (source: YamlFile, omitted: readonly string[] = []): readonly Problem[] =>
  [...source.expandedTexts].flatMap(([place, { path, unset }]) =>
    isInside(place, omitted)
      ? []
      : unset.map(variable => source.problemAt(path, describeUnsetVariable(variable), setVariableHint(variable))),
  )

/** Are all variables below the path there, except inside what was left out? */
export const isComplete = (source: YamlFile, path: Path, omitted: readonly string[]): boolean =>
  [...source.expandedTexts].every(
    ([place, text]) => !hasUnresolvedVariables(text) || !isInside(place, [jsonPointer(path)]) || isInside(place, omitted),
  )

const isInside = (place: string, outer: readonly string[]): boolean =>
  outer.some(pointer => place === pointer || place.startsWith(`${pointer}/`))

class Omitted {
  readonly variables: readonly string[]

  constructor(names: readonly string[]) {
    this.variables = names
  }
}

/**
 * Unset variables of a text, or among the texts of a map itself, for which it is to be left out; none when one of them
 * says `:?`, which insists on a problem.
 */
const unsetVariablesAt = (value: unknown, schema: Schema | undefined, source: YamlFile, path: Path): readonly string[] => {
  if (!isOmittable(schema)) return []
  const keys = isObject(value) ? Object.keys(value).filter(key => !isOmittable(childSchema(schema, key))) : undefined
  const places = keys === undefined ? [path] : keys.map(key => [...path, key])
  const unset = places.flatMap(place => source.expandedTexts.get(jsonPointer(place))?.unset ?? [])
  return unset.some(({ requiredMessage }) => requiredMessage !== undefined) ? [] : unset.map(({ name }) => name)
}

const isOmittable = (schema: Schema | undefined): boolean =>
  (schema?.type === 'object' || schema?.type === 'string') && schema.omitWhenUnset === true
