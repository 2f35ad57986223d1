import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from '../support/tap.ts'
import type { Json } from '../../src/plugin/call.ts'
import { ChunkedBytes, chunksOf, toBuffer } from '../../src/json/chunked-bytes.ts'
import { ResponseParser, serializeRequest } from '../../src/json-rpc/parse-response.ts'
import type { ParsedResponse } from '../../src/json-rpc/parse-response.ts'

/** Parses the response in chunks that end at the cuts. An announced length, and bytes that change after they were read, make no difference. */
const parseChunks = (response: string | Uint8Array, cuts: readonly number[] = [], id = '7'): ParsedResponse => {
  const bytes = Buffer.from(response)
  const parsed = parseInChunks(new ResponseParser(id), bytes, cuts)
  for (const expectedBytes of [undefined, bytes.length]) {
    deepStrictEqual(withStringResult(parseInChunks(new ResponseParser(id, expectedBytes), bytes, cuts)), withStringResult(parsed))
    deepStrictEqual(withStringResult(parseTransient(new ResponseParser(id, expectedBytes), bytes, cuts)), withStringResult(parsed))
  }
  return parsed
}

const parseInChunks = (parser: ResponseParser, bytes: Buffer, cuts: readonly number[]): ParsedResponse => {
  let from = 0
  for (const end of [...new Set([...cuts, bytes.length])].sort((a, b) => a - b)) {
    parser.push(bytes.subarray(from, end))
    from = end
  }
  return parser.finish()
}

/** The same from one buffer for all chunks, as a connection reads them. */
const parseTransient = (parser: ResponseParser, bytes: Buffer, cuts: readonly number[]): ParsedResponse => {
  const readBuffer = Buffer.alloc(bytes.length)
  let from = 0
  for (const end of [...new Set([...cuts, bytes.length])].sort((a, b) => a - b)) {
    readBuffer.fill('"')
    parser.push(readBuffer.subarray(0, bytes.subarray(from, end).copy(readBuffer)), true)
    from = end
  }
  readBuffer.fill('"')
  return parser.finish()
}

/** The same in two long chunks, with white space before and behind. */
const parsePadded = (response: Uint8Array, cut: number): ParsedResponse =>
  parseInChunks(new ResponseParser('7'), Buffer.concat([padding, response, padding]), [padding.length + cut])

const padding = Buffer.alloc(20_000, ' ')

const everyByte = (bytes: Uint8Array): number[] => Array.from(bytes, (_, i) => i)

const responseText = (more: string): string => `{"jsonrpc":"2.0","id":7,${more}}`

/** The parsed response with its result as a string. */
const withStringResult = (parsed: ParsedResponse): object =>
  parsed.kind === 'result' ? { ...parsed, result: toBuffer(parsed.result).toString() } : parsed

const result = (result: string, count?: number, streamStatus?: string): object => ({ kind: 'result', result, count, streamStatus })
const invalidResponse = (reason: string): object => ({ kind: 'invalidResponse', reason })
const error = (code: number, message: string, data?: Json): object => ({
  kind: 'error',
  error: data === undefined ? { code, message } : { code, message, data },
})

t.test('a request is serialized anew, in the order that nodes use themselves', async t => {
  t.equal(
    serializeRequest('7', { method: 'eth_getLogs', params: [{ topics: [null, '0x1'] }, 'größer'] }),
    '{"jsonrpc":"2.0","id":7,"method":"eth_getLogs","params":[{"topics":[null,"0x1"]},"größer"]}',
  )
  const params = JSON.parse('[{"__proto__":{"a":1}},"\\ud800",90071992547409931]') as Json[]
  t.equal(
    serializeRequest('1', { method: '"', params }),
    '{"jsonrpc":"2.0","id":1,"method":"\\"","params":[{"__proto__":{"a":1}},"\\ud800",90071992547409940]}',
  )
})

