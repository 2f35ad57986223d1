import type { StoreAddress } from '../config/types.ts'
import { openOperatorApi } from '../portal/index.ts'
import type { Plans } from '../services/accounts/index.ts'
import { systemClock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { openStore } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'

/** The operator's API of a gateway with workers: the primary serves it, with a connection to the store that its first request opens. */
export const openPrimaryOperatorApi = (storeAddress: StoreAddress, plans: () => Plans, log: Log) => {
  let store: Store | undefined
  const operatorApi = openOperatorApi(async () => {
    store = await openStore(storeAddress, systemClock)
    return { store, storeAddress, plans, clock: systemClock, log }
  })
  return {
    middleware: operatorApi.middleware,
    async close(): Promise<void> {
      await operatorApi.close()
      await store?.close()
    },
  }
}
