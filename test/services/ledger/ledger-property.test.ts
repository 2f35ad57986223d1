import fc from 'fast-check'
import t from '../../support/tap.ts'
import type { ChargeResult } from '../../../src/services/ledger/index.ts'
import { TestCluster, accountWith, drainEventLoop } from './ledger-test-cluster.ts'
import type { TestProcess } from './ledger-test-cluster.ts'
import { dayMs } from '../../../src/util/dates.ts'

/** An event. Numbers choose a process, a message or an earlier charge. */
type Step =
  | {
      readonly do: 'charge'
      readonly process: number
      readonly account: number
      readonly cost: number
      readonly calls: number
    }
  | { readonly do: 'refund' | 'kill' | 'stop' | 'deliver' | 'drop' | 'duplicate'; readonly index: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'hold' | 'unhold' | 'disconnect' | 'connect' | 'start' }

const index = fc.nat(50)
const indexed = (...names: Extract<Step, { index: number }>['do'][]) => fc.record({ do: fc.constantFrom(...names), index })
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
  { weight: 8, arbitrary: indexed('deliver') },
  { weight: 3, arbitrary: indexed('refund', 'drop', 'duplicate') },
  { weight: 1, arbitrary: indexed('kill', 'stop') },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('advance' as const),
      ms: fc.constantFrom(1, 90, 300, 1_100, 2_500),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('hold', 'unhold', 'connect', 'start') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('disconnect' as const) }) },
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

/** Runs steps on a cluster that starts a few seconds before midnight, and counts served credits apart from the store. */
class PropertyRun {
  readonly cluster = new TestCluster(Date.UTC(2026, 0, 15, 23, 59, 54), { isGateway: true })
  readonly served: ServedCall[] = []
  /** Credits served, by account and day. */
  readonly servedCredits = new Map<string, number>()
  readonly did = new Set<Step['do']>()

  get day(): number {
    return Math.floor(this.cluster.clock.now() / dayMs)
  }

  async apply(step: Step): Promise<void> {
    const {
      cluster: { network, processes },
    } = this
    this.did.add(step.do)
    if (step.do === 'charge') this.#charge(processes[step.process % processes.length], step)
    else if (step.do === 'advance') await this.cluster.advance(step.ms)
    else if (step.do === 'refund') this.#refund(step.index)
    else if (step.do === 'kill') processes[step.index % processes.length]?.kill()
    else if (step.do === 'stop') void processes[step.index % processes.length]?.ledger.stop()
    else if (step.do === 'drop') network.take(step.index % network.messages.length)
    else if (step.do === 'deliver') network.take(step.index % network.messages.length)()
    else if (step.do === 'duplicate') network.messages.push(...network.messages.slice(0, 1 + (step.index % 5)))
    else if (step.do === 'hold' || step.do === 'unhold') network.holdsMessages = step.do === 'hold'
    else if (step.do === 'disconnect' || step.do === 'connect') network.isDown = step.do === 'disconnect'
    else if (processes.length < 5) void this.cluster.start()
    await drainEventLoop()
  }

  /** Repairs the network, and lets live processes become idle. */
  async settle(): Promise<void> {
    const { network } = this.cluster
    Object.assign(network, { holdsMessages: false, isDown: false })
    await network.deliver()
    await this.cluster.advance(8_000)
  }

  #charge(process: TestProcess | undefined, { account, cost, calls }: Extract<Step, { do: 'charge' }>): void {
    const charged = accounts[account]
    if (process === undefined || process.isDead || charged === undefined) return
    for (let i = 0; i < calls; i += 1) {
      const result = process.ledger.charge(charged, cost)
      const record = (settled: ChargeResult) => {
        if (settled.kind !== 'charged' || process.isDead) return
        this.served.push({ result: settled, process, account, cost, day: this.day })
        this.#add(account, this.day, cost)
      }
      if (result instanceof Promise) void result.then(record)
      else record(result)
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
      const { leased, used, held, forfeited } = run.cluster.network.dayTotals(`acc_${account}`, day)
      if (served > leased) throw new Error(`served ${served} > leased ${leased}`)
      if (leased > limit) throw new Error(`leased ${leased} > limit ${limit}`)
      if (leased !== used + held + forfeited) throw new Error(`leased ${leased} !== ${used} + ${held} + ${forfeited}`)
      if (Math.min(used, held, forfeited) < 0) throw new Error(`negative: ${used}, ${held}, ${forfeited}`)
    }
  }
}

