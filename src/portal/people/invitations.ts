import { numberedName, roles } from '../../services/accounts/account-fields.ts'
import { entryOf } from '../../services/accounts/change-history.ts'
import type { RecordedStore } from '../../services/accounts/recorded-accounts.ts'
import type { Clock } from '../../services/clock.ts'
import type { RecordChange, RecordStore, StoredRecord } from '../../store/record-store.ts'
import { dayMs } from '../../util/dates.ts'
import { isJsonObject } from '../../util/json.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { addNewPerson, addVerifiedPerson, authorOf, findPersonByEmail, listPeople, peopleLock } from './people.ts'
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
  const { id } = invitation
  await store.changeRecords([
    { kind: 'invitation', id, record: toRecord(invitation) },
    { kind: 'invitation-to', id, record: indexRecord(invitation) },
  ])
  return invitation
}

const nameInviter = ({ name, email, isEmailVerified }: Person): string =>
  email === undefined || isEmailVerified !== true || email === name ? name : `${name} (${email})`

/** The invitation lasts as long as a new one, in the name of who has sent it again. Undefined where it was removed meanwhile. */
export const renewInvitation = async (
  store: RecordStore,
  clock: Clock,
  { id }: Invitation,
  inviter: Person,
): Promise<Invitation | undefined> => {
  const expires = clock.now() + invitationTtlMs
  for (;;) {
    const [found, index] = await findWithIndex(store, id)
    const record = isJsonObject(found?.value) && { ...found, value: { ...found.value, inviter: nameInviter(inviter) }, expires }
    const renewed = record ? toInvitation(record) : undefined
    if (!record || renewed === undefined) return undefined
    const isRenewed = await store.changeRecords([
      { kind: 'invitation', id, found, record },
      { kind: 'invitation-to', id, found: index, record: indexRecord(renewed) },
    ])
    if (isRenewed) return renewed
  }
}

/** By a hash: the address of somebody who never accepts is in one record, which ends with the account. */
const indexRecord = ({ id, email, expires }: Invitation): StoredRecord => ({ id, account: hashToken(email), value: true, expires })

const findWithIndex = async (store: RecordStore, id: string) =>
  [await store.findRecord('invitation', id), await store.findRecord('invitation-to', id)] as const

export const listInvitations = async (store: RecordStore, account: string): Promise<readonly Invitation[]> =>
  (await store.records('invitation', account)).flatMap(record => toInvitation(record) ?? [])

export const findInvitationsTo = async (store: RecordStore, email: string): Promise<readonly Invitation[]> => {
  const ids = (await store.records('invitation-to', hashToken(email))).map(({ id }) => id)
  const found = await Promise.all(ids.map(async id => toInvitation(await store.findRecord('invitation', id))))
  return found.flatMap(invitation => (invitation?.email === email ? invitation : []))
}

/** Of several removals at once, and an acceptance, one is true. */
export const removeInvitation = async (store: RecordStore, { id }: Invitation): Promise<boolean> => {
  for (;;) {
    const [found, index] = await findWithIndex(store, id)
    if (found === undefined) return false
    const changes: readonly RecordChange[] = [
      { kind: 'invitation', id, found },
      { kind: 'invitation-to', id, found: index },
    ]
    if (await store.changeRecords(changes)) return true
  }
}

interface AcceptanceServices extends RecordServices {
  readonly store: RecordedStore
}

/** Whoever has shown that the address is theirs joins the account; who has joined by this invitation before is its person. Rejects with ApiError. */
export const acceptInvitation = async (services: AcceptanceServices, email: string, id: string): Promise<Person> => {
  const { store } = services
  const invitation = (await findInvitationsTo(store, email)).find(each => each.id === id)
  if (invitation === undefined) return findJoined(store, email, id)
  // An owner who cannot join after all is none to whom the last owner may leave the account.
  const person = await oneAtATime(services, peopleLock(invitation.account), () => join(services, invitation))
  return person ?? findJoined(store, email, id)
}

/** The person who has accepted the invitation, and did not learn it: the store, or the connection, has failed since. */
const findJoined = async (store: RecordStore, email: string, id: string): Promise<Person> => {
  const index = await store.findRecord('invitation-to', id)
  const person = index && (await findPersonByEmail(store, email))
  if (person === undefined || index?.value !== person.account) throw notFound('invitation')
  return person
}

/** Undefined where the invitation was accepted, or removed, meanwhile. */
const join = async ({ store, clock }: AcceptanceServices, invitation: Invitation): Promise<Person | undefined> => {
  const { id, account, email, role } = invitation
  for (;;) {
    const [found, index] = await findWithIndex(store, id)
    if (found === undefined) return undefined
    if ((await findPersonByEmail(store, email)) !== undefined) throw hasAccountError(email)
    // Before the account: who removes that changes this record first, and then removes its people.
    const deletion = await store.findRecord('deletion', account)
    const { name: accountName } = (await store.account(account)) ?? {}
    if (accountName === undefined) throw notFound('invitation')
    const person = { account, name: await freeName(store, invitation), role }
    const changes: readonly RecordChange[] = [
      { kind: 'invitation', id, found },
      // Until the invitation would have expired: whoever accepts it again has joined this account.
      { kind: 'invitation-to', id, found: index, record: { ...indexRecord(invitation), value: account } },
      { kind: 'deletion', id: account, found: deletion, record: deletion },
    ]
    const add = () =>
      addVerifiedPerson(store, person, email, joined => {
        const entry = entryOf(clock, authorOf(joined), {
          action: 'invitation-accepted',
          account: { id: account, name: accountName },
          target: joined.id,
          after: { name: joined.name, role, email },
        })
        return [...changes, { kind: 'change', id: entry.id, record: entry }]
      })
    const joined = await addNewPerson(store, clock, person, add)
    if (joined !== undefined) return joined
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
