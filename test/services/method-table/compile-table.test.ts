import fc from 'fast-check'
import t from '../../support/tap.ts'
import { resultKinds } from '../../../src/services/method-table/index.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { Misconfigured } from '../../../src/plugin/define-plugin.ts'
import { compileTable, openMethodTable } from '../../../src/services/method-table/compile-table.ts'
import { check, devnet, hex, shippedMethods, shippedData, shippedTable, tableOf } from './shipped-table.ts'

const address = hex(20)
const defaults = { cost: 80, cache: 'never', class: 'light', idempotent: true }

/** The issues of a table, as `path: message [hint]`. */
const issuesOf = (data: unknown): readonly string[] =>
  compileTable(data).issues.map(({ path, message, hint }) => `${path.join('/')}: ${message}${hint === undefined ? '' : ` [${hint}]`}`)

const issuesOfMethod = (method: unknown, types?: unknown): readonly string[] =>
  issuesOf({ defaults, ...(types !== undefined && { types }), methods: { m: method } })

const issuesOfRule = (rule: object): readonly string[] => issuesOfMethod({ params: [{ title: 'thing', ...rule }] })

t.test('the shipped table has no issues', async t => {
  t.same(compileTable(shippedData()).issues, [])
})

t.test('a table requires all defaults, and methods', async t => {
  t.strictSame(issuesOf(null), [': must be a method table, not null'])
  t.strictSame(issuesOf({}), [': needs "defaults"'])
  const { idempotent: _idempotent, ...partly } = defaults
  t.strictSame(issuesOf({ defaults: partly, methods: {} }), ['defaults: defaults needs "idempotent"'])
  t.strictSame(issuesOf({ defaults, methods: [] }), ['methods: methods must be an object, not an array'])
  t.strictSame(issuesOf({ defaults, method: {}, methods: {} }), ['method: method is unknown [did you mean `methods`?]'])
})

t.test('each issue of a method has its path, and one run finds all of them', async t => {
  t.strictSame(
    issuesOfMethod({
      cost: '80',
      cache: 'latests',
      class: '',
      idempotent: 1,
      maxResults: 0,
      maxTime: '10',
      result: 'number',
      splittable: 'yes',
      costs: 1,
      answer: {},
    }),
    [
      'methods/m/costs: methods.m.costs is unknown [did you mean `cost`?]',
      'methods/m/cost: methods.m.cost must be a whole number, not "80"',
      'methods/m/cache: methods.m.cache must be one of never, latest, block, mined, not "latests" [did you mean `latest`?]',
      'methods/m/class: methods.m.class has 0 characters, fewer than the 1 needed',
      'methods/m/idempotent: methods.m.idempotent must be true or false, not 1',
      'methods/m/answer: methods.m.answer must have exactly one of "from" and "value"',
      'methods/m/maxResults: methods.m.maxResults must be at least 1, not 0',
      'methods/m/maxTime: methods.m.maxTime must be a time such as 500ms, 10s or 1m, not "10"',
      `methods/m/result: methods.m.result must be one of ${resultKinds.join(', ')}, not "number"`,
      'methods/m/splittable: methods.m.splittable must be true or false, not "yes"',
    ],
  )
  t.strictSame(issuesOfMethod(null), ['methods/m: methods.m must be a method, not null'])
  t.strictSame(issuesOfMethod({ maxBlocks: 5 }), [])
  t.match(issuesOfMethod({ maxBlocks: 5, splittable: true }), [
    /^methods\/m\/maxBlocks: methods\.m\.maxBlocks is for methods without `splittable: true`/,
  ])
  t.strictSame(issuesOfMethod({ cost: -1 }), ['methods/m/cost: methods.m.cost must be at least 0, not -1'])
  t.strictSame(issuesOfMethod({ answer: { from: 'chainID' } }), [
    'methods/m/answer/from: methods.m.answer.from must be one of chainId, networkId, clientVersion, openRpc, not "chainID"' +
      ' [did you mean `chainId`?]',
  ])
})

