import { createRequire } from 'node:module'
import { Ajv } from 'ajv'
import type { AnySchemaObject, ValidateFunction } from 'ajv'
import fc from 'fast-check'
import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { check, shippedMethods } from './shipped-table.ts'
import { officialMethodNames, officialParams } from './official-calls.ts'

interface OpenRpcMethod {
  readonly name: string
  readonly params: readonly { readonly name: string; readonly required: boolean; readonly schema: AnySchemaObject }[]
  readonly 'x-credits': number
}

interface OpenRpcDocument {
  readonly info: { readonly title: string; readonly version: string }
  readonly methods: readonly OpenRpcMethod[]
}

const described = shippedMethods.names.map((name, i) => ({ name, credits: i, params: [] }))
const withEvents = described.map(method =>
  method.name === 'eth_subscribe' ? { ...method, eventCredits: { newHeads: 10, logs: 20 } } : method,
)
const document: OpenRpcDocument = JSON.parse(Buffer.from(shippedMethods.toOpenRpc(withEvents)).toString())

const openRpcMetaSchema: AnySchemaObject = createRequire(import.meta.url)('@open-rpc/meta-schema').default

/** The OpenRPC meta-schema refers to a copy of that of JSON Schema, which Ajv has, and to one of its definitions. */
const validateDocument = (): ValidateFunction => {
  const text = JSON.stringify({ ...openRpcMetaSchema, $schema: undefined })
    .replaceAll(
      '"https://meta.json-schema.tools/#/definitions/JSONSchemaObject/properties/$ref"',
      '"http://json-schema.org/draft-07/schema#/properties/$ref"',
    )
    .replaceAll('"https://meta.json-schema.tools"', '"http://json-schema.org/draft-07/schema"')
  return new Ajv({ strict: false, validateFormats: false }).compile(JSON.parse(text))
}

t.test('the document of all methods is valid OpenRPC, and so are the schemas in it', async t => {
  const validate = validateDocument()
  t.ok(validate(document), JSON.stringify(validate.errors))
  t.notOk(validate({ ...document, methods: [{ name: 5 }] }), 'the meta-schema can refuse')
  t.same(document.info, { title: 'devnet (chain 31337), by Tollgate', version: '1.2.3' })
  t.same(
    document.methods.map(({ name, 'x-credits': credits }) => ({ name, credits, params: [] })),
    described,
  )
  t.match(
    document.methods.find(({ name }) => name === 'eth_subscribe'),
    { 'x-event-credits': { newHeads: 10, logs: 20 } },
  )
  for (const { name, params } of document.methods) {
    t.equal(new Set(params.map(param => param.name)).size, params.length, `${name}: names of parameters are unique`)
  }
})

t.test('the document holds a method without rules, and one that is not in the table', async t => {
  const { methods } = JSON.parse(Buffer.from(shippedMethods.toOpenRpc([{ name: 'a_b', credits: 1, params: [] }])).toString())
  t.same(methods, [{ name: 'a_b', paramStructure: 'by-position', params: [], result: { name: 'result', schema: {} }, 'x-credits': 1 }])
})

const ajv = new Ajv({ strict: false })

/** Does the document allow the call? */
const allows = new Map(
  document.methods.map(({ name, params }) => {
    const validators = params.map(({ schema, required }) => ({ required, validate: ajv.compile(schema) }))
    const isAllowed = (values: readonly Json[]): boolean =>
      values.length <= params.length &&
      validators.every(({ required, validate }, i) => (values[i] === undefined ? !required : validate(values[i])))
    return [name, isAllowed] as const
  }),
)

/** Members that are null mean the same as missing members; the document shows one of the two ways. */
const withoutNulls = (value: Json): Json =>
  JSON.parse(JSON.stringify(value, (key, each) => (each === null && !/^\d+$/.test(key) ? undefined : each)))

/** Calls that the specification allows. */
const officialCalls = officialMethodNames.flatMap(name => fc.sample(officialParams(name), 5).map(params => ({ name, params })))

t.test('every call that the specification allows is allowed by the document', async t => {
  const calls = officialCalls.filter(({ name }) => allows.has(name))
  t.ok(calls.length > 300)
  for (const { name, params } of calls) t.ok(allows.get(name)?.(params.map(withoutNulls)), `${name} ${JSON.stringify(params)}`)
})

t.test('what the document allows passes the rules, except for limits that only its descriptions name', async t => {
  let allowed = 0
  for (const [name, isAllowed] of allows) {
    for (const { params } of officialCalls) {
      if (!isAllowed(params)) continue
      allowed += 1
      const checked = check(name, params)
      if (typeof checked === 'string' && !/has "(from|to)Block"/.test(checked)) t.fail(`${name} ${JSON.stringify(params)}: ${checked}`)
    }
  }
  t.ok(allowed > 1000, `${allowed} calls of other methods and its own were allowed`)
})
