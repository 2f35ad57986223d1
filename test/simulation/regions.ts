import type { Account } from '../../src/plugin/call.ts'
import type { Secret } from '../../src/plugin/secret.ts'
import { generateApiKey, hashApiKey } from '../../src/services/accounts/api-key.ts'
import { openAccounts } from '../../src/services/accounts/index.ts'
import type { Accounts, KeyStore, Lookup } from '../../src/services/accounts/index.ts'
import type { Plans } from '../../src/services/accounts/effective-plan.ts'
import type { Clock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import type { LedgerService } from '../../src/services/ledger/index.ts'
import { changeGroupOf, storeTimeoutMs } from '../../src/store/store.ts'
import type { KeyWithAccount, LedgerStore } from '../../src/store/store.ts'
import { InMemoryLedgerStore } from '../../src/testing/in-memory-store.ts'
import { withTimeout } from '../../src/util/async.ts'
import { hourMs } from '../../src/util/dates.ts'
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
  /** Of the day, UTC, at which it begins. */
  readonly startHour: number
  readonly warmUpSeconds: number
  readonly seconds: number
  /** This region cannot reach the store, from and until so many seconds of the measured time; to the end without `until`. */
  readonly lostRegion?: { readonly region: number; readonly from: number; readonly until?: number }
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
  /** The most that an account was served beyond its day. */
  readonly overshoot: number
  /** Of 1: credits of the day that processes hold which are gone, of the accounts that called. */
  readonly forfeited: number
  /** Of 1: credits of the day that an account did not get which was refused for want of credits, on average; 0 where none was. */
  readonly unserved: number
}

/** As they are from 20 to 250 ms. */
export const distancesMs = [20, 40, 60, 80, 100, 125, 150, 180, 215, 250] as const

const cost = 80
const callBatchMs = 20

/** Runs the real ledger of each gateway in virtual time. The n-th account calls an n-th as often as the first (Zipf's law). */
export const simulateRegions = async (world: RegionsWorld): Promise<RegionsResult> => {
  const time = new VirtualTime(Date.UTC(2026, 0, 15, world.startHour), () => undefined)
  const start = time.now
  const random = new SeededRandom(1)
  const clock: Clock = {
    now: () => time.now,
    monotonic: () => time.now - start + 1_000,
    after: (ms, run) => time.after(ms, run),
    every(ms, run) {
      let timer = time.after(ms, function again() {
        timer = time.after(ms, again)
        run()
      })
      return { cancel: () => timer.cancel() }
    },
  }
  const store = new InMemoryLedgerStore(clock)
  const keys = new SimulatedKeys(world.dailyCredits)
  const counted = newCounts()
  let lost: number | undefined
  const overDistance =
    (region: number) =>
    async <T>(request: () => Promise<T> | T): Promise<T> => {
      const travel = (): Promise<void> =>
        new Promise(resolve => {
          if (region !== lost) time.after((world.distancesMs[region] ?? 0) / 2, resolve)
        })
      await travel()
      const response = await request()
      await travel()
      return response
    }
  const ledgerSeenFrom = (region: number): LedgerStore => {
    const over = overDistance(region)
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
  const keysSeenFrom = (region: number): KeyStore => {
    const over = <T>(request: () => Promise<T> | T): Promise<T> => withTimeout(clock, storeTimeoutMs, overDistance(region)(request))
    return {
      findKey: hash => over(() => keys.findKey(hash)),
      findKeyById: () => undefined,
      revokeKey: async () => undefined,
      changeCount: () => over(() => keys.changes.total),
      changeCounts: () => over(() => ({ total: keys.changes.total, byGroup: new Map(keys.changes.byGroup) })),
      subscribe: onChange =>
        keys.subscribe(group => {
          if (region !== lost) time.after((world.distancesMs[region] ?? 0) / 2, () => onChange(group))
        }),
    }
  }
  const gateways: SimulatedGateway[][] = world.distancesMs.map((_, region) =>
    Array.from({ length: world.gatewaysPerRegion }, (_, i) => ({
      accounts: openAccounts(keysSeenFrom(region), keys.plans, clock),
      ledger: openLedger(ledgerSeenFrom(region), clock, { log: new TestLog(), process: `${region}-${i}` }),
      known: new Set<number>(),
    })),
  )
  for (const { ledger } of gateways.flat()) void ledger.start()
  const changeIntervalMs = hourMs / world.changesPerHour
  time.after(changeIntervalMs, function change() {
    keys.change(random.integer(1, world.accounts))
    time.after(changeIntervalMs, change)
  })
  const served = new Map<number, number>()
  const exhausted = new Set<number>()
  const charge = (rank: number, { ledger }: SimulatedGateway, account: Account, isFirst: boolean): Promise<void> | undefined => {
    const record = ({ kind }: { readonly kind: string }) => {
      if (kind === 'charged') {
        counted.served += 1
        served.set(rank, (served.get(rank) ?? 0) + cost)
      } else if (kind === 'storeUnavailable') counted.unavailable += 1
      else exhausted.add(rank)
    }
    const result = ledger.charge(account, cost)
    if (!(result instanceof Promise)) return record(result) as undefined
    if (!isFirst) counted.laterForCredits += 1
    return result.then(record)
  }
  const call = () => {
    const rank = Math.floor(Math.exp(random.next() * Math.log(world.accounts)))
    const inRegion = gateways[rank % gateways.length] ?? []
    const gateway = inRegion[(rank + random.integer(0, world.gatewaysOfAccount - 1)) % inRegion.length]
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
      for (let i = 0; i < (world.callsPerSecond * callBatchMs) / 1_000; i += 1) call()
      await time.advance(callBatchMs)
    }
  }
  await run(world.warmUpSeconds)
  Object.assign(counted, newCounts())
  const { lostRegion } = world
  if (lostRegion === undefined) await run(world.seconds)
  else {
    await run(lostRegion.from)
    lost = lostRegion.region
    await run((lostRegion.until ?? world.seconds) - lostRegion.from)
    if (lostRegion.until !== undefined) lost = undefined
    await run(world.seconds - (lostRegion.until ?? world.seconds))
  }
  let [overshoot, forfeited, unserved] = [0, 0, 0]
  for (const [rank, credits] of served) {
    overshoot = Math.max(overshoot, credits - world.dailyCredits)
    forfeited += store.dayTotals(accountId(rank)).forfeited
    if (exhausted.has(rank)) unserved += world.dailyCredits - credits
  }
  return {
    ...counted,
    overshoot,
    forfeited: forfeited / (served.size * world.dailyCredits),
    unserved: exhausted.size === 0 ? 0 : unserved / (exhausted.size * world.dailyCredits),
  }
}

const newCounts = () => ({
  ...{ calls: 0, served: 0, waited: 0, first: 0, laterForKey: 0, laterForCredits: 0, waitedMs: 0, unavailable: 0, leaseRequests: 0 },
})

interface SimulatedGateway {
  readonly accounts: Accounts
  readonly ledger: LedgerService
  /** Accounts that have called. */
  readonly known: Set<number>
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
