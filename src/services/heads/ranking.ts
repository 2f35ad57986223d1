import type { Belief } from './belief.ts'
import type { Followed } from './followed.ts'
import { isSame } from './state.ts'
import type { Place } from './state.ts'

/** Which nodes are believed, and which of them is the best: as they were judged last. */
export class Ranking {
  readonly #belief: Belief
  #nodes: readonly Followed[] = []
  /** Names of those whose heads cannot be. */
  #doubted: ReadonlySet<string> = new Set()
  #head: Place | undefined

  constructor(belief: Belief) {
    this.#belief = belief
  }

  /** The head of the best node; undefined while none of those believed has told of one. */
  get head(): Place | undefined {
    return this.#head
  }

  get doubted(): ReadonlySet<string> {
    return this.#doubted
  }

  get believed(): readonly Followed[] {
    return this.#nodes.filter(node => !this.isDoubted(node))
  }

  /** Of those who are believed, one with the highest head: one that is on the head that stands, else the first. */
  get best(): Followed | undefined {
    const believed = this.believed
    const highest = believed.reduce((most, { height = -1 }) => Math.max(most, height), -1)
    const best = believed.filter(({ height }) => height !== undefined && height === highest)
    return best.find(node => isSame(node.head, this.#head)) ?? best[0]
  }

  isDoubted({ name }: Followed): boolean {
    return this.#doubted.has(name)
  }

  /** Gives those who were believed until now, and are so no longer. */
  judge(nodes: readonly Followed[]): readonly Followed[] {
    const before = this.#doubted
    this.#nodes = nodes
    this.#doubted = this.#belief.sift(nodes)
    this.#head = this.best?.head
    if (this.#head !== undefined) this.#belief.remember(this.#head, this.believed)
    return nodes.filter(node => this.isDoubted(node) && !before.has(node.name))
  }
}
