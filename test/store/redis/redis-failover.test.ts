import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { Secret } from '../../../src/plugin/secret.ts'
import { systemClock } from '../../../src/services/clock.ts'
import type { Clock } from '../../../src/services/clock.ts'
import { openStore } from '../../../src/store/open-store.ts'
import { keySlot } from '../../../src/store/redis/redis-slots.ts'
import { openRedisStore } from '../../../src/store/redis/redis-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { startRedisCluster } from '../../support/redis-cluster.ts'
import { freePort } from '../../support/free-port.ts'
import { startSentinelDeployment } from '../../support/redis-sentinel.ts'
import { skipWithoutRedis, startRedisServer, untilReplicated } from '../../support/redis-server.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { accountStoreContract } from '../account-store-contract.ts'
import { ledgerStoreContract } from '../ledger-store-contract.ts'
import { recordStoreContract } from '../record-store-contract.ts'
import { usageStoreContract, useContract } from '../usage-store-contract.ts'

const account = (name: string) => ({ id: `acc_${name}`, name, plan: 'core', created: 1 })

/** Of so many accounts each of three nodes has some. */
const names = Array.from({ length: 12 }, (_, i) => `a${i}`)

/** A lease of ten credits more than `used`, which the process has had and used before. */
const leaseOf = (store: Store, name: string, seq: number, used = 0) =>
  store.heartbeat('p1').then(({ today: day }) =>
    store.requestLease({
      account: `acc_${name}`,
      day,
      process: 'p1',
      seq,
      counters: used === 0 ? undefined : { granted: used, returned: 0, used },
      minCredits: 0,
      desiredCredits: 10,
      limit: 1_000,
      shareDivisor: 1,
    }),
  )

const succeeds = (attempt: () => Promise<unknown>) => () =>
  attempt().then(
    () => true,
    () => false,
  )

t.test('a key has the slot that Redis computes', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer('--cluster-enabled', 'yes', '--cluster-port', `${await freePort()}`)
  t.teardown(() => redis.remove())
  for (const key of ['', 'a', 'tollgate:version', 'tollgate:{acc_1}:days', 'x{}y', 'x{}{y}', '{a}{b}', 'x}{y}', 'é{ü}']) {
    t.equal(keySlot(key), await redis.send('CLUSTER', 'KEYSLOT', key), key)
  }
})

