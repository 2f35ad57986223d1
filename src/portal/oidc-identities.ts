import { neverExpires } from '../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../store/record-store.ts'
import { isJsonObject } from '../util/json.ts'
import { ApiError } from './api-errors.ts'
import type { OidcIdentity, OidcProvider } from './oidc-provider.ts'
import { findPerson, findPersonByEmail, verifyEmail } from './people.ts'
import type { Person } from './people.ts'
import { hashToken } from './random-tokens.ts'
import { domainOf, signUpWithEmail } from './sign-up.ts'
import type { SignUpServices } from './sign-up.ts'

/**
 * The person of an identity. At its first sign-in the verified e-mail address finds them, or makes an account where the domain
 * allows it; from then on issuer and subject do, and no other identity signs in as this person. Rejects with ApiError.
 */
export const personOfIdentity = async (
  services: SignUpServices,
  { name, domains }: Pick<OidcProvider, 'name' | 'domains'>,
  { issuer, subject, email }: OidcIdentity,
): Promise<Person> => {
  const { store, clock } = services
  const identity = { hash: hashToken(`${issuer} ${subject}`), issuer, linked: clock.now() }
  const linked = await findLinkedPerson(store, identity)
  if (linked !== undefined) return linked.email !== undefined && linked.email === email ? verifiedPerson(store, linked) : linked
  if (email === undefined) {
    throw new ApiError(403, 'email-unverified', `${name} has not verified your e-mail address, or does not tell it`)
  }
  const person = (await findPersonByEmail(store, email)) ?? (await signUpFromDomain(services, domains, email))
  if (await linkIdentity(store, person, identity)) return verifiedPerson(store, person)
  throw new ApiError(403, 'other-identity', `${email} signs in here with another identity: another user, or another provider`)
}

const verifiedPerson = async (store: RecordStore, person: Person): Promise<Person> =>
  (await verifyEmail(store, person)) ??
  Promise.reject(new ApiError(403, 'not-invited', 'you were removed, or got another e-mail address, while you signed in: sign in again'))

const signUpFromDomain = async (services: SignUpServices, domains: readonly string[], email: string): Promise<Person> => {
  const { signUp } = services
  if (signUp === undefined || !domains.includes(domainOf(email))) {
    throw new ApiError(403, 'not-invited', `${email} has no account here: ask an owner of the account to add it on the page Access`)
  }
  const person = await signUpWithEmail(services, signUp, email)
  return person ?? Promise.reject(new ApiError(403, 'sign-up-full', 'no more accounts are made today; try again tomorrow'))
}

const findLinkedPerson = async (store: RecordStore, identity: LinkedIdentity): Promise<Person | undefined> => {
  const record = await store.findRecord('identity', identity.hash)
  const person = record && (await findPerson(store, String(record.value)))
  const link = person && (await store.findRecord('identity-of', person.id))
  if (!isJsonObject(link?.value) || link.value['hash'] !== identity.hash) return undefined // unlinked while it was being linked
  return person
}

/** The identity by which a person signs in. */
interface LinkedIdentity {
  /** Of issuer and subject. */
  readonly hash: string
  readonly issuer: string
  /** Milliseconds since 1970: the first sign-in. */
  readonly linked: number
}

/** Undefined where the person has not signed in at a provider. */
export const findLinkedIdentity = async (store: RecordStore, person: string): Promise<LinkedIdentity | undefined> => {
  const value = (await store.findRecord('identity-of', person))?.value
  return isJsonObject(value) ? (value as unknown as LinkedIdentity) : undefined // written by linkRecord()
}

/** False when the person has another identity. */
const linkIdentity = async (store: RecordStore, person: Person, identity: LinkedIdentity): Promise<boolean> => {
  // First, as one of several identities at once is the person's.
  await store.addRecord('identity-of', linkRecord(person, identity))
  if ((await findLinkedIdentity(store, person.id))?.hash !== identity.hash) return false
  await store.putRecord('identity', { id: identity.hash, account: person.account, value: person.id, expires: neverExpires })
  return true
}

const linkRecord = ({ id, account }: Person, identity: LinkedIdentity): StoredRecord => ({
  id,
  account,
  value: { ...identity },
  expires: neverExpires,
})
