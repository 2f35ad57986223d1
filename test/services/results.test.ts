import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from '../support/tap.ts'
import { ChunkedBytes, toBuffer } from '../../src/json/chunked-bytes.ts'
import { getWasmModule } from '../../src/json/wasm-module.ts'
import { WasmMemberSearch } from '../../src/json/wasm-member-search.ts'
import { MemberSearch, memberIsOneOf, memberIsWithin } from '../../src/services/member-search.ts'
import { results } from '../../src/services/results.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text)
const toRows = (objects: Awaited<ReturnType<typeof results.extractObjectsAsync>>) =>
  objects?.map(({ rawJson, members }) => [toBuffer(rawJson).toString(), ...members])

t.test('the object of a result, or each element of its array, comes with the text of its members', async t => {
  const [one, two] = ['{"b":"x", "a" : [1, 2]}', '{ "a":null}']
  t.strictSame(toRows(results.extractObjects(bytes(one), ['a', 'b'])), [[one, '[1, 2]', '"x"']])
  t.strictSame(toRows(results.extractObjects(bytes(`[${one} ,\n${two}]`), ['a', 'b'])), [
    [one, '[1, 2]', '"x"'],
    [two, 'null', undefined],
  ])
  t.strictSame(toRows(results.extractObjects(bytes('[]'), ['a'])), [])
})

t.test('an object may have many members, as blocks of some networks do', async t => {
  const block = JSON.stringify(Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`member${i}`, i])))
  t.strictSame(toRows(results.extractObjects(bytes(block), ['member99'])), [[block, '99']])
  t.strictSame(toRows(await results.extractObjectsAsync(bytes(`[${block}]`), ['member0'])), [[block, '0']])
})

t.test('what is no object, or no JSON, is undefined', async t => {
  for (const text of ['null', '1', '[1]', '[{},2]', '[{}', '{"a":}', '']) {
    t.equal(results.extractObjects(bytes(text), ['a']), undefined, text)
    t.equal(await results.extractObjectsAsync(bytes(text), ['a']), undefined, text)
  }
})

t.test('a long array is split as a short one, and joined again', async t => {
  const elements = Array.from({ length: 20_000 }, (_, i) => `{"data":"0x${'ab'.repeat(i % 90)}", "n":${i}}`)
  const whole = bytes(`[${elements.join(',')}]`)
  const chunked = new ChunkedBytes(Array.from({ length: 1 + whole.length / 65_536 }, (_, i) => whole.subarray(i << 16, (i + 1) << 16)))
  for (const text of [whole, chunked]) {
    const objects = await results.extractObjectsAsync(text, ['n'])
    t.equal(objects?.length, 20_000)
    t.ok(objects?.every(({ members }, i) => members[0] === String(i)))
    t.ok(toBuffer(await results.joinArray(objects?.map(({ rawJson }) => rawJson) ?? [])).equals(whole))
    // Not by tap, which formats what it compares: it would take seconds.
    deepStrictEqual(results.extractObjects(text, ['n']), objects)
    t.ok(toBuffer(await results.toContiguous(text)).equals(whole))
  }
  t.equal(Buffer.from(await results.joinArray([])).toString(), '[]')
})

t.test('the members of an object are found without reading on behind them', async t => {
  const find = (text: string | ChunkedBytes, ...names: string[]) =>
    results.findMembers(typeof text === 'string' ? bytes(text) : text, names)
  t.strictSame(find('{"number":"0x1","hash":"0x2"}', 'hash', 'number'), ['"0x2"', '"0x1"'])
  t.strictSame(find('{"a":{"hash":"0x3"},"h\\u0061sh":"0x4"}', 'hash'), [undefined])
  t.strictSame(find('[{"a":1},{"b":2}]', 'a'), ['1'])
  t.strictSame(find('[{"a":1},{"b":2}]', 'b'), [undefined], 'only of the first object of an array')
  for (const text of ['null', '5', '"x"', '[]', '[5,{"a":1}]', '{"b":1']) t.strictSame(find(text, 'a'), [undefined], text)
  const long = new ChunkedBytes(['{"x":"', 'y'.repeat(100_000), '","number":"0x', '5"', `,"rest":[${'1,'.repeat(100_000)}`].map(bytes))
  t.strictSame(find(long, 'number'), ['"0x5"'])
})

t.test('a search finds the members of all objects, however the text comes in chunks', async t => {
  const dataOf = (i: number) => '0x'.padEnd((11 - i) * 41, 'f')
  const logs = Array.from({ length: 12 }, (_, i) => ({ address: `0xAB${i % 2}`, data: dataOf(i), blockNumber: `0x${i}` }))
  const members = [memberIsOneOf('address', ['0xab0', '0xab1']), memberIsWithin('blockNumber', 0, 0x11)]
  const spaces = fc.constantFrom(undefined, 1)
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1 }), spaces, (lengths, space) => {
      const text = Buffer.from(JSON.stringify(logs, undefined, space))
      const search = new MemberSearch(members)
      for (let at = 0, i = 0; at < text.length; i++) {
        const length = lengths[i % lengths.length] ?? 1
        search.push(text.subarray(at, at + length))
        at += length
      }
      return search.end() === members.length * logs.length
    }),
  )
  const lastIsWrong = new MemberSearch([memberIsWithin('blockNumber', 0, 0x10)])
  lastIsWrong.push(Buffer.from(JSON.stringify(logs)))
  t.equal(lastIsWrong.end(), logs.length - 1)
})