t.test('a response, wherever its chunks end', async t => {
  const cases: readonly (readonly [what: string, response: string, parsed: object])[] = [
    ['a result', responseText('"result":"0x1"'), result('"0x1"')],
    ['null', responseText('"result":null'), result('null')],
    ['a list is counted', responseText('"result":[{"a":[1,2]},[3],"4,5"]'), result('[{"a":[1,2]},[3],"4,5"]', 3)],
    ['an empty list', responseText('"result": [ ] '), result('[ ]', 0)],
    ['an object is not', responseText('"result":{"a":[1],"b":2}'), result('{"a":[1],"b":2}')],
    ['any order, any space', ' {\n"result" : 1 , "id":7\t,"jsonrpc":"2.0" }\r\n', result('1')],
    ['no jsonrpc', '{"id":7,"result":1}', result('1')],
    ['members of its own', responseText('"usage":{"id":8,"error":1},"result":1'), result('1')],
    ['names with escapes', '{"\\u0069d":7,"r\\u0065sult":"\\u0041"}', result('"\\u0041"')],
    ['what JSON.parse would change', responseText('"result":{"n":1e400,"a":1,"a":2}'), result('{"n":1e400,"a":1,"a":2}')],
    ['no error', responseText('"result":1,"error":null'), result('1')],
    ['no error, and null for a result', responseText('"error":null,"result":null'), result('null')],
    ['a truncated result', responseText('"_streamStatus":"truncated","result":[1]'), result('[1]', 1, 'truncated')],
    ['a complete result', responseText('"_streamStatus":null,"result":[1]'), result('[1]', 1)],
    ['an odd status', responseText('"result":1,"_streamStatus":[0]'), result('1', undefined, '[0]')],

    ['an error', responseText('"error":{"code":-32000,"message":"nö"}'), error(-32000, 'nö')],
    ['an error with data', responseText('"error":{"data":{"a":[null]},"message":"","code":3}'), error(3, '', { a: [null] })],
    ['data that is null', responseText('"error":{"code":3,"message":"x","data":null}'), error(3, 'x', null)],
    ['an error with more than belongs there', responseText('"error":{"code":3,"message":"x","stack":"at"}'), error(3, 'x')],
    ['an error beside null', responseText('"result":null,"error":{"code":3,"message":"x"}'), error(3, 'x')],
    ['numbers in the data of an error', responseText('"error":{"code":3.0,"message":"x","data":[1.50,1]}'), error(3, 'x', [1.5, 1])],
    ['a code written as 3e0', responseText('"error":{"code":3e0,"message":"x"}'), error(3, 'x')],

    ['nothing', '', invalidResponse('not JSON')],
    ['a page', '<html>502 Bad Gateway</html>', invalidResponse('not JSON')],
    ['half a response', responseText('"result":[1,2').slice(0, -1), invalidResponse('not JSON')],
    ['a response and a half', `${responseText('"result":1')}{`, invalidResponse('not JSON')],
    ['a byte order mark', `\ufeff${responseText('"result":1')}`, invalidResponse('not JSON')],
    ['a scalar', '7', invalidResponse('not an object')],
    ['a batch', `[${responseText('"result":1')}]`, invalidResponse('not an object')],
    ['a longer batch', `[${responseText('"result":1')},${responseText('"result":1')}]`, invalidResponse('not an object')],
    ['an empty batch', '[]', invalidResponse('not an object')],
    ['an empty object', '{}', invalidResponse('no id')],
    ['no id', '{"jsonrpc":"2.0","result":1}', invalidResponse('no id')],
    ...['8', '70', '"7"', '7.0', '7e0', '-7', 'null', '[7]', 'true'].map(
      id => [`the id ${id}`, `{"id":${id},"result":1}`, invalidResponse('id mismatch')] as const,
    ),
    ['an error with another id', '{"id":null,"error":{}}', invalidResponse('id mismatch')],
    ['neither', responseText('"jsonrpc":"2.0"'), invalidResponse('neither a result nor an error')],
    ['neither, but null for an error', responseText('"error":null'), invalidResponse('neither a result nor an error')],
    ['both', responseText('"result":1,"error":{"code":3,"message":"x"}'), invalidResponse('both a result and an error')],
    ['two ids', responseText('"id":7,"result":1'), invalidResponse('duplicate member')],
    ['two results', responseText('"result":1,"result":1'), invalidResponse('duplicate member')],
    ['two results, one with an escaped name', responseText('"result":1,"r\\u0065sult":2'), invalidResponse('duplicate member')],
    ['two errors', responseText('"error":null,"error":null,"result":1'), invalidResponse('duplicate member')],
    ...['1', '"x"', '[]', 'true', '{}', '{"message":"x"}', '{"code":"3"}', '{"code":1.5}', '{"code":1e400}'].map(
      text => [`the error ${text}`, responseText(`"error":${text}`), invalidResponse('the error has no integer code')] as const,
    ),
    ...['{"code":3}', '{"code":3,"message":null}', '{"code":3,"message":{}}'].map(
      text => [`the error ${text}`, responseText(`"error":${text}`), invalidResponse('the error has no message')] as const,
    ),
  ]
  for (const [what, text, expected] of cases) {
    const bytes = Buffer.from(text)
    t.strictSame(withStringResult(parseChunks(text)), expected, what)
    t.strictSame(withStringResult(parseChunks(text, everyByte(bytes))), expected, `${what}, byte by byte`)
    for (const cut of everyByte(bytes)) t.strictSame(withStringResult(parsePadded(bytes, cut)), expected, `${what}, in two at ${cut}`)
  }
  t.strictSame(parseChunks(Buffer.from(responseText('"result":"é"'), 'latin1')), invalidResponse('not JSON'), 'not UTF-8')
})

