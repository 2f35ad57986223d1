import assert, { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { ChunkBuffer, ChunkedBytes, toBuffer, toRawJson } from '../../src/json/chunked-bytes.ts'

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
