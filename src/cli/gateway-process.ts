import { inspect } from 'node:util'
import { loadConfig, missingNetworksProblem } from '../config/load.ts'
import { printProblems } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import type { FileWatch } from '../config/config-files.ts'
import type { ReadConfig } from '../core/reloader.ts'
import type { LoadablePlugin } from '../plugin/deferred-plugin.ts'
import { PluginFault, isBackgroundBug, isBugOf } from '../plugin/plugin-fault.ts'
import type { ExternalPlugin } from '../plugin/plugin-fault.ts'
import type { ValidConfig } from '../core/gateway.ts'
import { dryRunNetworks } from '../core/dry-run.ts'
import { StageStartError } from '../core/network.ts'
import { ListenError } from '../server/http-server.ts'
import { StoreError } from '../store/store.ts'
import { WorkerExitError, WorkerSpawnError } from '../cluster/worker-process.ts'
import { LogFileError } from '../services/line-writer.ts'
import type { Log } from '../services/log.ts'
import type { Terminal } from './command.ts'
import { exitImmediately } from './stop-signals.ts'

/** The configuration in `dir`, or its problems. */
const readValidConfig = async (
  dir: string,
  plugins: readonly LoadablePlugin[],
  env: Terminal['env'],
): Promise<ValidConfig | readonly Problem[]> => {
  const config = await loadConfig(dir, plugins, env)
  const problems = config.problems.length > 0 ? config.problems : await dryRunNetworks(config)
  if (problems.length > 0 || config.gateway === undefined) return problems
  return config.networks.length === 0 ? [missingNetworksProblem(dir, config)] : { ...config, gateway: config.gateway }
}

interface ConfigReaderOptions {
  readonly env: Terminal['env']
  /** Told of reloads: what they have read is no change any more. */
  readonly fileWatch: Pick<FileWatch, 'acknowledge'> | undefined
  /** Gets the plugins of each configuration that is to be applied. */
  addPlugins(config: Pick<ValidConfig, 'networks'>): void
}

/** Reads the configuration in `dir` anew, for a reload or to compare. */
export const createConfigReader =
  (dir: string, plugins: readonly LoadablePlugin[], { env, fileWatch, addPlugins }: ConfigReaderOptions): ReadConfig =>
  async purpose => {
    if (purpose === 'reload') fileWatch?.acknowledge()
    const read = await readValidConfig(dir, plugins, env)
    if (purpose === 'reload' && 'networks' in read) addPlugins(read)
    return read
  }

/** The configuration in `dir`; undefined after its problems have been printed. */
export const loadValidConfig = async (
  dir: string,
  plugins: readonly LoadablePlugin[],
  terminal: Pick<Terminal, 'env' | 'err' | 'styleErr'>,
): Promise<ValidConfig | undefined> => {
  const config = await readValidConfig(dir, plugins, terminal.env)
  if ('networks' in config) return config
  printProblems(config, terminal)
  return undefined
}

/** Resolves with what was opened; undefined after one line that tells the operator what to change. */
export const printStartupErrors = async <T>(opening: Promise<T>, err: Terminal['err']): Promise<T | undefined> => {
  try {
    return await opening
  } catch (error) {
    if (isOperatorError(error)) err(`tollgate: ${error.message}`)
    else if (!(error instanceof WorkerExitError)) throw error // the worker has printed it
    return undefined
  }
}

/**
 * Logs what external plugins throw outside of calls, in a timer or in a promise that nobody awaits: the gateway serves on. A
 * rejected promise leaves nothing half done, so each is logged, also where its stack does not name the plugin, as with fetch().
 * Any other error ends the process: nothing is known of its state. Returns how to add the plugins of a configuration; their code
 * stays loaded when a later configuration does not have them.
 */
export const surviveBackgroundBugs = (log: Log): ((config: Pick<ValidConfig, 'networks'>) => void) => {
  const external = new Map<string, ExternalPlugin>()
  const logBug = (bug: unknown): void => {
    const found = [...external.values()].find(({ file }) => isBugOf(bug, file))
    const fault = bug instanceof PluginFault ? bug : found && new PluginFault(found, bug)
    const { network, plugin, location, stack = inspect(bug) } = fault ?? {}
    log.error({ network, plugin, location, stack }, 'plugin threw outside of a call')
  }
  const handleException = (bug: unknown): void => {
    if ([...external.values()].some(({ file }) => isBackgroundBug(bug, file))) return logBug(bug)
    log.error({ event: 'crashed', stack: inspect(bug) }, 'uncaught error: the process ends')
    exitImmediately()
  }
  process.on('uncaughtException', handleException)
  process.on('unhandledRejection', bug => (external.size > 0 ? logBug(bug) : handleException(bug)))
  return ({ networks }) => {
    for (const { name: network, steps } of networks) {
      for (const { name, file } of steps) if (file !== undefined) external.set(`${network} ${name}`, { network, name, file })
    }
  }
}

/** Log lines about what is valid, but may not be meant. */
export const logConfigNotices = ({ unserved, warnings }: Pick<ValidConfig, 'unserved' | 'warnings'>, log: Log): void => {
  for (const { network, variables } of unserved) {
    log.warn({ event: 'unserved', network, variables }, `network ${network} is not served: set ${variables.join(' or ')}`)
  }
  for (const { file, line, column, message } of warnings) log.warn({ event: 'config-warning', file, line, column }, message)
}

const isOperatorError = (error: unknown): error is Error =>
  [ListenError, LogFileError, StoreError, StageStartError, WorkerSpawnError].some(kind => error instanceof kind)
