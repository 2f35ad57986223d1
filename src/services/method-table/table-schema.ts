import type { ErrorObject } from 'ajv'
import { errorCategories } from '../../plugin/reply.ts'
import { hexFormatPattern } from './rule-keywords.ts'
import { resultKinds } from './index.ts'
import { createAjv } from './compile-rule.ts'
import { issueOfAjvError } from './issue-messages.ts'
import type { Issue } from './table-types.ts'
import { formatSuggestion, renamedKey } from '../../util/did-you-mean.ts'

/** The issues of a methods file, or of one entry of it, by its schema. */
export const schemaIssues = (data: unknown, part: 'table' | 'method'): readonly Issue[] => {
  const validate = ajv.getSchema(part === 'table' ? 'table' : 'table#/definitions/method') // compiled on first use
  if (validate === undefined) throw new Error(`no schema of a ${part}`)
  return validate(data) ? [] : (validate.errors ?? []).map(issueOfSchemaError)
}

const issueOfSchemaError = (error: ErrorObject): Issue => {
  const hint = formatSuggestion(renamedKeyOf(error))
  return { ...issueOfAjvError(error), ...(hint !== undefined && { hint }) }
}

/** The current name, where the error is about the old name of a key or a value. */
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
const closedObject = <P extends object>(properties: P) => ({ type: 'object', additionalProperties: false, properties })
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

/** What a keyword means, for the reference. */
const described = <S extends object>(description: string, schema: S) => ({ ...schema, description })

const hexLabel = 'a format such as "20 bytes", "up to 32 bytes", "bytes" or "number up to 64 bits"'

const ruleKeywords = {
  ref: described('A rule of `types`; keywords beside `ref` are added to that rule or replace its own.', textSchema),
  title: described('Name of the parameter in error messages; only for a position.', textSchema),
  type: described('JSON type, or a list of types.', oneOrMany('one of string, integer, number, boolean, array, object, null', typePattern)),
  label: described('Name of the value in error messages: `must be an address`.', textSchema),
  hex: described(
    'Format of a hex string with 0x, or a list of formats that are tried in order. `20 bytes`: exactly 20 bytes. `up to 32 bytes`: at most ' +
      '32 bytes, half bytes included. `bytes`: any number of whole bytes. `number up to 64 bits`: a number below 2^64, of at most 64 digits with leading zeros. ' +
      'Upper case is accepted; values are passed on in lower case, numbers without leading zeros.',
    oneOrMany(hexLabel, hexFormatPattern),
  ),
  tags: described('Block tags that are accepted beside `hex`; the option `tags` of `params` removes some on one network.', namesSchema),
  default: described('Value of a missing parameter or property, unless `excludes` forbids it.', {}),
  enum: described('Accepted values.', { type: 'array', minItems: 1, items: { type: ['string', 'number', 'boolean'] } }),
  items: described('Rule of each element of an array.', ruleOf('object')),
  properties: described(
    'Rules of the properties of an object, by name; a property that is not `required` may be missing or null.',
    mapOf(ruleOf('object')),
  ),
  additionalProperties: described('Rule of properties that are not listed, or whether they are accepted.', ruleOf(['object', 'boolean'])),
  required: described('Properties that must be present.', namesSchema),
  alias: described(
    'Other spellings of properties: `spelling: name`. Both spellings at once are rejected; the name is passed on.',
    mapOf(textSchema),
  ),
  excludes: described('Properties that must not be present beside a property: `name: [names]`.', mapOf(namesSchema)),
  exactlyOne: described('Properties of which exactly one must be present.', namesSchema),
  ordered: described(
    'Pairs of properties, `lower: higher`: when both are numbers, the lower must not exceed the higher.',
    mapOf(textSchema),
  ),
  maxTotal: described('Maximum number of values of several properties together, elements of lists counted: `{ of: [names], limit }`.', {
    ...closedObject({ of: namesSchema, limit: limitSchema }),
    required: ['of', 'limit'],
  }),
  minimum: described('Minimum of a number.', { type: 'number' }),
  maximum: described('Maximum of a number.', { type: 'number' }),
  minLength: described('Minimum length of a string, in characters.', countSchema),
  maxLength: described('Maximum length of a string, in characters.', countSchema),
  minItems: described('Minimum number of elements of an array.', countSchema),
  maxItems: described('Maximum number of elements of an array.', countSchema),
  maxProperties: described('Maximum number of properties of an object.', countSchema),
}

const positionKeywords = {
  title: described('Name of the parameter in error messages; required.', textSchema),
  optional: described(
    'Whether the parameter may be missing or null. `unless strict`: it may, unless `params` has `strict: true`. A parameter with `default` ' +
      'may be missing too.',
    { type: ['boolean', 'string'], enum: [true, false, 'unless strict'] },
  ),
}

const position = {
  label: 'the rule of a position',
  ...closedObject({ ...ruleKeywords, ...positionKeywords }),
  required: ['title'],
}

const answer = {
  label: 'an answer',
  ...closedObject({ from: { type: 'string', enum: ['chainId', 'networkId', 'clientVersion'] }, value: {} }),
  exactlyOne: ['from', 'value'],
}

