import { setTimeout } from 'node:timers/promises'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { childrenOf, createDeployment, isRunning, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startDistantServer } from '../support/distance.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, Figure } from './attack.ts'
import { CreditCallers, balanceOf, callCost } from './credit-callers.ts'
import type { CreditAccount, CreditSummary } from './credit-callers.ts'

export interface KillsOptions {
  readonly seed: number
  readonly kills: number
  readonly store: keyof typeof killsPerScale
  log(line: string): void
}

export interface KillsResult {
  readonly kills: number
  /** Workers that outlived their primary, and commands that got no answer from the store. */
  readonly hungStores: number
  /** Credits of results beyond the balance of an account, or beyond what the store has leased. */
  readonly servedOver: number
  /** Credits that are forfeited beyond what the killed workers held; the end of a primary alone forfeits nothing. */
  readonly forfeitedBeyondKilled: number
  /** Results that no call has, and discrepancies that audit finds. */
  readonly wrong: number
  /** Results of another call. */
  readonly crossed: number
}

/** The workers of a killed primary, and a command, must have ended by then. */
const maxWaitMs = 12_000
/** What a worker has charged and not reported: reports come each second, and a busy machine delays them. */
const unreportedMs = 2_500

const minResultsPerKill = 5
const distantRoundTripMs = 250

/** The small balance is used up during the run. */
const accounts: Readonly<Record<string, CreditAccount>> = {
  large: { dailyCredits: 3_000_000, callers: 6 },
  small: { dailyCredits: 20_000, callers: 2 },
}

/**
 * Kills the primary or a worker of a gateway with two workers, at random moments under load, and starts it again; then audits the
 * store. Every result is checked and counted by the callers.
 */
export const runKills = async ({ seed, kills, store, log }: KillsOptions): Promise<KillsResult> => {
  const random = new SeededRandom(seed)
  const redis = store === 'lmdb' ? undefined : await startRedisServer('--appendonly', 'yes')
  const distant = store === 'distant redis' && redis ? await startDistantServer(redis.port, distantRoundTripMs) : undefined
  const node = await startFakeNode({
    eth_blockNumber: { result: '0x10' },
    eth_getBalance: ({ params }) => ({ result: balanceOf(String(params[0])) }),
  })
  const plans = Object.fromEntries(Object.entries(accounts).map(([name, { dailyCredits }]) => [name, { dailyCredits }]))
  const deployment = createDeployment({
    gateway: { workers: 2, log: 'warn', plans, ...(redis && { store: `redis://${redis.host}:${(distant ?? redis).port}` }) },
    networks: { testnet: networkFile('testnet', [node.url], { cache: false }) },
  })
  const run = new KillsRun(deployment, random, log)
  try {
    await run.open()
    for (let i = 0; i < kills; i += 1) await run.killOne()
    const figures = await run.finish()
    if (run.results < minResultsPerKill * kills) throw new Error(`only ${run.results} results: the kills met no load`)
    return { kills, ...figures }
  } finally {
    await run.stopCallers()
    await deployment.remove()
    await node.stop()
    await distant?.remove()
    await redis?.remove()
  }
}

class KillsRun {
  readonly #deployment: Deployment
  readonly #random: SeededRandom
  readonly #log: (line: string) => void
  readonly #callers: CreditCallers
  readonly #mayForfeit = new Map<string, number>()
  #hungStores = 0
  #gateway: GatewayProcess | undefined

  constructor(deployment: Deployment, random: SeededRandom, log: (line: string) => void) {
    this.#deployment = deployment
    this.#random = random
    this.#log = log
    this.#callers = new CreditCallers({ deployment, accounts, log, urlOf: key => this.#gateway?.http(key) })
  }

  /** Results of calls so far. */
  get results(): number {
    return this.#callers.results
  }

  async open(): Promise<void> {
    await this.#callers.addAccounts()
    this.#gateway = await this.#deployment.start()
    this.#callers.start()
  }

