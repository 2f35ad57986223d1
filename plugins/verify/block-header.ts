import { isJsonObject, keccak256, parseHexQuantity } from '../../src/plugin/plugin.ts'
import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import { MalformedMember, isAbsent, isSameHex, toBytes, toHex, toHexText, toQuantityBytes } from './hex.ts'
import type { RlpItem } from './rlp.ts'
import { encodeRlp } from './rlp.ts'

type Field = readonly [name: string, toItem: typeof toBytes]

/** 8 bytes. Some nodes write it as a number. */
const toNonce = (value: Json | undefined): Buffer => {
  const bytes = toQuantityBytes(value)
  return bytes.length > nonceBytes ? bytes : Buffer.concat([Buffer.alloc(nonceBytes - bytes.length), bytes])
}

const nonceBytes = 8

/** The fields of a header in the order of its encoding. */
const fields: readonly Field[] = [
  ['parentHash', toBytes],
  ['sha3Uncles', toBytes],
  ['miner', toBytes],
  ['stateRoot', toBytes],
  ['transactionsRoot', toBytes],
  ['receiptsRoot', toBytes],
  ['logsBloom', toBytes],
  ['difficulty', toQuantityBytes],
  ['number', toQuantityBytes],
  ['gasLimit', toQuantityBytes],
  ['gasUsed', toQuantityBytes],
  ['timestamp', toQuantityBytes],
  ['extraData', toBytes],
  ['mixHash', toBytes],
  ['nonce', toNonce],
]

/** What forks have added, in their order: a header has the first of these. */
const addedFields: readonly Field[] = [
  ['baseFeePerGas', toQuantityBytes],
  ['withdrawalsRoot', toBytes],
  ['blobGasUsed', toQuantityBytes],
  ['excessBlobGas', toQuantityBytes],
  ['parentBeaconBlockRoot', toBytes],
  ['requestsHash', toBytes],
  ['blockAccessListHash', toBytes],
  ['slotNumber', toQuantityBytes],
]

/** By a field: how some versions of clients name it. */
const otherNames: Readonly<Record<string, string>> = { blockAccessListHash: 'balHash' }

/** What a block has beside the fields of its header. */
const otherMembers = ['hash', 'size', 'totalDifficulty', 'uncles', 'transactions', 'withdrawals']

/** All members of a block of Ethereum. */
export const headerMembers: readonly string[] = [
  ...[...fields, ...addedFields].map(([name]) => name),
  ...Object.values(otherNames),
  ...otherMembers,
]

const knownMembers: ReadonlySet<string> = new Set(headerMembers)

/** Keccak-256 of an empty list (RLP): `sha3Uncles` of a block without uncles. */
export const emptyListHash = '0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347'

/** The hash of a block's header, computed from its fields; the fields of the forks are those that the block has. Throws MalformedMember. */
export const headerHashOf = (block: JsonObject): string => {
  const items = [...fields, ...addedFields.filter(([name]) => hasMember(block, name))].map(
    ([name, toItem]): RlpItem => toItem(fieldOf(block, name)),
  )
  const encoding = encodeRlp(items)
  if (encoding.length > maxHeaderBytes) throw new MalformedMember()
  return toHex(keccak256(encoding))
}

/** Those of Ethereum have 1 KiB; networks have lists of validators in `extraData`. */
const maxHeaderBytes = 262_144

/** A field under either of its names. Throws MalformedMember where the block has both, and they differ. */
const fieldOf = (block: JsonObject, name: string): Json | undefined => {
  const other = block[otherNames[name] ?? name]
  if (isAbsent(other)) return block[name]
  if (!isAbsent(block[name]) && !isSameHex(block[name], other)) throw new MalformedMember()
  return other
}

/** Some nodes write null for a field of a fork that the block does not have. */
const hasMember = (block: JsonObject, name: string): boolean => [name, otherNames[name] ?? name].some(each => !isAbsent(block[each]))

/** Which fields of forks the block has, and which members that no header of Ethereum has: chains with the same shape hash alike. */
export const headerShapeOf = (block: JsonObject): { readonly shape: string; readonly isOfEthereum: boolean } => {
  const unknown = Object.keys(block).filter(name => !knownMembers.has(name))
  const has = addedFields.map(([name]) => hasMember(block, name))
  return { shape: [has.map(Number).join(''), ...unknown.sort()].join(' '), isOfEthereum: unknown.length === 0 }
}

/** Each fork has kept the fields of those before it. With gaps, a value could be shown under the name of another field, and hash alike. */
export const hasFieldsInOrder = (block: JsonObject): boolean =>
  addedFields.every(([name], i) => i === 0 || !hasMember(block, name) || hasMember(block, addedFields[i - 1]![0]))

/** What of a header is needed for proofs, in lower case. */
export interface TrustedHeader {
  readonly number: number
  readonly hash: string
  readonly parentHash: string
  readonly stateRoot: string
  readonly transactionsRoot: string
  readonly receiptsRoot: string
  readonly logsBloom: string
  /** Seconds since 1970, as a hex quantity. */
  readonly timestamp: string
  /** A hex quantity; undefined before the fork that has added it. */
  readonly baseFeePerGas: string | undefined
  /** False before the fork that has added the root: Shanghai, which the OP stack has with its Canyon. */
  readonly hasWithdrawalsRoot: boolean
}

/** The header of a block whose hash is that of its fields, if it is the expected one. */
export const toTrustedHeader = (
  block: Json,
  isExpected: (block: { readonly [name: string]: Json }) => boolean,
): TrustedHeader | undefined => {
  if (!isJsonObject(block) || !isExpected(block) || !hasFieldsInOrder(block)) return undefined
  try {
    const hash = headerHashOf(block)
    if (!isSameHex(hash, block['hash'])) return undefined
    const number = parseHexQuantity(block['number'])
    if (number === undefined) return undefined
    const [parentHash, stateRoot, transactionsRoot, receiptsRoot, logsBloom] = usedFields.map(name => toHex(toBytes(block[name])))
    return {
      number,
      hash,
      parentHash: parentHash!,
      stateRoot: stateRoot!,
      transactionsRoot: transactionsRoot!,
      receiptsRoot: receiptsRoot!,
      logsBloom: logsBloom!,
      timestamp: toHexText(block['timestamp']),
      baseFeePerGas:
        block['baseFeePerGas'] === undefined || block['baseFeePerGas'] === null ? undefined : toHexText(block['baseFeePerGas']),
      hasWithdrawalsRoot: hasMember(block, 'withdrawalsRoot'),
    }
  } catch (error) {
    if (error instanceof MalformedMember) return undefined
    throw error
  }
}

const usedFields = ['parentHash', 'stateRoot', 'transactionsRoot', 'receiptsRoot', 'logsBloom']
