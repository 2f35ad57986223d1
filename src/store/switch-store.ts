import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../services/clock.ts'
import { getOrCreate } from '../util/memoize.ts'
import { accountsTag, changedLedgerIds, scanLedgerIds } from './accounts.ts'
import { CopyPhase } from './copy-phase.ts'
import { beginCopy, concurrently, countAccounts, fixedTags, inParts } from './copy-store.ts'
import type { CopyProgress, CopySummary, StoreCopy } from './copy-store.ts'
import { readTable } from './engine.ts'
import type { Engine } from './engine.ts'
import { ledgerTables } from './ledger.ts'
import {
  assertInUse,
  changedTable,
  copying,
  dirtyCell,
  moveCell,
  moveTable,
  readMove,
  reopenedTable,
  sealField,
  sealed,
  stateField,
  storeId,
} from './movable-engine.ts'
import { StoreDays, processesTag, recorded } from './store-days.ts'
import { StoreError } from './store.ts'

/** The members are those of `store copy --switch --json`. */
export interface SwitchSummary extends CopySummary {
  /** For so long the old store has taken no changes. */
  readonly heldMs: number
  /** Processes of gateways that use the new store now. */
  readonly processes: number
  /** Those that used the old one, and are not seen in the new one. */
  readonly missing: number
}

const stateCell = (value: string) => ({ table: moveTable, field: stateField, value }) as const

const isClean = { ...dirtyCell, is: undefined } as const

const reopenedPrefix = `${reopenedTable}\n`

/** Changes that are copied within a fraction of a second. */
const maxLastPassRows = 500
/** The hold does what a pass does: it waits for stores that are busy with what was copied, or with their disks, where calls would wait. */
const maxLastPassMs = 250
const maxPasses = 20
/** A gateway that hangs for longer counts as missing. */
const maxArrivalMs = 15_000

/**
 * Copies a store while gateways use it, and lets them go over to the copy:
 *
 * 1. Tags that are always in use are marked: from then on commits record the rows that they change. Those of accounts, of which there may be a million,
 *    are sealed. A process that changes one lists it, and marks it in place of the seal. Then all rows are copied.
 * 2. In passes, the rows that were changed meanwhile are copied, and what has not been changed since the last pass is sealed, until there are few.
 * 3. The store is held: no tag can be listed, those that are marked are sealed, and processes wait. The last changes are copied.
 * 4. One commit says that the other store is in use: processes go over to it, with what waited.
 *
 * Until 4, an error takes back 1 and 3. What a killed run leaves, the next run takes back: releaseStore().
 */
export const switchStore = async (
  from: Engine,
  to: Engine,
  clock: Pick<Clock, 'monotonic'>,
  progress: CopyProgress,
): Promise<SwitchSummary> => {
  if (to.usageTags.length < from.usageTags.length) {
    throw new StoreError('gateways cannot go over from a Redis to an embedded store while they serve: stop them, and copy without --switch')
  }
  const toId = await storeId(to)
  if ((await readMove(from, 'movedTo')) === toId) return finish({ from, to, clock, rows: 0, heldMs: 0, live: [] })
  await assertInUse(from)
  if ((await new StoreDays(to, clock).live()).processes.size > 0)
    throw new StoreError('nothing was copied: gateways use TO, which must be a new store')
  await requireReadyProcesses(from, toId, clock)
  await releaseStore(from, clock)
  const copy = await beginCopy(from, to, progress)
  const phase = new CopyPhase(from, clock)
  await phase.set('copy')
  const live = [...(await new StoreDays(from, clock).live()).processes.keys()]
  const end = phase.startRenewal()
  try {
    const heldMs = await new StoreSwitch({ from: phase.engine(), to, toId, copy, phase, clock, end }).run()
    return await finish({ from, to, clock, rows: copy.rows, heldMs, live })
  } catch (error) {
    await end()
    // Where this fails, the next run does it.
    await takeBack(from, phase).catch(() => undefined)
    throw error
  }
}

/** Lets processes use a store as before, where a run was cut off. Waits for one that may still run, and rejects where it goes on. */
export const releaseStore = async (engine: Engine, clock: Pick<Clock, 'monotonic'>): Promise<void> => {
  if ((await readMove(engine, 'movedTo')) !== undefined) return
  const phase = new CopyPhase(engine, clock)
  if (!(await phase.takeOver())) return
  await release(phase)
}

const takeBack = async (engine: Engine, phase: CopyPhase): Promise<void> => {
  if ((await readMove(engine, 'movedTo')) === undefined) await release(phase)
}

