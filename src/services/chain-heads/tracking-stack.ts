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
