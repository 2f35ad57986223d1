import { Secret } from '../plugin/secret.ts'
import { neverExpires } from '../store/record-store.ts'
import type { RecordStore } from '../store/record-store.ts'
import { generateToken } from './people/random-tokens.ts'

/** What signs: `portal.secret` of the configuration; without it, a key that the first gateway writes into the store. */
export const readSigningKey = async (
  store: RecordStore,
  portalSecret: Secret | undefined,
  purpose: 'session-cookies' | 'webhooks',
): Promise<Secret> => {
  if (portalSecret !== undefined) return portalSecret
  await store.addRecord('secret', { id: purpose, account: '', value: generateToken(), expires: neverExpires })
  return new Secret(String((await store.findRecord('secret', purpose))?.value))
}
