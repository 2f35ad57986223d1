import { setTimeout as sleep } from 'node:timers/promises'
import { Secret } from '../../../src/plugin/secret.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { openRedisStore } from '../../../src/store/redis/redis-store.ts'
import { TestLog } from '../../support/fakes.ts'
import { startDistantServer } from '../../support/distance.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import type { RedisServer } from '../../support/redis-server.ts'
import t from '../../support/tap.ts'
import { accountWith } from '../../services/ledger/ledger-test-cluster.ts'
import { waitUntil } from '../../support/wait-until.ts'

const cost = 80
const callsPerDay = 40
const callsBefore = 2
/** Of each gateway, in what Redis loses. */
const callsLost = 8

/** A process of a gateway on a connection of its own, which is cut and healed. */
const startGateway = async (redis: RedisServer, name: string) => {
  const distance = await startDistantServer(redis.port, 0)
  const url = `redis://127.0.0.1:${distance.port}`
  const store = await openRedisStore({ kind: 'redis', url: new Secret(url, name) }, systemClock)
  const ledger = openLedger(store, systemClock, { log: new TestLog(), process: name })
  await ledger.start()
  const gateway = {
    distance,
    store,
    served: 0,
    /** True where the call was served. */
    async call(account: string): Promise<boolean> {
      const { kind } = await ledger.charge(accountWith(cost * callsPerDay, account), cost)
      if (kind === 'charged') gateway.served += 1
      return kind === 'charged'
    },
    async callUntilRefused(account: string): Promise<void> {
      while (await gateway.call(account));
    },
    async remove() {
      await ledger.stop()
      await store.close()
      await distance.remove()
    },
  }
  return gateway
}

type Gateway = Awaited<ReturnType<typeof startGateway>>

const permutations = <T>(items: readonly T[]): readonly (readonly T[])[] =>
  items.length < 2 ? [items] : items.flatMap((item, i) => permutations(items.filter((_, j) => j !== i)).map(rest => [item, ...rest]))

t.test('a Redis that comes back with older data', { skip: skipWithoutRedis }, async t => {
  const setUp = async (names: readonly string[]) => {
    const redis = await startRedisServer()
    t.teardown(() => redis.remove())
    const gateways: Gateway[] = []
    for (const name of names) gateways.push(await startGateway(redis, name))
    return { redis, gateways }
  }
  /** Loses what `work` does. The gateways are cut off then. */
  const losePower = async (redis: RedisServer, gateways: readonly Gateway[], work: () => Promise<unknown>) => {
    await redis.send('SAVE')
    await work()
    for (const { distance } of gateways) distance.cut()
    await redis.kill()
    await redis.restart()
  }
  const servedBy = (gateways: readonly Gateway[]) => gateways.reduce((sum, { served }) => sum + served, 0)
  const callTimes = async (gateway: Gateway, account: string, count: number) => {
    for (let i = 0; i < count; i += 1) if (!(await gateway.call(account))) throw new Error('a call was refused')
  }

  t.test('grants no credits twice, whichever gateway is connected first, and grants all that are left', async t => {
    const { redis, gateways } = await setUp(['a', 'b', 'c'])
    for (const [run, order] of permutations(gateways).entries()) {
      const account = `acc_${run}`
      const before = servedBy(gateways)
      for (const gateway of gateways) await callTimes(gateway, account, callsBefore)
      await losePower(redis, gateways, () => Promise.all(gateways.map(gateway => callTimes(gateway, account, callsLost))))
      for (const { distance, callUntilRefused } of order) {
        distance.heal()
        await callUntilRefused(account)
      }
      await waitUntil(async () => {
        await Promise.all(gateways.map(gateway => gateway.callUntilRefused(account)))
        return servedBy(gateways) - before >= callsPerDay
      })
      t.equal(servedBy(gateways) - before, callsPerDay, order.map(gateway => gateways.indexOf(gateway)).join(' '))
    }
    await Promise.all(gateways.map(gateway => gateway.remove()))
  })

  t.test('waits for a process that has joined in the writes that were lost, and not for longer than one may be silent', async t => {
    const { redis, gateways } = await setUp(['a'])
    const [first] = gateways as [Gateway]
    await callTimes(first, 'acc_1', callsBefore)
    await losePower(redis, gateways, async () => {
      gateways.push(await startGateway(redis, 'joined'))
      await callTimes(gateways[1]!, 'acc_1', callsPerDay / 2)
      // Heartbeats of the first.
      await sleep(1_500)
    })
    const startMs = performance.now()
    first.distance.heal()
    await waitUntil(async () => {
      await first.callUntilRefused('acc_1')
      return servedBy(gateways) > callsBefore + callsPerDay / 2 + callsLost
    })
    const waitedMs = performance.now() - startMs
    t.ok(waitedMs > 4_000 && waitedMs < 9_000, `${waitedMs} ms`)
    for (const gateway of gateways) gateway.distance.heal()
    await Promise.all(gateways.map(gateway => gateway.remove()))
  })

  t.test('a gateway alone grants at once', async t => {
    const { redis, gateways } = await setUp(['a'])
    const [alone] = gateways as [Gateway]
    await losePower(redis, gateways, () => callTimes(alone, 'acc_1', callsLost))
    alone.distance.heal()
    const isConnected = async () => (await alone.store.dayTotals('acc_1')).used === callsLost * cost
    await waitUntil(() => isConnected().catch(() => false))
    const startMs = performance.now()
    await alone.callUntilRefused('acc_1')
    t.equal(alone.served, callsPerDay)
    t.ok(performance.now() - startMs < 1_000)
    await alone.remove()
  })
})
