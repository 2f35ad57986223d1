import { isDeepStrictEqual } from 'node:util'
import type { GatewayConfig } from '../config/types.ts'
import type { AccessLog, AccessLogConfig, PreparedAccessLog } from '../services/access-log.ts'
import type { ReloadableAccounts } from '../services/accounts/index.ts'
import { LogFileError } from '../services/line-writer.ts'
import type { RequestLog } from '../services/request-log.ts'
import { reloadGatewayConfig } from './config-changes.ts'
import type { Listeners } from './listeners.ts'
import type { BaseServices } from './open-services.ts'
import type { PreparedReload, Reloadable, ValidConfig } from './reloader.ts'
import { ReloadError } from './running-networks.ts'
import type { PreparedNetworks, RunningNetworks } from './running-networks.ts'
import type { HostServices } from './stage-services.ts'

/** What networks are made with, and what a reload changes. */
interface ReloadedServices extends BaseServices, Omit<HostServices, 'cacheBytes' | keyof BaseServices> {
  readonly accounts: ReloadableAccounts
  readonly requestLog: RequestLog
}

/** The gateway.yaml in force, which a reload replaces. */
export class CurrentConfig implements Reloadable {
  gateway: GatewayConfig
  /** Opened after the first networks. */
  listeners: Pick<Listeners, 'reload'> | undefined
  readonly #services: ReloadedServices
  readonly #running: RunningNetworks

  constructor(gateway: GatewayConfig, services: ReloadedServices, running: RunningNetworks) {
    this.gateway = gateway
    this.#services = services
    this.#running = running
  }

  /** Starts the networks, without calls yet. */
  async prepareNetworks({ gateway, networks }: ValidConfig): Promise<PreparedNetworks> {
    const prepared = await this.#running.prepare(networks, { ...this.#services, cacheBytes: cacheBytesOf(gateway, networks.length) })
    await this.#services.headsSource.ready()
    return prepared
  }

  async prepareReload(read: ValidConfig): Promise<PreparedReload> {
    const next = { ...read, gateway: reloadGatewayConfig(this.gateway, read.gateway) }
    const preparedBase = await this.#prepareBase(next.gateway)
    const prepared = await this.prepareNetworks(next).catch(async (error: unknown) => {
      await preparedBase.abandon()
      throw error
    })
    return {
      abandon: async () => {
        await this.#running.abandon(prepared)
        await preparedBase.abandon()
      },
      commit: () => {
        const { accounts, requestLog } = this.#services
        preparedBase.commit()
        this.gateway = next.gateway
        accounts.setPlans(this.gateway.plans)
        requestLog.configure(this.gateway.requestLog)
        this.#running.commit(prepared, this.#services, this.gateway.drain.timeout)
        this.listeners?.reload(this.gateway, next.networks)
      },
    }
  }

  async #prepareBase({ accessLog, jwt }: GatewayConfig): Promise<PreparedReload> {
    const services = this.#services
    const preparedJwt = await services.jwt.prepare(jwt)
    try {
      const preparedLog = prepareAccessLog(services.accessLog, this.gateway.accessLog, accessLog)
      return {
        abandon: async () => {
          preparedJwt.abandon()
          await preparedLog?.abandon()
        },
        commit: () => {
          preparedLog?.commit()
          preparedJwt.commit()
        },
      }
    } catch (error) {
      preparedJwt.abandon()
      throw error
    }
  }
}

/** Undefined where nothing has changed: what was set over the admin listener stays. */
const prepareAccessLog = (accessLog: AccessLog, before: AccessLogConfig, after: AccessLogConfig): PreparedAccessLog | undefined => {
  if (isDeepStrictEqual(before, after)) return undefined
  try {
    return accessLog.prepare(after)
  } catch (error) {
    throw error instanceof LogFileError ? new ReloadError(`accessLog: ${error.message}`) : error
  }
}

/** The caches of the machine share its memory. */
const cacheBytesOf = ({ memory, workers }: GatewayConfig, networkCount: number): number => Math.floor(memory / networkCount / workers)
