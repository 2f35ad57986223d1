import { dayLength } from '../../store/store.ts'
import type { Answer } from '../../store/store.ts'
import type { Timer } from '../clock.ts'
import { Charge } from './charge.ts'
import type { Charged } from './charge.ts'
import { Demand } from './demand.ts'
import { Lease } from './lease.ts'
import { Leftovers } from './leftovers.ts'
import { Standing } from './standing.ts'
import type { Teller } from './teller.ts'
import type { Grace, Verdict } from './verdict.ts'

/** One account in one process: the lease in hand, the calls that wait for more, and the one ask that is on its way. */
export class Purse implements Charged {
  readonly #account: string
  readonly #teller: Teller
  readonly #forget: () => void
  readonly #demand = new Demand()
  /** First come, first charged: a batch is charged in order of position. */
  readonly #waiting: Waiting[] = []
  /** Of days that are over. */
  readonly #leftovers: Leftovers
  readonly #standing = new Standing()
  #lease: Lease
  /** Below this the lease is renewed. */
  #low = 0
  #chargedAt = -Infinity
  /** Credits that the store has not granted and not heard of, or had not when it was last heard. */
  #lent = 0
  #asking: Promise<void> | undefined
  #timer: Timer | undefined
  /** What the timer was set to; Infinity when it is not. */
  #delay = Infinity
  #isStopped = false

  constructor(account: string, teller: Teller, forget: () => void) {
    this.#account = account
    this.#teller = teller
    this.#forget = forget
    this.#leftovers = new Leftovers(account, teller)
    this.#lease = new Lease(teller.today(teller.clock.monotonic()))
  }

  /** While the lease lasts, without waiting, and making nothing but the verdict: 70 ns, most of them for the clock. */
  charge(limit: number, cost: number, grace: Grace = noGrace): Verdict | Promise<Verdict> {
    if (!Number.isSafeInteger(cost) || cost < 0) throw new RangeError(`a cost must be a whole number, not ${cost}`)
    const now = this.#teller.clock.monotonic()
    const isPlain = this.#waiting.length === 0 && limit === this.limit && this.#lease.day === this.#teller.today(now)
    return isPlain && this.#lease.rem >= cost ? this.#spend(cost, now) : this.#consider(limit, { cost, grace }, now)
  }

