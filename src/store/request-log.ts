import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { parseVector, readTable, retryCommit } from './engine.ts'
import type { Engine } from './engine.ts'
import { maxFoundRequests, maxReadRequests, maxRequestsPerAccount, requestSpanMs } from './request-log-store.ts'
import type { Amendment, FoundRequest, LoggedRequest, RequestBatch, RequestLogStore, StoredRequest } from './request-log-store.ts'
import type { StoreDays } from './store-days.ts'
import { getOrCreate } from '../util/memoize.ts'

const tag = 'requests'

/** The batches of one account in a span, by their ids: JSON. */
const logOf = (account: string, span: string): string => `log:${account}:${span}`
/** By span: the number and the bytes of one account's requests. */
const spansOf = (account: string): string => `spansOf:${account}`
/** By account: the same. */
const accountsIn = (span: string): string => `accounts:${span}`
/** By batch: its accounts, each with the digests of its request ids behind it. */
const idsIn = (span: string): string => `ids:${span}`
/** By account: what of its requests is stored, where that is not all. */
const settings = 'settings'
/** By span: the bytes of all accounts, with those of the ids. */
const spans = 'spans'
/** The bytes of all spans: a batch is written only where they stay below the limit. */
const size = { table: 'size', field: 'bytes' }

export const openRequestLogStore = (engine: Engine, days: StoreDays): RequestLogStore => ({
  async addRequests({ id, accounts: all }, limits) {
    const span = `${Math.floor((await days.current()).now / requestSpanMs)}`
    let known: readonly (string | undefined)[] = all.map(() => undefined)
    await retryCommit(async () => {
      const accounts = limitAccounts(all, known)
      const rows = accounts.map(({ account, requests }) => {
        const value = JSON.stringify(requests)
        return { account, value, sums: [requests.length, Buffer.byteLength(value)] as const }
      })
      const [first] = rows
      if (first === undefined) return { result: undefined }
      const ids = accounts.map(({ account, requests }) => `${account} ${digestsOf(requests)}`).join(' ')
      const bytes = rows.reduce((sum, row) => sum + row.sums[1], ids.length)
      const { isDone, found } = await engine.commit(tag, {
        guards: [
          { table: logOf(first.account, span), field: id, is: undefined },
          { ...size, atMost: limits.maxBytes - bytes },
          ...all.map(({ account }, i) => ({ table: settings, field: account, is: known[i] })),
        ],
        puts: [
          ...rows.map(({ account, value }) => ({ table: logOf(account, span), field: id, value })),
          { table: idsIn(span), field: id, value: ids },
        ],
        adds: [
          { table: spans, field: span, by: bytes },
          { ...size, by: bytes },
        ],
        sums: rows.flatMap(({ account, sums }) => [
          { table: spansOf(account), field: span, by: sums },
          { table: accountsIn(span), field: account, by: sums },
        ]),
      })
      if (isDone || found[0] !== undefined) return { result: undefined }
      const isKnown = found.slice(2).every((setting, i) => setting === known[i])
      known = found.slice(2)
      if (!isKnown) return undefined
      const [oldest] = await readSpans(engine)
      // A single span that is full drops what comes, until it is over.
      if (oldest === undefined || oldest === span) return { result: undefined }
      await dropSpan(engine, oldest)
      return undefined
    })
  },
  async amendRequests(amendments) {
    const byBatch = new Map<string, Amendment[]>()
    for (const amendment of amendments) getOrCreate(byBatch, `${amendment.account} ${amendment.batch}`, newAmendments).push(amendment)
    for (const [first, ...rest] of byBatch.values()) {
      if (first === undefined) continue
      // A batch that was sent again may be in two.
      for (const span of (await readAccountSpans(engine, first.account)).slice(-2)) await amendBatch(engine, span, [first, ...rest])
    }
  },
  async sweepRequests({ retentionMs, maxBytes }, accounts) {
    const firstKept = Math.floor(((await days.current()).now - retentionMs) / requestSpanMs)
    for (const span of await readSpans(engine)) {
      const bytes = Number((await readTable(engine, tag, size.table)).get(size.field) ?? 0)
      if (Number(span) >= firstKept && bytes <= maxBytes) break
      await dropSpan(engine, span)
    }
    for (const account of accounts) await trim(engine, account)
  },
  async requests(account) {
    const found = await readAccountSpans(engine, account)
    const batches = new Map<string, string>()
    for (let i = 0; i < found.length; i += spansPerRead) {
      const reads = found.slice(i, i + spansPerRead).map(span => ({ table: logOf(account, span) }))
      for (const rows of (await engine.read(tag, reads)).tables) for (const [id, value] of rows) batches.set(id, value)
    }
    const requests = Array.from(batches, ([id, value]) => parseBatch(id, value)).flat()
    return requests.sort(byAge)
  },
  async findRequests(requestId) {
    // By account and id: a batch that was sent again in the next span is in both.
    const found = new Map<string, FoundRequest>()
    const newestFirst = (await readSpans(engine)).toReversed()
    for (let from = 0; from < newestFirst.length && found.size < maxFoundRequests; from += spansPerRead) {
      const some = newestFirst.slice(from, from + spansPerRead)
      const { tables } = await engine.read(
        tag,
        some.map(span => ({ table: idsIn(span) })),
      )
      for (const [i, span] of some.entries()) {
        for (const request of await readFound(engine, span, requestId, tables[i])) found.set(`${request.account} ${request.id}`, request)
        if (found.size >= maxFoundRequests) break
      }
    }
    return [...found.values()].sort(byAge).slice(0, maxFoundRequests)
  },
  async latestRequests({ since, until = Infinity, limit, isWanted }) {
    const found = new Map<string, FoundRequest>()
    const newest = () => [...found.values()].sort(byAge).slice(0, limit)
    let readCount = 0
    // What ended before `until` is in its own span or the next one, but for what a process had to keep for longer.
    const unreadSpans = (await readSpans(engine)).filter(span => (Number(span) - 1) * requestSpanMs < until)
    const sequences: BatchSequence[] = []
    for (;;) {
      const first = sequences.reduce((latest, each) => (each.readFrom > latest.readFrom ? each : latest), noBatches)
      const span = unreadSpans.at(-1)
      const spanEnd = span === undefined ? -Infinity : endOf(span)
      // Of requests that are not read, none is newer. What a process had to keep for a while is in a later span than newer ones of others.
      const readFrom = Math.max(first.readFrom, spanEnd)
      const enough = found.size < limit ? since : (newest().at(-1)?.time ?? since)
      if (readFrom <= enough || readCount >= maxReadRequests) return { requests: newest(), readFrom: Math.max(readFrom, since) }
      if (span !== undefined && spanEnd > first.readFrom) {
        unreadSpans.pop()
        sequences.push(...batchesByProcess(span, await readTable(engine, tag, idsIn(span))))
        continue
      }
      // Of each of many processes, few batches are among the newest.
      const batches = first.unread.splice(-Math.ceil(batchesPerRead / sequences.length))
      if (first.unread.length === 0) sequences.splice(sequences.indexOf(first), 1)
      for await (const request of readBatches(engine, first.span, batches)) {
        readCount += 1
        first.readFrom = Math.min(first.readFrom, request.time)
        if (request.time >= since && request.time < until && isWanted(request)) found.set(`${request.account} ${request.id}`, request)
      }
    }
  },
  async dropRequests(account) {
    await engine.commit(tag, { dels: [{ table: settings, field: account }] })
    await dropAccount(engine, account)
  },
  async limitRequests(account, setting) {
    const own = { table: settings, field: account }
    await engine.commit(tag, setting === undefined ? { dels: [own] } : { puts: [{ ...own, value: setting }] })
    if (setting !== undefined) await dropAccount(engine, account)
  },
})

