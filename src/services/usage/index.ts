import { randomBytes } from 'node:crypto'
import type { UsageStore } from '../../store/store.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { UsageReporter } from './usage-reporter.ts'
import { UsageCounters } from './usage-counters.ts'
import type { CountedCall } from './usage-counters.ts'

export type { CountedCall } from './usage-counters.ts'

/** Counts of calls, for whoever pays for them. */
export interface Usage {
  /** Counts at once and in memory (no I/O); the store hears of it within a second or so. */
  count(call: CountedCall): void
}

export interface UsageService extends Usage {
  start(): Promise<void>
  /** Tells the store what it has not heard yet. Safe without start(), and twice. */
  stop(): Promise<void>
}

export interface UsageOptions {
  readonly log: Log
  /** How long the store keeps counts, in ms. */
  readonly retentionMs: number
  /** How many counts (of a group in an hour) may wait for a store that is away; 100,000 unless given, about 20 MB. */
  readonly maxPendingCounts?: number
  /** A name that no other start of any process has; 64 random bits unless given. */
  readonly newProcessName?: () => string
}

/**
 * Counts the calls of this process. Each is counted once, however often messages are lost or doubled; a process that is
 * killed takes along what it counted since the last report. While the store is away everything waits here: sums by
 * account, key, network, method, outcome and day stay exact, and hours of a day are put together when memory gets short.
 */
export const openUsage = (
  store: UsageStore,
  clock: Clock,
  { log, retentionMs, maxPendingCounts = 100_000, newProcessName = () => randomBytes(8).toString('hex') }: UsageOptions,
): UsageService => {
  const counters = new UsageCounters(clock)
  const reporter = new UsageReporter(store, clock, { process: newProcessName(), retentionMs, maxPendingCounts, counters, log })
  let timer: { cancel(): void } | undefined
  let stopped: Promise<void> | undefined

  const stop = async (): Promise<void> => {
    timer?.cancel()
    for (let attempts = 0; attempts < maxStopAttempts && !reporter.isEmpty; attempts += 1) await reporter.flush()
    if (!reporter.isEmpty) log.warn({ calls: reporter.pendingCalls }, 'the store was away: the last calls are missing from its counts')
  }
  return {
    count: call => counters.record(call),
    async start() {
      timer ??= clock.every(reportIntervalMs, () => void reporter.flush())
      await reporter.flush()
    },
    stop: () => (stopped ??= stop()),
  }
}

const reportIntervalMs = 1_000
/** A message that is lost must not cost counts. */
const maxStopAttempts = 3
