import { createHash } from 'node:crypto'
import type { Json, JsonObject } from '../../../src/plugin/plugin.ts'
import { MalformedMember, toBytes, toList } from '../hex.ts'

// Roots of the containers of light clients: hash_tree_root of ethereum/consensus-specs, ssz/simple-serialize.md.

const chunkBytes = 32
const keyBytes = 48
export const membersPerCommittee = 512

export const hashPair = (left: Uint8Array, right: Uint8Array): Buffer => createHash('sha256').update(left).update(right).digest()

/** Of a tree of so many leaves (a power of two), of which those that are not given are zeros. */
const merkleRootOf = (chunks: readonly Buffer[], leaves: number): Buffer => {
  let nodes: readonly Buffer[] = chunks
  let zero: Buffer = Buffer.alloc(chunkBytes)
  for (let width = leaves; width > 1; width /= 2) {
    nodes = Array.from({ length: Math.ceil(nodes.length / 2) }, (_, i) => hashPair(nodes[2 * i]!, nodes[2 * i + 1] ?? zero))
    zero = hashPair(zero, zero)
  }
  return nodes[0]!
}

export const padded = (bytes: Uint8Array): Buffer => Buffer.concat([bytes, Buffer.alloc(chunkBytes - bytes.length)])

/** The Beacon API writes integers as decimal texts. */
const toUint = (value: Json | undefined, bits: number): bigint => {
  if (typeof value !== 'string' || !/^\d{1,78}$/.test(value)) throw new MalformedMember()
  const number = BigInt(value)
  if (number >> BigInt(bits) !== 0n) throw new MalformedMember()
  return number
}

/** A slot or the number of a block. */
export const toUintNumber = (value: Json | undefined): number => {
  const number = Number(toUint(value, 64))
  if (!Number.isSafeInteger(number)) throw new MalformedMember()
  return number
}

const uintChunk = (value: bigint): Buffer => Buffer.from(value.toString(16).padStart(2 * chunkBytes, '0'), 'hex').reverse()

export const toBytesOf = (value: Json | undefined, length: number): Buffer => {
  const bytes = toBytes(value)
  if (bytes.length !== length) throw new MalformedMember()
  return bytes
}

export const toRoot = (value: Json | undefined): Buffer => toBytesOf(value, chunkBytes)

type ToChunk = (value: Json | undefined) => Buffer

const uint64: ToChunk = value => uintChunk(toUint(value, 64))
const uint256: ToChunk = value => uintChunk(toUint(value, 256))
const address: ToChunk = value => padded(toBytesOf(value, 20))

const bloom: ToChunk = value => {
  const bytes = toBytesOf(value, 256)
  return merkleRootOf(
    Array.from({ length: 8 }, (_, i) => bytes.subarray(i * chunkBytes, (i + 1) * chunkBytes)),
    8,
  )
}

const extraData: ToChunk = value => {
  const bytes = toBytes(value)
  if (bytes.length > chunkBytes) throw new MalformedMember()
  return hashPair(padded(bytes), uintChunk(BigInt(bytes.length)))
}

type ContainerFields = readonly (readonly [name: string, toChunk: ToChunk])[]

const containerRoot = (value: JsonObject, fields: ContainerFields, leaves: number): Buffer =>
  merkleRootOf(
    fields.map(([name, toChunk]) => toChunk(value[name])),
    leaves,
  )

const beaconHeaderFields: ContainerFields = [
  ['slot', uint64],
  ['proposer_index', uint64],
  ['parent_root', toRoot],
  ['state_root', toRoot],
  ['body_root', toRoot],
]

export const beaconHeaderRootOf = (header: JsonObject): Buffer => containerRoot(header, beaconHeaderFields, 8)

const capellaFields: ContainerFields = [
  ['parent_hash', toRoot],
  ['fee_recipient', address],
  ['state_root', toRoot],
  ['receipts_root', toRoot],
  ['logs_bloom', bloom],
  ['prev_randao', toRoot],
  ['block_number', uint64],
  ['gas_limit', uint64],
  ['gas_used', uint64],
  ['timestamp', uint64],
  ['extra_data', extraData],
  ['base_fee_per_gas', uint256],
  ['block_hash', toRoot],
  ['transactions_root', toRoot],
  ['withdrawals_root', toRoot],
]

const denebFields: ContainerFields = [...capellaFields, ['blob_gas_used', uint64], ['excess_blob_gas', uint64]]

/** Of an ExecutionPayloadHeader as the fork Capella has it, or Deneb and those after it. */
export const executionHeaderRootOf = (header: JsonObject, isSinceDeneb: boolean): Buffer =>
  isSinceDeneb ? containerRoot(header, denebFields, 32) : containerRoot(header, capellaFields, 16)

/** A sync committee: the keys of its members in their order. A validator may be a member several times. */
export interface Committee {
  readonly root: Buffer
  readonly keys: readonly Buffer[]
}

const keyRoot = (key: Buffer): Buffer => hashPair(key.subarray(0, chunkBytes), padded(key.subarray(chunkBytes)))

export const toCommittee = ({ pubkeys, aggregate_pubkey: aggregate }: JsonObject): Committee => {
  const keys = toList(pubkeys).map(key => toBytesOf(key, keyBytes))
  if (keys.length !== membersPerCommittee) throw new MalformedMember()
  return { keys, root: hashPair(merkleRootOf(keys.map(keyRoot), membersPerCommittee), keyRoot(toBytesOf(aggregate, keyBytes))) }
}

/**
 * Whether the branch leads from the leaf at the generalized index to the root. Containers of a later fork have longer branches: what is in front then is
 * zeros.
 */
export const isBranch = (leaf: Buffer, branch: readonly Buffer[], index: number, root: Buffer): boolean => {
  const depth = Math.floor(Math.log2(index))
  const extra = branch.length - depth
  if (extra < 0 || branch.slice(0, extra).some(node => node.some(byte => byte !== 0))) return false
  let node: Buffer = leaf
  for (let i = 0; i < depth; i++) {
    const sibling = branch[extra + i]!
    node = (index >> i) % 2 === 1 ? hashPair(sibling, node) : hashPair(node, sibling)
  }
  return node.equals(root)
}