/** Meanwhile processes reopen what they change. */
const release = async (phase: CopyPhase): Promise<void> => {
  // First: a run that was only paused must not end now.
  await phase.set('release')
  const end = phase.startRenewal()
  try {
    await removeMarks(phase.engine())
  } finally {
    await end()
  }
  await phase.end()
}

const removeMarks = async (engine: Engine): Promise<void> => {
  await engine.commit(accountsTag, { puts: [stateCell(copying)] })
  const tags = new Set<string>()
  for await (const [tag, table] of engine.tables()) if (table === moveTable && tag !== accountsTag) tags.add(tag)
  const clear = async (tag: string): Promise<void> => {
    const dels = [stateField, sealField].map(field => ({ table: moveTable, field }))
    await engine.commit(tag, { dels: [...dels, dirtyCell], drops: [changedTable] })
  }
  await concurrently(tags, clear)
  await clear(accountsTag)
}

/** A process that does not know the new store could not go over to it. */
const requireReadyProcesses = async (from: Engine, toId: string, clock: Pick<Clock, 'monotonic'>): Promise<void> => {
  const { processes } = await new StoreDays(from, clock).live()
  // TO would count as the store that is in use, for gateways of another one too.
  if (processes.size === 0) {
    throw new StoreError('nothing was copied: no gateway uses FROM. Name the store that gateways use, or copy without --switch')
  }
  const unready = [...processes.values()].filter(id => id !== toId).length
  if (unready === 0) return
  throw new StoreError(
    `nothing was copied: ${unready} of ${processes.size} processes of gateways that use FROM do not know TO. ` +
      'Write `store: FROM -> TO` into their gateway.yaml, and restart them one after the other',
  )
}

interface Finish {
  readonly from: Engine
  readonly to: Engine
  readonly clock: Pick<Clock, 'monotonic'>
  readonly rows: number
  readonly heldMs: number
  readonly live: readonly string[]
}

const finish = async ({ from, to, clock, rows, heldMs, live }: Finish): Promise<SwitchSummary> => {
  const value = await storeId(from)
  await to.commit(processesTag, { puts: [{ ...moveCell('movedFrom'), value }], dels: [moveCell('copyOf')] })
  const days = new StoreDays(to, clock)
  const endMs = clock.monotonic() + maxArrivalMs
  for (;;) {
    const { processes } = await days.live()
    const missing = live.filter(process => !processes.has(process)).length
    if (missing > 0 && clock.monotonic() < endMs) await sleep(100)
    else return { ...(await countAccounts(to)), rows, heldMs, processes: processes.size, missing }
  }
}

interface SwitchParts {
  readonly from: Engine
  readonly to: Engine
  readonly toId: string
  readonly copy: StoreCopy
  readonly phase: CopyPhase
  readonly clock: Pick<Clock, 'monotonic'>
  /** Ends the renewal of the phase. */
  end(): Promise<void>
}

class StoreSwitch {
  readonly #parts: SwitchParts
  readonly #from: Engine
  readonly #copy: StoreCopy
  /** Tags that are marked for as long as the store is copied. */
  readonly #fixed: readonly string[]
  /** All others that have been found. */
  readonly #known = new Set<string>()
  /** Of these, those that processes have reopened. */
  readonly #reopened = new Set<string>()

  constructor(parts: SwitchParts) {
    this.#parts = parts
    this.#from = parts.from
    this.#copy = parts.copy
    this.#fixed = fixedTags(parts.from)
  }

