import type { Path } from '../plugin/plugin.ts'
import { isJsonObject } from '../util/json.ts'

/** The value at the path, or undefined when there is none. */
export const valueAt = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>(
    (here, part) => (Array.isArray(here) ? here[Number(part)] : isJsonObject(here) && Object.hasOwn(here, part) ? here[part] : undefined),
    value,
  )

/** A copy of a list or map with each item changed; any other value as it is. */
export const mapItems = (value: unknown, change: (item: unknown, part: string | number) => unknown): unknown => {
  if (Array.isArray(value)) return value.map(change)
  return isJsonObject(value) ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, change(item, key)])) : value
}

/** Names of networks, plans, steps and method tables, which are file names and arguments of commands too. */
export const isKebabCase = (text: string): boolean => /^[a-z0-9]+(-[a-z0-9]+)*$/.test(text)
