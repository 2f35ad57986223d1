import { keccak256 } from '../../src/plugin/plugin.ts'
import { MalformedMember, toHex } from './hex.ts'
import { decodeRlp, isBytes } from './rlp.ts'
import type { RlpItem } from './rlp.ts'
import { nibblesOf } from './trie-root.ts'

/** The root of a trie without entries. */
export const emptyRoot = '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421'

const emptyNode = Buffer.from([0x80])

/**
 * The value under the key in the trie with this root; undefined where the proof shows that there is none. Throws MalformedMember where the proof shows
 * neither. The nodes may come in any order, and with others between them.
 */
export const valueInTrie = (root: string, key: Uint8Array, proof: readonly Buffer[]): Buffer | undefined => {
  if (root.toLowerCase() === emptyRoot) {
    if (proof.every(node => node.equals(emptyNode))) return undefined
    throw new MalformedMember()
  }
  if (proof.length > maxNodes || proof.some(({ length }) => length > maxNodeBytes)) throw new MalformedMember()
  const nodes = new Map(proof.map(node => [toHex(keccak256(node)), node]))
  const resolve = (hash: string): readonly RlpItem[] => {
    const node = nodes.get(hash)
    if (node === undefined) throw new MalformedMember()
    return toNode(decodeRlp(node))
  }
  let path = nibblesOf(keccak256(key))
  let node = resolve(root.toLowerCase())
  for (;;) {
    const next = node.length === branchItemCount ? node[path[0] ?? maxNibble + 1] : behindPath(node, path)
    if (next === undefined || (isBytes(next) && next.length === 0)) return undefined
    if (node.length === branchItemCount) {
      if (path.length === 0) return toValue(next)
      path = path.slice(1)
    } else {
      const { nibbles, isLeaf } = pathOf(node)
      if (isLeaf) return toValue(next)
      path = path.slice(nibbles.length)
    }
    node = isBytes(next) ? resolve(toHex(next)) : toNode(next)
  }
}

const maxNibble = 15
/** A path has 64 half bytes; a few nodes more are no harm. */
const maxNodes = 128
/** A branch of 16 hashes has 532 bytes. */
const maxNodeBytes = 4_096
const branchItemCount = 17

const toNode = (item: RlpItem): readonly RlpItem[] => {
  if (isBytes(item) || (item.length !== branchItemCount && item.length !== 2)) throw new MalformedMember()
  return item
}

const toValue = (item: RlpItem): Buffer => {
  if (!isBytes(item)) throw new MalformedMember()
  return Buffer.from(item.buffer, item.byteOffset, item.length)
}

/** What stands behind the path of a leaf or an extension; undefined where the path of the key leads elsewhere. */
const behindPath = (node: readonly RlpItem[], path: readonly number[]): RlpItem | undefined => {
  const { nibbles, isLeaf } = pathOf(node)
  const isOnPath = nibbles.every((nibble, i) => nibble === path[i]) && (!isLeaf || nibbles.length === path.length)
  return isOnPath ? node[1] : undefined
}

const pathOf = ([compact]: readonly RlpItem[]): { readonly nibbles: readonly number[]; readonly isLeaf: boolean } => {
  const [flag = 0, ...nibbles] = nibblesOf(toValue(compact ?? []))
  return { nibbles: flag % 2 === 0 ? nibbles.slice(1) : nibbles, isLeaf: flag >= 2 }
}
