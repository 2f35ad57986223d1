import type { Path } from './json.ts'
import { isJsonArray, isJsonObject } from './json.ts'
import { asciiJson } from './printable-text.ts'

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

/** The path as a JSON pointer (RFC 6901), as Ajv writes it: `/upstreams/0/url`. */
export const jsonPointer = (path: Path): string => path.map(part => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

/** The path of a JSON pointer; whole numbers become positions of a list. */
export const parseJsonPointer = (pointer: string): Path =>
  pointer
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map(part => (/^\d{1,9}$/.test(part) ? Number(part) : part))

/** `params[0].topics[1]`; a path into a file has no root. */
export const formatPath = (root: string, path: Path): string =>
  path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`
    if (!/^\w{1,40}$/.test(step)) return `${text}[${formatValue(step)}]`
    return text === '' ? step : `${text}.${step}`
  }, root)

/** A value for a message: short, printable, on one line. */
export const formatValue = (value: unknown): string => {
  if (isJsonArray(value)) return 'an array'
  if (isJsonObject(value)) return 'an object'
  if (typeof value !== 'string') return String(value)
  return asciiJson(value.length > maxShownChars ? `${value.slice(0, maxShownChars - 3)}...` : value)
}

const maxShownChars = 40
