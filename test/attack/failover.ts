import { setTimeout } from 'node:timers/promises'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { createSemaphore } from '../../src/util/async.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startDistance } from '../support/distance.ts'
import { createNetworkNamespace, whyNoNamespaces } from '../support/network-namespace.ts'
import type { NetworkNamespace } from '../support/network-namespace.ts'
import { skipWithoutRedis } from '../support/redis-server.ts'
import type { Attack, Figure } from './attack.ts'
import { CreditCallers, balanceOf, callCost } from './credit-callers.ts'
import type { CreditAccount, CreditSummary } from './credit-callers.ts'
import { KeyWriter } from './key-writer.ts'
import { addressOf, failures, openCluster, openSentinels, openSingle } from './redis-topologies.ts'
import type { FailureName } from './redis-topologies.ts'

const topologies = { cluster: openCluster, Sentinel: openSentinels, 'one Redis': openSingle } as const

/** As docs/store.md says. */
const persistence = ['--appendonly', 'yes', '--appendfsync', 'everysec']
const minReplicas = ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '3']

/** What a failure may cost: 0 unless given. docs/scale.md says why. */
interface Limits {
  /** Credits over the balances of all accounts that use them up in that moment. */
  readonly servedOver?: number
  /** Keys and revocations that were acknowledged. */
  readonly lostChanges?: number
}

interface FailoverCase {
  readonly topology: keyof typeof topologies
  readonly failure: FailureName
  /** Milliseconds of a round trip from one of the gateways to each Redis and Sentinel. The other one is near. */
  readonly distanceMs?: number
  /** Neither min-replicas-to-write, nor the right to WAIT: for comparison, without limits. */
  readonly isBare?: boolean
  /** In the short run of the continuous integration. */
  readonly isShort?: boolean
  readonly limits?: Limits | 'none'
}

/** A replaced primary that still runs takes writes for so long that some accounts use up their balances twice, or in part. */
const replacedWhileRunning = { servedOver: 4_000, lostChanges: 60 }

/**
 * Live gateways write their leases again, each when it is connected: another one may have leased the same credits by then. Nobody writes the changes
 * of keys of two seconds, of which there are 20 in each.
 */
const powerCut = { servedOver: 2_000, lostChanges: 45 }

const cases: readonly FailoverCase[] = [
  { topology: 'cluster', failure: 'killed', isShort: true },
  { topology: 'cluster', failure: 'replaced by command' },
  { topology: 'cluster', failure: 'paused' },
  { topology: 'cluster', failure: 'cut off with a gateway', limits: { servedOver: 2_000 } },
  { topology: 'cluster', failure: 'killed while replicas lag', limits: { servedOver: 2_000 } },
  { topology: 'Sentinel', failure: 'killed' },
  { topology: 'Sentinel', failure: 'killed and started again in a failover', limits: replacedWhileRunning },
  { topology: 'Sentinel', failure: 'replaced by command', limits: replacedWhileRunning },
  { topology: 'Sentinel', failure: 'paused', limits: replacedWhileRunning, isShort: true },
  { topology: 'Sentinel', failure: 'cut off with a gateway', limits: { servedOver: 4_000 }, isShort: true },
  { topology: 'Sentinel', failure: 'killed while replicas lag', limits: { servedOver: 2_000 } },
  { topology: 'one Redis', failure: 'killed and started again' },
  { topology: 'one Redis', failure: 'power cut', limits: powerCut, isShort: true },
  { topology: 'one Redis', failure: 'out of memory', isShort: true },
  { topology: 'one Redis', failure: 'dropping keys', limits: 'none' },
  { topology: 'cluster', failure: 'killed', distanceMs: 250 },
  { topology: 'cluster', failure: 'replaced by command', distanceMs: 80 },
  { topology: 'cluster', failure: 'paused', distanceMs: 250 },
  { topology: 'Sentinel', failure: 'killed', distanceMs: 20 },
  { topology: 'Sentinel', failure: 'killed', distanceMs: 250 },
  { topology: 'Sentinel', failure: 'paused', distanceMs: 150, limits: replacedWhileRunning },
  { topology: 'one Redis', failure: 'out of reach of a gateway', distanceMs: 250 },
  { topology: 'one Redis', failure: 'killed and started again', distanceMs: 250, isShort: true },
  { topology: 'one Redis', failure: 'power cut', distanceMs: 250, limits: powerCut },
  { topology: 'cluster', failure: 'killed while replicas lag', isBare: true, limits: 'none' },
  { topology: 'Sentinel', failure: 'replaced by command', isBare: true, limits: 'none' },
  { topology: 'Sentinel', failure: 'paused', isBare: true, limits: 'none' },
  { topology: 'Sentinel', failure: 'cut off with a gateway', isBare: true, limits: 'none' },
  { topology: 'Sentinel', failure: 'killed while replicas lag', isBare: true, limits: 'none' },
]