/** What is stored of these accounts, by the setting of each. */
const limitAccounts = (accounts: RequestBatch['accounts'], limits: readonly (string | undefined)[]): RequestBatch['accounts'] =>
  accounts.flatMap(({ account, requests }, i) => {
    const setting = limits[i]
    if (setting === undefined) return [{ account, requests }]
    return setting === 'off' ? [] : [{ account, requests: requests.map(withoutParams) }]
  })

/** The message of an error may name a parameter. */
const withoutParams = ({ params: _params, isCut: _isCut, message: _message, ...request }: LoggedRequest): LoggedRequest => ({
  ...request,
  paramsOmitted: 'setting',
})

const newAmendments = (): Amendment[] => []

/** All of one batch and account. */
const amendBatch = (engine: Engine, span: string, [first, ...rest]: readonly [Amendment, ...Amendment[]]): Promise<void> =>
  retryCommit(async () => {
    const { account, batch } = first
    const own = { table: logOf(account, span), field: batch }
    const is = (await readTable(engine, tag, own.table, [batch])).get(batch)
    if (is === undefined) return { result: undefined }
    const requests = JSON.parse(is) as LoggedRequest[] // written above
    for (const { position, outcome, code, message, credits } of [first, ...rest]) {
      const { category: _category, meant: _meant, ...request } = requests[position]!
      requests[position] = { ...request, outcome, credits, ...(code !== undefined && { code }), ...(message !== undefined && { message }) }
    }
    const value = JSON.stringify(requests)
    const bytes = Buffer.byteLength(value) - Buffer.byteLength(is)
    const { isDone } = await engine.commit(tag, {
      guards: [{ ...own, is }],
      puts: [{ ...own, value }],
      adds: [
        { table: spans, field: span, by: bytes },
        { ...size, by: bytes },
      ],
      sums: [
        { table: spansOf(account), field: span, by: [0, bytes] },
        { table: accountsIn(span), field: account, by: [0, bytes] },
      ],
    })
    return isDone ? { result: undefined } : undefined
  })

