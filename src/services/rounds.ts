import type { Clock, Timer } from './clock.ts'

/** What runs beside the calls, until it is stopped. */
export interface BackgroundTask {
  stop(): Promise<void>
}

interface RoundOptions {
  readonly clock: Clock
  run(): Promise<void>
  /** Until the first round; none unless given. */
  readonly firstMs?: number
  /** From the end of a round to the next one; `everyMs()` gives rounds that begin at equal intervals. */
  restMs(roundMs: number): number
  /** Called for the first of several failures. */
  reportFailure(error: unknown): void
}

/** Rounds begin at this interval; one that takes longer is followed at once. */
export const everyMs =
  (intervalMs: number) =>
  (roundMs: number): number =>
    Math.max(0, intervalMs - roundMs)

/** Rounds, one after the other, until they are stopped. stop() waits for a round that runs. */
export const startRounds = ({ clock, run, firstMs = 0, restMs, reportFailure }: RoundOptions): BackgroundTask => {
  let isStopped = false
  let hasFailed = false
  let timer: Timer
  let running: Promise<void> | undefined

  const runOnce = async (): Promise<void> => {
    const startedAt = clock.monotonic()
    try {
      await run()
      hasFailed = false
    } catch (error) {
      if (!hasFailed && !isStopped) reportFailure(error)
      hasFailed = true
    }
    running = undefined
    if (!isStopped) schedule(restMs(clock.monotonic() - startedAt))
  }
  const schedule = (delayMs: number): void => {
    timer = clock.after(delayMs, () => void (running = runOnce()))
  }
  schedule(firstMs)
  return {
    async stop() {
      isStopped = true
      timer.cancel()
      await running
    },
  }
}