/** A fifth of the accounts use up their balances, each at another moment of the run. */
const accounts: Readonly<Record<string, CreditAccount>> = Object.fromEntries(
  Array.from({ length: 50 }, (_, i) => [`account${i}`, { dailyCredits: i % 5 === 0 ? callCost * (10 + 2 * i) : 3_000_000, callers: 1 }]),
)
const isTight = (account: string): boolean => (accounts[account]?.dailyCredits ?? 0) < 1_000_000

/** 50 callers make about 300 calls a second. */
const pauseBetweenCallsMs = 150
const loadBeforeFailureMs = 2_000
const loadAfterFailureMs = 3_000

interface FailoverResult {
  readonly servedOver: number
  readonly wrong: number
  readonly uncountedCalls: number
  readonly lostChanges: number
  /** Milliseconds without a result of an account that has credits. */
  readonly longestGapMs: number
}

interface FailoverRun extends FailoverCase {
  readonly namespace: NetworkNamespace | undefined
  log(line: string): void
}

/**
 * Two gateways with two workers each serve 50 accounts while the primary of their store fails. In a namespace one of them runs, beside the
 * primary or far from all Redises.
 */
const runFailover = async ({
  topology: kind,
  failure,
  distanceMs,
  isBare = false,
  namespace,
  log,
}: FailoverRun): Promise<FailoverResult> => {
  const user = ['--user', 'gate', 'on', '>secret', '~*', '&*', '+@all', ...(isBare ? ['-wait'] : [])]
  const options = [...persistence, ...(kind === 'Sentinel' && !isBare ? minReplicas : []), ...user]
  const topology = await topologies[kind]({
    options,
    credentials: 'gate:secret@',
    namespace: distanceMs === undefined ? namespace : undefined,
  })
  const distance = distanceMs && namespace && (await startDistance(namespace, topology.ports, distanceMs))
  const callHosts = { here: '127.0.0.1', there: '127.0.0.1', ...namespace?.calls }
  const script = { eth_blockNumber: { result: '0x10' }, eth_getBalance: balanceScript }
  const node = await startFakeNode(script, callHosts.here)
  const plans = Object.fromEntries(Object.entries(accounts).map(([name, { dailyCredits }]) => [name, { dailyCredits }]))
  const network = networkFile('testnet', [node.url], { cache: false })
  const deployment = createDeployment({
    gateway: {
      workers: 2,
      log: 'warn',
      listen: { rpc: '${LISTEN}:0', admin: '127.0.0.1:0' },
      plans: { ...plans, operator: { dailyCredits: 1 } },
      store: topology.url,
    },
    networks: { testnet: { ...network, hosts: [...new Set(['127.0.0.1', ...Object.values(callHosts)])] } },
    env: { LISTEN: '127.0.0.1' },
  })
  const store = await openStore(addressOf(topology), systemClock)
  const gateways: GatewayProcess[] = []
  let turn = 0
  const urlOf = (key: string) => gateways[turn++ % gateways.length]?.http(key)
  const callers = new CreditCallers({ deployment, accounts, pauseMs: pauseBetweenCallsMs, urlOf, log })
  const writer = new KeyWriter(store)
  try {
    await callers.addAccountsTo(store)
    const beside = namespace && { command: namespace.command, env: { LISTEN: callHosts.there } }
    gateways.push(...(await Promise.all([deployment.start(beside), deployment.start()])))
    callers.start()
    await writer.start()
    await setTimeout(loadBeforeFailureMs)
    await failures[failure](topology, distance || namespace)
    // A gateway that ends before loses its last reports: docs/store.md.
    await topology.untilAnnounced()
    await writer.untilWritable()
    await setTimeout(loadAfterFailureMs)
    await Promise.all([callers.stop(), writer.stop()])
    for (const gateway of gateways) if ((await gateway.stop()) !== 0) throw new Error('a gateway did not end in order')
    const { lost } = await writer.audit()
    return { ...(await compare(callers, log)), lostChanges: lost }
  } finally {
    await Promise.all([callers.stop(), writer.stop()])
    await store.close()
    await deployment.remove()
    await node.stop()
    if (distance) await distance.remove()
    await topology.remove()
  }
}

const balanceScript = ({ params }: { readonly params: readonly unknown[] }) => ({ result: balanceOf(String(params[0])) })

