import { inspect } from 'node:util'
import { describeMissingNetworks, loadConfig } from '../config/load.ts'
import { printProblems } from '../config/problem.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import { PluginFault, isBackgroundBug, isBugOf } from '../plugin/plugin-fault.ts'
import type { ValidConfig } from '../core/gateway.ts'
import { dryRunNetworks } from '../core/dry-run.ts'
import { StageStartError } from '../core/network.ts'
import { ListenError } from '../server/http-server.ts'
import { StoreError } from '../store/store.ts'
import { WorkerExitError, WorkerSpawnError } from '../cluster/worker-pool.ts'
import { systemClock } from '../services/clock.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { exitCodes } from './command.ts'
import type { Terminal } from './command.ts'

/** The configuration in `dir`; undefined after its problems have been printed. */
export const loadValidConfig = async (
  dir: string,
  plugins: readonly AnyPlugin[],
  { env, err }: Pick<Terminal, 'env' | 'err'>,
): Promise<ValidConfig | undefined> => {
  const config = await loadConfig(dir, plugins, env)
  const problems = config.problems.length > 0 ? config.problems : await dryRunNetworks(config)
  printProblems(problems, err)
  if (problems.length > 0 || config.gateway === undefined) return undefined
  if (config.networks.length === 0) err(describeMissingNetworks(config))
  return config.networks.length === 0 ? undefined : { ...config, gateway: config.gateway }
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
 * Any other error ends the process: nothing is known of its state.
 */
export const surviveBackgroundBugs = ({ networks }: Pick<ValidConfig, 'networks'>, log: Log): void => {
  const external = networks.flatMap(({ name: network, steps }) =>
    steps.flatMap(({ name, file }) => (file ? [{ network, name, file }] : [])),
  )
  const logBug = (bug: unknown): void => {
    const found = external.find(({ file }) => isBugOf(bug, file))
    const fault = found && new PluginFault(found.name, found.file, bug)
    const stack = fault?.stack ?? inspect(bug)
    log.error({ network: found?.network, plugin: fault?.plugin, location: fault?.location, stack }, 'plugin threw outside of a call')
  }
  const handleException = (bug: unknown): void => {
    if (external.some(({ file }) => isBackgroundBug(bug, file))) return logBug(bug)
    log.error({ event: 'crashed', stack: inspect(bug) }, 'uncaught error: the process ends')
    exitImmediately()
  }
  process.on('uncaughtException', handleException)
  if (external.length > 0) process.on('unhandledRejection', logBug)
}

const isOperatorError = (error: unknown): error is Error =>
  [ListenError, StoreError, StageStartError, WorkerSpawnError].some(kind => error instanceof kind)

/** npm, timeout and terminals send the same signal twice. */
const duplicateSignalWindowMs = 1000

/** SIGHUP: the terminal was closed. */
export type StopSignal = 'SIGTERM' | 'SIGINT' | 'SIGHUP'

/**
 * Runs `serve` until one of the signals, which resolves `stopRequested`. Handlers are installed first: a signal during the
 * start is not lost and leaves nothing behind. Another signal ends the process immediately, as kill -9 would, unless it
 * comes within `duplicateSignalWindowMs` of the first.
 */
export const runUntilSignal = (
  signals: readonly StopSignal[],
  serve: (stopRequested: Promise<StopSignal>) => Promise<number>,
  clock: Clock = systemClock,
): Promise<number> => {
  let firstSignalMs: number | undefined
  const stopRequested = new Promise<StopSignal>(resolve => {
    const onSignal = (signal: StopSignal) => {
      firstSignalMs ??= clock.monotonic()
      if (clock.monotonic() - firstSignalMs >= duplicateSignalWindowMs) exitImmediately()
      resolve(signal)
    }
    for (const signal of signals) process.on(signal, onSignal)
  })
  return serve(stopRequested)
}

/** process.exit() would wait forever while LMDB is writing; the event ends a local node that `tollgate dev` has started. */
const exitImmediately = (): void => {
  process.emit('exit', exitCodes.failed)
  process.kill(process.pid, 'SIGKILL')
}
