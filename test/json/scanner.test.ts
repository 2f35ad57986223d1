import { deepStrictEqual, equal, ok } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from '../support/tap.ts'
import { Scanner } from '../../src/json/scanner.ts'
import type { IndexedItem } from '../../src/json/top-level-index.ts'
import type { ScanLimits } from '../../src/json/scanner.ts'
import { getWasmModule } from '../../src/json/wasm-module.ts'
import { getWasmScanner } from '../../src/json/wasm-scanner.ts'

const unlimited: ScanLimits = { maxDepth: Infinity, maxElements: Infinity, maxValues: Infinity }

/** Scans the text in chunks that end at the cuts. `place`: puts a chunk elsewhere. */
const scan = (
  bytes: Uint8Array,
  cuts: readonly number[] = [],
  limits = unlimited,
  minWasmBytes = Infinity,
  place = (chunk: Uint8Array): Uint8Array => chunk,
): Scanner => {
  const scanner = new Scanner(limits, minWasmBytes)
  const ends = [...new Set([...cuts, bytes.length])].sort((a, b) => a - b)
  let from = 0
  for (const end of ends) {
    scanner.push(place(bytes.subarray(from, end)))
    from = end
  }
  scanner.end()
  return scanner
}

const scanResult = ({ error, isArray, hasNonAscii, items }: Scanner): object => ({
  error,
  isArray,
  hasNonAscii,
  items,
})

/** The same limits for both: depth limits what WebAssembly has room for. */
const wasmLimits: ScanLimits = { ...unlimited, maxDepth: 512 }

const readBuffer = getWasmModule()?.readBuffer ?? Buffer.alloc(0)

/** Reads a chunk as the connections to nodes do, to the end of the memory that they read into. */
const readIntoWasm = (chunk: Uint8Array): Uint8Array => {
  const place = readBuffer.subarray(readBuffer.length - chunk.length)
  place.set(chunk)
  return place
}

/** WebAssembly and JavaScript find the same, about the text and about a response with it, copied and where it has been read. */
const assertWasmAgrees = (text: Uint8Array, cuts: readonly number[]): void => {
  for (const bytes of [text, Buffer.concat([bytesOf('{"id":1,"result":'), text, bytesOf('}')])]) {
    const expected = scanResult(scan(bytes, cuts, wasmLimits))
    deepStrictEqual(scanResult(scan(bytes, cuts, wasmLimits, 1)), expected)
    const reads = Array.from({ length: Math.floor(bytes.length / readBuffer.length) }, (_, i) => (i + 1) * readBuffer.length)
    deepStrictEqual(scanResult(scan(bytes, [...cuts, ...reads], wasmLimits, 1, readIntoWasm)), expected)
  }
}

const everyByte = (bytes: Uint8Array): number[] => Array.from(bytes, (_, i) => i)

/**
 * V8 14.6 (Node.js 26) mistakes an escaped name for a backslash when it has parsed a similar object before that has a member
 * named by one backslash. Such texts are left out there, as JSON.parse is what the scanner is compared with.
 */
const mistakesEscapedNames = (() => {
  JSON.parse('{"probe":0,"\\\\":0}')
  return !('i' in (JSON.parse('{"probe":0,"\\u0069":0}') as object))
})()

const isMistaken = (bytes: Uint8Array): boolean => mistakesEscapedNames && Buffer.from(bytes).includes('"\\\\"')

/** What JSON.parse says; undefined when the bytes are not UTF-8 or not JSON. */
const parse = (bytes: Uint8Array): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)) }
  } catch {
    return undefined
  }
}

/** Parses an item member by member, at the offsets of the index. */
const parseItem = (bytes: Uint8Array, { start, end, members }: IndexedItem): unknown => {
  const whole = parse(bytes.subarray(start, end))
  ok(whole, 'an item is JSON by itself')
  equal(members !== undefined, typeof whole.value === 'object' && whole.value !== null && !Array.isArray(whole.value))
  if (members === undefined) return whole.value
  return Object.fromEntries(
    members.map(member => {
      const value = parse(bytes.subarray(member.start, member.end))
      const name = parse(bytes.subarray(member.nameStart - 1, member.nameEnd + 1))
      ok(value && name, 'a name and a value are JSON by themselves')
      if (Array.isArray(value.value)) equal(member.childCount, value.value.length)
      return [name.value, value.value]
    }),
  )
}

