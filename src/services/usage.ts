import { randomBytes } from 'node:crypto'
import type { UsageStore } from '../store/store.ts'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import { Outbox } from './usage/outbox.ts'
import { Sheets } from './usage/sheets.ts'
import type { CountedCall } from './usage/sheets.ts'

export type { CountedCall } from './usage/sheets.ts'

/** Counts of calls, for whoever pays for them. */
export interface Usage {
  /** Counts at once and in memory (no I/O); the store hears of it within a second or so. */
  count(call: CountedCall): void
}

export interface OpenUsage extends Usage {
  start(): Promise<void>
  /** Tells the store what it has not heard yet. Safe without start(), and twice. */
  stop(): Promise<void>
}

export interface UsageOptions {
  readonly log: Log
  /** How long the store keeps counts, in ms. */
  readonly keep: number
  /** How many counts (of a group in an hour) may wait for a store that is away; 100,000 unless given, about 20 MB. */
  readonly room?: number
  /** A name that no other start of any process has; 64 random bits unless given. */
  readonly random?: () => string
}

/**
 * Counts the calls of this process. Each is counted once, however often messages are lost or doubled; a process that is
 * killed takes along what it counted since the last report. While the store is away everything waits here: sums by
 * account, key, network, method, outcome and day stay exact, and hours of a day are put together when memory gets short.
 */
export const openUsage = (
  store: UsageStore,
  clock: Clock,
  { log, keep, room = 100_000, random = () => randomBytes(8).toString('hex') }: UsageOptions,
): OpenUsage => {
  const sheets = new Sheets(clock)
  const outbox = new Outbox(store, clock, { process: random(), keep, room, sheets, log })
  let timer: { cancel(): void } | undefined
  let stopped: Promise<void> | undefined

  const stop = async (): Promise<void> => {
    timer?.cancel()
    for (let tries = 0; tries < stopTries && !outbox.isEmpty; tries += 1) await outbox.send()
    if (!outbox.isEmpty) log.warn({ calls: outbox.calls }, 'the store was away: the last calls are missing from its counts')
  }
  return {
    count: call => sheets.add(call),
    async start() {
      timer ??= clock.every(reportEvery, () => void outbox.send())
      await outbox.send()
    },
    stop: () => (stopped ??= stop()),
  }
}

const reportEvery = 1_000
/** A message that is lost must not cost counts. */
const stopTries = 3