t.test('each issue of a rule has its path', async t => {
  const at = (place: string, message: string): readonly string[] => [`methods/m/params/0${place}: methods.m.params[0]${message}`]
  t.strictSame(issuesOfMethod({ params: {} }), ['methods/m/params: methods.m.params must be an array, not an object'])
  t.strictSame(issuesOfMethod({ params: [{ type: 'string' }] }), at('', ' needs "title"'))
  t.strictSame(issuesOfRule({}), at('', ' needs "type", "hex" or "ref"'))
  t.strictSame(
    issuesOfRule({ type: 'sting' }),
    at('/type', '.type must be one of string, integer, number, boolean, array, object, null, not "sting"'),
  )
  t.strictSame(
    issuesOfRule({ hex: '20 bits' }),
    at('/hex', '.hex must be a format such as "20 bytes", "up to 32 bytes", "bytes" or "number up to 64 bits", not "20 bits"'),
  )
  t.match(issuesOfRule({ hex: '99999 bytes' }), [/hex must be a format/])
  t.strictSame(issuesOfRule({ type: 'string', pattern: '.*' }).length, 1, '`pattern` is not supported')
  t.strictSame(issuesOfRule({ type: 'string', maxItems: 4 }), at('/maxItems', '.maxItems applies only to arrays, not to string'))
  t.strictSame(issuesOfRule({ type: 'string', tags: ['a'] }), at('/tags', '.tags applies only beside "hex"; use "enum" instead'))
  t.strictSame(
    issuesOfRule({ type: 'object', properties: { from: { type: 'string' } }, required: ['form'] }),
    at('/required', '.required refers to "form", which is not one of the properties [did you mean `from`?]'),
  )
  for (const keyword of [{ alias: { a: 'b' } }, { exactlyOne: ['b'] }, { maxTotal: { of: ['b'], limit: 1 } }]) {
    t.match(issuesOfRule({ type: 'object', ...keyword }), [/refers to "b", which is not one of the properties/])
  }
  for (const keyword of [{ excludes: { a: ['b'] } }, { ordered: { a: 'b' } }]) {
    t.match(issuesOfRule({ type: 'object', ...keyword }), [/refers to "a"/, /refers to "b"/])
  }
  t.strictSame(issuesOfRule({ hex: 'bytes', default: 'x' }), at('/default', '.default must be whole bytes of hex with 0x, not "x"'))
  t.strictSame(
    issuesOfRule({ type: 'object', properties: { a: { type: 'integer', default: 'x' } } }),
    at('/properties/a/default', '.properties.a.default must be a whole number, not "x"'),
  )
  t.strictSame(
    issuesOfRule({ type: 'array', items: { type: 'string', minItems: 1 } }),
    at('/items/minItems', '.items.minItems applies only to arrays, not to string'),
  )
  t.strictSame(
    issuesOfRule({ type: 'object', additionalProperties: 5 }),
    at('/additionalProperties', '.additionalProperties must be a rule or true or false, not 5'),
  )
  t.strictSame(
    issuesOfRule({ type: 'string', optional: 'strict' }),
    at('/optional', '.optional must be one of true, false, unless strict, not "strict"'),
  )
})

t.test('types are resolved by name, and checked whether used or not', async t => {
  const used = (types: object): readonly string[] => issuesOfMethod({ params: [{ title: 'x', ref: 'adress' }] }, types)
  t.strictSame(used({ address: { hex: '20 bytes' } }), [
    'methods/m/params/0/ref: methods.m.params[0].ref refers to "adress", which is not one of the types [did you mean `address`?]',
  ])
  const circle = { a: { ref: 'b' }, b: { type: 'array', items: { ref: 'a' } } }
  t.match(used(circle), [/^types\/b\/items\/ref: .* refers to itself/])
  t.strictSame(used({ unused: { type: 'string', minimum: 1, items: {} } }), [
    'types/unused/items: types.unused.items needs "type", "hex" or "ref"',
    'types/unused/items: types.unused.items applies only to arrays, not to string',
  ])
  const inherited = { constructor: { ref: 'toString' } }
  t.match(used(inherited), [/^types\/constructor\/ref: .* "toString", which is not one of the types/])
})

t.test('a table that contains itself is an issue, not an endless loop', async t => {
  const circle: { methods?: object } = {}
  circle.methods = circle
  t.strictSame(issuesOf(circle), [': the table must not contain itself: an alias refers to a node around it'])
})

const text = fc.record({
  hex: fc.constantFrom('20 bytes', 'number', ['bytes', 'up to 3 bytes']),
  tags: fc.constant(['a']),
})
const word = fc.record(
  {
    type: fc.constant('string'),
    enum: fc.constant(['a', 'b']),
    default: fc.constantFrom('a', 'c'),
  },
  { requiredKeys: ['type'] },
)
const odd = fc.record(
  {
    type: fc.constantFrom('string', ['array', 'object'], 'null', 7),
    ref: fc.constantFrom('one', 'two', 'three'),
    minLength: fc.constantFrom(2, -1),
    items: fc.constant({}),
  },
  { requiredKeys: [] },
)
const leaf = fc.oneof({ weight: 3, arbitrary: text }, { weight: 3, arbitrary: word }, { weight: 1, arbitrary: odd })
const list = fc.record({ type: fc.constant('array'), items: leaf })
const object = fc.record(
  {
    type: fc.constantFrom('object', ['object', 'array']),
    properties: fc.record({ a: leaf, b: leaf }),
    additionalProperties: fc.oneof(fc.boolean(), leaf),
    required: fc.constantFrom(['a'], ['c']),
    alias: fc.constant({ c: 'b' }),
    ordered: fc.constant({ a: 'b' }),
  },
  { requiredKeys: ['type', 'properties'] },
)
const members = fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__'), fc.jsonValue())
const value = fc.oneof(fc.jsonValue(), members) as fc.Arbitrary<Json> // JSON, all of it

