import { systemClock } from '../services/clock.ts'
import type { Clock } from '../services/clock.ts'
import { CommandError, exitCodes } from './command.ts'
import type { Terminal } from './command.ts'

/** npm, timeout and terminals send the same signal twice. */
const duplicateSignalWindowMs = 1000

/** SIGHUP: the terminal was closed. */
export type StopSignal = 'SIGTERM' | 'SIGINT' | 'SIGHUP'

/**
 * Runs `serve` until one of the signals, which resolves `stopRequested`. Handlers are installed first: a signal during the
 * start is not lost and leaves nothing behind. Another signal ends the process immediately, as kill -9 would, unless it
 * comes within `duplicateSignalWindowMs` of the first. Once `serve` has ended, the handlers are removed, unless a signal came: then the process
 * is about to exit, and its duplicate must not change the exit code.
 */
export const runUntilSignal = async (
  signals: readonly StopSignal[],
  serve: (stopRequested: Promise<StopSignal>) => Promise<number>,
  clock: Clock = systemClock,
): Promise<number> => {
  let firstSignalMs: number | undefined
  let removeHandlers = (): void => undefined
  const stopRequested = new Promise<StopSignal>(resolve => {
    const onSignal = (signal: StopSignal) => {
      firstSignalMs ??= clock.monotonic()
      if (clock.monotonic() - firstSignalMs >= duplicateSignalWindowMs) exitImmediately()
      resolve(signal)
    }
    for (const signal of signals) process.on(signal, onSignal)
    removeHandlers = () => {
      for (const signal of signals) process.off(signal, onSignal)
    }
  })
  try {
    return await serve(stopRequested)
  } finally {
    if (firstSignalMs === undefined) removeHandlers()
  }
}

/** process.exit() would wait forever while LMDB is writing; the event ends a local node that `tollgate dev` has started. */
export const exitImmediately = (): void => {
  process.emit('exit', exitCodes.failed)
  process.kill(process.pid, 'SIGKILL')
}

/**
 * Runs `work`, whose signal is aborted by Ctrl-C and the like with a CommandError that says so and `hint`: it takes back what it has begun, where it
 * cannot be gone on with.
 */
export const runUntilAborted = (
  { err }: Pick<Terminal, 'err'>,
  hint: string,
  work: (signal: AbortSignal) => Promise<number>,
): Promise<number> =>
  runUntilSignal(['SIGTERM', 'SIGINT', 'SIGHUP'], stopRequested => {
    const controller = new AbortController()
    void stopRequested.then(signal => {
      err(`${signal} received: what has begun is ended, or taken back; another signal ends the command at once`)
      controller.abort(new CommandError(`stopped by ${signal}: ${hint}`))
    })
    return work(controller.signal)
  })
