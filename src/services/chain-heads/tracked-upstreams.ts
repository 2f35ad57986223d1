import type { Signal, Target } from '../../plugin/call.ts'
import { Cancellation } from '../../plugin/call.ts'
import { revealSecrets } from '../../plugin/secret.ts'
import type { UpstreamTracker } from './upstream-tracker.ts'

interface Entry {
  readonly upstream: UpstreamTracker
  /** Ends its requests. */
  readonly cancellation: Cancellation
}

/** The upstreams that are tracked. What is known of an upstream stays as long as each list of targets contains it. */
export class TrackedUpstreams {
  readonly #createTracker: (target: Target, signal: Signal) => UpstreamTracker
  /** By all that identifies a target. */
  #entries: ReadonlyMap<string, Entry> = new Map()
  all: readonly UpstreamTracker[] = []
  targets: readonly Target[] = []

  constructor(createTracker: (target: Target, signal: Signal) => UpstreamTracker) {
    this.#createTracker = createTracker
  }

  /** Returns those that were not tracked before; the requests of those that are no longer tracked are canceled. */
  replace(targets: readonly Target[]): readonly UpstreamTracker[] {
    const previous = this.#entries
    this.targets = targets
    this.#entries = new Map(
      targets.map(target => {
        const id = JSON.stringify(revealSecrets(target))
        return [id, previous.get(id) ?? this.#create(target)]
      }),
    )
    this.all = Array.from(this.#entries.values(), ({ upstream }) => upstream)
    for (const [id, entry] of previous) {
      if (this.#entries.has(id)) continue
      stopEntry(entry)
      // With another URL it has the same series.
      if (!this.all.some(({ name }) => name === entry.upstream.name)) entry.upstream.health.removeSeries()
    }
    return this.all.filter(upstream => ![...previous.values()].some(entry => entry.upstream === upstream))
  }

  #create(target: Target): Entry {
    const cancellation = new Cancellation()
    return { upstream: this.#createTracker(target, cancellation), cancellation }
  }
}

const stopEntry = ({ upstream, cancellation }: Entry): void => {
  cancellation.abort()
  upstream.closeSubscription()
}
