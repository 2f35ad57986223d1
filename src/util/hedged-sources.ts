import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from './async.ts'

/** A source that has not answered by then is slow: the next one is asked too. */
const hedgeDelayMs = 1_000

/** Nodes that are asked for one block after the other: none of them holds up what follows. */
export class HedgedSources {
  readonly #clock: Clock
  /** The name of the source that answered last. */
  #lastProvider: string | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Asks one source after the other, and the next also while one is slow; that which answered last comes first. Resolves with the first value, or with
   * undefined when all have returned undefined.
   */
  first<Source extends { readonly name: string }, T>(
    sources: readonly Source[],
    request: (source: Source) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.#askAll(sources, request, resolve).then(() => resolve(undefined), reject)
    })
  }

  /** Calls `onFound` at most once. Resolves when no further source is asked, and without a value when all have answered. */
  async #askAll<Source extends { readonly name: string }, T>(
    sources: readonly Source[],
    request: (source: Source) => Promise<T | undefined>,
    onFound: (value: T) => void,
  ): Promise<void> {
    let isFound = false
    const requests: Promise<void>[] = []
    for (const source of this.#lastProviderFirst(sources)) {
      const answer = request(source).then(value => {
        if (value === undefined || isFound) return
        isFound = true
        this.#lastProvider = source.name
        onFound(value)
      })
      requests.push(answer)
      await withTimeoutOr(this.#clock, hedgeDelayMs, answer, () => undefined)
      if (isFound) return
    }
    await Promise.all(requests)
  }

  #lastProviderFirst<Source extends { readonly name: string }>(sources: readonly Source[]): readonly Source[] {
    const last = sources.find(({ name }) => name === this.#lastProvider)
    return last === undefined ? sources : [last, ...sources.filter(each => each !== last)]
  }
}
