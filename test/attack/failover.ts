import { setTimeout } from 'node:timers/promises'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startSentinelDeployment } from '../support/redis-sentinel.ts'
import { skipWithoutRedis } from '../support/redis-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { waitUntil } from '../support/wait-until.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, Figure } from './attack.ts'
import { CreditCallers, balanceOf } from './credit-callers.ts'
import type { CreditAccount, CreditSummary } from './credit-callers.ts'

/** Redises of which one can take the place of another. */
interface RedisTopology {
  readonly url: string
  /** Waits until there are replicas of each primary again: one that was replaced learns that after some seconds. */
  settled(): Promise<void>
  /** A primary and the replicas that may replace it; the next ones each time. */
  nextPair(): Promise<{ readonly primary: RedisServer; readonly replicas: readonly RedisServer[] }>
  /** The command that lets a replica take over while the primary is well. */
  takeOver(replica: RedisServer): Promise<unknown>
  remove(): Promise<void>
}

/** As docs/store.md says. */
const redisOptions = ['--appendonly', 'yes', '--appendfsync', 'everysec']
const replicaOptions = ['--min-replicas-to-write', '1']

const roleOf = async (server: RedisServer): Promise<unknown> => ((await server.send('ROLE').catch(() => [])) as readonly unknown[])[0]

/** All others than so many primaries are replicas with a link to one. */
const areSettled = async (servers: readonly RedisServer[], primaryCount: number): Promise<boolean> => {
  const infos = await Promise.all(servers.map(server => server.send('INFO', 'replication').catch(() => '')))
  const has = (text: string) => infos.filter(info => String(info).includes(text)).length
  return has('role:master') === primaryCount && has('master_link_status:up') === servers.length - primaryCount
}

const openCluster = async (): Promise<RedisTopology> => {
  const cluster = await startRedisCluster({ withReplicas: true, options: redisOptions })
  let turn = 0
  return {
    url: cluster.address.url.reveal(),
    async nextPair() {
      const i = turn++ % cluster.primaries.length
      const pair = [cluster.primaries[i], cluster.replicas[i]].filter(server => server !== undefined)
      const roles = await Promise.all(pair.map(roleOf))
      const primary = pair[roles.indexOf('master')]
      if (primary === undefined) throw new Error('a shard has no primary')
      return { primary, replicas: pair.filter(server => server !== primary) }
    },
    settled: () => waitUntil(() => areSettled([...cluster.primaries, ...cluster.replicas], cluster.primaries.length)),
    takeOver: replica => replica.send('CLUSTER', 'FAILOVER'),
    remove: () => cluster.remove(),
  }
}

const openSentinels = async (): Promise<RedisTopology> => {
  const { servers, sentinels, addressWith, remove } = await startSentinelDeployment(2, [...redisOptions, ...replicaOptions])
  const [sentinel] = sentinels as [RedisServer] // there are three
  return {
    url: addressWith().url.reveal(),
    async nextPair() {
      const [, port] = (await sentinel.send('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main')) as readonly string[] // as Sentinel promises
      const primary = servers.find(server => `${server.port}` === port)
      if (primary === undefined) throw new Error('Sentinel names an unknown primary')
      return { primary, replicas: servers.filter(server => server !== primary) }
    },
    settled: () => waitUntil(() => areSettled(servers, 1)),
    takeOver: () => sentinel.send('SENTINEL', 'FAILOVER', 'main'),
    remove,
  }
}

/** What happens to a primary, until a replica has replaced it. */
const failures = {
  killed: async ({ nextPair }: RedisTopology) => {
    const { primary, replicas } = await nextPair()
    await primary.kill()
    await untilReplaced(replicas)
    await primary.restart()
  },
  'replaced by command': async ({ nextPair, takeOver }: RedisTopology) => {
    const { replicas } = await nextPair()
    await takeOver(replicas[0] as RedisServer) // a primary has at least one
    await untilReplaced(replicas)
  },
  /** It comes back with old data. */
  paused: async ({ nextPair }: RedisTopology) => {
    const { primary, replicas } = await nextPair()
    primary.pause()
    await untilReplaced(replicas)
    primary.resume()
  },
} as const

const untilReplaced = (replicas: readonly RedisServer[]): Promise<void> =>
  waitUntil(async () => (await Promise.all(replicas.map(roleOf))).includes('master'))

/** A tenth of the accounts use up their balance during the run. */
const accounts: Readonly<Record<string, CreditAccount>> = Object.fromEntries(
  Array.from({ length: 50 }, (_, i) => [`account${i}`, { dailyCredits: i % 10 === 0 ? 12_000 : 3_000_000, callers: 1 }]),
)

