import type { Line } from './line.ts'
import { isSame } from './state.ts'
import type { NodeState, Reason, State } from './state.ts'
import type { HeadsStatus, View } from './view.ts'

/** What this process knows of a network's chain, and what follows from it for calls. */
export class Known {
  readonly #line: Line
  #state: State = { era: 0, told: 0, nodes: [] }
  #epoch = 0
  #reasons: ReadonlyMap<string, Reason> = new Map()
  #heights: ReadonlyMap<string, number> = new Map()
  #view: View

  /** The newest blocks, as they are at any time. */
  constructor(line: Line) {
    this.#line = line
    this.#view = this.#look()
  }

  get state(): State {
    return this.#state
  }

  get view(): View {
    return this.#view
  }

  learn(state: State): void {
    const before = this.#state
    this.#state = state
    if (!isSame(state.head, before.head) || state.told !== before.told || state.era !== before.era) this.#epoch += 1
    this.#reasons = new Map(state.nodes.flatMap(({ name, verdict }) => (verdict === undefined ? [] : [[name, verdict.reason]])))
    this.#heights = new Map(state.nodes.flatMap(({ name, head }) => (head === undefined ? [] : [[name, head.number]])))
    this.#view = this.#look()
  }

  /** Callers are told another height from now on. */
  tell(told: number): void {
    if (told !== this.#state.told) this.learn({ ...this.#state, told })
  }

  /** Why calls pass the node over. */
  reasonOf(name: string): Reason | undefined {
    return this.#reasons.get(name)
  }

  /** In order; those too far behind after the others, then those ahead of what can be; none of another chain. */
  choose<N extends { readonly name: string }>(nodes: readonly N[], block?: number): readonly N[] {
    if (this.#reasons.size === 0) return this.#byReach(nodes, block)
    const of = (reason: Reason | undefined) => nodes.filter(({ name }) => this.#reasons.get(name) === reason)
    return [...this.#byReach(of(undefined), block), ...of('lag'), ...of('ahead')]
  }

  /** Those that are not there yet come last. Of what lies above the head that is believed none can have told the truth. */
  #byReach<N extends { readonly name: string }>(nodes: readonly N[], block = Infinity): readonly N[] {
    if (block > (this.#state.head?.number ?? -1)) return nodes
    const isBelow = ({ name }: N) => (this.#heights.get(name) ?? Infinity) < block
    return nodes.some(isBelow) ? [...nodes.filter(node => !isBelow(node)), ...nodes.filter(isBelow)] : nodes
  }

  get status(): HeadsStatus {
    const { head, final, nodes } = this.#state
    return { ...(head && { head: head.number }), ...(final && { finalized: final.number }), upstreams: nodes.map(statusOf) }
  }

  #look(): View {
    const [{ head, final: newest, era, nodes }, epoch, line] = [this.#state, this.#epoch, this.#line]
    const places = new Map(nodes.map(node => [node.name, node]))
    return {
      epoch,
      era,
      head: head?.number,
      isCurrent: (upstream = '') => head === undefined || isSame(places.get(upstream)?.head, head),
      isFinal(upstream = '', block) {
        const final = places.get(upstream)?.final
        if (final === undefined) return false
        return typeof block === 'number' ? block <= final.number : line.isFinal(block, final)
      },
      finalOf: upstream => (upstream === undefined ? newest : places.get(upstream)?.final),
    }
  }
}

const statusOf = ({ name, head, isSubscribed, verdict }: NodeState): HeadsStatus['upstreams'][number] => ({
  name,
  ...(head && { head: head.number }),
  ...(isSubscribed && { subscribed: true as const }),
  usable: verdict === undefined,
  ...(verdict && { because: verdict.words }),
})
