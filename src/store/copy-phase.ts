import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../services/clock.ts'
import { createSemaphore, singleFlight } from '../util/async.ts'
import type { Engine } from './engine.ts'
import { moveCell, moveFields, moveTable } from './movable-engine.ts'
import { processesTag } from './store-days.ts'
import { StoreError } from './store.ts'

/** A run that writes nothing for so long has ended. */
const maxSilenceMs = 5_000
const renewalIntervalMs = 1_000
/** Below the silence by more than what a commit may take: one that is begun later waits for a renewal. */
const maxUnrenewedMs = 2_500

const takenOverError = () => new StoreError('another `tollgate store copy` of this store has taken over')

/** What a run of the command does with a store. One run at a time: each write of the phase is guarded by the one before. */
export class CopyPhase {
  readonly #engine: Engine
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #run = randomBytes(4).toString('hex')
  readonly #inTurn = createSemaphore(1)
  #kind = ''
  #text: string | undefined
  #renewedAt = -Infinity
  #isLost = false

  constructor(engine: Engine, clock: Pick<Clock, 'monotonic'>) {
    this.#engine = engine
    this.#clock = clock
  }

  /** The row as it is in the store. */
  get guard() {
    return { ...moveCell('phase'), is: this.#text }
  }

  /** False where no run has left anything. */
  async takeOver(): Promise<boolean> {
    for (let last: string | undefined, since = this.#clock.monotonic(); ; await sleep(renewalIntervalMs / 4)) {
      const { clockNow, tables } = await this.#engine.read(processesTag, [{ table: moveTable, fields: [moveFields.phase] }])
      const text = tables[0]?.get(moveFields.phase)
      if (text === undefined) return false
      if (Math.abs(clockNow - Number(text.split(' ')[2])) > maxSilenceMs || this.#clock.monotonic() - since > maxSilenceMs) {
        this.#text = text
        return true
      }
      if (last !== undefined && last !== text) throw new StoreError('another `tollgate store copy` of this store is under way')
      last = text
    }
  }

  /** Also renews it. Rejects when another run has taken over. */
  set(kind = this.#kind): Promise<void> {
    return this.#inTurn(async () => {
      this.#kind = kind
      const renewedAt = this.#clock.monotonic()
      const { clockNow } = await this.#engine.read(processesTag, [])
      const text = `${kind} ${this.#run} ${clockNow}`
      const { isDone } = await this.#engine.commit(processesTag, { guards: [this.guard], puts: [{ ...moveCell('phase'), value: text }] })
      this.#isLost = !isDone
      if (this.#isLost) throw takenOverError()
      this.#text = text
      this.#renewedAt = renewedAt
    })
  }

  readonly #renew = singleFlight(() => this.set())

  /** The store for what this run does with it: a commit rejects once another run has taken over. */
  engine(): Engine {
    const engine = this.#engine
    return {
      ...engine,
      commit: async (tag, commit) => {
        if (this.#isLost) throw takenOverError()
        if (this.#clock.monotonic() - this.#renewedAt > maxUnrenewedMs) await this.#renew()
        return engine.commit(tag, commit)
      },
    }
  }

  /** Renews it until the function that this returns is called. */
  startRenewal(): () => Promise<void> {
    const timer = setInterval(() => void this.set().catch(() => undefined), renewalIntervalMs)
    return async () => {
      clearInterval(timer)
      await this.#inTurn(async () => undefined)
    }
  }

  async end(): Promise<void> {
    await this.#engine.commit(processesTag, { guards: [this.guard], dels: [moveCell('phase')] })
  }
}
