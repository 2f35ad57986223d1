/** Numbers that look like chance and are the same for the same seed, on every machine. */
export class SeededRandom {
  #state: number

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1)
  }

  /** From 0 up to, not including, 1: a counter, well stirred (splitmix). */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least)
  }

  /** A whole number; both ends are possible. */
  integer(least: number, most: number): number {
    return Math.floor(this.between(least, most + 1))
  }

  pick<T>(list: readonly [T, ...T[]]): T {
    return list[Math.floor(this.next() * list.length)] ?? list[0]
  }
}
