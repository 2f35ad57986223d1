import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import t from '../support/tap.ts'
import type { Json } from '../../src/plugin/call.ts'
import { createMessageParser } from '../../src/json-rpc/parse-message.ts'
import type { ParsedMessage, ParseMessage } from '../../src/json-rpc/parse-message.ts'
import type { IncomingRequest } from '../../src/json-rpc/parse-message.ts'

const limits = { depth: 8, batch: 5 }

const bytes = (text: string): Uint8Array => Buffer.from(text)

const requireRequest = (incoming: ParsedMessage): IncomingRequest => {
  if (!('message' in incoming)) throw new Error('not a request')
  return incoming
}

const paramsOf = (incoming: ParsedMessage): Json | undefined => {
  const { message } = requireRequest(incoming)
  return typeof message === 'object' && message !== null && 'params' in message ? message.params : undefined
}

/** Requests that are alike, differ only in their ids, or could be mistaken for one another. */
const id = fc.oneof(
  fc.nat(20).map(String),
  fc.constantFrom('00', '01', '-1', '1.5', '1e2', '"1"', '""', 'null', 'true', '', '18446744073709551616'),
)
const members = fc.shuffledSubarray(
  [
    '"jsonrpc":"2.0"',
    '"method":"eth_call"',
    '"params":[{"id":#}]',
    '"params":[]',
    '"id":#',
    '"id": #',
    '"id" :#',
    '"\\u0069d":#',
    '"x":"\\"id\\":#"',
    '"\\\\":#',
    '"méthod":#',
    '"params":"\\"id\\":"',
  ],
  { minLength: 0, maxLength: 5 },
)
const request = fc.tuple(members, fc.constantFrom('', ' ')).map(([parts, space]) => `{${parts.join(`,${space}`)}}${space}`)
const template = fc.oneof(
  request,
  fc.array(request, { maxLength: 6 }).map(all => `[${all.join()}]`),
)

t.test('a message means the same whatever was parsed before it', async t => {
  const parse = createMessageParser(limits)
  fc.assert(
    fc.property(template, fc.array(id, { minLength: 3, maxLength: 8 }), (text, ids) => {
      for (let i = 0; i + 1 < ids.length; i++) {
        let at = i
        const message = bytes(text.replaceAll('#', () => ids[at++ % ids.length] as string))
        t.strictSame(parse(message), createMessageParser(limits)(message))
      }
    }),
    { numRuns: 1000 },
  )
})

t.test('a batch means the same when each of its requests has come before', async t => {
  const generous = { depth: 8, batch: 5_000 }
  const known = '{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[0,{}]}'
  const batches = {
    'of usual requests': [known, known.replace('1', '22')],
    'without params': ['{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}', known],
    'with further members': ['{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[],"chainId":1}', known],
    'with what stands between requests within one': ['{"id":1,"params":["},{",{},{}]}', known],
    'with numbers beyond those of JavaScript': ['{"id":9007199254740993,"params":[1e20]}', known],
    'with one that is as deep as a message may be': [`{"id":1,"params":${'['.repeat(7)}${']'.repeat(7)}}`, known],
    'with one id that is no number': [known, known.replace('1', '01')],
    'with too many values': Array<string>(1_100).fill(`{"id":1,"params":[${Array(39).fill(0).join()}]}`),
    'with too many calls': Array<string>(5_001).fill('{"id":1}'),
  }
  for (const [name, requests] of Object.entries(batches)) {
    const parse = createMessageParser(generous)
    for (const text of [...requests.slice(0, 2), ...requests.slice(0, 2)]) parse(bytes(text))
    for (const [opening, closing] of [
      ['[', ']'],
      ['[', ''],
      ['[', '}'],
      ['[', ',]'],
      ['[', ']]'],
      ['[', '] '],
      ['[ ', ']'],
      ['[{', ']'],
    ] as const) {
      const message = bytes(`${opening}${requests.join()}${closing}`)
      t.strictSame(parse(message), createMessageParser(generous)(message), `${name}, between ${opening} and ${closing}`)
    }
  }
})

t.test('a request whose envelope has a name with an escape is refused, as V8 14.6 can mistake such a name for a backslash', async t => {
  const parse = createMessageParser(limits)
  for (const [text, id] of [
    ['{"\\u0069d":1,"method":"m"}', '1'],
    ['{"id":2,"m\\u0065thod":"m"}', '2'],
    ['{"id":3,"p\\u0061rams":[]}', '3'],
  ] as const)
    t.match(parse(bytes(text)), { id, refusal: { kind: 'invalid', error: { message: /is written with an escape$/ } } }, text)
  t.match(parse(bytes('{"id":4,"\\u0061":0}')), { id: '4', refusal: undefined }, 'other members are ignored')
})

