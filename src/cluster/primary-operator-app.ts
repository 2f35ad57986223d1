import type { GatewayConfig } from '../config/types.ts'
import { openOperatorApp } from '../portal/index.ts'
import type { OperatorAppOptions } from '../portal/operator/operator-app.ts'
import { systemClock } from '../services/clock.ts'
import { openStore } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'

type PrimaryOptions = Omit<OperatorAppOptions, 'openStore' | 'storeAddress' | 'url'>

/** The operator's application of a gateway with workers: the primary serves it, with a connection to the store that is opened when it is needed. */
export const openPrimaryOperatorApp = ({ store: storeAddress, admin: { url } }: GatewayConfig, options: PrimaryOptions) => {
  let opening: Promise<Store> | undefined
  const openOnce = (): Promise<Store> =>
    (opening ??= openStore(storeAddress, systemClock).catch((error: unknown) => {
      // The next request tries again.
      opening = undefined
      throw error
    }))
  const app = openOperatorApp({ ...options, openStore: openOnce, storeAddress, url })
  return {
    serve: app.serve,
    async close(): Promise<void> {
      await app.close()
      await opening?.then(
        store => store.close(),
        () => undefined,
      )
    },
  }
}
