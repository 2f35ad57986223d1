import type { Target } from '../../plugin/call.ts'
import { revealSecrets } from '../../plugin/secret.ts'
import { UpstreamTracker } from './upstream-tracker.ts'
import type { UpstreamTrackerOptions } from './upstream-tracker.ts'

/** What a pipeline has tracked. */
export interface Tracking {
  readonly targets: readonly Target[]
  /** Blocks that the head of an upstream may lag. */
  readonly maxLag?: number | undefined
}

/** The upstreams that are tracked. What is known of an upstream stays as long as each list of targets contains it. */
export class TrackedUpstreams {
  readonly #options: Omit<UpstreamTrackerOptions, 'target' | 'index'>
  /** By all that identifies a target. */
  #byTarget: ReadonlyMap<string, UpstreamTracker> = new Map()
  all: readonly UpstreamTracker[] = []

  /** What is the same for all of them. */
  constructor(options: Omit<UpstreamTrackerOptions, 'target' | 'index'>) {
    this.#options = options
  }

  /** Returns those that were not tracked before; the requests of those that are no longer tracked are canceled. */
  replace(targets: readonly Target[]): readonly UpstreamTracker[] {
    const previous = new Set(this.all)
    const byTargetBefore = this.#byTarget
    this.#byTarget = new Map(
      targets.map((target, index) => {
        const id = JSON.stringify(revealSecrets(target))
        return [id, byTargetBefore.get(id) ?? new UpstreamTracker({ ...this.#options, target, index })]
      }),
    )
    this.all = [...this.#byTarget.values()]
    for (const upstream of previous) if (!this.all.includes(upstream)) upstream.stop()
    return this.all.filter(upstream => !previous.has(upstream))
  }
}

/** Called with the tracking of the latest pipeline, and with all upstreams that pipelines track. */
type Follow = (latest: Tracking, targets: readonly Target[]) => void

/**
 * What several pipelines track at the same time, as while one takes over from another: the upstreams of all of them, since the old one has calls until
 * the last of them has ended. Of two upstreams of one name that of the later pipeline counts, and so do its other settings. When it stops, those
 * of the one before count again: a pipeline that could not start leaves the old one as it was.
 */
export class TrackingStack {
  readonly #follow: Follow
  readonly #stop: () => void
  #trackings: readonly { readonly tracking: Tracking }[] = []

  /** `follow` is called when what counts may have changed, `stop` when there is nothing any more. */
  constructor(follow: Follow, stop: () => void) {
    this.#follow = follow
    this.#stop = stop
  }

  /** Calls `follow` again with what counts. */
  repeat(): void {
    const latest = this.#trackings.at(-1)
    if (latest !== undefined) this.#follow(latest.tracking, this.#targets)
  }

  /** Returns how to remove it; safe twice. */
  push(tracking: Tracking): () => void {
    const entry = { tracking }
    this.#trackings = [...this.#trackings, entry]
    this.repeat()
    return () => {
      if (!this.#trackings.includes(entry)) return
      const [latest, targets] = [this.#trackings.at(-1), this.#targets]
      this.#trackings = this.#trackings.filter(each => each !== entry)
      const left = this.#targets
      if (this.#trackings.length === 0) this.#stop()
      else if (latest === entry || left.length !== targets.length || left.some((target, i) => target !== targets[i])) this.repeat()
    }
  }

  /** The latest first. */
  get #targets(): readonly Target[] {
    const byName = new Map<string, Target>()
    for (const { tracking } of this.#trackings.toReversed())
      for (const target of tracking.targets) if (!byName.has(target.name)) byName.set(target.name, target)
    return [...byName.values()]
  }
}
