import type { Clock, Timer } from '../services/clock.ts'
import type { Log } from '../services/log.ts'

/** What runs beside the portal's app, until it is stopped. */
export interface BackgroundTask {
  stop(): Promise<void>
}

/** The start has a budget of its own. */
const loadDelayMs = 1_000

interface DeferredTask<Task extends BackgroundTask> {
  /** In words, for the log. */
  readonly name: string
  readonly clock: Clock
  readonly log: Log
  open(): Promise<Task>
}

/** Opens a task after the start, or when it is first needed; again, where its code cannot be loaded, as without a file descriptor. */
export const openAfterStart = <Task extends BackgroundTask>({ name, clock, log, open }: DeferredTask<Task>) => {
  let opening: Promise<Task> | undefined
  let timer: Timer | undefined
  let isStopped = false
  let hasFailed = false
  const tryOpen = async (): Promise<Task> => {
    try {
      const task = await open()
      if (isStopped) await task.stop()
      return task
    } catch (error) {
      opening = undefined
      if (!hasFailed) log.warn({ event: 'background-failed', err: error }, `${name} could not be started: this is tried again`)
      hasFailed = true
      throw error
    }
  }
  const whenOpen = (): Promise<Task> => (opening ??= tryOpen())
  const openLater = (): void => {
    if (!isStopped) timer = clock.after(loadDelayMs, () => void whenOpen().catch(openLater))
  }
  openLater()
  return {
    whenOpen,
    async stop(): Promise<void> {
      isStopped = true
      timer?.cancel()
      // A task that could not be opened has nothing to stop.
      await (await opening?.catch(() => undefined))?.stop()
    },
  }
}

interface RoundOptions {
  readonly clock: Clock
  run(): Promise<void>
  /** From the end of a round to the next one. */
  restMs(roundMs: number): number
  /** Called for the first of several failures. */
  reportFailure(error: unknown): void
}

/** Rounds from now on, one after the other, until they are stopped. */
export const startRounds = ({ clock, run, restMs, reportFailure }: RoundOptions): BackgroundTask => {
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
  schedule(0)
  return {
    async stop() {
      isStopped = true
      timer.cancel()
      await running
    },
  }
}
