import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { isJsonObject } from '../../util/json.ts'
import { ApiError } from '../api-errors.ts'
import type { OidcIdentity, OidcProvider } from './oidc-provider.ts'
import type { ProvenAddress } from './one-time-links.ts'
import { findPerson, findPersonByEmail, toPerson, verifyEmail } from './people.ts'
import type { LinkedIdentity, Person } from './people.ts'
import { hashToken } from './random-tokens.ts'
import type { RecordServices } from '../record-services.ts'

/**
 * The person of an identity, or the verified e-mail address that no person has. At the first sign-in the address finds them; from then on
 * issuer and subject do, and no other identity signs in as this person. Rejects with ApiError.
 */
export const personOfIdentity = async (
  { store, clock }: RecordServices,
  { name }: Pick<OidcProvider, 'name'>,
  { issuer, subject, email }: OidcIdentity,
): Promise<Person | ProvenAddress> => {
  const identity = { hash: hashToken(`${issuer} ${subject}`), issuer, linked: clock.now() }
  const linked = await findLinkedPerson(store, identity)
  if (linked !== undefined) return linked.email !== undefined && linked.email === email ? verifiedPerson(store, linked) : linked
  if (email === undefined) {
    throw new ApiError(403, 'email-unverified', `${name} has not verified your e-mail address, or does not tell it`)
  }
  const person = await findPersonByEmail(store, email)
  if (person === undefined) return { email, identity }
  await linkNewIdentity(store, person, identity)
  return verifiedPerson(store, person)
}

/** The person, whose address is known to be theirs. Rejects with ApiError. */
export const verifiedPerson = async (store: RecordStore, person: Person): Promise<Person> =>
  (await verifyEmail(store, person)) ?? Promise.reject(changedMeanwhile())

const changedMeanwhile = (): ApiError =>
  new ApiError(403, 'not-invited', 'you were removed, or got another e-mail address, while you signed in: sign in again')

const findLinkedPerson = async (store: RecordStore, identity: LinkedIdentity): Promise<Person | undefined> => {
  const record = await store.findRecord('identity', identity.hash)
  const person = record && (await findPerson(store, String(record.value)))
  const link = person && (await store.findRecord('identity-of', person.id))
  // An earlier version has unlinked it while it linked it.
  if (!isJsonObject(link?.value) || link.value['hash'] !== identity.hash) return undefined
  return person
}

/** Undefined where the person has not signed in at a provider. */
export const findLinkedIdentity = async (store: RecordStore, person: string): Promise<LinkedIdentity | undefined> => {
  const value = (await store.findRecord('identity-of', person))?.value
  return isJsonObject(value) ? (value as unknown as LinkedIdentity) : undefined // written by linkRecord()
}

/** Rejects with ApiError where the person has another identity. */
export const linkNewIdentity = async (store: RecordStore, person: Person, identity: LinkedIdentity): Promise<void> => {
  const { id, account, email } = person
  const { hash } = identity
  for (;;) {
    const found = await store.findRecord('person', id)
    // Another address has unlinked the identity of the one before.
    if (toPerson(found)?.email !== email) throw changedMeanwhile()
    const [link, known] = [await store.findRecord('identity-of', id), await store.findRecord('identity', hash)]
    if (isJsonObject(link?.value) && link.value['hash'] !== hash)
      throw new ApiError(403, 'other-identity', `${email} signs in here with another identity: another user, or another provider`)
    const isLinked = await store.changeRecords([
      { kind: 'person', id, found, record: found },
      { kind: 'identity-of', id, found: link, record: link ?? linkRecord(person, identity) },
      { kind: 'identity', id: hash, found: known, record: { id: hash, account, value: id, expires: neverExpires } },
    ])
    if (isLinked) return
  }
}

const linkRecord = ({ id, account }: Person, identity: LinkedIdentity): StoredRecord => ({
  id,
  account,
  value: { ...identity },
  expires: neverExpires,
})
