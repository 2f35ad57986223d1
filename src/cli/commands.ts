import type { Operation } from '../portal/operations/operation.ts'
import { holdYoungGeneration } from '../runtime/gc-hints.ts'
import { inlineMore } from '../runtime/inlining.ts'
import { loadBuiltInPlugins } from './built-in-plugins.ts'
import type { Command, CommandName } from './command.ts'

const nodeCommands = async (): Promise<readonly Operation[]> => {
  const [{ nodeOperations }, { incidentOperations }] = await Promise.all([
    import('../portal/operations/node-operations.ts'),
    import('../portal/operations/incident-operations.ts'),
  ])
  return [...nodeOperations, ...incidentOperations]
}

/** All commands. Each is loaded when it is called: the gateway takes half a second to load, and most commands need little of it. */
export const commandLoaders: Readonly<Record<CommandName, () => Promise<Command>>> = {
  dev: async () => (await import('./dev.ts')).createDevCommand(await loadBuiltInPlugins()),
  start: async () => {
    holdYoungGeneration() // also while modules are loaded
    inlineMore() // before a call is optimized
    return (await import('./start.ts')).createStartCommand(await loadBuiltInPlugins())
  },
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
  nodes: async () =>
    createOperationCommand('nodes', await nodeCommands(), {
      'nodes list': 'each node with its state, lag and calls in flight',
      'nodes drain base-mainnet own': 'before maintenance: no new calls, those in flight finish',
      'nodes undrain base-mainnet own': 'sends calls to it again',
      'nodes acknowledge base-mainnet --note OPS-41': 'other operators see that you look after its problems',
      'nodes incidents --network base-mainnet': 'what kept calls from its nodes in the last day, and when',
    }),
  evidence: async () =>
    createOperationCommand('evidence', (await import('../portal/operations/evidence-operations.ts')).evidenceOperations, {
      'evidence list --network base-mainnet': 'which nodes were wrong, and about what',
      'evidence show ID': 'what the node was sent, its answer, and the header that it does not fit',
    }),
  'log-level': async () =>
    createOperationCommand('log-level', (await import('../portal/operations/log-level-operations.ts')).logLevelOperations, {
      'log-level': 'as it is now',
      'log-level set --level debug': 'of all processes, without a restart',
    }),
  health: async () => (await import('./health.ts')).healthCommand,
  accounts: async () => (await import('./accounts.ts')).accountsCommand,
  people: async () =>
    createOperationCommand('people', (await import('../portal/operations/people-operations.ts')).peopleOperations, {
      'people list alice': 'with their ids',
      'people set usr_x2Kd --role owner': 'makes a person an owner',
    }),
  keys: async () =>
    createOperationCommand('keys', (await import('../portal/operations/key-operations.ts')).keyOperations, {
      'keys add alice --networks base-mainnet --credits 10000': 'the key is printed once',
      'keys rotate key_4f1c --overlap 1d': 'a new key; the old one works for a day',
    }),
  alerts: async () => (await import('./alerts.ts')).alertsCommand,
  changes: async () =>
    createOperationCommand('changes', (await import('../portal/operations/change-operations.ts')).changeOperations, {
      'changes --account alice': 'who changed what of an account, this month',
      'changes --month 2026-01 --csv': 'of a month, for a spreadsheet',
    }),
  usage: async () => (await import('./usage.ts')).usageCommand,
  errors: async () =>
    createOperationCommand('errors', (await import('../portal/operations/usage-operations.ts')).errorOperations, {
      'errors --hours 1': 'what fails on which network, and whose fault it is',
      'errors --account alice --hours 168': 'of one account, in a week',
    }),
  requests: async () =>
    createOperationCommand('requests', (await import('../portal/operations/request-operations.ts')).requestOperations, {
      'requests show 5f2b9c0de1a34c77a0b1c2d3': 'whose request it was, and why it failed',
      'requests show trace/7 --json': 'of an id that the caller has sent as X-Request-Id',
    }),
  audit: async () => (await import('./audit.ts')).auditCommand,
  store: async () => (await import('./store.ts')).storeCommand,
  plan: async () => (await import('./plan.ts')).planCommand,
  reload: async () => (await import('./reload.ts')).reloadCommand,
  completion: async () =>
    (await import('./completion.ts')).createCompletionCommand(() => Promise.all(Object.values(commandLoaders).map(load => load()))),
  top: async () => (await import('./top.ts')).topCommand,
}

const createOperationCommand = async (
  name: CommandName,
  operations: readonly Operation[],
  examples: Command['examples'],
): Promise<Command> => (await import('./operations.ts')).createOperationCommand(name, operations, examples)

/** Undefined for a name that no command has. */
export const findCommandLoader = (name: string): (() => Promise<Command>) | undefined =>
  Object.hasOwn(commandLoaders, name) ? commandLoaders[name as CommandName] : undefined // it is one of the names
