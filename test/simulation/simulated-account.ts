/** One account: its credits a day, which change with its plan, and the credits that were served to it. */
export class SimulatedAccount {
  readonly id: string
  limit: number
  /** Credits served by true day, less refunds. */
  readonly #served = new Map<number, number>()
  /** Grants that the store forgot when a backup was restored, by day. */
  readonly #forgottenGrants = new Map<number, number>()
  /** Overdrafts that were reported to the store after an outage, by day. */
  readonly #overdraft = new Map<number, number>()
  /** Of now and before. */
  readonly #limits: LimitPeriod[]

  constructor(id: string, limit: number) {
    this.id = id
    this.limit = limit
    this.#limits = [{ limit, until: Infinity }]
  }

  recordServed(day: number, credits: number): void {
    this.#served.set(day, this.served(day) + credits)
  }

  served(day: number): number {
    return this.#served.get(day) ?? 0
  }

  recordForgottenGrant(day: number, credits: number): void {
    this.#forgottenGrants.set(day, this.forgottenGrants(day) + credits)
  }

  forgottenGrants(day: number): number {
    return this.#forgottenGrants.get(day) ?? 0
  }

  recordOverdraft(day: number, credits: number): void {
    this.#overdraft.set(day, this.overdraft(day) + credits)
  }

  overdraft(day: number): number {
    return this.#overdraft.get(day) ?? 0
  }

  /** The old limit counts until then, because processes learn of the new limit at different times. Returns the old limit. */
  changeLimit(limit: number, until: number): LimitPeriod {
    const last = this.#limits.at(-1) ?? { limit, until }
    last.until = until
    this.limit = limit
    this.#limits.push({ limit, until: Infinity })
    return last
  }

  /** The highest limit that any process may have used since that time. */
  maxLimitSince(since: number): number {
    return Math.max(...this.#limits.filter(({ until }) => until >= since).map(({ limit }) => limit))
  }
}

interface LimitPeriod {
  limit: number
  until: number
}

/** Credits per call. */
export const costs = [5, 17, 80, 80, 255, 300] as const
export const minCost = 5
export const maxCost = 300
