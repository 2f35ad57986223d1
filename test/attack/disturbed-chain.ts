import type { Fetch } from '../../plugins/subscriptions/missed-changes.ts'
import type { Json } from '../../src/plugin/call.ts'
import type { openModelHeads } from '../services/chain-heads/model-heads.ts'
import { ancestorAt, responseAt } from '../support/model-chain.ts'
import type { ModelBlock, ModelNode, RandomBelow } from '../support/model-chain.ts'

/** Nodes that lag more get no calls; see `maxLag` of failover. */
const maxLagBlocks = 10

/** A chain with reorgs, at nodes that fail, lag, and stay on branches that were left. */
export class DisturbedChain {
  reorgs = 0
  readonly #random: RandomBelow
  readonly #model: ReturnType<typeof openModelHeads>
  /** Of all branches, by hash. */
  readonly #blocks = new Map<string, ModelBlock>()
  readonly #failing = new Set<ModelNode>()

  constructor(model: ReturnType<typeof openModelHeads>, random: RandomBelow) {
    this.#random = random
    this.#model = model
    this.#recordBlocks()
  }

  blockOf = (hash: string): ModelBlock | undefined => this.#blocks.get(hash)

  step(): void {
    this.#moveChain()
    for (const node of this.#model.nodes) this.#disturbNode(node)
  }

  /** All nodes answer, and have the tip. */
  calm(): void {
    const { chain, nodes, responseOverrides } = this.#model
    responseOverrides.clear()
    this.#failing.clear()
    for (const node of nodes) node.head = chain.tip
  }

  /**
   * As nodes answer calls: each call goes to any node that has the block and does not lag much, so that calls about one head may be answered from several branches,
   * and from before what has been published. The blocks of branches that were left are known.
   */
  readonly fetch: Fetch = async (method, params) => {
    const { blockHash = params[0], toBlock = params[0] } = Object(params[0]) as { blockHash?: Json; toBlock?: Json }
    const known = this.#blocks.get(String(blockHash))
    if (known !== undefined) return responseAt(known, known, method, params)
    const living = this.#model.nodes.filter(node => !this.#failing.has(node))
    const bestNumber = Math.max(...living.map(({ head }) => head.number))
    const answering = living.filter(({ head }) => bestNumber - head.number <= maxLagBlocks)
    const withBlock = answering.filter(({ head }) => toBlock === 'latest' || head.number >= Number(toBlock))
    return (withBlock[this.#random(withBlock.length)] ?? answering[0])?.answer(method, params)
  }

  #moveChain(): void {
    const { chain } = this.#model
    const dice = this.#random(10)
    if (dice < 6) chain.mine()
    else if (dice === 6) {
      this.reorgs += 1
      chain.reorg()
    } else if (dice === 7) for (let i = this.#random(30); i > 0; i--) chain.mine()
    chain.finalize()
    this.#recordBlocks()
  }

  #recordBlocks(): void {
    let block: ModelBlock | undefined = this.#model.chain.tip
    for (; block !== undefined && !this.#blocks.has(block.hash); block = block.parent) this.#blocks.set(block.hash, block)
  }

  #disturbNode(node: ModelNode): void {
    const { chain, nodes, responseOverrides } = this.#model
    const dice = this.#random(12)
    if (dice === 0 && this.#failing.size < nodes.length - 1) this.#failing.add(node)
    else if (dice === 1) this.#failing.delete(node)
    // It is behind, stays on a branch that was left, or has the tip.
    else if (dice < 4) node.head = ancestorAt(chain.tip, chain.tip.number - this.#random(3)) ?? node.head
    else if (dice > 5) node.head = chain.tip
    responseOverrides.set(node.name, (method, params) => (this.#failing.has(node) ? undefined : node.answer(method, params)))
  }
}
