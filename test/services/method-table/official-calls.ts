import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import type { Arbitrary } from 'fast-check'
import { parse } from 'yaml'
import type { Json } from '../../../src/plugin/call.ts'
import { getOrCreate } from '../../../src/util/memoize.ts'

/** The part of JSON Schema that official-methods.yaml uses. `keys` is the schema of the names of members, `tuple` those of the elements. */
interface Schema {
  readonly $ref?: string
  readonly type?: 'string' | 'integer' | 'number' | 'boolean' | 'null' | 'array' | 'object'
  readonly pattern?: string
  readonly enum?: readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly items?: Schema
  readonly tuple?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly keys?: string
  readonly additionalProperties?: Schema | false
}

interface OfficialMethods {
  readonly schemas: Readonly<Record<string, Schema>>
  readonly methods: Readonly<Record<string, Readonly<Record<string, Schema>>>>
}

const file = new URL('../../../../test/services/method-table/official-methods.yaml', import.meta.url)
const { schemas, methods }: OfficialMethods = parse(readFileSync(file, 'utf8'))

export const officialMethodNames: readonly string[] = Object.keys(methods)

/** How many positions an official method has, and how many of them must be present. */
export const officialArity = (name: string): { readonly most: number; readonly least: number } => {
  const positions = Object.keys(methods[name] ?? {})
  return { most: positions.length, least: positions.filter(position => !position.endsWith('?')).length }
}

/** Parameters that the official schema of the method accepts; without reversed ranges, which no schema can express. */
export const officialParams = (name: string): Arbitrary<readonly Json[]> => {
  const positions = Object.values(methods[name] ?? {}).map(arbitraryOf)
  const { most, least } = officialArity(name)
  const hasRange = (params: readonly Json[]) => !params.some(isReversedRange)
  return fc
    .tuple(fc.integer({ min: least, max: most }), fc.tuple(...positions))
    .map(([count, params]) => params.slice(0, count))
    .filter(hasRange)
}

const isReversedRange = (param: Json): boolean => {
  const { fromBlock, toBlock } = (param ?? {}) as { readonly fromBlock?: string; readonly toBlock?: string } // undefined for other params
  const isNumber = (block: string | undefined): block is string => block?.startsWith('0x') === true
  return isNumber(fromBlock) && isNumber(toBlock) && BigInt(fromBlock) > BigInt(toBlock)
}

/** By the name of the schema: to make one takes longer than to draw a value. */
const namedArbitraries = new Map<string, Arbitrary<Json>>()

const arbitraryOf = (schema: Schema): Arbitrary<Json> => {
  if (schema.$ref !== undefined) return getOrCreate(namedArbitraries, schema.$ref, name => arbitraryOf(schemas[name] ?? {}))
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(arbitraryOf))
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  switch (schema.type) {
    case 'string':
      return fc.stringMatching(new RegExp(schema.pattern ?? '^[a-z]*$'))
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -100, max: schema.maximum ?? 1000 })
    case 'number':
      return fc.double({ min: schema.minimum ?? 0, max: schema.maximum ?? 1, noNaN: true })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return schema.tuple === undefined
        ? fc.array(arbitraryOf(schema.items ?? {}), { maxLength: schema.maxItems ?? 5 })
        : fc.tuple(...schema.tuple.map(arbitraryOf))
    case 'object':
      return objectOf(schema)
    default:
      throw new Error(`no values for ${JSON.stringify(schema)}`)
  }
}

const objectOf = ({ properties = {}, required = [], keys, additionalProperties }: Schema): Arbitrary<Json> => {
  if (keys !== undefined && additionalProperties) {
    const names = arbitraryOf({ $ref: keys }) as Arbitrary<string> // the schemas of keys are of strings
    return fc.dictionary(names, arbitraryOf(additionalProperties), { maxKeys: 3, noNullPrototype: true })
  }
  const members = Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, arbitraryOf(schema)]))
  return fc.record(members, { requiredKeys: [...required], noNullPrototype: true })
}
