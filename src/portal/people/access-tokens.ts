import { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../../services/clock.ts'
import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { hourMs } from '../../util/dates.ts'
import { isJsonObject } from '../../util/json.ts'
import { findPerson } from './people.ts'
import type { Person } from './people.ts'
import { generateToken, hashToken } from './random-tokens.ts'

/** A personal access token, with which scripts use the API in place of a session. It has the role of its person; or it changes nothing. */
export interface AccessToken {
  readonly id: string
  readonly person: string
  readonly name: string
  /** The last four characters. */
  readonly hint: string
  /** Milliseconds since 1970. */
  readonly created: number
  /** Undefined: never. */
  readonly expires: number | undefined
  /** It can read what its person can, and change nothing. */
  readonly isReadOnly: boolean
  /** When it was last used, to a quarter of an hour; undefined: never. */
  readonly lastUsed: number | undefined
}

const tokenPrefix = 'tgt_'

/** Within it, a token that is used all the time is written once. */
const lastUsedStepMs = hourMs / 4

interface NewToken extends Pick<AccessToken, 'name'>, Partial<Pick<AccessToken, 'expires' | 'isReadOnly'>> {}

export const createAccessToken = async (
  store: RecordStore,
  clock: Clock,
  { id: person, account }: Person,
  { name, expires, isReadOnly = false }: NewToken,
): Promise<AccessToken & { readonly token: Secret }> => {
  const text = tokenPrefix + generateToken()
  const created = clock.now()
  const hint = text.slice(-4)
  const id = hashToken(text)
  await store.putRecord('token', { id, account, value: { person, name, hint, created, isReadOnly }, expires: expires ?? neverExpires })
  return { id, person, name, hint, created, expires, isReadOnly, lastUsed: undefined, token: new Secret(text) }
}

export const listAccessTokens = async (store: RecordStore, { id, account }: Person): Promise<readonly AccessToken[]> =>
  (await store.records('token', account)).flatMap(record => toAccessToken(record) ?? []).filter(({ person }) => person === id)

/** Records that the token is used. Its person, and whether it may change nothing; undefined when the token or the person no longer exists. */
export const useAccessToken = async (
  store: RecordStore,
  clock: Clock,
  token: string,
): Promise<{ readonly person: Person; readonly isReadOnly: boolean } | undefined> => {
  if (!token.startsWith(tokenPrefix)) return undefined
  const record = await store.findRecord('token', hashToken(token))
  const found = record && toAccessToken(record)
  const person = found && (await findPerson(store, found.person))
  if (found === undefined || person === undefined) return undefined
  const now = clock.now()
  // A token that was removed meanwhile stays removed.
  if (now - (found.lastUsed ?? 0) >= lastUsedStepMs && isJsonObject(record?.value))
    await store.replaceRecord('token', record, { ...record.value, lastUsed: now })
  return { person, isReadOnly: found.isReadOnly }
}

const toAccessToken = ({ id, value, expires }: StoredRecord): AccessToken | undefined => {
  if (!isJsonObject(value)) return undefined
  const { person, name, hint, created, isReadOnly, lastUsed } = value
  return {
    id,
    person: String(person),
    name: String(name),
    hint: String(hint),
    created: Number(created),
    expires: expires === neverExpires ? undefined : expires,
    isReadOnly: isReadOnly === true,
    lastUsed: lastUsed === undefined ? undefined : Number(lastUsed),
  }
}
