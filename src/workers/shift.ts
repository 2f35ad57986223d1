import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { Member } from './crew-news.ts'
import { passOn } from './handover.ts'
import { newest, topicOf } from './messages.ts'
import type { FromPrimary, FromWorker } from './messages.ts'
import { Outbox } from './outbox.ts'

export interface ShiftPlan {
  readonly env: Readonly<Record<string, string>>
  /** In ms: how long a worker may take to end when it is told to. */
  readonly patience: number
  /** Hears all that workers say, and when they are gone. */
  readonly desk: { hear(member: Member, message: FromWorker): void; forget(member: Member): void }
}

/** A worker ended before it served. It has said why on stderr. */
export class CrewFault extends Error {}

/** The system gave no process for a worker. The message is for the operator. */
export class SpawnFault extends Error {}

/**
 * The workers that are to serve. One that ends unasked is replaced: at once, unless it lived for less than a second,
 * which doubles the wait up to 5 s. A replacement that does not come to serve is tried again after a second.
 */
export class Shift {
  readonly #plan: ShiftPlan
  readonly #clock: Clock
  readonly #log: Log
  readonly #working = new Map<Worker, Working>()
  readonly #serving = new Map<Worker, Member>()
  #isStopping = false

  constructor(plan: ShiftPlan, clock: Clock, log: Log) {
    this.#plan = plan
    this.#clock = clock
    this.#log = log
  }

  get serving(): ReadonlyMap<Worker, Member> {
    return this.#serving
  }

  /** Resolves when one more serves. Rejects with SpawnFault or CrewFault. */
  async add(wait = 0): Promise<void> {
    const begun = this.#clock.monotonic()
    const worker = spawn(this.#plan.env)
    const member = openMember(worker)
    const ended = untilEnded(worker, this.#log)
    passOn(worker, () => [...this.#serving.keys()].some(other => other !== worker && other.isConnected()))
    this.#working.set(worker, { member, ended })
    worker.on('message', (message: FromWorker) => this.#plan.desk.hear(member, message))
    void ended.then(end => this.#leave(worker, member, end, () => nextWait(wait, this.#clock.monotonic() - begun)))
    await untilReady(worker, ended)
    this.#serving.set(worker, member)
    // It did not hear of the stop while it was starting.
    if (this.#isStopping) member.say({ kind: 'stop' })
  }

  /** Resolves when all have ended; one that does not end in time is killed. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all(Array.from(this.#working, ([worker, working]) => this.#end(worker, working)))
  }

  #leave(worker: Worker, member: Member, { code, signal }: End, next: () => number): void {
    this.#plan.desk.forget(member)
    this.#working.delete(worker)
    const served = this.#serving.delete(worker)
    if (this.#isStopping || !served) return
    this.#log.warn({ event: 'worker-ended', worker: worker.process.pid, code, signal }, 'a worker ended and is replaced')
    const wait = next()
    this.#clock.after(wait, () => void this.#replace(wait))
  }

  async #replace(wait: number): Promise<void> {
    if (this.#isStopping) return
    try {
      await this.add(wait)
    } catch (fault) {
      this.#log.error({ event: 'worker-missing', err: fault }, 'a worker could not be replaced; the next try is in a second')
      this.#clock.after(1000, () => void this.#replace(wait))
    }
  }

  async #end(worker: Worker, { member, ended }: Working): Promise<void> {
    member.say({ kind: 'stop' })
    const timer = this.#clock.after(this.#plan.patience, () => {
      this.#log.error({ event: 'worker-killed', worker: worker.process.pid }, 'a worker did not end and is killed')
      worker.process.kill('SIGKILL')
    })
    await ended
    timer.cancel()
  }
}

interface Working {
  readonly member: Member
  readonly ended: Promise<End>
}

/** How a process ended, or why there never was one. */
interface End {
  readonly code?: number
  readonly signal?: string
  readonly error?: Error
}

const nextWait = (wait: number, lived: number): number => (lived < 1000 ? Math.min(5000, Math.max(100, 2 * wait)) : 0)

/** Some of what the system may refuse comes at once, the rest as an event. */
const spawn = (env: ShiftPlan['env']): Worker => {
  try {
    return cluster.fork(env)
  } catch (error) {
    throw noProcess(error)
  }
}

const noProcess = (error: unknown): SpawnFault =>
  new SpawnFault(`a worker could not be started: ${error instanceof Error ? error.message : String(error)}`, { cause: error })

/** One that was never spawned ends with an error, and with nothing else. */
const untilEnded = (worker: Worker, log: Log): Promise<End> =>
  new Promise(resolve => {
    worker.once('exit', (code: number, signal: string) => resolve({ code, signal }))
    worker.on('error', error => {
      if (worker.process.pid === undefined) resolve({ error })
      // Of its pipe: if it ends of that, it says so.
      else log.warn({ event: 'worker-error', worker: worker.process.pid, err: error }, 'the pipe to a worker failed')
    })
  })

const untilReady = (worker: Worker, ended: Promise<End>): Promise<void> =>
  new Promise((resolve, reject) => {
    worker.on('message', (message: FromWorker) => {
      if (message.kind === 'ready') resolve()
    })
    void ended.then(({ code, signal, error }) =>
      reject(error === undefined ? new CrewFault(`a worker ended with ${code ?? signal} before it served`) : noProcess(error)),
    )
  })

const openMember = (worker: Worker): Member =>
  new Outbox<FromPrimary>({
    send(message, sent) {
      // With a callback, what cannot be sent any more is no event that ends this process.
      if (worker.isConnected()) worker.send(message, sent)
      else sent()
    },
    topicOf,
    merge: newest,
  })
