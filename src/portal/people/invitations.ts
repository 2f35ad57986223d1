import { numberedName, roles } from '../../services/accounts/account-fields.ts'
import { RecordedAccounts } from '../../services/accounts/recorded-accounts.ts'
import type { RecordedStore } from '../../services/accounts/recorded-accounts.ts'
import type { Clock } from '../../services/clock.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { dayMs } from '../../util/dates.ts'
import { isJsonObject } from '../../util/json.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { addNewPerson, addVerifiedPerson, authorOf, findPersonByEmail, listPeople, peopleLock, removePerson } from './people.ts'
import type { Person } from './people.ts'
import { hashToken, randomId } from './random-tokens.ts'
import type { RecordServices } from '../record-services.ts'

/**
 * An owner asks whoever has an e-mail address to join the account. It reserves nothing and says nothing of the address: until its holder
 * accepts it, they have whatever account they have, or make.
 */
export interface Invitation extends Pick<Person, 'id' | 'account' | 'name' | 'role'> {
  /** In lower case. */
  readonly email: string
  /** Who invites, with their address where it is known to be theirs. */
  readonly inviter: string
  /** Milliseconds since 1970. */
  readonly expires: number
}

const invitationTtlMs = 30 * dayMs

/** Begins the ids of invitations, so that they are never those of people. */
const idPrefix = 'inv_'

export const isInvitationId = (id: string): boolean => id.startsWith(idPrefix)

export const addInvitation = async (
  store: RecordStore,
  clock: Clock,
  inviter: Person,
  { name, role, email }: Pick<Invitation, 'name' | 'role' | 'email'>,
): Promise<Invitation> => {
  const { account } = inviter
  const invitation = {
    id: randomId(idPrefix),
    account,
    name,
    role,
    email,
    inviter: nameInviter(inviter),
    expires: clock.now() + invitationTtlMs,
  }
  await store.putRecord('invitation', toRecord(invitation))
  await indexByAddress(store, invitation)
  return invitation
}

const nameInviter = ({ name, email, isEmailVerified }: Person): string =>
  email === undefined || isEmailVerified !== true || email === name ? name : `${name} (${email})`

/** The invitation lasts as long as a new one, in the name of who has sent it again. Undefined where it was removed meanwhile. */
export const renewInvitation = async (
  store: RecordStore,
  clock: Clock,
  invitation: Invitation,
  inviter: Person,
): Promise<Invitation | undefined> => {
  const renewed = { ...invitation, inviter: nameInviter(inviter), expires: clock.now() + invitationTtlMs }
  if (!(await store.replaceRecord('invitation', toRecord(invitation), toRecord(renewed).value, renewed.expires))) return undefined
  await indexByAddress(store, renewed)
  return renewed
}

/** By a hash: the address of somebody who never accepts is in one record, which ends with the account. */
const indexByAddress = (store: RecordStore, { id, email, expires }: Invitation): Promise<void> =>
  store.putRecord('invitation-to', { id, account: hashToken(email), value: true, expires })

export const listInvitations = async (store: RecordStore, account: string): Promise<readonly Invitation[]> =>
  (await store.records('invitation', account)).flatMap(record => toInvitation(record) ?? [])

export const findInvitationsTo = async (store: RecordStore, email: string): Promise<readonly Invitation[]> => {
  const ids = (await store.records('invitation-to', hashToken(email))).map(({ id }) => id)
  const found = await Promise.all(ids.map(async id => toInvitation(await store.findRecord('invitation', id))))
  return found.flatMap(invitation => (invitation?.email === email ? invitation : []))
}

/** Of several removals at once, and an acceptance, one is true. */
export const removeInvitation = async (store: RecordStore, { id }: Invitation): Promise<boolean> => {
  const removed = await store.takeRecord('invitation', id)
  await store.takeRecord('invitation-to', id)
  return removed !== undefined
}

interface AcceptanceServices extends RecordServices {
  readonly store: RecordedStore
}

/** Whoever has shown that the address is theirs joins the account. Rejects with ApiError. */
export const acceptInvitation = async (services: AcceptanceServices, email: string, id: string): Promise<Person> => {
  const { store, clock } = services
  const invitation = (await findInvitationsTo(store, email)).find(each => each.id === id)
  if (invitation === undefined) throw notFound('invitation')
  // An owner who cannot join after all is none to whom the last owner may leave the account.
  const person = await oneAtATime(services, peopleLock(invitation.account), () => join(services, invitation))
  await store.takeRecord('invitation-to', id)
  const accounts = new RecordedAccounts(store, clock, authorOf(person))
  const after = { name: person.name, role: person.role, email }
  await accounts.recordOf(person.account, { action: 'invitation-accepted', target: person.id, after })
  return person
}

const join = async ({ store, clock }: AcceptanceServices, invitation: Invitation): Promise<Person> => {
  const { id, account, email, role } = invitation
  for (;;) {
    if ((await findPersonByEmail(store, email)) !== undefined) throw hasAccountError(email)
    const found = await store.findRecord('invitation', id)
    if (found === undefined) throw notFound('invitation')
    const person = { account, name: await freeName(store, invitation), role }
    const add = () => addVerifiedPerson(store, person, email, [{ kind: 'invitation', found }])
    const joined = await addNewPerson(store, clock, person, add)
    if (joined === undefined) continue
    if ((await store.account(account)) !== undefined) return joined
    // Its removal may have missed them.
    await removePerson(store, joined)
    throw notFound('invitation')
  }
}

const hasAccountError = (email: string): ApiError =>
  new ApiError(409, 'has-account', `${email} has an account already: leave that account first, then accept the invitation`)

/** With a number where somebody has got the name since the invitation. */
const freeName = async (store: RecordStore, { account, name }: Invitation): Promise<string> => {
  const names = new Set((await listPeople(store, account)).map(person => person.name))
  let number = 1
  while (names.has(numberedName(name, number))) number += 1
  return numberedName(name, number)
}

const toRecord = ({ id, account, expires, name, role, email, inviter }: Invitation): StoredRecord => ({
  id,
  account,
  expires,
  value: { name, role, email, inviter },
})

const toInvitation = (record: StoredRecord | undefined): Invitation | undefined => {
  if (record === undefined || !isJsonObject(record.value)) return undefined
  const { id, account, expires, value } = record
  const role = roles.find(each => each === value['role'])
  const [name, email, inviter] = ['name', 'email', 'inviter'].map(member => String(value[member])) as [string, string, string]
  return role === undefined ? undefined : { id, account, expires, name, role, email, inviter }
}
