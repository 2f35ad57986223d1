import { Secret } from '../plugin/secret.ts'
import { neverExpires } from '../store/record-store.ts'
import type { RecordStore } from '../store/record-store.ts'
import { generateToken } from './random-tokens.ts'

/** What signs: the secrets of the configuration, the current one first; without any, a key that the first gateway writes into the store. */
export const readSigningKeys = async (
  store: RecordStore,
  secrets: readonly Secret[],
  purpose: 'session-cookies' | 'webhooks',
): Promise<readonly [Secret, ...Secret[]]> => {
  const [current, ...previous] = secrets
  if (current !== undefined) return [current, ...previous]
  await store.addRecord('secret', { id: purpose, account: '', value: generateToken(), expires: neverExpires })
  return [new Secret(String((await store.findRecord('secret', purpose))?.value))]
}
