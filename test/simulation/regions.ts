import type { Account } from '../../src/plugin/call.ts'
import type { Clock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import type { LedgerService } from '../../src/services/ledger/index.ts'
import type { LedgerStore } from '../../src/store/store.ts'
import { InMemoryLedgerStore } from '../../src/testing/in-memory-store.ts'
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
  readonly warmUpSeconds: number
  readonly seconds: number
  /** This region cannot reach the store, from and until so many seconds of the measured time; to the end without `until`. */
  readonly lostRegion?: { readonly region: number; readonly from: number; readonly until?: number }
}

export interface RegionsResult {
  readonly calls: number
  readonly served: number
  /** Calls whose charge was not known at once. */
  readonly waited: number
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
  const time = new VirtualTime(Date.UTC(2026, 0, 15, 6), () => undefined)
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
  const counted = { calls: 0, served: 0, waited: 0, unavailable: 0, leaseRequests: 0 }
  let lost: number | undefined
  const storeSeenFrom = (region: number): LedgerStore => {
    const travel = (): Promise<void> =>
      new Promise(resolve => {
        if (region !== lost) time.after((world.distancesMs[region] ?? 0) / 2, resolve)
      })
    const over = async <T>(request: () => Promise<T>): Promise<T> => {
      await travel()
      const response = await request()
      await travel()
      return response
    }
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
  const gateways: LedgerService[][] = world.distancesMs.map((_, region) =>
    Array.from({ length: world.gatewaysPerRegion }, (_, i) =>
      openLedger(storeSeenFrom(region), clock, { log: new TestLog(), process: `${region}-${i}` }),
    ),
  )
  for (const ledger of gateways.flat()) void ledger.start()
  const plan = { name: 'core', dailyCredits: world.dailyCredits, forwarding: false }
  const accounts = new Map<number, Account>()
  const served = new Map<number, number>()
  const exhausted = new Set<number>()
  const call = () => {
    const rank = Math.floor(Math.exp(random.next() * Math.log(world.accounts)))
    const account = accounts.get(rank) ?? { id: `acc_${rank}`, name: `acc_${rank}`, plan }
    accounts.set(rank, account)
    const ledgers = gateways[rank % gateways.length] ?? []
    const ledger = ledgers[(rank + random.integer(0, world.gatewaysOfAccount - 1)) % ledgers.length]
    if (ledger === undefined) return
    counted.calls += 1
    const record = ({ kind }: { readonly kind: string }) => {
      if (kind === 'charged') {
        counted.served += 1
        served.set(rank, (served.get(rank) ?? 0) + cost)
      } else if (kind === 'storeUnavailable') counted.unavailable += 1
      else exhausted.add(rank)
    }
    const result = ledger.charge(account, cost)
    if (!(result instanceof Promise)) return record(result)
    counted.waited += 1
    void result.then(record)
  }
  const run = async (seconds: number) => {
    for (let ms = 0; ms < seconds * 1_000; ms += callBatchMs) {
      for (let i = 0; i < (world.callsPerSecond * callBatchMs) / 1_000; i += 1) call()
      await time.advance(callBatchMs)
    }
  }
  await run(world.warmUpSeconds)
  Object.assign(counted, { calls: 0, served: 0, waited: 0, unavailable: 0, leaseRequests: 0 })
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
    forfeited += store.dayTotals(`acc_${rank}`).forfeited
    if (exhausted.has(rank)) unserved += world.dailyCredits - credits
  }
  return {
    ...counted,
    overshoot,
    forfeited: forfeited / (served.size * world.dailyCredits),
    unserved: exhausted.size === 0 ? 0 : unserved / (exhausted.size * world.dailyCredits),
  }
}
