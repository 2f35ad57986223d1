import { randomInt } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { childrenOf, createDeployment, isRunning, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, Figure } from './attack.ts'

export interface KillsOptions {
  readonly seed: number
  readonly kills: number
  readonly store: 'lmdb' | 'redis'
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

const callCost = 80
const callerCount = 8
/** The workers of a killed primary, and a command, must have ended by then. */
const maxWaitMs = 12_000
/** What a worker has charged and not reported: reports come each second, and a busy machine delays them. */
const unreportedMs = 2_500

const minResultsPerKill = 5

/** By the name of the account. The small balance is used up during the run. */
const dailyCredits: Readonly<Record<string, number>> = { large: 3_000_000, small: 20_000 }

/**
 * Kills the primary or a worker of a gateway with two workers, at random moments under load, and starts it again; then audits the
 * store. Every result is checked and counted by the callers.
 */
export const runKills = async ({ seed, kills, store, log }: KillsOptions): Promise<KillsResult> => {
  const random = new SeededRandom(seed)
  const redis = store === 'redis' ? await startRedisServer('--appendonly', 'yes') : undefined
  const node = await startFakeNode({
    eth_blockNumber: { result: '0x10' },
    eth_getBalance: ({ params }) => ({ result: balanceOf(String(params[0])) }),
  })
  const plans = Object.fromEntries(Object.entries(dailyCredits).map(([name, credits]) => [name, { dailyCredits: credits }]))
  const deployment = createDeployment({
    gateway: { workers: 2, log: 'warn', plans, ...(redis && { store: redis.url }) },
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
    await redis?.remove()
  }
}

/** The result of a call depends on its address alone. */
const balanceOf = (address: string): string => `0x1${address.slice(-12)}`

const randomAddress = () =>
  `0x${'ab'.repeat(14)}${randomInt(2 ** 47)
    .toString(16)
    .padStart(12, '0')}`

interface AuditRow {
  readonly account: string
  readonly leased: number
  readonly forfeited: number
  readonly faults: readonly string[]
}

class KillsRun {
  readonly #deployment: Deployment
  readonly #random: SeededRandom
  readonly #log: (line: string) => void
  readonly #keys = new Map<string, string>()
  /** When results arrived, by account. */
  readonly #servedAt = new Map<string, number[]>()
  readonly #mayForfeit = new Map<string, number>()
  readonly #found = { hungStores: 0, wrong: 0, crossed: 0 }
  #gateway: GatewayProcess | undefined
  #callers: Promise<unknown> = Promise.resolve()
  #isStopping = false

  constructor(deployment: Deployment, random: SeededRandom, log: (line: string) => void) {
    this.#deployment = deployment
    this.#random = random
    this.#log = log
  }

  /** Results of calls so far. */
  get results(): number {
    return [...this.#servedAt.values()].reduce((sum, { length }) => sum + length, 0)
  }

  async open(): Promise<void> {
    for (const account of Object.keys(dailyCredits)) {
      await this.#deployment.addAccount(account, account)
      this.#keys.set(account, (await this.#deployment.addKey(account)).key)
      this.#servedAt.set(account, [])
    }
    this.#gateway = await this.#deployment.start()
    this.#callers = Promise.all(Array.from({ length: callerCount }, (_, i) => this.#sendCalls(i % 4 === 0 ? 'small' : 'large')))
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
    const rows = await this.#audit()
    for (const account of Object.keys(dailyCredits)) {
      if (rows.some(row => row.account === account)) continue
      this.#found.wrong += 1
      this.#log(`${account}: not in the audit`)
    }
    let [servedOver, forfeitedBeyondKilled] = [0, 0]
    for (const { account, leased, forfeited, faults } of rows) {
      const served = callCost * (this.#servedAt.get(account)?.length ?? 0)
      servedOver += Math.max(0, served - (dailyCredits[account] ?? 0), served - leased)
      forfeitedBeyondKilled += Math.max(0, forfeited - (this.#mayForfeit.get(account) ?? 0))
      this.#found.wrong += faults.length
      for (const fault of faults) this.#log(`${account}: ${fault}`)
      this.#log(`${account}: ${served} served, ${leased} leased, ${forfeited} forfeited`)
    }
    return { ...this.#found, servedOver, forfeitedBeyondKilled }
  }

  async stopCallers(): Promise<void> {
    this.#isStopping = true
    await this.#callers
  }

  /** What a worker that is killed now may hold: a lease, and what both workers have charged since their last report. */
  #allowForfeits(): void {
    const from = performance.now() - unreportedMs
    for (const [account, times] of this.#servedAt) {
      const lease = Math.max((dailyCredits[account] ?? 0) / 100, 8 * callCost)
      const unreported = callCost * (times.filter(time => time > from).length + callerCount)
      this.#mayForfeit.set(account, (this.#mayForfeit.get(account) ?? 0) + lease + unreported)
    }
  }

  /** Workers end by themselves once their primary is gone. */
  async #untilEnded(workers: readonly number[]): Promise<void> {
    const end = performance.now() + maxWaitMs
    while (workers.some(isRunning) && performance.now() < end) await setTimeout(20)
    for (const pid of workers.filter(isRunning)) {
      this.#found.hungStores += 1
      this.#log(`worker ${pid} did not end`)
      process.kill(pid, 'SIGKILL')
    }
  }

  async #audit(): Promise<readonly AuditRow[]> {
    const done = await Promise.race([this.#deployment.run('audit', '--json'), setTimeout(maxWaitMs)])
    if (done?.stdout.startsWith('[')) return JSON.parse(done.stdout) as readonly AuditRow[] // as the command promises
    this.#found.hungStores += 1
    this.#log(`audit: ${done?.stderr ?? 'no answer'}`)
    return []
  }

  async #sendCalls(account: string): Promise<void> {
    while (!this.#isStopping) {
      const address = randomAddress()
      const found = await this.#request(account, address).catch(() => undefined)
      if (found === undefined) await setTimeout(20)
      else this.#check(account, address, found)
    }
  }

  /** Undefined for an error: calls may fail while a process dies. */
  async #request(account: string, address: string): Promise<string | undefined> {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: [address, '0x5'] })
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(this.#gateway?.http(this.#keys.get(account) ?? '') ?? '', { method: 'POST', headers, body })
    return ((await response.json()) as { result?: string }).result
  }

  #check(account: string, address: string, result: string): void {
    this.#servedAt.get(account)?.push(performance.now())
    if (result === balanceOf(address)) return
    this.#found[/^0x1[0-9a-f]{12}$/.test(result) ? 'crossed' : 'wrong'] += 1
    this.#log(`${address} got ${result}`)
  }
}

const killsPerScale = { lmdb: 2, redis: 1 } as const

export const kills: Attack = {
  name: 'kills',
  summary: 'kill -9 of a primary or a worker under load, on LMDB and on Redis',
  async run({ seed, scale, log }) {
    const figures: Figure[] = []
    for (const store of ['lmdb', 'redis'] as const) {
      if (store === 'redis' && skipWithoutRedis !== false) {
        log(`not run on Redis: ${skipWithoutRedis}`)
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
