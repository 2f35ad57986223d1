import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../services/clock.ts'
import { singleFlight } from '../util/async.ts'
import { accountsTag } from './accounts.ts'
import { readTable } from './engine.ts'
import type { Commit, CommitResult, Engine } from './engine.ts'
import { processesTag } from './store-days.ts'
import { StoreError, storeLimits } from './store.ts'
import type { UsedShares } from './store.ts'

// How a store is copied to another one while processes use it (switch-store.ts). Each commit of such a process has one guard more, the state of its
// tag: so a commit is either recorded for the copy, or refused because the tag is sealed. Of most accounts the tag is sealed before it is copied, and a
// process that changes it reopens it: it lists the tag first, which is refused once the store is held. Processes that know no successor do without, and
// a copy does not begin while there are any: a commit with one more key costs time, and fails while a cluster moves its slot.

/** In each tag; its rows are not copied. */
export const moveTable = 'move'
/** Of each tag: undefined while the store is not copied. */
export const stateField = 'state'
/** Commits record in `changed` what they change: `TABLE\nFIELD`, or the table where all of it is removed. */
export const copying = 'copying'
export const changedTable = 'changed'
/** Present where something was changed that is not copied, so that `changed` need not be read. */
export const dirtyCell = { table: moveTable, field: 'dirty' } as const
/** Nothing is committed. */
export const sealed = 'sealed'
/** Another one each time the tag is sealed: a process that has listed the tag before cannot reopen it any more. */
export const sealField = 'seal'
/** Tags that processes reopen are listed in `changed` of the tag of accounts, the first that is sealed when the store is held, as rows of this table. */
export const reopenedTable = 'reopened'

/** Of the store, in the tag of processes. */
export const moveFields = {
  /** Random. */
  id: 'id',
  /** Present from the first mark on: `KIND RUN TIME`, of the run of `store copy`, and when it last wrote this by the engine's clock. */
  phase: 'phase',
  /** The id of the store that has taken its place. */
  movedTo: 'movedTo',
  /** The id of the store whose place it has taken. */
  movedFrom: 'movedFrom',
  /** The id of the store that is being copied into this one. */
  copyOf: 'copyOf',
} as const

export const readMove = async (engine: Engine, field: keyof typeof moveFields): Promise<string | undefined> =>
  (await readTable(engine, processesTag, moveTable, [moveFields[field]])).get(moveFields[field])

export const moveCell = (field: keyof typeof moveFields) => ({ table: moveTable, field: moveFields[field] })

export const storeId = async (engine: Engine): Promise<string> => {
  const found = await readMove(engine, 'id')
  if (found !== undefined) return found
  const [cell, value] = [moveCell('id'), randomBytes(8).toString('hex')]
  const commit = await engine.commit(processesTag, { guards: [{ ...cell, is: undefined }], puts: [{ ...cell, value }] })
  return commit.found[0] ?? value
}

/** The store that takes the place of another one. */
interface Successor {
  readonly engine: Engine
  readonly id: string
}

/** Sealed tags cannot be reopened. */
const heldPhase = /^hold /

/** For so long a commit waits for a tag that is sealed. */
const maxHoldMs = 5_000
const pollIntervalMs = 50
/** A process that only reads notices after so long that the successor is in use. */
const readCheckIntervalMs = 1_000
/** For what still reads. */
const closeDelayMs = 10_000

const heldError =
  'the store is being copied to another one, and takes no changes meanwhile: run `tollgate store copy --switch` again if it has ended'
const movedError = 'the store has been copied to another one, which is in use: let `store` in gateway.yaml name that one'

/** Rejects where no process may use the store, or not any more. Tells whether it is being copied. */
export const assertInUse = async (engine: Engine): Promise<{ readonly isBeingCopied: boolean }> => {
  const rows = await readTable(engine, processesTag, moveTable)
  if (rows.has(moveFields.movedTo)) throw new StoreError(movedError)
  if (rows.has(moveFields.copyOf)) {
    throw new StoreError('the store is an unfinished copy of another one: run `tollgate store copy` again, which goes on with it')
  }
  return { isBeingCopied: rows.has(moveFields.phase) }
}

