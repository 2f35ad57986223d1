import type { Timer } from '../../services/clock.ts'
import { AlertRounds, roundIntervalMs } from './alert-rounds.ts'
import type { AlertOptions } from './alert-rounds.ts'
import type { Deliverer } from './deliverer.ts'

export interface AlertSchedule extends Pick<Deliverer, 'post'> {
  stop(): Promise<void>
}

/**
 * Rounds take a tenth of one CPU at most, unless one takes longer than 7 s. With 10,000 accounts on LMDB a round takes 0.3 s of CPU. The
 * first one adds up and stores the days of the month for each account, which takes 1.1 s for 1,000 accounts.
 */
const restFactor = 9
const maxRestMs = 60_000

/** Rounds from now on, one after the other, until it is stopped. */
export const startAlertSchedule = (options: AlertOptions): AlertSchedule => {
  const { clock, log } = options
  const rounds = new AlertRounds(options)
  let isStopped = false
  let timer: Timer
  let running: Promise<void> | undefined
  let hasFailed = false

  const run = async (): Promise<void> => {
    const startedAt = clock.monotonic()
    try {
      await rounds.run()
      hasFailed = false
    } catch (error) {
      if (!hasFailed) log.warn({ event: 'alerts-unchecked', err: error }, 'alerts could not be checked; they are tried again')
      hasFailed = true
    }
    running = undefined
    if (!isStopped) schedule(Math.min(maxRestMs, Math.max(roundIntervalMs, restFactor * (clock.monotonic() - startedAt))))
  }
  const schedule = (delayMs: number): void => {
    timer = clock.after(delayMs, () => void (running = run()))
  }
  schedule(0)
  return {
    post: (...message) => rounds.deliverer.post(...message),
    async stop() {
      isStopped = true
      timer.cancel()
      await Promise.all([rounds.stop(), running])
    },
  }
}
