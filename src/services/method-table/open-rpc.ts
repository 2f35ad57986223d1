import type { JsonObject } from '../../util/json.ts'
import type { MethodDescription, ResultKind } from './index.ts'
import { parseHexFormat } from './normalize-params.ts'
import type { CompiledMethod, NetworkIdentity, ResolvedPosition, JsonType, Rule } from './table-types.ts'

const openRpcVersion = '1.3.2'

/** The OpenRPC document of the described methods, as JSON text; a method that is not in the table has no schemas. */
export const openRpcDocument = (
  described: readonly MethodDescription[],
  entries: ReadonlyMap<string, CompiledMethod>,
  { name, chainId, version }: NetworkIdentity,
): Uint8Array =>
  Buffer.from(
    JSON.stringify({
      openrpc: openRpcVersion,
      info: { title: `${name} (chain ${chainId}), by Tollgate`, version },
      methods: described.map(method => methodObject(method, entries.get(method.name))),
    }),
  )

/**
 * `x-credits`: what a call costs. `x-verification`: how its results are verified. `x-verify-credits`: what a call costs that asks for another verification.
 * `x-event-credits`: what each KiB of messages costs, by the kind of the subscription.
 */
const methodObject = (
  { name, credits, verification, verifyCredits, eventCredits }: MethodDescription,
  compiled: CompiledMethod | undefined,
): JsonObject => ({
  name,
  paramStructure: 'by-position',
  params: compiled?.positions?.map(contentDescriptor) ?? [],
  result: { name: 'result', schema: resultSchema(compiled?.settings.result) },
  'x-credits': credits,
  ...(verification !== undefined && { 'x-verification': verification }),
  ...(verifyCredits && { 'x-verify-credits': verifyCredits }),
  ...(eventCredits && { 'x-event-credits': eventCredits }),
})

const contentDescriptor = ({ title, optional, rule }: ResolvedPosition): JsonObject => ({
  name: title,
  required: optional === false,
  schema: jsonSchemaOf(rule),
})

const object = { type: 'object' }
const array = { type: 'array' }
const quantity = { type: 'string', pattern: '^0x(0|[1-9a-f][0-9a-f]*)$' }
const data = { type: 'string', pattern: '^0x[0-9a-f]*$' }
const orNull = (schema: JsonObject): JsonObject => ({ anyOf: [schema, { type: 'null' }] })

const resultSchemas: Readonly<Record<ResultKind, JsonObject>> = {
  word: { type: 'string', pattern: '^0x[0-9a-f]{64}$' },
  blockNumber: quantity,
  block: orNull(object),
  transaction: orNull(object),
  receipt: orNull(object),
  receipts: orNull({ type: 'array', items: object }),
  logs: { type: 'array', items: object },
  quantity,
  quantityOrNull: orNull(quantity),
  data,
  dataOrNull: orNull(data),
  hash: { type: 'string', pattern: '^0x[0-9a-f]{64}$' },
  text: { type: 'string' },
  boolean: { type: 'boolean' },
  object,
  objectOrNull: orNull(object),
  array,
  arrayOrNull: orNull(array),
  any: {},
}

/** Any value for a result that the table does not describe. */
const resultSchema = (kind: ResultKind | undefined): JsonObject => (kind === undefined ? {} : resultSchemas[kind])

/**
 * The JSON Schema (draft 7) of what callers should send: every value that it accepts passes the rule. The rule accepts more: other
 * spellings of the same value, and `null` for a missing member. What JSON Schema cannot express is in the description.
 */
const jsonSchemaOf = (rule: Rule): JsonObject => {
  const alternatives = [rule.type ?? []].flat().flatMap(type => schemasOfType(type, rule))
  const [only] = alternatives
  const schema = only !== undefined && alternatives.length === 1 ? only : { anyOf: alternatives }
  const description = describeLimits(rule)
  return {
    ...(rule.label !== undefined && { title: rule.label }),
    ...(description !== '' && { description }),
    ...schema,
    ...(rule.default !== undefined && { default: rule.default }),
  }
}

const schemasOfType = (type: JsonType, rule: Rule): readonly JsonObject[] => {
  switch (type) {
    case 'string':
      return stringSchemas(rule)
    case 'array':
      return [{ type, ...pick(rule, ['minItems', 'maxItems']), ...(rule.items && { items: jsonSchemaOf(rule.items) }) }]
    case 'object':
      return [objectSchema(rule)]
    case 'integer':
    case 'number':
      return [{ type, ...pick(rule, ['minimum', 'maximum']) }]
    default:
      return [{ type }]
  }
}

/** One schema for each format, and one for the block tags. */
const stringSchemas = ({ hex, tags, ...rule }: Rule): readonly JsonObject[] => {
  if (hex === undefined) return [{ type: 'string', ...pick(rule, ['enum', 'minLength', 'maxLength']) }]
  const formats = [hex].flat().map(format => ({ type: 'string', pattern: parseHexFormat(format).pattern }))
  return tags === undefined || tags.length === 0 ? formats : [...formats, { type: 'string', enum: tags }]
}

const objectSchema = (rule: Rule): JsonObject => {
  const { properties = {}, additionalProperties, exactlyOne = [], excludes = {} } = rule
  const conflicts = Object.entries(excludes).flatMap(([name, others]) => others.map(other => ({ not: { required: [name, other] } })))
  const members = Object.fromEntries(Object.entries(properties).map(([name, member]) => [name, jsonSchemaOf(member)]))
  return {
    type: 'object',
    ...pick(rule, ['required', 'maxProperties']),
    ...(rule.properties && { properties: members }),
    ...(additionalProperties !== undefined && {
      additionalProperties: typeof additionalProperties === 'boolean' ? additionalProperties : jsonSchemaOf(additionalProperties),
    }),
    ...(exactlyOne.length > 0 && { oneOf: exactlyOne.map(name => ({ required: [name] })) }),
    ...(conflicts.length > 0 && { allOf: conflicts }),
  }
}

const describeLimits = ({ ordered = {}, maxTotal }: Rule): string =>
  [
    ...Object.entries(ordered).map(([low, high]) => `The number ${low} must not exceed the number ${high}.`),
    ...(maxTotal === undefined ? [] : [`At most ${maxTotal.limit} values in ${maxTotal.of.join(' and ')} together.`]),
  ].join(' ')

const pick = (rule: Rule, keywords: readonly (keyof Rule)[]): JsonObject =>
  Object.fromEntries(Object.entries(rule).filter(([keyword]) => keywords.includes(keyword as keyof Rule))) // names of its own
