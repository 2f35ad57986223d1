import { pid } from 'node:process'
import type { Clock } from '../services/clock.ts'
import { dayMs } from '../util/dates.ts'
import { retryCommit } from './engine.ts'
import type { Commit, Engine } from './engine.ts'
import { StoreClock } from './store-clock.ts'
import { processTimeoutMs } from './store.ts'
import type { HeartbeatResponse, StoreDay } from './store.ts'

export const processesTag = 'processes'

/** The last heartbeat of each process: ms since 1970 by the engine's clock, the process's number on its machine, and the id of the store's successor. */
export const heartbeats = 'heartbeats'
/** `day`: the latest day that any process has observed. `time`: that of the last heartbeat in ms since 1970, as StoreClock reads it. */
export const recorded = 'time'

/** The store's time, and the range of the engine's clock in which `today` is right. */
interface CurrentDay extends StoreDay, Required<Pick<Commit, 'during'>> {
  readonly now: number
}

/**
 * The days of the store, and the processes that live. The engine's clock names the day, except that it never goes back: credits that were
 * granted on a day stay granted. One day is the same for all processes, because each heartbeat records it.
 */
export class StoreDays {
  readonly #engine: Engine
  readonly #storeClock: StoreClock
  #latestDay = 0
  #isClockFollowed = true

  constructor(engine: Engine, clock: Pick<Clock, 'monotonic'>) {
    this.#engine = engine
    this.#storeClock = new StoreClock(clock)
  }

  /** As this process expects it: reads the store the first time only. A commit during `during` is a commit of that day. */
  async current(): Promise<CurrentDay> {
    if (this.#storeClock.expectedNow === undefined) await this.#read()
    const now = this.#storeClock.expectedNow ?? 0
    const today = Math.max(Math.floor(now / dayMs), this.#latestDay)
    const fromMs = today === this.#latestDay ? 0 : today * dayMs
    const during = this.#isClockFollowed ? { fromMs, toMs: (today + 1) * dayMs } : anyTime
    return { now, today, endsInMs: (today + 1) * dayMs - now, during }
  }

  /** The day at this time of the engine's clock, which has just been read. */
  observe(clockNow: number): StoreDay {
    return this.#follow(clockNow, undefined, () => false)
  }

  /** The day, and the processes that live, each with the id of the successor that it knows. */
  async live(): Promise<StoreDay & { readonly processes: ReadonlyMap<string, string | undefined> }> {
    const { day, live, rows } = await this.#read()
    return { ...day, processes: new Map(live.map(process => [process, rows.get(process)?.split(' ')[2]])) }
  }

  async heartbeat(process: string): Promise<HeartbeatResponse> {
    return retryCommit(async () => {
      const { clockNow, latestDay, day, rows, live } = await this.#read()
      const dead = [...rows.keys()].filter(each => !live.includes(each) && each !== process)
      const { isDone } = await this.#engine.commit(processesTag, {
        guards: [{ table: recorded, field: 'day', is: latestDay }],
        puts: [
          { table: recorded, field: 'day', value: `${day.today}` },
          { table: recorded, field: 'time', value: `${day.now}` },
          {
            table: heartbeats,
            field: process,
            value: [clockNow, pid, this.#engine.successorId].filter(part => part !== undefined).join(' '),
          },
        ],
        dels: dead.map(field => ({ table: heartbeats, field })),
      })
      const { today, endsInMs, ignoredJumpMs } = day
      return isDone ? { result: { today, endsInMs, ignoredJumpMs, liveProcesses: new Set([...live, process]).size } } : undefined
    })
  }

  async deregister(process: string): Promise<void> {
    await this.#engine.commit(processesTag, { dels: [{ table: heartbeats, field: process }] })
  }

  /** Makes the day of the engine's clock that of the store. */
  async reset(): Promise<{ readonly from: number; readonly to: number }> {
    const { clockNow, day } = await this.#read()
    const to = Math.floor(clockNow / dayMs)
    await this.#engine.commit(processesTag, {
      puts: [
        { table: recorded, field: 'day', value: `${to}` },
        { table: recorded, field: 'time', value: `${clockNow}` },
      ],
      drops: [heartbeats],
    })
    return { from: day.today, to }
  }

  async #read() {
    const { clockNow, tables } = await this.#engine.read(processesTag, [{ table: heartbeats }, { table: recorded }])
    const [rows = new Map<string, string>(), times = new Map<string, string>()] = tables
    const live = [...rows].filter(([, text]) => this.#isLive(text, clockNow)).map(([process]) => process)
    const latestDay = times.get('day')
    if (latestDay !== undefined) this.#latestDay = Math.max(this.#latestDay, Number(latestDay))
    const time = times.get('time')
    const day = this.#follow(clockNow, time === undefined ? undefined : Number(time), () => live.length > 0)
    return { clockNow, rows, live, latestDay, day }
  }

  /** Heartbeats are by the engine's clock, also where it is wrong: after a jump all count as dead until their next, and lose no credits by that. */
  #isLive(heartbeat: string, clockNow: number): boolean {
    const [seen = 0, ofPid = 0] = heartbeat.split(' ').map(Number)
    return Math.abs(clockNow - seen) <= processTimeoutMs && this.#engine.mayRun(ofPid)
  }

  #follow(clockNow: number, stored: number | undefined, isInUse: () => boolean) {
    const { now, ignoredJumpMs } = this.#storeClock.read(clockNow, stored, isInUse)
    this.#isClockFollowed = ignoredJumpMs === 0
    this.#latestDay = Math.max(this.#latestDay, Math.floor(now / dayMs))
    return { now, ignoredJumpMs, today: this.#latestDay, endsInMs: (this.#latestDay + 1) * dayMs - now }
  }
}

const anyTime = { fromMs: -Infinity, toMs: Infinity }
