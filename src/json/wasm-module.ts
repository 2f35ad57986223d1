import { readFileSync } from 'node:fs'

/** The part of WebAssembly that is used here; the types of Node.js 20 have none of it. */
declare const WebAssembly: {
  readonly Memory: new (size: { readonly initial: number; readonly maximum: number }) => { readonly buffer: ArrayBuffer }
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown }
}

export interface WasmGlobal {
  readonly value: number
}

/** In 64 KiB as Node.js reads, 6 MB take 5 to 8 % more CPU in all (in turns, on a busy machine): four times the reads, each with its way through the program. */
const readBufferBytes = 262_144
const windowBytes = 65_536
/** The code reads up to so many bytes behind a text. */
const marginBytes = 32
const windowOffsetBytes = 0x4000
const readBufferOffsetBytes = windowOffsetBytes + windowBytes + marginBytes
const memoryPageCount = 7
const pageBytes = 65_536
const membersOffsetBytes = 0x56000
const hashOffsetBytes = 0x60000
const hashedOffsetBytes = hashOffsetBytes + 1024

/** The places in the memory, as in wasm/. */
export const wasmLayout = {
  statesOffsetBytes: 0,
  containersOffsetBytes: 0x2800,
  windowOffsetBytes,
  windowBytes,
  membersOffsetBytes,
  maxMembersBytes: hashOffsetBytes - membersOffsetBytes - marginBytes,
  hashOffsetBytes,
  hashedOffsetBytes,
  hashedBytes: memoryPageCount * pageBytes - hashedOffsetBytes,
} as const

/** json-bytes.wasm, compiled from wasm/, and its memory. One per process: each memory reserves 10 GB of addresses. */
export class WasmModule {
  readonly memory: ArrayBuffer
  /** What wasm/ exports. */
  readonly exports: unknown
  /** Chunks that are read into this part of the memory are looked at where they are. */
  readonly readBuffer: Buffer

  constructor() {
    const memory = new WebAssembly.Memory({ initial: memoryPageCount, maximum: memoryPageCount })
    const module = new WebAssembly.Module(readFileSync(new URL('json-bytes.wasm', import.meta.url)))
    this.exports = new WebAssembly.Instance(module, { env: { memory } }).exports
    this.memory = memory.buffer
    this.readBuffer = Buffer.from(memory.buffer, readBufferOffsetBytes, readBufferBytes)
  }
}

/** Undefined where WebAssembly gets no memory (`ulimit -v`): what is written in JavaScript does the same. */
export const getWasmModule = (): WasmModule | undefined => (wasmModule ??= { instance: createWasmModule() }).instance

let wasmModule: { readonly instance: WasmModule | undefined } | undefined

const createWasmModule = (): WasmModule | undefined => {
  try {
    return new WasmModule()
  } catch {
    return undefined
  }
}
