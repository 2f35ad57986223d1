import type { HeadPlausibility } from './head-plausibility.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'
import { isSameHead } from './chain-state.ts'
import type { Head } from './chain-state.ts'

/** Which nodes are believed, and which of them is the best: as they were judged last. */
export class HeadSelection {
  readonly #plausibility: HeadPlausibility
  #upstreams: readonly UpstreamTracker[] = []
  /** Names of those whose heads cannot be. */
  #implausible: ReadonlySet<string> = new Set()
  #head: Head | undefined

  constructor(plausibility: HeadPlausibility) {
    this.#plausibility = plausibility
  }

  /** The head of the best node; undefined while none of those believed has told of one. */
  get head(): Head | undefined {
    return this.#head
  }

  get implausible(): ReadonlySet<string> {
    return this.#implausible
  }

  get plausible(): readonly UpstreamTracker[] {
    return this.#upstreams.filter(node => !this.isImplausible(node))
  }

  /** Of those who are believed, one with the highest head: one that is on the head that stands, else the first. */
  get best(): UpstreamTracker | undefined {
    const plausible = this.plausible
    const highest = plausible.reduce((max, { height = -1 }) => Math.max(max, height), -1)
    const candidates = plausible.filter(({ height }) => height !== undefined && height === highest)
    return candidates.find(node => isSameHead(node.head, this.#head)) ?? candidates[0]
  }

  isImplausible({ name }: UpstreamTracker): boolean {
    return this.#implausible.has(name)
  }

  /** Gives those who were believed until now, and are so no longer. */
  evaluate(upstreams: readonly UpstreamTracker[]): readonly UpstreamTracker[] {
    const previous = this.#implausible
    this.#upstreams = upstreams
    this.#implausible = this.#plausibility.findImplausible(upstreams)
    this.#head = this.best?.head
    if (this.#head !== undefined) this.#plausibility.recordAccepted(this.#head, this.plausible)
    return upstreams.filter(node => this.isImplausible(node) && !previous.has(node.name))
  }
}