t.test('a number in params that JavaScript does not hold exactly is refused with its place, and one that it holds is not', async t => {
  const parse = createMessageParser(limits)
  const refusalOf = (params: string) => (parse(bytes(`{"id":1,"params":${params}}`)) as IncomingRequest).refusal
  for (const [params, place] of [
    ['[9007199254740992]', 'params[0]'],
    ['[1,-12345678901234567890]', 'params[1]'],
    ['[{"gas":1e400}]', 'params[0].gas'],
    ['[{"a":[0,{"b c":-1e21}]}]', 'params[0].a[1]["b c"]'],
    ['{"x":18446744073709551616}', 'params.x'],
    ['1e999', 'params'],
  ] as const) {
    const message = `${place} must be a number up to 2^53 - 1; write a larger one as hex`
    t.match(refusalOf(params), { kind: 'params', error: { code: -32602, message } }, params)
  }
  for (const params of ['[9007199254740991,-9007199254740991,0.1,1.0,-0,1e5,"12345678901234567890"]', '[null,{"a":[true]}]', '"x"', 'null'])
    t.equal(refusalOf(params), undefined, params)
})

t.test('only the digits of the id itself may differ', async t => {
  const parse = createMessageParser(limits)
  const parseText = (text: string) => parse(bytes(text))
  for (const other of ['"x"', 'null', '{}']) {
    for (const ownId of [1, 2, 3]) t.match(parseText(`{"a":{"id":${other}},"id":${ownId}}`), { id: String(ownId) })
    t.match(parseText(`{"a":{"id":4${other}},"id":}`), { kind: 'parse' })
    for (const ownId of [1, 2, 3]) t.match(parseText(`{"id":${ownId},"a":${other}}`), { id: String(ownId) })
    for (const wrong of ['01', '00', '1 2', '+1', '1.', '']) t.match(parseText(`{"id":${wrong},"a":${other}}`), { kind: 'parse' }, wrong)
  }
})

t.test('a repeated request is parsed twice, and what calls share after that is frozen', async t => {
  const parse = createMessageParser(limits)
  const parseWithId = (id: number | string) =>
    parse(bytes(`{"jsonrpc":"2.0","id":${id},"method":"eth_call","params":[{"data":["0x"]},"latest"]}`))
  const [first, second, third, fourth] = [1, 22, 333, '9007199254740993'].map(parseWithId) as [
    ParsedMessage,
    ParsedMessage,
    ParsedMessage,
    ParsedMessage,
  ]
  t.notOk(Object.isFrozen(paramsOf(first)), 'most are never repeated')
  t.equal(paramsOf(third), paramsOf(second))
  t.equal(paramsOf(fourth), paramsOf(second))
  t.match(third, { id: '333', message: { id: 333, method: 'eth_call' } })
  t.match(fourth, { id: '9007199254740993' })
  const [object] = paramsOf(third) as readonly { data: string[] }[]
  t.throws(() => {
    object!.data = []
  }, TypeError)
  t.throws(() => object!.data.push('0x1'), TypeError)
})

t.test('a request that is long or has many values is not cached, and five thousand other requests evict an old one', async t => {
  const parse: ParseMessage = createMessageParser(limits)
  const paramsOfRequest = (params: string) => paramsOf(parse(bytes(`{"id":1,"params":${params}}`)))
  const long = `["${'0'.repeat(600)}"]`
  const many = `[${Array(60).fill('{}')}]`
  for (const params of [long, many, long, many, long, many]) t.notOk(Object.isFrozen(paramsOfRequest(params)))
  paramsOfRequest('[0]')
  const cached = paramsOfRequest('[0]')
  t.equal(paramsOfRequest('[0]'), cached)
  for (let i = 1; i <= 5000; i++) paramsOfRequest(`[${i}]`)
  t.not(paramsOfRequest('[0]'), cached)
})

t.test('neither a cached request nor an id keeps the rest of its message in memory', async t => {
  const parse = createMessageParser(limits)
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void // V8's, as the flag describes it
  const liveBytes = (): number => {
    for (let i = 0; i < 2; i++) collect() // memory outside the heap is freed by the second
    const { heapUsed, external, arrayBuffers } = process.memoryUsage()
    return heapUsed + external - arrayBuffers // long strings are outside the heap, as are messages before they are strings
  }
  const pad = ' '.repeat(1 << 20)
  const id = `"${'a'.repeat(30)}"`
  const ids: unknown[] = []
  const before = liveBytes()
  for (let i = 0; i < 30; i++) {
    parse(bytes(`{"id":1,"params":[${i}],"a":"${'b'.repeat(30)}"}${pad}`))
    parse(bytes(`[{"id":1,"params":["${i}"]},{"id":2}${pad}]`))
    const { id: parsedId } = parse(bytes(`{"id":${id},"a":0}${pad}`)) as IncomingRequest
    ids.push(parsedId)
  }
  t.ok(liveBytes() - before < 10 << 20)
  t.ok(ids.every(parsedId => parsedId === id))
})
