import type { Target } from '../../call.ts'
import type { Signal } from '../../leave.ts'
import { isFailure } from '../../reply.ts'
import type { Reply } from '../../reply.ts'
import type { Agents } from '../agents/index.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { readBlock } from './block.ts'
import type { Block } from './block.ts'
import type { Claim, Proof } from './belief.ts'
import { Feed } from './feed.ts'
import { fetchBlock, openAsk } from './fetch.ts'
import type { AskNode } from './fetch.ts'
import { Lows } from './height.ts'
import { Identity } from './identity.ts'
import { Past } from './past.ts'
import { openPolite } from './polite.ts'
import type { Place } from './state.ts'

/** A failing node's head counts no longer after so many polls in a row. */
const maxFailures = 3

export interface FollowedSettings {
  readonly target: Target
  readonly chainId: number
  /** In ms. */
  readonly blockTime: number
  readonly agents: Agents
  readonly clock: Clock
  readonly log: Log
  readonly signal: Signal
  /** ms between polls. */
  readonly interval: number
  /** ms between questions for the finalized block, and for the chain. */
  readonly rarely: number
  /** Polls in a row without an answer after which a node has no say in the height. */
  readonly silentAfter: number
  /** From 0 to below 1. */
  random(): number
  /** The height that callers were told. */
  told(): number
  /** Is the older block of an age that fits the newer one? */
  fits(newer: Claim, older: Claim): boolean
  /** The node has told something unasked. */
  onNews(node: Followed): void
}

/** What one node tells of its chain: when it is polled, each thing at most once at a time, or unasked over its WebSocket. */
export class Followed {
  readonly target: Target
  readonly #settings: FollowedSettings
  readonly #ask: AskNode
  readonly #identity: Identity
  readonly #past: Past
  readonly #lows: Lows
  readonly #feed: Feed | undefined
  #head: Place | undefined
  #block: Block | undefined
  #final: Block | undefined
  #isBusy = false
  #failures = 0
  #answers = 0
  #heard = 0
  #finalDue = 0
  #undone = 0

  constructor(settings: FollowedSettings) {
    const { target, chainId, agents, clock, signal, interval, rarely, fits } = settings
    this.#settings = settings
    this.target = target
    this.#ask = openPolite(openAsk(agents, target, signal), clock)
    this.#identity = new Identity({ chainId, clock, rarely, ask: () => this.#ask('eth_chainId') })
    this.#lows = new Lows(clock, interval)
    this.#past = new Past({ clock, rarely, fits, ask: number => this.#ask('eth_getBlockByNumber', number, false) })
    this.#feed = target.ws && new Feed({ ...this.#feedTerms(), url: target.ws })
  }

  get name(): string {
    return this.target.name
  }

  get head(): Place | undefined {
    return this.isElsewhere ? undefined : this.#head
  }

  /** The newest block that it has shown, as long as it answers. */
  get shown(): Claim | undefined {
    return this.head === undefined ? undefined : this.#block
  }

  /** What it had to show when it was asked for an earlier block, as long as it answers. */
  get proof(): Proof | undefined {
    return this.head === undefined ? undefined : this.#past.proof
  }

  /** The head with its parent, when the node has shown it. */
  get block(): Block | undefined {
    return this.#block !== undefined && this.#block.hash === this.head?.hash ? this.#block : undefined
  }

  /** The newest block that the node says is final; undefined while its chain has not been proved to be ours. */
  get final(): Block | undefined {
    return this.#identity.isOurs ? this.#final : undefined
  }

  /** Is it on another chain than ours? */
  get isElsewhere(): boolean {
    return this.#identity.isElsewhere
  }

  /** The id of its chain; undefined as long as it did not give one. */
  get chain(): number | undefined {
    return this.#identity.chain
  }

  /** Does it tell of heads unasked? */
  get isSubscribed(): boolean {
    return this.#feed?.isFresh === true
  }

  /** How often it has shown its head. */
  get answers(): number {
    return this.#answers
  }

  get height(): number | undefined {
    return this.head?.number
  }

  get low(): number {
    return this.#lows.count
  }

  get isSilent(): boolean {
    return this.isElsewhere || this.#failures >= this.#settings.silentAfter
  }

