import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { singleFlight } from '../util/async.ts'
import type { UsageWebhook, UsageWebhookOptions } from './usage-webhook.ts'

const intervalMs = 30_000

/** After the start, which has a budget of its own. */
const loadDelayMs = 1_000

/** Sends the usage of days that are over until it is stopped. The code is loaded after the start. */
export const openUsageWebhook = (clock: Clock, log: Log, readOptions: () => Promise<UsageWebhookOptions>) => {
  let webhook: UsageWebhook | undefined
  let running: Promise<void> | undefined
  let isStopped = false
  let hasFailed = false
  const load = async (): Promise<UsageWebhook> => {
    const loaded = await import('./usage-webhook.ts')
    return (webhook ??= new loaded.UsageWebhook(await readOptions()))
  }
  const run = singleFlight(async () => {
    try {
      const loaded = webhook ?? (await load())
      if (isStopped) return
      await loaded.run()
      hasFailed = false
    } catch (error) {
      if (!hasFailed && !isStopped)
        log.warn({ event: 'usage-unread', err: error }, 'usage for the webhook could not be read; it is tried again')
      hasFailed = true
    }
  })
  const start = () => void (running = run())
  const timers = [clock.after(loadDelayMs, start), clock.every(intervalMs, start)]
  return {
    async stop(): Promise<void> {
      isStopped = true
      for (const timer of timers) timer.cancel()
      webhook?.stop()
      await running
    },
  }
}