/** The scanner agrees with JSON.parse, the index fits its value, and neither depends on where chunks end. */
const assertMatchesJsonParse = (bytes: Uint8Array, ...splits: readonly number[][]): void => {
  if (isMistaken(bytes)) return
  const scanner = scan(bytes)
  const expected = parse(bytes)
  for (const cuts of splits) {
    deepStrictEqual(scanResult(scan(bytes, cuts)), scanResult(scanner))
    assertWasmAgrees(bytes, cuts)
  }
  if (scanner.error === 'members') return
  equal(scanner.error, expected === undefined ? 'syntax' : undefined)
  if (expected === undefined) return
  equal(scanner.isArray, Array.isArray(expected.value))
  const values = scanner.items.map(item => parseItem(bytes, item))
  deepStrictEqual(scanner.isArray ? values : values[0], expected.value)
  equal(
    scanner.hasNonAscii,
    bytes.some(byte => byte >= 0x80),
  )
}

const space = fc.stringMatching(/^[ \t\n\r]{0,2}$/)
const stringPart = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 6 }).map(text => JSON.stringify(text).slice(1, -1)),
  fc.stringMatching(/^[0-9a-f]{0,12}$/),
  fc.constantFrom('\\u0069', '\\ud800', '\\uDFFF', '\\"', '\\\\', '\\/', 'é', '\u2028', '漢', '😀', '\u007f'),
)
const string = fc.array(stringPart, { maxLength: 4 }).map(parts => `"${parts.join('')}"`)
const name = fc.oneof(string, fc.constantFrom('"id"', '"\\u0069d"', '"result"', '"__proto__"', '"constructor"', '""'))
const number = fc.stringMatching(/^-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?$/)
const list = (open: string, item: fc.Arbitrary<string>, close: string): fc.Arbitrary<string> =>
  fc.tuple(space, fc.array(item, { maxLength: 5 })).map(([gap, items]) => open + gap + items.join(',') + close)

/** Unusual JSON texts: every form of space, number and escape, duplicate names. */
const { json } = fc.letrec<{ json: string; value: string }>(tie => ({
  json: fc.tuple(space, tie('value'), space).map(parts => parts.join('')),
  value: fc.oneof(
    { depthSize: 'small' },
    fc.oneof(string, number, fc.constantFrom('true', 'false', 'null')),
    list('[', tie('json'), ']'),
    list(
      '{',
      fc.tuple(space, name, space, fc.constant(':'), tie('json')).map(parts => parts.join('')),
      '}',
    ),
  ),
}))

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

const significantByte = fc.constantFrom(
  ...Buffer.from('{}[]:,"\\ \n\t0-.eEtfnu/\u0000\u001f\u007f'),
  0x80,
  0xa0,
  0xc0,
  0xe0,
  0xed,
  0xf4,
  0xff,
)
const mutation = fc.record({
  edit: fc.constantFrom('replace', 'insert', 'delete'),
  at: fc.nat(),
  byte: fc.oneof(significantByte, fc.nat(255)),
  length: fc.nat(4),
})

/** A JSON text with some bytes replaced, inserted or deleted: mostly no JSON any more, but nearly. */
const mutated = fc.tuple(json, fc.array(mutation, { minLength: 1, maxLength: 3 })).map(([text, changes]) => {
  const bytes = [...bytesOf(text)]
  for (const { edit, at, byte, length } of changes) {
    const offset = at % (bytes.length + 1)
    if (edit === 'delete') bytes.splice(offset, length)
    else bytes.splice(offset, edit === 'replace' ? 1 : 0, byte)
  }
  return Uint8Array.from(bytes)
})

const invalidBytes = fc.array(significantByte, { maxLength: 8 }).map(bytes => Uint8Array.from(bytes))

const cuts = fc.array(fc.nat(400), { maxLength: 6 })
const checkMany = (texts: fc.Arbitrary<Uint8Array>, numRuns: number) => (): void => {
  const property = fc.property(texts, cuts, (bytes, at) => {
    assertMatchesJsonParse(
      bytes,
      at.map(cut => cut % (bytes.length + 1)),
      everyByte(bytes),
    )
  })
  fc.assert(property, { numRuns })
}

/** Cut in two at every place, and into single bytes. */
const differs = (bytes: Uint8Array): boolean => {
  try {
    assertMatchesJsonParse(bytes, ...everyByte(bytes).map(cut => [cut]), everyByte(bytes))
    return false
  } catch {
    return true
  }
}