const defaultableFields = {
  cost: described('Credits of one call.', countSchema),
  cache: described(
    'How long a result may be cached. `never`: not at all. `latest`: until there is a newer block. `block`: as long as the block that the ' +
      'parameters name stays the same. `mined`: as long as the block that the result names stays the same.',
    { type: 'string', enum: ['never', 'latest', 'block', 'mined'] },
  ),
  class: described(
    'Methods of one class share a circuit breaker per upstream, so that failing heavy calls do not stop light calls.',
    textSchema,
  ),
  idempotent: described('`false`: never sent again when it is unknown whether the node has processed the request.', booleanSchema),
}

const rule = { label: 'a rule', additionalProperties: false, properties: ruleKeywords }

const method = {
  ...closedObject({
    params: described('One rule for each position, in order. Without `params`, parameters are passed on unchecked.', {
      type: 'array',
      items: position,
    }),
    ...defaultableFields,
    offered: described(
      '`false`: offered only by networks that name the method in the option `offer` of `params`. For methods that sign, trace, or read the ' +
        'pool of a node.',
      booleanSchema,
    ),
    retryable: described(
      '`false`: sent to one node, once; neither retried on another node nor hedged. For methods that use the keys of a node, or change the ' +
        'node itself.',
      booleanSchema,
    ),
    answer: described(
      'The gateway answers the method itself: `from` chainId, networkId or clientVersion, or `value` with any value.',
      answer,
    ),
    maxResults: described(
      'Maximum number of elements of the result; above it the call fails with `query returned more than 10000 results`.',
      limitSchema,
    ),
    maxTime: described('Maximum duration of a call; above it the call fails with `query timeout exceeded`.', {
      type: 'string',
      label: 'a time such as 500ms, 10s or 1m',
      pattern: '^[1-9]\\d*(ms|s|m)$',
    }),
    result: described(
      '`word`: a word of 32 bytes, padded on the left when the node returns less. `blockNumber`: the number of the newest block; the number ' +
        'reported to callers never decreases. `block`, `transaction`, `receipt`, `receipts`, `logs`: what the parameters name, and nothing ' +
        'else: a result of another block or transaction, or logs outside the blocks and addresses of the filter, is a failure of the upstream.',
      { type: 'string', enum: [...resultKinds] },
    ),
    reports: described(
      'Where the result says which mined block it is about: `block` in its `number` and `hash`; `transaction`, as in a receipt, in its ' +
        '`blockNumber` and `blockHash`; `logs` in those of its last element. Callers who are given the result are never answered from before ' +
        'that block.',
      { type: 'string', enum: ['block', 'transaction', 'logs'] },
    ),
    blockParam: described(
      'Position, from 0, of the parameter that names the block or is a filter. Without `blockParam` a result never counts as finalized, and ' +
        'no upstream is deprioritized because it lacks the block.',
      countSchema,
    ),
    splittable: described(
      '`true`: params[0] is a filter and the result is logs, so that the call can be sent in chunks to an upstream with `maxRange` or `maxParams`.',
      booleanSchema,
    ),
    stateful: described('`true`: answered by a plugin such as `subscriptions`, and never sent to an upstream.', booleanSchema),
    eventCosts: described('Credits of a subscription, by its kind, for a block with events.', mapOf(countSchema)),
  }),
  label: 'a method',
}

/** Shorter pieces would match by accident. */
const messagePiece = oneOrMany('a piece of a message with at least three characters in a row other than `*`', '[^*]{3}')

const errorPattern = {
  ...closedObject({
    category: described('What the error means; the comments beside `errors` in ethereum.yaml say what follows from each category.', {
      type: 'string',
      enum: [...errorCategories],
    }),
    code: described('Code of the error, or a list of codes; any code if absent.', {
      type: ['integer', 'array'],
      label: 'a whole number',
      minItems: 1,
      items: { type: 'integer' },
    }),
    message: described(
      'A piece of the message in any case, or a list of pieces; `*` matches any text. Any message if absent.',
      messagePiece,
    ),
    methods: described('Methods that the entry applies to; all if absent.', namesSchema),
  }),
  type: 'object',
  required: ['category'],
  label: 'an error pattern',
}

/** A file of configs/methods/. */
const tableSchema = {
  $id: 'table',
  definitions: { rule, method },
  ...closedObject({
    defaults: described('Fields of methods that do not set them.', {
      ...closedObject(defaultableFields),
      required: Object.keys(defaultableFields),
    }),
    types: described('Rules that others refer to with `ref`, by name.', mapOf(ruleOf('object'))),
    methods: described('The methods that a network offers, by name.', mapOf({ $ref: '#/definitions/method' })),
    heavyClasses: described(
      'Classes whose calls callers can make as heavy as they like. Such a call that a node does not finish in time is charged, if the node ' +
        'answered another call of the class meanwhile, as fast as usual.',
      namesSchema,
    ),
    hedgedClasses: described('Classes whose late calls are hedged, if idempotent. Without it: all but `heavyClasses`.', namesSchema),
    errors: described('What errors of nodes mean; the first entry that matches counts.', { type: 'array', items: errorPattern }),
  }),
  required: ['defaults', 'methods'],
  label: 'a method table',
}

/** The keywords of each part of a method table, for the reference. */
export const methodTableKeywords = {
  table: tableSchema.properties,
  method: method.properties,
  position: positionKeywords,
  rule: ruleKeywords,
  error: errorPattern.properties,
}

const ajv = createAjv(true).addSchema(tableSchema)
