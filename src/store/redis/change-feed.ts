import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { AccountStore } from '../store.ts'
import { RedisConnection } from './redis-connection.ts'
import { changesChannel } from './redis-layout.ts'

/** Who is told of changes, here and in all other processes. */
export interface ChangeFeed extends Pick<AccountStore, 'subscribe'> {
  /** The name under which this process tells: it need not hear itself. */
  readonly publisherId: string
  /** Tells those who listen in this process. */
  notify(): void
  close(): Promise<void>
}

/** Listens on a connection of its own, from the first listener on. News that were missed in a break are made up for. */
export const openChangeFeed = (address: RedisAddress, clock: Clock): ChangeFeed => {
  const publisherId = randomBytes(8).toString('hex')
  const listeners = new Set<() => void>()
  const notify = () => {
    for (const onChange of listeners) onChange()
  }
  let connection: RedisConnection | undefined

  const onMessage = (publisher: string) => {
    if (publisher !== publisherId) notify()
  }
  const connect = (): RedisConnection => {
    let isFirst = true
    const onReady = () => {
      // Said anew each time, because the first time may have been cut short.
      void subscriber.subscribe(changesChannel, onMessage)
      if (!isFirst) notify()
      isFirst = false
    }
    const subscriber = new RedisConnection(address, clock, { retryInitialConnect: true, onReady })
    // Nothing but close() ends its patience.
    subscriber.open().catch(() => {})
    return subscriber
  }
  return {
    publisherId,
    notify,
    subscribe(changed) {
      connection ??= connect()
      listeners.add(changed)
      return () => {
        listeners.delete(changed)
      }
    },
    close: async () => connection?.close(),
  }
}