const texts = [
  '',
  ' ',
  '\ufeff1',
  '\ufeff{}',
  '[]',
  '{}',
  ' [ ] ',
  '\t{\r\n} ',
  '[1,]',
  '[,1]',
  '[,]',
  '{,}',
  '[1 2]',
  '[1],',
  '[1]]',
  '[[]',
  '{"a":1,}',
  '{"a":1 "b":2}',
  '{"a" 1}',
  '{"a"}',
  '{"a":}',
  '{"a",1}',
  '{a:1}',
  "{'a':1}",
  '{1:1}',
  '{"a":1}}',
  '{"a":1},',
  '{"a":"b":1}',
  '{{}}',
  '"a":1',
  '[}',
  '{]',
  '[1}',
  '{"a":1]',
  '[',
  '{',
  ']',
  '}',
  ',',
  ':',
  '1,',
  '1 2',
  '0',
  '-0',
  '00',
  '01',
  '-01',
  '-',
  '--1',
  '+1',
  '1.',
  '.1',
  '1.e1',
  '1.0',
  '0.10',
  '1e',
  '1e+',
  '1e-',
  '1E5',
  '1e+05',
  '1e400',
  '1e1.5',
  '1e1e1',
  '1 e1',
  '0x1',
  '1n',
  '1_0',
  '- 1',
  '[-]',
  '[1.]',
  '{"a":1e}',
  '18446744073709551616',
  '-1.5E-7',
  '1+1',
  '1-',
  'Infinity',
  'NaN',
  'undefined',
  'true',
  'tru',
  'truee',
  'True',
  'nul',
  'nulll',
  'null null',
  'truefalse',
  'fals',
  't',
  '[true,false,null]',
  '"',
  '"a',
  '""',
  '"a" "b"',
  '"\\',
  '"\\"',
  '"\\u',
  '"\\u1',
  '"\\u123',
  '"\\u1234',
  '"\\u1234"',
  '"\\u12g4"',
  '"\\uABcd"',
  '"\\U1234"',
  '"\\x41"',
  '"\\a"',
  '"\\\'"',
  '"\\0"',
  '"\\\n"',
  '"\\b\\f\\n\\r\\t\\/\\"\\\\"',
  '"\n"',
  '"\t"',
  '"\u0000"',
  '"\u001f"',
  '"\u007f"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"😀"',
  '"é"',
  'é',
  '"\u2028"',
  '\v1',
  '\f1',
  '\u00a01',
  '\u30001',
  '1\u0000',
  '// 1',
  '/**/1',
  '#1',
  '{"a":1,"a":2}',
  '{"":1,"":2}',
  '{"__proto__":1}',
  '{"__proto__":{"a":1}}',
  '{"\\u0061":1}',
  '{"a\n":1}',
  '{"é":1}',
  '[{"a":[1,[2,3],{"b":4}]},[5],"6",{}]',
  '{"a":{"b":{"c":[{}]}},"d":[[],[[]]]}',
  '[[[[[[]]]]]]',
]

/** Bytes in hex: whole and broken characters, too long forms, surrogates, past the last one. */
const characters = [
  '80',
  'bf',
  'c080',
  'c1bf',
  'c280',
  'c2',
  'c2c2',
  'c27f',
  'dfbf',
  'c3a9c3',
  'c3a9a9',
  'e08080',
  'e09fbf',
  'e0a080',
  'ed9fbf',
  'eda080',
  'edbfbf',
  'ee8080',
  'efbfbf',
  'efbbbf',
  'e282',
  'e28228',
  'e6bca2',
  'f0808080',
  'f08fbfbf',
  'f0908080',
  'f48fbfbf',
  'f4908080',
  'f5808080',
  'f8888080',
  'fe',
  'ff',
  'f09f9880',
  'f09f98',
  'f09f',
  'f0',
]

t.test('the scanner agrees with JSON.parse, however the text is cut into chunks', async t => {
  t.doesNotThrow(checkMany(json.map(bytesOf), 500), 'about JSON texts')
  t.doesNotThrow(checkMany(mutated, 1000), 'about JSON texts with a few bytes changed')
  t.doesNotThrow(checkMany(fc.uint8Array({ maxLength: 24 }), 500), 'about any bytes')
  t.doesNotThrow(checkMany(invalidBytes, 1000), 'about significant bytes')

  t.same(texts.map(bytesOf).filter(differs).map(String), [], 'about selected texts')
  for (const [before, after, where] of [
    ['22', '22', 'in a string'],
    ['', '31', 'before a number'],
  ]) {
    const wrong = characters.filter(hex => differs(Buffer.from(`${before}${hex}${after}`, 'hex')))
    t.same(wrong, [], `about characters ${where}`)
  }
})

t.test('WebAssembly agrees with JavaScript about long answers, whole or with one byte changed, however they arrive', async t => {
  t.ok(getWasmScanner(), 'WebAssembly is used')
  const logs = bytesOf(
    JSON.stringify(
      Array.from({ length: 400 }, (_, i) => ({
        address: `0x${'5a'.repeat(20)}`,
        topics: [`0x${i.toString(16).padStart(64, '0')}`, null, []],
        data: i % 7 === 0 ? 'é\u0000"\\😀'.repeat(i % 11) : `0x${'cd'.repeat(i)}`,
        [`name "${i % 3}"`]: { deep: [{ number: i / 8 }, [2 ** 53, -0.5, 1e21, true, false]] },
      })),
    ),
  )
  t.ok(logs.length > 150_000, 'more than two windows of 64 KiB')
  t.doesNotThrow(() => assertWasmAgrees(logs, []))
  const chunkEnds = fc.array(fc.nat(logs.length - 1), { maxLength: 8 })
  const property = fc.property(fc.nat(logs.length - 1), fc.oneof(significantByte, fc.nat(255)), chunkEnds, (at, byte, cuts) => {
    const changed = Uint8Array.from(logs)
    changed[at] = byte
    assertWasmAgrees(changed, cuts)
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 100 }))
})