t.test('a search finds the members of objects that are as long as two others', t => {
  const log = (data: string) => `{"address":"0x01","data":"${data}","blockNumber":"0x10"}`
  const first = log('')
  const text = Buffer.from(`[${[log('ab'.repeat(100)), first, log('c'.repeat(200 - first.length - 1)), first].join()}]`)
  for (const length of [10, 300, text.length]) {
    const search = new MemberSearch([memberIsOneOf('address', ['0x01']), memberIsWithin('blockNumber', 0x10, 0x10)])
    for (let at = 0; at < text.length; at += length) search.push(text.subarray(at, at + length))
    t.equal(search.end(), 8, `in chunks of ${length} bytes`)
  }
  t.end()
})

const readBuffer = getWasmModule()?.readBuffer ?? Buffer.alloc(0)

/** Puts a chunk where connections read, behind bytes that could be taken for its end. */
const readIntoWasm = (chunk: Uint8Array): Uint8Array => {
  readBuffer.fill('"address":"0x').set(chunk)
  return readBuffer.subarray(0, chunk.length)
}

const [addressA, addressB, addressC] = ['Ab', 'cD', 'ef'].map(pair => `0x${pair.repeat(20)}`) as [string, string, string]
const searchedMembers = [memberIsOneOf('address', [addressA, addressB]), memberIsWithin('blockNumber', 0x10, 0x2f)]

/** Logs as nodes write them, with values now and then that are outside, written in another way, or no values of these members. */
const logMembers = fc.record({
  address: fc.constantFrom(addressA, addressA.toLowerCase(), addressB.toUpperCase().replace('X', 'x'), addressB, addressA),
  data: fc.oneof(fc.stringMatching(/^[0-9a-f]{0,300}$/), fc.constantFrom('"address":"', 'address', ':"blockNumber"')),
  blockNumber: fc.constantFrom('0x10', '0x1F', '0X2f', '0x0000000000000011', '0x11', '0x12'),
  removed: fc.boolean(),
})
const oddMembers = fc.constantFrom<object>(
  { address: addressC },
  { address: `${addressA}0` },
  { address: addressA.slice(0, -1) },
  { address: null },
  { blockNumber: '0xf' },
  { blockNumber: '0x30' },
  { blockNumber: '0x' },
  { blockNumber: 17 },
  { blockNumber: '0x1g' },
  { nested: { address: addressB } },
)
const logText = fc
  .record({
    logs: fc.array(logMembers, { minLength: 3, maxLength: 40 }),
    odd: fc.option(oddMembers, { freq: 2, nil: {} }),
    oddIndex: fc.nat(40),
    isReversed: fc.boolean(),
    space: fc.constantFrom(undefined, 1),
  })
  .map(({ logs, odd, oddIndex, isReversed, space }) => {
    const all = logs.map((log, i) => ({ ...log, ...(i === oddIndex ? odd : {}) }))
    const ordered = isReversed ? all.map(log => Object.fromEntries(Object.entries(log).reverse())) : all
    return Buffer.from(JSON.stringify(ordered, undefined, space))
  })

t.test('the search in WebAssembly finds what the search in JavaScript finds', async t => {
  const countIn = (text: Uint8Array, lengths: readonly number[], minWasmBytes: number): number => {
    const search = new MemberSearch(searchedMembers, minWasmBytes)
    for (let at = 0, i = 0; at < text.length; i++) {
      const length = lengths[i % lengths.length]!
      search.push(readIntoWasm(text.subarray(at, at + length)))
      at += length
    }
    return search.end()
  }
  const lengths = fc.array(fc.integer({ min: 1, max: 3_000 }), { minLength: 1, maxLength: 5 })
  const isAlike = (text: Uint8Array, cuts: readonly number[]): boolean => countIn(text, cuts, 1) === countIn(text, cuts, Infinity)
  t.doesNotThrow(() => fc.assert(fc.property(logText, lengths, isAlike), { numRuns: 300 }))
})

t.test('WebAssembly leaves to JavaScript what it cannot compare', async t => {
  const texts = [addressA, addressB]
  const log = `{"address":"${addressA}","blockNumber":"0x11"},`
  const text = readIntoWasm(Buffer.from(log.repeat(100)))
  const search = WasmMemberSearch.create([
    { name: 'address', values: { texts } },
    { name: 'blockNumber', values: { from: 0x10, to: Infinity } },
  ])
  const start = search?.search(text, 50 * log.length, { position: 0, memberIndex: 0 })
  t.match(start, { foundCount: 100, needsJudgment: false })
  const position = start?.position ?? 0
  text.set(bytes('x'), 60 * log.length + log.indexOf(addressA))
  t.match(search?.search(text, 90 * log.length, { position, memberIndex: 0 }), { foundCount: 20, needsJudgment: true })
  t.equal(WasmMemberSearch.create([undefined]), undefined, 'a member that only a function accepts')
  t.equal(WasmMemberSearch.create([{ name: 'blockNumberOfTheLog', values: { from: 0, to: 1 } }]), undefined, 'a long name')
  t.equal(WasmMemberSearch.create([{ name: 'address', values: { texts: ['0xab'] } }]), undefined, 'a short text')
  t.equal(WasmMemberSearch.create([{ name: 'address', values: { texts: [addressA, `${addressA}0`] } }]), undefined, 'texts of two lengths')
  const many = Array.from({ length: 1_000 }, (_, i) => addressA.slice(0, -4) + String(1_000 + i))
  t.equal(WasmMemberSearch.create([{ name: 'address', values: { texts: many } }]), undefined, 'more texts than there is room for')
})
