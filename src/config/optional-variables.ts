import type { Path } from '../util/json.ts'
import type { Schema } from '../plugin/options-schema.ts'
import { isJsonObject } from '../util/json.ts'
import { jsonPointer } from '../util/json-path.ts'
import type { Problem } from './problem.ts'
import { childSchema } from './schema.ts'
import { hasUnresolvedVariables } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'
import { describeUnsetVariable, setVariableHint } from './variables.ts'

/** What was omitted from an optional network because variables are not set. */
interface OmissionResult {
  readonly value: unknown
  /** Pointers of the omitted objects and strings. */
  readonly omitted: readonly string[]
  /** Variables without which too little is left: a list too short, a required property gone. */
  readonly missingVariables: readonly string[]
}

/** Omits each string whose schema has `omitWhenUnset` and whose variable is not set, and each object that such a string belongs to. */
export const omitUnsetOptionals = (value: unknown, schema: Schema, source: YamlFile, path: Path): OmissionResult => {
  const omitted: string[] = []
  const missingVariables: string[] = []

  const visit = (value: unknown, schema: Schema | undefined, path: Path): unknown => {
    if (Array.isArray(value)) return visitList(value, schema, path)
    const names = unsetVariablesAt(value, schema, source, path)
    if (names.length === 0) return isJsonObject(value) ? visitMap(value, schema, path) : value
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
    const remaining: [key: string, item: unknown][] = []
    for (const [key, value] of Object.entries(map)) {
      const item = visit(value, childSchema(schema, key), [...path, key])
      if (!(item instanceof Omitted)) remaining.push([key, item])
      else if (required.includes(key)) missingVariables.push(...item.variables)
    }
    return Object.fromEntries(remaining)
  }

  const remaining = visit(value, schema, path)
  if (remaining instanceof Omitted) missingVariables.push(...remaining.variables)
  return { value: remaining, omitted, missingVariables }
}

interface UnreportedPlaces {
  /** Pointers of omitted options. */
  readonly omitted: readonly string[]
  /** Pointers of parts of an optional network that have other problems: what could be omitted there is not known. `:?` demands a problem all the same. */
  readonly broken: readonly string[]
}

/**
 * The path in the file of a path into a value from which these pointers are omitted: the items of a list that remain have moved up
 * into the places of those omitted before them.
 */
export const pathInFile = (path: Path, omitted: readonly string[]): Path =>
  path.reduce<Path>((place, part) => {
    if (typeof part !== 'number') return [...place, part]
    let index = 0
    for (let remaining = part; ; index += 1) {
      if (omitted.includes(jsonPointer([...place, index]))) continue
      if (remaining === 0) return [...place, index]
      remaining -= 1
    }
  }, [])

/** A problem for each variable that is not set, except at places where that follows from something else. */
export const unsetVariableProblems = (
  source: YamlFile,
  { omitted, broken }: UnreportedPlaces = { omitted: [], broken: [] },
): readonly Problem[] =>
  [...source.expandedTexts].flatMap(([place, { path, unset }]) =>
    isInside(place, omitted)
      ? []
      : unset
          .filter(({ requiredMessage }) => requiredMessage !== undefined || !isInside(place, broken))
          .map(variable => source.problemAt(path, describeUnsetVariable(variable), setVariableHint(variable))),
  )

/** Are all variables below the path set, except inside omitted options? */
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
 * The unset variables because of which a string, or a map with its own strings, is omitted; none when one of them has
 * `:?`, which demands a problem.
 */
const unsetVariablesAt = (value: unknown, schema: Schema | undefined, source: YamlFile, path: Path): readonly string[] => {
  if (!isOmittable(schema)) return []
  const keys = isJsonObject(value) ? Object.keys(value).filter(key => !isOmittable(childSchema(schema, key))) : undefined
  const places = keys === undefined ? [path] : keys.map(key => [...path, key])
  const unset = places.flatMap(place => source.expandedTexts.get(jsonPointer(place))?.unset ?? [])
  return unset.some(({ requiredMessage }) => requiredMessage !== undefined) ? [] : unset.map(({ name }) => name)
}

const isOmittable = (schema: Schema | undefined): boolean =>
  (schema?.type === 'object' || schema?.type === 'string') && schema.omitWhenUnset === true
