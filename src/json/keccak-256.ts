import { keccak_256 } from '@noble/hashes/sha3.js'
import { getWasmModule, wasmLayout } from './wasm-module.ts'
import type { WasmModule } from './wasm-module.ts'

/** json-bytes.wasm, as far as wasm/keccak.ts goes. */
interface KeccakExports {
  prepareKeccak(): void
  resetKeccak(): void
  absorbKeccak(offset: number, blocks: number): void
}

const blockBytes = 136
const hashBytes = 32
const { hashOffsetBytes, hashedOffsetBytes, hashedBytes } = wasmLayout
/** Whole blocks that fit the memory. */
const maxBytesAtOnce = hashedBytes - (hashedBytes % blockBytes)

class WasmKeccak {
  readonly #exports: KeccakExports
  readonly #hash: Buffer
  readonly #input: Uint8Array

  constructor({ memory, exports }: WasmModule) {
    this.#exports = exports as KeccakExports // as its source declares them
    this.#hash = Buffer.from(memory, hashOffsetBytes, hashBytes)
    this.#input = new Uint8Array(memory, hashedOffsetBytes, maxBytesAtOnce)
    this.#exports.prepareKeccak()
  }

  hash(bytes: Uint8Array): Buffer {
    const wasm = this.#exports
    wasm.resetKeccak()
    let at = 0
    for (; bytes.length - at >= maxBytesAtOnce; at += maxBytesAtOnce) {
      this.#input.set(bytes.subarray(at, at + maxBytesAtOnce))
      wasm.absorbKeccak(hashedOffsetBytes, maxBytesAtOnce / blockBytes)
    }
    const rest = bytes.length - at
    const padded = rest - (rest % blockBytes) + blockBytes
    this.#input.set(at === 0 ? bytes : bytes.subarray(at))
    this.#input.fill(0, rest, padded)
    this.#input[rest] = 1
    this.#input[padded - 1]! |= 0x80
    wasm.absorbKeccak(hashedOffsetBytes, padded / blockBytes)
    return Buffer.from(this.#hash)
  }
}

let wasmKeccak: { readonly instance: WasmKeccak | undefined } | undefined

const createWasmKeccak = (): WasmKeccak | undefined => {
  const module = getWasmModule()
  return module && new WasmKeccak(module)
}

/** Keccak-256, the hash of Ethereum: 32 bytes. 532 bytes take 3 us, and 60 without WebAssembly. */
export const keccak256 = (bytes: Uint8Array): Buffer =>
  (wasmKeccak ??= { instance: createWasmKeccak() }).instance?.hash(bytes) ?? Buffer.from(keccak_256(bytes))
