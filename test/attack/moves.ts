import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { systemClock } from '../../src/services/clock.ts'
import { isoDate } from '../../src/util/dates.ts'
import { parseStoreAddress } from '../../src/config/store-address.ts'
import { concurrently } from '../../src/store/copy-store.ts'
import { openStore } from '../../src/store/open-store.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { createDeployment, mainPath, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess, NewKey } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { post } from '../support/rpc-client.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, Figure } from './attack.ts'
import { CreditCallers, balanceOf, callCost } from './credit-callers.ts'
import type { CreditAccount } from './credit-callers.ts'

/** Stores of which one takes the place of the other under load. */
interface StorePair {
  readonly gatewayCount: number
  readonly workers: number
  /** `open` starts what is needed; `from` undefined: the embedded store of the deployment. */
  open(): Promise<{ readonly from: string | undefined; readonly to: string; remove(): Promise<unknown> }>
}

const redisOptions = ['--appendonly', 'yes', '--appendfsync', 'everysec']

const pairs: Readonly<Record<string, StorePair>> = {
  'Redis to cluster': {
    gatewayCount: 2,
    workers: 1,
    async open() {
      const [redis, cluster] = [await startRedisServer(...redisOptions), await startRedisCluster({ options: redisOptions })]
      return { from: redis.url, to: cluster.address.url.reveal(), remove: () => Promise.all([redis.remove(), cluster.remove()]) }
    },
  },
  'LMDB to Redis': {
    gatewayCount: 1,
    workers: 2,
    async open() {
      const redis = await startRedisServer(...redisOptions)
      return { from: undefined, to: redis.url, remove: () => redis.remove() }
    },
  },
}

/** A tenth of the accounts use up their balance during the run. */
const accounts: Readonly<Record<string, CreditAccount>> = Object.fromEntries(
  Array.from({ length: 20 }, (_, i) => [`account${i}`, { dailyCredits: i % 10 === 0 ? 12_000 : 3_000_000, callers: 1 }]),
)

/** 20 callers make about 200 calls a second. */
const pauseBetweenCallsMs = 90
const loadBeforeMs = 3_000
const loadAfterMs = 4_000
const killsPerMove = 2

interface MoveResult {
  readonly calls: number
  readonly failed: number
  /** From the first failed call to the last. */
  readonly failingMs: number
  readonly longestGapMs: number
  readonly heldMs: number
  readonly servedOver: number
  readonly usedOver: number
  readonly uncountedCalls: number
  readonly wrongUsageCredits: number
  readonly wrong: number
  readonly wrongKeys: number
}

