import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { Clock, Timer } from '../../services/clock.ts'
import { singleFlight } from '../../util/async.ts'
import { StoreRemovedError } from '../store.ts'
import { RedisConnection } from './redis-connection.ts'
import { outOfSyncError } from './redis-errors.ts'
import { redisKeys } from './redis-layout.ts'

const checkIntervalMs = 1_000
const idBytes = 8

/** The connection of a store. */
export interface StoreConnection {
  readonly redis: RedisConnection
  /** From now on only the data that Redis has now are those of the store; while it has no account, those with its first account. */
  identify(): Promise<void>
  close(): Promise<void>
}

/**
 * Commands fail while Redis does not have the data of the store that was opened: it has restarted without them, or an empty replica was
 * promoted. Such a Redis would say that every key is unknown, and would grant credits again. Each new connection is checked before its
 * first command, and once a second. A store without accounts has nothing to lose.
 */
export const openStoreConnection = async (address: RedisAddress, clock: Clock): Promise<StoreConnection> => {
  let id: string | undefined
  let [isChecked, isReplaced] = [false, false]
  let timer: Timer | undefined
  const check = singleFlight(async (): Promise<void> => {
    if (id === undefined) id = await identifyAccounts(redis)
    else isReplaced = (await readId(redis)) !== id
    isChecked = true
  })
  const onReady = (): void => {
    isChecked = false
  }
  const beforeCommand = (): Promise<void> | undefined => {
    if (id !== undefined && !isChecked) return check().then(assertPresent)
    assertPresent()
    return undefined
  }
  const assertPresent = (): void => {
    if (!isReplaced) return
    throw new StoreRemovedError(
      `redis at ${address.url} has lost the data of this store, or has others: restore them, or restart the gateways to use what it has`,
    )
  }
  const redis: RedisConnection = new RedisConnection(address, clock, { onReady, beforeCommand })
  await redis.open()
  return {
    redis,
    async identify() {
      await check()
      // A Redis that cannot be asked fails the commands, too.
      timer = clock.every(checkIntervalMs, () => void check().catch(() => undefined))
    },
    async close() {
      timer?.cancel()
      await redis.close()
    },
  }
}

/** Undefined while there is no account. */
const identifyAccounts = async (redis: RedisConnection): Promise<string | undefined> => {
  if ((await redis.sendUnguarded('EXISTS', redisKeys.accounts)) !== 1) return undefined
  await redis.sendUnguarded('SETNX', redisKeys.id, randomBytes(idBytes).toString('hex'))
  return readId(redis)
}

const readId = async (redis: RedisConnection): Promise<string | undefined> => {
  const id = (await redis.sendUnguarded('GET', redisKeys.id)) ?? undefined
  // With the reply to another command, the store would count as lost until the gateway is restarted.
  if (id !== undefined && !/^[0-9a-f]{16}$/.test(String(id))) throw outOfSyncError()
  return id as string | undefined
}