const dropAccount = async (engine: Engine, account: string): Promise<void> => {
  for (const span of await readAccountSpans(engine, account)) await dropAccountSpan(engine, account, span)
}

/** Read in one step, in which a Redis answers nobody else. */
const spansPerRead = 24

const parseBatch = (id: string, value: string): readonly StoredRequest[] =>
  (JSON.parse(value) as readonly LoggedRequest[]).map((request, i) => ({ id: `${id}.${i}`, ...request })) // written above

/** The newest first. */
const byAge = (a: StoredRequest, b: StoredRequest): number => b.time - a.time || (a.id < b.id ? 1 : -1)

/** Of 36 bits: what is found by them is compared. A log of 64 MiB has 2 MB of them. */
const digestChars = 6

const digestOf = (requestId: string): string => hash('sha1', requestId, 'base64url').slice(0, digestChars)

/** Once each: all calls of a batch, or of a WebSocket, have one id. */
const digestsOf = (requests: readonly LoggedRequest[]): string =>
  Array.from(new Set(requests.map(({ requestId }) => requestId)), digestOf).join('')

const batchesPerRead = 24

const readFound = async (
  engine: Engine,
  span: string,
  requestId: string,
  ids: ReadonlyMap<string, string> = new Map(),
): Promise<readonly FoundRequest[]> => {
  const found: FoundRequest[] = []
  for await (const request of readParts(engine, span, partsWith(ids, digestOf(requestId))))
    if (request.requestId === requestId) found.push(request)
  return found
}

/** Of a batch, the requests of one account. */
interface BatchPart {
  readonly account: string
  readonly id: string
}

/** Others who use the store get their turn in between. */
async function* readParts(engine: Engine, span: string, parts: readonly BatchPart[]): AsyncGenerator<FoundRequest> {
  for (let from = 0; from < parts.length; from += batchesPerRead) {
    const some = parts.slice(from, from + batchesPerRead)
    const { tables } = await engine.read(
      tag,
      some.map(({ account, id }) => ({ table: logOf(account, span), fields: [id] })),
    )
    for (const [i, { account, id }] of some.entries()) {
      const value = tables[i]?.get(id)
      if (value !== undefined) for (const request of parseBatch(id, value)) yield { ...request, account }
    }
    await setImmediate()
  }
}

/** The digest may also be found across two others, which costs a look. */
const partsWith = (ids: ReadonlyMap<string, string>, digest: string): readonly BatchPart[] =>
  Array.from(ids).flatMap(([id, value]) => (value.includes(digest) ? partsOf(id, value, digest) : []))

const partsOf = (id: string, value: string, digest = ''): readonly BatchPart[] => {
  const words = value.split(' ')
  return words.flatMap((digests, i) => (i % 2 === 1 && digests.includes(digest) ? [{ account: words[i - 1] ?? '', id }] : []))
}

