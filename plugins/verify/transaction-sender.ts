import { keccak256 } from '../../src/plugin/plugin.ts'
import type { JsonObject } from '../../src/plugin/plugin.ts'
import { MalformedMember, toHex, toQuantityBytes } from './hex.ts'
import { signedPartOf } from './transaction-encoding.ts'

type Recover = typeof import('tiny-secp256k1')['recover']

let loading: Promise<Recover> | undefined

/** 1.2 MB of WebAssembly (libsecp256k1), loaded when the first sender is needed. In JavaScript a signature takes ten times the CPU. */
const loadRecover = (): Promise<Recover> => (loading ??= import('tiny-secp256k1').then(({ recover }) => recover))

/** The address that has signed the transaction, in lower case; undefined where the signature is of no key. */
export const senderOf = async (transaction: JsonObject): Promise<string | undefined> => {
  const recover = await loadRecover()
  try {
    const { bytes, parity } = signedPartOf(transaction)
    const signature = Buffer.concat([toWord(transaction['r']), toWord(transaction['s'])])
    const key = recoverKey(() => recover(keccak256(bytes), signature, parity, false))
    return key === null ? undefined : toHex(keccak256(key.subarray(1)).subarray(12))
  } catch (error) {
    if (error instanceof MalformedMember) return undefined
    throw error
  }
}

/** The library throws for numbers that no signature has. */
const recoverKey = (recover: () => Uint8Array | null): Uint8Array | null => {
  try {
    return recover()
  } catch {
    return null
  }
}

const wordBytes = 32

const toWord = (value: JsonObject[string] | undefined): Buffer => {
  const bytes = toQuantityBytes(value)
  if (bytes.length > wordBytes) throw new MalformedMember()
  return Buffer.concat([Buffer.alloc(wordBytes - bytes.length), bytes])
}
