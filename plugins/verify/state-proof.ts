import { keccak256 } from '../../src/plugin/plugin.ts'
import type { Json } from '../../src/plugin/plugin.ts'
import { MalformedMember, toBytes, toHex, toList, toObject } from './hex.ts'
import { decodeRlp, isBytes } from './rlp.ts'
import { emptyRoot, valueInTrie } from './trie-proof.ts'

/** An account, as the state root of a block has it. */
export interface ProvenAccount {
  readonly nonce: Uint8Array
  readonly balance: Uint8Array
  readonly storageRoot: string
  readonly codeHash: string
}

/** Keccak-256 of no bytes. */
export const emptyCodeHash = '0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470'

/** An account that is not in the state. */
const absentAccount: ProvenAccount = {
  nonce: Buffer.alloc(0),
  balance: Buffer.alloc(0),
  storageRoot: emptyRoot,
  codeHash: emptyCodeHash,
}

/** The account that an answer of eth_getProof proves; of its other members nothing is used. Throws MalformedMember where it proves none. */
export const provenAccountOf = (proof: Json, stateRoot: string, address: string): ProvenAccount => {
  const value = valueInTrie(stateRoot, toBytes(address), toList(toObject(proof)['accountProof']).map(toBytes))
  if (value === undefined) return absentAccount
  const fields = decodeRlp(value)
  if (isBytes(fields)) throw new MalformedMember()
  const [nonce, balance, storageRoot, codeHash, ...others] = fields.map(field => {
    if (!isBytes(field)) throw new MalformedMember()
    return field
  })
  // Networks have accounts with other fields, at other places.
  const isOfEthereum = storageRoot?.length === hashBytes && codeHash?.length === hashBytes && others.length === 0
  if (nonce === undefined || balance === undefined || !isOfEthereum) throw new MalformedMember()
  return { nonce, balance, storageRoot: toHex(storageRoot), codeHash: toHex(codeHash) }
}

const hashBytes = 32

/** The value of the only slot of the answer; no bytes for 0. Throws MalformedMember where it proves none. */
export const provenSlotOf = (proof: Json, { storageRoot }: ProvenAccount, slot: string): Uint8Array => {
  if (storageRoot === emptyRoot) return Buffer.alloc(0)
  const [entry] = toList(toObject(proof)['storageProof'])
  const value = valueInTrie(storageRoot, toBytes(slot), toList(toObject(entry)['proof']).map(toBytes))
  if (value === undefined) return Buffer.alloc(0)
  const number = decodeRlp(value)
  if (!isBytes(number)) throw new MalformedMember()
  return number
}

/** Whether the result is the code with this hash. */
export const isCode = (result: Json, codeHash: string): boolean => {
  try {
    return toHex(keccak256(toBytes(result))) === codeHash
  } catch (error) {
    if (error instanceof MalformedMember) return false
    throw error
  }
}
