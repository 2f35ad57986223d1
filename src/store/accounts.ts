import { readTable, retryCommit } from './engine.ts'
import type { Commit, Engine } from './engine.ts'
import { StoreEmptiedError, applyChange, changeGroupOf } from './store.ts'
import type { AccountRow, AccountStore, ChangeCounts, KeyRow } from './store.ts'

/** Accounts and keys have one tag: a key and its account change together. Rows are JSON. */
export const accountsTag = 'accounts'

/** By id. */
const accounts = 'accounts'
const accountIdsByName = 'accountIdsByName'
/** By the hash of the key's text. */
const keys = 'keys'
const keyHashesById = 'keyHashesById'
/** Fields are the hashes of the keys of one account. */
const keyHashesOf = (account: string): string => `keyHashes:${account}`

/** How many changes of accounts and keys there have been: `count`, and one field for each group of accounts. */
const changes = { table: 'changes', field: 'count' }

const parseRow = <T>(text: string | undefined): T | undefined => (text === undefined ? undefined : (JSON.parse(text) as T)) // written below

interface HashedKey {
  readonly hash: string
  readonly key: KeyRow
}

/** An account's keys, in the order of their creation. */
const readHashedKeys = async (engine: Engine, account: string): Promise<readonly HashedKey[]> => {
  const hashes = [...(await readTable(engine, accountsTag, keyHashesOf(account))).keys()]
  if (hashes.length === 0) return []
  const found = Array.from(await readTable(engine, accountsTag, keys, hashes), ([hash, text]) => ({
    hash,
    key: JSON.parse(text) as KeyRow,
  }))
  return found.sort((a, b) => a.key.created - b.key.created || (a.key.id < b.key.id ? -1 : 1))
}

