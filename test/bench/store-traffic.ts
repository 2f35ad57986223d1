import { setImmediate } from 'node:timers/promises'
import type { Account } from '../../src/plugin/call.ts'
import { generateApiKey, hashApiKey, keyHint } from '../../src/services/accounts/api-key.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import { openUsage } from '../../src/services/usage/index.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { Store } from '../../src/store/store.ts'
import { dayMs } from '../../src/util/dates.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import type { RedisServer } from '../support/redis-server.ts'

/** What a Redis has done since it was started. */
export interface RedisUse {
  /** Scripts, of which each is a round trip. */
  readonly requests: number
  readonly bytes: number
  /** User and kernel time. */
  readonly cpuUs: number
  readonly memoryBytes: number
}

export const readRedisUse = async (redis: RedisServer): Promise<RedisUse> => {
  const [stats, commands, cpu, memory] = await Promise.all(
    ['stats', 'commandstats', 'cpu', 'memory'].map(async section => String(await redis.send('INFO', section))),
  )
  const read = (text: string | undefined, pattern: RegExp): number => Number(pattern.exec(text ?? '')?.[1] ?? 0)
  return {
    requests: read(commands, /^cmdstat_evalsha:calls=(\d+)/m),
    bytes: read(stats, /^total_net_input_bytes:(\d+)/m) + read(stats, /^total_net_output_bytes:(\d+)/m),
    cpuUs: 1e6 * (read(cpu, /^used_cpu_user:([\d.]+)/m) + read(cpu, /^used_cpu_sys:([\d.]+)/m)),
    memoryBytes: read(memory, /^used_memory:(\d+)/m),
  }
}

/** What happened in between. */
export const useSince = (before: RedisUse, after: RedisUse): RedisUse => ({
  requests: after.requests - before.requests,
  bytes: after.bytes - before.bytes,
  cpuUs: after.cpuUs - before.cpuUs,
  memoryBytes: after.memoryBytes - before.memoryBytes,
})

export const accountId = (i: number): string => `acc_${String(i).padStart(16, '0')}`

const requestsAtOnce = 500

/** Adds accounts with a key each, and resolves with the hashes of their keys. */
export const addAccountsWithKey = async (store: Store, count: number): Promise<readonly string[]> => {
  const hashes: string[] = []
  await forEach(count, async i => {
    const [id, text, created] = [accountId(i), generateApiKey().reveal(), systemClock.now()]
    hashes.push(hashApiKey(text))
    await store.addAccount({ id, name: `account-${i}`, plan: 'core', created })
    await store.addKey(hashApiKey(text), { id: `key_${String(i).padStart(16, '0')}`, account: id, created, hint: keyHint(text) })
  })
  return hashes
}

export const forEach = async (count: number, run: (i: number) => Promise<unknown>): Promise<void> => {
  for (let from = 0; from < count; from += requestsAtOnce) {
    await Promise.all(Array.from({ length: Math.min(requestsAtOnce, count - from) }, (_, i) => run(from + i)))
  }
}

/** Calls that come at random moments from accounts that are equally likely. */
export interface Traffic {
  readonly accounts: number
  readonly callsPerSecond: number
  /** Each with a ledger, usage counts and connections of its own. */
  readonly processes: number
  /** Methods of an account. */
  readonly groups: number
  /** Which part of a gateway runs. */
  readonly parts: readonly ('leases' | 'usage')[]
  /** Where accounts call seldom, leases are given back after a minute. */
  readonly warmUpSeconds?: number
  readonly measuredSeconds?: number
}

/** Each a second. */
export interface TrafficUse extends Omit<RedisUse, 'memoryBytes'> {
  readonly leases: number
  readonly reports: number
  readonly rows: number
}

const tickMs = 100

/**
 * What the ledger and the usage counts of processes ask of a Redis, in virtual time: only the Redis takes time of its own, and its replies come at
 * once. `clock` goes on with each traffic on the same Redis, whose time does not go back.
 */
export const runTraffic = async (redis: RedisServer, traffic: Traffic, clock = new TestClock()): Promise<TrafficUse> => {
  const { warmUpSeconds = 90, measuredSeconds = 20 } = traffic
  const counted = { leases: 0, reports: 0, rows: 0 }
  const random = new SeededRandom(1)
  const pending = new Set<Promise<unknown>>()
  const track = <T>(work: Promise<T>): Promise<T> => {
    const done = work.finally(() => pending.delete(done))
    pending.add(done)
    return done
  }
  const settle = async () => {
    do {
      await Promise.allSettled(pending)
      await setImmediate()
    } while (pending.size > 0)
  }
  const processes = await Promise.all(
    Array.from({ length: traffic.processes }, async () => {
      const store = await openRedisStore(redis.address, systemClock, clock)
      const tracked: Store = {
        ...store,
        heartbeat: process => track(store.heartbeat(process)),
        requestLease(request) {
          counted.leases += 1
          return track(store.requestLease(request))
        },
        reportUsage(report) {
          if (report.counts.length > 0) counted.reports += 1
          counted.rows += report.counts.length
          return track(store.reportUsage(report))
        },
      }
      const log = new TestLog()
      return { store, ledger: openLedger(tracked, clock, { log }), usage: openUsage(tracked, clock, { log, retentionMs: 90 * dayMs }) }
    }),
  )
  for (const { ledger, usage } of processes) await Promise.all([ledger.start(), usage.start()])
  const plan = { name: 'core', dailyCredits: 3_000_000, forwarding: false }
  const accounts = new Map<number, Account>()
  const call = () => {
    const { ledger, usage } = random.pick(processes as [(typeof processes)[0]])
    const i = random.integer(0, traffic.accounts - 1)
    const account = accounts.get(i) ?? { id: accountId(i), name: accountId(i), plan }
    accounts.set(i, account)
    if (traffic.parts.includes('leases')) void ledger.charge(account, 80)
    if (!traffic.parts.includes('usage')) return
    const method = `eth_method${random.integer(0, traffic.groups - 1)}`
    const group = { account: account.id, key: account.id.replace('acc', 'key'), network: 'ethereum-mainnet', method, outcome: 'ok' }
    usage.count({ ...group, forwarded: false, day: undefined, calls: 1, credits: 80, durationMs: 1 + 50 * random.next() })
  }
  const run = async (seconds: number) => {
    for (let ms = 0; ms < seconds * 1_000; ms += tickMs) {
      for (let i = 0; i < (traffic.callsPerSecond * tickMs) / 1_000; i += 1) call()
      // As each process does whose keys are looked up.
      if (ms % 500 === 0 && traffic.parts.includes('leases'))
        for (const { store } of processes) void track(Promise.resolve(store.changeCount()))
      await settle()
      clock.advance(tickMs)
      await settle()
    }
  }
  await run(warmUpSeconds)
  Object.assign(counted, { leases: 0, reports: 0, rows: 0 })
  const before = await readRedisUse(redis)
  await run(measuredSeconds)
  const { requests, bytes, cpuUs } = useSince(before, await readRedisUse(redis))
  const { leases, reports, rows } = counted
  await Promise.all(processes.flatMap(({ ledger, usage }) => [ledger.stop(), usage.stop()]))
  for (const { store } of processes) await store.close()
  const perSecond = (value: number): number => value / measuredSeconds
  return {
    requests: perSecond(requests),
    bytes: perSecond(bytes),
    cpuUs: perSecond(cpuUs),
    leases: perSecond(leases),
    reports: perSecond(reports),
    rows: perSecond(rows),
  }
}
