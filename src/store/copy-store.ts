import { getOrCreate } from '../util/memoize.ts'
import { accountsTag, readAccounts, scanKeys } from './accounts.ts'
import type { Engine } from './engine.ts'
import { assertInUse, changedTable, moveCell, moveTable, readMove, storeId } from './movable-engine.ts'
import { heartbeats, processesTag } from './store-days.ts'
import { StoreError } from './store.ts'
import { usageTagsOfRow } from './usage.ts'

/** How much a store has. The members are those of `store copy --json`. */
export interface CopySummary {
  readonly accounts: number
  readonly keys: number
  /** Rows of all tables that were written. */
  readonly rows: number
}

/** Called with the number of rows that were written so far, after each part that was compared or written. Where it throws, the copy ends. */
export type CopyProgress = (rows: number) => void

type TableName = readonly [tag: string, table: string]

/** Read or written in one step, in which a Redis answers nobody else. */
const maxRowsPerCommit = 250
const maxConcurrent = 128

/** Copies a store that nobody uses, row by row, and compares both. Repeated after it was cut off, it goes on. */
export const copyStore = async (from: Engine, to: Engine, progress: CopyProgress): Promise<CopySummary> => {
  await assertInUse(from)
  const copy = await beginCopy(from, to, progress)
  await copy.copyAll()
  if ((await copy.copyAll()) > 0) throw new StoreError('copied, but the stores differ, as FROM was used meanwhile: copy it again')
  await to.commit(processesTag, { dels: [moveCell('copyOf')] })
  return { ...(await countAccounts(to)), rows: copy.rows }
}

export const countAccounts = async (engine: Engine): Promise<Pick<CopySummary, 'accounts' | 'keys'>> => {
  let keys = 0
  for await (const _ of scanKeys(engine)) keys += 1
  return { accounts: (await readAccounts(engine)).length, keys }
}

/** Rejects unless `to` is empty, or has a part of this store that was copied before. */
export const beginCopy = async (from: Engine, to: Engine, progress: CopyProgress): Promise<StoreCopy> => {
  const [fromId, toId] = [await storeId(from), await storeId(to)]
  if (fromId === toId) throw new StoreError('FROM and TO are the same store')
  // Opening a Redis makes a store of it: another database than that of the gateways, say.
  if (await hasNoTables(from)) throw new StoreError('nothing was copied: FROM is empty. Name the store that gateways use')
  const isEmpty = await hasNoTables(to)
  if (!isEmpty && (await readMove(to, 'copyOf')) !== fromId) {
    throw new StoreError('nothing was copied: TO is not empty. Name another folder or database, or remove what is in it')
  }
  await to.commit(processesTag, { puts: [{ ...moveCell('copyOf'), value: fromId }] })
  return new StoreCopy(from, to, isEmpty, progress)
}

const hasNoTables = async (engine: Engine): Promise<boolean> => {
  for await (const [tag, table] of engine.tables()) if (tag !== processesTag || table !== moveTable) return false
  return true
}

/** Heartbeats are by the clock of their store. */
const isCopied = ([tag, table]: TableName): boolean =>
  table !== moveTable && table !== changedTable && !(tag === processesTag && table === heartbeats)

/** Writes rows of one store to another one as they are. A row that is the same in both is not written. */
export class StoreCopy {
  /** Rows that were written or removed. */
  rows = 0
  readonly #from: Engine
  readonly #to: Engine
  readonly #progress: CopyProgress
  /** Nothing is in the target, so that it need not be read. */
  #isEmpty: boolean

  constructor(from: Engine, to: Engine, isEmpty: boolean, progress: CopyProgress) {
    this.#from = from
    this.#to = to
    this.#isEmpty = isEmpty
    this.#progress = progress
  }

  /** For what takes long and copies nothing. Throws where the copy is to end. */
  reportProgress(): void {
    this.#progress(this.rows)
  }

