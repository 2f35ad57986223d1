import { textOf } from '../pieces.ts'
import type { Text } from '../pieces.ts'

/** A piece costs some hundred bytes, and its place in each write: shorter ones are copied together. */
const worthKeeping = 16_384
const slabSize = 65_536

/** Bytes as they arrive, in pieces none of which are many and short. */
export class Arrival {
  length = 0
  readonly #expected: number
  readonly #pieces: Uint8Array[] = []
  /** Where short pieces are copied to, and how much of it is used. */
  #slab = new Uint8Array()
  #used = 0
  /** Where in the slab the last piece begins, if it is one of the slab and may grow. */
  #start: number | undefined

  /** `expected`: how many bytes there will be, where it is known. */
  constructor(expected: number) {
    this.#expected = expected
  }

  /** The bytes must not change afterwards. */
  push(chunk: Uint8Array): void {
    if (this.length === 0 || chunk.length >= worthKeeping) this.#keep(chunk)
    else this.#copy(chunk)
    this.length += chunk.length
  }

  get text(): Text {
    return textOf(this.#pieces)
  }

  #keep(chunk: Uint8Array): void {
    this.#start = undefined
    this.#pieces.push(chunk)
  }

  #copy(chunk: Uint8Array): void {
    if (this.#used + chunk.length > this.#slab.length) this.#renew(chunk.length)
    this.#slab.set(chunk, this.#used)
    const start = this.#start ?? this.#used
    this.#used += chunk.length
    if (this.#start !== undefined) this.#pieces.pop()
    this.#pieces.push(this.#slab.subarray(start, this.#used))
    this.#start = start
  }

  #renew(least: number): void {
    const rest = this.#expected - this.length
    this.#slab = Buffer.allocUnsafeSlow(rest >= least ? Math.min(rest, slabSize) : slabSize)
    this.#used = 0
    this.#start = undefined
  }
}
