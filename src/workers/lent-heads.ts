import type { Target } from '../call.ts'
import { Leave } from '../leave.ts'
import type { Timer } from '../services/clock.ts'
import { Known, Line, fetchBlock, holds, intervalOf, openAsk, remembered } from '../services/heads/index.ts'
import type { FollowOptions, Heads, HeadsSettings, HeadsStatus, Settled, View } from '../services/heads/index.ts'
import type { FromPrimary, FromWorker, PlainTarget } from './messages.ts'

/** In ms: how often the primary hears that calls come in, and how long it is waited for where a caller waits. */
const touchEvery = 1_000
const patience = 50

/** What the primary tells about one network, or in answer to one question. */
export type News = Exclude<FromPrimary, { readonly kind: 'metrics' | 'stop' }>

export interface LentTerms extends Pick<HeadsSettings, 'chainId' | 'blockTime' | 'agents' | 'clock'> {
  readonly network: string
  say(message: FromWorker): void
}

/** Heads in a worker: what the primary knows, who asks the nodes for all workers. */
export class LentHeads implements Heads {
  readonly interval: number
  readonly #terms: LentTerms
  readonly #line = new Line(remembered)
  readonly #known = new Known(this.#line)
  /** What goes on when the height is shared, and when a question is answered. */
  readonly #waiting = new Set<() => void>()
  readonly #asking = new Map<string, Promise<number>>()
  readonly #answers = new Map<number, (height: number) => void>()
  #targets: readonly Target[] = []
  #shared = 0
  #isTold = false
  #lastTouch = -Infinity
  #lastId = 0

  constructor(terms: LentTerms) {
    this.#terms = terms
    this.interval = intervalOf(terms.blockTime)
  }

  get view(): View {
    return this.#known.view
  }

  get status(): HeadsStatus {
    return this.#known.status
  }

  /** Does it follow nodes and has not heard of them yet? */
  get isWaiting(): boolean {
    return this.#targets.length > 0 && !this.#isTold
  }

  follow(targets: readonly Target[], { maxLag }: FollowOptions = {}): () => void {
    const { network, chainId, blockTime, say } = this.#terms
    this.#targets = targets
    const nodes = { chainId, blockTime, ...(maxLag !== undefined && { maxLag }), targets: targets.map(open) }
    say({ kind: 'follow', network, nodes })
    return () => {
      if (this.#targets !== targets) return
      this.#targets = []
      say({ kind: 'leave', network })
    }
  }

  touch(): void {
    const now = this.#terms.clock.monotonic()
    if (now - this.#lastTouch < touchEvery) return
    this.#lastTouch = now
    this.#terms.say({ kind: 'touch', network: this.#terms.network })
  }

  choose<N extends { readonly name: string }>(nodes: readonly N[], block?: number): readonly N[] {
    return this.#known.choose(nodes, block)
  }

  /** A height is told when no worker tells less any more: a caller may meet any of them next. */
  tell(upstream: string, height: number): number | Promise<number> {
    const { told } = this.#known.state
    if (this.#targets.length === 0 || this.#known.reasonOf(upstream) === 'chain') return height
    if (height > told) return this.#ask(upstream, height)
    return told <= this.#shared ? told : this.#untilShared(told)
  }

  holds(block: Settled): Promise<boolean> {
    const target = this.#targets.find(({ name }) => this.view.isCurrent(name))
    const signal = new Leave()
    return holds(block, this.#known, async at => target && fetchBlock(openAsk(this.#terms.agents, target, signal), at))
  }

  /** The primary says something. */
  hear(news: News): void {
    switch (news.kind) {
      case 'known':
        if (news.line !== undefined) this.#line.change(news.line)
        this.#isTold = true
        return this.#known.learn(news.state)
      case 'height':
        this.#known.tell(news.height)
        return this.#terms.say({ kind: 'seen', network: news.network, height: news.height })
      case 'shared':
        this.#shared = news.height
        return this.#waiting.forEach(go => go())
      case 'told':
        return this.#answers.get(news.id)?.(news.height)
    }
  }

  /** Whoever has the same to ask meanwhile gets the same answer. */
  #ask(upstream: string, height: number): Promise<number> {
    const question = `${height} ${upstream}`
    const asking = this.#asking.get(question) ?? this.#askPrimary(upstream, height).finally(() => this.#asking.delete(question))
    this.#asking.set(question, asking)
    return asking
  }

  #askPrimary(upstream: string, height: number): Promise<number> {
    const { network, say } = this.#terms
    const id = (this.#lastId += 1)
    return this.#within(
      go => {
        this.#answers.set(id, told => go(told))
        say({ kind: 'tell', id, network, upstream, height })
      },
      () => this.#known.state.told || height,
    ).finally(() => this.#answers.delete(id))
  }

  #untilShared(told: number): Promise<number> {
    let go = () => {}
    return this.#within(
      settle => {
        go = () => {
          if (this.#shared >= told) settle(told)
        }
        this.#waiting.add(go)
      },
      () => told,
    ).finally(() => this.#waiting.delete(go))
  }

  /** Callers do not wait for a primary, or another worker, that is busy with something else. */
  #within(begin: (settle: (height: number) => void) => void, otherwise: () => number): Promise<number> {
    let timer: Timer | undefined
    return new Promise<number>(resolve => {
      timer = this.#terms.clock.after(patience, () => resolve(otherwise()))
      begin(resolve)
    }).finally(() => timer?.cancel())
  }
}

const open = ({ url, ws, ...rest }: Target): PlainTarget => ({ ...rest, url: url.reveal(), ...(ws !== undefined && { ws: ws.reveal() }) })
