import type { Request, Target } from '../../call.ts'
import type { Signal } from '../../leave.ts'
import { isFailure } from '../../reply.ts'
import type { Reply } from '../../reply.ts'
import type { Agents } from '../agents/index.ts'
import type { Clock } from '../clock.ts'
import { readBlock, readQuantity } from './block.ts'
import type { Block } from './block.ts'

/** Where a node is, by what it told last. An answer to eth_blockNumber does not tell the hash. */
export interface Place {
  readonly number: number
  readonly hash?: string
}

/** A failing node's head counts no longer after so many polls in a row. */
const maxFailures = 3

export interface FollowedSettings {
  readonly target: Target
  readonly chainId: number
  readonly agents: Agents
  readonly clock: Clock
  readonly signal: Signal
  /** ms between questions for the finalized block, and for the chain of a node that is on another one. */
  readonly rarely: number
  /** Polls in a row without an answer after which a node has no say in the height. */
  readonly silentAfter: number
}

/** What one node tells of its chain. It asks when it is told to poll, each thing at most once at a time. */
export class Followed {
  readonly target: Target
  readonly #settings: FollowedSettings
  #head: Place | undefined
  #block: Block | undefined
  #final: Block | undefined
  #chain: number | undefined
  #isChainKnown = false
  #askingChain: Promise<void> | undefined
  #isBusy = false
  #failures = 0
  #low = 0
  #heard = 0
  #finalDue = 0
  #chainDue = 0

  constructor(settings: FollowedSettings) {
    this.#settings = settings
    this.target = settings.target
  }

  get head(): Place | undefined {
    return this.isElsewhere ? undefined : this.#head
  }

  /** The head with its parent, when a poll told of it. */
  get block(): Block | undefined {
    return this.#block !== undefined && this.#block.hash === this.head?.hash ? this.#block : undefined
  }

  /** The newest block that the node says is final; undefined while its chain has not been proved to be ours. */
  get final(): Block | undefined {
    return this.#chain === this.#settings.chainId ? this.#final : undefined
  }

  /** Is it on another chain than ours? */
  get isElsewhere(): boolean {
    return this.#chain !== undefined && this.#chain !== this.#settings.chainId
  }

  /** The id that it gave; undefined as long as it did not. */
  get chain(): number | undefined {
    return this.#chain
  }

  get height(): number | undefined {
    return this.head?.number
  }

  get low(): number {
    return this.#low
  }

  get isSilent(): boolean {
    return this.isElsewhere || this.#failures >= this.#settings.silentAfter
  }

  /** An answer of the node to a caller said how high it is. */
  hear(number: number): void {
    this.#heard = Math.max(this.#heard, number)
    if (this.#head === undefined || number > this.#head.number) this.#head = { number }
  }

  /** What it said to be final was undone: it is asked again at the next poll. */
  forgetFinal(): void {
    this.#final = undefined
    this.#finalDue = 0
  }

  /** Asks for the newest block, unless it is still being asked. `told` is the height that callers were told. */
  async poll(told: () => number): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    try {
      await this.askChain()
      if (!this.isElsewhere) await this.#askHead(told)
    } finally {
      this.#isBusy = false
    }
  }

  /** Asks for the final block, when that is due. Resolves with it when it has changed. */
  async pollFinal(): Promise<Block | undefined> {
    const now = this.#settings.clock.monotonic()
    if (this.#chain !== this.#settings.chainId || now < this.#finalDue) return undefined
    this.#finalDue = now + this.#settings.rarely
    const before = this.#final
    const reply = await this.#ask({ method: 'eth_getBlockByNumber', params: ['finalized', false] })
    this.#final = readBlock(reply) ?? before
    return this.#final?.hash === before?.hash ? undefined : this.final
  }

  /** A block by its hash or number; undefined when the node does not tell. */
  async fetch(at: string): Promise<Block | undefined> {
    const method = at.length === 66 ? 'eth_getBlockByHash' : 'eth_getBlockByNumber'
    return readBlock(await this.#ask({ method, params: [at, false] }))
  }

  /** Asks for the chain id: at first, after a connection came back, and now and then while it is a wrong one. */
  askChain(): Promise<void> {
    this.#askingChain ??= this.#askChain().finally(() => { this.#askingChain = undefined })
    return this.#askingChain
  }

  async #askChain(): Promise<void> {
    const now = this.#settings.clock.monotonic()
    if (this.#isChainKnown && !(this.isElsewhere && now >= this.#chainDue)) return
    const reply = await this.#ask({ method: 'eth_chainId', params: [] })
    if (isFault(reply)) return
    this.#isChainKnown = true
    this.#chainDue = now + this.#settings.rarely
    this.#chain = readQuantity(reply)
  }

  async #askHead(told: () => number): Promise<void> {
    this.#heard = 0
    const reply = await this.#ask({ method: 'eth_getBlockByNumber', params: ['latest', false] })
    const block = readBlock(reply)
    if (block === undefined) return this.#fail(isFault(reply))
    this.#failures = 0
    // A caller's answer overtook the poll.
    if (block.number < this.#heard) return
    this.#low = block.number < told() ? this.#low + 1 : 0
    this.#head = { number: block.number, hash: block.hash }
    this.#block = block
  }

  #fail(isLost: boolean): void {
    this.#failures += 1
    if (isLost) this.#isChainKnown = false
    if (this.#failures >= maxFailures) this.#head = undefined
  }

  #ask(request: Request): Promise<Reply> {
    const { agents, signal } = this.#settings
    return agents.ask(this.target, request, { timeout, maxBytes, signal, resend: true, ahead: true })
  }
}

const timeout = 2000
const maxBytes = 8_388_608

const isFault = (reply: Reply): boolean => isFailure(reply) && reply.fault !== 'caller'