t.test('a cluster of three nodes', { skip: skipWithoutRedis }, async t => {
  const cluster = await startRedisCluster()
  t.teardown(() => cluster.remove())
  const openFresh = async (t: Test, clock: Clock): Promise<Store> => {
    for (const node of cluster.primaries) await node.send('FLUSHALL')
    const store = await openRedisStore(cluster.address, systemClock, clock)
    t.teardown(() => store.close())
    return store
  }
  t.test('fulfills the contracts of the store', async t => {
    await accountStoreContract(t, openFresh)
    await ledgerStoreContract(t, openFresh)
    await usageStoreContract(t, openFresh)
    await useContract(t, openFresh)
    await recordStoreContract(t, openFresh)
  })

  t.test('is found through any node, also one that is the only one named', async t => {
    const [, , last] = cluster.primaries
    const store = await openStore({ kind: 'redis', url: new Secret(`redis://127.0.0.1:${last?.port}`, 'HOST') }, systemClock)
    t.teardown(() => store.close())
    for (const name of names) await store.addAccount(account(name))
    for (const name of names) t.match(await leaseOf(store, name, 1), { counters: { granted: 10 } }, name)
    const counts = await Promise.all(cluster.primaries.map(async node => Number(await node.send('DBSIZE'))))
    t.ok(
      counts.every(count => count > 0),
      `keys of each node: ${counts.join(', ')}`,
    )
  })

  t.test('slots that move to another node while they are used lose no request', async t => {
    const store = await openStore(cluster.address, systemClock)
    t.teardown(() => store.close())
    const [from, to] = cluster.primaries as [(typeof cluster.primaries)[0], (typeof cluster.primaries)[0]] // three
    const [fromId, toId] = [String(await from.send('CLUSTER', 'MYID')), String(await to.send('CLUSTER', 'MYID'))]
    const name = names.find(each => keySlot(`{acc_${each}}`) < 16_384 / 3) ?? ''
    const slot = `${keySlot(`{acc_${name}}`)}`
    await to.send('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId)
    await from.send('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId)
    const keys = (await from.send('CLUSTER', 'GETKEYSINSLOT', slot, '100')) as string[]
    t.ok(keys.length > 0, 'the account has rows there')
    await from.send('MIGRATE', '127.0.0.1', `${to.port}`, '', '0', '5000', 'KEYS', ...keys)
    t.match(await leaseOf(store, name, 2, 10), { counters: { granted: 20 } }, 'the node that has the slot says who gets it')
    for (const node of cluster.primaries) await node.send('CLUSTER', 'SETSLOT', slot, 'NODE', toId)
    t.match(await leaseOf(store, name, 3, 20), { counters: { granted: 30 } }, 'the node that had the slot says who has it')
  })
})

t.test('a primary of a cluster that is killed, and one that hangs, are replaced by their replicas', { skip: skipWithoutRedis }, async t => {
  const cluster = await startRedisCluster({ withReplicas: true, options: ['--appendonly', 'yes'] })
  t.teardown(() => cluster.remove())
  // A change that no replica confirms is refused.
  for (const [i, replica] of cluster.replicas.entries()) await untilReplicated(cluster.primaries[i] ?? replica, replica)
  const store = await openStore(cluster.address, systemClock)
  t.teardown(() => store.close())
  // A busy machine may confirm it later than the store waits for; before the kill it is there.
  const unlessUnconfirmed = (error: Error): void => void t.match(error.message, /no replica has confirmed it/)
  for (const name of names) await store.addAccount(account(name)).catch(unlessUnconfirmed)
  const changes = { count: 0 }
  t.teardown(store.subscribe(() => void (changes.count += 1)))
  const all = () => Promise.all(names.map(name => leaseOf(store, name, 1)))
  await all()

  for (const [i, replica] of cluster.replicas.entries()) await untilReplicated(cluster.primaries[i] ?? replica, replica)
  const [first, second] = cluster.primaries
  await first?.kill()
  await waitUntil(succeeds(all))
  t.match(await store.account('a1'), account('a1'), 'after a kill, the replica has what the primary had')
  second?.pause()
  await waitUntil(succeeds(all))
  t.pass('after a hang, its replica is used')
  second?.resume()
  await waitUntil(succeeds(all))

  const other = await openStore(cluster.address, systemClock)
  t.teardown(() => other.close())
  const before = changes.count
  let added = 0
  // More than one, because nodes that have just found each other again publish to some of them only.
  await waitUntil(async () => {
    await succeeds(() => other.addAccount(account(`later${(added += 1)}`)))()
    return changes.count > before
  })
  t.pass('processes are notified of changes, whichever nodes they are connected to')
})

t.test('a change of accounts and keys is done when a replica has it', { skip: skipWithoutRedis }, async t => {
  const rights = ['--user', 'old', 'on', '>secret', '~tollgate:*', '&tollgate:*', '+@all', '-wait']
  const primary = await startRedisServer('--appendonly', 'yes', ...rights)
  t.teardown(() => primary.remove())
  const store = await openStore(primary.address, systemClock)
  t.teardown(() => store.close())
  t.same(store.warnings, [])
  await store.addAccount(account('a1'))
  for (const id of ['key_1', 'key_2']) await store.addKey(`hash of ${id}`, { id, account: 'acc_a1', hint: 'x', created: 1 })
  t.pass('a Redis without replicas waits for none')

  const replica = await startRedisServer('--replicaof', '127.0.0.1', `${primary.port}`)
  t.teardown(() => replica.remove())
  await waitUntil(async () => String(await primary.send('INFO', 'replication')).includes('state=online'))
  // A replica that follows may need longer than 500 ms for the first time on a loaded machine.
  await waitUntil(succeeds(() => store.revokeKey('key_1', 5)))
  t.match(await store.findKeyById('key_1'), { key: { revoked: 5 } })
  replica.pause()
  const lost = t.rejects(store.revokeKey('key_2', 5), {
    name: 'StoreError',
    message:
      /^redis at 127\.0\.0\.1:\d+ has written the change, but no replica has confirmed it within 500 ms: it is lost if this Redis fails now; /,
  })
  let hasEnded = false
  void lost.then(() => (hasEnded = true))
  t.match(await leaseOf(store, 'a1', 1), { counters: { granted: 10 } })
  t.notOk(hasEnded, 'nothing else waits for replicas')
  await lost
  t.match(await store.findKeyById('key_2'), { key: { revoked: 5 } }, 'it is written')
  await t.rejects(store.revokeKey('key_2', 6), /no replica has confirmed it/, 'also when it is repeated')

  const older = await openStore({ kind: 'redis', url: new Secret(`redis://old:secret@127.0.0.1:${primary.port}`, 'HOST') }, systemClock)
  t.teardown(() => older.close())
  t.match(older.warnings, [/^redis at HOST does not let its user WAIT: .*; give the user `\+wait`$/])
  t.match(await older.changeKey('key_1', { name: 'x' }), { name: 'x' }, 'without the right it waits for no replica')

  replica.resume()
  await waitUntil(succeeds(() => store.revokeKey('key_2', 6)))
  await primary.kill()
  await replica.send('REPLICAOF', 'NO', 'ONE')
  const promoted = await openStore(replica.address, systemClock)
  t.teardown(() => promoted.close())
  for (const id of ['key_1', 'key_2']) t.match(await promoted.findKeyById(id), { key: { revoked: 5 } }, 'revoked keys stay revoked')
})

t.test('a primary that Sentinels replace is left as soon as they name another', { skip: skipWithoutRedis }, async t => {
  // The delay of Redis, so that the other replica is told later.
  const slowly = ['--repl-diskless-sync-delay', '5']
  const { servers, sentinels, addressWith, remove } = await startSentinelDeployment(2, ['--appendonly', 'yes', ...slowly])
  t.teardown(remove)
  const [primary, leader] = [servers[0], sentinels[0]] as [RedisServer, RedisServer] // two replicas, three Sentinels
  const store = await openStore(addressWith(), systemClock)
  t.teardown(() => store.close())
  const watches = async () => String(await leader.send('CLIENT', 'LIST')).includes('sub=2')
  await waitUntil(watches)
  await leader.send('SENTINEL', 'FAILOVER', 'main')
  await waitUntil(async () => !String(await primary.send('CLIENT', 'LIST')).includes('name=tollgate'))
  t.match(String(await leader.send('SENTINEL', 'MASTER', 'main')), /failover_in_progress/, 'while other replicas are still told')
})

t.test('Sentinel', { skip: skipWithoutRedis }, async t => {
  const deployment = await startSentinelDeployment(1, ['--user', 'gate', 'on', '>p@ss', '~*', '&*', '+@all', '--appendonly', 'yes'])
  t.teardown(() => deployment.remove())
  const { servers, sentinels } = deployment
  const [primary, replica] = servers as [RedisServer, RedisServer] // with one replica
  const address = deployment.addressWith('gate:p%40ss@')

  t.test('leads to the primary, and after its failure to the replica that replaces it', async t => {
    const store = await openStore(address, systemClock)
    t.teardown(() => store.close())
    await store.addAccount(account('alice'))
    await untilReplicated(primary, replica)
    await primary.kill()
    await waitUntil(succeeds(() => leaseOf(store, 'alice', 1)))
    t.match(await store.account('alice'), account('alice'))
    t.match(String(await replica.send('ROLE')), /^master/)
  })

  t.test('that is down is passed over', async t => {
    const [down, ...others] = sentinels
    // Those that did not lead the failover learn of it later.
    const primaryOf = async (sentinel: RedisServer) => String(await sentinel.send('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main'))
    for (const other of others) await waitUntil(async () => (await primaryOf(other)).includes(`${replica.port}`))
    await down?.kill()
    const store = await openStore(address, systemClock)
    t.match(await store.account('alice'), account('alice'))
    await store.close()
  })

  t.test('that does not know the primary is an error that says so', async t => {
    const host = `127.0.0.1:${sentinels[1]?.port}`
    await t.rejects(openStore({ kind: 'redis', url: new Secret(`redis+sentinel://${host}/other`, host) }, systemClock), {
      message: `cannot use redis at ${host}: the Sentinel at ${host} knows no primary "other"; name in its address the primary that it monitors`,
    })
  })
})