  /** Returns for how long the store was held, in ms. */
  async run(): Promise<number> {
    // Before accounts are listed: those that are added later are found as changes.
    await this.#mark(accountsTag)
    await concurrently(this.#fixed, tag => this.#mark(tag))
    await concurrently(await this.#findOthers(), async tag => {
      this.#copy.reportProgress()
      await this.#seal(tag)
    })
    await this.#copy.copyAll()
    const { clock } = this.#parts
    for (let pass = 0; pass < maxPasses; pass += 1) {
      const passAt = clock.monotonic()
      if ((await this.#copyChanges()) <= maxLastPassRows && clock.monotonic() - passAt <= maxLastPassMs) break
    }
    const heldAt = clock.monotonic()
    await this.#hold()
    return Math.round(clock.monotonic() - heldAt)
  }

  async #findOthers(): Promise<ReadonlySet<string>> {
    for await (const id of scanLedgerIds(this.#from)) this.#known.add(id)
    for await (const [tag] of this.#from.tables()) if (!this.#fixed.includes(tag)) this.#known.add(tag)
    return this.#known
  }

  async #mark(tag: string): Promise<void> {
    await this.#from.commit(tag, { puts: [stateCell(copying)] })
  }

  /** False where the tag has changes, and shall have none. */
  async #seal(tag: string, guards: readonly (typeof isClean)[] = []): Promise<boolean> {
    const seal = { table: moveTable, field: sealField, value: randomBytes(8).toString('hex') }
    return (await this.#from.commit(tag, { guards, puts: [stateCell(sealed), seal] })).isDone
  }

  /** Returns how many rows had been changed. */
  async #copyChanges(): Promise<number> {
    let count = 0
    await concurrently(this.#fixed, async tag => {
      count += await this.#copyChangesOf(tag)
    })
    await concurrently([...this.#reopened], async tag => {
      if (await this.#seal(tag, [isClean])) this.#reopened.delete(tag)
      else count += await this.#copyChangesOf(tag)
    })
    return count
  }

  /** What is changed after a row was taken from the list is listed again. */
  async #copyChangesOf(tag: string): Promise<number> {
    if ((await this.#from.commit(tag, { guards: [isClean] })).isDone) return 0
    await this.#from.commit(tag, { dels: [dirtyCell] })
    const changed = await this.#listChanges(tag)
    // One after the other: a part that has a whole table must not write a row as it was before another part has read it.
    for await (const some of inParts(changed)) {
      await this.#from.commit(tag, { dels: some.map(field => ({ table: changedTable, field })) })
      await this.#copyRows(tag, some)
    }
    return changed.length
  }

  /** As in the table of this name. What processes have reopened is known from then on. */
  async #listChanges(tag: string): Promise<readonly string[]> {
    const changed: string[] = []
    for await (const [field] of this.#from.scan(tag, changedTable)) {
      changed.push(field)
      if (tag === accountsTag && field.startsWith(reopenedPrefix)) this.#reopened.add(field.slice(reopenedPrefix.length))
    }
    return changed
  }

  async #copyRows(tag: string, changed: readonly string[]): Promise<void> {
    const fieldsByTable = new Map<string, string[]>()
    const tables = new Set<string>()
    for (const text of changed) {
      const at = text.indexOf('\n')
      if (at < 0) tables.add(text)
      else getOrCreate(fieldsByTable, text.slice(0, at), (): string[] => []).push(text.slice(at + 1))
    }
    fieldsByTable.delete(reopenedTable)
    await this.#copy.replaceTables(Array.from(tables, table => [tag, table] as const))
    await concurrently(fieldsByTable, async ([table, fields]) => {
      if (!tables.has(table)) await this.#copy.copyRows(tag, table, fields)
    })
    if (tag === accountsTag) await this.#copyLedgers(await changedLedgerIds(this.#from, fieldsByTable))
  }

  /** Those that have been added. */
  async #copyLedgers(ids: readonly string[]): Promise<void> {
    await concurrently(ids, async id => {
      if (this.#known.has(id)) return
      this.#known.add(id)
      await this.#seal(id)
      await this.#copy.copyTables((await ledgerTables(this.#from, id)).map(table => [id, table] as const))
    })
  }

  /** Each step that waits for another one takes a round trip, and on a busy machine a turn of two processes besides: as many as can be are taken at once. */
  async #hold(): Promise<void> {
    await this.#parts.phase.set('hold')
    // First, as no tag can be listed from then on. Heartbeats go on until the end: a process that sends none counts as dead.
    await this.#seal(accountsTag)
    const changed = await this.#listChanges(accountsTag)
    const others = this.#fixed.filter(tag => tag !== accountsTag && tag !== processesTag)
    await concurrently([accountsTag, ...others, ...this.#reopened], async tag => {
      if (tag === accountsTag) return this.#copyRows(tag, changed)
      await this.#seal(tag)
      await this.#copyRows(tag, await this.#listChanges(tag))
    })
    await this.#parts.end()
    while (!(await this.#sealProcesses()));
  }

  /** The last step: false where a heartbeat has begun another day in between. Of others, which never end, the time may be missing: it is older by a moment. */
  async #sealProcesses(): Promise<boolean> {
    const { to, toId, phase } = this.#parts
    const times = await readTable(this.#from, processesTag, recorded)
    await to.commit(processesTag, { puts: Array.from(times, ([field, value]) => ({ table: recorded, field, value })) })
    const guards = [phase.guard, { table: recorded, field: 'day', is: times.get('day') }]
    const { isDone, found } = await this.#from.commit(processesTag, {
      guards,
      puts: [stateCell(sealed), { ...moveCell('movedTo'), value: toId }],
    })
    if (found[0] !== phase.guard.is) throw new StoreError('another `tollgate store copy` of this store has taken over')
    return isDone
  }
}
