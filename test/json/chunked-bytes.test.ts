import assert, { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from '../support/tap.ts'
import { ChunkBuffer, ChunkedBytes, chunksOf, memoryOf, toBuffer, toRawJson, withoutMemory } from '../../src/json/chunked-bytes.ts'
import { createLongResult } from '../support/long-result.ts'

t.test('chunks are what one array would be', async t => {
  const chunks = fc.array(fc.oneof(fc.nat(300), fc.integer({ min: 16_000, max: 70_000 })), { minLength: 1, maxLength: 9 })
  const property = fc.property(
    chunks,
    fc.boolean(),
    fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 9 }),
    (lengths, isAnnounced, parts) => {
      const whole = Buffer.alloc(lengths.reduce((sum, length) => sum + length + 1, 0)).map((_, i) => (i * 31) >> 3)
      const buffer = new ChunkBuffer(isAnnounced ? whole.length : 0)
      for (const length of lengths) buffer.push(whole.subarray(buffer.byteLength, buffer.byteLength + length + 1))
      const { rawJson } = buffer
      deepStrictEqual([rawJson.byteLength, rawJson instanceof ChunkedBytes], [whole.length, whole.length > 16_384 && lengths.length > 1])
      assert(toBuffer(rawJson).equals(whole))
      for (const [one, other] of parts) {
        const [start = 0, end = 0] = [one, other].map(n => n % (whole.length + 1)).sort((a, b) => a - b)
        const part = rawJson.subarray(start, end)
        deepStrictEqual([part.byteLength, rawJson.at(start)], [end - start, whole[start]])
        assert(toBuffer(part).equals(whole.subarray(start, end)))
      }
    },
  )
  fc.assert(property, { numRuns: 300 })
  t.strictSame(toRawJson([]), Buffer.from(''))
})

t.test('a text above 256 KiB', async t => {
  t.test('is freed at once when its last holder releases it, and whoever still has bytes of it has none', async t => {
    const { result, memory } = createLongResult(6_000_000)
    const [part, chunks] = [result.subarray(2, 2_000_000), chunksOf(result)]
    memory.addHolder()
    t.equal(memory.release(), 0)
    t.ok(toBuffer(result).equals(Buffer.alloc(6_000_000, '0')))
    const heldBytes = process.memoryUsage().arrayBuffers
    t.equal(memory.release(), 6_000_000)
    t.ok(heldBytes - process.memoryUsage().arrayBuffers >= 6_000_000, 'before any collection')
    t.ok(chunks.every(({ length }) => length === 0))
    for (const text of [result, part]) {
      t.throws(() => toBuffer(text), /has been freed/)
      t.throws(() => text.at(0), /has been freed/)
      t.throws(() => text.subarray(0, 1), /has been freed/)
    }
    t.throws(() => memory.release(), /has been freed/)
    t.throws(() => memory.addHolder(), /has been freed/)
  })

  t.test('is not freed where a plugin from outside may have kept it', async t => {
    const { result, memory } = createLongResult(600_000)
    const kept = withoutMemory(result)
    t.equal(memory.release(), 0)
    t.ok(toBuffer(kept).equals(Buffer.alloc(600_000, '0')))
    t.equal(memoryOf(kept), undefined, 'nor can the plugin free it')
    t.equal(withoutMemory(kept), kept)
  })
})

t.test('a shorter text is left to the garbage collector', async t => {
  for (const isAnnounced of [true, false]) {
    const buffer = new ChunkBuffer(isAnnounced ? 200_000 : 0)
    for (let i = 0; i < 20; i++) buffer.push(Buffer.alloc(10_000, '0'), true)
    t.equal(memoryOf(buffer.rawJson), undefined)
  }
})