export const readAccounts = async (engine: Pick<Engine, 'scan'>): Promise<readonly AccountRow[]> => {
  const rows: AccountRow[] = []
  for await (const [, text] of engine.scan(accountsTag, accounts)) rows.push(JSON.parse(text) as AccountRow)
  return rows.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Of all accounts, in any order: those that have the member as JSON, or all. To parse a million of them takes seconds. */
export const scanKeys = async function* (engine: Pick<Engine, 'scan'>, member = ''): AsyncGenerator<KeyRow> {
  for await (const [, text] of engine.scan(accountsTag, keys)) if (text.includes(member)) yield JSON.parse(text) as KeyRow
}

/** Those of accounts, and of keys with daily credits of their own: each is the tag of a ledger. In any order. */
export const scanLedgerIds = async function* (engine: Pick<Engine, 'scan'>): AsyncGenerator<string> {
  for await (const [id] of engine.scan(accountsTag, accounts)) yield id
  for await (const { id, dailyCredits } of scanKeys(engine, '"dailyCredits"')) if (dailyCredits !== undefined) yield id
}

/** The same of rows that have changed: fields by table. */
export const changedLedgerIds = async (engine: Engine, changed: ReadonlyMap<string, readonly string[]>): Promise<readonly string[]> => {
  const hashes = changed.get(keys) ?? []
  const texts = hashes.length === 0 ? [] : [...(await readTable(engine, accountsTag, keys, hashes)).values()]
  const limited = texts.map(text => JSON.parse(text) as KeyRow).filter(({ dailyCredits }) => dailyCredits !== undefined) // written below
  return [...(changed.get(accounts) ?? []), ...limited.map(({ id }) => id)]
}

/** `dropLedger` removes the days of an account, or of a key with a limit of its own. */
export const openAccountStore = (engine: Engine, dropLedger: (id: string) => Promise<void>): AccountStore => {
  const change = async (account: string, commit: Commit) => {
    const group = `${changeGroupOf(account)}`
    const adds = [changes.field, group].map(field => ({ table: changes.table, field, by: 1 }))
    return engine.commit(accountsTag, { ...commit, adds, notifies: group })
  }
  const rowAt = async (table: string, field: string) => (await readTable(engine, accountsTag, table, [field])).get(field)
  const accountAt = async (id: string) => parseRow<AccountRow>(await rowAt(accounts, id))

  let hasChanges = false
  /**
   * Fails while the store does not have the accounts and keys that it had, until it has some again: a Redis has restarted without its data,
   * or an empty replica has been promoted. Such a Redis would say of every key that it is unknown.
   */
  const checkedCount = (count: string | undefined): number => {
    if (count === undefined && hasChanges)
      throw new StoreEmptiedError('redis has lost its accounts and keys: restore them, or add them anew')
    hasChanges ||= count !== undefined
    return Number(count ?? 0)
  }
  const changeCount = async (): Promise<number> => checkedCount(await rowAt(changes.table, changes.field))
  const changeCounts = async (): Promise<ChangeCounts> => {
    const rows = await readTable(engine, accountsTag, changes.table)
    const groups = [...rows].filter(([field]) => field !== changes.field)
    return {
      total: checkedCount(rows.get(changes.field)),
      byGroup: new Map(groups.map(([group, count]) => [Number(group), Number(count)])),
    }
  }

  /** Undefined when there is no key with this id; else the key as it is now. */
  const updateKey = async (id: string, edit: (row: KeyRow) => KeyRow): Promise<KeyRow | undefined> => {
    const hash = await rowAt(keyHashesById, id)
    if (hash === undefined) return undefined
    const place = { table: keys, field: hash }
    let found = await rowAt(keys, hash)
    return retryCommit(async () => {
      const row = parseRow<KeyRow>(found)
      if (row === undefined) return { result: row }
      const updated = edit(row)
      const commit = await change(updated.account, {
        guards: [{ ...place, is: found }],
        puts: [{ ...place, value: JSON.stringify(updated) }],
      })
      found = commit.found[0]
      return commit.isDone ? { result: updated } : undefined
    })
  }
  const findKey: AccountStore['findKey'] = async hash => {
    const { tables } = await engine.read(accountsTag, [
      { table: keys, fields: [hash] },
      { table: accounts, fields: { member: 'account' } },
      { table: changes.table, fields: [changes.field] },
    ])
    const [key, account, count] = tables.map(rows => [...rows.values()][0])
    if (key !== undefined && account !== undefined) return { key: JSON.parse(key) as KeyRow, account: JSON.parse(account) as AccountRow }
    // Fails when the store has lost all keys.
    checkedCount(count)
    return undefined
  }

  return {
    subscribe: onChange => engine.watch(group => onChange(group === undefined ? undefined : Number(group))),
    changeCount,
    changeCounts,
    async addAccount(row) {
      const name = { table: accountIdsByName, field: row.name }
      const puts = [
        { ...name, value: row.id },
        { table: accounts, field: row.id, value: JSON.stringify(row) },
      ]
      return (await change(row.id, { guards: [{ ...name, is: undefined }], puts })).isDone
    },
    async changeFoundAccount(found, accountChange) {
      const place = { table: accounts, field: found.id }
      const puts = [{ ...place, value: JSON.stringify(applyChange(found, accountChange)) }]
      return (await change(found.id, { guards: [{ ...place, is: JSON.stringify(found) }], puts })).isDone
    },
    async renameAccount(found, name) {
      const place = { table: accounts, field: found.id }
      const index = { table: accountIdsByName, field: name }
      const formerNames = [...(found.formerNames ?? []), found.name].filter(former => former !== name)
      const isOwn = found.formerNames?.includes(name) === true
      const { isDone } = await change(found.id, {
        guards: [
          { ...place, is: JSON.stringify(found) },
          { ...index, is: isOwn ? found.id : undefined },
        ],
        puts: [
          { ...place, value: JSON.stringify({ ...found, name, formerNames }) },
          { ...index, value: found.id },
        ],
      })
      return isDone
    },
    removeAccount: (id, deleteAt) =>
      retryCommit(async () => {
        const text = await rowAt(accounts, id)
        const row = parseRow<AccountRow>(text)
        if (row?.deleteAt !== deleteAt) return { result: false }
        const hashed = await readHashedKeys(engine, id)
        // The ledger first: a removal that is cut off is done again only while the account is there. No day of it counts, as it has been
        // suspended for a week.
        await Promise.all([id, ...hashed.map(({ key }) => key.id)].map(dropLedger))
        const { isDone } = await change(id, {
          guards: [{ table: accounts, field: id, is: text }],
          dels: [
            { table: accounts, field: id },
            ...[row.name, ...(row.formerNames ?? [])].map(field => ({ table: accountIdsByName, field })),
            ...hashed.flatMap(({ hash, key }) => [
              { table: keys, field: hash },
              { table: keyHashesById, field: key.id },
            ]),
          ],
          drops: [keyHashesOf(id)],
        })
        return isDone ? { result: true } : undefined
      }),
    async account(idOrName) {
      const found = await accountAt(idOrName)
      if (found !== undefined) return found
      const id = await rowAt(accountIdsByName, idOrName)
      return id === undefined ? undefined : accountAt(id)
    },
    accounts: () => readAccounts(engine),
    async keysWithHint(hint) {
      const found: KeyRow[] = []
      for await (const key of scanKeys(engine, `"hint":${JSON.stringify(hint)}`)) if (key.hint === hint) found.push(key)
      return found
    },
    async addKey(hash, row) {
      await change(row.account, {
        puts: [
          { table: keys, field: hash, value: JSON.stringify(row) },
          { table: keyHashesById, field: row.id, value: hash },
          { table: keyHashesOf(row.account), field: hash, value: '' },
        ],
      })
    },
    changeKey: (id, keyChange) => updateKey(id, row => applyChange(row, keyChange)),
    // Written also where it was revoked before: who repeats it wants to know that replicas have it.
    revokeKey: (id, time) => updateKey(id, row => ({ ...row, revoked: row.revoked ?? time })),
    keys: async account => (await readHashedKeys(engine, account)).map(({ key }) => key),
    findKey,
    async findKeyById(id) {
      const hash = await rowAt(keyHashesById, id)
      if (hash === undefined) return void (await changeCount())
      return findKey(hash)
    },
  }
}