/** The batches of one process in a span, which are in the order of time. */
interface BatchSequence {
  readonly span: string
  /** The newest last: the id, and the accounts with their digests. */
  readonly unread: (readonly [id: string, ids: string])[]
  /** The time of the oldest request that was read; before one is, the end of the span. */
  readFrom: number
}

const noBatches: BatchSequence = { span: '', unread: [], readFrom: -Infinity }

const endOf = (span: string): number => (Number(span) + 1) * requestSpanMs

/** A process numbers its batches. */
const batchesByProcess = (span: string, ids: Iterable<readonly [id: string, ids: string]>): BatchSequence[] => {
  const sequences = new Map<string, BatchSequence>()
  const newSequence = (): BatchSequence => ({ span, unread: [], readFrom: endOf(span) })
  for (const batch of ids) getOrCreate(sequences, batch[0].slice(0, batch[0].lastIndexOf('-')), newSequence).unread.push(batch)
  const numberOf = (id: string): number => Number(id.slice(id.lastIndexOf('-') + 1))
  for (const { unread } of sequences.values()) unread.sort(([a], [b]) => numberOf(a) - numberOf(b))
  return [...sequences.values()]
}

const readBatches = (engine: Engine, span: string, batches: BatchSequence['unread']): AsyncGenerator<FoundRequest> =>
  readParts(
    engine,
    span,
    batches.flatMap(([id, ids]) => partsOf(id, ids)),
  )

/** The oldest first. */
const readSpans = async (engine: Engine): Promise<readonly string[]> => bySpan((await readTable(engine, tag, spans)).keys())

const readAccountSpans = async (engine: Engine, account: string): Promise<readonly string[]> =>
  bySpan((await readTable(engine, tag, spansOf(account))).keys())

const bySpan = (found: Iterable<string>): readonly string[] => [...found].sort((a, b) => Number(a) - Number(b))

/** Drops the oldest spans of an account that has too many requests. */
const trim = async (engine: Engine, account: string): Promise<void> => {
  const counts = [...(await readTable(engine, tag, spansOf(account)))].map(([span, row]) => ({ span, count: parseVector(row)[0] ?? 0 }))
  let excess = counts.reduce((sum, { count }) => sum + count, -maxRequestsPerAccount)
  // The newest span stays.
  for (const { span, count } of counts.sort((a, b) => Number(a.span) - Number(b.span)).slice(0, -1)) {
    if (excess <= 0) return
    await dropAccountSpan(engine, account, span)
    excess -= count
  }
}

const dropAccountSpan = (engine: Engine, account: string, span: string): Promise<void> =>
  retryCommit(async () => {
    const own = { table: spansOf(account), field: span }
    const is = (await readTable(engine, tag, own.table, [span])).get(span)
    if (is === undefined) return { result: undefined }
    const [, bytes = 0] = parseVector(is)
    const { isDone } = await engine.commit(tag, {
      guards: [{ ...own, is }],
      adds: [
        { table: spans, field: span, by: -bytes },
        { ...size, by: -bytes },
      ],
      dels: [own, { table: accountsIn(span), field: account }],
      drops: [logOf(account, span)],
    })
    return isDone ? { result: undefined } : undefined
  })

/** Dropped in one step, during which the store answers nobody else. */
const accountsPerCommit = 50

/** The span itself last: what is cut off is done again. */
const dropSpan = async (engine: Engine, span: string): Promise<void> => {
  const accounts = [...(await readTable(engine, tag, accountsIn(span))).keys()]
  for (let from = 0; from < accounts.length; from += accountsPerCommit) {
    const some = accounts.slice(from, from + accountsPerCommit)
    await engine.commit(tag, {
      dels: some.map(account => ({ table: spansOf(account), field: span })),
      drops: some.map(account => logOf(account, span)),
    })
  }
  const own = { table: spans, field: span }
  const is = (await readTable(engine, tag, spans, [span])).get(span)
  // Of several processes, one takes its bytes off.
  await engine.commit(tag, {
    guards: [{ ...own, is }],
    adds: [{ ...size, by: -Number(is ?? 0) }],
    dels: [own],
    drops: [accountsIn(span), idsIn(span)],
  })
}
