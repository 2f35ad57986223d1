import type { Path } from '../plugin/plugin.ts'

/** The path as a JSON pointer (RFC 6901), as Ajv writes it: `/upstreams/0/url`. */
export const jsonPointer = (path: Path): string => path.map(part => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

/** The way back; list positions come as digits in a text. */
export const parseJsonPointer = (text: string): Path =>
  text
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'))

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value at the path, or undefined when there is none. */
export const valueAt = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>(
    (here, part) => (Array.isArray(here) ? here[Number(part)] : isObject(here) && Object.hasOwn(here, part) ? here[part] : undefined),
    value,
  )

/** A copy of a list or map with each item changed; anything else as it is. */
export const mapItems = (value: unknown, change: (item: unknown, part: string | number) => unknown): unknown => {
  if (Array.isArray(value)) return value.map(change)
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, change(item, key)])) : value
}

/** Names of networks, plans, steps and method tables, which are file names and words of the command line too. */
export const isKebabCase = (text: string): boolean => /^[a-z0-9]+(-[a-z0-9]+)*$/.test(text)
