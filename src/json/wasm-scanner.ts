import { nextStates } from './grammar.ts'
import type { State } from './grammar.ts'
import { getWasmModule, wasmLayout } from './wasm-module.ts'
import type { WasmGlobal, WasmModule } from './wasm-module.ts'

/** Where a scan is: before the next byte of a text. */
interface ScanPosition {
  readonly state: State
  readonly depth: number
  readonly isName: boolean
}

/** What a scan found. */
interface WasmScan extends ScanPosition {
  /** Bytes read. Fewer than there are when the value ends, or before a byte that the scanner in JavaScript must judge. */
  readonly byteLength: number
  /** How many values began directly in the container at `baseDepth`. */
  readonly childCount: number
  readonly hasNonAscii: boolean
}

/** json-bytes.wasm, as far as wasm/scan-values.ts goes. */
interface ScanExports {
  readonly state: WasmGlobal
  readonly depth: WasmGlobal
  readonly isName: WasmGlobal
  readonly childCount: WasmGlobal
  readonly hasNonAscii: WasmGlobal
  setState(state: number, depth: number, isName: boolean): void
  scan(offset: number, byteLength: number, baseDepth: number, maxDepth: number): number
}

const { statesOffsetBytes, containersOffsetBytes, windowOffsetBytes, windowBytes } = wasmLayout

/** Containers deeper than this have no room in the memory. */
export const maxWasmDepth: number = windowOffsetBytes - containersOffsetBytes

/**
 * Scans the inside of JSON values with instructions for 16 bytes at a time: 10,000 logs (6.7 MB) take 1.8 ms, copying them
 * included, where the scanner in JavaScript takes 5 to 6.
 */
class WasmScanner {
  readonly #exports: ScanExports
  readonly #containers: Uint8Array
  readonly #window: Uint8Array

  constructor({ memory, exports }: WasmModule) {
    this.#exports = exports as ScanExports // as its source declares them
    new Uint8Array(memory, statesOffsetBytes).set(nextStates)
    this.#containers = new Uint8Array(memory, containersOffsetBytes, maxWasmDepth)
    this.#window = new Uint8Array(memory, windowOffsetBytes, windowBytes)
  }

  /**
   * Reads the chunk from an offset on, inside a container at `baseDepth`; of a chunk outside of the memory 64 KiB at most. `containerIsObject`
   * says of each container from the outermost whether it is an object, and is updated. `maxDepth` is at most `maxWasmDepth`.
   */
  scan(chunk: Uint8Array, from: number, at: ScanPosition, containerIsObject: boolean[], baseDepth: number, maxDepth: number): WasmScan {
    const wasm = this.#exports
    const isInMemory = chunk.buffer === this.#window.buffer
    const length = Math.min(chunk.length - from, isInMemory ? Infinity : windowBytes)
    if (!isInMemory) this.#window.set(length === chunk.length ? chunk : chunk.subarray(from, from + length))
    for (let i = baseDepth - 1; i < at.depth; i++) this.#containers[i] = containerIsObject[i] ? 1 : 0
    wasm.setState(at.state, at.depth, at.isName)
    const byteLength = wasm.scan(isInMemory ? chunk.byteOffset + from : windowOffsetBytes, length, baseDepth, maxDepth)
    const depth = wasm.depth.value
    for (let i = baseDepth; i < depth; i++) containerIsObject[i] = this.#containers[i] === 1
    return {
      byteLength,
      state: wasm.state.value as State, // the states of the table
      depth,
      isName: wasm.isName.value === 1,
      childCount: wasm.childCount.value,
      hasNonAscii: wasm.hasNonAscii.value === 1,
    }
  }
}

/** The scanner of the process; undefined without WebAssembly: the scanner in JavaScript does the same. */
export const getWasmScanner = (): WasmScanner | undefined => (wasmScanner ??= { instance: createWasmScanner() }).instance

let wasmScanner: { readonly instance: WasmScanner | undefined } | undefined

const createWasmScanner = (): WasmScanner | undefined => {
  const module = getWasmModule()
  return module && new WasmScanner(module)
}
