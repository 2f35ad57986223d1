import type { Secret } from '../plugin/secret.ts'
import type { Plans } from '../services/accounts/effective-plan.ts'
import { RecordedAccounts } from '../services/accounts/recorded-accounts.ts'
import type { NetworkStatus } from '../server/network-status.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { MethodDescription } from '../services/method-table/index.ts'
import type { NetworkRateLimits } from '../services/rate-limit-options.ts'
import type { RequestLogConfig } from '../services/request-log.ts'
import type { LazyStore } from '../store/lazy-store.ts'
import type { AccountRow } from '../store/store.ts'
import type { OutageHistory } from './alerts/outage-days.ts'
import { ApiError } from './api-errors.ts'
import type { MaybePromise } from '../util/async.ts'
import type { Brand } from './brand.ts'
import type { NodeIncidents } from './operator/node-incidents.ts'
import type { OidcProvider } from './people/oidc-provider.ts'
import { authorOf } from './people/people.ts'
import type { Person } from './people/people.ts'
import type { UsageQueries } from './queries/usage-queries.ts'
import type { PortalLimits } from './portal-limits.ts'
import type { SendMail } from './mail/mailer.ts'
import type { SignUpOptions } from './people/sign-up.ts'

export type PortalMethod = MethodDescription

export type PortalParam = PortalMethod['params'][number]

/** A member of an object among the parameters. */
export type PortalMember = NonNullable<PortalParam['members']>[number]

/** A network, as developers see it. */
export interface PortalNetwork {
  readonly name: string
  readonly chainId: number
  /** Base URLs, without the path. */
  readonly http: string
  readonly ws: string
  readonly methods: readonly PortalMethod[]
  /** Null where no plugin limits rates: those of plans and keys have no effect there. */
  readonly rateLimits: NetworkRateLimits | null
}

/** What the routes of the portal work with. */
export interface PortalServices {
  readonly store: LazyStore
  readonly queries: UsageQueries
  /** Makes the first query faster: their process starts. */
  startQueries(): void
  readonly plans: Plans
  /** Where accounts pay, with {account} for the id of one. */
  readonly billingUrl?: string
  readonly networks: readonly PortalNetwork[]
  /** How the networks and their nodes are, as operators are told too. Nodes are not asked for it. */
  networkStatuses(): MaybePromise<readonly NetworkStatus[]>
  /** What nodes and networks had in the last day. */
  incidents(): Promise<Pick<NodeIncidents, 'recordStates' | 'list'>>
  /** The outages of networks of the last 90 days. */
  readonly outageHistory: OutageHistory
  readonly limits: PortalLimits
  /** Undefined without a mail server. */
  readonly sendMail: SendMail | undefined
  /** Undefined where accounts are made by the operator alone. */
  readonly signUp?: SignUpOptions
  /** Where people sign in; undefined where they use links alone. */
  readonly oidc: OidcProvider | undefined
  /** Private addresses and subnets that webhooks may have. */
  readonly webhooks?: { readonly allow: readonly string[] }
  /** Of the gateway. */
  readonly requestLog: RequestLogConfig
  /** How long days of usage are kept. */
  readonly usageRetentionMs: number
  /** Signs webhooks, where the configuration has it. */
  readonly portalSecret: Secret | undefined
  readonly clock: Clock
  readonly log: Log
  /** Whether everybody may see the state of the networks. */
  readonly publicStatus?: boolean
  /** What is shown in place of Tollgate. */
  readonly brand?: Brand | undefined
  /** Of the gateway. */
  readonly version: string
  /** The URL that browsers use, without a slash at the end. */
  readonly url: string
}

/** The account of the person who asks. */
export const accountOf = async ({ store }: Pick<PortalServices, 'store'>, id: string): Promise<AccountRow> => {
  const account = await store.account(id)
  if (account === undefined) throw new ApiError(401, 'not-signed-in', 'the account no longer exists')
  return account
}

/** The accounts of the store, with what this person changes in the log of changes. */
export const accountsAs = ({ store, clock }: Pick<PortalServices, 'store' | 'clock'>, person: Person): RecordedAccounts =>
  new RecordedAccounts(store, clock, authorOf(person))