/** An engine that may be copied to another one, and that goes over to its successor where this process knows it. */
export const openMovableEngine = (engine: Engine, clock: Pick<Clock, 'monotonic'>, successor?: Successor): Engine => {
  /** The states of tags, as far as they have been found. */
  const states = new Map<string, string>()
  const listeners = new Set<(notifies?: string) => void>()
  let current = engine
  let checkedAt = clock.monotonic()
  let closing: NodeJS.Timeout | undefined

  /** Usage of the successor may be spread differently: what was sent for the old tag is to be sent again. */
  const assertRouted = (tag: string): void => {
    const isForeign = current !== engine && engine.usageTags.includes(tag) && !current.usageTags.includes(tag)
    if (isForeign) throw new StoreError('another store has just taken the place of this one')
  }
  const goOver = (id: string): void => {
    if (successor === undefined) throw new StoreError(movedError)
    if (id !== successor.id) throw new StoreError(`${movedError}; it is not the one that \`store\` names behind the arrow`)
    if (current === successor.engine) return
    current = successor.engine
    states.clear()
    closing = setTimeout(() => void engine.close(), closeDelayMs).unref()
    for (const onChange of listeners) onChange()
  }
  /** The old store may be gone once the successor is in use. */
  const goOverIfMoved = async (): Promise<void> => {
    if (successor === undefined || current !== engine) return
    try {
      const id = await readMove(engine, 'movedTo')
      if (id !== undefined) goOver(id)
    } catch (error) {
      if ((await readMove(successor.engine, 'movedFrom')) === undefined) throw error
      goOver(successor.id)
    }
  }
  const beforeRead = async (): Promise<void> => {
    if (successor === undefined || current !== engine || clock.monotonic() - checkedAt < readCheckIntervalMs) return
    checkedAt = clock.monotonic()
    await goOverIfMoved()
  }
  const whenReleased = singleFlight(async (): Promise<void> => {
    for (let waitedMs = 0; waitedMs < maxHoldMs; waitedMs += pollIntervalMs) {
      const rows = await readTable(engine, processesTag, moveTable)
      const id = rows.get(moveFields.movedTo)
      if (id !== undefined) return goOver(id)
      await sleep(pollIntervalMs)
      if (!heldPhase.test(rows.get(moveFields.phase) ?? '')) return
    }
    throw new StoreError(heldError)
  })
  /** False where the store is held, or has been released. */
  const reopen = async (tag: string): Promise<boolean> => {
    const seal = (await readTable(engine, tag, moveTable, [sealField])).get(sealField)
    const entry = { table: changedTable, field: `${reopenedTable}\n${tag}`, value: '' }
    const listed = await engine.commit(accountsTag, { guards: [stateGuard(copying)], puts: [entry, { ...dirtyCell, value: '' }] })
    if (!listed.isDone) return false
    const guards = [stateGuard(sealed), { table: moveTable, field: sealField, is: seal }]
    const reopened = await engine.commit(tag, { guards, puts: [{ table: moveTable, field: stateField, value: copying }] })
    if (reopened.isDone) states.set(tag, copying)
    return true
  }
  const commitGuarded = async (tag: string, commit: Commit): Promise<CommitResult> => {
    let waitsSince: number | undefined
    for (;;) {
      assertRouted(tag)
      if (current !== engine) return current.commit(tag, commit)
      const state = states.get(tag)
      const { isDone, clockNow, found } = await engine.commit(tag, withState(commit, state))
      const foundState = found.at(-1)
      if (foundState === state) return { isDone, clockNow, found: found.slice(0, -1) }
      states.delete(tag)
      if (foundState === sealed) {
        if (await reopen(tag)) continue
        waitsSince ??= clock.monotonic()
        if (clock.monotonic() - waitsSince > maxHoldMs) throw new StoreError(heldError)
        await whenReleased()
      } else if (foundState !== undefined) states.set(tag, foundState)
    }
  }
  return {
    horizonMs: Math.max(engine.horizonMs, successor?.engine.horizonMs ?? 0),
    warnings: [...engine.warnings, ...(successor?.engine.warnings ?? [])],
    get usageTags() {
      return current.usageTags
    },
    usageTagOf: account => current.usageTagOf(account),
    get successorId() {
      return current === engine ? successor?.id : undefined
    },
    async read(tag, reads) {
      await beforeRead()
      assertRouted(tag)
      return current.read(tag, reads)
    },
    async *scan(tag, table) {
      await beforeRead()
      assertRouted(tag)
      yield* current.scan(tag, table)
    },
    tables: () => current.tables(),
    async usedShares() {
      await beforeRead()
      const isCopied = successor !== undefined && current === engine && (await readMove(engine, 'phase')) !== undefined
      const shares = (isCopied ? [engine, successor.engine] : [current]).map(async each => (await each.usedShares?.()) ?? {})
      return greatestShares(await Promise.all(shares))
    },
    async commit(tag, commit) {
      try {
        return await commitGuarded(tag, commit)
      } catch (error) {
        await goOverIfMoved().catch(() => undefined)
        throw error
      }
    },
    watch(onChange) {
      listeners.add(onChange)
      const unwatch = [engine, successor?.engine].map(each => each?.watch(onChange))
      return () => {
        listeners.delete(onChange)
        for (const end of unwatch) end?.()
      }
    },
    mayRun: pid => current.mayRun(pid),
    async close() {
      clearTimeout(closing)
      await Promise.all([engine.close(), successor?.engine.close()])
    },
  }
}

const greatestShares = (all: readonly UsedShares[]): UsedShares =>
  Object.fromEntries(
    storeLimits.flatMap(limit => {
      const shares = all.flatMap(each => each[limit] ?? [])
      return shares.length === 0 ? [] : [[limit, Math.max(...shares)] as const]
    }),
  )

const stateGuard = (is: string | undefined) => ({ table: moveTable, field: stateField, is }) as const

const withState = (commit: Commit, state: string | undefined): Commit => {
  const { guards = [], puts = [] } = commit
  const changes = state === copying ? changesOf(commit) : []
  const marks = changes.map(field => ({ table: changedTable, field, value: '' }))
  if (marks.length > 0) marks.push({ ...dirtyCell, value: '' })
  return { ...commit, guards: [...guards, stateGuard(state)], puts: [...puts, ...marks] }
}

const changesOf = ({ puts = [], adds = [], sums = [], dels = [], drops = [] }: Commit): readonly string[] => {
  const cells = [...puts, ...adds, ...sums, ...dels].map(({ table, field }) => `${table}\n${field}`)
  return [...new Set([...cells, ...drops])]
}
