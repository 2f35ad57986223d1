import type { Target } from '../../call.ts'
import { Leave } from '../../leave.ts'
import type { Agents } from '../agents/index.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import { Belief } from './belief.ts'
import type { Block } from './block.ts'
import { Chain } from './chain.ts'
import { Followed } from './followed.ts'
import { holds } from './holds.ts'
import { Known } from './known.ts'
import type { Line } from './line.ts'
import type { HeadNews } from './news.ts'
import { isSame } from './state.ts'
import type { NodeState, Place, State } from './state.ts'
import { Told } from './told.ts'
import { Verdicts } from './verdicts.ts'
import type { FollowOptions, Heads, HeadsStatus, Settled, View } from './view.ts'

/** What heads need to know their network by. */
export interface HeadsSettings {
  readonly chainId: number
  /** Usual time between blocks, in ms. */
  readonly blockTime: number
  readonly agents: Agents
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Others who tell callers heights of this network. */
  readonly news?: readonly HeadNews[]
  /** Called with what is known, and the newest blocks, whenever that may have changed. */
  readonly onChange?: (state: State, line: Line) => void
}

/** Polls end when no call has come for so long, in ms. */
export const idle = 30_000

export const intervalOf = (blockTime: number): number => Math.min(5000, Math.max(250, blockTime / 2))

/** Heads of nodes that this process asks itself. */
export interface OwnHeads extends Heads {
  /** Resolves once each node that is followed now has been asked for its chain, and within a second. */
  readonly identified: Promise<void>
}

export const openHeads = (settings: HeadsSettings): OwnHeads => new PolledHeads(settings)

/** In ms, for which a start waits for nodes to tell their chain. */
const patience = 1000

class PolledHeads implements OwnHeads {
  readonly interval: number
  readonly #settings: HeadsSettings
  readonly #chain: Chain
  readonly #known: Known
  readonly #verdicts: Verdicts
  readonly #belief: Belief
  readonly #told: Told
  #identified: Promise<void> = Promise.resolve()
  #nodes: readonly Followed[] = []
  /** Names of those whose heads cannot be. */
  #doubted: ReadonlySet<string> = new Set()
  #maxLag = 0
  #stopPolls = () => {}
  #timer: Timer | undefined
  #quiet = 0
  #head: Place | undefined

