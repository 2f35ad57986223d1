import { generateApiKey, hashApiKey, keyHint } from '../../src/services/accounts/api-key.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { UsageCount } from '../../src/store/usage-store.ts'
import { hourMs, hoursPerDay } from '../../src/util/dates.ts'

const accountCount = 10_000
const dayCount = 90
const methodCount = 50
const networkCount = 10

/** Hours in one report. */
const hoursPerReport = 4
const accountsPerTurn = 100
const keysPerTurn = 2_000

/** Fills the store in a folder with other accounts, and with 90 days of usage of an account: 500 groups of calls each hour. */
export const fillStore = async (path: string, accountName: string): Promise<void> => {
  const store = await openStore({ kind: 'lmdb', path }, systemClock)
  try {
    await addAccounts(store)
    const account = await store.account(accountName)
    if (account === undefined) throw new Error(`there is no account ${accountName}`)
    await addUsage(store, account.id)
  } finally {
    await store.close()
  }
}

/** Adds accounts with a key each to the store in a folder. Resolves with the keys. */
export const addAccountsWithKeys = async (path: string, count: number): Promise<readonly string[]> => {
  const store = await openStore({ kind: 'lmdb', path }, systemClock)
  const addOne = async (i: number): Promise<string> => {
    const [account, text] = [`acc_bench${i}`, generateApiKey().reveal()]
    const created = systemClock.now()
    await Promise.all([
      store.addAccount({ id: account, name: account, plan: 'big', created }),
      store.addKey(hashApiKey(text), { id: `key_bench${i}`, account, created, hint: keyHint(text) }),
    ])
    return text
  }
  const keys: string[] = []
  try {
    while (keys.length < count) {
      const length = Math.min(keysPerTurn, count - keys.length)
      keys.push(...(await Promise.all(Array.from({ length }, (_, i) => addOne(keys.length + i)))))
    }
  } finally {
    await store.close()
  }
  return keys
}

const addAccounts = async (store: Store): Promise<void> => {
  for (let i = 0; i < accountCount; i += accountsPerTurn) {
    const ids = Array.from({ length: accountsPerTurn }, (_, j) => `acc_bench${i + j}`)
    await Promise.all(ids.map(id => store.addAccount({ id, name: id, plan: 'core', created: systemClock.now() })))
  }
}

const addUsage = async (store: Store, account: string): Promise<void> => {
  const hours = dayCount * hoursPerDay
  const firstHour = Math.floor(systemClock.now() / hourMs) + 1 - hours
  for (let i = 0; i < hours; i += hoursPerReport) {
    const counts = Array.from({ length: hoursPerReport }, (_, j) => countsOfHour(account, firstHour + i + j)).flat()
    await store.reportUsage({ process: 'bench', seq: i + 1, counts, retentionHours: 2 * hours })
  }
}

const countsOfHour = (account: string, hour: number): readonly UsageCount[] =>
  Array.from({ length: methodCount * networkCount }, (_, i) => ({
    account,
    key: 'key_bench',
    network: `network-${i % networkCount}`,
    method: `eth_method${Math.floor(i / networkCount)}`,
    outcome: 'ok',
    forwarded: false,
    hour,
    calls: 3,
    credits: 240,
  }))
