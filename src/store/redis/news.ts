import { randomBytes } from 'node:crypto'
import type { RedisAddress } from '../../config/types.ts'
import type { Clock } from '../../services/clock.ts'
import type { AccountStore } from '../store.ts'
import { Connection } from './connection.ts'
import { news } from './layout.ts'

/** Who is told of changes, here and in all other processes. */
export interface News extends Pick<AccountStore, 'watch'> {
  /** The name under which this process tells: it need not hear itself. */
  readonly teller: string
  /** Tells those who listen in this process. */
  tell(): void
  close(): Promise<void>
}

/** Listens on a connection of its own, from the first listener on. News that were missed in a break are made up for. */
export const openNews = (address: RedisAddress, clock: Clock): News => {
  const teller = randomBytes(8).toString('hex')
  const listeners = new Set<() => void>()
  const tell = () => {
    for (const changed of listeners) changed()
  }
  let connection: Connection | undefined

  const hear = (from: string) => {
    if (from !== teller) tell()
  }
  const listen = (): Connection => {
    let isFirst = true
    const onReady = () => {
      // Said anew each time, because the first time may have been cut short.
      void listening.subscribe(news, hear)
      if (!isFirst) tell()
      isFirst = false
    }
    const listening = new Connection(address, clock, { isPatient: true, onReady })
    // Nothing but close() ends its patience.
    listening.open().catch(() => {})
    return listening
  }
  return {
    teller,
    tell,
    watch(changed) {
      connection ??= listen()
      listeners.add(changed)
      return () => {
        listeners.delete(changed)
      }
    },
    close: async () => connection?.close(),
  }
}