/** Gateways serve while their store is copied by a command, which is killed and repeated, and go over to the copy. */
const runMove = async (pair: StorePair, idleAccounts: number, random: SeededRandom, log: (line: string) => void): Promise<MoveResult> => {
  const startedAt = systemClock.now()
  const stores = await pair.open()
  const node = await startFakeNode({
    eth_blockNumber: { result: '0x10' },
    eth_getBalance: ({ params }) => ({ result: balanceOf(String(params[0])) }),
  })
  const plans = Object.fromEntries(Object.entries(accounts).map(([name, { dailyCredits }]) => [name, { dailyCredits }]))
  const deployment = createDeployment({
    gateway: { workers: pair.workers, log: 'warn', plans, store: `${stores.from ?? 'lmdb:../data'} -> ${stores.to}` },
    networks: { testnet: networkFile('testnet', [node.url], { cache: false }) },
  })
  const from = stores.from ?? `lmdb:${join(deployment.dir, '../data')}`
  const gateways: GatewayProcess[] = []
  let turn = 0
  const urlOf = (key: string) => gateways[turn++ % gateways.length]?.http(key)
  const callers = new CreditCallers({ deployment, accounts, pauseMs: pauseBetweenCallsMs, urlOf, log })
  const keys = new KeyChanges(deployment)
  const logPhase = (phase: string): void =>
    log(
      `${((systemClock.now() - startedAt) / 1_000).toFixed(0)} s: ${phase}; ${callers.results} results, ${callers.failedAt.length} calls failed`,
    )
  try {
    await callers.addAccounts()
    await deployment.addAccount(operatedAccount, 'account1')
    await addIdleAccounts(from, idleAccounts)
    logPhase(`${idleAccounts} accounts are in the store`)
    for (let i = 0; i < pair.gatewayCount; i += 1) gateways.push(await deployment.start())
    callers.start()
    await setTimeout(loadBeforeMs)
    keys.start()
    for (let i = 0; i < killsPerMove; i += 1) await copyAndKill(from, stores.to, random.between(250, 900))
    logPhase(`the command was killed ${killsPerMove} times`)
    const { code, out, err } = await copy(from, stores.to)
    if (code !== 0) throw new Error(`store copy: ${err}`)
    logPhase(out.trim())
    const { heldMs, missing } = JSON.parse(out) as { readonly heldMs: number; readonly missing: number } // as the command promises
    if (missing > 0) throw new Error(`${missing} processes have not gone over`)
    await setTimeout(loadAfterMs)
    await keys.stop()
    const wrongKeys = await keys.countWrong(gateways)
    await callers.stop()
    for (const gateway of gateways) if ((await gateway.stop()) !== 0) throw new Error('a gateway did not end in order')
    await assertRefused(from)
    logPhase('the gateways have stopped')
    const summaries = await callers.audit()
    logPhase('the audit has ended')
    const sum = (of: (each: (typeof summaries)[number]) => number) => summaries.reduce((total, each) => total + of(each), 0)
    const { failedAt, servedAt, found } = callers
    const rich = Object.keys(accounts).filter(name => (accounts[name]?.dailyCredits ?? 0) > 100_000)
    return {
      calls: callers.results + failedAt.length,
      failed: failedAt.length,
      failingMs: (failedAt.at(-1) ?? 0) - (failedAt[0] ?? 0),
      longestGapMs: Math.max(...rich.map(name => longestGap(servedAt.get(name) ?? []))),
      heldMs,
      servedOver: sum(each => each.servedOver),
      usedOver: sum(each => each.usedOver),
      uncountedCalls: sum(each => each.uncountedCalls),
      wrongUsageCredits: await countWrongUsage(deployment, callers, startedAt),
      wrong: found.wrong + found.crossed + sum(each => each.faults.length),
      wrongKeys,
    }
  } finally {
    await keys.stop()
    await callers.stop()
    await deployment.remove()
    await node.stop()
    await stores.remove()
  }
}

interface UsageRow {
  readonly account: string
  readonly credits: number
}

/** Credits that the rows of usage have beyond those of results, and those that they lack. The run may be in two months. */
const countWrongUsage = async (deployment: Deployment, { servedAt }: CreditCallers, startedAt: number): Promise<number> => {
  const months = new Set([startedAt, systemClock.now()].map(time => isoDate(time).slice(0, 'YYYY-MM'.length)))
  const rows: UsageRow[] = []
  for (const month of months) {
    const { stdout, stderr } = await deployment.run('usage', 'export', '--month', month, '--json')
    if (!stdout.startsWith('[')) throw new Error(`usage export: ${stderr}`)
    rows.push(...(JSON.parse(stdout) as readonly UsageRow[])) // as the command promises
  }
  const creditsOf = (name: string) => rows.reduce((sum, { account, credits }) => sum + (account === name ? credits : 0), 0)
  return Array.from(servedAt, ([name, times]) => Math.abs(creditsOf(name) - callCost * times.length)).reduce((sum, each) => sum + each, 0)
}

/** Between two results. */
const longestGap = (times: readonly number[]): number => Math.max(0, ...times.slice(1).map((time, i) => time - (times[i] ?? time)))

