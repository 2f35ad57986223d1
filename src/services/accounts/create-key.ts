import type { Secret } from '../../plugin/secret.ts'
import { applyChange } from '../../store/store.ts'
import type { AccountStore, KeyChange, KeyRow } from '../../store/store.ts'
import type { Clock } from '../clock.ts'
import { generateApiKey, generateKeyId, hashApiKey, keyHint } from './api-key.ts'

/** A key that was just created: the only time that its text is known. */
export interface CreatedKey {
  readonly row: KeyRow
  readonly key: Secret
}

/** Adds a key to an account. */
export const createKey = async (store: AccountStore, clock: Clock, account: string, settings: KeyChange = {}): Promise<CreatedKey> => {
  const key = generateApiKey()
  const newRow: KeyRow = { id: generateKeyId(), account, created: clock.now(), hint: keyHint(key.reveal()) }
  const row = applyChange<KeyRow>(newRow, settings)
  await store.addKey(hashApiKey(key.reveal()), row)
  return { row, key }
}

/**
 * Adds a key with the same name, lists and limits as another, which expires after `overlapMs`: until then both are accepted, so that
 * callers can change to the new key.
 */
export const rotateKey = async (store: AccountStore, clock: Clock, rotated: KeyRow, overlapMs: number): Promise<CreatedKey> => {
  const { id: _id, hint: _hint, account, created: _created, expires: _expires, suspended: _suspended, revoked: _revoked, ...rest } = rotated
  const created = await createKey(store, clock, account, rest)
  const expires = clock.now() + overlapMs
  if (rotated.expires === undefined || rotated.expires > expires) await store.changeKey(rotated.id, { expires })
  return created
}

/** Why a key is refused now; undefined while it is accepted. */
export const keyRefusal = ({ revoked, suspended, expires }: KeyRow, now: number): 'revoked' | 'suspended' | 'expired' | undefined =>
  revoked !== undefined
    ? 'revoked'
    : suspended !== undefined
      ? 'suspended'
      : expires !== undefined && expires <= now
        ? 'expired'
        : undefined
