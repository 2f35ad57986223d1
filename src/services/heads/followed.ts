import type { Target } from '../../call.ts'
import type { Signal } from '../../leave.ts'
import { isFailure } from '../../reply.ts'
import type { Reply } from '../../reply.ts'
import type { Agents } from '../agents/index.ts'
import type { Log } from '../log.ts'
import { readBlock } from './block.ts'
import type { Block } from './block.ts'
import type { Claim, Proof } from './belief.ts'
import { Feed } from './feed.ts'
import { fetchBlock, openAsk } from './fetch.ts'
import type { AskNode } from './fetch.ts'
import { Identity } from './identity.ts'
import { Past } from './past.ts'
import { openPolite } from './polite.ts'
import type { Place } from './state.ts'
import { Tip } from './tip.ts'
import type { TipTerms } from './tip.ts'

export interface FollowedSettings extends TipTerms {
  readonly target: Target
  readonly chainId: number
  /** In ms. */
  readonly blockTime: number
  readonly agents: Agents
  readonly log: Log
  readonly signal: Signal
  /** ms between questions for the finalized block, and for the chain. */
  readonly rarely: number
  /** From 0 to below 1. */
  random(): number
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
  readonly #tip: Tip
  readonly #feed: Feed | undefined
  #final: Block | undefined
  #isBusy = false
  #finalDue = 0
  #undone = 0
  /** Of its connections, as far as they have been noticed. */
  #losses: number

  constructor(settings: FollowedSettings) {
    const { target, chainId, agents, clock, signal, rarely, fits } = settings
    this.#settings = settings
    this.target = target
    this.#losses = agents.losses(target)
    this.#ask = openPolite(openAsk(agents, target, signal), clock)
    this.#identity = new Identity({ chainId, clock, rarely, ask: () => this.#ask('eth_chainId') })
    this.#tip = new Tip(settings)
    this.#past = new Past({ clock, rarely, fits, ask: number => this.#ask('eth_getBlockByNumber', number, false) })
    this.#feed = target.ws && new Feed({ ...this.#feedTerms(), url: target.ws })
  }

  get name(): string {
    return this.target.name
  }

  get head(): Place | undefined {
    return this.isElsewhere ? undefined : this.#tip.head
  }

  /** The newest block that it has shown, as long as it answers. */
  get shown(): Claim | undefined {
    return this.isElsewhere ? undefined : this.#tip.shown
  }

  /** What it had to show when it was asked for an earlier block, as long as it answers. */
  get proof(): Proof | undefined {
    return this.head === undefined ? undefined : this.#past.proof
  }

  /** The head with its parent, when the node has shown it. */
  get block(): Block | undefined {
    return this.isElsewhere ? undefined : this.#tip.block
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
    return this.#tip.answers
  }

  get height(): number | undefined {
    return this.head?.number
  }

  get low(): number {
    return this.#tip.low
  }

  get isSilent(): boolean {
    return this.isElsewhere || this.#tip.isSilent
  }

  /** An answer of the node to a caller said how high it is. */
  hear(number: number): void {
    this.#tip.hear(number)
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
      this.#noticeLosses()
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
    if (said === undefined || said.number > (this.#tip.head?.number ?? -1) || said.hash === before?.hash) return undefined
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

  /** Another node may be there now, as after a restart: its chain is asked for before anything else. */
  #noticeLosses(): void {
    const { agents, target } = this.#settings
    const losses = agents.losses(target)
    if (losses > this.#losses) this.#identity.forget()
    this.#losses = losses
  }

  async #askHead(): Promise<void> {
    this.#tip.expect()
    const reply = await this.#ask('eth_getBlockByNumber', 'latest', false)
    const block = readBlock(reply)
    if (block === undefined) {
      if (isFault(reply)) this.#identity.forget()
      return this.#tip.fail()
    }
    this.#feed?.compare(block)
    this.#tip.show(block, this.isSubscribed)
  }

  #feedTerms(): Omit<ConstructorParameters<typeof Feed>[0], 'url'> {
    const {
      chainId,
      blockTime,
      clock,
      log,
      random,
      target: { name: upstream },
      onNews,
    } = this.#settings
    return {
      chainId,
      clock,
      patience: Math.max(2000, 4 * blockTime),
      random,
      onBlock: block => {
        this.#tip.expect()
        this.#tip.show(block, true)
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