/** What callers got, with what the store says at the end. */
const compare = async (callers: CreditCallers, log: (line: string) => void): Promise<Omit<FailoverResult, 'lostChanges'>> => {
  const summaries = await callers.audit()
  const sum = (of: (each: CreditSummary) => number) => summaries.reduce((total, each) => total + of(each), 0)
  let wrongErrors = 0
  for (const [account, counts] of callers.errors) {
    for (const [code, count] of counts) {
      if (code === storeOutageCode || (code === creditsUsedUpCode && isTight(account))) continue
      log(`${account}: ${count} errors ${code}`)
      wrongErrors += count
    }
  }
  return {
    wrong: callers.found.crossed + callers.found.wrong + wrongErrors + sum(otherFaults),
    uncountedCalls: sum(each => each.uncountedCalls),
    servedOver: sum(each => each.servedOver),
    longestGapMs: Math.max(...Object.keys(accounts).map(name => (isTight(name) ? 0 : longestGap(callers.servedAt.get(name) ?? [])))),
  }
}

/** Leased credits are used up, and the store cannot be asked. */
const storeOutageCode = -32002
const creditsUsedUpCode = -33000

/** Faults of the audit that no other figure counts. */
const otherFaults = ({ faults, uncountedCalls, servedOver }: CreditSummary): number =>
  faults.length - (uncountedCalls > 0 ? 1 : 0) - (servedOver > 0 && faults.some(fault => fault.startsWith('leased exceeds')) ? 1 : 0)

/** Between two results. */
const longestGap = (times: readonly number[]): number => Math.max(0, ...times.slice(1).map((time, i) => time - (times[i] ?? time)))

const maxGapMs = 20_000

/** Cases mostly wait. Figures of the long run are of one case at a time. */
const maxConcurrentShort = 2

/** A scale of 1 is the short run; with more each case is run at least once. */
const scalePerRepetition = 4

export const failover: Attack = {
  name: 'failover',
  summary: 'the primary of a Redis cluster, of a Redis with Sentinels, or the only Redis fails under two gateways',
  async run({ scale, cases: text, log }) {
    if (skipWithoutRedis !== false) {
      log(`not run: ${skipWithoutRedis}`)
      return []
    }
    const noNamespaces = whyNoNamespaces()
    const runCase = async (each: FailoverCase): Promise<readonly Figure[]> => {
      const { failure, distanceMs } = each
      const needsNamespace = failure === 'cut off with a gateway' || distanceMs !== undefined
      const name = nameOf(each)
      if (needsNamespace && noNamespaces !== false) {
        log(`${name}: not run: ${noNamespaces}`)
        return []
      }
      const startMs = performance.now()
      const namespace = needsNamespace ? createNetworkNamespace() : undefined
      try {
        return figuresOf(name, each, await runFailover({ ...each, namespace, log: line => log(`${name}: ${line}`) }))
      } finally {
        namespace?.remove()
        log(`${name}: ${((performance.now() - startMs) / 1_000).toFixed(0)} s`)
      }
    }
    const isShort = scale <= 1
    const isSelected = (each: FailoverCase) => (text === undefined ? !isShort || each.isShort === true : nameOf(each).includes(text))
    const selected = repeat(cases.filter(isSelected), Math.ceil(scale / scalePerRepetition))
    const inTurn = createSemaphore(isShort ? maxConcurrentShort : 1)
    const figures = await Promise.allSettled(selected.map(each => inTurn(() => runCase(each))))
    return figures.flatMap(each => {
      if (each.status === 'rejected') throw each.reason
      return each.value
    })
  },
}

const nameOf = ({ topology, failure, distanceMs, isBare = false }: FailoverCase): string =>
  `${topology}${isBare ? ' (bare)' : ''}, ${failure}${distanceMs === undefined ? '' : `, ${distanceMs} ms away`}`

const repeat = <T>(items: readonly T[], times: number): readonly T[] => Array.from({ length: times }, () => items).flat()

const figuresOf = (name: string, { limits = {} }: FailoverCase, result: FailoverResult): readonly Figure[] => {
  const most = (limit: number) => (limits === 'none' ? {} : { limit })
  const { servedOver = 0, lostChanges = 0 } = limits === 'none' ? {} : limits
  return [
    { name: `${name}: credits over a balance`, value: result.servedOver, ...most(servedOver) },
    { name: `${name}: wrong answers and audit`, value: result.wrong, ...most(0) },
    { name: `${name}: calls without a count`, value: result.uncountedCalls, ...most(0) },
    { name: `${name}: keys and revocations lost`, value: result.lostChanges, ...most(lostChanges) },
    { name: `${name}: longest time without result`, value: result.longestGapMs, unit: 'ms', ...most(maxGapMs) },
  ]
}