  /** Returns how many rows differed. */
  async copyAll(): Promise<number> {
    const before = this.rows
    await this.copyTables(this.#from.tables())
    if (!this.#isEmpty) await concurrently(this.#to.tables(), name => this.#removeOthers(name))
    this.#isEmpty = false
    return this.rows - before
  }

  copyTables(tables: AsyncIterable<TableName> | Iterable<TableName>): Promise<void> {
    return concurrently(tables, async name => {
      if (!isCopied(name)) return
      const [tag, table] = name
      for await (const rows of inParts(this.#from.scan(tag, table))) {
        const fields = rows.map(([field]) => field)
        await this.#write(tag, table, this.#isMerged(tag) ? await this.#readMerged(tag, table, fields) : new Map(rows), fields)
      }
    })
  }

  /** All rows of these tables, and no other ones. */
  async replaceTables(tables: readonly TableName[]): Promise<void> {
    await this.copyTables(tables)
    const targets = tables.flatMap(([tag, table]) => (this.#isSpread(tag) ? this.#to.usageTags : [tag]).map(to => [to, table] as const))
    await concurrently(targets, name => this.#removeOthers(name))
  }

  /** These rows of one table, also where they have been removed. */
  async copyRows(tag: string, table: string, fields: readonly string[]): Promise<void> {
    if (!isCopied([tag, table])) return
    for await (const some of inParts(fields)) await this.#write(tag, table, await readRows(this.#from, tag, table, some), some)
  }

  /** Usage has other tags in the target. */
  #isSpread(tag: string): boolean {
    return this.#from.usageTags.includes(tag) && !this.#to.usageTags.includes(tag)
  }

  /** Several tags of the source have one in the target. */
  #isMerged(tag: string): boolean {
    return this.#isSpread(tag) && this.#from.usageTags.length > this.#to.usageTags.length
  }

  /** Of a row that several tags have, the one with the greatest number: the last report of a process, say. */
  async #readMerged(tag: string, table: string, fields: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const isOfAll = usageTagsOfRow(this.#from, table, '').length > 1
    const merged = new Map<string, string>()
    for (const each of isOfAll ? this.#from.usageTags : [tag]) {
      for (const [field, value] of await readRows(this.#from, each, table, fields)) {
        if (isGreater(value, merged.get(field))) merged.set(field, value)
      }
    }
    return merged
  }

  async #removeOthers([tag, table]: TableName): Promise<void> {
    if (!isCopied([tag, table])) return
    const isSpread = this.#to.usageTags.includes(tag) && !this.#from.usageTags.includes(tag)
    for await (const rows of inParts(this.#to.scan(tag, table))) {
      const fields = rows.map(([field]) => field)
      const sources = isSpread ? new Set(fields.flatMap(field => usageTagsOfRow(this.#from, table, field))) : [tag]
      const found = new Set<string>()
      for (const each of sources) for (const field of (await readRows(this.#from, each, table, fields)).keys()) found.add(field)
      const others = fields.filter(field => !found.has(field))
      await this.#writeAt(tag, table, new Map(), others)
    }
  }

  /** `wanted` are the rows of the source; of `fields`, those that it lacks are removed. */
  async #write(tag: string, table: string, wanted: ReadonlyMap<string, string>, fields: readonly string[]): Promise<void> {
    if (!this.#isSpread(tag)) return this.#writeAt(tag, table, wanted, fields)
    const byTarget = new Map<string, string[]>()
    for (const field of fields) {
      for (const target of usageTagsOfRow(this.#to, table, field)) getOrCreate(byTarget, target, newFields).push(field)
    }
    await concurrently(byTarget, ([target, some]) => this.#writeAt(target, table, wanted, some))
  }

  async #writeAt(tag: string, table: string, wanted: ReadonlyMap<string, string>, fields: readonly string[]): Promise<void> {
    if (fields.length === 0) return
    const known = this.#isEmpty ? new Map<string, string>() : await readRows(this.#to, tag, table, fields)
    const changed = fields.filter(field => wanted.get(field) !== known.get(field))
    if (changed.length > 0) {
      await this.#to.commit(tag, {
        puts: changed.flatMap(field => {
          const value = wanted.get(field)
          return value === undefined ? [] : [{ table, field, value }]
        }),
        dels: changed.filter(field => !wanted.has(field)).map(field => ({ table, field })),
      })
    }
    this.rows += changed.length
    this.reportProgress()
  }
}

const newFields = (): string[] => []

const isGreater = (value: string, other: string | undefined): boolean => {
  if (other === undefined) return true
  const [one, two] = [value, other].map(text => Number.parseInt(text, 10))
  return one === two ? value > other : (one ?? 0) > (two ?? 0)
}

const readRows = async (engine: Engine, tag: string, table: string, fields: readonly string[]): Promise<ReadonlyMap<string, string>> =>
  (await engine.read(tag, [{ table, fields }])).tables[0] ?? new Map<string, string>()

export const inParts = async function* <T>(items: AsyncIterable<T> | Iterable<T>): AsyncGenerator<readonly T[]> {
  let part: T[] = []
  for await (const item of items) {
    part.push(item)
    if (part.length < maxRowsPerCommit) continue
    yield part
    part = []
  }
  if (part.length > 0) yield part
}

/** Many at a time. Rejects with the first error, when all that has begun has ended. */
export const concurrently = async <T>(items: AsyncIterable<T> | Iterable<T>, work: (item: T) => Promise<void>): Promise<void> => {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  let hasFailed = false
  const workThrough = async (): Promise<void> => {
    while (!hasFailed) {
      const next = await iterator.next()
      if (next.done === true) return
      await work(next.value)
    }
  }
  const workers = Array.from({ length: maxConcurrent }, () =>
    workThrough().catch((error: unknown) => {
      hasFailed = true
      throw error
    }),
  )
  const failed = (await Promise.allSettled(workers)).find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

/** Those that are there before anything is in them. */
export const fixedTags = ({ usageTags }: Engine): readonly string[] => [accountsTag, processesTag, ...usageTags, 'requests', 'portal']
