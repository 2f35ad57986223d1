import { systemClock } from '../services/clock.ts'
import type { Clock } from '../services/clock.ts'
import { exitCodes } from './command.ts'

/** npm, timeout and terminals send the same signal twice. */
const duplicateSignalWindowMs = 1000

/**
 * Runs `serve` until SIGTERM or SIGINT, which resolves `stopRequested`. Handlers are installed first: a signal during the
 * start is not lost and leaves nothing behind. Another signal ends the process immediately, as kill -9 would, unless it
 * comes within `duplicateSignalWindowMs` of the first.
 */
export const runUntilSignal = (serve: (stopRequested: Promise<void>) => Promise<number>, clock: Clock = systemClock): Promise<number> => {
  let firstSignalMs: number | undefined
  const stopRequested = new Promise<void>(resolve => {
    const onSignal = () => {
      firstSignalMs ??= clock.monotonic()
      if (clock.monotonic() - firstSignalMs >= duplicateSignalWindowMs) exitImmediately()
      resolve()
    }
    process.on('SIGTERM', onSignal)
    process.on('SIGINT', onSignal)
  })
  return serve(stopRequested)
}

/** process.exit() would wait forever while LMDB is writing; the event ends a local node that `tollgate dev` has started. */
const exitImmediately = (): void => {
  process.emit('exit', exitCodes.failed)
  process.kill(process.pid, 'SIGKILL')
}
