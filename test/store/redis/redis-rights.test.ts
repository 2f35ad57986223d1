import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@redis/client'
import type { Test } from 'tap'
import type { RedisAddress } from '../../../src/config/types.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { systemClock } from '../../../src/services/clock.ts'
import type { Clock } from '../../../src/services/clock.ts'
import { EvidenceWriter, clearEvidence, readEvidence } from '../../../src/services/evidence.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { openSharedCaches } from '../../../src/services/shared-cache/index.ts'
import { inspectStore, openStore } from '../../../src/store/open-store.ts'
import { openRedisHeightBroadcasts } from '../../../src/store/redis/redis-height-broadcast.ts'
import { RedisRateLimits } from '../../../src/store/redis/redis-rate-limits.ts'
import { openRedisStore } from '../../../src/store/redis/redis-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { startAnvilChain } from '../../support/anvil-chain.ts'
import { networkFile } from '../../support/deployment.ts'
import { TestLog } from '../../support/fakes.ts'
import { createPortalDeployment, signInToPortal } from '../../support/portal-client.ts'
import { startRedisCluster } from '../../support/redis-cluster.ts'
import { startSentinelDeployment } from '../../support/redis-sentinel.ts'
import { certificateFile, skipWithoutRedis, startRedisServer, tlsOptions } from '../../support/redis-server.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import { call } from '../../support/rpc-client.ts'
import t from '../../support/tap.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { accountStoreContract } from '../account-store-contract.ts'
import { ledgerStoreContract } from '../ledger-store-contract.ts'
import { recordStoreContract } from '../record-store-contract.ts'
import { requestLogContract } from '../request-log-contract.ts'
import { usageStoreContract, useContract } from '../usage-store-contract.ts'
import { changeAccount } from '../change-account.ts'

