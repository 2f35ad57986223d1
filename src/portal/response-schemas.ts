import type { JsonSchema } from '../config/schema.ts'
import { changeAuthors } from '../services/accounts/change-history.ts'

// What the schemas of responses are made of.

export const text = { type: 'string' } as const
export const time = { type: 'string', format: 'date-time' } as const
export const textOrNull = { type: ['string', 'null'] } as const
export const timeOrNull = { type: ['string', 'null'], format: 'date-time' } as const
export const count = { type: 'integer', minimum: 0 } as const
export const countOrNull = { type: ['integer', 'null'], minimum: 0 } as const
export const number = { type: 'number', minimum: 0 } as const
export const numberOrNull = { type: ['number', 'null'], minimum: 0 } as const
export const flag = { type: 'boolean' } as const
export const failedByGateway = { ...count, description: 'Of `failed`: by the fault of nodes or of the gateway.' } as const
export const listOf = <const Items extends JsonSchema>(items: Items) => ({ type: 'array', items }) as const

/** Without other members. */
type ClosedObject<Properties, Required> = {
  readonly type: 'object'
  readonly properties: Properties
  readonly required: readonly Required[]
  readonly additionalProperties: false
}

/** An object that may lack the members that are not required. */
export const partialObject = <const Properties extends Readonly<Record<string, JsonSchema>>, const Required extends keyof Properties>(
  properties: Properties,
  required: readonly Required[],
): ClosedObject<Properties, Required> => ({ type: 'object', properties, required, additionalProperties: false })

/** An object that has all these members and no others. */
export const object = <const Properties extends Readonly<Record<string, JsonSchema>>>(properties: Properties) =>
  partialObject(properties, Object.keys(properties) as (keyof Properties)[]) // of these properties

/** The type of what a schema describes that is made of these parts. */
export type JsonOf<Schema> = Schema extends { readonly oneOf: readonly (infer Each)[] }
  ? JsonOf<Each>
  : Schema extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : Schema extends { readonly type: infer Type }
      ? JsonOfType<Schema, Type extends readonly (infer Each)[] ? Each : Type>
      : unknown

type JsonOfType<Schema, Type> = Type extends keyof PlainTypes
  ? PlainTypes[Type]
  : Schema extends { readonly items: infer Items }
    ? readonly JsonOf<Items>[]
    : Schema extends { readonly properties: infer Properties; readonly required: readonly (infer Required)[] }
      ? { readonly [Name in keyof Properties & Required]: JsonOf<Properties[Name]> } & {
          readonly [Name in Exclude<keyof Properties, Required>]?: JsonOf<Properties[Name]>
        }
      : unknown

interface PlainTypes {
  readonly string: string
  readonly integer: number
  readonly number: number
  readonly boolean: boolean
  readonly null: null
}

/** Who has made a change. */
export const authorSchema = object({ kind: { type: 'string', enum: changeAuthors }, name: text })

export const accountRefSchema = object({ id: text, name: text })

const milliseconds = { ...numberOrNull, description: 'Of successful calls, in ms; null without any.' } as const

export const latencyProperties = { p50Ms: milliseconds, p95Ms: milliseconds, p99Ms: milliseconds } as const

/** A schema of the document, by its name there. */
export const schemaRef = (name: string): JsonSchema => ({ $ref: `#/components/schemas/${name}` })

export const errorSchema = object({
  error: {
    type: 'object',
    properties: { code: text, message: text, field: { type: 'string', description: 'The member of the request that is wrong.' } },
    required: ['code', 'message'],
    additionalProperties: false,
  },
})

/** One day of an account. */
export const balanceProperties = {
  day: { type: 'string', format: 'date' },
  limit: { ...countOrNull, description: 'Credits of the day; null where gateway.yaml does not have the plan of the account.' },
  used: { ...count, description: 'Credits that counted calls have cost.' },
  held: { ...count, description: 'Credits that gateways have leased, and not used yet.' },
  forfeited: { ...count, description: 'Credits that gateways had leased when they died.' },
  left: { ...countOrNull, description: 'Credits that are neither used, held nor forfeited; null without a limit.' },
  resetAt: time,
} as const

export const balanceSchema = object(balanceProperties)
