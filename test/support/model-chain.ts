import type { Json } from '../../src/call.ts'

/** A block of the model; what it leaves behind is in it, so that an answer follows from the block alone. */
export interface ModelBlock {
  readonly number: number
  readonly hash: string
  readonly parent: ModelBlock | undefined
  /** The storage after this block. */
  readonly slots: readonly string[]
  /** What its one log says. */
  readonly data: string
}

/** Numbers from 0 to below `below`. */
export type Random = (below: number) => number

/** Small and the same everywhere (mulberry32). */
export const seeded =
  (seed: number): Random =>
  below => {
    seed = (seed + 0x6d2b79f5) | 0
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * below)
  }

export const hex = (value: number): string => `0x${value.toString(16)}`

const word = (value: number): string => `0x${value.toString(16).padStart(64, '0')}`

/** Each height has one transaction; blocks that compete for the height hold the same. */
export const transactionAt = (number: number): string => word(0xf00000 + number)

export const ancestorAt = (block: ModelBlock, number: number): ModelBlock | undefined => {
  let at: ModelBlock | undefined = block
  while (at !== undefined && at.number > number) at = at.parent
  return at?.number === number ? at : undefined
}

/** A chain that grows, forks above what is final, and makes blocks final. */
export class ModelChain {
  readonly #random: Random
  #made = 0
  #tip: ModelBlock
  #final: ModelBlock

  constructor(random: Random) {
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

  /** Replaces blocks that are not final; the new branch is one longer than the old. */
  reorganise(): void {
    const depth = 1 + this.#random(8)
    const fork = ancestorAt(this.#tip, Math.max(this.#final.number, this.#tip.number - depth)) ?? this.#final
    const length = this.#tip.number - fork.number + 1
    this.#tip = fork
    for (let i = 0; i < length; i++) this.mine()
  }

  /** Replaces so many blocks, final or not, by so many others. */
  fork(depth: number, length: number): void {
    this.#tip = ancestorAt(this.#tip, this.#tip.number - depth) ?? this.#final
    for (let i = 0; i < length; i++) this.mine()
  }

  finalise(): void {
    const number = this.#tip.number - this.#random(12)
    if (number > this.#final.number) this.#final = ancestorAt(this.#tip, number) ?? this.#final
  }

  /** Begins anew from a first block of its own: what was final is so no longer. */
  reset(): void {
    this.#tip = this.#make(undefined)
    this.#final = this.#tip
  }

  #make(parent: ModelBlock | undefined): ModelBlock {
    const id = (this.#made += 1)
    const slots = parent?.slots.slice() ?? Array.from({ length: 4 }, () => word(0))
    slots[this.#random(4)] = word(id)
    return { number: parent === undefined ? 0 : parent.number + 1, hash: word(0xb00000000 + id), parent, slots, data: hex(id) }
  }
}

/** A node of the chain: it may lag, or stand on a branch that others have left. */
export class ModelNode {
  readonly name: string
  head: ModelBlock
  final: ModelBlock

  constructor(name: string, { tip, final }: ModelChain) {
    this.name = name
    this.head = tip
    this.final = final
  }

  /** Undefined is an error. Logs beyond the head are silently missing, as with real nodes. */
  answer(method: string, params: readonly Json[]): Json | undefined {
    return answerOn(this.head, this.final, method, params)
  }
}

/** What a node with this head and final block answers. */
export const answerOn = (head: ModelBlock, final: ModelBlock, method: string, params: readonly Json[]): Json | undefined => {
  const at = (tag: Json | undefined): ModelBlock | undefined =>
    tag === 'latest'
      ? head
      : tag === 'finalized'
        ? final
        : typeof tag !== 'string'
          ? find(head, tag)
          : tag.length === 66
            ? find(head, { blockHash: tag })
            : ancestorAt(head, Number(tag))
  switch (method) {
    case 'eth_chainId':
      return '0x1'
    case 'eth_blockNumber':
      return hex(head.number)
    case 'eth_getBlockByNumber':
    case 'eth_getBlockByHash':
      return blockJson(at(params[0]))
    case 'eth_getStorageAt':
      return at(params[2])?.slots[Number(params[1])]
    case 'eth_getTransactionReceipt':
      return receiptJson(ancestorAt(head, Number(params[0]) - 0xf00000))
    case 'eth_getLogs':
      return logsJson(params[0], head, at)
  }
  return undefined
}

/** As deep as the model is asked by hash. */
const depth = 200

const find = (head: ModelBlock, by: Json | undefined): ModelBlock | undefined => {
  const { blockHash } = Object(by) as { blockHash?: Json }
  let block: ModelBlock | undefined = head
  for (let i = 0; i < depth && block !== undefined && block.hash !== blockHash; i++) block = block.parent
  return block?.hash === blockHash ? block : undefined
}

const blockJson = (block: ModelBlock | undefined): Json =>
  block === undefined ? null : { number: hex(block.number), hash: block.hash, parentHash: block.parent?.hash ?? word(0) }

const receiptJson = (block: ModelBlock | undefined): Json =>
  block === undefined ? null : { transactionHash: transactionAt(block.number), ...placeOf(block), logs: [logJson(block)] }

const logJson = (block: ModelBlock): Json => ({ ...placeOf(block), data: block.data })

const placeOf = ({ number, hash }: ModelBlock) => ({ blockNumber: hex(number), blockHash: hash })

type Find = (tag: Json | undefined) => ModelBlock | undefined

const logsJson = (filter: Json | undefined, head: ModelBlock, at: Find): Json | undefined => {
  const { fromBlock, toBlock, blockHash } = Object(filter) as Readonly<Record<string, Json | undefined>>
  if (blockHash !== undefined) {
    const block = at({ blockHash })
    return block && [logJson(block)]
  }
  const height = (tag: Json | undefined): number => (tag === 'latest' ? head.number : Number(tag))
  const logs: Json[] = []
  const least = height(fromBlock)
  let block = ancestorAt(head, Math.min(head.number, height(toBlock)))
  for (; block !== undefined && block.number >= least; block = block.parent) logs.unshift(logJson(block))
  return logs
}
