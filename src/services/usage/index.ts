import type { UsageStore } from '../../store/usage-store.ts'
import type { Clock, Timer } from '../clock.ts'
import { UsageCounters } from './usage-counters.ts'
import type { CountedCall } from './usage-counters.ts'
import { UsageReporter } from './usage-reporter.ts'
import type { UsageReporterOptions } from './usage-reporter.ts'

export type { CountedCall } from './usage-counters.ts'

/** Counts of calls by account and API key. */
export interface Usage {
  /** Counts at once and in memory, without I/O; reported to the store within about a second, and 10 s while there are more than 200 counts. */
  count(call: CountedCall): void
}

interface UsageService extends Usage {
  start(): Promise<void>
  /** Reports what the store does not know yet. Safe without start(), and twice. */
  stop(): Promise<void>
}

/**
 * Counts the calls of this process. Each call is counted once, however often messages are lost or duplicated; a process
 * that is killed loses what it has not reported. While the store is unavailable, counts wait in memory. When
 * they become too many, the hours of a day are merged; sums by account, key, network, method, outcome and day stay exact.
 */
export const openUsage = (store: UsageStore, clock: Clock, options: UsageReporterOptions): UsageService => {
  const counters = new UsageCounters(clock)
  const reporter = new UsageReporter(store, clock, counters, options)
  let timer: Timer | undefined
  let stopped: Promise<void> | undefined

  const stop = async (): Promise<void> => {
    timer?.cancel()
    reporter.end()
    for (let attempts = 0; attempts < maxStopAttempts && !reporter.isEmpty; attempts += 1) await reporter.flush()
    if (!reporter.isEmpty) {
      options.log.warn({ calls: reporter.pendingCalls }, 'store unreachable at shutdown: the usage of the last calls could not be reported')
    }
  }
  return {
    count: counters.count,
    async start() {
      timer ??= clock.every(reportIntervalMs, () => void reporter.flush())
      await reporter.flush()
    },
    stop: () => (stopped ??= stop()),
  }
}

const reportIntervalMs = 1_000
/** A lost message must not cost counts. */
const maxStopAttempts = 3
