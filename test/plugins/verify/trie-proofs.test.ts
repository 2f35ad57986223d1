import fc from 'fast-check'
import t from '../../support/tap.ts'
import { MalformedMember, toHex } from '../../../plugins/verify/hex.ts'
import { decodeRlp, encodeRlp } from '../../../plugins/verify/rlp.ts'
import type { RlpItem } from '../../../plugins/verify/rlp.ts'
import { emptyCodeHash, provenAccountOf } from '../../../plugins/verify/state-proof.ts'
import { emptyRoot, valueInTrie } from '../../../plugins/verify/trie-proof.ts'
import { nibblesOf } from '../../../plugins/verify/trie-root.ts'
import { keccak256 } from '../../../src/plugin/plugin.ts'

const compact = (nibbles: readonly number[], isLeaf: boolean): Buffer => {
  const flag = isLeaf ? 2 : 0
  const all = nibbles.length % 2 === 0 ? [flag, 0, ...nibbles] : [flag + 1, ...nibbles]
  return Buffer.from(all.map(each => each.toString(16)).join(''), 'hex')
}
const empty = Buffer.alloc(0)

/** What is on the path from the root to the leaf: a branch, or an extension over so many half bytes. */
type Step = 'branch' | number

/** A trie in which the key has that value below these nodes, and its proof. Nodes of less than 32 bytes stand in their parent. */
const buildTrie = (key: Buffer, value: Buffer, steps: readonly Step[]) => {
  const path = nibblesOf(keccak256(key))
  const proof: Buffer[] = []
  let at = 0
  const starts = steps.map(step => {
    const start = at
    at += step === 'branch' ? 1 : step
    return start
  })
  let node: RlpItem = [compact(path.slice(at), true), value]
  for (const [i, step] of [...steps.entries()].reverse()) {
    const bytes = encodeRlp(node)
    if (bytes.length >= 32) proof.unshift(bytes)
    const reference: RlpItem = bytes.length < 32 ? node : keccak256(bytes)
    const start = starts[i]!
    node =
      step === 'branch'
        ? Array.from({ length: 17 }, (_, nibble): RlpItem => (nibble === path[start] ? reference : empty))
        : [compact(path.slice(start, start + step), false), reference]
  }
  const root = encodeRlp(node)
  proof.unshift(root)
  return { root: toHex(keccak256(root)), proof }
}

const key = fc.uint8Array({ minLength: 20, maxLength: 32 }).map(bytes => Buffer.from(bytes))
const value = fc.uint8Array({ minLength: 1, maxLength: 40 }).map(bytes => Buffer.from(bytes))
/** Up to 63 half bytes, so that leaves have paths of each length. */
const steps = fc.array(fc.oneof(fc.constant<Step>('branch'), fc.integer({ min: 1, max: 30 })), { maxLength: 40 }).map(all => {
  let left = 63
  return all.filter(step => (left -= step === 'branch' ? 1 : step) >= 0)
})

t.test('the proof of a trie of branches and extensions, with nodes that stand in their parent', async t => {
  t.test('shows the value, whatever the order of its nodes is, and with others and the same ones between them', async () => {
    fc.assert(
      fc.property(key, value, steps, fc.uint8Array({ maxLength: 60 }), (key, value, steps, other) => {
        const { root, proof } = buildTrie(key, value, steps)
        const mixed = [Buffer.from(other), ...proof.toReversed(), ...proof.slice(0, 40)]
        return [proof, mixed].every(each => valueInTrie(root, key, each)?.equals(value) === true)
      }),
      { numRuns: 500 },
    )
  })

  t.test('shows that another key has none, or nothing', async () => {
    fc.assert(
      fc.property(key, key, value, steps, (key, other, value, steps) => {
        const { root, proof } = buildTrie(key, value, steps)
        return key.equals(other) || resultOf(() => valueInTrie(root, other, proof)) !== 'value'
      }),
      { numRuns: 500 },
    )
  })

  t.test('shows nothing where a node is missing, is changed, or has bytes behind its end', async () => {
    fc.assert(
      fc.property(key, value, steps, fc.nat(), fc.integer({ min: 1, max: 255 }), (key, value, steps, which, bits) => {
        const { root, proof } = buildTrie(key, value, steps)
        const i = which % proof.length
        const changed = Buffer.from(proof[i]!)
        changed[which % changed.length]! ^= bits
        const wrong = [proof.toSpliced(i, 1), proof.with(i, changed), proof.with(i, Buffer.concat([proof[i]!, Buffer.from([0])]))]
        return wrong.every(each => resultOf(() => valueInTrie(root, key, each)) === 'nothing')
      }),
      { numRuns: 500 },
    )
  })
})

/** `none`: it is proven that there is none. */
const resultOf = (find: () => Buffer | undefined): 'value' | 'none' | 'nothing' => {
  try {
    return find() === undefined ? 'none' : 'value'
  } catch (error) {
    if (error instanceof MalformedMember) return 'nothing'
    throw error
  }
}

t.test('a proof of more nodes than a path has, or of longer ones than a branch is, is none', async t => {
  const [key, value] = [Buffer.from('key'), Buffer.from('value')]
  const { root, proof } = buildTrie(key, value, ['branch', 3, 'branch'])
  t.equal(
    resultOf(() => valueInTrie(root, key, [...proof, ...Array.from({ length: 128 }, () => proof[0]!)])),
    'nothing',
  )
  t.equal(
    resultOf(() => valueInTrie(root, key, [...proof, Buffer.alloc(4_097)])),
    'nothing',
  )
  t.equal(
    resultOf(() => valueInTrie(emptyRoot, key, [])),
    'none',
  )
  t.equal(
    resultOf(() => valueInTrie(emptyRoot, key, proof)),
    'nothing',
  )
})

t.test('bytes that are no RLP are malformed, and nothing else', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), bytes => {
      resultOf(() => (decodeRlp(Buffer.from(bytes)), undefined))
    }),
    { numRuns: 2_000 },
  )
})

t.test('an account with other fields than those of Ethereum is none', async t => {
  const address = `0x${'a1'.repeat(20)}`
  const [root, code] = [emptyRoot, emptyCodeHash].map(hash => Buffer.from(hash.slice(2), 'hex')) as [Buffer, Buffer]
  const open = (fields: readonly Buffer[]) => {
    const trie = buildTrie(Buffer.from(address.slice(2), 'hex'), encodeRlp(fields), [])
    return () => provenAccountOf({ accountProof: trie.proof.map(toHex) }, trie.root, address)
  }
  const number = Buffer.from([7])
  t.match(open([number, number, root, code])(), { storageRoot: emptyRoot, codeHash: emptyCodeHash })
  // As Blast has it: flags, fixed, shares and the remainder behind the nonce.
  for (const fields of [
    [number, number, number, number, number, root, code],
    [number, number, root, code, number],
    [number, number, root],
    [number, number, number, code],
  ])
    t.throws(open(fields))
})
