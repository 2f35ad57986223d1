import { hostname, userInfo } from 'node:os'
import type { GatewayConfig } from '../config/types.ts'
import { readGatewayConfig } from '../config/gateway-config.ts'
import { printProblems } from '../config/problem.ts'
import { schemeOf, urlOf } from '../server/http-server.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { systemClock } from '../services/clock.ts'
import type { Plans } from '../services/accounts/index.ts'
import { RecordedAccounts } from '../services/accounts/recorded-accounts.ts'
import { openStore } from '../store/open-store.ts'
import type { AccountRow, Store } from '../store/store.ts'
import { CommandError, exitCodes } from './command.ts'
import type { Terminal } from './command.ts'
import { formatHint } from './args.ts'

/** What commands on accounts use. Gateways may use the same store at the same time. */
export interface StoreContext {
  readonly store: Store
  /** The accounts of the store, with the log of changes. */
  readonly accounts: RecordedAccounts
  readonly plans: Plans
  /** The URL of the dashboard, where the configuration has one. */
  readonly portalUrl: string | undefined
  /** As the configuration has it. */
  readonly portal: GatewayConfig['portal']
  /** Whether gateways with this configuration have the listener of the dashboard, and send alerts. */
  readonly hasPortal: boolean
  /** How long counts of calls are stored. */
  readonly usageRetentionMs: number
}

/** Opens the store that the configuration in `dir` names, lets `work` use it, and resolves with the exit code. Rejects as Command.run(). */
export const withStoreContext = async (
  dir: string,
  { env, err }: Terminal,
  work: (context: StoreContext) => Promise<void>,
): Promise<number> => {
  const { config, problems } = readGatewayConfig(dir, env)
  printProblems(problems, err)
  if (config === undefined) return exitCodes.config
  const store = await openStore(config.store, systemClock)
  const accounts = new RecordedAccounts(store, systemClock, { kind: 'command', name: readUserName() })
  const { plans, portal, usage, listen } = config
  const hasPortal = listen.portal !== undefined
  const context = { store, accounts, plans, portal, hasPortal, portalUrl: portalUrlOf(config), usageRetentionMs: usage.retention }
  await work(context).finally(() => store.close())
  return exitCodes.ok
}

const readUserName = (): string => {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A container may run as a user without a name.
    return `${process.getuid?.() ?? 'unknown'}@${hostname()}`
  }
}

/** As browsers reach it. A free port is known to the running gateway alone. */
const portalUrlOf = ({ listen, portal }: GatewayConfig): string | undefined => {
  if (portal.url !== undefined || listen.portal === undefined || listen.portal.port === 0) return portal.url
  return urlOf(listen.portal.host, listen.portal.port, schemeOf(listen, 'portal'))
}

/** The account with this name or id. */
export const getAccount = async (store: Store, nameOrId: string): Promise<AccountRow> => {
  const account = await store.account(nameOrId)
  if (account !== undefined) return account
  const names = (await store.accounts()).map(({ name }) => name)
  throw new CommandError(
    `unknown account "${nameOrId}"${formatHint(didYouMean(nameOrId, names) ?? '`tollgate accounts list` shows the names')}`,
  )
}
