import { constants, setPriority } from 'node:os'
import { parseStoreAddress } from '../../config/store-address.ts'
import { systemClock } from '../../services/clock.ts'
import { lazyStore } from '../../store/lazy-store.ts'
import { openStore } from '../../store/open-store.ts'
import { StoreError } from '../../store/store.ts'
import type { Store } from '../../store/store.ts'
import { openOnce } from '../../util/async.ts'
import { Channel, transmitTo } from '../../util/channel.ts'
import type { QueryRequest, QueryReply, ToQueries } from './query-process.ts'
import { createUsageQueries } from './usage-queries.ts'

// The process of openQueryProcess(): reads the store beside the gateway, which sends what it wants to know.

let storeText = ''
let isEnding = false
const running = new Set<Promise<void>>()

/** A store that cannot be opened may be there for the next query. */
const openQueriedStore = openOnce(async () => {
  const address = parseStoreAddress(storeText, '')
  if (address === undefined) throw new Error('the first message has the address of the store')
  return openStore(address, systemClock)
})

const queriedStore = async (): Promise<Store> => {
  if (isEnding) throw new StoreError('the gateway stops')
  return openQueriedStore()
}

const queries = createUsageQueries(
  Object.assign(lazyStore(queriedStore), {
    async *allUsageCounts(hours: Parameters<Store['allUsageCounts']>[0]) {
      for await (const count of (await queriedStore()).allUsageCounts(hours)) {
        if (isEnding) throw new StoreError('the gateway stops')
        yield count
      }
    },
  }),
  systemClock,
)

const runQuery = async ({ name, options }: QueryRequest): Promise<QueryReply> => {
  try {
    // The options were checked as those of this query, by the type of openQueryProcess().
    const run = queries[name] as (options: unknown) => Promise<unknown>
    return { result: await run(options) }
  } catch (error) {
    return error instanceof StoreError ? { storeError: error.message } : { bug: String(error instanceof Error ? error.stack : error) }
  }
}

const end = async (): Promise<void> => {
  isEnding = true
  await Promise.all(running)
  await (await openQueriedStore.opened())?.close()
  process.exit()
}

const channel = new Channel<Record<never, never>, ToQueries>({ clock: systemClock, rules: {}, transmit: transmitTo(process) })
channel.handle({
  store: address => void (storeText = address),
  query(query, reply) {
    const answered = runQuery(query)
      .then(reply)
      .finally(() => running.delete(answered))
    running.add(answered)
  },
  end: () => void end(),
})
process.on('message', channel.receive.bind(channel))
// The gateway has died.
process.on('disconnect', () => void end())
// A terminal sends it to the whole group: the gateway ends this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined)
// Calls come first.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
