const maxEvents = 10_000
const maxChars = 8 << 20

/** The newest events of a feed whose events belong to no block: filters that are polled too rarely miss some. */
export class RecentEvents {
  readonly #texts: string[] = []
  #chars = 0
  #count = 0

  /** Of all events so far. */
  get count(): number {
    return this.#count
  }

  add(texts: readonly string[]): void {
    this.#count += texts.length
    for (const text of texts) {
      this.#texts.push(text)
      this.#chars += text.length
    }
    while (this.#texts.length > maxEvents || this.#chars > maxChars) this.#chars -= this.#texts.shift()?.length ?? 0
  }

  /** Those that have come since there were so many. */
  since(count: number): { readonly texts: readonly string[]; readonly count: number } {
    return { texts: this.#texts.slice(Math.max(0, this.#texts.length - (this.#count - count))), count: this.#count }
  }
}
