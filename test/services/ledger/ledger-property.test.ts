import fc from 'fast-check'
import t from 'tap'
import type { ChargeResult } from '../../../src/services/ledger/index.ts'
import { TestCluster, accountWith, drainEventLoop } from './ledger-test-cluster.ts'
import type { TestProcess } from './ledger-test-cluster.ts'
import { dayMs } from '../../../src/util/dates.ts'

/** What may happen, in any order. Numbers choose a process, a message or an earlier charge. */
type Step =
  | {
      readonly do: 'charge'
      readonly process: number
      readonly account: number
      readonly cost: number
      readonly calls: number
    }
  | { readonly do: 'refund' | 'kill' | 'stop' | 'arrive' | 'lose' | 'double'; readonly index: number }
  | { readonly do: 'turn'; readonly ms: number }
  | { readonly do: 'slow' | 'fast' | 'down' | 'up' | 'start' }

const index = fc.nat(50)
const some = (...names: Extract<Step, { index: number }>['do'][]) => fc.record({ do: fc.constantFrom(...names), index })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant('charge' as const),
      process: index,
      account: fc.nat(1),
      cost: fc.constantFrom(1, 17, 80, 255),
      calls: fc.integer({ min: 1, max: 12 }),
    }),
  },
  { weight: 8, arbitrary: some('arrive') },
  { weight: 3, arbitrary: some('refund', 'lose', 'double') },
  { weight: 1, arbitrary: some('kill', 'stop') },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('turn' as const),
      ms: fc.constantFrom(1, 90, 300, 1_100, 2_500),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('slow', 'fast', 'up', 'start') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('down' as const) }) },
)

const limits = [400, 30_000]
const accounts = limits.map((limit, i) => accountWith(limit, `acc_${i}`))

interface ServedCall {
  readonly result: Extract<ChargeResult, { kind: 'charged' }>
  readonly process: TestProcess
  readonly account: number
  readonly cost: number
  readonly day: number
}

/** Runs steps on a world that is a few seconds before midnight, and keeps its own books beside those of the store. */
class PropertyRun {
  readonly world = new TestCluster(Date.UTC(2026, 0, 15, 23, 59, 54))
  readonly served: ServedCall[] = []
  /** Credits served, by account and day. */
  readonly servedCredits = new Map<string, number>()
  readonly did = new Set<Step['do']>()

  get day(): number {
    return Math.floor(this.world.clock.now() / dayMs)
  }

  async apply(step: Step): Promise<void> {
    const {
      world: { network: wire, processes },
    } = this
    this.did.add(step.do)
    if (step.do === 'charge') this.#charge(processes[step.process % processes.length], step)
    else if (step.do === 'turn') await this.world.advance(step.ms)
    else if (step.do === 'refund') this.#refund(step.index)
    else if (step.do === 'kill') processes[step.index % processes.length]?.kill()
    else if (step.do === 'stop') void processes[step.index % processes.length]?.ledger.stop()
    else if (step.do === 'lose') wire.take(step.index % wire.messages.length)
    else if (step.do === 'arrive') wire.take(step.index % wire.messages.length)()
    else if (step.do === 'double') wire.messages.push(...wire.messages.slice(0, 1 + (step.index % 5)))
    else if (step.do === 'slow' || step.do === 'fast') wire.holdsMessages = step.do === 'slow'
    else if (step.do === 'down' || step.do === 'up') wire.isDown = step.do === 'down'
    else if (processes.length < 5) void this.world.start()
    await drainEventLoop()
  }

  /** The wire is repaired, and whoever lives comes to rest. */
  async settle(): Promise<void> {
    const { network: wire } = this.world
    Object.assign(wire, { holdsMessages: false, isDown: false })
    await wire.deliver()
    await this.world.advance(8_000)
  }

  #charge(process: TestProcess | undefined, { account, cost, calls }: Extract<Step, { do: 'charge' }>): void {
    const who = accounts[account]
    if (process === undefined || process.isDead || who === undefined) return
    for (let i = 0; i < calls; i += 1) {
      const verdict = process.ledger.charge(who, cost)
      const note = (verdict: ChargeResult) => {
        if (verdict.kind !== 'charged' || process.isDead) return
        this.served.push({ result: verdict, process, account, cost, day: this.day })
        this.#add(account, this.day, cost)
      }
      if (verdict instanceof Promise) void verdict.then(note)
      else note(verdict)
    }
  }

  #refund(index: number): void {
    const found = this.served.splice(index % this.served.length, 1)[0]
    if (found === undefined || found.process.isDead) return
    found.result.refund()
    found.result.refund()
    this.#add(found.account, found.day, -found.cost)
  }

  #add(account: number, day: number, cost: number): void {
    const key = `${account} ${day}`
    this.servedCredits.set(key, (this.servedCredits.get(key) ?? 0) + cost)
  }
}

const checkInvariants = (run: PropertyRun): void => {
  for (const [account, limit] of limits.entries()) {
    for (const day of [run.day - 1, run.day]) {
      const served = run.servedCredits.get(`${account} ${day}`) ?? 0
      const { leased, used, held, forfeited } = run.world.network.dayTotals(`acc_${account}`, day)
      if (served > leased) throw new Error(`served ${served} > leased ${leased}`)
      if (leased > limit) throw new Error(`leased ${leased} > limit ${limit}`)
      if (leased !== used + held + forfeited) throw new Error(`leased ${leased} !== ${used} + ${held} + ${forfeited}`)
      if (Math.min(used, held, forfeited) < 0) throw new Error(`below zero: ${used}, ${held}, ${forfeited}`)
    }
  }
}

/** At rest, nobody who lives holds anything, and the store knows of all that was served. */
const checkSettled = (run: PropertyRun): void => {
  for (const account of limits.keys()) {
    const served = run.servedCredits.get(`${account} ${run.day}`) ?? 0
    const { used, held, forfeited } = run.world.network.dayTotals(`acc_${account}`)
    if (held !== 0) throw new Error(`${held} held at rest`)
    if (used + forfeited < served) throw new Error(`served ${served} > used ${used} + forfeited ${forfeited}`)
    if (!run.did.has('refund') && used > served) throw new Error(`used ${used} > served ${served}`)
    const isKept = !run.did.has('kill') && !run.did.has('stop')
    if (isKept && forfeited !== 0) throw new Error(`${forfeited} forfeited by nobody`)
  }
}

t.test('served <= leased <= limit, and every credit is accounted for, whatever happens in whatever order', async t => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 90 }), async steps => {
    const run = new PropertyRun()
    await run.world.start()
    await run.world.start()
    for (const each of steps) {
      await run.apply(each)
      checkInvariants(run)
    }
    await run.settle()
    checkInvariants(run)
    checkSettled(run)
  })
  await t.resolves(fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 150) }))
})
