import { hostname, userInfo } from 'node:os'
import type { GatewayConfig } from '../config/types.ts'
import { readGatewayConfig } from '../config/gateway-config.ts'
import { printProblems } from '../config/problem.ts'
import { systemClock } from '../services/clock.ts'
import { RecordedAccounts } from '../services/accounts/recorded-accounts.ts'
import { lazyStore } from '../store/lazy-store.ts'
import type { LazyStore } from '../store/lazy-store.ts'
import { openStore } from '../store/open-store.ts'
import { openOnce } from '../util/async.ts'
import { exitCodes } from './command.ts'
import type { Terminal } from './command.ts'

/** What commands on accounts use. Gateways may use the same store at the same time. */
export interface StoreContext {
  readonly store: LazyStore
  /** The accounts of the store, with the log of changes. */
  readonly accounts: RecordedAccounts
  readonly config: GatewayConfig
}

/**
 * Lets `work` use the store that the configuration in `dir` names, which is opened where it is used, and resolves with the exit code. Rejects as
 * Command.run().
 */
export const withStoreContext = async (
  dir: string,
  terminal: Terminal,
  work: (context: StoreContext) => Promise<void>,
): Promise<number> => {
  const { config, problems } = readGatewayConfig(dir, terminal.env)
  printProblems(problems, terminal)
  if (config === undefined) return exitCodes.config
  const open = openOnce(() => openStore(config.store, systemClock))
  const store = lazyStore(open)
  const accounts = new RecordedAccounts(store, systemClock, { kind: 'command', name: readUserName() })
  await work({ store, accounts, config }).finally(async () => (await open.opened())?.close())
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
