import { loadConfig } from '../config/load.ts'
import { printProblems } from '../config/problem.ts'
import type { Config } from '../config/types.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import type { ValidConfig } from '../core/gateway.ts'
import { dryRunNetworks } from '../core/dry-run.ts'
import { StageStartError } from '../core/network.ts'
import { systemClock } from '../services/clock.ts'
import type { Clock } from '../services/clock.ts'
import { ListenError } from '../server/http-server.ts'
import { StoreError } from '../store/store.ts'
import { WorkerExitError, WorkerSpawnError } from '../cluster/worker-supervisor.ts'
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
  if (config.networks.length === 0) err(`no network is served: ${describeMissingNetworks(config)}`)
  return config.networks.length === 0 ? undefined : { ...config, gateway: config.gateway }
}

const describeMissingNetworks = ({ unserved }: Config): string =>
  unserved.length === 0
    ? 'there is no file in networks/'
    : `set ${unserved.map(({ network, variables }) => `${variables.join(' or ')} for ${network}`).join(', ')}`

/** What is being opened; undefined after one line about what the operator must change. */
export const printStartupErrors = async <T>(opening: Promise<T>, err: Terminal['err']): Promise<T | undefined> => {
  try {
    return await opening
  } catch (error) {
    if (isOperatorError(error)) err(`tollgate: ${error.message}`)
    else if (!(error instanceof WorkerExitError)) throw error // the worker has said it
    return undefined
  }
}

const isOperatorError = (error: unknown): error is Error =>
  [ListenError, StoreError, StageStartError, WorkerSpawnError].some(kind => error instanceof kind)

/**
 * Runs what serves until SIGTERM or SIGINT comes, which resolves `asked`. Signals are heard from the beginning: one that
 * comes while the gateway starts neither gets lost nor leaves anything behind. Another one ends it at once, as kill -9
 * would, but not within a second: npm, timeout and terminals send the same one twice.
 */
export const runUntilSignal = (serve: (stopRequested: Promise<void>) => Promise<number>, clock: Clock = systemClock): Promise<number> => {
  let firstSignalMs: number | undefined
  const asked = new Promise<void>(resolve => {
    const onSignal = () => {
      firstSignalMs ??= clock.monotonic()
      if (clock.monotonic() - firstSignalMs >= 1000) exitImmediately()
      resolve()
    }
    process.on('SIGTERM', onSignal)
    process.on('SIGINT', onSignal)
  })
  return serve(asked)
}

/** Not by process.exit(), which waits for ever when the embedded store is writing; but a local node has to end too. */
const exitImmediately = (): void => {
  process.emit('exit', exitCodes.failed)
  process.kill(process.pid, 'SIGKILL')
}
