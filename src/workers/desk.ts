import type { Target } from '../call.ts'
import { Secret } from '../secret.ts'
import type { Agents } from '../services/agents/index.ts'
import type { Clock } from '../services/clock.ts'
import { Line, openHeads, remembered } from '../services/heads/index.ts'
import type { HeadsStatus, NewsOf, OwnHeads, State } from '../services/heads/index.ts'
import type { Log } from '../services/log.ts'
import { labelled } from '../services/metrics.ts'
import type { Metrics } from '../services/metrics.ts'
import { CrewNews } from './crew-news.ts'
import type { Member } from './crew-news.ts'
import type { FromWorker, Nodes, PlainTarget } from './messages.ts'

export interface DeskTerms {
  readonly agents: Agents
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Who else tells callers heights, on other machines. */
  readonly newsOf: NewsOf
}

/** Where the primary follows the nodes of each network for all its workers, so that they cost what one would. */
export class Desk {
  readonly #terms: DeskTerms
  readonly #networks = new Map<string, Lending>()

  constructor(terms: DeskTerms) {
    this.#terms = terms
  }

  /** What `/readyz?verbose` says of the network. */
  statusOf(network: string): HeadsStatus | undefined {
    return this.#networks.get(network)?.heads.status
  }

  hear(member: Member, message: FromWorker): void {
    if (!('network' in message)) return
    const { network } = message
    if (message.kind === 'follow') return this.#follow(network, message.nodes).join(member)
    this.#networks.get(network)?.hear(member, message)
  }

  /** The worker is gone. */
  forget(member: Member): void {
    for (const lending of this.#networks.values()) lending.leave(member)
  }

  stop(): void {
    for (const lending of this.#networks.values()) lending.stop()
  }

  /** A worker that was replaced may have read other nodes than those before it: then these hold for all. */
  #follow(network: string, nodes: Nodes): Lending {
    const known = this.#networks.get(network)
    if (known?.isOf(nodes) === true) return known
    const members = known?.members ?? []
    known?.stop()
    const fresh = new Lending(network, nodes, this.#terms, members)
    this.#networks.set(network, fresh)
    return fresh
  }
}

/** The heads of one network, and the workers that they are lent to. */
class Lending {
  readonly heads: OwnHeads
  readonly #network: string
  readonly #key: string
  readonly #news: CrewNews
  /** The newest blocks as the workers know them, and what they were told last. */
  readonly #line = new Line(remembered)
  readonly #stop: () => void
  /** What is to be said once the nodes have told their chains: a worker waits for that. */
  #latest: (() => void) | undefined
  #isIdentified = false
  #state: State | undefined
  #said = ''

  constructor(network: string, nodes: Nodes, { newsOf, ...terms }: DeskTerms, members: readonly Member[]) {
    const { chainId, blockTime, maxLag, targets } = nodes
    this.#network = network
    this.#key = JSON.stringify(nodes)
    this.#news = new CrewNews(network, terms.clock)
    this.heads = openHeads({
      ...terms,
      chainId,
      blockTime,
      log: terms.log.child({ network }),
      metrics: labelled(terms.metrics, { network }),
      news: [this.#news, ...newsOf(network, chainId)],
      onChange: (state, line) => {
        this.#latest = () => this.#publish(state, line)
        if (this.#isIdentified) this.#latest()
      },
    })
    for (const member of members) this.join(member)
    this.#stop = this.heads.follow(targets.map(seal), { maxLag })
    void this.heads.identified.then(() => {
      this.#isIdentified = true
      this.#latest?.()
    })
  }

  get members(): readonly Member[] {
    return this.#news.members
  }

  isOf(nodes: Nodes): boolean {
    return JSON.stringify(nodes) === this.#key
  }

  join(member: Member): void {
    if (this.#state !== undefined) {
      const line = this.#line.updateOf(new Line(remembered))
      member.say({ kind: 'known', network: this.#network, state: this.#state, ...(line && { line }) })
    }
    this.#news.join(member)
  }

  leave(member: Member): void {
    this.#news.leave(member)
  }

  hear(member: Member, message: FromWorker): void {
    switch (message.kind) {
      case 'touch':
        return this.heads.touch()
      case 'leave':
        return this.leave(member)
      default:
        this.#news.hear(member, message)
    }
  }

  /** Says nothing to anybody any more, whatever its nodes still answer. */
  stop(): void {
    this.#stop()
    for (const member of this.members) this.leave(member)
  }

  #publish(state: State, line: Line): void {
    const change = line.updateOf(this.#line)
    const said = JSON.stringify(state)
    if (said === this.#said && change === undefined) return
    if (change !== undefined) this.#line.change(change)
    this.#said = said
    this.#state = state
    for (const member of this.members) {
      member.say({ kind: 'known', network: this.#network, state, ...(change && { line: change }) })
    }
  }
}

const seal = ({ url, ws, ...rest }: PlainTarget): Target => ({
  ...rest,
  url: new Secret(url),
  ...(ws !== undefined && { ws: new Secret(ws) }),
})
