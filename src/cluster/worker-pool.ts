import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Clock } from '../services/clock.ts'
import type { Log, LogLevel } from '../services/log.ts'
import type { MetricFamily } from '../services/metrics.ts'
import { withTimeoutOr } from '../util/with-timeout.ts'
import type { WorkerChannel, WorkerMessage } from './channel.ts'
import { WorkerSupervisor } from './worker-supervisor.ts'
import type { SupervisorOptions } from './worker-supervisor.ts'

/** A worker whose metrics take longer is left out. */
const metricsTimeoutMs = 1000

/** The worker processes of one gateway, for their primary. */
export interface WorkerPool {
  /** Workers that accept calls. */
  readonly readyCount: number
  /** The metrics of each ready worker that answers within `metricsTimeoutMs`. */
  metrics(): Promise<readonly (readonly MetricFamily[])[]>
  /** For all workers, those that are started later included. */
  setLogLevel(level: LogLevel): void
  /** Lets each worker finish its calls. Resolves when all have exited; a worker that does not exit in time is killed. */
  stop(): Promise<void>
}

export interface WorkerPoolOptions extends SupervisorOptions {
  /** The script that a worker runs, and its arguments. */
  readonly exec: string
  readonly args: readonly string[]
  readonly size: number
}

/**
 * Rejects with WorkerSpawnError or WorkerExitError. The first worker starts alone: a mistake that every worker would report is
 * reported once.
 */
export const openWorkerPool = async (options: WorkerPoolOptions, clock: Clock, log: Log): Promise<WorkerPool> => {
  cluster.setupPrimary({ exec: options.exec, args: [...options.args] })
  const supervisor = new WorkerSupervisor(options, clock, log)
  let lastRequestId = 0
  try {
    await supervisor.add()
    await Promise.all(Array.from({ length: options.size - 1 }, () => supervisor.add()))
  } catch (error) {
    await supervisor.stop()
    throw error
  }
  return {
    get readyCount() {
      return supervisor.ready.size
    },
    async metrics() {
      const requests = Array.from(supervisor.ready, ([worker, channel]) => requestMetrics(worker, channel, (lastRequestId += 1), clock))
      return (await Promise.all(requests)).filter(metrics => metrics !== undefined)
    },
    setLogLevel: level => supervisor.setLogLevel(level),
    stop: () => supervisor.stop(),
  }
}

/** Undefined when the worker exits before it has answered, or does not answer in time. */
const requestMetrics = async (
  worker: Worker,
  channel: WorkerChannel,
  id: number,
  clock: Clock,
): Promise<readonly MetricFamily[] | undefined> => {
  let onExit = () => {}
  let onMessage = (_message: WorkerMessage) => {}
  const reply = new Promise<readonly MetricFamily[] | undefined>(resolve => {
    onExit = () => resolve(undefined)
    onMessage = message => {
      if (message.kind === 'metrics' && message.id === id) resolve(message.metrics)
    }
  })
  worker.on('message', onMessage).once('exit', onExit)
  channel.send({ kind: 'metrics', id })
  const metrics = await withTimeoutOr(clock, metricsTimeoutMs, reply, () => undefined)
  worker.off('message', onMessage).off('exit', onExit)
  return metrics
}
