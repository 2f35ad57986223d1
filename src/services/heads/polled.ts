import type { Target } from '../../call.ts'
import { Leave } from '../../leave.ts'
import type { Agents } from '../agents/index.ts'
import type { Clock } from '../clock.ts'
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
import { Ranking } from './ranking.ts'
import { intervalOf, Rounds } from './rounds.ts'
import type { NodeState, State } from './state.ts'
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
  readonly #ranking: Ranking
  readonly #told: Told
  readonly #rounds: Rounds
  #identified: Promise<void> = Promise.resolve()
  #nodes: readonly Followed[] = []
  #maxLag = 0
  #stopPolls = () => {}

  constructor(settings: HeadsSettings) {
    const { blockTime, clock, log, metrics, news = [] } = settings
    this.#settings = settings
    this.interval = intervalOf(blockTime)
    this.#chain = new Chain({ log, metrics, onUndone: () => this.#forgetFinals() })
    this.#known = new Known(this.#chain.line)
    this.#verdicts = new Verdicts(log, metrics)
    this.#belief = new Belief({ blockTime, clock })
    this.#ranking = new Ranking(this.#belief)
    const memory = Math.max(10_000, 4 * blockTime)
    const witnesses = () => this.#ranking.believed
    this.#told = new Told({ clock, belief: this.#belief, interval: this.interval, news, memory, witnesses })
    this.#rounds = new Rounds({ clock, interval: this.interval, ask: () => this.#poll(), rest: () => this.#rest() })
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
      if (this.#nodes === nodes) this.#rounds.stop()
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
    if (this.#nodes.length > 0) this.#rounds.touch()
  }

  choose<N extends { readonly name: string }>(nodes: readonly N[], block?: number): readonly N[] {
    return this.#known.choose(nodes, block)
  }

  tell(upstream: string, height: number): number | Promise<number> {
    const node = this.#nodes.find(({ name }) => name === upstream)
    if (this.#nodes.length === 0 || node?.isElsewhere === true) return height
    const isNews = height > this.#told.height
    const others = this.#ranking.believed.filter(each => each !== node)
    if (isNews && this.#belief.isDoubted({ number: height }, others, node)) return this.#told.shared
    node?.hear(height)
    this.#told.raise(height)
    if (isNews || height > (this.#ranking.head?.number ?? 0)) this.#judge()
    return this.#told.shared
  }

  holds(block: Settled): Promise<boolean> {
    return holds(block, this.#known, async at => this.#ranking.best?.fetch(at))
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
    for (const node of this.#nodes) {
      node.wake()
      void this.#learnFrom(node)
    }
  }

  #rest(): void {
    this.#nodes.forEach(node => node.rest())
  }

  async #learnFrom(node: Followed): Promise<void> {
    await node.poll()
    this.#judge()
    if (this.#ranking.doubted.size > 0) void node.prove().then(() => this.#judge())
    const isBelieved = !this.#ranking.isDoubted(node)
    const [final] = await Promise.all([isBelieved ? node.pollFinal(block => this.#agrees(block, node)) : undefined, this.#trace()])
    if (final === undefined) return
    if (this.#ranking.isDoubted(node)) return node.forgetFinal()
    await this.#chain.learnFinal(final, node)
    this.#publish()
  }

  /** Is the block on the chain of the newest head? A node may call final what all others have left. */
  async #agrees(final: Block, node: Followed): Promise<boolean> {
    const best = this.#ranking.best
    return best === undefined || best === node || (await this.#chain.holds(final, best))
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
    await this.#chain.trace(() => this.#ranking.best)
    this.#publish()
  }

  #judge(): void {
    this.#ranking.judge(this.#nodes).forEach(node => this.#disbelieve(node))
    const { head, doubted } = this.#ranking
    this.#verdicts.judge(this.#nodes, { head, maxLag: this.#maxLag, doubted })
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

  #forgetFinals(): void {
    this.#nodes.forEach(node => node.forgetFinal())
    this.#publish()
  }

  #publish(): void {
    const [{ head }, { final, era, line }] = [this.#ranking, this.#chain]
    const nodes = this.#nodes.map(node => this.#describe(node))
    this.#known.learn({ ...(head && { head }), ...(final && { final }), era, told: this.#told.height, nodes })
    this.#settings.onChange?.(this.#known.state, line)
  }

  #describe(node: Followed): NodeState {
    const { name, head, final, isSubscribed } = node
    const verdict = this.#verdicts.of(name)
    const mayTell = final !== undefined && !this.#ranking.isDoubted(node)
    return { name, ...(head && { head }), ...(mayTell && { final }), isSubscribed, ...(verdict && { verdict }) }
  }
}
