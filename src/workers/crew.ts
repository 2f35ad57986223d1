import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import { once } from 'node:events'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { Family } from '../services/metrics.ts'
import type { Member } from './crew-news.ts'
import { newest, topicOf } from './messages.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { Outbox } from './outbox.ts'

/** The worker processes of one gateway, as their primary sees them. */
export interface Crew {
  /** Workers that serve now. */
  readonly ready: number
  /** The metrics of each worker that serves, and answers within a second. */
  metrics(): Promise<readonly (readonly Family[])[]>
  /** Lets each worker finish its calls, and waits until all have ended; one that does not end is killed. */
  stop(): Promise<void>
}

export interface CrewPlan {
  /** The script and its arguments that a worker runs. */
  readonly exec: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly size: number
  /** In ms: how long a worker may take to end when it is told to. */
  readonly patience: number
  /** Hears all that workers say, and when they are gone. */
  readonly desk: { hear(member: Member, message: FromWorker): void, forget(member: Member): void }
}

/** A worker ended before it served. It has said why on stderr. */
export class CrewFault extends Error {}

/**
 * Starts the workers and replaces each that ends unasked: at once, unless it lived for less than a second, which
 * doubles the wait up to 5 s. The first starts alone, so that a mistake is reported once and not `size` times.
 */
export const openCrew = async (plan: CrewPlan, clock: Clock, log: Log): Promise<Crew> => {
  cluster.setupPrimary({ exec: plan.exec, args: [...plan.args] })
  const working = new Map<Worker, Member>()
  const serving = new Set<Worker>()
  let stopping = false
  let asked = 0

  const fork = (wait: number): Promise<void> => {
    const begun = clock.monotonic()
    const worker = cluster.fork(plan.env)
    const member = openMember(worker)
    working.set(worker, member)
    worker.on('message', (message: FromWorker) => plan.desk.hear(member, message))
    worker.once('exit', (code, signal) => {
      plan.desk.forget(member)
      working.delete(worker)
      const served = serving.delete(worker)
      if (stopping || !served) return
      const next = clock.monotonic() - begun < 1000 ? Math.min(5000, Math.max(100, 2 * wait)) : 0
      log.warn({ event: 'worker-ended', worker: worker.process.pid, code, signal }, 'a worker ended and is replaced')
      clock.after(next, () => void refork(next))
    })
    return untilReady(worker).then(() => {
      serving.add(worker)
      // It did not hear of the stop while it was starting.
      if (stopping) member.say({ kind: 'stop' })
    })
  }
  const refork = async (wait: number): Promise<void> => {
    if (stopping) return
    await fork(wait).catch(() => clock.after(1000, () => void refork(wait)))
  }

  const stop = async (): Promise<void> => {
    stopping = true
    await Promise.all([...working].map(([worker, member]) => end(worker, member)))
  }
  const end = async (worker: Worker, member: Member): Promise<void> => {
    const ended = once(worker, 'exit')
    member.say({ kind: 'stop' })
    const timer = clock.after(plan.patience, () => {
      log.error({ event: 'worker-killed', worker: worker.process.pid }, 'a worker did not end and is killed')
      worker.process.kill('SIGKILL')
    })
    await ended
    timer.cancel()
  }

  try {
    await fork(0)
    await Promise.all(Array.from({ length: plan.size - 1 }, () => fork(0)))
  } catch (fault) {
    await stop()
    throw fault
  }
  return {
    get ready() {
      return serving.size
    },
    async metrics() {
      const asking = [...serving].map(worker => askMetrics(worker, working.get(worker), asked += 1, clock))
      const found = await Promise.all(asking)
      return found.filter(metrics => metrics !== undefined)
    },
    stop,
  }
}

const untilReady = (worker: Worker): Promise<void> =>
  new Promise((resolve, reject) => {
    worker.on('message', (message: FromWorker) => {
      if (message.kind === 'ready') resolve()
    })
    worker.once('exit', code => reject(new CrewFault(`a worker ended with ${code} before it served`)))
  })

/** Undefined when the worker ends before it has answered, or does not answer within a second. */
const askMetrics = (
  worker: Worker, member: Member | undefined, id: number, clock: Clock,
): Promise<readonly Family[] | undefined> =>
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
    member?.say({ kind: 'metrics', id })
  })

const openMember = (worker: Worker): Member => new Outbox<FromPrimary>({
  send(message, sent) {
    // With a callback, what cannot be sent any more is no event that ends this process.
    if (worker.isConnected()) worker.send(message, sent)
    else sent()
  },
  topicOf,
  merge: newest,
})
