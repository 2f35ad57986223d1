import { Agent } from 'node:http'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { assertNotLocked } from '../../src/store/lmdb/store-lock.ts'
import { childrenOf, createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, Figure } from './attack.ts'
import { sendCall } from './restarts.ts'

export interface PausesOptions {
  readonly pauseMs: number
  readonly store: 'lmdb' | 'redis'
  log(line: string): void
}

export interface PausesResult {
  readonly calls: number
  /** Calls that were not answered, or with anything but their result. */
  readonly lost: number
  /** Credits that were charged for no call, or not charged for one; and differences in the audit. */
  readonly wrongCredits: number
}

const callCost = 80
/** Half of them keep their connections. */
const callerCount = 16
const pauseBetweenCallsMs = 20
const loadMs = 1_000

/**
 * Stops a worker (SIGSTOP), then the primary, under load, and lets each go on. Who has a connection to the stopped worker waits, and no call is
 * lost: neither to that worker, nor to the other.
 */
export const runPauses = async ({ pauseMs, store, log }: PausesOptions): Promise<PausesResult> => {
  const redis = store === 'redis' ? await startRedisServer('--appendonly', 'yes') : undefined
  const node = await startFakeNode({ eth_gasPrice: { result: '0x9' } })
  const deployment = createDeployment({
    gateway: { workers: 2, log: 'warn', drain: { grace: '0s' }, ...(redis && { store: redis.url }) },
    networks: { testnet: networkFile('testnet', [node.url], { cache: false }) },
  })
  try {
    const { key } = await deployment.addCaller('alice', 'custom')
    const gateway = await deployment.start()
    const callers = openCallers(gateway.http(key))
    for (const pid of [...childrenOf(gateway.pid).slice(0, 1), gateway.pid]) {
      await setTimeout(loadMs)
      await stopOutsideWrites(pid, store === 'lmdb' ? join(deployment.dir, '../data') : undefined)
      await setTimeout(pauseMs)
      process.kill(pid, 'SIGCONT')
    }
    await setTimeout(loadMs)
    const { calls, failures } = await callers.stop()
    const code = await gateway.stop()
    if (code !== 0) throw new Error(`the gateway exited with ${code}`)
    for (const failure of failures) log(failure)
    const rows = JSON.parse((await deployment.run('audit', '--json')).stdout) as readonly AuditRow[] // as the command promises
    const counted = rows.reduce((sum, row) => sum + row.counted, 0)
    const served = callCost * (calls - failures.length)
    log(`${store}: ${served} served, ${counted} charged`)
    const faultCount = rows.reduce((sum, { faults }) => sum + faults.length, 0)
    return { calls, lost: failures.length, wrongCredits: Math.abs(counted - served) + faultCount }
  } finally {
    await deployment.remove()
    await node.stop()
    await redis?.remove()
  }
}

const maxStops = 20
const maxLockMs = 100

/** A process that is stopped while it writes to LMDB keeps the lock of writers, and others cannot lease credits: docs/store.md says so. */
const stopOutsideWrites = async (pid: number, folder: string | undefined): Promise<void> => {
  for (let i = 0; i < maxStops; i++) {
    process.kill(pid, 'SIGSTOP')
    const isFree =
      folder === undefined ||
      (await assertNotLocked(folder, maxLockMs).then(
        () => true,
        () => false,
      ))
    if (isFree) return
    process.kill(pid, 'SIGCONT')
    await setTimeout(pauseBetweenCallsMs)
  }
  throw new Error('the process always has the lock of the store')
}

interface AuditRow {
  readonly counted: number
  readonly faults: readonly string[]
}

const openCallers = (url: string) => {
  const failures: string[] = []
  let calls = 0
  let isStopping = false
  const callers = Array.from({ length: callerCount }, async (_, i) => {
    const agent = new Agent({ keepAlive: i % 2 === 0, maxSockets: 1 })
    while (!isStopping) {
      calls += 1
      const answer = await sendCall(agent, url, 'eth_gasPrice').catch(String)
      if (answer !== '{"jsonrpc":"2.0","id":1,"result":"0x9"}') failures.push(answer)
      await setTimeout(pauseBetweenCallsMs)
    }
    agent.destroy()
  })
  return {
    async stop() {
      isStopping = true
      await Promise.all(callers)
      return { calls, failures }
    },
  }
}

const minPauseMs = 2_000

/** The scale says how long the processes are stopped. */
export const pauses: Attack = {
  name: 'pauses',
  summary: 'stops a worker, then the primary, with SIGSTOP under load, and lets them go on',
  async run({ scale, log }) {
    const figures: Figure[] = []
    for (const store of ['lmdb', 'redis'] as const) {
      if (store === 'redis' && skipWithoutRedis !== false) {
        log(`not run on Redis: ${skipWithoutRedis}`)
        continue
      }
      const { calls, lost, wrongCredits } = await runPauses({ pauseMs: Math.max(minPauseMs, minPauseMs * scale), store, log })
      figures.push(
        { name: `${store}: calls`, value: calls },
        mustBeZero(`${store}: calls lost`, lost),
        mustBeZero(`${store}: credits charged wrongly, and differences in the audit`, wrongCredits),
      )
    }
    return figures
  },
}
