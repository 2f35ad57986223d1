import { keccak_256 } from '@noble/hashes/sha3.js'
import fc from 'fast-check'
import t from '../support/tap.ts'
import { keccak256 } from '../../src/json/keccak-256.ts'

t.test('the hash of any bytes is that of another implementation', async t => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), bytes => t.ok(keccak256(bytes).equals(keccak_256(bytes)))),
    { numRuns: 300 },
  )
})

t.test('bytes of each length around a block, and more than the memory takes at once, are hashed', async t => {
  for (const length of [0, 135, 136, 137, 271, 272, 64_464, 64_465, 130_000]) {
    const bytes = Uint8Array.from({ length }, (_, i) => i * 7 + length)
    t.ok(keccak256(bytes).equals(keccak_256(bytes)), `${length} bytes`)
  }
})

t.test('a hash stays what it is when another is computed', async t => {
  const hash = keccak256(Buffer.from('one'))
  const text = hash.toString('hex')
  keccak256(Buffer.from('another'))
  t.equal(hash.toString('hex'), text)
})
