import { readFileSync } from 'node:fs'
import { nextStates } from './grammar.ts'
import type { State } from './grammar.ts'

/** The part of WebAssembly that is used here; the types of Node.js 20 have none of it. */
declare const WebAssembly: {
  readonly Memory: new (size: { readonly initial: number; readonly maximum: number }) => { readonly buffer: ArrayBuffer }
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown }
}

interface WasmGlobal {
  readonly value: number
}

/** Where a scan is: before the next byte of a text. */
export interface ScanPosition {
  readonly state: State
  readonly depth: number
  readonly isName: boolean
  /** Bytes so far of the number being read. */
  readonly numberLength: number
}

/** What a scan found. */
export interface WasmScan extends ScanPosition {
  /** Bytes read. Fewer than there are when the value ends, or before a byte that the scanner in JavaScript must judge. */
  readonly byteLength: number
  /** How many values began directly in the container at `baseDepth`. */
  readonly childCount: number
  readonly hasNonAscii: boolean
  readonly needsExactParse: boolean
}

/** scan-values.wasm, compiled from wasm/scan-values.ts. */
interface Exports {
  readonly state: WasmGlobal
  readonly depth: WasmGlobal
  readonly isName: WasmGlobal
  readonly numberLength: WasmGlobal
  readonly childCount: WasmGlobal
  readonly hasNonAscii: WasmGlobal
  readonly needsExactParse: WasmGlobal
  setState(state: number, depth: number, isName: boolean, numberLength: number): void
  scan(offset: number, byteLength: number, baseDepth: number, maxDepth: number): number
}

// The places in the memory, as in wasm/scan-values.ts.
const containersOffsetBytes = 0x2800
const windowOffsetBytes = 0x4000
const windowBytes = 65_536
/** The scan reads up to so many bytes behind a text. */
const marginBytes = 16
const readBufferOffsetBytes = windowOffsetBytes + windowBytes + marginBytes
const memoryPageCount = 3

/** Containers deeper than this have no room in the memory. */
export const maxWasmDepth: number = windowOffsetBytes - containersOffsetBytes

/**
 * Scans the inside of JSON values with instructions for 16 bytes at a time: 10,000 logs (6.7 MB) take 1.8 ms, copying them
 * included, where the scanner in JavaScript takes 5 to 6. One per process: each memory reserves 10 GB of addresses.
 */
export class WasmScanner {
  /** Chunks that are read into this part of the memory are scanned where they are. */
  readonly readBuffer: Buffer
  readonly #exports: Exports
  readonly #containers: Uint8Array
  readonly #window: Uint8Array

  constructor() {
    const memory = new WebAssembly.Memory({ initial: memoryPageCount, maximum: memoryPageCount })
    const module = new WebAssembly.Module(readFileSync(new URL('scan-values.wasm', import.meta.url)))
    this.#exports = new WebAssembly.Instance(module, { env: { memory } }).exports as Exports // as its source declares them
    new Uint8Array(memory.buffer).set(nextStates)
    this.#containers = new Uint8Array(memory.buffer, containersOffsetBytes, maxWasmDepth)
    this.#window = new Uint8Array(memory.buffer, windowOffsetBytes, windowBytes)
    this.readBuffer = Buffer.from(memory.buffer, readBufferOffsetBytes, windowBytes)
  }

  /**
   * Reads up to 64 KiB of the chunk from an offset on, inside a container at `baseDepth`. `containerIsObject` says of each container
   * from the outermost whether it is an object, and is updated. `maxDepth` is at most `maxWasmDepth`.
   */
  scan(chunk: Uint8Array, from: number, at: ScanPosition, containerIsObject: boolean[], baseDepth: number, maxDepth: number): WasmScan {
    const wasm = this.#exports
    const length = Math.min(chunk.length - from, windowBytes)
    const isInMemory = chunk.buffer === this.#window.buffer
    if (!isInMemory) this.#window.set(length === chunk.length ? chunk : chunk.subarray(from, from + length))
    for (let i = baseDepth - 1; i < at.depth; i++) this.#containers[i] = containerIsObject[i] ? 1 : 0
    wasm.setState(at.state, at.depth, at.isName, at.numberLength)
    const byteLength = wasm.scan(isInMemory ? chunk.byteOffset + from : windowOffsetBytes, length, baseDepth, maxDepth)
    const depth = wasm.depth.value
    for (let i = baseDepth; i < depth; i++) containerIsObject[i] = this.#containers[i] === 1
    return {
      byteLength,
      state: wasm.state.value as State, // the states of the table
      depth,
      isName: wasm.isName.value === 1,
      numberLength: wasm.numberLength.value,
      childCount: wasm.childCount.value,
      hasNonAscii: wasm.hasNonAscii.value === 1,
      needsExactParse: wasm.needsExactParse.value === 1,
    }
  }
}

/** The scanner of the process; undefined where WebAssembly gets no memory (`ulimit -v`): the scanner in JavaScript does the same. */
export const getWasmScanner = (): WasmScanner | undefined => (wasmScanner ??= { instance: createWasmScanner() }).instance

let wasmScanner: { readonly instance: WasmScanner | undefined } | undefined

const createWasmScanner = (): WasmScanner | undefined => {
  try {
    return new WasmScanner()
  } catch {
    return undefined
  }
}
