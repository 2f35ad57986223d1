/** One account: its credits a day, which change with its plan, and what was served to it. */
export class Account {
  readonly id: string
  limit: number
  /** Credits served by true day, less refunds. */
  readonly #served = new Map<number, number>()
  /** Credits that the store forgot having granted, when a backup was put back; by day. */
  readonly #lost = new Map<number, number>()
  /** Credits that were lent while the store was away, and that it was told of afterwards; by day. */
  readonly #owed = new Map<number, number>()
  /** Limits that are in force or were. */
  readonly #caps: Cap[]

  constructor(id: string, limit: number) {
    this.id = id
    this.limit = limit
    this.#caps = [{ limit, until: Infinity }]
  }

  add(day: number, credits: number): void {
    this.#served.set(day, this.served(day) + credits)
  }

  served(day: number): number {
    return this.#served.get(day) ?? 0
  }

  lose(day: number, credits: number): void {
    this.#lost.set(day, this.lost(day) + credits)
  }

  lost(day: number): number {
    return this.#lost.get(day) ?? 0
  }

  owe(day: number, credits: number): void {
    this.#owed.set(day, this.owed(day) + credits)
  }

  owed(day: number): number {
    return this.#owed.get(day) ?? 0
  }

  /** The old limit still counts until then: not everybody hears of the new one at once. Returns it. */
  change(limit: number, until: number): Cap {
    const last = this.#caps.at(-1) ?? { limit, until }
    last.until = until
    this.limit = limit
    this.#caps.push({ limit, until: Infinity })
    return last
  }

  /** The highest limit that anybody may have gone by since that time. */
  highest(since: number): number {
    return Math.max(...this.#caps.filter(({ until }) => until >= since).map(({ limit }) => limit))
  }
}

interface Cap {
  limit: number
  until: number
}

/** What calls cost. */
export const costs = [5, 17, 80, 80, 255, 300] as const
export const cheapest = 5
export const dearest = 300
