import type { OpenMetrics } from '../services/metrics.ts'
import type { FromPrimary, FromWorker } from './messages.ts'

/**
 * A worker's side: says that it serves, answers for its metrics, and resolves when it shall stop, because the primary
 * says so or is gone. Signals are the primary's affair: a terminal sends them to all processes at once.
 */
export const serveCrew = (metrics: OpenMetrics): Promise<void> =>
  new Promise(resolve => {
    process.on('SIGINT', ignore).on('SIGTERM', ignore)
    // The primary may be gone already: starting takes a while.
    if (!process.connected) return resolve()
    process.once('disconnect', () => resolve())
    process.on('message', (message: FromPrimary) => {
      if (message.kind === 'stop') resolve()
      else tell({ kind: 'metrics', id: message.id, metrics: metrics.families() })
    })
    tell({ kind: 'ready' })
  })

const ignore = (): void => undefined

const tell = (message: FromWorker): void => {
  process.send?.(message)
}
