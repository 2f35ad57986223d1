import { readdirSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { IntervalHistogram } from 'node:perf_hooks'
import type { Clock } from './clock.ts'
import { droppedLineCount } from './line-writer.ts'
import type { Metrics } from './metrics.ts'
import { readMaxOpenFiles } from './socket-limits.ts'
import { systemMetricDefinitions } from './system-metric-definitions.ts'

/** Metrics are read by several: Prometheus, `top` and each open page of operators. Within this time they read the same. */
const delayWindowMs = 3_000

/** Timers are set this far ahead to measure the delay of the event loop. */
const delayResolutionMs = 20

/** Measured when metrics are read: a gateway that nobody scrapes pays nothing. Returns how to stop. */
export const collectProcessMetrics = (metrics: Metrics, version: string, clock: Pick<Clock, 'monotonic'>): (() => void) => {
  metrics.gauge(systemMetricDefinitions.buildInfo, { version, node: process.version }).set(1)
  const measures = [measureCpu(metrics), measureDroppedLines(metrics), measureMemory(metrics), measureFiles(metrics)]
  const { measure: measureDelay, stop } = measureEventLoopDelay(metrics, clock)
  const stopCollecting = metrics.collect(() => [...measures, measureDelay].forEach(measure => measure()))
  return () => {
    stopCollecting()
    stop()
  }
}

/** User and system CPU time of this process. */
export const readCpuSeconds = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

const measureCpu = (metrics: Metrics): (() => void) => {
  const cpu = metrics.counter(systemMetricDefinitions.processCpu, {})
  let countedSeconds = 0
  return () => {
    const seconds = readCpuSeconds()
    cpu.add(seconds - countedSeconds)
    countedSeconds = seconds
  }
}

const measureDroppedLines = (metrics: Metrics): (() => void) => {
  const dropped = metrics.counter(systemMetricDefinitions.logLinesDropped, {})
  let countedLines = 0
  return () => {
    dropped.add(droppedLineCount() - countedLines)
    countedLines = droppedLineCount()
  }
}

const measureMemory = (metrics: Metrics): (() => void) => {
  const resident = metrics.gauge(systemMetricDefinitions.processMemory, {})
  return () => resident.set(process.memoryUsage.rss())
}

const measureFiles = (metrics: Metrics): (() => void) => {
  const maxFiles = readMaxOpenFiles()
  if (maxFiles === undefined) return () => undefined
  metrics.gauge(systemMetricDefinitions.processMaxFiles, {}).set(maxFiles)
  const open = metrics.gauge(systemMetricDefinitions.processOpenFiles, {})
  return () => open.set(readdirSync('/proc/self/fd').length)
}

const measureEventLoopDelay = (metrics: Metrics, clock: Pick<Clock, 'monotonic'>): { measure(): void; stop(): void } => {
  let delays: IntervalHistogram | undefined // 0.4 MB
  const gauge = metrics.gauge(systemMetricDefinitions.eventLoopDelayP99, {})
  let beganAtMs: number | undefined
  return {
    measure() {
      const now = clock.monotonic()
      if (beganAtMs !== undefined && now - beganAtMs < delayWindowMs) return
      delays ??= monitorEventLoopDelay({ resolution: delayResolutionMs })
      gauge.set(delays.count === 0 ? 0 : toDelaySeconds(delays.percentile(99)))
      delays.reset()
      delays.enable()
      beganAtMs = now
    },
    stop: () => void delays?.disable(),
  }
}

/** The histogram has the time between two timers, in ns. */
const toDelaySeconds = (betweenNs: number): number => Math.max(0, betweenNs / 1e9 - delayResolutionMs / 1000)
