import type { JsonSchema } from '../config/schema.ts'

// What the schemas of responses are made of.

export const text = { type: 'string' }
export const time = { type: 'string', format: 'date-time' }
export const textOrNull = { type: ['string', 'null'] }
export const timeOrNull = { type: ['string', 'null'], format: 'date-time' }
export const count = { type: 'integer', minimum: 0 }
export const countOrNull = { type: ['integer', 'null'], minimum: 0 }
export const number = { type: 'number', minimum: 0 }
export const numberOrNull = { type: ['number', 'null'], minimum: 0 }
export const flag = { type: 'boolean' }
export const listOf = (items: JsonSchema) => ({ type: 'array', items })

/** An object that has all these members and no others. */
export const object = (properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
})

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
export const balanceSchema = object({
  day: { type: 'string', format: 'date' },
  limit: countOrNull,
  used: count,
  held: count,
  forfeited: count,
  left: countOrNull,
  resetAt: time,
})
