import { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../../services/clock.ts'
import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { isJsonObject } from '../../util/json.ts'
import { findPerson } from './people.ts'
import type { Person } from './people.ts'
import { generateToken, hashToken } from './random-tokens.ts'

/** A personal access token, with which scripts use the API in place of a session. It has the role of its person. */
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
}

const tokenPrefix = 'tgt_'

export const createAccessToken = async (
  store: RecordStore,
  clock: Clock,
  { id: person, account }: Person,
  { name, expires }: { readonly name: string; readonly expires?: number | undefined },
): Promise<AccessToken & { readonly token: Secret }> => {
  const text = tokenPrefix + generateToken()
  const created = clock.now()
  const hint = text.slice(-4)
  const id = hashToken(text)
  await store.putRecord('token', { id, account, value: { person, name, hint, created }, expires: expires ?? neverExpires })
  return { id, person, name, hint, created, expires, token: new Secret(text) }
}

export const listAccessTokens = async (store: RecordStore, { id, account }: Person): Promise<readonly AccessToken[]> =>
  (await store.records('token', account)).flatMap(record => toAccessToken(record) ?? []).filter(({ person }) => person === id)

/** The person of a token; undefined when the token or the person no longer exists. */
export const findTokenOwner = async (store: RecordStore, token: string): Promise<Person | undefined> => {
  if (!token.startsWith(tokenPrefix)) return undefined
  const record = await store.findRecord('token', hashToken(token))
  const found = record && toAccessToken(record)
  return found && findPerson(store, found.person)
}

const toAccessToken = ({ id, value, expires }: StoredRecord): AccessToken | undefined => {
  if (!isJsonObject(value)) return undefined
  const { person, name, hint, created } = value
  return {
    id,
    person: String(person),
    name: String(name),
    hint: String(hint),
    created: Number(created),
    expires: expires === neverExpires ? undefined : expires,
  }
}
