import { setTimeout as sleep } from 'node:timers/promises'
import { singleFlight } from '../util/async.ts'
import { historiesNews, retryCommit } from './engine.ts'
import type { Commit, Engine } from './engine.ts'
import { confirmations, heartbeats, histories, isOpen, openedText, processesTag } from './store-days.ts'
import type { ProcessTable, StoreDays } from './store-days.ts'
import { StoreError, processTimeoutMs } from './store.ts'

/** A process that lives has connected again, and has sent a heartbeat. */
const reconnectedAfterMs = 2_000
/** Together less than a request of a lease may take. */
const [maxChecks, checkIntervalMs] = [18, 50]
/** More than a cluster has primaries. */
const maxHistories = 200

const waitingError =
  'it may have lost its last writes, and waits until all gateways have written their leases again: for up to 5 s where one of them has ended'

/**
 * A history of the engine may lack the last leases of the one before: credits are leased in it once each live process has written its own again.
 * The table `histories` says since when a history waits for that, and `confirmations` which processes have done it. Of an older state of the store
 * `heartbeats` is older too, so that each process adds those that it knows before it confirms.
 */
export class LeaseBarrier {
  readonly #engine: Engine
  readonly #days: StoreDays
  /** Resolves to false where some leases could not be written again. */
  readonly #repeatLeases: () => Promise<boolean>
  /** Those of this process. */
  readonly #own = new Set<string>()
  /** The history of the last heartbeats that were read, and the processes that lived by them, with their rows. */
  #history: string | undefined
  #known: ReadonlyMap<string, string> = new Map()
  /** This process knows which processes lived before that history began. */
  #isWitness = false
  /** What requests have found since the last look at the table. */
  readonly #found = new Set<string>()
  #open = new Set<string>()
  readonly #passed = new Set<string>()
  #isWatching = false

  constructor(engine: Engine, days: StoreDays, repeatLeases: () => Promise<boolean>) {
    this.#engine = engine
    this.#days = days
    this.#repeatLeases = repeatLeases
  }

  /** In which credits are leased, as far as they have been needed here. */
  get histories(): readonly string[] {
    return [...this.#passed]
  }

  /** To be called with what each heartbeat has read. */
  observe(process: string, table: ProcessTable): void {
    this.#own.add(process)
    if (table.history !== undefined && !this.#isWatching) this.#watch()
    const waits = [...table.histories.values()].some(text => !isOpen(text))
    if (table.history !== this.#history || waits) void this.#advance().catch(() => undefined)
    else this.#known = liveRows(table)
  }

  /** A process that does not hear of it finds it with its next heartbeat. */
  #watch(): void {
    this.#isWatching = true
    this.#engine.watch(news => {
      if (news === undefined || news === historiesNews) void this.#advance().catch(() => undefined)
    })
  }

  leave(process: string): void {
    this.#own.delete(process)
  }

