import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { GatewayConfig } from '../config/types.ts'
import { hashApiKey, keyHint, isWellFormedKey, generateAccountId, generateApiKey, generateKeyId } from '../services/accounts/api-key.ts'
import { systemClock } from '../services/clock.ts'
import { openStore } from '../store/open-store.ts'
import type { Store } from '../store/store.ts'

/** A key to try the gateway with. */
export interface DevKey {
  readonly apiKey: string
  /** Where it is kept, as the operator sees it. */
  readonly displayPath: string
}

/**
 * The key in `dev.key`, if it still works; else a new one of the account `dev`, written there for its owner alone. The
 * file lies in the embedded store's folder; for another store in `data` beside the configuration in `dir`.
 */
export const getOrCreateDevKey = async ({ store: address, plans }: GatewayConfig, dir: string): Promise<DevKey> => {
  const path = join(address.kind === 'lmdb' ? address.path : join(dir, '../data'), 'dev.key')
  const store = await openStore(address, systemClock)
  try {
    const storedKey = readFileIfExists(path)
    const apiKey =
      storedKey !== undefined && (await isActiveKey(store, storedKey)) ? storedKey : await createDevKey(store, Object.keys(plans)[0] ?? '')
    if (apiKey !== storedKey) {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, `${apiKey}\n`, { mode: 0o600 })
      chmodSync(path, 0o600) // the mode above holds for a new file only
    }
    return { apiKey, displayPath: relative(process.cwd(), path) }
  } finally {
    await store.close()
  }
}

const readFileIfExists = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}

const isActiveKey = async (store: Store, text: string): Promise<boolean> => {
  const holder = isWellFormedKey(text) ? await store.findKey(hashApiKey(text)) : undefined
  return holder !== undefined && holder.key.revoked === undefined
}

const createDevKey = async (store: Store, plan: string): Promise<string> => {
  const created = systemClock.now()
  const account = (await store.account('dev')) ?? { id: generateAccountId(), name: 'dev', plan, created }
  await store.addAccount(account)
  const apiKey = generateApiKey().reveal()
  await store.addKey(hashApiKey(apiKey), { id: generateKeyId(), account: account.id, created, hint: keyHint(apiKey) })
  return apiKey
}
