import type { Path } from '../plugin/plugin.ts'
import { isJsonObject } from '../util/json.ts'

/** A value that is not the expected one, and where. */
export interface Difference {
  readonly path: Path
  readonly message: string
}

/** Where `actual` lacks what `expected` has: maps are contained, lists are equal in length, and a text between slashes is a pattern. */
export const differencesOf = (expected: unknown, actual: unknown, path: Path = []): readonly Difference[] => {
  if (Array.isArray(expected)) return listDifferences(expected, actual, path)
  if (isJsonObject(expected)) {
    if (!isJsonObject(actual)) return [difference(path, expected, actual)]
    return Object.entries(expected).flatMap(([name, value]) =>
      differencesOf(value, Object.hasOwn(actual, name) ? actual[name] : undefined, [...path, name]),
    )
  }
  return isAccepted(expected, actual) ? [] : [difference(path, expected, actual)]
}

const listDifferences = (expected: readonly unknown[], actual: unknown, path: Path): readonly Difference[] => {
  if (!Array.isArray(actual) || actual.length !== expected.length) return [difference(path, expected, actual)]
  return expected.flatMap((item, i) => differencesOf(item, actual[i], [...path, i]))
}

const isAccepted = (expected: unknown, actual: unknown): boolean => {
  const pattern = typeof expected === 'string' ? /^\/(.+)\/$/.exec(expected)?.[1] : undefined
  return pattern === undefined ? expected === actual : typeof actual === 'string' && new RegExp(pattern).test(actual)
}

const difference = (path: Path, expected: unknown, actual: unknown): Difference => ({
  path,
  message: `expected ${formatJson(expected)}, got ${actual === undefined ? 'nothing' : formatJson(actual)}`,
})

const maxShownChars = 400

/** JSON on one line, shortened. */
export const formatJson = (value: unknown): string => {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > maxShownChars ? `${text.slice(0, maxShownChars)}…` : text
}