  /** Resolves once credits are leased in a history. */
  async pass(history: string): Promise<void> {
    for (let checks = 0; checks < maxChecks; checks += 1) {
      this.#found.add(history)
      await this.#advance()
      if (this.#open.has(history)) return void this.#passed.add(history)
      await sleep(checkIntervalMs)
    }
    throw new StoreError(waitingError)
  }

  readonly #advance = singleFlight(async (): Promise<void> => {
    let table = await retryCommit(() => this.#begin())
    if (await this.#confirm(table)) table = await this.#days.readProcesses()
    // It was replaced meanwhile: another one begins with the next heartbeat, or request.
    if (table.history !== this.#history) return
    this.#open = new Set([...table.histories].flatMap(([history, text]) => (isOpen(text) ? [history] : [])))
    for (const [history, text] of table.histories)
      if (!isOpen(text) && this.#isComplete(history, text, table)) await this.#end(history, table)
  })

  /** Lets histories that nobody has found before wait, and adds processes that are known here. */
  async #begin(): Promise<{ readonly result: ProcessTable } | undefined> {
    const table = await this.#days.readProcesses()
    const { history, clockNow } = table
    if (history === undefined) return { result: table }
    const isFirst = this.#history === undefined
    if (isFirst) for (const each of (await this.#engine.histories?.().catch(() => [])) ?? []) this.#found.add(each)
    const found = [history, ...this.#found]
    const added = [...new Set(found)].filter(each => !table.histories.has(each))
    // A store that has not been used yet has lost nothing.
    const text = isFirst && table.times.size === 0 ? openedText(clockNow) : `${clockNow}`
    const forgotten = history === this.#history ? [] : [...this.#known].filter(([process]) => !isConfirmed(table, history, process))
    if (added.length > 0 || forgotten.length > 0) {
      const { isDone } = await this.#engine.commit(processesTag, {
        guards: added.map(field => ({ table: histories, field, is: undefined })),
        puts: [
          ...added.map(field => ({ table: histories, field, value: text })),
          ...forgotten.map(([field, row]) => ({ table: heartbeats, field, value: row.replace(/^\S+/, `${clockNow}`) })),
        ],
        ...(added.length > 0 && { notifies: historiesNews }),
      })
      if (!isDone) return undefined
    }
    for (const each of found) this.#found.delete(each)
    if (history !== this.#history) this.#isWitness = !isFirst
    this.#history = history
    if (added.length === 0 && forgotten.length === 0) return { result: table }
    const result = await this.#days.readProcesses()
    if (result.history === history) this.#known = liveRows(result)
    return { result }
  }

  /** False where nothing was to be confirmed. */
  async #confirm(table: ProcessTable): Promise<boolean> {
    const waiting = [...table.histories].filter(([, text]) => !isOpen(text))
    const missing = waiting.flatMap(([history]) =>
      [...this.#own].filter(process => !isConfirmed(table, history, process)).map(process => confirmationOf(history, process)),
    )
    if (table.history !== this.#history || missing.length === 0 || !(await this.#repeatLeases())) return false
    await this.#engine.commit(processesTag, {
      guards: waiting.map(([field, is]) => ({ table: histories, field, is })),
      puts: missing.map(field => ({ table: confirmations, field, value: '' })),
    })
    return true
  }

  #isComplete(history: string, text: string, table: ProcessTable): boolean {
    const waitedMs = Math.abs(table.clockNow - Number(text))
    if (waitedMs >= processTimeoutMs) return true
    // Which processes live is certain where their heartbeats are in a history that lacks none.
    const isCertain = history === table.history ? this.#isWitness || waitedMs >= reconnectedAfterMs : this.#open.has(table.history ?? '')
    return isCertain && table.live.every(process => isConfirmed(table, history, process))
  }

  async #end(history: string, table: ProcessTable): Promise<void> {
    const opened = [...table.histories].filter(([, text]) => isOpen(text)).sort(([, one], [, two]) => openedAt(one) - openedAt(two))
    const { isDone } = await this.#engine.commit(processesTag, {
      guards: [{ table: histories, field: history, is: table.histories.get(history) }],
      puts: [{ table: histories, field: history, value: openedText(table.clockNow) }],
      dels: [
        ...[...table.confirmations].filter(field => field.startsWith(`${history} `)).map(field => ({ table: confirmations, field })),
        ...opened.slice(0, -maxHistories).map(([field]) => ({ table: histories, field })),
      ],
    })
    if (isDone) this.#open.add(history)
  }
}

const openedAt = (text: string): number => Number(text.split(' ')[1])

const confirmationOf = (history: string, process: string): string => `${history} ${process}`
const isConfirmed = (table: ProcessTable, history: string, process: string): boolean =>
  table.confirmations.has(confirmationOf(history, process))

const liveRows = ({ rows, live }: ProcessTable): ReadonlyMap<string, string> =>
  new Map(live.map(process => [process, rows.get(process) ?? '']))

/** Lets credits be leased in a store that has just been copied: nothing of it is lost. */
export const putOpenHistories = async (engine: Engine): Promise<NonNullable<Commit['puts']>> => {
  const { clockNow } = await engine.read(processesTag, [])
  const all = (await engine.histories?.().catch(() => [])) ?? []
  return all.map(field => ({ table: histories, field, value: openedText(clockNow) }))
}
