import type { Operation } from '../portal/operations/operation.ts'
import type { Command, CommandName } from './command.ts'

/** All commands. Each is loaded when it is called: the gateway takes half a second to load, and most commands need little of it. */
export const commandLoaders: Readonly<Record<CommandName, () => Promise<Command>>> = {
  dev: async () => (await import('./dev.ts')).createDevCommand(await loadBuiltInPlugins()),
  start: async () => (await import('./start.ts')).createStartCommand(await loadBuiltInPlugins()),
  check: async () =>
    (await import('./check.ts')).createCheckCommand(await loadBuiltInPlugins(), (await import('../core/dry-run.ts')).dryRunNetworks),
  show: async () => (await import('./show.ts')).createShowCommand(await loadBuiltInPlugins()),
  explain: async () =>
    (await import('./explain.ts')).createExplainCommand(await loadBuiltInPlugins(), (await import('../core/dry-run.ts')).explainCall),
  test: async () => (await import('./test.ts')).createTestCommand(await loadBuiltInPlugins()),
  plugins: async () => (await import('./plugins.ts')).createPluginsCommand(await loadBuiltInPlugins()),
  schema: async () => (await import('./schema.ts')).createSchemaCommand(await loadBuiltInPlugins()),
  init: async () => (await import('./init.ts')).initCommand,
  networks: async () => (await import('./networks.ts')).networksCommand,
  health: async () => (await import('./health.ts')).healthCommand,
  accounts: async () =>
    createOperationCommand(
      'accounts',
      (await import('../portal/operations/account-operations.ts')).accountOperations,
      (await import('../portal/operations/link-operations.ts')).linkOperations,
    ),
  keys: async () => createOperationCommand('keys', (await import('../portal/operations/key-operations.ts')).keyOperations),
  alerts: async () => createOperationCommand('alerts', (await import('../portal/operations/alert-operations.ts')).alertOperations),
  changes: async () => createOperationCommand('changes', (await import('../portal/operations/change-operations.ts')).changeOperations),
  usage: async () => (await import('./usage.ts')).usageCommand,
  audit: async () => (await import('./audit.ts')).auditCommand,
  store: async () => (await import('./store.ts')).storeCommand,
  top: async () => (await import('./top.ts')).topCommand,
}

const createOperationCommand = async (name: CommandName, ...operations: readonly (readonly Operation[])[]): Promise<Command> =>
  (await import('./operations.ts')).createOperationCommand(name, operations.flat())

/** Undefined for a name that no command has. */
export const findCommandLoader = (name: string): (() => Promise<Command>) | undefined =>
  Object.hasOwn(commandLoaders, name) ? commandLoaders[name as CommandName] : undefined // it is one of the names

export const loadBuiltInPlugins = async () => (await import('../../plugins/index.ts')).plugins
