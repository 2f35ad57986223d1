import { meanings } from '../../reply.ts'
import { formNames } from './hex.ts'
import { newAjv } from './rules.ts'
import { explain } from './sentence.ts'
import type { Complaint } from './sentence.ts'

/** What is wrong with the shape of a methods file, or of one entry of it. */
export const shapeComplaints = (data: unknown, part: 'table' | 'method'): readonly Complaint[] => {
  const validate = ajv.getSchema(part === 'table' ? 'table' : 'table#/definitions/method') // compiled on first use
  if (validate === undefined) throw new Error(`the shape of a ${part} cannot be found`)
  return validate(data) ? [] : (validate.errors ?? []).map(explain)
}

const text = { type: 'string', minLength: 1 }
const flag = { type: 'boolean' }
const count = { type: 'integer', minimum: 0 }
const limit = { type: 'integer', minimum: 1 }
const names = { type: 'array', items: text, minItems: 1 }
const mapOf = (values: object) => ({ type: 'object', additionalProperties: values })
const closed = (properties: object) => ({ type: 'object', additionalProperties: false, properties })
const either = (called: string, pattern: string) => ({
  type: ['string', 'array'],
  called,
  pattern,
  minItems: 1,
  items: { type: 'string', called, pattern },
})

/** The definition says nothing about the type, which may also be boolean in one place. */
const ruleOf = (type: string | readonly string[]) => ({ type, called: 'a rule', $ref: '#/definitions/rule' })

const types = '^(string|integer|number|boolean|array|object|null)$'

const ruleMembers = {
  is: text,
  title: text,
  type: either('one of string, integer, number, boolean, array, object, null', types),
  called: text,
  hex: either('a form such as "20 bytes", "up to 32 bytes", "bytes" or "number up to 64 bits"', formNames),
  tags: names,
  fill: {},
  enum: { type: 'array', minItems: 1, items: { type: ['string', 'number', 'boolean'] } },
  items: ruleOf('object'),
  properties: mapOf(ruleOf('object')),
  additionalProperties: ruleOf(['object', 'boolean']),
  required: names,
  alias: mapOf(text),
  excludes: mapOf(names),
  exactlyOne: names,
  notAbove: mapOf(text),
  maxTotal: { ...closed({ of: names, limit }), required: ['of', 'limit'] },
  minimum: { type: 'number' },
  maximum: { type: 'number' },
  minLength: count,
  maxLength: count,
  minItems: count,
  maxItems: count,
  maxProperties: count,
}

const position = {
  called: 'the rule of a position',
  ...closed({ ...ruleMembers, optional: { type: ['boolean', 'string'], enum: [true, false, 'unless strict'] } }),
  required: ['title'],
}

const answer = {
  called: 'an answer',
  ...closed({ is: { type: 'string', enum: ['chainId', 'networkId', 'clientVersion'] }, value: {} }),
  exactlyOne: ['is', 'value'],
}

const common = {
  cost: count,
  keep: { type: 'string', enum: ['never', 'head', 'block', 'found'] },
  class: text,
  resend: flag,
}

const rule = { called: 'a rule', additionalProperties: false, properties: ruleMembers }

const method = {
  ...closed({
    params: { type: 'array', items: position },
    ...common,
    answer,
    maxResults: limit,
    maxTime: { type: 'string', called: 'a time such as 500ms, 10s or 1m', pattern: '^[1-9]\\d*(ms|s|m)$' },
    word: flag,
    height: flag,
    at: count,
    split: flag,
  }),
  called: 'a method',
}

/** Shorter pieces would fit by accident. */
const piece = either('a piece of a message, at least three characters on end beside `*`', '[^*]{3}')

const saying = {
  ...closed({
    means: { type: 'string', enum: [...meanings] },
    code: { type: ['integer', 'array'], called: 'a whole number', minItems: 1, items: { type: 'integer' } },
    message: piece,
    methods: names,
  }),
  type: 'object',
  required: ['means'],
  called: 'what an error means',
}

const table = {
  $id: 'table',
  definitions: { rule, method },
  ...closed({
    defaults: { ...closed(common), required: Object.keys(common) },
    types: mapOf(ruleOf('object')),
    methods: mapOf({ $ref: '#/definitions/method' }),
    errors: { type: 'array', items: saying },
  }),
  required: ['defaults', 'methods'],
  called: 'a method table',
}

const ajv = newAjv(true).addSchema(table)
