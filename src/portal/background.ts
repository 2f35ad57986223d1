import type { Clock, Timer } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { everyMs, startRounds } from '../services/rounds.ts'
import type { BackgroundTask } from '../services/rounds.ts'
import { openOnce } from '../util/async.ts'

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
  let timer: Timer | undefined
  let isStopped = false
  let hasFailed = false
  const whenOpen = openOnce(async (): Promise<Task> => {
    const isLate = isStopped
    try {
      const task = await open()
      if (isLate) await task.stop()
      return task
    } catch (error) {
      if (!hasFailed) log.warn({ event: 'background-failed', err: error }, `${name} could not be started: this is tried again`)
      hasFailed = true
      throw error
    }
  })
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
      await (await whenOpen.opened())?.stop()
    },
  }
}

/** What is recorded at equal intervals. */
interface Recorder {
  readonly intervalMs: number
  record(): Promise<void>
}

interface DeferredRecorder<Recorded extends Recorder> extends Omit<DeferredTask<BackgroundTask>, 'open'> {
  open(): Promise<Recorded>
}

/** openAfterStart() for a recorder: it records from then on. */
export const recordAfterStart = <Recorded extends Recorder>({ open, ...options }: DeferredRecorder<Recorded>) => {
  const { name, clock, log } = options
  const task = openAfterStart({
    ...options,
    async open() {
      const recorder = await open()
      const { intervalMs } = recorder
      const reportFailure = (error: unknown): void => log.error({ err: error }, `${name} could not be recorded because of a bug`)
      const rounds = startRounds({ clock, run: () => recorder.record(), restMs: everyMs(intervalMs), firstMs: intervalMs, reportFailure })
      return { recorder, stop: rounds.stop }
    },
  })
  return { whenOpen: async (): Promise<Recorded> => (await task.whenOpen()).recorder, stop: task.stop }
}
