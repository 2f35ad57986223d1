import { ancestorAt } from '../support/model-chain.ts'
import type { ModelBlock } from '../support/model-chain.ts'

/** A block as the events tell it. */
interface SeenBlock {
  readonly number: number
  readonly hash: string
}

export interface HeaderEvent {
  readonly number: string
  readonly hash: string
  readonly parentHash: string
}

export interface LogEvent {
  readonly blockNumber: string
  readonly blockHash: string
  readonly removed?: boolean
}

/** Blocks from before are forgotten once they have been compared with the chain: no reorg of the model reaches so far back. */
const maxKeptBlocks = 100

/** What a subscriber makes of its events, each of which must follow from those before it. */
abstract class Replay {
  protected blocks: SeenBlock[] = []
  readonly faults: string[] = []
  eventCount = 0

  protected get last(): SeenBlock | undefined {
    return this.blocks.at(-1)
  }

  /** What is wrong with it, when the chain ends with this tip and nothing more is to come. */
  faultAt(tip: ModelBlock): string | undefined {
    const wrong = this.blocks.find(({ number, hash }) => ancestorAt(tip, number)?.hash !== hash)
    this.blocks.splice(0, this.blocks.length - maxKeptBlocks)
    if (wrong !== undefined) return `block ${wrong.number} is not on the chain`
    return this.last !== undefined && this.last.hash !== tip.hash
      ? `ends with block ${this.last.number}, the chain with ${tip.number}`
      : undefined
  }

  isAt(tip: ModelBlock): boolean {
    return this.last === undefined || this.last.hash === tip.hash
  }
}

/** Headers: each is the child of the one before it, or of one that it goes back to. */
export class HeaderReplay extends Replay {
  readonly #wasRemoved: (hash: string) => boolean

  /** A block that no upstream had any more for a while comes again, as headers are not taken back. */
  constructor(wasRemoved: (hash: string) => boolean) {
    super()
    this.#wasRemoved = wasRemoved
  }

  add({ number, hash, parentHash }: HeaderEvent): void {
    this.eventCount += 1
    if (this.last?.hash === hash && !this.#wasRemoved(hash)) this.faults.push(`header ${Number(number)} came twice`)
    while (this.last !== undefined && this.last.number >= Number(number)) this.blocks.pop()
    if (this.last !== undefined && this.last.hash !== parentHash)
      this.faults.push(`header ${Number(number)} is no child of block ${this.last.number}`)
    this.blocks.push({ number: Number(number), hash })
  }
}

/** Logs, of which the model has one a block: those that are removed are the last ones, and a block comes after its parent. */
export class LogReplay extends Replay {
  readonly #parentOf: (hash: string) => string | undefined

  constructor(parentOf: (hash: string) => string | undefined) {
    super()
    this.#parentOf = parentOf
  }

  add({ blockNumber, blockHash, removed }: LogEvent): void {
    this.eventCount += 1
    const { last } = this
    if (removed === true) {
      if (this.blocks.pop()?.hash !== blockHash) this.faults.push(`a log of block ${Number(blockNumber)} is removed that is not the last`)
      return
    }
    if (last !== undefined && this.#parentOf(blockHash) !== last.hash)
      this.faults.push(`a log of block ${Number(blockNumber)} follows one of block ${last.number}`)
    this.blocks.push({ number: Number(blockNumber), hash: blockHash })
  }
}

/** Hashes of blocks, as a block filter returns them. */
export class HashReplay extends Replay {
  readonly #blockOf: (hash: string) => ModelBlock | undefined

  constructor(blockOf: (hash: string) => ModelBlock | undefined) {
    super()
    this.#blockOf = blockOf
  }

  add(hash: string): void {
    this.eventCount += 1
    const block = this.#blockOf(hash)
    if (block === undefined) return void this.faults.push(`no block has the hash ${hash}`)
    while (this.last !== undefined && this.last.number >= block.number) this.blocks.pop()
    if (this.last !== undefined && this.last.hash !== block.parent?.hash)
      this.faults.push(`block ${block.number} follows block ${this.last.number}`)
    this.blocks.push({ number: block.number, hash })
  }
}
