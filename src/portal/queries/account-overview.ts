import { setImmediate } from 'node:timers/promises'
import { alertBuckets, listAlertSettings } from '../alerts/alert-settings.ts'
import { listDeliveries } from '../alerts/delivery-records.ts'
import type { AccountDelivery } from '../alerts/delivery-records.ts'
import { accountState } from '../../services/accounts/account-state.ts'
import type { Clock } from '../../services/clock.ts'
import type { AccountRow, Store } from '../../store/store.ts'
import { singleFlight } from '../../util/async.ts'
import { hourMs } from '../../util/dates.ts'

export type OverviewStore = Pick<Store, 'accounts' | 'accountUse' | 'dayBalance' | 'records'>

export interface AccountOverviewOptions {
  /** Daily credits by plan. */
  readonly planCredits: Readonly<Record<string, number>>
  readonly forwardingPlans: readonly string[]
  /** Accounts of each list, at most. */
  readonly limit: number
}

/** An account with the credits of today that its counted calls have cost. */
export interface UsedAccount {
  readonly row: AccountRow
  readonly used: number
}

export interface AccountOverview {
  readonly accountCount: number
  /** Active accounts whose calls a partner may answer in an outage, by their plan. */
  readonly forwardedCount: number
  /** Those that have used three quarters of the credits of the day, the greatest share first. */
  readonly nearLimit: readonly (UsedAccount & { readonly limit: number })[]
  readonly nearLimitCount: number
  /** Those whose calls of the last whole hour differ most from those of the hour before. */
  readonly movers: readonly { readonly row: AccountRow; readonly before: number; readonly calls: number }[]
  /** The last whole hour, since 1970. */
  readonly hour: number
  /** Alerts that were sent, the newest first. */
  readonly alerts: readonly (AccountDelivery & { readonly accountName: string })[]
}

/** From here on, an account is near its limit: the first threshold of alerts. */
const nearShare = 0.75

/** Requests to a store over the network that wait together; LMDB answers nothing else meanwhile. */
const accountsPerRead = 500
const deliveriesPerRead = 64

/** Of 10,000 accounts it takes 0.2 s of CPU to read all use. */
const freshMs = 30_000
const maxAgeMs = 120_000

interface Use {
  readonly used: number
  readonly calls: readonly number[]
}

interface AllUse {
  /** All accounts when their use was read. */
  readonly rows: readonly AccountRow[]
  /** By the id of the account. */
  readonly byAccount: ReadonlyMap<string, Use>
  readonly hour: number
  /** On the monotonic clock. */
  readonly readAt: number
}

const noUse: Use = { used: 0, calls: [] }

/** What all accounts have used, and which need the operator. */
export class AccountUseCache {
  readonly #store: OverviewStore
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>
  #known: AllUse | undefined

  constructor(store: OverviewStore, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#store = store
    this.#clock = clock
  }

  async overview({ planCredits, forwardingPlans, limit: most }: AccountOverviewOptions): Promise<AccountOverview> {
    // To read 10,000 accounts once more takes 50 ms of CPU.
    const { rows, byAccount, hour } = await this.#useOfAll()
    const accounts = rows.map(row => ({ row, ...(byAccount.get(row.id) ?? noUse) }))
    // Of the others, no call is served anyway.
    const active = accounts.filter(({ row }) => accountState(row) === 'active')
    const near = active
      .map(({ row, used }) => ({ row, used, limit: row.credits ?? planCredits[row.plan] ?? 0 }))
      .filter(({ used, limit }) => limit > 0 && used >= nearShare * limit)
      .sort((a, b) => b.used / b.limit - a.used / a.limit || (a.row.name < b.row.name ? -1 : 1))
    const changeOf = ({ calls, before }: { readonly calls: number; readonly before: number }): number => Math.abs(calls - before)
    const movers = accounts
      .map(({ row, calls: [before = 0, calls = 0] }) => ({ row, before, calls }))
      .filter(each => changeOf(each) > 0)
      .sort((a, b) => changeOf(b) - changeOf(a) || (a.row.name < b.row.name ? -1 : 1))
    return {
      accountCount: accounts.length,
      forwardedCount: active.filter(({ row }) => forwardingPlans.includes(row.plan)).length,
      nearLimit: near.slice(0, most),
      nearLimitCount: near.length,
      movers: movers.slice(0, most),
      hour,
      alerts: await this.#alerts(rows, most),
    }
  }

  /** The most used first. */
  async byUse(): Promise<readonly UsedAccount[]> {
    const { byAccount } = await this.#useOfAll()
    // All accounts as they are now, with their use as it was read last.
    const accounts = (await this.#store.accounts()).map(row => ({ row, ...(byAccount.get(row.id) ?? noUse) }))
    return accounts.sort((a, b) => b.used - a.used || (a.row.name < b.row.name ? -1 : 1))
  }

  async of(rows: readonly AccountRow[]): Promise<readonly UsedAccount[]> {
    const { today: day } = await this.#store.dayBalance('')
    const byAccount = await this.#readUse(rows, { day, hours: [] })
    return rows.map(row => ({ row, used: byAccount.get(row.id)?.used ?? 0 }))
  }

  /** What is some seconds old is answered with at once, while it is read again. */
  async #useOfAll(): Promise<AllUse> {
    const ageMs = this.#clock.monotonic() - (this.#known?.readAt ?? -Infinity)
    if (this.#known !== undefined && ageMs < freshMs) return this.#known
    const reading = this.#refresh()
    if (this.#known === undefined || ageMs >= maxAgeMs) return reading
    // The next query meets the failure.
    reading.catch(() => undefined)
    return this.#known
  }

  readonly #refresh = singleFlight(async (): Promise<AllUse> => {
    const readAt = this.#clock.monotonic()
    const { today: day } = await this.#store.dayBalance('')
    const hour = Math.floor(this.#clock.now() / hourMs) - 1
    const rows = await this.#store.accounts()
    const byAccount = await this.#readUse(rows, { day, hours: [hour - 1, hour] })
    this.#known = { rows, byAccount, hour, readAt }
    return this.#known
  })

  async #readUse(
    rows: readonly AccountRow[],
    of: { readonly day: number; readonly hours: readonly number[] },
  ): Promise<ReadonlyMap<string, Use>> {
    const byAccount = new Map<string, Use>()
    for (let from = 0; from < rows.length; from += accountsPerRead) {
      const ids = rows.slice(from, from + accountsPerRead).map(({ id }) => id)
      for (const { account, credits, calls } of await this.#store.accountUse(ids, of)) byAccount.set(account, { used: credits, calls })
      await setImmediate()
    }
    return byAccount
  }

  /** Only accounts that have settings have alerts. */
  async #alerts(rows: readonly AccountRow[], most: number): Promise<AccountOverview['alerts']> {
    const buckets = await Promise.all(alertBuckets.map(bucket => listAlertSettings(this.#store, bucket)))
    const accounts = buckets.flat().map(({ account }) => account)
    const found: AccountDelivery[] = []
    for (let from = 0; from < accounts.length; from += deliveriesPerRead) {
      const part = accounts.slice(from, from + deliveriesPerRead)
      found.push(...(await Promise.all(part.map(account => listDeliveries(this.#store, account)))).flat())
      await setImmediate()
    }
    const nameOf = (id: string): string => rows.find(row => row.id === id)?.name ?? ''
    return found
      .sort((a, b) => b.created - a.created)
      .slice(0, most)
      .map(delivery => ({ ...delivery, accountName: nameOf(delivery.account) }))
  }
}