/** 50 callers make about 300 calls a second. */
const pauseBetweenCallsMs = 150
const loadBetweenFailuresMs = 3_000

interface FailoverResult {
  readonly servedOver: number
  readonly wrong: number
  readonly crossed: number
  readonly uncountedCalls: number
  /** Milliseconds without a result of an account that has credits. */
  readonly longestGapMs: number
}

/** Two gateways with two workers each serve 50 accounts while the primaries of their store fail one after the other. */
const runFailover = async (open: () => Promise<RedisTopology>, rounds: number, log: (line: string) => void): Promise<FailoverResult> => {
  const topology = await open()
  const node = await startFakeNode({
    eth_blockNumber: { result: '0x10' },
    eth_getBalance: ({ params }) => ({ result: balanceOf(String(params[0])) }),
  })
  const plans = Object.fromEntries(Object.entries(accounts).map(([name, { dailyCredits }]) => [name, { dailyCredits }]))
  const deployment = createDeployment({
    gateway: { workers: 2, log: 'warn', plans, store: topology.url },
    networks: { testnet: networkFile('testnet', [node.url], { cache: false }) },
  })
  const gateways: GatewayProcess[] = []
  let turn = 0
  const urlOf = (key: string) => gateways[turn++ % gateways.length]?.http(key)
  const callers = new CreditCallers({ deployment, accounts, pauseMs: pauseBetweenCallsMs, urlOf, log })
  try {
    await callers.addAccounts()
    for (let i = 0; i < 2; i += 1) gateways.push(await deployment.start())
    callers.start()
    for (let round = 0; round < rounds; round += 1) {
      for (const [name, fail] of Object.entries(failures)) {
        await topology.settled()
        await setTimeout(loadBetweenFailuresMs)
        const startMs = performance.now()
        await fail(topology)
        log(`a primary was ${name}: replaced after ${((performance.now() - startMs) / 1_000).toFixed(1)} s`)
      }
    }
    await topology.settled()
    await setTimeout(loadBetweenFailuresMs)
    await callers.stop()
    for (const gateway of gateways) await gateway.stop()
    const summaries = await callers.audit()
    const sum = (of: (each: CreditSummary) => number) => summaries.reduce((total, each) => total + of(each), 0)
    return {
      crossed: callers.found.crossed,
      wrong: callers.found.wrong + sum(({ uncountedCalls, faults }) => faults.length - (uncountedCalls > 0 ? 1 : 0)),
      uncountedCalls: sum(each => each.uncountedCalls),
      servedOver: sum(each => each.servedOver),
      longestGapMs: Math.max(...Object.keys(accounts).map(name => longestGap(callers.servedAt.get(name) ?? []))),
    }
  } finally {
    await callers.stop()
    await deployment.remove()
    await node.stop()
    await topology.remove()
  }
}

/** Between two results. */
const longestGap = (times: readonly number[]): number => Math.max(0, ...times.slice(1).map((time, i) => time - (times[i] ?? time)))

/**
 * Between the promotion of a replica and the message of Sentinel that tells it, a second or two, a primary that still runs takes writes that it
 * then loses: docs/store.md. A cluster agrees first, and loses what was under way at a kill.
 */
const topologies = {
  cluster: { open: openCluster, maxUncountedCalls: 30 },
  Sentinel: { open: openSentinels, maxUncountedCalls: 900 },
} as const

/** Without min-replicas-to-write it would be 3 s: a primary that replaces another takes writes once it has replicas. */
const maxGapMs = 20_000

export const failover: Attack = {
  name: 'failover',
  summary: 'primaries of a Redis cluster, and of a Redis with Sentinels, are killed, replaced and paused under two gateways',
  async run({ scale, log }) {
    if (skipWithoutRedis !== false) {
      log(`not run: ${skipWithoutRedis}`)
      return []
    }
    const figures: Figure[] = []
    for (const [name, { open, maxUncountedCalls }] of Object.entries(topologies)) {
      const result = await runFailover(open, Math.ceil(scale), log)
      figures.push(
        mustBeZero(`${name}: credits served over a balance`, result.servedOver),
        mustBeZero(`${name}: wrong results, and differences in the audit`, result.wrong),
        { name: `${name}: calls that are missing in the usage counts`, value: result.uncountedCalls, limit: maxUncountedCalls },
        mustBeZero(`${name}: results of another call`, result.crossed),
        { name: `${name}: longest time without a result of an account`, value: result.longestGapMs, unit: 'ms', limit: maxGapMs },
      )
    }
    return figures
  },
}
