import type { Target } from '../../call.ts'
import { Leave } from '../../leave.ts'
import type { Agents } from '../agents/index.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import { Ancestry } from './ancestry.ts'
import type { Step } from './ancestry.ts'
import type { Block } from './block.ts'
import { Followed } from './followed.ts'
import type { Place } from './followed.ts'
import { Height } from './height.ts'
import { Verdicts } from './verdicts.ts'
import type { Heads, HeadsStatus, View } from './view.ts'

/** What heads need to know their network by. */
export interface HeadsSettings {
  readonly chainId: number
  /** Usual time between blocks, in ms. */
  readonly blockTime: number
  readonly agents: Agents
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** Polls end when no call has come for so long, in ms. */
const idle = 30_000

export const openHeads = (settings: HeadsSettings): Heads => new PolledHeads(settings)

class PolledHeads implements Heads {
  readonly interval: number
  readonly #settings: HeadsSettings
  readonly #ancestry = new Ancestry()
  readonly #height = new Height()
  readonly #verdicts: Verdicts
  readonly #reorganisations: { add(): void }
  #nodes: readonly Followed[] = []
  #maxLag = 0
  #stopPolls = () => {}
  #timer: Timer | undefined
  #quiet = 0
  #epoch = 0
  #era = 0
  #head: Place | undefined
  #final: Block | undefined
  #isTracing = false
  #view: View

  constructor(settings: HeadsSettings) {
    const { blockTime, log, metrics } = settings
    this.#settings = settings
    this.interval = Math.min(5000, Math.max(250, blockTime / 2))
    this.#verdicts = new Verdicts(log, metrics)
    this.#reorganisations = metrics.counter('tollgate_reorganisations_total', 'Reorganisations seen.')
    this.#view = this.#look()
  }

  get view(): View {
    return this.#view
  }

