import type { Path } from '../plugin.ts'
import type { Schema } from '../schema.ts'
import { childOf } from './json-schema.ts'
import { isMap, pointer } from './path.ts'
import type { Problem } from './problem.ts'
import { isIncomplete } from './source.ts'
import type { Source } from './source.ts'
import { describeUnset, howToSet } from './variables.ts'

/** What an optional network does without because variables are not set. */
export interface LeftOut {
  readonly value: unknown
  /** Pointers of the objects and texts that were left out. */
  readonly pointers: readonly string[]
  /** Variables without which too little is left: a list too short, a required property gone. */
  readonly missing: readonly string[]
}

/** Takes out the texts, and the objects with such texts, whose schema says `leaveOutWhenUnset` and whose variable is not set. */
export const leaveOut = (value: unknown, schema: Schema, source: Source, path: Path): LeftOut => {
  const pointers: string[] = []
  const missing: string[] = []

  const visit = (value: unknown, schema: Schema | undefined, path: Path): unknown => {
    if (Array.isArray(value)) return visitList(value, schema, path)
    const names = unsetIn(value, schema, source, path)
    if (names.length === 0) return isMap(value) ? visitMap(value, schema, path) : value
    pointers.push(pointer(path))
    return new Gone(names)
  }

  const visitList = (list: readonly unknown[], schema: Schema | undefined, path: Path): unknown => {
    const items = list.map((item, index) => visit(item, childOf(schema, index), [...path, index]))
    const left = items.filter(item => !(item instanceof Gone))
    const least = schema?.type === 'array' ? (schema.minItems ?? 0) : 0
    if (left.length < least) missing.push(...items.flatMap(item => (item instanceof Gone ? item.names : [])))
    return left
  }

  const visitMap = (map: Readonly<Record<string, unknown>>, schema: Schema | undefined, path: Path): unknown => {
    const required = schema?.type === 'object' ? (schema.required ?? []) : []
    const kept: [key: string, item: unknown][] = []
    for (const [key, value] of Object.entries(map)) {
      const item = visit(value, childOf(schema, key), [...path, key])
      if (!(item instanceof Gone)) kept.push([key, item])
      else if (required.includes(key)) missing.push(...item.names)
    }
    return Object.fromEntries(kept)
  }

  const left = visit(value, schema, path)
  if (left instanceof Gone) missing.push(...left.names)
  return { value: left, pointers, missing }
}

/** A problem for each variable that is not set, except inside what was left out. */
export const unsetProblems = (source: Source, leftOut: readonly string[] = []): readonly Problem[] =>
  [...source.texts].flatMap(([place, { path, unset }]) =>
    isInside(place, leftOut) ? [] : unset.map(variable => source.problem(path, describeUnset(variable), howToSet(variable))),
  )

/** Are all variables below the path there, except inside what was left out? */
export const isWhole = (source: Source, path: Path, leftOut: readonly string[]): boolean =>
  [...source.texts].every(([place, text]) => !isIncomplete(text) || !isInside(place, [pointer(path)]) || isInside(place, leftOut))

const isInside = (place: string, outer: readonly string[]): boolean =>
  outer.some(pointer => place === pointer || place.startsWith(`${pointer}/`))

class Gone {
  readonly names: readonly string[]

  constructor(names: readonly string[]) {
    this.names = names
  }
}

/**
 * Unset variables of a text, or among the texts of a map itself, for which it is to be left out; none when one of them
 * says `:?`, which insists on a problem.
 */
const unsetIn = (value: unknown, schema: Schema | undefined, source: Source, path: Path): readonly string[] => {
  if (!isLeftOut(schema)) return []
  const keys = isMap(value) ? Object.keys(value).filter(key => !isLeftOut(childOf(schema, key))) : undefined
  const places = keys === undefined ? [path] : keys.map(key => [...path, key])
  const unset = places.flatMap(place => source.texts.get(pointer(place))?.unset ?? [])
  return unset.some(({ demand }) => demand !== undefined) ? [] : unset.map(({ name }) => name)
}

const isLeftOut = (schema: Schema | undefined): boolean =>
  (schema?.type === 'object' || schema?.type === 'string') && schema.leaveOutWhenUnset === true