  async killOne(): Promise<void> {
    await setTimeout(this.#random.between(300, 1_200))
    const primary = this.#gateway
    if (primary === undefined) throw new Error('the gateway is not open')
    const workers = childrenOf(primary.pid)
    const [worker] = workers
    if (worker !== undefined && this.#random.chance(0.5)) {
      this.#allowForfeits()
      process.kill(this.#random.pick([worker, ...workers]), 'SIGKILL')
      return
    }
    process.kill(primary.pid, 'SIGKILL')
    await this.#untilEnded(workers)
    await this.#audit()
    this.#gateway = await this.#deployment.start()
  }

  /** Ends the run in order, and compares what callers got with what the store has. */
  async finish(): Promise<Omit<KillsResult, 'kills'>> {
    await this.stopCallers()
    await this.#gateway?.stop()
    let [servedOver, forfeitedBeyondKilled, wrong] = [0, 0, this.#callers.found.wrong]
    for (const row of await this.#audit()) {
      servedOver += row.servedOver
      wrong += row.faults.length
      forfeitedBeyondKilled += Math.max(0, row.forfeited - (this.#mayForfeit.get(row.account) ?? 0))
      this.#log(`${row.account}: ${row.forfeited} forfeited`)
    }
    return { wrong, crossed: this.#callers.found.crossed, hungStores: this.#hungStores, servedOver, forfeitedBeyondKilled }
  }

  stopCallers(): Promise<void> {
    return this.#callers.stop()
  }

  /** What a worker that is killed now may hold: a lease, and what both workers have charged since their last report. */
  #allowForfeits(): void {
    const from = performance.now() - unreportedMs
    for (const [account, { dailyCredits, callers }] of Object.entries(accounts)) {
      const lease = Math.max(dailyCredits / 100, 8 * callCost)
      const served = this.#callers.servedAt.get(account)?.filter(time => time > from).length ?? 0
      this.#mayForfeit.set(account, (this.#mayForfeit.get(account) ?? 0) + lease + callCost * (served + callers))
    }
  }

  /** Workers end by themselves once their primary is gone. */
  async #untilEnded(workers: readonly number[]): Promise<void> {
    const end = performance.now() + maxWaitMs
    while (workers.some(isRunning) && performance.now() < end) await setTimeout(20)
    for (const pid of workers.filter(isRunning)) {
      this.#hungStores += 1
      this.#log(`worker ${pid} did not end`)
      process.kill(pid, 'SIGKILL')
    }
  }

  async #audit(): Promise<readonly CreditSummary[]> {
    const rows = await Promise.race([this.#callers.audit().catch((error: Error) => this.#log(error.message)), setTimeout(maxWaitMs)])
    if (Array.isArray(rows)) return rows
    this.#hungStores += 1
    return []
  }
}

const killsPerScale = { lmdb: 2, redis: 1, 'distant redis': 1 } as const

export const kills: Attack = {
  name: 'kills',
  summary: 'kill -9 of a primary or a worker under load, on LMDB, on Redis and on a Redis 250 ms away',
  async run({ seed, scale, log }) {
    const figures: Figure[] = []
    for (const store of ['lmdb', 'redis', 'distant redis'] as const) {
      if (store !== 'lmdb' && skipWithoutRedis !== false) {
        log(`not run on ${store}: ${skipWithoutRedis}`)
        continue
      }
      const result = await runKills({ seed, kills: Math.ceil(killsPerScale[store] * scale), store, log })
      figures.push(
        { name: `${store}: kills`, value: result.kills },
        mustBeZero(`${store}: workers or commands that hung`, result.hungStores),
        mustBeZero(`${store}: credits served over a balance`, result.servedOver),
        mustBeZero(`${store}: credits forfeited beyond what the killed held`, result.forfeitedBeyondKilled),
        mustBeZero(`${store}: wrong results, and differences in the audit`, result.wrong),
        mustBeZero(`${store}: results of another call`, result.crossed),
      )
    }
    return figures
  },
}