t.test('a short response with a byte more, less or another is read as it would be in chunks', async () => {
  for (const end of ['', '\n', '\n\n', ' ', '\n ']) {
    const response = Buffer.from(responseText('"result":"0x1"') + end)
    parseChunks(response)
    for (const at of everyByte(response)) {
      parseChunks(Buffer.concat([response.subarray(0, at), response.subarray(at + 1)]))
      for (const byte of Buffer.from('"\\{},:0x7\n \0\x7f\xe9', 'latin1')) {
        parseChunks(Buffer.concat([response.subarray(0, at), Buffer.from([byte]), response.subarray(at)]))
        parseChunks(Buffer.concat([response.subarray(0, at), Buffer.from([byte]), response.subarray(at + 1)]))
      }
    }
  }
})

t.test('a short response of any members and any id is read as it would be in chunks', async () => {
  const value = fc.constantFrom(
    '"0x1"',
    '""',
    '"\\u0030"',
    '"é"',
    '"\x7f"',
    '1',
    'null',
    '[]',
    '{"code":3,"message":"x"}',
    `"${'0'.repeat(500)}"`,
  )
  const ids = fc.constantFrom('7', '77', '7.0', '70', '1000000100000000', '100000010000000', '1000000100000001', '"7"', 'null')
  const members = fc.array(fc.tuple(fc.constantFrom('result', 'error', 'id', 'jsonrpc', 'x'), value), { maxLength: 3 })
  const property = fc.property(
    fc.record({
      id: ids,
      ownId: fc.constantFrom('7', '1000000100000000'),
      members,
      begin: fc.constantFrom('', ' '),
      end: fc.constantFrom('', '\n', '}'),
    }),
    fc.array(fc.nat(30), { maxLength: 3 }),
    ({ id, ownId, members, begin, end }, cuts) => {
      const more = members.map(([name, text]) => `,"${name}":${text}`).join('')
      const response = Buffer.from(`${begin}{"jsonrpc":"2.0","id":${id}${more}}${end}`)
      const inChunks = parseChunks(response, cuts, ownId)
      deepStrictEqual(withStringResult(parseChunks(response, [], ownId)), withStringResult(inChunks))
    },
  )
  fc.assert(property, { numRuns: 400 })
})

t.test('a response that is longer than announced is no response', async t => {
  const short = Buffer.from(responseText('"result":"0x1"'))
  const parser = new ResponseParser('7', short.length)
  parser.push(short)
  parser.push(Buffer.from('{'))
  t.strictSame(parser.finish(), invalidResponse('not JSON'))
})

t.test('whatever the result is and however it is cut, its bytes come back', async () => {
  const cuts = fc.array(fc.nat(300), { maxLength: 5 })
  const property = fc.property(fc.json({ stringUnit: 'binary' }), fc.nat(3), cuts, (json, spaces, at) => {
    const text = JSON.stringify(JSON.parse(json), null, spaces)
    const value: unknown = JSON.parse(text)
    const parsed = parseChunks(responseText(`"result":${text}`), at)
    deepStrictEqual(withStringResult(parsed), result(text, Array.isArray(value) ? value.length : undefined))
  })
  fc.assert(property, { numRuns: 250 })
})