t.test('WebAssembly stops at the greatest depth, in objects and arrays', async t => {
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const)
    for (const depth of [511, 512, 513]) {
      const nested = (levels: number) => bytesOf(`${open.repeat(levels)}0${close.repeat(levels)}`)
      t.equal(scan(nested(depth), [], wasmLimits, 1).error, depth > 512 ? 'depth' : undefined, `${depth} of ${open}`)
      t.doesNotThrow(() => assertWasmAgrees(nested(depth), [300, 700]))
    }
})

t.test('a text that exceeds a limit is refused, and a text at the limit is not', async t => {
  const errorOf = (text: string, limits: Partial<ScanLimits> = {}) => scan(bytesOf(text), [], { ...unlimited, ...limits }).error
  const nested = (depth: number) => '{"a":['.repeat(depth / 2) + ']}'.repeat(depth / 2)
  const members = (count: number) => `{${Array.from({ length: count }, (_, i) => `"${i}":[]`).join()}}`

  t.test('depth', async t => {
    t.equal(errorOf(nested(64), { maxDepth: 64 }), undefined)
    t.equal(errorOf(nested(66), { maxDepth: 64 }), 'depth')
    t.equal(errorOf('[[]]', { maxDepth: 2 }), undefined)
    t.equal(errorOf('[[[]]]', { maxDepth: 2 }), 'depth')
  })

  t.test('members of the object, or of each object in a batch; not of objects further down', async t => {
    t.equal(errorOf(members(32)), undefined)
    t.equal(errorOf(members(33)), 'members')
    t.equal(errorOf(`[${members(32)},${members(32)}]`), undefined)
    t.equal(errorOf(`[{},${members(33)}]`), 'members')
    t.equal(errorOf(`[[${members(33)}]]`), undefined)
    t.equal(errorOf(`{"a":${members(33)}}`), undefined)
  })

  t.test('elements of a batch, not of arrays further down', async t => {
    t.equal(errorOf('[1,[],{}]', { maxElements: 3 }), undefined)
    t.equal(errorOf('[1,[],{},4]', { maxElements: 3 }), 'elements')
    t.equal(errorOf('{"a":[1,2,3,4]}', { maxElements: 3 }), undefined)
    t.equal(errorOf('[[1,2,3,4]]', { maxElements: 3 }), undefined)
    t.equal(errorOf('1', { maxElements: 1 }), undefined)
  })

  t.test('values anywhere', async t => {
    t.equal(errorOf('{"a":[1,{}],"b":2}', { maxValues: 5 }), undefined)
    t.equal(errorOf('{"a":[1,{}],"b":2}', { maxValues: 4 }), 'values')
  })

  t.test('at the first byte that exceeds it, whatever follows', async t => {
    const scanner = new Scanner({ ...unlimited, maxDepth: 64, maxElements: 100 })
    t.equal(scanner.push(bytesOf('['.repeat(64))), true)
    t.equal(scanner.push(bytesOf('[')), false)
    t.equal(scanner.push(bytesOf(']'.repeat(65))), false)
    t.equal(scanner.end(), 'depth')
    const batch = new Scanner({ ...unlimited, maxElements: 100 })
    t.equal(batch.push(bytesOf(`[${'[],'.repeat(100)}`)), true)
    t.equal(batch.push(bytesOf('1')), false)
    t.equal(batch.end(), 'elements')
  })

  t.test('without a limit, a million levels are scanned like any million bytes', async t => {
    t.equal(errorOf('['.repeat(1_000_000)), 'syntax')
    t.equal(errorOf('['.repeat(1_000_000) + ']'.repeat(1_000_000)), undefined)
  })
})

t.test('json-bytes.wasm is what its sources compile to: npm run wasm writes it', t => {
  const compiled = join(t.testdir(), 'json-bytes.wasm')
  execFileSync(process.execPath, [
    'node_modules/assemblyscript/bin/asc.js',
    '--config',
    'src/json/wasm/asconfig.json',
    '--outFile',
    compiled,
  ])
  t.ok(readFileSync(compiled).equals(readFileSync('src/json/wasm/json-bytes.wasm')))
  t.end()
})