  /** An answer of the node to a caller said how high it is. */
  hear(number: number): void {
    this.#heard = Math.max(this.#heard, number)
    if (number >= this.#settings.told()) this.#lows.hear(false, true)
    if (this.#head === undefined || number > this.#head.number) this.#head = { number }
  }

  /** What it said to be final was undone, or cannot be: it is asked again at the next poll. */
  forgetFinal(): void {
    this.#undone += 1
    this.#final = undefined
    this.#finalDue = 0
  }

  /** Calls come in: it may tell of heads unasked. */
  wake(): void {
    if (!this.isElsewhere) this.#feed?.open()
  }

  /** Nobody calls any more. */
  rest(): void {
    this.#feed?.close()
  }

  /** Asks for the newest block, unless it is still being asked, or tells of it unasked. */
  async poll(): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    try {
      await this.#identity.check()
      if (this.isElsewhere) this.rest()
      else if (!this.isSubscribed) await this.#askHead()
    } finally {
      this.#isBusy = false
    }
  }

  /**
   * Asks for the final block, when that is due. Resolves with it when it has changed. It counts if others agree, and
   * nothing was undone meanwhile: then it may be what was said before that.
   */
  async pollFinal(agrees: (final: Block) => Promise<boolean>): Promise<Block | undefined> {
    const now = this.#settings.clock.monotonic()
    if (!this.#identity.isOurs || now < this.#finalDue) return undefined
    this.#finalDue = now + this.#settings.rarely
    const [before, undone] = [this.#final, this.#undone]
    const said = readBlock(await this.#ask('eth_getBlockByNumber', 'finalized', false))
    // None that it has not reached itself.
    if (said === undefined || said.number > (this.#head?.number ?? -1) || said.hash === before?.hash) return undefined
    const isAgreed = await agrees(said)
    if (undone !== this.#undone) return undefined
    if (isAgreed) this.#final = said
    else this.forgetFinal()
    return this.final
  }

  /** Asks for an earlier block, when that is due: the newest may be a number that somebody made up. */
  async prove(): Promise<void> {
    if (this.block !== undefined) await this.#past.check(this.block)
  }

  /** A block by its hash or number; undefined when the node does not tell. */
  fetch(at: string): Promise<Block | undefined> {
    return fetchBlock(this.#ask, at)
  }

  /** Asks for the chain id: at first, after a connection came back, and now and then. */
  askChain(): Promise<void> {
    return this.#identity.check()
  }

  async #askHead(): Promise<void> {
    this.#heard = 0
    const reply = await this.#ask('eth_getBlockByNumber', 'latest', false)
    const block = readBlock(reply)
    if (block === undefined) return this.#fail(isFault(reply))
    this.#feed?.compare(block)
    this.#learn(block)
  }

  #learn(block: Block): void {
    this.#failures = 0
    this.#answers += 1
    // A caller's answer overtook the poll.
    if (block.number < this.#heard) return
    this.#lows.hear(block.number < this.#settings.told(), this.isSubscribed)
    this.#head = { number: block.number, hash: block.hash, ...block.time !== undefined && { time: block.time } }
    this.#block = block
  }

  #fail(isLost: boolean): void {
    this.#failures += 1
    if (isLost) this.#identity.forget()
    if (this.#failures >= maxFailures) this.#head = undefined
  }

  #feedTerms(): Omit<ConstructorParameters<typeof Feed>[0], 'url'> {
    const { chainId, blockTime, clock, log, random, target: { name: upstream }, onNews } = this.#settings
    return {
      chainId, clock,
      patience: Math.max(2000, 4 * blockTime),
      random,
      onBlock: block => {
        this.#heard = 0
        this.#learn(block)
        onNews(this)
      },
      onOpen: again => {
        log.info({ upstream }, 'upstream tells of heads by subscription')
        if (!again) return
        this.#identity.forget()
        void this.#identity.check().then(() => onNews(this))
      },
      onEnd: cause => log.warn({ upstream, cause }, 'upstream tells of no heads by subscription: it is polled'),
    }
  }
}

/** Another node may answer next. One that limits us is there. */
const isFault = (reply: Reply): boolean => isFailure(reply) && reply.fault !== 'caller' && reply.meaning !== 'limited'
