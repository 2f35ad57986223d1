import type { RefusalKind } from '../../plugin/error-table.ts'
import { isFailure } from '../../plugin/reply.ts'
import { successOutcome } from '../../store/usage-store.ts'
import type { UsageStore } from '../../store/usage-store.ts'
import type { Clock, Timer } from '../clock.ts'
import type { EndedCall, OfferedRequest, RequestLog } from '../request-log.ts'
import { UsageCounters } from './usage-counters.ts'
import type { CountedCall } from './usage-counters.ts'
import { UsageReporter } from './usage-reporter.ts'
import type { UsageReporterOptions } from './usage-reporter.ts'

export type { CountedCall } from './usage-counters.ts'

/** A call that has ended. */
interface RecordedCall extends Omit<EndedCall, 'endedAtMs'> {
  /** As CountedCall has it. */
  readonly day: number | undefined
}

/** A call as it was recorded. */
export interface CallRecord {
  readonly counted: CountedCall
  /** As UsageCounters.count() returns it. */
  readonly period: number | undefined
  readonly logged: OfferedRequest | undefined
}

/** Counts of calls by account and API key, and the log of requests of each account. */
export interface Usage {
  /**
   * Counts at once and in memory, without I/O. Reported to the store within a second, a call after a pause within 0.1 s, and calls of many groups, of
   * more than 200 in a second, within 10 s.
   */
  count(call: CountedCall): void
  /** Counts a call, and offers it to the log of requests. */
  record(call: RecordedCall): CallRecord
  /** Takes a call back from the period that has it, and counts it anew there: its response cannot be delivered, and the caller gets this in its place, for so many credits. */
  recordUndelivered(record: CallRecord, outcome: RefusalKind, credits: number): void
}

export interface UsageService extends Usage {
  start(): Promise<void>
  /** Reports what the store does not know yet. Safe without start(), and twice. */
  stop(): Promise<void>
}

/**
 * Counts the calls of this process. Each call is counted once, however often messages are lost or duplicated; a process
 * that is killed loses what it has not reported. While the store is unavailable, counts wait in memory. When
 * they become too many, the hours of a day are merged; sums by account, key, network, method, outcome and day stay exact.
 */
export const openUsage = (
  store: UsageStore,
  clock: Clock,
  { requestLog, ...options }: UsageReporterOptions & { readonly requestLog?: RequestLog },
): UsageService => {
  let timer: Timer | undefined
  let early: Timer | undefined
  let stopped: Promise<void> | undefined
  let reportedMs = -Infinity
  /** A call after a pause may be the first one, for which somebody waits at the dashboard. */
  const reportEarly = (): void => {
    if (timer !== undefined && stopped === undefined && clock.monotonic() - reportedMs >= reportIntervalMs)
      early = clock.after(afterPauseMs, () => void (counters.size <= maxEarlyCounts && flush()))
  }
  const counters = new UsageCounters(clock, reportEarly)
  const reporter = new UsageReporter(store, clock, counters, options)
  const flush = (): Promise<void> => {
    if (counters.size > 0) reportedMs = clock.monotonic()
    return reporter.flush()
  }

  const stop = async (): Promise<void> => {
    timer?.cancel()
    early?.cancel()
    reporter.end()
    for (let attempts = 0; attempts < maxStopAttempts && !reporter.isEmpty; attempts += 1) await reporter.flush()
    if (!reporter.isEmpty) {
      options.log.warn({ calls: reporter.pendingCalls }, 'store unreachable at shutdown: the usage of the last calls could not be reported')
    }
  }
  return {
    ...createUsage(counters.count, clock, requestLog),
    async start() {
      timer ??= clock.every(reportIntervalMs, () => void flush())
      await flush()
    },
    stop: () => (stopped ??= stop()),
  }
}

/** What is counted of calls goes to `count`. */
export const createUsage = (
  count: (call: CountedCall) => number | undefined,
  clock: Pick<Clock, 'monotonic'>,
  requestLog?: RequestLog,
): Usage => ({
  count: call => void count(call),
  record({ call, reply, method, network, credits, day }) {
    const { account, key } = call.context
    const endedAtMs = clock.monotonic()
    const counted: CountedCall = {
      account: account.id,
      key: key.id,
      network,
      method: method?.name ?? otherMethods,
      outcome: isFailure(reply) ? reply.kind : successOutcome,
      forwarded: reply.source === 'partner',
      day,
      calls: 1,
      credits,
      durationMs: endedAtMs - call.startedAtMs,
    }
    return { counted, period: count(counted), logged: requestLog?.offer({ call, reply, method, network, credits, endedAtMs }) }
  },
  recordUndelivered({ counted, period, logged }, outcome, credits) {
    count({ ...counted, period, calls: -1, credits: -counted.credits })
    count({ ...counted, period, outcome, credits })
    if (logged !== undefined) requestLog?.recordUndelivered(logged, outcome, credits)
  },
})

/** What methods that are not in the table are counted under: callers may invent as many as they like. */
const otherMethods = 'other'

const reportIntervalMs = 1_000
/** Calls that begin together are in one report. */
const afterPauseMs = 100
/** Where many begin together, they take their turns with the others. */
const maxEarlyCounts = 100
/** A lost message must not cost counts. */
const maxStopAttempts = 3