  get status(): HeadsStatus {
    return {
      ...this.#head && { head: this.#head.number },
      ...this.#final && { finalized: this.#final.number },
      upstreams: this.#nodes.map(node => {
        const because = this.#verdicts.words(node)
        const head = node.head && { head: node.head.number }
        return { name: node.target.name, ...head, usable: because === undefined, ...because && { because } }
      }),
    }
  }

  follow(targets: readonly Target[], { maxLag }: { readonly maxLag?: number | undefined } = {}): () => void {
    const { chainId, blockTime, agents, clock } = this.#settings
    const end = new Leave()
    const rarely = Math.max(16 * blockTime, 30_000)
    const silentAfter = Math.ceil(60_000 / this.interval)
    const shared = { chainId, agents, clock, signal: end, rarely, silentAfter }
    const nodes = targets.map(target => new Followed({ target, ...shared }))
    const stop = () => {
      end.abort()
      if (this.#nodes !== nodes) return
      this.#timer?.cancel()
      this.#timer = undefined
    }
    this.#stopPolls()
    this.#stopPolls = stop
    this.#nodes = nodes
    this.#maxLag = maxLag ?? Math.max(5, Math.ceil(10_000 / blockTime))
    this.#judge()
    for (const node of nodes) void node.askChain().then(() => this.#judge())
    return stop
  }

  touch(): void {
    this.#quiet = 0
    if (this.#timer === undefined) this.#poll()
  }

  choose<N extends { readonly name: string }>(nodes: readonly N[]): readonly N[] {
    return this.#verdicts.choose(nodes)
  }

  tell(upstream: string, height: number): number {
    const node = this.#nodes.find(({ target }) => target.name === upstream)
    if (this.#nodes.length === 0 || node?.isElsewhere === true) return height
    node?.hear(height)
    const isNews = height > this.#height.told
    const told = this.#height.raise(height)
    if (isNews) this.#change()
    if (isNews || height > (this.#head?.number ?? 0)) this.#judge()
    return told
  }

  #poll(): void {
    this.#timer = undefined
    if (this.#nodes.length === 0 || this.#quiet > idle) return
    this.#quiet += this.interval
    this.#timer = this.#settings.clock.after(this.interval, () => this.#poll())
    for (const node of this.#nodes) {
      void this.#learnFrom(node)
    }
  }

  async #learnFrom(node: Followed): Promise<void> {
    await node.poll(() => this.#height.told)
    this.#judge()
    const [final] = await Promise.all([node.pollFinal(), this.#trace()])
    if (final !== undefined) await this.#learnFinal(final, node)
  }

  #judge(): void {
    const head = bestOf(this.#nodes, this.#head)?.head
    if (!isSame(head, this.#head)) this.#change()
    this.#head = head
    this.#verdicts.judge(this.#nodes, head, this.#maxLag)
    if (this.#nodes.length > 0 && this.#height.settle(this.#nodes)) {
      this.#change()
      this.#settings.log.warn({ height: this.#height.told }, 'the chain has become shorter')
    }
    if (head !== undefined) this.#height.raise(head.number)
    this.#view = this.#look()
  }

  #change(): void {
    this.#epoch += 1
  }

  #look(): View {
    const [head, epoch, era, ancestry] = [this.#head, this.#epoch, this.#era, this.#ancestry]
    const places = new Map(this.#nodes.map(node => [node.target.name, { head: node.head, final: node.final }]))
    return {
      epoch, era,
      isCurrent: (upstream = '') => head === undefined || isSame(places.get(upstream)?.head, head),
      isFinal(upstream = '', block) {
        const final = places.get(upstream)?.final
        if (final === undefined) return false
        return typeof block === 'number' ? block <= final.number : ancestry.isFinal(block, final)
      },
    }
  }

  /** Follows the head through its ancestors; heads that come meanwhile are followed after it. */
  async #trace(): Promise<void> {
    if (this.#isTracing) return
    this.#isTracing = true
    try {
      for (let done: Block | undefined; ;) {
        const node = bestOf(this.#nodes, this.#head)
        if (node?.block === undefined || node.block.hash === done?.hash) break
        done = node.block
        await this.#report(await this.#ancestry.follow(done, node), node, done)
      }
    } finally {
      this.#isTracing = false
    }
  }

  async #report(step: Step, node: Followed, { number }: Block): Promise<void> {
    if (step.kind === 'fork') {
      this.#reorganisations.add()
      this.#settings.log.info({ upstream: node.target.name, head: number, depth: step.depth }, 'reorganisation')
    }
    const final = this.#final
    if (final !== undefined && (step.kind === 'lost' || number < final.number)) await this.#proveFinal(node, final)
  }

  /** Another block is final. That the one before still stands follows from the line of blocks, or the node is asked. */
  async #learnFinal(fresh: Block, node: Followed): Promise<void> {
    const known = this.#final
    this.#view = this.#look()
    if (known === undefined || fresh.number > known.number) this.#final = fresh
    if (known === undefined || fresh.hash === known.hash) return
    if (this.#ancestry.links(known, fresh) || this.#ancestry.links(fresh, known)) return
    if ((node.height ?? 0) >= known.number) await this.#proveFinal(node, known)
  }

  async #proveFinal(node: Followed, known: Block): Promise<void> {
    const now = await node.fetch(`0x${known.number.toString(16)}`)
    if (now?.hash === known.hash) return
    this.#settings.log.warn({ upstream: node.target.name, block: known.number }, 'final blocks were undone')
    this.#era += 1
    this.#change()
    this.#final = undefined
    this.#nodes.forEach(each => each.forgetFinal())
    this.#ancestry.forget()
    this.#view = this.#look()
  }
}

/** The node with the highest head; of several, one that is on the head that stands, else the first. */
const bestOf = (nodes: readonly Followed[], head: Place | undefined): Followed | undefined => {
  const highest = nodes.reduce((most, { height = -1 }) => Math.max(most, height), -1)
  const best = nodes.filter(node => node.height !== undefined && node.height === highest)
  return best.find(node => isSame(node.head, head)) ?? best[0]
}

const isSame = (one: Place | undefined, other: Place | undefined): boolean =>
  one?.number === other?.number && one?.hash === other?.hash