/** When all are idle, no live process holds credits, and the store knows all that was served. */
const checkSettled = (run: PropertyRun): void => {
  for (const account of limits.keys()) {
    const served = run.servedCredits.get(`${account} ${run.day}`) ?? 0
    const { used, held, forfeited } = run.cluster.network.dayTotals(`acc_${account}`)
    if (held !== 0) throw new Error(`${held} held while idle`)
    if (used + forfeited < served) throw new Error(`served ${served} > used ${used} + forfeited ${forfeited}`)
    if (!run.did.has('refund') && used > served) throw new Error(`used ${used} > served ${served}`)
    const mayForfeit = run.did.has('kill') || run.did.has('stop')
    if (!mayForfeit && forfeited !== 0) throw new Error(`${forfeited} forfeited without a kill`)
  }
}

t.test('served <= leased <= limit, and every credit is accounted for, whatever happens in whatever order', async t => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 90 }), async steps => {
    const run = new PropertyRun()
    await run.cluster.start()
    await run.cluster.start()
    for (const each of steps) {
      await run.apply(each)
      checkInvariants(run)
    }
    await run.settle()
    checkInvariants(run)
    checkSettled(run)
  })
  await t.resolves(fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 80) }))
})

/** Of one account; a number chooses the process, or the charge that is refunded. */
type GatewayStep =
  | { readonly do: 'charge'; readonly process: number; readonly cost: number }
  | { readonly do: 'refund'; readonly index: number }
  | { readonly do: 'advance'; readonly ms: number }

const gatewayStep: fc.Arbitrary<GatewayStep> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('charge' as const), process: index, cost: fc.constantFrom(1, 17, 80, 255, 700) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('refund' as const), index }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(50, 500, 1_000, 2_500) }) },
)

t.test('a gateway refuses a call only when less is left of the day than it costs, whichever of its processes gets it', async t => {
  const property = fc.asyncProperty(
    fc.integer({ min: 1, max: 4 }),
    fc.integer({ min: 80, max: 12_000 }),
    fc.array(gatewayStep, { minLength: 10, maxLength: 80 }),
    async (size, limit, steps) => {
      const cluster = new TestCluster(undefined, { isGateway: true })
      for (let i = 0; i < size; i++) await cluster.start()
      const charges: { readonly cost: number; readonly charge: Extract<ChargeResult, { kind: 'charged' }> }[] = []
      let used = 0
      let wasNearlyUsedUp = false
      for (const each of steps) {
        wasNearlyUsedUp ||= used + 1_000 > limit
        if (each.do === 'advance') await cluster.advance(each.ms)
        else if (each.do === 'refund') {
          const [refunded] = charges.splice(each.index % charges.length, 1)
          if (refunded?.charge.refund() === true) used -= refunded.cost
        } else {
          // A process refuses further calls by itself for so long, and reports refunds within a second.
          if (used + each.cost <= limit && wasNearlyUsedUp) {
            await cluster.advance(1_300)
            wasNearlyUsedUp = false
          }
          const charge = await cluster.processes[each.process % size]!.ledger.charge(accountWith(limit), each.cost)
          if ((charge.kind === 'charged') !== used + each.cost <= limit)
            throw new Error(`${charge.kind}: ${used} + ${each.cost} of ${limit}`)
          if (charge.kind !== 'charged') continue
          charges.push({ cost: each.cost, charge })
          used += each.cost
        }
      }
    },
  )
  await t.resolves(fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 80) }))
})
