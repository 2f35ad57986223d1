import type { Account } from '../../src/plugin/call.ts'
import type { Secret } from '../../src/plugin/secret.ts'
import { generateApiKey, hashApiKey } from '../../src/services/accounts/api-key.ts'
import { openAccounts } from '../../src/services/accounts/index.ts'
import type { Accounts, KeyStore, Lookup } from '../../src/services/accounts/index.ts'
import type { Plans } from '../../src/services/accounts/effective-plan.ts'
import type { Clock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import type { ChargeResult, LedgerService } from '../../src/services/ledger/index.ts'
import { changeGroupOf, processTimeoutMs, storeTimeoutMs } from '../../src/store/store.ts'
import type { KeyWithAccount, LedgerStore } from '../../src/store/store.ts'
import { InMemoryLedgerStore } from '../../src/testing/in-memory-store.ts'
import { withTimeout } from '../../src/util/async.ts'
import { dayMs, hourMs } from '../../src/util/dates.ts'
import { getOrCreate } from '../../src/util/memoize.ts'
import { TestLog } from '../support/fakes.ts'
import { SeededRandom } from './seeded-random.ts'
import { VirtualTime } from './virtual-time.ts'

/** Gateways in regions at different distances from one store, and accounts that call in one region each. */
export interface RegionsWorld {
  /** Round trips to the store, in ms: one for each region. */
  readonly distancesMs: readonly number[]
  readonly gatewaysPerRegion: number
  /** Gateways of its region that an account calls. */
  readonly gatewaysOfAccount: number
  readonly accounts: number
  readonly dailyCredits: number
  readonly callsPerSecond: number
  /** Changes of accounts and keys. */
  readonly changesPerHour: number
  /** Before all else each account calls each of its gateways once, as in the hours since their last start. */
  readonly hasEachCalled?: boolean
  /** Of the day, UTC, at which it begins. */
  readonly startHour: number
  /** In place of it: after so many seconds of the measured time it is midnight. */
  readonly midnightAt?: number
  readonly warmUpSeconds: number
  readonly seconds: number
  /** This region cannot reach the store, from and until so many seconds of the measured time; to the end without `until`. */
  readonly lostRegion?: { readonly region: number; readonly from: number; readonly until?: number }
  /** In the measured time a gateway is killed this often (kill -9), and another takes its place. */
  readonly killIntervalSeconds?: number
}

export interface RegionsResult {
  readonly calls: number
  readonly served: number
  /** Calls that waited for the store. */
  readonly waited: number
  /** Of these, the first of their account at their gateway, which had neither key nor credits for them. */
  readonly first: number
  /** Of the others, those that waited for their key or for whether keys have changed, and those that waited for credits; some for both. */
  readonly laterForKey: number
  readonly laterForCredits: number
  /** Of all calls together. */
  readonly waitedMs: number
  /** Refused because the store could not be asked. */
  readonly unavailable: number
  readonly leaseRequests: number
  readonly kills: number
  /** The most that an account was served beyond a day. */
  readonly overshoot: number
  /** Of 1: credits that processes hold which are gone, of the days of accounts that called. */
  readonly forfeited: number
  /** The same of the account that lost most. */
  readonly mostForfeited: number
  /** Of 1: credits of the day that an account did not get which was refused for want of credits, on average; 0 where none was. */
  readonly unserved: number
}

/** As they are from 20 to 250 ms. */
export const distancesMs = [20, 40, 60, 80, 100, 125, 150, 180, 215, 250] as const

const cost = 80
const callBatchMs = 20
/** While each account calls once: with ten regions as many leases a second as one Redis writes without being half busy. */
const firstCallsPerSecond = 4_000

/** Runs the real ledger of each gateway in virtual time. The n-th account calls an n-th as often as the first (Zipf's law). */
export const simulateRegions = async (world: RegionsWorld): Promise<RegionsResult> => {
  const { warmUpSeconds, midnightAt } = world
  const firstCallsSeconds = world.hasEachCalled === true ? (world.accounts * world.gatewaysOfAccount) / firstCallsPerSecond : 0
  const startMs = midnightAt === undefined ? world.startHour * hourMs : dayMs - (firstCallsSeconds + warmUpSeconds + midnightAt) * 1_000
  const time = new VirtualTime(Date.UTC(2026, 0, 15) + startMs, () => undefined)
  const start = time.now
  const random = new SeededRandom(1)
  /** Of a process, which does nothing any more once it is dead. */
  const clockOf = (process: { readonly isDead: boolean }): Clock => {
    const after: Clock['after'] = (ms, run) => time.after(ms, () => void (process.isDead || run()))
    return {
      now: () => time.now,
      monotonic: () => time.now - start + 1_000,
      after,
      every(ms, run) {
        let timer = after(ms, function again() {
          timer = after(ms, again)
          run()
        })
        return { cancel: () => timer.cancel() }
      },
    }
  }
  const store = new InMemoryLedgerStore(clockOf({ isDead: false }))
  const keys = new SimulatedKeys(world.dailyCredits)
  const counted = newCounts()
  let lost: number | undefined
  const overDistance =
    (region: number, clock: Clock) =>
    async <T>(request: () => Promise<T> | T): Promise<T> => {
      const travel = (): Promise<void> =>
        new Promise(resolve => {
          if (region !== lost) clock.after((world.distancesMs[region] ?? 0) / 2, resolve)
        })
      await travel()
      const response = await request()
      await travel()
      return response
    }
  const ledgerSeenFrom = (region: number, clock: Clock): LedgerStore => {
    const over = overDistance(region, clock)
    return {
      horizonMs: 10_000,
      requestLease(request) {
        counted.leaseRequests += 1
        return over(() => store.requestLease(request))
      },
      heartbeat: process => over(() => store.heartbeat(process)),
      deregister: process => over(() => store.deregister(process)),
    }
  }
  const keysSeenFrom = (region: number, clock: Clock): KeyStore => {
    const over = <T>(request: () => Promise<T> | T): Promise<T> => withTimeout(clock, storeTimeoutMs, overDistance(region, clock)(request))
    return {
      findKey: hash => over(() => keys.findKey(hash)),
      findKeyById: () => undefined,
      revokeKey: async () => undefined,
      changeCount: () => over(() => keys.changes.total),
      changeCounts: () => over(() => ({ total: keys.changes.total, byGroup: new Map(keys.changes.byGroup) })),
      subscribe: onChange =>
        keys.subscribe(group => {
          if (region !== lost) clock.after((world.distancesMs[region] ?? 0) / 2, () => onChange(group))
        }),
    }
  }
  const open = (region: number, name: string): SimulatedGateway => {
    const process = { isDead: false }
    const clock = clockOf(process)
    const accounts = openAccounts(keysSeenFrom(region, clock), keys.plans, clock)
    const ledger = openLedger(ledgerSeenFrom(region, clock), clock, { log: new TestLog(), process: name })
    void ledger.start()
    return { accounts, ledger, known: new Set(), process }
  }
  const gateways = world.distancesMs.map((_, region) =>
    Array.from({ length: world.gatewaysPerRegion }, (_, i) => open(region, `${region}-${i}`)),
  )
  let kills = 0
  /** Those of all regions in turn. */
  const killNext = (): void => {
    const region = kills % gateways.length
    const inRegion = gateways[region] ?? []
    const i = Math.floor(kills / gateways.length) % inRegion.length
    kills += 1
    const killed = inRegion[i]
    if (killed !== undefined) killed.process.isDead = true
    inRegion[i] = open(region, `${region}-${i} after kill ${kills}`)
  }
  const changeIntervalMs = hourMs / world.changesPerHour
  time.after(changeIntervalMs, function change() {
    keys.change(random.integer(1, world.accounts))
    time.after(changeIntervalMs, change)
  })
  const days = new Map<string, ServedDay>()
  const dayOf = (rank: number, day: number): ServedDay =>
    getOrCreate(days, `${day} ${rank}`, () => ({ account: accountId(rank), day, credits: 0, isExhausted: false }))
  const charge = (rank: number, { ledger }: SimulatedGateway, account: Account, isFirst: boolean): Promise<void> | undefined => {
    const record = (result: ChargeResult): void => {
      if (result.kind === 'charged') {
        counted.served += 1
        dayOf(rank, result.day).credits += cost
      } else if (result.kind === 'storeUnavailable') counted.unavailable += 1
      else dayOf(rank, result.resetAt / dayMs - 1).isExhausted = true
    }
    const result = ledger.charge(account, cost)
    if (!(result instanceof Promise)) return void record(result)
    if (!isFirst) counted.laterForCredits += 1
    return result.then(record)
  }
  /** `turn` names one of the gateways that the account calls. */
  const callFrom = (rank: number, turn: number) => {
    const inRegion = gateways[rank % gateways.length] ?? []
    // Not by the rank alone, which gives the region: one gateway of each would get all.
    const gateway = inRegion[(Math.floor(rank / gateways.length) + turn) % inRegion.length]
    if (gateway === undefined) return
    counted.calls += 1
    const isFirst = !gateway.known.has(rank)
    gateway.known.add(rank)
    const serve = (lookup: Lookup): Promise<void> | undefined => {
      if (lookup.kind === 'granted') return charge(rank, gateway, lookup.account, isFirst)
      counted.unavailable += 1
      return undefined
    }
    const lookup = gateway.accounts.find(keys.textOf(rank))
    if (lookup instanceof Promise && !isFirst) counted.laterForKey += 1
    const waiting = lookup instanceof Promise ? lookup.then(serve) : serve(lookup)
    if (waiting === undefined) return
    counted.waited += 1
    if (isFirst) counted.first += 1
    const startedAt = time.now
    void waiting.then(() => {
      counted.waitedMs += time.now - startedAt
    })
  }
  const run = async (seconds: number) => {
    for (let ms = 0; ms < seconds * 1_000; ms += callBatchMs) {
      for (let i = 0; i < (world.callsPerSecond * callBatchMs) / 1_000; i += 1) {
        const rank = Math.floor(Math.exp(random.next() * Math.log(world.accounts)))
        callFrom(rank, random.integer(0, world.gatewaysOfAccount - 1))
      }
      await time.advance(callBatchMs)
    }
  }
  const haveEachCall = async () => {
    let left = 0
    // Those that call most are the last.
    for (let rank = world.accounts; rank > 0; rank -= 1) {
      for (let turn = 0; turn < world.gatewaysOfAccount; turn += 1, left -= 1) {
        if (left <= 0) {
          await time.advance(callBatchMs)
          left = (firstCallsPerSecond * callBatchMs) / 1_000
        }
        callFrom(rank, turn)
      }
    }
  }
  if (world.hasEachCalled === true) await haveEachCall()
  await run(warmUpSeconds)
  Object.assign(counted, newCounts())
  const { killIntervalSeconds } = world
  if (killIntervalSeconds !== undefined) {
    const endAt = time.now + world.seconds * 1_000
    time.after(killIntervalSeconds * 1_000, function kill() {
      if (time.now >= endAt) return
      killNext()
      time.after(killIntervalSeconds * 1_000, kill)
    })
  }
  const { lostRegion } = world
  if (lostRegion === undefined) await run(world.seconds)
  else {
    await run(lostRegion.from)
    lost = lostRegion.region
    await run((lostRegion.until ?? world.seconds) - lostRegion.from)
    if (lostRegion.until !== undefined) lost = undefined
    await run(world.seconds - (lostRegion.until ?? world.seconds))
  }
  // Until the last that was killed counts as dead.
  await time.advance(2 * processTimeoutMs)
  const forfeits = Array.from(days.values(), ({ account, day }) => store.dayTotals(account, day).forfeited)
  const unserved = [...days.values()].filter(({ isExhausted }) => isExhausted).map(({ credits }) => world.dailyCredits - credits)
  return {
    ...counted,
    kills,
    overshoot: maxOf(Array.from(days.values(), ({ credits }) => credits - world.dailyCredits)),
    forfeited: meanOf(forfeits) / world.dailyCredits,
    mostForfeited: maxOf(forfeits) / world.dailyCredits,
    unserved: meanOf(unserved) / world.dailyCredits,
  }
}

const meanOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length)

