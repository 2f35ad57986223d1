import { loadConfig } from '../config/load.ts'
import { printProblems } from '../config/problem.ts'
import type { Config } from '../config/types.ts'
import type { AnyPlugin } from '../plugin.ts'
import type { GoodConfig } from '../gateway.ts'
import { tryNetworks } from '../inert.ts'
import { StartFault } from '../network.ts'
import { systemClock } from '../services/clock.ts'
import type { Clock } from '../services/clock.ts'
import { ListenFault } from '../server/listen.ts'
import { StoreFault } from '../store/store.ts'
import { CrewFault, SpawnFault } from '../workers/shift.ts'
import { exit } from './command.ts'
import type { Terminal } from './command.ts'

/** The configuration in `dir`; undefined after its problems have been printed. */
export const loadGood = async (
  dir: string,
  plugins: readonly AnyPlugin[],
  { env, err }: Pick<Terminal, 'env' | 'err'>,
): Promise<GoodConfig | undefined> => {
  const config = await loadConfig(dir, plugins, env)
  const problems = config.problems.length > 0 ? config.problems : await tryNetworks(config)
  printProblems(problems, err)
  if (problems.length > 0 || config.gateway === undefined) return undefined
  if (config.networks.length === 0) err(`no network is served: ${missingOf(config)}`)
  return config.networks.length === 0 ? undefined : { ...config, gateway: config.gateway }
}

const missingOf = ({ unserved }: Config): string =>
  unserved.length === 0
    ? 'there is no file in networks/'
    : `set ${unserved.map(({ network, variables }) => `${variables.join(' or ')} for ${network}`).join(', ')}`

/** What is being opened; undefined after one line about what the operator must change. */
export const explainFaults = async <T>(opening: Promise<T>, err: Terminal['err']): Promise<T | undefined> => {
  try {
    return await opening
  } catch (fault) {
    if (isForOperator(fault)) err(`tollgate: ${fault.message}`)
    else if (!(fault instanceof CrewFault)) throw fault // the worker has said it
    return undefined
  }
}

const isForOperator = (fault: unknown): fault is Error =>
  [ListenFault, StoreFault, StartFault, SpawnFault].some(kind => fault instanceof kind)

/**
 * Runs what serves until SIGTERM or SIGINT comes, which resolves `asked`. Signals are heard from the beginning: one that
 * comes while the gateway starts neither gets lost nor leaves anything behind. Another one ends it at once, as kill -9
 * would, but not within a second: npm, timeout and terminals send the same one twice.
 */
export const untilSignal = (serve: (asked: Promise<void>) => Promise<number>, clock: Clock = systemClock): Promise<number> => {
  let since: number | undefined
  const asked = new Promise<void>(resolve => {
    const hear = () => {
      since ??= clock.monotonic()
      if (clock.monotonic() - since >= 1000) endAtOnce()
      resolve()
    }
    process.on('SIGTERM', hear)
    process.on('SIGINT', hear)
  })
  return serve(asked)
}

/** Not by process.exit(), which waits for ever when the embedded store is writing; but a local node has to end too. */
const endAtOnce = (): void => {
  process.emit('exit', exit.failed)
  process.kill(process.pid, 'SIGKILL')
}
