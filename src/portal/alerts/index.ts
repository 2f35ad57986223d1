import type { Clock } from '../../services/clock.ts'
import type { AlertOptions, AlertSchedule } from './alert-rounds.ts'
import type { Deliverer } from './deliverer.ts'

export interface Alerts extends Pick<Deliverer, 'post'> {
  stop(): Promise<void>
}

/** After the start, which has a budget of its own. */
const loadDelayMs = 1_000

/** Tells accounts which share of their credits is used, until it is stopped. The code is loaded after the start. */
export const openAlerts = (clock: Clock, readOptions: () => AlertOptions): Alerts => {
  let loading: Promise<AlertSchedule> | undefined
  let isStopped = false
  const load = (): Promise<AlertSchedule> =>
    (loading ??= import('./alert-rounds.ts').then(({ startAlertSchedule }) => {
      const schedule = startAlertSchedule(readOptions())
      if (isStopped) void schedule.stop()
      return schedule
    }))
  const timer = clock.after(loadDelayMs, () => void load())
  return {
    post: async (...message) => (await load()).post(...message),
    async stop() {
      isStopped = true
      timer.cancel()
      await (await loading)?.stop()
    },
  }
}