/** Of more numbers than a call may have arguments. */
const maxOf = (numbers: readonly number[]): number => numbers.reduce((max, number) => Math.max(max, number), -Infinity)

/** What an account was served on a day, and whether it was refused for want of credits. */
interface ServedDay {
  readonly account: string
  readonly day: number
  credits: number
  isExhausted: boolean
}

const newCounts = () => ({
  ...{ calls: 0, served: 0, waited: 0, first: 0, laterForKey: 0, laterForCredits: 0, waitedMs: 0, unavailable: 0, leaseRequests: 0 },
})

interface SimulatedGateway {
  readonly accounts: Accounts
  readonly ledger: LedgerService
  /** Accounts that have called. */
  readonly known: Set<number>
  readonly process: { isDead: boolean }
}

/** One key of each account. */
class SimulatedKeys {
  readonly plans: Plans
  readonly changes = { total: 0, byGroup: new Map<number, number>() }
  readonly #texts = new Map<number, Secret>()
  readonly #ranks = new Map<string, number>()
  readonly #listeners: ((group?: number) => void)[] = []

  constructor(dailyCredits: number) {
    this.plans = { core: { name: 'core', dailyCredits, forwarding: false } }
  }

  textOf(rank: number): Secret {
    return getOrCreate(this.#texts, rank, () => {
      const text = generateApiKey()
      this.#ranks.set(hashApiKey(text.reveal()), rank)
      return text
    })
  }

  findKey(hash: string): KeyWithAccount | undefined {
    const rank = this.#ranks.get(hash)
    if (rank === undefined) return undefined
    const account = accountId(rank)
    return { key: { id: `key_${rank}`, account, created: 0, hint: '' }, account: { id: account, name: account, plan: 'core', created: 0 } }
  }

  subscribe(onChange: (group?: number) => void): () => void {
    this.#listeners.push(onChange)
    return () => undefined
  }

  change(rank: number): void {
    const group = changeGroupOf(accountId(rank))
    this.changes.total += 1
    this.changes.byGroup.set(group, (this.changes.byGroup.get(group) ?? 0) + 1)
    for (const onChange of this.#listeners) onChange(group)
  }
}

const accountId = (rank: number): string => `acc_${rank}`
