import { LRUCache } from 'lru-cache'
import type { TrustedHeader } from './block-header.ts'

/** The hash of the code of an account, which a proof has shown for the block of the header. */
interface ProvenCode {
  readonly codeHash: string
  readonly header: TrustedHeader
}

const maxCodes = 4096

/** Hashes of codes that proofs have shown: code that a node returns without a proof must have them. */
export class ProvenCodes {
  readonly #codes = new LRUCache<string, ProvenCode>({ max: maxCodes })

  record(address: string, code: ProvenCode): void {
    this.#codes.set(keyOf(address, code.header.hash), code)
  }

  find(address: string, blockHash: string): ProvenCode | undefined {
    return this.#codes.get(keyOf(address, blockHash))
  }
}

const keyOf = (address: string, blockHash: string): string => `${address} ${blockHash}`.toLowerCase()