t.test('issues of any data are returned, never thrown', async t => {
  fc.assert(
    fc.property(fc.anything(), data => {
      const { table, issues } = compileTable(data)
      return (table === undefined) === issues.length > 0
    }),
  )
  let validCount = 0
  fc.assert(
    fc.property(leaf, object, fc.oneof(leaf, list, object), value, (one, two, position, given) => {
      const methods = { m: { params: [{ title: 'x', ...position }] } }
      const { table, issues } = compileTable({ defaults, types: { one, two }, methods })
      if (table === undefined) return issues.length > 0
      validCount += 1
      return openMethodTable(table, devnet).get('m')?.check([given]) !== undefined
    }),
    { numRuns: 500 },
  )
  t.ok(validCount > 50, 'many of these tables are valid')
})

t.test('the table is a copy: later changes of the data have no effect', async t => {
  const data = { defaults, methods: { m: { params: [{ title: 'x', hex: 'number', default: '0x1' }] } } }
  const methods = openMethodTable(tableOf(data), devnet)
  data.methods.m.params.length = 0
  t.strictSame(check('m', [], methods), ['0x1'])
})

t.test('`defaults` holds for the fields that an entry does not set', async t => {
  const entries = { m: {}, n: { cost: 0, cache: 'latest' } }
  const open = (over: object) => openMethodTable(tableOf({ defaults: { ...defaults, cost: 7, ...over }, methods: entries }), devnet)
  t.match(open({}).get('m'), { cost: 7, cache: 'never', class: 'light', idempotent: true })
  const over = { cache: 'mined', class: 'other', idempotent: false }
  t.match(open(over).get('m'), over)
  t.match(open({ cache: 'mined' }).get('n'), { cost: 0, cache: 'latest' })
})

t.test('a method without `params` accepts any parameters', async t => {
  const methods = openMethodTable(tableOf({ defaults, methods: { m: {} } }), devnet)
  t.strictSame(check('m', [1, { a: null }], methods), [1, { a: null }])
})

t.test('a keyword means the same in any rule', async t => {
  const number = { hex: 'number' }
  const side = { type: 'string', enum: ['left', 'right'] }
  const methods = openMethodTable(
    tableOf({
      defaults,
      methods: {
        m: {
          params: [
            {
              title: 'range',
              type: 'object',
              properties: { low: number, high: { ...number, default: '0x0F' }, side },
              additionalProperties: { type: 'array', items: number },
              required: ['low'],
              alias: { min: 'low', least: 'low' },
              ordered: { low: 'high' },
              excludes: { side: ['high'] },
            },
          ],
        },
      },
    }),
    devnet,
  )
  const rows: readonly (readonly [Json, Json])[] = [
    [{ min: '0x001' }, { low: '0x1', high: '0xf' }],
    [
      { least: '0x1', side: 'left' },
      { low: '0x1', side: 'left' },
    ],
    [
      { low: '0x1', more: ['0X00A'] },
      { low: '0x1', high: '0xf', more: ['0xa'] },
    ],
    [{ side: 'left' }, 'params[0] needs "low"'],
    [{ low: null }, 'params[0] needs "low"'],
    [{ min: '0x2', high: '0x1' }, 'params[0] has "low" 0x2 above "high" 0x1'],
    [{ low: '0x1', side: 'rigth' }, 'params[0].side must be one of left, right, not "rigth"; did you mean `right`?'],
    [{ low: '0x1', side: 'left', high: '0x2' }, 'params[0] must not have "high" together with "side"'],
    [{ low: '0x1', more: ['x'] }, 'params[0].more[0] must be a hex number with 0x, not "x"'],
    [{ low: '0x1', 'a/b~c': 5 }, 'params[0]["a/b~c"] must be an array, not 5'],
  ]
  for (const [value, gives] of rows) {
    t.strictSame(check('m', [value], methods), typeof gives === 'string' ? gives : [gives])
  }
})

