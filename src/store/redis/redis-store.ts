import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { Engine } from '../engine.ts'
import { openEngineStore } from '../engine-store.ts'
import { noContents, readContents } from '../store-contents.ts'
import { StoreError } from '../store.ts'
import type { Store, StoreContents } from '../store.ts'
import { RedisClient } from './redis-client.ts'
import { openRedisEngine, scanTable } from './redis-engine.ts'
import type { TestTime } from './redis-engine.ts'
import { replyOf } from './redis-errors.ts'
import { layoutVersion, redisKeys, rightsChannel } from './redis-layout.ts'
import { readInfos } from './redis-limits.ts'
import { publishNothing } from './redis-scripts.ts'

/**
 * The store for many machines: a Redis 5 or later, or a Valkey. The day is that of Redis's own clock; tests replace the
 * clock by `testTime`.
 */
export const openRedis = async (address: RedisAddress, clock: Clock, testTime?: TestTime): Promise<Engine> => {
  const redis = new RedisClient(address, clock)
  await redis.open()
  let warnings: readonly string[]
  try {
    await checkRights(redis)
    await checkVersion(redis, address)
    await checkEvictionPolicy(redis, address)
    warnings = await warningsOf(redis, address)
  } catch (error) {
    await redis.close()
    throw error
  }
  return openRedisEngine(redis, { address, clock, testTime, warnings })
}

export const openRedisStore = async (address: RedisAddress, clock: Clock, testTime?: TestTime): Promise<Store> =>
  openEngineStore(await openRedis(address, clock, testTime), testTime ?? clock)

/** A script that fails in the middle leaves what it has written: an account, say, of which the command says that it was not added. */
const checkRights = (redis: RedisClient): Promise<unknown> => redis.runScript(publishNothing, [], [rightsChannel])

const checkVersion = async (redis: RedisClient, address: RedisAddress): Promise<void> => {
  const refusal = await redis.sendCommand('SETNX', redisKeys.version, String(layoutVersion)).then(() => undefined, takesNoWritesNow)
  const found = await redis.sendCommand('GET', redisKeys.version)
  if (found === String(layoutVersion)) return
  if (refusal !== undefined) throw refusal
  throw new StoreError(
    `the store in redis at ${address.url} has version ${String(found)}, and this Tollgate reads version ${layoutVersion}: ` +
      'run the Tollgate that wrote it, or name another database',
  )
}

/** Returns the error of a Redis that can be read, and will take writes again; throws others, as that of a replica. */
const takesNoWritesNow = (error: unknown): unknown => {
  if (/^(OOM|NOREPLICAS|MISCONF) /.test(replyOf(error))) return error
  throw error
}

/** Without writing anything. Nothing when Redis cannot be read: it may be unreachable from this machine. */
export const inspectRedisStore = async (address: RedisAddress, clock: Clock): Promise<StoreContents> => {
  const redis = new RedisClient(address, clock)
  try {
    await redis.open()
    const source = { scan: (tag: string, table: string) => scanTable(redis, tag, table) }
    return await readContents(source, await warningsOf(redis, address))
  } catch {
    return noContents
  } finally {
    await redis.close()
  }
}

/** Credits whose lease Redis evicts would be served twice. */
const checkEvictionPolicy = async (redis: RedisClient, address: RedisAddress): Promise<void> => {
  for (const info of await readInfos(redis, 'memory')) {
    const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'noeviction'
    if (policy === 'noeviction' || /^maxmemory:0\r?$/m.test(info)) continue
    throw new StoreError(
      `redis at ${address.url} would drop balances and keys when its memory is full: ` +
        `set its maxmemory-policy to noeviction (it is ${policy})`,
    )
  }
}

const warningsOf = async (redis: RedisClient, { url }: RedisAddress): Promise<readonly string[]> => {
  const some = async (section: string, line: RegExp) => (await readInfos(redis, section)).some(info => line.test(info))
  const warnings: string[] = []
  if (await some('persistence', /^aof_enabled:0\r?$/m)) {
    warnings.push(
      `redis at ${url} has \`appendonly no\`: a restart loses accounts, keys and balances since its last snapshot; set \`appendonly yes\``,
    )
  }
  if (await some('memory', /^maxmemory_policy:(?!noeviction)/m)) {
    warnings.push(`redis at ${url} drops balances and keys as soon as it has a maxmemory: set its maxmemory-policy to noeviction`)
  }
  if (!(await redis.mayWait())) {
    warnings.push(
      `redis at ${url} does not let its user WAIT: a key that was just revoked may be valid after a failover; give the user \`+wait\``,
    )
  }
  return warnings
}
