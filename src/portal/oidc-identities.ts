import { neverExpires } from '../store/record-store.ts'
import type { RecordStore } from '../store/record-store.ts'
import { ApiError } from './api-error.ts'
import type { OidcIdentity, OidcProvider } from './oidc-provider.ts'
import { findPerson, findPersonByEmail, hashToken, verifyEmail } from './people.ts'
import type { Person } from './people.ts'
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
  const { store } = services
  const identity = hashToken(`${issuer} ${subject}`)
  const linked = await findLinkedPerson(store, identity)
  if (linked !== undefined) return linked.email !== undefined && linked.email === email ? verifyEmail(store, linked) : linked
  if (email === undefined) {
    throw new ApiError(403, 'email-unverified', `${name} has not verified your e-mail address, or does not tell it`)
  }
  const person = (await findPersonByEmail(store, email)) ?? (await signUpFromDomain(services, domains, email))
  if (await linkIdentity(store, person, identity)) return verifyEmail(store, person)
  throw new ApiError(403, 'other-identity', `${email} signs in here with another identity: another user, or another provider`)
}

const signUpFromDomain = async (services: SignUpServices, domains: readonly string[], email: string): Promise<Person> => {
  const { signUp } = services
  if (signUp === undefined || !domains.includes(domainOf(email))) {
    throw new ApiError(403, 'not-invited', `${email} has no account here: ask an owner of the account to add it on the page Access`)
  }
  const person = await signUpWithEmail(services, signUp, email)
  return person ?? Promise.reject(new ApiError(403, 'sign-up-full', 'no more accounts are made today; try again tomorrow'))
}

const findLinkedPerson = async (store: RecordStore, identity: string): Promise<Person | undefined> => {
  const record = await store.findRecord('identity', identity)
  return record === undefined ? undefined : findPerson(store, String(record.value))
}

/** False when the person has another identity. */
const linkIdentity = async (store: RecordStore, { id, account }: Person, identity: string): Promise<boolean> => {
  // First, as one of several identities at once is the person's.
  await store.addRecord('identity-of', { id, account, value: identity, expires: neverExpires })
  if ((await store.findRecord('identity-of', id))?.value !== identity) return false
  await store.putRecord('identity', { id: identity, account, value: id, expires: neverExpires })
  return true
}
