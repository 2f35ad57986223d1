import type { Target } from '../../plugin/call.ts'
import { revealSecrets } from '../../plugin/secret.ts'
import { UpstreamTracker } from './upstream-tracker.ts'
import type { UpstreamTrackerOptions } from './upstream-tracker.ts'

/** What a pipeline has tracked. */
export interface Tracking {
  readonly targets: readonly Target[]
  /** Blocks that the head of an upstream may lag. */
  readonly maxLag: number
}

/** The upstreams that are tracked. What is known of an upstream stays as long as each list of targets contains it. */
export class TrackedUpstreams {
  readonly #options: Omit<UpstreamTrackerOptions, 'target'>
  /** By all that identifies a target. */
  #byTarget: ReadonlyMap<string, UpstreamTracker> = new Map()
  all: readonly UpstreamTracker[] = []
  targets: readonly Target[] = []

  /** What is the same for all of them. */
  constructor(options: Omit<UpstreamTrackerOptions, 'target'>) {
    this.#options = options
  }

  /** Returns those that were not tracked before; the requests of those that are no longer tracked are canceled. */
  replace(targets: readonly Target[]): readonly UpstreamTracker[] {
    const previous = new Set(this.all)
    const byTargetBefore = this.#byTarget
    this.targets = targets
    this.#byTarget = new Map(
      targets.map(target => {
        const id = JSON.stringify(revealSecrets(target))
        return [id, byTargetBefore.get(id) ?? new UpstreamTracker({ ...this.#options, target })]
      }),
    )
    this.all = [...this.#byTarget.values()]
    for (const upstream of previous) if (!this.all.includes(upstream)) upstream.stop()
    return this.all.filter(upstream => !previous.has(upstream))
  }
}

/**
 * What several pipelines track at the same time, as while one takes over from another: the latest counts. When it stops, the one
 * before counts again: a pipeline that could not start leaves the old one as it was.
 */
export class TrackingStack<T> {
  readonly #follow: (latest: T) => void
  readonly #stop: () => void
  #trackings: readonly { readonly tracking: T }[] = []

  /** `follow` is called with each tracking that begins to count, `stop` when there is none any more. */
  constructor(follow: (latest: T) => void, stop: () => void) {
    this.#follow = follow
    this.#stop = stop
  }

  /** Calls `follow` again with the tracking that counts. */
  repeat(): void {
    const latest = this.#trackings.at(-1)
    if (latest !== undefined) this.#follow(latest.tracking)
  }

  /** Returns how to remove it; safe twice. */
  push(tracking: T): () => void {
    const entry = { tracking }
    this.#trackings = [...this.#trackings, entry]
    this.#follow(tracking)
    return () => {
      const before = this.#trackings.at(-1)
      this.#trackings = this.#trackings.filter(each => each !== entry)
      const latest = this.#trackings.at(-1)
      if (latest === undefined && before === entry) this.#stop()
      else if (latest !== undefined && latest !== before) this.#follow(latest.tracking)
    }
  }
}
