import { keccak256 } from '../../src/plugin/plugin.ts'
import { encodeRlp } from './rlp.ts'
import type { RlpItem } from './rlp.ts'
import { runAtOnce } from './work-turns.ts'
import type { Steps } from './work-turns.ts'

interface Entry {
  /** The key in half bytes. */
  readonly path: readonly number[]
  readonly value: Uint8Array
}

/** The root of the trie over a list, as in a block's header: its keys are the positions (RLP). 200 receipts take 1 ms. */
export const trieRootOf = (values: readonly Uint8Array[]): Buffer => runAtOnce(trieRootSteps(values))

export function* trieRootSteps(values: readonly Uint8Array[]): Steps<Buffer> {
  const entries = values.map((value, i) => ({ path: nibblesOf(encodeRlp(indexBytesOf(i))), value }))
  return keccak256(encodeRlp(yield* nodeSteps(entries, 0)))
}

const indexBytesOf = (i: number): Buffer => {
  const hex = i === 0 ? '' : i.toString(16)
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')
}

export const nibblesOf = (bytes: Uint8Array): number[] => Array.from(bytes).flatMap(byte => [byte >> 4, byte & 15])

const empty = Buffer.alloc(0)

/** The node over entries whose paths are the same up to `depth`. */
function* nodeSteps(entries: readonly Entry[], depth: number): Steps<RlpItem> {
  const [first] = entries
  if (first === undefined) return empty
  if (entries.length === 1) return [compactPath(first.path.slice(depth), true), first.value]
  const shared = sharedLengthOf(entries, depth)
  if (shared > 0)
    return [compactPath(first.path.slice(depth, depth + shared), false), yield* referenceSteps(yield* nodeSteps(entries, depth + shared))]
  const children: RlpItem[] = []
  for (let nibble = 0; nibble < 16; nibble++) {
    const below = entries.filter(({ path }) => path[depth] === nibble)
    children.push(below.length === 0 ? empty : yield* referenceSteps(yield* nodeSteps(below, depth + 1)))
  }
  return [...children, entries.find(({ path }) => path.length === depth)?.value ?? empty]
}

const sharedLengthOf = ([first, ...others]: readonly Entry[], depth: number): number => {
  let length = 0
  while (first?.path[depth + length] !== undefined && others.every(({ path }) => path[depth + length] === first.path[depth + length]))
    length++
  return length
}

/** A node of less than 32 bytes stands in its parent itself. */
function* referenceSteps(node: RlpItem): Steps<RlpItem> {
  const bytes = encodeRlp(node)
  yield bytes.length
  return bytes.length < 32 ? node : keccak256(bytes)
}

/** The half bytes as bytes, with a flag for a leaf and one for an odd number of them. */
const compactPath = (path: readonly number[], isLeaf: boolean): Buffer => {
  const flag = isLeaf ? 2 : 0
  const nibbles = path.length % 2 === 0 ? [flag, 0, ...path] : [flag + 1, ...path]
  return Buffer.from(Array.from({ length: nibbles.length / 2 }, (_, i) => nibbles[2 * i]! * 16 + nibbles[2 * i + 1]!))
}
