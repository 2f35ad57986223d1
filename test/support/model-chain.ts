import type { Json } from '../../src/plugin/call.ts'
import { toHexQuantity } from '../../src/util/json.ts'

/** A block with the state after it, so that every response follows from the block alone. */
export interface ModelBlock {
  readonly number: number
  readonly hash: string
  readonly parent: ModelBlock | undefined
  /** The storage after this block. */
  readonly slots: readonly string[]
  /** The data of its one log. */
  readonly logData: string
}

/** A whole number from 0 to below `limit`. */
export type RandomBelow = (limit: number) => number

/** The same numbers for the same seed on every machine (mulberry32). */
export const seededRandom =
  (seed: number): RandomBelow =>
  limit => {
    seed = (seed + 0x6d2b79f5) | 0
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * limit)
  }

const toWord = (value: number): string => `0x${value.toString(16).padStart(64, '0')}`

/** The hash of the one transaction at this height: the same in every branch. */
export const transactionAt = (number: number): string => toWord(0xf00000 + number)

/** The ancestor with this number, or the block itself; undefined above the block. */
export const ancestorAt = (block: ModelBlock, number: number): ModelBlock | undefined => {
  let ancestor: ModelBlock | undefined = block
  while (ancestor !== undefined && ancestor.number > number) ancestor = ancestor.parent
  return ancestor?.number === number ? ancestor : undefined
}

const maxReorgDepth = 8
const maxFinalityLagBlocks = 12

/** A chain that is mined, reorged and finalized at random. */
export class ModelChain {
  readonly #random: RandomBelow
  #blockCount = 0
  #tip: ModelBlock
  #final: ModelBlock

  constructor(random: RandomBelow) {
    this.#random = random
    this.#tip = this.#make(undefined)
    this.#final = this.#tip
  }

  get tip(): ModelBlock {
    return this.#tip
  }

  get final(): ModelBlock {
    return this.#final
  }

  mine(): void {
    this.#tip = this.#make(this.#tip)
  }

  /** Replaces up to 8 blocks that are not finalized by a branch that is one block longer. */
  reorg(): void {
    const depth = 1 + this.#random(maxReorgDepth)
    const fork = ancestorAt(this.#tip, Math.max(this.#final.number, this.#tip.number - depth)) ?? this.#final
    const length = this.#tip.number - fork.number + 1
    this.#tip = fork
    for (let i = 0; i < length; i++) this.mine()
  }

  /** Replaces `depth` blocks, finalized or not, by `length` others. */
  fork(depth: number, length: number): void {
    this.#tip = ancestorAt(this.#tip, this.#tip.number - depth) ?? this.#final
    for (let i = 0; i < length; i++) this.mine()
  }

  /** Finalizes a block close to the tip, unless a newer block is finalized; with 1 the tip. */
  finalize(withinBlocks = maxFinalityLagBlocks): void {
    const number = this.#tip.number - this.#random(withinBlocks)
    if (number > this.#final.number) this.#final = ancestorAt(this.#tip, number) ?? this.#final
  }

  /** Starts a new chain from another genesis block, which is all that is finalized. */
  reset(): void {
    this.#tip = this.#make(undefined)
    this.#final = this.#tip
  }

  #make(parent: ModelBlock | undefined): ModelBlock {
    const id = (this.#blockCount += 1)
    const slots = parent?.slots.slice() ?? Array.from({ length: 4 }, () => toWord(0))
    slots[this.#random(4)] = toWord(id)
    return {
      number: parent === undefined ? 0 : parent.number + 1,
      hash: toWord(0xb00000000 + id),
      parent,
      slots,
      logData: toHexQuantity(id),
    }
  }
}

/** A node of the chain. Its head may lag, or be on an abandoned branch. */
export class ModelNode {
  readonly name: string
  head: ModelBlock
  final: ModelBlock

  constructor(name: string, { tip, final }: ModelChain) {
    this.name = name
    this.head = tip
    this.final = final
  }

  /** Undefined is an error. Logs above the head are left out without an error, as by real nodes. */
  answer(method: string, params: readonly Json[]): Json | undefined {
    return responseAt(this.head, this.final, method, params)
  }
}

/** The response of a node with this head and finalized block. */
export const responseAt = (head: ModelBlock, final: ModelBlock, method: string, params: readonly Json[]): Json | undefined => {
  const at = (tag: Json | undefined): ModelBlock | undefined =>
    tag === 'latest'
      ? head
      : tag === 'finalized'
        ? final
        : typeof tag !== 'string'
          ? findBlock(head, tag)
          : tag.length === 66
            ? findBlock(head, { blockHash: tag })
            : ancestorAt(head, Number(tag))
  switch (method) {
    case 'eth_chainId':
      return '0x1'
    case 'eth_blockNumber':
      return toHexQuantity(head.number)
    case 'eth_getBlockByNumber':
    case 'eth_getBlockByHash':
      return toBlockJson(at(params[0]))
    case 'eth_getStorageAt':
      return at(params[2])?.slots[Number(params[1])]
    case 'eth_getTransactionReceipt':
      return toReceiptJson(ancestorAt(head, Number(params[0]) - 0xf00000))
    case 'eth_getBlockReceipts': {
      const block = at(params[0])
      return block === undefined ? null : [toReceiptJson(block)]
    }
    case 'eth_getLogs':
      return toLogsJson(params[0], head, at)
  }
  return undefined
}

/** No test requests an older block by its hash. */
const maxAncestorDepth = 200

const findBlock = (head: ModelBlock, selector: Json | undefined): ModelBlock | undefined => {
  const { blockHash } = Object(selector) as { blockHash?: Json }
  let block: ModelBlock | undefined = head
  for (let i = 0; i < maxAncestorDepth && block !== undefined && block.hash !== blockHash; i++) block = block.parent
  return block?.hash === blockHash ? block : undefined
}

const toBlockJson = (block: ModelBlock | undefined): Json =>
  block === undefined ? null : { number: toHexQuantity(block.number), hash: block.hash, parentHash: block.parent?.hash ?? toWord(0) }

const toReceiptJson = (block: ModelBlock | undefined): Json =>
  block === undefined ? null : { transactionHash: transactionAt(block.number), ...blockPositionOf(block), logs: [toLogJson(block)] }

const toLogJson = (block: ModelBlock): Json => ({ ...blockPositionOf(block), data: block.logData })

const blockPositionOf = ({ number, hash }: ModelBlock) => ({ blockNumber: toHexQuantity(number), blockHash: hash })

type BlockLookup = (tag: Json | undefined) => ModelBlock | undefined

const toLogsJson = (filter: Json | undefined, head: ModelBlock, at: BlockLookup): Json | undefined => {
  const { fromBlock, toBlock, blockHash } = Object(filter) as Readonly<Record<string, Json | undefined>>
  if (blockHash !== undefined) {
    const block = at({ blockHash })
    return block && [toLogJson(block)]
  }
  const height = (tag: Json | undefined): number => (tag === 'latest' ? head.number : Number(tag))
  const logs: Json[] = []
  const lowest = height(fromBlock)
  let block = ancestorAt(head, Math.min(head.number, height(toBlock)))
  for (; block !== undefined && block.number >= lowest; block = block.parent) logs.unshift(toLogJson(block))
  return logs
}
