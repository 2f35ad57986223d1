import fc from 'fast-check'
import { test } from 'tap'
import { ChunkedBytes, toBuffer } from '../../src/json/chunked-bytes.ts'
import { MemberSearch, memberIsOneOf, memberIsWithin } from '../../src/services/member-search.ts'
import { results } from '../../src/services/results.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text)
const toRows = (objects: Awaited<ReturnType<typeof results.extractObjectsAsync>>) =>
  objects?.map(({ rawJson, members }) => [toBuffer(rawJson).toString(), ...members])

test('the object of a result, or each element of its array, comes with the text of its members', async t => {
  const [one, two] = ['{"b":"x", "a" : [1, 2]}', '{ "a":null}']
  t.strictSame(toRows(results.extractObjects(bytes(one), ['a', 'b'])), [[one, '[1, 2]', '"x"']])
  t.strictSame(toRows(results.extractObjects(bytes(`[${one} ,\n${two}]`), ['a', 'b'])), [
    [one, '[1, 2]', '"x"'],
    [two, 'null', undefined],
  ])
  t.strictSame(toRows(results.extractObjects(bytes('[]'), ['a'])), [])
})

test('an object may have many members, as blocks of some networks do', async t => {
  const block = JSON.stringify(Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`member${i}`, i])))
  t.strictSame(toRows(results.extractObjects(bytes(block), ['member99'])), [[block, '99']])
  t.strictSame(toRows(await results.extractObjectsAsync(bytes(`[${block}]`), ['member0'])), [[block, '0']])
})

test('what is no object, or no JSON, is undefined', async t => {
  for (const text of ['null', '1', '[1]', '[{},2]', '[{}', '{"a":}', '']) {
    t.equal(results.extractObjects(bytes(text), ['a']), undefined, text)
    t.equal(await results.extractObjectsAsync(bytes(text), ['a']), undefined, text)
  }
})

test('a long array is split as a short one, and joined again', async t => {
  const elements = Array.from({ length: 20_000 }, (_, i) => `{"data":"0x${'ab'.repeat(i % 90)}", "n":${i}}`)
  const whole = bytes(`[${elements.join(',')}]`)
  const chunked = new ChunkedBytes(Array.from({ length: 1 + whole.length / 65_536 }, (_, i) => whole.subarray(i << 16, (i + 1) << 16)))
  for (const text of [whole, chunked]) {
    const objects = await results.extractObjectsAsync(text, ['n'])
    t.equal(objects?.length, 20_000)
    t.ok(objects?.every(({ members }, i) => members[0] === String(i)))
    t.ok(toBuffer(await results.joinArray(objects?.map(({ rawJson }) => rawJson) ?? [])).equals(whole))
    t.same(results.extractObjects(text, ['n']), objects)
    t.ok(toBuffer(await results.toContiguous(text)).equals(whole))
  }
  t.equal(Buffer.from(await results.joinArray([])).toString(), '[]')
})

test('the members of an object are found without reading on behind them', async t => {
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

test('a search finds the members of all objects, however the text comes in chunks', async t => {
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
