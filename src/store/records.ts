import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../services/clock.ts'
import { readTable, retryCommit } from './engine.ts'
import type { Commit, Engine } from './engine.ts'
import { neverExpires, unexpired } from './record-store.ts'
import type { RecordChange, RecordKind, RecordStore, StoredRecord } from './record-store.ts'
import type { StoreDays } from './store-days.ts'

/** Records are in the table of their kind, by id, as JSON. */
const tag = 'portal'

/** Ids of the records of one kind and account. */
const idsOf = (kind: RecordKind, account: string): string => `${kind}-of:${account}`

/** The spans of time in which records expire. */
const spans = 'expiring'
/** `<kind>:<id>` of the records that expire in one span. */
const expiringIn = (span: string): string => `expiring:${span}`
const spanMs = 600_000
const spanOf = (timeMs: number): string => `${Math.floor(timeMs / spanMs)}`

/**
 * Whether a record has expired is decided by the clock of the gateway that reads it. One wrong clock alone removes nothing for others:
 * a record is removed once it has expired by the clock of the gateway and by the store's time, which follows no far jump.
 */
export const openRecordStore = (engine: Engine, clock: Pick<Clock, 'now'>, days: StoreDays): RecordStore => {
  let sweptSpan = 0
  const sweep = async (): Promise<void> => {
    const past = Math.min(clock.now(), (await days.current()).now)
    // Of the span before, too, a clock that is slow may still write.
    const span = Math.floor(past / spanMs) - 1
    if (span <= sweptSpan) return
    sweptSpan = span
    await removeExpired(engine, past, span)
  }
  const write = async (commit: Commit) => {
    const committed = await engine.commit(tag, commit)
    // No writer waits for it. Where it fails, writes after the next span try again.
    if (committed.isDone) void sweep().catch(() => undefined)
    return committed
  }
  const read = async (kind: RecordKind, ids: readonly string[]): Promise<readonly StoredRecord[]> => {
    const found = await readTable(engine, tag, kind, ids)
    return ids.flatMap(id => unexpired(parseRecord(found.get(id)), clock.now()) ?? [])
  }
  const changeRecords: RecordStore['changeRecords'] = async changes => {
    const isAsFound = ({ found }: RecordChange, text: string | undefined): boolean =>
      isDeepStrictEqual(unexpired(parseRecord(text), clock.now()), found)
    const hasExpired = changes.some(({ found }) => found !== undefined && unexpired(found, clock.now()) === undefined)
    if (hasExpired) return false
    const cells = changes.map(({ kind, id }) => ({ table: kind, field: id }))
    const puts = changes.flatMap(({ kind, record }) => (record === undefined ? [] : putsOf(kind, record)))
    const dels = changes.flatMap(({ kind, found, record }) => (found !== undefined && record === undefined ? delsOf(kind, found) : []))
    let texts: readonly (string | undefined)[] = changes.map(({ found }) => found && JSON.stringify(found))
    return retryCommit(async () => {
      const { isDone, found } = await write({ guards: cells.map((cell, i) => ({ ...cell, is: texts[i] })), puts, dels })
      if (isDone) return { result: true }
      // The same may be written in another way, and what has expired may not have been removed yet.
      texts = found
      return changes.every((change, i) => isAsFound(change, found[i])) ? undefined : { result: false }
    })
  }
  return {
    changeRecords,
    async putRecord(kind, record) {
      await write({ puts: putsOf(kind, record) })
    },
    addRecord: (kind, record) => changeRecords([{ kind, id: record.id, record }]),
    replaceRecord: (kind, found, value, expires = found.expires) =>
      changeRecords([{ kind, id: found.id, found, record: { ...found, value, expires } }]),
    async findRecord(kind, id) {
      return (await read(kind, [id]))[0]
    },
    takeRecord: (kind, id) =>
      retryCommit(async () => {
        const is = (await readTable(engine, tag, kind, [id])).get(id)
        const record = parseRecord(is)
        if (record === undefined) return { result: undefined }
        const { isDone } = await engine.commit(tag, { guards: [{ table: kind, field: id, is }], dels: delsOf(kind, record) })
        return isDone ? { result: unexpired(record, clock.now()) } : undefined
      }),
    async records(kind, account) {
      const ids = [...(await readTable(engine, tag, idsOf(kind, account))).keys()].sort()
      if (ids.length === 0) return []
      return (await read(kind, ids)).filter(record => record.account === account)
    },
  }
}

const parseRecord = (text: string | undefined): StoredRecord | undefined =>
  text === undefined ? undefined : (JSON.parse(text) as StoredRecord) // written below

const putsOf = (kind: RecordKind, record: StoredRecord): NonNullable<Commit['puts']> => {
  const { id, account, expires } = record
  const puts = [
    { table: kind, field: id, value: JSON.stringify(record) },
    { table: idsOf(kind, account), field: id, value: '' },
  ]
  if (expires >= neverExpires) return puts
  const span = spanOf(expires)
  return [...puts, { table: spans, field: span, value: '' }, { table: expiringIn(span), field: `${kind}:${id}`, value: '' }]
}

const delsOf = (kind: RecordKind, { id, account, expires }: StoredRecord) => [
  { table: kind, field: id },
  { table: idsOf(kind, account), field: id },
  { table: expiringIn(spanOf(expires)), field: `${kind}:${id}` },
]

/** Removed in one step, during which the store answers nobody else. */
const maxRemovedPerCommit = 50

/** Removes what has expired in the spans before `endSpan`, and those spans. A span with a record that changes meanwhile stays for the next time. */
const removeExpired = async (engine: Engine, past: number, endSpan: number): Promise<void> => {
  const ended = [...(await readTable(engine, tag, spans)).keys()].filter(span => Number(span) < endSpan)
  for (const span of ended) {
    const members = [...(await readTable(engine, tag, expiringIn(span))).keys()]
    let isRemoved = true
    for (let from = 0; from < members.length; from += maxRemovedPerCommit) {
      isRemoved = (await removeMembers(engine, past, members.slice(from, from + maxRemovedPerCommit))) && isRemoved
    }
    if (isRemoved) await engine.commit(tag, { dels: [{ table: spans, field: span }], drops: [expiringIn(span)] })
  }
}

const removeMembers = async (engine: Engine, past: number, members: readonly string[]): Promise<boolean> => {
  const cells = members.map(member => ({
    table: member.slice(0, member.indexOf(':')) as RecordKind,
    field: member.slice(member.indexOf(':') + 1),
  }))
  const { tables } = await engine.read(
    tag,
    cells.map(({ table, field }) => ({ table, fields: [field] })),
  )
  const expired = cells.flatMap((cell, i) => {
    const is = tables[i]?.get(cell.field)
    const record = parseRecord(is)
    // A record that was given more time is in another span too.
    return record !== undefined && record.expires <= past ? [{ ...cell, is, record }] : []
  })
  const guards = expired.map(({ table, field, is }) => ({ table, field, is }))
  const dels = expired.flatMap(({ table, record }) => delsOf(table, record))
  return (await engine.commit(tag, { guards, dels })).isDone
}