/** The rights that docs/store.md names, as words of ACL SETUSER, without `on` and the password. */
const readRights = async () => {
  const page = await readFile(join(import.meta.dirname, '../../../../docs/store.md'), 'utf8')
  const find = (pattern: RegExp): string => {
    const [, found] = pattern.exec(page) ?? []
    if (found === undefined) throw new Error(`docs/store.md has nothing like ${pattern}`)
    return found
  }
  const words = (text: string) => text.replaceAll("'", '').split(/[\s\\]+/)
  const least = words(find(/ACL SETUSER tollgate on '>PASSWORD' ((?:.*\\\n)*.*)\n/))
  return {
    single: least,
    cluster: [...least.filter(word => word !== '+select'), ...words(find(/a cluster needs `([^`]+)`/))],
    broad: words(find(/A user of its own needs `([^`]+)`/)),
    ofSentinels: words(find(/Sentinels need `([^`]+)`/)),
  }
}

const rights = await readRights()
const userOptions = (words: readonly string[]) => ['--user', 'tollgate', 'on', '>secret', ...words]
const credentials = 'tollgate:secret@'
const addressOf = (rest: string): RedisAddress => ({ kind: 'redis', url: new Secret(`redis://${credentials}127.0.0.1:${rest}`, 'HOST') })

const commandsOf = (words: readonly string[]): readonly string[] =>
  words
    .filter(word => word.startsWith('+'))
    .map(word => word.slice(1))
    .sort()

/** Commands that the servers have carried out since they began. */
const usedCommands = async (servers: readonly RedisServer[]): Promise<ReadonlySet<string>> => {
  const infos = await Promise.all(servers.map(server => server.send('INFO', 'commandstats')))
  return new Set(infos.flatMap(info => Array.from(String(info).matchAll(/^cmdstat_([^:]+):calls=[1-9]/gm), ([, name = '']) => name)))
}

const assertNothingDenied = async (t: Test, servers: readonly RedisServer[]): Promise<void> => {
  for (const server of servers) t.same(await server.send('ACL', 'LOG'), [], 'a command, key or channel was refused')
}

/** What a gateway does with its Redis, by the parts that do it. */
const useAll = async (t: Test, address: RedisAddress, servers: readonly RedisServer[]): Promise<void> => {
  const openFresh = async (t: Test, clock: Clock): Promise<Store> => {
    for (const server of servers) await server.send('FLUSHALL')
    const store = await openRedisStore(address, systemClock, clock)
    t.teardown(() => store.close())
    return store
  }
  const contracts = [accountStoreContract, ledgerStoreContract, usageStoreContract, useContract, recordStoreContract, requestLogContract]
  // Their subtests run when they have returned.
  for (const contract of contracts) await t.test(contract.name, t => contract(t, openFresh))

  for (const server of servers) await server.send('SCRIPT', 'FLUSH')
  const log = new TestLog()
  const store = await openStore(address, systemClock)
  t.teardown(() => store.close())
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  await store.addKey('hash', { id: 'key_1', account: 'acc_1', hint: 'x', rate: 1, created: 1 })
  t.match(await inspectStore(address, systemClock), { accounts: [{ id: 'acc_1' }], hasKeyRates: true })
  let changes = 0
  t.teardown(store.subscribe(() => void (changes += 1)))
  const other = await openStore(address, systemClock)
  t.teardown(() => other.close())
  await waitUntil(async () => {
    await changeAccount(other, 'acc_1', { label: `change ${changes}` })
    return changes > 0
  })

  const writer = new EvidenceWriter({ store, clock: systemClock, log })
  const evidence = { upstream: 'own', methodClass: 'logs', cause: 'wrong', request: { method: 'eth_getLogs', params: [] }, header: null }
  writer.of('devnet').add({ ...evidence, answer: Buffer.from('[]') })
  await writer.whenIdle()
  t.equal((await readEvidence(store)).length, 1)
  t.equal(await clearEvidence(store, { network: 'devnet', upstream: 'own' }), 1)

  const limits = new RedisRateLimits(address, systemClock, log, 5_000)
  t.teardown(() => limits.close())
  const request = { bucket: 'acc_1', rate: { perSecond: 1, burst: 10 }, tokens: 1 }
  t.equal(await limits.take([request]), undefined)

  const gateways = [openRedisHeightBroadcasts(address, systemClock), openRedisHeightBroadcasts(address, systemClock)] as const
  t.teardown(() => Promise.all(gateways.map(gateway => gateway.close())))
  const received: number[] = []
  const [[sender], [receiver]] = gateways.map(gateway => gateway.heightBroadcastsOf('devnet', 1)) as [
    ReturnType<(typeof gateways)[0]['heightBroadcastsOf']>,
    ReturnType<(typeof gateways)[0]['heightBroadcastsOf']>,
  ] // as many as gateways
  receiver?.subscribe(height => void received.push(height))
  let height = 100
  await waitUntil(() => {
    void sender?.raise((height += 1))
    return received.length > 0
  })
  sender?.lower(1)

  const caches = openSharedCaches({ clock: systemClock, log, metrics: createMetricsRegistry() })
  t.teardown(() => caches.close())
  const cache = caches.open(address.url)
  const entry = { result: Buffer.from('"0x1"'), finalizedBlock: { number: 1, hash: `0x${'ab'.repeat(32)}` } }
  await waitUntil(async () => {
    cache.set('name', entry, 60_000)
    return (await cache.get('name', 1_000, () => true)) !== undefined
  })
}

t.test('the rights of the documentation are those that a gateway uses, and no others', { skip: skipWithoutRedis }, async t => {
  t.test('of one Redis, where a user without the channels is refused before a write', async t => {
    const redis = await startRedisServer(...userOptions(rights.single))
    t.teardown(() => redis.remove())
    await redis.send('ACL', 'SETUSER', 'tollgate', 'resetchannels')
    const address = addressOf(`${redis.port}/1`)
    await t.rejects(openStore(address, systemClock), { message: /; give its user the channels `&tollgate:\*`$/ })
    t.match(await redis.send('INFO', 'keyspace'), /^# Keyspace\s*$/, 'no database has a key')
    await redis.send('ACL', 'SETUSER', 'tollgate', '&tollgate:*')
    await redis.send('ACL', 'LOG', 'RESET')
    await useAll(t, address, [redis])
    const used = await usedCommands([redis])
    t.same(
      commandsOf(rights.single).filter(name => !used.has(name)),
      [],
      'a right that nothing uses',
    )
    await assertNothingDenied(t, [redis])
  })

  t.test('of the nodes of a cluster', async t => {
    const cluster = await startRedisCluster({ options: userOptions(rights.cluster) })
    t.teardown(() => cluster.remove())
    await useAll(t, addressOf(`${cluster.primaries[2]?.port}`), cluster.primaries)
    const used = await usedCommands(cluster.primaries)
    // Redis counts ASKING when slots move: redis-failover.test.ts.
    t.same(
      commandsOf(rights.cluster).filter(name => !used.has(name)),
      ['asking'],
      'a right that nothing uses',
    )
    await assertNothingDenied(t, cluster.primaries)
  })

  t.test('or the broader ones', async t => {
    const redis = await startRedisServer(...userOptions(rights.broad))
    t.teardown(() => redis.remove())
    await useAll(t, addressOf(`${redis.port}`), [redis])
    await assertNothingDenied(t, [redis])
  })
})

/** A gateway process that has these rights, over TLS alone: accounts, keys, calls, filters, heights, usage, sessions. */
const serve = async (t: Test, chainUrl: string, url: string): Promise<void> => {
  const networks = { devnet: networkFile('devnet', [chainUrl], { 'rate-limit': {} }) }
  const env = { REDIS_URL: url, NODE_EXTRA_CA_CERTS: certificateFile('authority') }
  const inProcess = createPortalDeployment(chainUrl, { networks, env, gateway: { store: '${REDIS_URL}', workers: 2 } })
  t.teardown(() => inProcess.remove())
  // Node.js reads NODE_EXTRA_CA_CERTS at its start.
  const deployment = { ...inProcess, run: inProcess.runProgram }
  const run = async (...args: readonly [string, ...string[]]) => {
    const { stdout, stderr } = await deployment.run(...args, '--json')
    if (stdout === '') throw new Error(stderr)
    return JSON.parse(stdout)
  }
  await run('accounts', 'add', 'alice', '--plan', 'core')
  const { id, key } = await run('keys', 'add', 'alice')
  const gateway = await deployment.start()
  const request = (method: string, ...params: readonly unknown[]) => call(gateway.http(key), method, params)
  t.match(await request('eth_blockNumber'), { result: /^0x/ })
  const { result: filter } = await request('eth_newBlockFilter')
  t.match(await request('eth_getFilterChanges', filter), { result: [] })
  const session = await signInToPortal(deployment, gateway, 'alice')
  t.equal((await session.get('/session')).status, 200)
  // The command is a process of its own, which takes half a second of CPU: it is asked once.
  await waitUntil(async () => (await session.get('/account')).json.balance.used > 0)
  t.ok((await run('usage', 'alice')).used > 0)
  const audit = await run('audit')
  t.same(audit[0].faults, [])
  await run('keys', 'revoke', id)
  await waitUntil(async () => (await request('eth_blockNumber')).error?.code === -32090)
  t.equal(await gateway.stop(), 0)
  t.same(
    gateway.log.filter(({ level }) => level === 'error'),
    [],
  )
}

t.test('a gateway with these rights serves over TLS', { skip: skipWithoutRedis }, async t => {
  const chain = await startAnvilChain()
  t.teardown(() => chain.stop())

  t.test('with one Redis, which needs a certificate authority that is known', async t => {
    const redis = await startRedisServer(...(await tlsOptions()), ...userOptions(rights.single))
    t.teardown(() => redis.remove())
    const url = `rediss://${credentials}127.0.0.1:${redis.tlsPort}/1`
    await t.rejects(openStore({ kind: 'redis', url: new Secret(url, 'HOST') }, systemClock), {
      message: /: self-signed certificate in certificate chain; put the file of its certificate authority into NODE_EXTRA_CA_CERTS$/,
    })
    await serve(t, chain.url, url)
    await assertNothingDenied(t, [redis])
  })

  t.test('with a cluster, to each node', async t => {
    const cluster = await startRedisCluster({ tls: true, withReplicas: true, options: userOptions(rights.cluster) })
    t.teardown(() => cluster.remove())
    await serve(t, chain.url, cluster.tlsUrlWith(credentials))
    await assertNothingDenied(t, cluster.primaries)
  })

  t.test('with Sentinels that need credentials too', async t => {
    const { servers, sentinels, tlsUrlWith, remove } = await startSentinelDeployment(1, userOptions(rights.single), { tls: true })
    t.teardown(remove)
    for (const sentinel of sentinels) {
      await sentinel.send('ACL', 'SETUSER', 'tollgate', 'on', '>secret', ...rights.ofSentinels)
      await sentinel.send('ACL', 'SETUSER', 'default', 'resetpass', '>other')
    }
    await serve(t, chain.url, tlsUrlWith(credentials))
    await assertNothingDenied(t, servers)
    for (const { port } of sentinels) {
      const operator = await createClient({ url: `redis://:other@127.0.0.1:${port}`, RESP: 2 })
        .on('error', () => undefined)
        .connect()
      const denied = (await operator.sendCommand(['ACL', 'LOG'])) as readonly unknown[]
      operator.destroy()
      t.same(
        denied.filter(entry => JSON.stringify(entry).includes('tollgate')),
        [],
        'a command of a Sentinel was refused',
      )
    }
  })
})
