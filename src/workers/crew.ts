import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { Family } from '../services/metrics.ts'
import type { Member } from './crew-news.ts'
import type { FromWorker } from './messages.ts'
import { Shift } from './shift.ts'
import type { ShiftPlan } from './shift.ts'

/** The worker processes of one gateway, as their primary sees them. */
export interface Crew {
  /** Workers that serve now. */
  readonly ready: number
  /** The metrics of each worker that serves, and answers within a second. */
  metrics(): Promise<readonly (readonly Family[])[]>
  /** Lets each worker finish its calls, and waits until all have ended; one that does not end is killed. */
  stop(): Promise<void>
}

export interface CrewPlan extends ShiftPlan {
  /** The script and its arguments that a worker runs. */
  readonly exec: string
  readonly args: readonly string[]
  readonly size: number
}

/** Rejects with SpawnFault or CrewFault. The first worker starts alone, so that a mistake is reported once and not `size` times. */
export const openCrew = async (plan: CrewPlan, clock: Clock, log: Log): Promise<Crew> => {
  cluster.setupPrimary({ exec: plan.exec, args: [...plan.args] })
  const shift = new Shift(plan, clock, log)
  let asked = 0
  try {
    await shift.add()
    await Promise.all(Array.from({ length: plan.size - 1 }, () => shift.add()))
  } catch (fault) {
    await shift.stop()
    throw fault
  }
  return {
    get ready() {
      return shift.serving.size
    },
    async metrics() {
      const asking = Array.from(shift.serving, ([worker, member]) => askMetrics(worker, member, (asked += 1), clock))
      const found = await Promise.all(asking)
      return found.filter(metrics => metrics !== undefined)
    },
    stop: () => shift.stop(),
  }
}

/** Undefined when the worker ends before it has answered, or does not answer within a second. */
const askMetrics = (worker: Worker, member: Member, id: number, clock: Clock): Promise<readonly Family[] | undefined> =>
  new Promise(resolve => {
    const hear = (message: FromWorker) => {
      if (message.kind !== 'metrics' || message.id !== id) return
      end(message.metrics)
    }
    const end = (metrics?: readonly Family[]) => {
      worker.off('message', hear).off('exit', leave)
      timer.cancel()
      resolve(metrics)
    }
    const leave = () => end()
    const timer = clock.after(1000, leave)
    worker.on('message', hear).once('exit', leave)
    member.say({ kind: 'metrics', id })
  })
