import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { GatewayConfig } from '../config/types.ts'
import { hashKey, hintOf, isKey, newAccountId, newKey, newKeyId } from '../keys.ts'
import { systemClock } from '../services/clock.ts'
import { openStore } from '../store/open.ts'
import type { Store } from '../store/store.ts'

/** A key to try the gateway with. */
export interface DevKey {
  readonly text: string
  /** Where it is kept, as the operator sees it. */
  readonly file: string
}

/**
 * The key in `dev.key`, if it still works; else a new one of the account `dev`, written there for its owner alone. The
 * file lies in the embedded store's folder; for another store in `data` beside the configuration in `dir`.
 */
export const readyKey = async ({ store: address, plans }: GatewayConfig, dir: string): Promise<DevKey> => {
  const path = join(address.kind === 'lmdb' ? address.path : join(dir, '../data'), 'dev.key')
  const store = await openStore(address, systemClock)
  try {
    const known = readText(path)
    const text = known !== undefined && (await opens(store, known)) ? known : await addKey(store, Object.keys(plans)[0] ?? '')
    if (text !== known) {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, `${text}\n`, { mode: 0o600 })
      chmodSync(path, 0o600) // the mode above holds for a new file only
    }
    return { text, file: relative(process.cwd(), path) }
  } finally {
    await store.close()
  }
}

const readText = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}

const opens = async (store: Store, text: string): Promise<boolean> => {
  const holder = isKey(text) ? await store.holder(hashKey(text)) : undefined
  return holder !== undefined && holder.key.revoked === undefined
}

const addKey = async (store: Store, plan: string): Promise<string> => {
  const created = systemClock.now()
  const account = (await store.account('dev')) ?? { id: newAccountId(), name: 'dev', plan, created }
  await store.addAccount(account)
  const text = newKey().reveal()
  await store.addKey(hashKey(text), { id: newKeyId(), account: account.id, created, hint: hintOf(text) })
  return text
}
