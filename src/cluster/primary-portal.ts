import { describeNetworks } from '../core/dry-run.ts'
import type { ValidConfig } from '../core/gateway.ts'
import { version } from '../core/version.ts'
import { openPortal, openOperatorApp } from '../portal/index.ts'
import type { PortalOptions } from '../portal/index.ts'
import type { Listener } from '../server/index.ts'
import { openTlsCertificate } from '../server/tls-certificate.ts'
import { systemClock } from '../services/clock.ts'
import { openStore } from '../store/open-store.ts'
import type { GatewayConfig } from '../config/types.ts'
import type { OperatorAppOptions } from '../portal/operator/operator-app.ts'
import type { Store } from '../store/store.ts'

type PrimaryOperatorOptions = Omit<OperatorAppOptions, 'openStore' | 'storeAddress' | 'url' | 'isTls'>

/** The operator's application of a gateway with workers: the primary serves it, with a connection to the store that is opened when it is needed. */
export const openPrimaryOperatorApp = ({ store: storeAddress, admin: { url, tls } }: GatewayConfig, options: PrimaryOperatorOptions) => {
  let opening: Promise<Store> | undefined
  const openOnce = (): Promise<Store> =>
    (opening ??= openStore(storeAddress, systemClock).catch((error: unknown) => {
      // The next request tries again.
      opening = undefined
      throw error
    }))
  const app = openOperatorApp({ ...options, openStore: openOnce, storeAddress, url, isTls: tls !== undefined })
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

export interface PrimaryPortal extends Listener {
  reload(config: Pick<ValidConfig, 'gateway' | 'networks'>): void
}

/** The portal of a gateway with workers: the primary serves it, with a connection to the store of its own. */
export const openPrimaryPortal = async (
  config: ValidConfig,
  options: Pick<PortalOptions, 'rpcUrl' | 'headsStatus' | 'log' | 'metrics'>,
): Promise<PrimaryPortal | undefined> => {
  const { listen, portal, store: storeAddress, plans, usage } = config.gateway
  if (listen.portal === undefined) return undefined
  const clock = systemClock
  const tls = openTlsCertificate(listen, ['portal'], { clock, log: options.log, metrics: options.metrics })
  const store = await openStore(storeAddress, clock)
  let current: Pick<ValidConfig, 'gateway' | 'networks'> = config
  const describeMethods = () => describeNetworks(current)
  const address = { tls, address: listen.portal, trustedProxies: listen.trustedProxies, storeAddress }
  const services = {
    ...options,
    ...portal,
    ...address,
    networks: config.networks,
    store,
    plans,
    describeMethods,
    usageRetentionMs: usage.retention,
  }
  const listener = await openPortal({ ...services, clock, version }).catch(async (error: unknown) => {
    tls?.stop()
    await store.close()
    throw error
  })
  return {
    url: listener.url,
    reload(next) {
      current = next
      listener.reload({ networks: next.networks, plans: next.gateway.plans })
    },
    async stop() {
      tls?.stop()
      await listener.stop()
      await store.close()
    },
  }
}
