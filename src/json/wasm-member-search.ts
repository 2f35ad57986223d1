import { getWasmModule, wasmLayout } from './wasm-module.ts'
import type { WasmGlobal, WasmModule } from './wasm-module.ts'

/** A member and its accepted values: one of these texts, in any case of their letters, or a hex number with 0x. */
export interface SearchedMember {
  readonly name: string
  readonly values: { readonly texts: readonly string[] } | { readonly from: number; readonly to: number }
}

/** Where in the chunk a search is, and for which member. */
interface SearchPlace {
  readonly position: number
  readonly memberIndex: number
}

interface SearchResult {
  /** How many names were found. */
  readonly foundCount: number
  /** Where the search goes on. */
  readonly position: number
  /** JavaScript must look at the next one. */
  readonly needsJudgment: boolean
}

/** json-bytes.wasm, as far as wasm/search-members.ts goes. */
interface SearchExports {
  readonly position: WasmGlobal
  readonly needsJudgment: WasmGlobal
  setSearch(position: number, memberIndex: number): void
  searchMembers(offset: number, byteLength: number, limit: number, membersOffset: number, memberCount: number): number
}

// Of a member, as in wasm/search-members.ts.
const memberBytes = 48
const fieldOffsets = { nameLength: 0, textCount: 4, textLength: 8, texts: 12, name: 16, from: 32, to: 40 } as const

/** Longer names, and texts that are shorter, are left to JavaScript. */
const maxNameBytes = 16
const minTextBytes = 16
/** With its name and spaces a value of this length is within what the search reads behind a name. */
const maxTextBytes = 80

/**
 * Searches chunks that are in the memory of WebAssembly: 10,000 logs (6 MB) take 0.6 to 0.9 ms, where the search in JavaScript takes 4 to 8 (on a
 * busy machine).
 */
export class WasmMemberSearch {
  readonly #exports: SearchExports
  readonly #memory: Uint8Array
  readonly #members: Uint8Array
  readonly #memberCount: number

  private constructor({ memory, exports }: WasmModule, members: Uint8Array, memberCount: number) {
    this.#exports = exports as SearchExports // as its source declares them
    this.#memory = new Uint8Array(memory, wasmLayout.membersOffsetBytes, wasmLayout.maxMembersBytes)
    this.#members = members
    this.#memberCount = memberCount
  }

  /** Undefined where there is no WebAssembly, or where names or values do not fit. */
  static create(members: readonly (SearchedMember | undefined)[]): WasmMemberSearch | undefined {
    const module = getWasmModule()
    const bytes = members.every(isDefined) ? encodeMembers(members) : undefined
    return module === undefined || bytes === undefined ? undefined : new WasmMemberSearch(module, bytes, members.length)
  }

  static isInMemory(chunk: Uint8Array): boolean {
    return chunk.buffer === getWasmModule()?.memory
  }

  /** Searches for names that begin before `limit`, 32 bytes before the end or earlier. */
  search(chunk: Uint8Array, limit: number, { position, memberIndex }: SearchPlace): SearchResult {
    const wasm = this.#exports
    this.#load()
    wasm.setSearch(position, memberIndex)
    const foundCount = wasm.searchMembers(chunk.byteOffset, chunk.length, limit, wasmLayout.membersOffsetBytes, this.#memberCount)
    return { foundCount, position: wasm.position.value, needsJudgment: wasm.needsJudgment.value === 1 }
  }

  /** Several searches take turns. */
  #load(): void {
    if (loaded === this) return
    this.#memory.set(this.#members)
    loaded = this
  }
}

let loaded: WasmMemberSearch | undefined

const isDefined = (member: SearchedMember | undefined): member is SearchedMember => member !== undefined

/** The members as the search in WebAssembly reads them, then their texts. */
const encodeMembers = (members: readonly SearchedMember[]): Uint8Array | undefined => {
  const texts = members.map(({ values }) => ('texts' in values ? values.texts.map(text => `"${text.toLowerCase()}"`) : []))
  const names = members.map(({ name }) => Buffer.from(`"${name}"`))
  if (!texts.every(isAlike) || names.some(({ length }) => length > maxNameBytes)) return undefined
  const head = Buffer.alloc(members.length * memberBytes)
  let textsOffset = wasmLayout.membersOffsetBytes + head.length
  for (const [i, { values }] of members.entries()) {
    const at = i * memberBytes
    const [textCount, textLength] = [texts[i]?.length ?? 0, texts[i]?.[0]?.length ?? 0]
    head.writeUInt32LE(names[i]?.copy(head, at + fieldOffsets.name) ?? 0, at + fieldOffsets.nameLength)
    head.writeUInt32LE(textCount, at + fieldOffsets.textCount)
    head.writeUInt32LE(textLength, at + fieldOffsets.textLength)
    head.writeUInt32LE(textsOffset, at + fieldOffsets.texts)
    if ('from' in values) head.writeDoubleLE(values.from, at + fieldOffsets.from)
    if ('to' in values) head.writeDoubleLE(values.to, at + fieldOffsets.to)
    textsOffset += textCount * textLength
  }
  const encoded = Buffer.concat([head, Buffer.from(texts.flat().join(''))])
  return encoded.length <= wasmLayout.maxMembersBytes ? encoded : undefined
}

/** They are ASCII, of one length, and not too short or long. */
const isAlike = (texts: readonly string[]): boolean =>
  texts.every(
    text => text.length === texts[0]?.length && text.length >= minTextBytes && text.length <= maxTextBytes && /^[\x20-\x7e]*$/.test(text),
  )
