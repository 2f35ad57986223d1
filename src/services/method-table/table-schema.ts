import type { ErrorObject } from 'ajv'
import { errorCategories } from '../../plugin/reply.ts'
import { hexFormatPattern } from './hex-format.ts'
import { createAjv } from './compile-rule.ts'
import { issueOfAjvError } from './issue-messages.ts'
import type { Issue } from './issue-messages.ts'
import { formatSuggestion } from '../../util/did-you-mean.ts'
import { renamedKey } from '../../util/renamed-keys.ts'

/** What is wrong with the shape of a methods file, or of one entry of it. */
export const schemaIssues = (data: unknown, part: 'table' | 'method'): readonly Issue[] => {
  const validate = ajv.getSchema(part === 'table' ? 'table' : 'table#/definitions/method') // compiled on first use
  if (validate === undefined) throw new Error(`the shape of a ${part} cannot be found`)
  return validate(data) ? [] : (validate.errors ?? []).map(issueOfSchemaError)
}

const issueOfSchemaError = (error: ErrorObject): Issue => {
  const hint = formatSuggestion(renamedKeyOf(error))
  return { ...issueOfAjvError(error), ...(hint !== undefined && { hint }) }
}

/** The name of today, where the error is about the old name of a key or a value. */
const renamedKeyOf = ({ keyword, params, parentSchema, data }: ErrorObject): string | undefined => {
  if (keyword === 'additionalProperties')
    return renamedKey(String(params['additionalProperty']), Object.keys(parentSchema?.['properties'] ?? {}))
  return keyword === 'enum' ? renamedKey(String(data), params['allowedValues']) : undefined
}

const textSchema = { type: 'string', minLength: 1 }
const booleanSchema = { type: 'boolean' }
const countSchema = { type: 'integer', minimum: 0 }
const limitSchema = { type: 'integer', minimum: 1 }
const namesSchema = { type: 'array', items: textSchema, minItems: 1 }
const mapOf = (values: object) => ({ type: 'object', additionalProperties: values })
const closedObject = (properties: object) => ({ type: 'object', additionalProperties: false, properties })
const oneOrMany = (label: string, pattern: string) => ({
  type: ['string', 'array'],
  label,
  pattern,
  minItems: 1,
  items: { type: 'string', label, pattern },
})

/** The definition says nothing about the type, which may also be boolean in one place. */
const ruleOf = (type: string | readonly string[]) => ({ type, label: 'a rule', $ref: '#/definitions/rule' })

const typePattern = '^(string|integer|number|boolean|array|object|null)$'

const ruleKeywords = {
  ref: textSchema,
  title: textSchema,
  type: oneOrMany('one of string, integer, number, boolean, array, object, null', typePattern),
  label: textSchema,
  hex: oneOrMany('a form such as "20 bytes", "up to 32 bytes", "bytes" or "number up to 64 bits"', hexFormatPattern),
  tags: namesSchema,
  default: {},
  enum: { type: 'array', minItems: 1, items: { type: ['string', 'number', 'boolean'] } },
  items: ruleOf('object'),
  properties: mapOf(ruleOf('object')),
  additionalProperties: ruleOf(['object', 'boolean']),
  required: namesSchema,
  alias: mapOf(textSchema),
  excludes: mapOf(namesSchema),
  exactlyOne: namesSchema,
  ordered: mapOf(textSchema),
  maxTotal: { ...closedObject({ of: namesSchema, limit: limitSchema }), required: ['of', 'limit'] },
  minimum: { type: 'number' },
  maximum: { type: 'number' },
  minLength: countSchema,
  maxLength: countSchema,
  minItems: countSchema,
  maxItems: countSchema,
  maxProperties: countSchema,
}

const position = {
  label: 'the rule of a position',
  ...closedObject({ ...ruleKeywords, optional: { type: ['boolean', 'string'], enum: [true, false, 'unless strict'] } }),
  required: ['title'],
}

const answer = {
  label: 'an answer',
  ...closedObject({ from: { type: 'string', enum: ['chainId', 'networkId', 'clientVersion'] }, value: {} }),
  exactlyOne: ['from', 'value'],
}

const defaultableFields = {
  cost: countSchema,
  cache: { type: 'string', enum: ['never', 'latest', 'block', 'mined'] },
  class: textSchema,
  idempotent: booleanSchema,
}

const rule = { label: 'a rule', additionalProperties: false, properties: ruleKeywords }

const method = {
  ...closedObject({
    params: { type: 'array', items: position },
    ...defaultableFields,
    answer,
    maxResults: limitSchema,
    maxTime: { type: 'string', label: 'a time such as 500ms, 10s or 1m', pattern: '^[1-9]\\d*(ms|s|m)$' },
    result: { type: 'string', enum: ['word', 'blockNumber'] },
    blockParam: countSchema,
    splittable: booleanSchema,
  }),
  label: 'a method',
}

/** Shorter pieces would fit by accident. */
const messagePiece = oneOrMany('a piece of a message, at least three characters on end beside `*`', '[^*]{3}')

const errorPattern = {
  ...closedObject({
    category: { type: 'string', enum: [...errorCategories] },
    code: { type: ['integer', 'array'], label: 'a whole number', minItems: 1, items: { type: 'integer' } },
    message: messagePiece,
    methods: namesSchema,
  }),
  type: 'object',
  required: ['category'],
  label: 'an error pattern',
}

const table = {
  $id: 'table',
  definitions: { rule, method },
  ...closedObject({
    defaults: { ...closedObject(defaultableFields), required: Object.keys(defaultableFields) },
    types: mapOf(ruleOf('object')),
    methods: mapOf({ $ref: '#/definitions/method' }),
    errors: { type: 'array', items: errorPattern },
  }),
  required: ['defaults', 'methods'],
  label: 'a method table',
}

const ajv = createAjv(true).addSchema(table)