const spawnCopy = (from: string, to: string) => {
  const { NODE_OPTIONS: _, ...env } = process.env
  return spawn(process.execPath, [mainPath, 'store', 'copy', from, to, '--switch', '--json'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
}

const copy = async (from: string, to: string) => {
  const child = spawnCopy(from, to)
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code: code as number | null, out, err }
}

const copyAndKill = async (from: string, to: string, afterMs: number): Promise<void> => {
  const child = spawnCopy(from, to)
  const ended = once(child, 'close')
  await setTimeout(afterMs)
  child.kill('SIGKILL')
  await ended
}

const defaultIdleAccounts = 3_000

/** With a key and a day each: so that a copy takes a while. */
const addIdleAccounts = async (from: string, count: number): Promise<void> => {
  const store = await openAt(from)
  const { today: day } = await store.dayBalance('')
  const addAccount = async (i: number) => {
    const [id, process] = [`acc_idle${i}`, 'earlier']
    await store.addAccount({ id, name: `idle${i}`, plan: 'account1', created: 1 })
    await store.addKey(`hash${i}`, { id: `key_idle${i}`, account: id, created: 1, hint: 'abcd' })
    const lease = { account: id, day, process, minCredits: 0, desiredCredits: 80, limit: 80, shareDivisor: 1 }
    await store.requestLease({ ...lease, seq: 1, counters: undefined })
  }
  await concurrently(new Array(count).keys(), addAccount).finally(() => store.close())
}

const openAt = async (text: string) => {
  const address = parseStoreAddress(text, '')
  if (address === undefined) throw new Error('no address')
  return openStore(address, systemClock)
}

/** A store that was left is used by nobody: its credits would be granted twice. */
const assertRefused = async (from: string): Promise<void> => {
  const store = await openAt(from).catch(() => undefined)
  if (store === undefined) return
  await store.close()
  throw new Error('the store that was left can still be used')
}

const operatedAccount = 'operated'

/** An operator who adds and revokes keys all the time. */
class KeyChanges {
  readonly #deployment: Deployment
  readonly #added: NewKey[] = []
  readonly #revoked: NewKey[] = []
  #running: Promise<void> | undefined
  #isStopping = false

  constructor(deployment: Deployment) {
    this.#deployment = deployment
  }

  start(): void {
    this.#running = this.#change()
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#running
  }

  /** Keys that do not do what they were last told. */
  async countWrong([gateway]: readonly GatewayProcess[]): Promise<number> {
    if (gateway === undefined || this.#revoked.length === 0) throw new Error('no key was changed')
    await setTimeout(1_500)
    const statusOf = async ({ key }: NewKey) =>
      (await post(gateway.http(key), JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId' }))).status
    let wrong = 0
    for (const key of this.#added) if ((await statusOf(key)) !== (this.#revoked.includes(key) ? 401 : 200)) wrong += 1
    return wrong
  }

  async #change(): Promise<void> {
    while (!this.#isStopping) {
      const key = await this.#deployment.addKey(operatedAccount)
      this.#added.push(key)
      if (this.#added.length % 2 === 0) {
        const { code, stderr } = await this.#deployment.run('keys', 'revoke', key.id)
        if (code !== 0) throw new Error(stderr)
        this.#revoked.push(key)
      }
      await setTimeout(50)
    }
  }
}

/** A call that waits for a lease waits a second at most. */
const maxGapMs = 5_000

export const moves: Attack = {
  name: 'moves',
  summary: 'a store is copied to another one, by a command that is killed and repeated, while gateways serve and go over to it',
  async run({ seed, scale, cases = '', accounts: idleAccounts = defaultIdleAccounts, log }) {
    if (skipWithoutRedis !== false) {
      log(`not run: ${skipWithoutRedis}`)
      return []
    }
    const figures: Figure[] = []
    for (let round = 0; round < Math.ceil(scale); round += 1) {
      for (const [name, pair] of Object.entries(pairs).filter(([each]) => each.includes(cases))) {
        const result = await runMove(pair, idleAccounts, new SeededRandom(seed + round), line => log(`${name}: ${line}`))
        figures.push(
          { name: `${name}: calls`, value: result.calls },
          { name: `${name}: the store took no changes for`, value: result.heldMs, unit: 'ms' },
          { name: `${name}: calls that failed`, value: result.failed },
          { name: `${name}: from the first of them to the last`, value: result.failingMs, unit: 'ms' },
          { name: `${name}: longest time without a result of an account`, value: result.longestGapMs, unit: 'ms', limit: maxGapMs },
          mustBeZero(`${name}: credits served over a balance`, result.servedOver),
          mustBeZero(`${name}: credits charged and not served`, result.usedOver),
          mustBeZero(`${name}: calls that are missing in the usage counts`, result.uncountedCalls),
          mustBeZero(`${name}: credits of usage that differ from those of results`, result.wrongUsageCredits),
          mustBeZero(`${name}: wrong results, and differences in the audit`, result.wrong),
          mustBeZero(`${name}: keys that were added or revoked, and are not`, result.wrongKeys),
        )
      }
    }
    return figures
  },
}