  refund(lease: Lease, cost: number): boolean {
    if (lease !== this.#lease) return false
    lease.rem += cost
    this.#arm()
    return true
  }

  get limit(): number {
    return this.#standing.limit
  }

  get left(): number {
    return Math.min(Math.max(0, this.#standing.left + this.#lease.rem), this.limit)
  }

  get endsIn(): number {
    return this.#teller.endsIn(this.#teller.clock.monotonic())
  }

  /** Asks no more, and gives back all that is in hand. False: the store was away. */
  async stop(): Promise<boolean> {
    this.#isStopped = true
    // It still pays for calls that wait.
    await this.#asking
    this.#timer?.cancel()
    this.#retire(this.#lease.day)
    for (let tries = 0; tries < stopTries && !this.#leftovers.isEmpty; tries += 1) await this.#leftovers.settle()
    return this.#leftovers.isEmpty
  }

  #spend(cost: number, now: number): Verdict {
    const lease = this.#lease
    lease.rem -= cost
    this.#chargedAt = now
    if (lease.rem < this.#low && !this.#standing.isSilent(now)) this.#ask()
    return new Charge(this, lease, cost)
  }

  #consider(limit: number, wish: Wanted, now: number): Verdict | Promise<Verdict> {
    if (limit !== this.limit) this.#standing.change(limit)
    this.#turn(now)
    const verdict = this.#waiting.length === 0 ? this.#decide(wish, now) : undefined
    if (verdict !== undefined) return verdict
    this.#demand.meet(wish.cost)
    return new Promise(resolve => {
      this.#waiting.push({ ...wish, resolve })
      this.#ask()
    })
  }

  /** Undefined: only the store can tell. */
  #decide({ cost, grace }: Wanted, now: number): Verdict | undefined {
    if (this.#lease.rem >= cost) return this.#spend(cost, now)
    if (this.#standing.isShort(cost - this.#lease.rem, now)) return this.#refuse()
    if (this.#standing.isAway && this.#lend(cost, grace, now)) return this.#spend(cost, now)
    return this.#isStopped || this.#standing.isSilent(now) ? { kind: 'away' } : undefined
  }

  /** Puts what is missing in the hand, as far as grace goes. Nobody waits for a store that may hang. */
  #lend(cost: number, grace: Grace, now: number): boolean {
    const missing = cost - this.#lease.rem
    const awayFor = this.#teller.awayFor(now)
    const isAllowed = awayFor !== undefined && awayFor < grace.lasts && this.#lent + missing <= grace.credits
    // Before the first answer nobody knows the day that would be charged.
    if (this.#isStopped || !isAllowed || this.#lease.day < 0) return false
    this.#lent += missing
    this.#lease.lend(missing)
    if (!this.#standing.isSilent(now)) this.#ask()
    this.#arm()
    return true
  }

  #refuse(): Verdict {
    const resetAt = (this.#lease.day + 1) * dayLength
    const { limit, left } = this.#standing
    return { kind: 'spent', limit, used: limit - left - this.#lease.rem, resetAt, budget: this }
  }

  #ask(): void {
    if (!this.#isStopped) this.#asking ??= this.#renew()
  }

  /** Brings the lease to its target size, up or down, and reports what was used. */
  async #renew(): Promise<void> {
    // The rest of a batch comes in first.
    await null
    const lease = this.#lease
    const now = this.#teller.clock.monotonic()
    const target = this.#target(now)
    lease.giveBack(Math.max(0, lease.rem - target))
    const need = Math.max(0, (this.#waiting[0]?.cost ?? 0) - lease.rem)
    const { limit } = this
    const answer = await this.#teller.ask(this.#account, lease, { need, want: target - lease.rem, limit })
    this.#asking = undefined
    this.#learn(lease, answer, limit)
    this.#arm()
    this.#serve()
    if (answer !== undefined && this.#lease.owed > 0) this.#ask()
  }

  #target(now: number): number {
    this.#demand.note(this.#lease.spent, now)
    if (this.#waiting.length === 0 && now - this.#chargedAt >= idleAfter) {
      this.#demand.rest()
      return 0
    }
    const waiting = this.#waiting.reduce((sum, { cost }) => sum + cost, 0)
    return this.#demand.target(this.limit, this.#teller.horizon, waiting)
  }

  #learn(lease: Lease, answer: Answer | undefined, limit: number): void {
    const now = this.#teller.clock.monotonic()
    this.#standing.hear(answer !== undefined, now)
    if (answer === undefined) return
    this.#lent = this.#lease.owed
    // The day or the plan may have changed meanwhile.
    if (lease !== this.#lease || limit !== this.limit) return
    this.#low = Math.floor(lease.rem / 2)
    this.#standing.learn(answer.left, now)
  }

  /** Tells those who wait what became of their calls, in order, until one needs the store again. */
  #serve(): void {
    const now = this.#teller.clock.monotonic()
    this.#turn(now)
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      const verdict = this.#decide(first, now)
      if (verdict === undefined) return this.#ask()
      this.#waiting.shift()
      first.resolve(verdict)
    }
  }

  /** At midnight the lease ends: what is left of it buys nothing on the next day. */
  #turn(now: number): void {
    const today = this.#teller.today(now)
    if (today === this.#lease.day) return
    this.#retire(today)
    void this.#leftovers.settle()
  }

  #retire(today: number): void {
    this.#leftovers.add(this.#lease)
    this.#lease = new Lease(today)
    this.#low = 0
    this.#standing.restart()
  }

  /** Sees to it that #tick() comes soon enough; one that is due sooner stays. */
  #arm(): void {
    const delay = this.#isQuiet ? forgetAfter : reportEvery
    if (this.#isStopped || this.#delay <= delay) return
    this.#timer?.cancel()
    this.#delay = delay
    this.#timer = this.#teller.clock.after(delay, () => this.#tick())
  }

  get #isQuiet(): boolean {
    return this.#lease.isSettled && this.#leftovers.isEmpty
  }

  #tick(): void {
    this.#delay = Infinity
    const now = this.#teller.clock.monotonic()
    this.#turn(now)
    if (!this.#leftovers.isEmpty) void this.#leftovers.settle()
    const quietFor = now - this.#chargedAt
    // An account that was never charged has been quiet for ever, and calls may wait for its first charge.
    if (this.#isQuiet && this.#waiting.length === 0 && quietFor >= forgetAfter) {
      this.#isStopped = true
      this.#forget()
    }
    if (quietFor >= idleAfter ? !this.#lease.isSettled : this.#lease.isNews) this.#ask()
    this.#arm()
  }
}

/** Credits of an account that rests go back to the store after so many ms. */
const idleAfter = 2_000
const reportEvery = 1_000
/** What this process used today is on record in the store, and comes back with the first answer. */
const forgetAfter = 600_000
/** A message that is lost must not cost credits. */
const stopTries = 3

const noGrace: Grace = { credits: 0, lasts: 0 }

interface Wanted {
  readonly cost: number
  readonly grace: Grace
}

interface Waiting extends Wanted {
  resolve(verdict: Verdict): void
}
