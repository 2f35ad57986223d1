import type { Ajv } from 'ajv'
import { errorCategories } from '../../plugin/error-table.ts'
import { createAjv } from './check-params.ts'
import { resultKinds } from './index.ts'
import { issueOfAjvError } from './issue-messages.ts'
import {
  textSchema,
  booleanSchema,
  countSchema,
  limitSchema,
  namesSchema,
  mapOf,
  closedObject,
  oneOrMany,
  ruleOf,
  described,
  ruleKeywords,
  positionKeywords,
} from './rule-keywords.ts'
import type { Issue } from './table-types.ts'

/** Created when a table is checked: starts with the tables that the build has checked need none. */
let ajv: Ajv | undefined

/** The issues of a methods file, or of one entry of it, by its schema. */
export const schemaIssues = (data: unknown, part: 'table' | 'method'): readonly Issue[] => {
  ajv ??= createAjv({ allErrors: true }).addSchema(methodTableSchema)
  const validate = ajv.getSchema(part === 'table' ? 'table' : 'table#/definitions/method') // compiled on first use
  if (validate === undefined) throw new Error(`no schema of a ${part}`)
  return validate(data) ? [] : (validate.errors ?? []).map(issueOfAjvError)
}

const position = {
  label: 'the rule of a position',
  ...closedObject({ ...ruleKeywords, ...positionKeywords }),
  required: ['title'],
}

const answer = {
  label: 'an answer',
  ...closedObject({ from: { type: 'string', enum: ['chainId', 'networkId', 'clientVersion', 'openRpc'] }, value: {} }),
  exactlyOne: ['from', 'value'],
}

const durationSchema = { type: 'string', label: 'a time such as 500ms, 10s or 1m', pattern: '^[1-9]\\d*(ms|s|m)$' }

const defaultableFields = {
  cost: described('Credits of one call.', countSchema),
  cache: described(
    'How long a result may be cached. `never`: not at all. `latest`: until there is a newer block, for one poll interval at most. `block`: as long as the block that the ' +
      'parameters name stays the same. `mined`: as long as the block that the result names stays the same.',
    { type: 'string', enum: ['never', 'latest', 'block', 'mined'] },
  ),
  class: described('Methods of one class share a circuit breaker per upstream.', textSchema),
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
    offered: described('`false`: offered only by networks that name the method in the option `offer` of `params`.', booleanSchema),
    retryable: described(
      '`false`: sent to one node, once; neither retried nor hedged. For methods that use the keys of a node, or change the node.',
      booleanSchema,
    ),
    readsState: described(
      '`true`: the result depends on the state of a block, so that `archive` and `history` of upstreams decide which is requested.',
      booleanSchema,
    ),
    answer: described(
      'The gateway answers the method itself: `from` chainId, networkId, clientVersion or openRpc, or `value` with any value.',
      answer,
    ),
    maxResults: described(
      'Maximum number of elements of the result; above it the call fails with `query returned more than 10000 results`.',
      limitSchema,
    ),
    maxBlocks: described(
      'Maximum number of blocks from `fromBlock` to `toBlock` of the filter at `blockParam`. A wider query fails with -32602, and nodes get both as numbers. Not for methods with `splittable: true`.',
      limitSchema,
    ),
    maxTime: described('Maximum duration of a call; above it the call fails with `query timeout exceeded`.', durationSchema),
    maxWait: described(
      'For how long a node may wait before it answers, as for a block with the transaction of the call. The `timeout` of `upstream` begins after it. The calls count apart in the `concurrency` of an upstream.',
      durationSchema,
    ),
    waitParam: described(
      'Position, from 0, of the parameter in which callers give the time of `maxWait`, in ms. Without it, and where they give none, it is `maxWait`.',
      countSchema,
    ),
    result: described(
      '`word`: a word of 32 bytes, padded on the left when the node returns less. `blockNumber`: the number of the newest block; the number ' +
        'reported to callers never decreases. `block`, `transaction`, `receipt`, `receipts`, `logs`: what the parameters name. The others are types, of which `data` is hex of any length, and `OrNull` allows `null`. Any other result is a failure of the upstream.',
      { type: 'string', enum: [...resultKinds] },
    ),
    reports: described(
      'Where the result says which mined block it is about: `block` in its `number` and `hash`; `transaction`, as in a receipt, in its ' +
        '`blockNumber` and `blockHash`; `logs` in those of its last element. Callers who are given the result are never answered from before ' +
        'that block.',
      { type: 'string', enum: ['block', 'transaction', 'logs'] },
    ),
    blockParam: described(
      'Position, from 0, of the parameter that names the block or is a filter; 0 for a method with `maxBlocks` or `splittable: true`. Without ' +
        '`blockParam` a result never counts as finalized, and no upstream is deprioritized because it lacks the block.',
      countSchema,
    ),
    splittable: described(
      '`true`: params[0] is a filter and the result is logs, so that the call can be sent in chunks to an upstream with `maxRange` or `maxParams`.',
      booleanSchema,
    ),
    stateful: described('`true`: answered by a plugin such as `subscriptions`, and never sent to an upstream.', booleanSchema),
    eventCosts: described('Credits of a subscription, by its kind, for each KiB of messages that it is sent.', mapOf(countSchema)),
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
export const methodTableSchema = {
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
  table: methodTableSchema.properties,
  method: method.properties,
  position: positionKeywords,
  rule: ruleKeywords,
  error: errorPattern.properties,
}