t.test('no response does harm', async t => {
  const nested = (levels: number): string => responseText(`"result":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}`)
  const fail = (text: string): string => responseText(`"error":{"code":3,"message":"x","data":${text}}`)

  t.test('nested too deep', async t => {
    t.match(parseChunks(nested(512)), { kind: 'result', count: 1 })
    t.strictSame(parseChunks(nested(513)), invalidResponse('nested deeper than 512 levels'))
    t.strictSame(parseChunks('['.repeat(1_000_000)), invalidResponse('nested deeper than 512 levels'))
  })
  t.test('an error too large to parse', async t => {
    t.match(parseChunks(fail(`"${'0'.repeat(1_000_000)}"`)), { kind: 'error', error: { code: 3 } })
    t.strictSame(parseChunks(fail(`"${'0'.repeat(1_048_576)}"`)), invalidResponse('the error is too large'))
    t.match(parseChunks(fail(`[${'1,'.repeat(20_000)}1]`)), { kind: 'error', error: { code: 3 } })
    t.strictSame(parseChunks(fail(`[${'1,'.repeat(25_000)}1]`)), invalidResponse('the error is too large'))
  })
  t.test('many members, or long names', async t => {
    const members = (count: number): string => Array.from({ length: count }, (_, i) => `"x${i}":${i}`).join()
    t.strictSame(withStringResult(parseChunks(responseText(`${members(29)},"result":1`))), result('1'))
    t.strictSame(parseChunks(responseText(`${members(31)},"result":1`)), invalidResponse('more than 32 members'))
    t.strictSame(withStringResult(parseChunks(responseText(`"${'x'.repeat(100_000)}":2,"result":1`))), result('1'))
  })
  t.test('__proto__', async t => {
    t.strictSame(parseChunks(responseText('"error":{"code":3,"message":"x","__proto__":{"data":1}}')), error(3, 'x'))
    t.strictSame(parseChunks(responseText('"__proto__":{"result":1}')), invalidResponse('neither a result nor an error'))
    t.equal(({} as { data?: 1 }).data, undefined)
  })
})

t.test('parsing stops where a response is known to be invalid', async t => {
  const parser = new ResponseParser('7')
  t.equal(parser.push(Buffer.from('{"id":')), true)
  t.equal(parser.push(Buffer.from('<html>')), false)
  t.equal(parser.push(Buffer.from(responseText('"result":1'))), false)
  t.strictSame(parser.finish(), invalidResponse('not JSON'))
})

t.test('the result of a short response outlives bytes that change after they were read, and holds no memory but its own', async t => {
  const bytes = Buffer.from(responseText('"result":"0x1"'))
  const parser = new ResponseParser('7', bytes.length)
  parser.push(bytes, true)
  bytes.fill(0)
  const parsed = parser.finish()
  const result = toBuffer(parsed.kind === 'result' ? parsed.result : Buffer.alloc(0))
  t.equal(result.toString(), '"0x1"')
  t.equal(result.buffer.byteLength, '"0x1"'.length)
})

t.test('a result is not copied, but for short chunks', async t => {
  const one = Buffer.from(responseText('"result":"0x1"'))
  const parser = new ResponseParser('7')
  parser.push(one)
  const parsed = parser.finish()
  t.equal(parsed.kind === 'result' && toBuffer(parsed.result).buffer, one.buffer)

  const result = `"${'0'.repeat(3 << 20)}"`
  const whole = Buffer.from(responseText(`"result":${result}`))
  const long = parseInChunks(
    new ResponseParser('7'),
    whole,
    Array.from({ length: 48 }, (_, i) => (i + 1) << 16),
  )
  t.ok(long.kind === 'result' && long.result instanceof ChunkedBytes && toBuffer(long.result).equals(Buffer.from(result)))
  const buffers = long.kind === 'result' && long.result instanceof ChunkedBytes ? chunksOf(long.result).map(({ buffer }) => buffer) : []
  t.equal(buffers.length, 49)
  t.ok(buffers.slice(0, -1).every(buffer => buffer === whole.buffer))

  const short = parseInChunks(new ResponseParser('7'), whole, everyByte(whole.subarray(0, 300_000)))
  t.ok(short.kind === 'result' && toBuffer(short.result).equals(Buffer.from(result)))
  t.ok(short.kind === 'result' && short.result instanceof ChunkedBytes && chunksOf(short.result).length < 10, 'none of its chunks is short')
})
