import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { MetricFamily } from '../services/metrics.ts'
import type { WorkerChannel } from './height-broadcast.ts'
import type { WorkerMessage } from './messages.ts'
import { WorkerSupervisor } from './worker-supervisor.ts'
import type { SupervisorOptions } from './worker-supervisor.ts'

/** The worker processes of one gateway, as their primary sees them. */
export interface WorkerPool {
  /** Workers that serve now. */
  readonly readyCount: number
  /** The metrics of each worker that serves, and answers within a second. */
  metrics(): Promise<readonly (readonly MetricFamily[])[]>
  /** Lets each worker finish its calls, and waits until all have ended; one that does not end is killed. */
  stop(): Promise<void>
}

export interface WorkerPoolOptions extends SupervisorOptions {
  /** The script and its arguments that a worker runs. */
  readonly exec: string
  readonly args: readonly string[]
  readonly size: number
}

/** Rejects with SpawnFault or CrewFault. The first worker starts alone, so that a mistake is reported once and not `size` times. */
export const openWorkerPool = async (options: WorkerPoolOptions, clock: Clock, log: Log): Promise<WorkerPool> => {
  cluster.setupPrimary({ exec: options.exec, args: [...options.args] })
  const supervisor = new WorkerSupervisor(options, clock, log)
  let requestCount = 0
  try {
    await supervisor.add()
    await Promise.all(Array.from({ length: options.size - 1 }, () => supervisor.add()))
  } catch (fault) {
    await supervisor.stop()
    throw fault
  }
  return {
    get readyCount() {
      return supervisor.serving.size
    },
    async metrics() {
      const asking = Array.from(supervisor.serving, ([worker, member]) => requestMetrics(worker, member, (requestCount += 1), clock))
      const found = await Promise.all(asking)
      return found.filter(metrics => metrics !== undefined)
    },
    stop: () => supervisor.stop(),
  }
}

/** Undefined when the worker ends before it has answered, or does not answer within a second. */
const requestMetrics = (worker: Worker, channel: WorkerChannel, id: number, clock: Clock): Promise<readonly MetricFamily[] | undefined> =>
  new Promise(resolve => {
    const onMessage = (message: WorkerMessage) => {
      if (message.kind !== 'metrics' || message.id !== id) return
      finish(message.metrics)
    }
    const finish = (metrics?: readonly MetricFamily[]) => {
      worker.off('message', onMessage).off('exit', giveUp)
      timer.cancel()
      resolve(metrics)
    }
    const giveUp = () => finish()
    const timer = clock.after(1000, giveUp)
    worker.on('message', onMessage).once('exit', giveUp)
    channel.send({ kind: 'metrics', id })
  })
