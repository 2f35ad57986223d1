/** Counts what is under way; whoever stops waits until there is nothing. */
export class InFlight {
  #count = 0
  readonly #waiting: (() => void)[] = []

  begin(): void {
    this.#count += 1
  }

  end(): void {
    this.#count -= 1
    if (this.#count === 0) for (const resolve of this.#waiting.splice(0)) resolve()
  }

  whenIdle(): Promise<void> {
    return this.#count === 0 ? Promise.resolve() : new Promise(resolve => this.#waiting.push(resolve))
  }
}
