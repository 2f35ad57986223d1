import type { Json } from '../../util/json.ts'
import type { JsonType, Rule } from './table-types.ts'

/** An address that is in use on most networks: that of vitalik.eth. */
const exampleAddress = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'

const byType: Readonly<Record<JsonType, Json>> = {
  string: '',
  integer: 1,
  number: 50,
  boolean: true,
  array: [],
  object: {},
  null: null,
}

/** A value that the rule accepts, as an example for people who write one. */
export const exampleOf = (rule: Rule): Json => {
  const { default: value, example = value, enum: values, tags = [], hex, items, minimum, properties = {}, required = [] } = rule
  if (example !== undefined) return example
  if (values?.[0] !== undefined) return values[0]
  if (tags.length > 0) return tags.includes('latest') ? 'latest' : (tags[0] ?? '')
  if (hex !== undefined) return exampleHex([hex].flat()[0] ?? '')
  const [type = 'string'] = [rule.type ?? []].flat()
  if (type === 'array' && items !== undefined) return [exampleOf(items)].filter(example => typeof example !== 'object')
  if (type === 'integer' || type === 'number') return Math.max(minimum ?? 0, Number(byType[type]))
  if (type === 'object') return Object.fromEntries(required.map(name => [name, exampleOf(properties[name] ?? {})]))
  return byType[type]
}

const exampleHex = (name: string): string => {
  if (name === '20 bytes') return exampleAddress
  if (name === '32 bytes') return `0x${'ab'.repeat(32)}`
  const [, count = '0'] = /^(\d+) bytes$/.exec(name) ?? []
  return name.startsWith('number') ? '0x1' : `0x${'00'.repeat(Number(count))}`
}