  constructor(settings: HeadsSettings) {
    const { blockTime, clock, log, metrics, news = [] } = settings
    this.#settings = settings
    this.interval = intervalOf(blockTime)
    this.#chain = new Chain({ log, metrics, onUndone: () => this.#forgetFinals() })
    this.#known = new Known(this.#chain.line)
    this.#verdicts = new Verdicts(log, metrics)
    this.#belief = new Belief({ blockTime, clock })
    const memory = Math.max(10_000, 4 * blockTime)
    this.#told = new Told({ clock, belief: this.#belief, interval: this.interval, news, memory, witnesses: () => this.#believed })
    for (const carrier of news) carrier.listen((height, upstream) => this.#hearOthers(height, upstream))
  }

  get view(): View {
    return this.#known.view
  }

  get status(): HeadsStatus {
    return this.#known.status
  }

  get identified(): Promise<void> {
    return this.#identified
  }

  follow(targets: readonly Target[], { maxLag }: FollowOptions = {}): () => void {
    const { blockTime } = this.#settings
    const end = new Leave()
    const shared = {
      ...this.#settings,
      signal: end,
      interval: this.interval,
      rarely: Math.max(16 * blockTime, 30_000),
      silentAfter: Math.ceil(60_000 / this.interval),
      random: Math.random,
      told: () => this.#told.height,
      fits: this.#belief.fits.bind(this.#belief),
      onNews: () => this.#hear(),
    }
    const nodes = targets.map(target => new Followed({ target, ...shared }))
    const stop = () => {
      end.abort()
      nodes.forEach(node => node.rest())
      if (this.#nodes !== nodes) return
      this.#timer?.cancel()
      this.#timer = undefined
    }
    this.#stopPolls()
    this.#stopPolls = stop
    this.#nodes = nodes
    this.#maxLag = maxLag ?? Math.max(5, Math.ceil(10_000 / blockTime))
    this.#belief.allow(3 * this.#maxLag)
    this.#judge()
    this.#identified = this.#identify(nodes)
    return stop
  }

  touch(): void {
    this.#quiet = 0
    if (this.#timer === undefined) this.#poll()
  }

  choose<N extends { readonly name: string }>(nodes: readonly N[]): readonly N[] {
    return this.#known.choose(nodes)
  }

  tell(upstream: string, height: number): number | Promise<number> {
    const node = this.#nodes.find(({ name }) => name === upstream)
    if (this.#nodes.length === 0 || node?.isElsewhere === true) return height
    const isNews = height > this.#told.height
    const others = this.#believed.filter(each => each !== node)
    if (isNews && this.#belief.isDoubted({ number: height }, others, node)) return this.#told.shared
    node?.hear(height)
    this.#told.raise(height)
    if (isNews || height > (this.#head?.number ?? 0)) this.#judge()
    return this.#told.shared
  }

  holds(block: Settled): Promise<boolean> {
    return holds(block, this.#known, async at => this.#best()?.fetch(at))
  }

  #identify(nodes: readonly Followed[]): Promise<void> {
    const asked = Promise.all(nodes.map(node => node.askChain().then(() => this.#judge())))
    return new Promise(resolve => {
      const timer = this.#settings.clock.after(patience, resolve)
      void asked.then(() => {
        timer.cancel()
        resolve()
      })
    })
  }

  #poll(): void {
    this.#timer = undefined
    if (this.#nodes.length === 0) return
    if (this.#quiet > idle) return this.#nodes.forEach(node => node.rest())
    this.#quiet += this.interval
    this.#timer = this.#settings.clock.after(this.interval, () => this.#poll())
    for (const node of this.#nodes) {
      node.wake()
      void this.#learnFrom(node)
    }
  }

  async #learnFrom(node: Followed): Promise<void> {
    await node.poll()
    this.#judge()
    if (this.#doubted.size > 0) void node.prove().then(() => this.#judge())
    const isBelieved = !this.#doubted.has(node.name)
    const [final] = await Promise.all([isBelieved ? node.pollFinal(block => this.#agrees(block, node)) : undefined, this.#trace()])
    if (final === undefined) return
    if (this.#doubted.has(node.name)) return node.forgetFinal()
    await this.#chain.learnFinal(final, node)
    this.#publish()
  }

  /** Is the block on the chain of the newest head? A node may call final what all others have left. */
  async #agrees(final: Block, node: Followed): Promise<boolean> {
    const best = this.#best()
    return best === undefined || best === node || await this.#chain.holds(final, best)
  }

  #hearOthers(height: number, upstream: string | undefined): number | Promise<number> {
    if (upstream !== undefined) return this.tell(upstream, height)
    this.#told.hear(height)
    this.#publish()
    return this.#told.shared
  }

  /** A node has told something unasked. */
  #hear(): void {
    this.#judge()
    void this.#trace()
  }

  async #trace(): Promise<void> {
    await this.#chain.trace(() => this.#best())
    this.#publish()
  }

  #judge(): void {
    const before = this.#doubted
    this.#doubted = this.#belief.sift(this.#nodes)
    for (const node of this.#nodes) if (this.#doubted.has(node.name) && !before.has(node.name)) this.#disbelieve(node)
    const head = this.#head = this.#best()?.head
    if (head !== undefined) this.#belief.remember(head, this.#believed)
    this.#verdicts.judge(this.#nodes, { head, maxLag: this.#maxLag, doubted: this.#doubted })
    const told = this.#told.settle()
    if (told !== undefined) this.#settings.log.warn({ height: this.#told.height, told }, 'the chain has become shorter')
    if (head !== undefined) this.#told.raise(head.number)
    this.#publish()
  }

  /** What it called final may have been believed already. */
  #disbelieve(node: Followed): void {
    const { final } = node
    node.forgetFinal()
    if (final !== undefined) this.#chain.undo(node, 'what a node called final cannot be believed')
  }

  get #believed(): readonly Followed[] {
    return this.#nodes.filter(({ name }) => !this.#doubted.has(name))
  }

  /** Of those who are believed, one with the highest head: one that is on the head that stands, else the first. */
  #best(): Followed | undefined {
    const believed = this.#believed
    const highest = believed.reduce((most, { height = -1 }) => Math.max(most, height), -1)
    const best = believed.filter(({ height }) => height !== undefined && height === highest)
    return best.find(node => isSame(node.head, this.#head)) ?? best[0]
  }

  #forgetFinals(): void {
    this.#nodes.forEach(node => node.forgetFinal())
    this.#publish()
  }

  #publish(): void {
    const [head, { final, era, line }] = [this.#head, this.#chain]
    const nodes = this.#nodes.map(node => this.#describe(node))
    this.#known.learn({ ...head && { head }, ...final && { final }, era, told: this.#told.height, nodes })
    this.#settings.onChange?.(this.#known.state, line)
  }

  #describe({ name, head, final, isSubscribed }: Followed): NodeState {
    const verdict = this.#verdicts.of(name)
    const mayTell = final !== undefined && !this.#doubted.has(name)
    return { name, ...head && { head }, ...mayTell && { final }, isSubscribed, ...verdict && { verdict } }
  }
}
