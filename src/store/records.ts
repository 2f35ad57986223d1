import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../services/clock.ts'
import { readTable, retryCommit } from './engine.ts'
import type { Commit, Engine } from './engine.ts'
import { neverExpires, unexpired } from './record-store.ts'
import type { RecordKind, RecordStore, StoredRecord } from './record-store.ts'
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
  const write = async (kind: RecordKind, record: StoredRecord, guards: Commit['guards'] = []) => {
    const committed = await engine.commit(tag, { guards, puts: putsOf(kind, record) })
    // No writer waits for it. Where it fails, writes after the next span try again.
    if (committed.isDone) void sweep().catch(() => undefined)
    return committed
  }
  const read = async (kind: RecordKind, ids: readonly string[]): Promise<readonly StoredRecord[]> => {
    const found = await readTable(engine, tag, kind, ids)
    return ids.flatMap(id => unexpired(parseRecord(found.get(id)), clock.now()) ?? [])
  }
  /** Writes where the record is as `mayReplace` says. */
  const replace = async (kind: RecordKind, record: StoredRecord, expected: string | undefined, mayReplace: Condition): Promise<boolean> => {
    let is = expected
    return retryCommit(async () => {
      const { isDone, found } = await write(kind, record, [{ table: kind, field: record.id, is }])
      if (isDone) return { result: true }
      is = found[0]
      return mayReplace(unexpired(parseRecord(is), clock.now())) ? undefined : { result: false }
    })
  }
  return {
    async putRecord(kind, record) {
      await write(kind, record)
    },
    addRecord: (kind, record) => replace(kind, record, undefined, current => current === undefined),
    async replaceRecord(kind, found, value, expires = found.expires) {
      if (unexpired(found, clock.now()) === undefined) return false
      return replace(kind, { ...found, value, expires }, JSON.stringify(found), current => isDeepStrictEqual(current, found))
    },
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

type Condition = (current: StoredRecord | undefined) => boolean

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
