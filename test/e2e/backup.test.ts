import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { CreditCallers, balanceOf, callCost } from '../attack/credit-callers.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const accounts = Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`account${i}`, { dailyCredits: 3_000_000, callers: 1 }]))

const plans = Object.fromEntries(Object.entries(accounts).map(([name, { dailyCredits }]) => [name, { dailyCredits }]))

/** What a process reports lately, and no later than that on a busy machine. */
const unreportedMs = 4_000

interface AuditRow {
  readonly account: string
  readonly used: number
  readonly counted: number
  readonly faults: readonly string[]
}

const audit = async (deployment: Deployment): Promise<ReadonlyMap<string, AuditRow>> => {
  const { stdout } = await deployment.run('audit', '--json')
  return new Map((JSON.parse(stdout) as readonly AuditRow[]).map(row => [row.account, row])) // as the command promises
}

/** Backs up and restores under load. `restore` lets the configuration name the state of the backup. */
const checkBackup = async (
  t: Test,
  deployment: Deployment,
  { backUp, restore }: { backUp(): Promise<void>; restore(): Promise<void> },
): Promise<void> => {
  const gateways: GatewayProcess[] = []
  const callers = new CreditCallers({ deployment, accounts, pauseMs: 20, urlOf: key => gateways[0]?.http(key), log: () => undefined })
  await callers.addAccounts()
  gateways.push(await deployment.start())
  callers.start()
  await waitUntil(async () => callers.results > 300)
  const startedAt = performance.now()
  await backUp()
  const endedAt = performance.now()
  await waitUntil(async () => Array.from(callers.servedAt.values()).every(times => (times.at(-1) ?? 0) > endedAt))
  const { key: later } = await deployment.addKey('account0')
  await gateways.pop()?.kill()
  await callers.stop()
  await restore()

  const restored = await audit(deployment)
  for (const [account, times] of callers.servedAt) {
    const { used = NaN, counted, faults } = restored.get(account) ?? {}
    t.same(faults, [], account)
    t.equal(counted, used, 'use and usage counts are of one moment')
    const servedBy = (time: number) => callCost * times.filter(at => at <= time).length
    t.ok(used <= servedBy(endedAt) + callCost, `${used} credits, of calls before the end of the backup`)
    t.ok(used >= servedBy(startedAt - unreportedMs), 'nothing that was reported before it is missing')
  }
  const gateway = await deployment.start()
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: [`0x${'ab'.repeat(20)}`, '0x5'] })
  t.match(await post(gateway.http(later), body), { status: 401 }, 'what came later is lost')
  const { key } = await deployment.addKey('account1')
  for (let i = 0; i < 5; i += 1) t.match(await post(gateway.http(key), body), { status: 200 })
  t.equal(await gateway.stop(), 0)
  const { used, counted, faults } = (await audit(deployment)).get('account1') ?? {}
  const before = restored.get('account1')?.used ?? NaN
  t.match({ used, counted, faults }, { used: before + 5 * callCost, counted: before + 5 * callCost, faults: [] }, 'calls are charged on')
}

const openDeployment = async (t: Test, gateway: object): Promise<Deployment> => {
  const node = await startFakeNode({
    eth_blockNumber: { result: '0x10' },
    eth_getBalance: ({ params }) => ({ result: balanceOf(String(params[0])) }),
  })
  t.teardown(() => node.stop())
  const networks = { testnet: networkFile('testnet', [node.url], { cache: false }) }
  const deployment = createDeployment({ gateway: { log: 'warn', plans, ...gateway }, networks })
  t.teardown(() => deployment.remove())
  return deployment
}

const tempDir = (t: Test): string => {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

t.test('a backup of the embedded store under load is of one moment, and can be used in its place', async t => {
  const deployment = await openDeployment(t, {})
  const [folder, backup] = [join(deployment.dir, '../data'), join(tempDir(t), 'backup')]
  await checkBackup(t, deployment, {
    async backUp() {
      t.match(await deployment.runProgram('store', 'backup', backup), { code: 0 })
    },
    async restore() {
      rmSync(folder, { recursive: true })
      cpSync(backup, folder, { recursive: true })
    },
  })
})

/** Returns the path of the RDB file. */
const saveSnapshot = async (redis: RedisServer): Promise<string> => {
  const lastSave = await redis.send('LASTSAVE')
  await redis.send('BGSAVE')
  await waitUntil(async () => (await redis.send('LASTSAVE')) !== lastSave)
  const [, dir] = (await redis.send('CONFIG', 'GET', 'dir')) as readonly string[] // as Redis promises
  return join(String(dir), 'dump.rdb')
}

t.test('so is a snapshot of a Redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer('--appendonly', 'yes')
  t.teardown(() => redis.remove())
  const deployment = await openDeployment(t, { store: redis.url })
  const dir = tempDir(t)
  await checkBackup(t, deployment, {
    async backUp() {
      cpSync(await saveSnapshot(redis), join(dir, 'dump.rdb'))
    },
    async restore() {
      const restored = await startRedisServer('--dir', dir)
      t.teardown(() => restored.remove())
      await restored.send('CONFIG', 'SET', 'appendonly', 'yes')
      deployment.writeGateway({ log: 'warn', plans, store: restored.url })
    },
  })
})

/** Between the snapshots of two nodes. */
const betweenNodesMs = 1_500

t.test('a cluster that is saved node by node has each account as of one moment', { skip: skipWithoutRedis }, async t => {
  const cluster = await startRedisCluster()
  t.teardown(() => cluster.remove())
  const deployment = await openDeployment(t, { store: cluster.address.url.reveal() })
  const dir = tempDir(t)
  const snapshots: string[] = []
  await checkBackup(t, deployment, {
    async backUp() {
      for (const [i, node] of cluster.primaries.entries()) {
        if (i > 0) await setTimeout(betweenNodesMs)
        snapshots.push(await saveSnapshot(node))
        cpSync(snapshots.at(-1) ?? '', join(dir, `${i}.rdb`))
      }
    },
    async restore() {
      for (const [i, node] of cluster.primaries.entries()) {
        await node.kill()
        cpSync(join(dir, `${i}.rdb`), snapshots[i] ?? '')
      }
      for (const node of cluster.primaries) await node.restart()
      await cluster.settled()
    },
  })
})