/** The issues that with() throws. */
const overrideIssues = (change: () => unknown): readonly string[] => {
  try {
    change()
  } catch (error) {
    if (error instanceof Misconfigured) return error.issues.map(({ path, message }) => `${path.join('/')}: ${message}`)
    throw error
  }
  return []
}

t.test('a network can remove, change and add methods', async t => {
  const methods = shippedMethods.with(
    {
      eth_call: false,
      eth_getLogs: { maxResults: 5, maxTime: null },
      eth_chainId: { answer: null },
      linea_estimateGas: { params: [{ title: 'transaction', ref: 'transaction' }], cost: 100 },
    },
    {},
  )
  t.equal(methods.get('eth_call'), undefined)
  t.notOk(methods.names.includes('eth_call'))
  t.match(methods.get('eth_getLogs'), { cost: 255, maxResults: 5, maxTime: undefined })
  t.equal(methods.get('eth_chainId')?.answer, undefined)
  t.equal(methods.names.at(-1), 'linea_estimateGas')
  t.match(methods.get('linea_estimateGas'), { cost: 100, cache: 'never', class: 'light' })
  t.strictSame(check('linea_estimateGas', [{ value: '0x01' }], methods), [{ value: '0x1' }])
  t.ok(shippedMethods.get('eth_call'), 'the shipped table is unchanged')
})

t.test('the path of an invalid change begins with the name of the method', async t => {
  const issues = (overrides: object) =>
    overrideIssues(() => shippedMethods.with(overrides as Parameters<typeof shippedMethods.with>[0], {}))
  t.strictSame(issues({ eth_cal: false }), ['eth_cal: eth_cal is not in the method table; did you mean `eth_call`?'])
  t.strictSame(issues({ eth_call: true }), ['eth_call: eth_call must be false or the fields to change, not true'])
  t.strictSame(issues({ eth_call: { cost: '1', caches: 1 } }), [
    'eth_call/caches: eth_call.caches is unknown; did you mean `cache`?',
    'eth_call/cost: eth_call.cost must be a whole number, not "1"',
  ])
  const eth_call = { params: [{ title: 'x', ref: 'index', default: 5 }] }
  t.strictSame(issues({ eth_call, eth_new: { params: [{ title: 'x', ref: 'y' }] } }), [
    'eth_call/params/0/default: eth_call.params[0].default must be an index (a hex number with 0x), not 5; write "0x5"',
    'eth_new/params/0/ref: eth_new.params[0].ref refers to "y", which is not one of the types',
  ])
})

t.test('a network can support fewer tags; the error for the others names the tag to use instead', async t => {
  const linea = openMethodTable(shippedTable, { ...devnet, name: 'linea-mainnet' })
  const methods = linea.with(
    {},
    {
      eth_getLogs: ['latest', 'earliest', 'pending', 'finalized'],
      eth_getBalance: ['latest', 'earliest'],
    },
  )
  t.equal(
    check('eth_getLogs', [{ fromBlock: 'safe' }], methods),
    'params[0].fromBlock: the tag "safe" is not supported for eth_getLogs on linea-mainnet; use "finalized" instead',
  )
  t.notOk(typeof check('eth_getLogs', [{ fromBlock: 'finalized' }], methods) === 'string')
  t.notOk(typeof check('eth_getStorageAt', [address, '0x0', 'safe'], methods) === 'string', 'other methods accept it')
  t.equal(
    check('eth_getBalance', [address, 'finalized'], methods),
    'params[1]: the tag "finalized" is not supported for eth_getBalance on linea-mainnet; ' + 'use a number or one of latest, earliest',
  )
  t.equal(
    check('eth_getBalance', [address, { blockNumber: 'pending' }], methods),
    'params[1].blockNumber: the tag "pending" is not supported for eth_getBalance on linea-mainnet; ' + 'use "latest" instead',
  )
  t.notMatch(check('eth_getBalance', [address, 'x'], methods), /safe/)
})

t.test('each issue of the tags of a method has its path', async t => {
  t.strictSame(
    overrideIssues(() =>
      shippedMethods.with(
        {},
        {
          eth_getLog: ['latest'],
          eth_blockNumber: ['latest'],
          eth_call: ['latest', 'save'],
          eth_getCode: ['safe'],
        },
      ),
    ),
    [
      'eth_getLog: eth_getLog is not in the method table; did you mean `eth_getLogs`?',
      'eth_blockNumber: eth_blockNumber takes no block tag',
      'eth_call/1: eth_call[1] is "save", which is not a block tag of eth_call; did you mean `safe`?',
      'eth_getCode: eth_getCode must include "latest", the default of a missing block',
    ],
  )
})
