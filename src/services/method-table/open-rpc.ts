import { jsonSchemaOf } from './json-schema.ts'
import type { JsonSchema } from './json-schema.ts'
import type { MethodDescription, ResultKind } from './index.ts'
import type { CompiledMethod, NetworkIdentity, ResolvedPosition } from './table-types.ts'

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

/** `x-credits`: what a call costs. */
const methodObject = ({ name, credits }: MethodDescription, compiled: CompiledMethod | undefined): JsonSchema => ({
  name,
  paramStructure: 'by-position',
  params: compiled?.positions?.map(contentDescriptor) ?? [],
  result: { name: 'result', schema: resultSchema(compiled?.settings.result) },
  'x-credits': credits,
})

const contentDescriptor = ({ title, optional, rule }: ResolvedPosition): JsonSchema => ({
  name: title,
  required: optional === false,
  schema: jsonSchemaOf(rule),
})

const objectOrNull = { anyOf: [{ type: 'object' }, { type: 'null' }] }

const resultSchemas: Readonly<Record<ResultKind, JsonSchema>> = {
  word: { type: 'string', pattern: '^0x[0-9a-f]{64}$' },
  blockNumber: { type: 'string', pattern: '^0x(0|[1-9a-f][0-9a-f]*)$' },
  block: objectOrNull,
  transaction: objectOrNull,
  receipt: objectOrNull,
  receipts: { anyOf: [{ type: 'array', items: { type: 'object' } }, { type: 'null' }] },
  logs: { type: 'array', items: { type: 'object' } },
}

/** Any value for a result that the table does not describe. */
const resultSchema = (kind: ResultKind | undefined): JsonSchema => (kind === undefined ? {} : resultSchemas[kind])
